package smalldisk

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Mount returns a directory of its own with room for so many bytes, gone at the end of the test; ok is false where this process
// has no right to mount (CAP_SYS_ADMIN). With that right a mount that fails, fails the test.
func Mount(t testing.TB, bytes int) (dir string, ok bool) {
	t.Helper()
	if !mayMount(t) {
		return "", false
	}
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(bytes)); err != nil {
		t.Fatalf("mount with the right to: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir, true
}

func mayMount(t testing.TB) bool {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return caps&(1<<unix.CAP_SYS_ADMIN) != 0
		}
	}
	t.Fatal("/proc/self/status tells no capabilities")
	return false
}
