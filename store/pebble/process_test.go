package pebble

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// childMode names what the test binary does instead of tests, childDir where.
const (
	childMode = "PLACED_PEBBLE_CHILD"
	childDir  = "PLACED_PEBBLE_DIR"
)

// Exit codes of children.
const (
	childDone   = 0
	childFailed = 1
	childLocked = 9
)

func TestMain(m *testing.M) {
	mode := os.Getenv(childMode)
	if mode == "" {
		os.Exit(m.Run())
	}
	c := DefaultConfig(os.Getenv(childDir))
	c.MemTableBytes = 1 << 20
	c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	var err error
	switch mode {
	case "open":
		var s *Store
		if s, err = Open(c); err == nil {
			err = s.Close()
		}
	case "write":
		err = childWrite(c)
	case "fail":
		err = childFail(c)
	default:
		err = fmt.Errorf("unknown mode %q", mode)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	switch {
	case errors.Is(err, store.ErrLocked):
		os.Exit(childLocked)
	case err != nil:
		os.Exit(5)
	}
	os.Exit(childDone)
}

// child returns the command that runs this binary in a mode.
func child(t testing.TB, mode, dir string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+mode, childDir+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	return cmd, &stderr
}

// childWrite commits in several partitions without end and prints what was acknowledged.
func childWrite(c Config) error {
	s, err := Open(c)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, len(childPartitions))
	for i, p := range childPartitions {
		h, err := s.Head(nobodyWaits, p)
		if err != nil {
			return err
		}
		wg.Go(func() {
			for v := h.Version + 1; ; v++ {
				r, err := s.Commit(nobodyWaits, ledgerCommit(p, v))
				if err != nil || !r.Applied {
					errs <- fmt.Errorf("commit %d of %s: %+v, %w", v, p, r, err)
					return
				}
				if _, err := os.Stdout.WriteString(fmt.Sprintf("%d %d\n", i, v)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	return <-errs
}

var childPartitions = []store.Partition{store.Shard(0), store.Shard(1), store.Shard(2), store.Block(0), store.Block(board.NewBlockID(5, 5)), store.Settings()}

// childFail commits until a sync fails. It does not end by itself.
func childFail(c Config) error {
	n := 0
	c.FS = errorfs.Wrap(c.FS, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !logSync(op) {
			return nil
		}
		if n++; n > 20 {
			return syscall.EIO
		}
		return nil
	}))
	return childWrite(c)
}

// readAcks reads a child's acknowledgements until there are enough, calls end, and reads on to the last one.
func readAcks(t testing.TB, cmd *exec.Cmd, enough int, end func()) map[store.Partition]uint64 {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked := map[store.Partition]uint64{}
	n := 0
	for lines := bufio.NewScanner(out); lines.Scan(); n++ {
		var i int
		var v uint64
		if _, err := fmt.Sscanf(lines.Text(), "%d %d", &i, &v); err != nil {
			if n < enough {
				t.Fatalf("line %q: %v", lines.Text(), err)
			}
			break // cut short by the end
		}
		acked[childPartitions[i]] = v
		if n == enough {
			end()
		}
	}
	return acked
}

func wantAcked(t testing.TB, s *Store, acked map[store.Partition]uint64) {
	t.Helper()
	for _, p := range childPartitions {
		h := mustHead(t, s, p)
		if h.Version < acked[p] || h.Version > acked[p]+1 {
			t.Fatalf("%s: version %d, acknowledged %d", p, h.Version, acked[p])
		}
		if h.Version == 0 {
			continue
		}
		if want := ledgerCommit(p, h.Version).Head; fmt.Sprint(h) != fmt.Sprint(want) {
			t.Fatalf("%s: version %d has another head", p, h.Version)
		}
		check := checkRows
		if p.Journal() {
			check = checkJournal
		}
		if err := check(s, p, h.Version); err != nil {
			t.Fatalf("%s at version %d: %v", p, h.Version, err)
		}
	}
}

func TestKilledProcessLosesNothing(t *testing.T) {
	dir := t.TempDir()
	acked := map[store.Partition]uint64{} // of all rounds: in one of them a partition may not get its turn
	for round := range 3 {
		cmd, stderr := child(t, "write", dir)
		now := readAcks(t, cmd, 400, func() {
			if err := cmd.Process.Kill(); err != nil {
				t.Errorf("kill: %v", err)
			}
		})
		if err := cmd.Wait(); err == nil || stderr.Len() > 0 {
			t.Fatalf("round %d: the child ended by itself: %v\n%s", round, err, stderr)
		}
		maps.Copy(acked, now)
		s := mustOpen(t, testConfig(t, vfs.Default, dir))
		wantAcked(t, s, acked)
		mustClose(t, s)
	}
}

func TestFailedSyncEndsARealProcess(t *testing.T) {
	dir := t.TempDir()
	cmd, stderr := child(t, "fail", dir)
	acked := readAcks(t, cmd, 1<<30, func() {})
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != childFailed {
		t.Fatalf("the child ended with %v, want exit code %d\n%s", err, childFailed, stderr)
	}
	if got := stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "the process ends") || !strings.Contains(got, dir) {
		t.Fatalf("the child said:\n%s", got)
	}
	if len(acked) == 0 {
		t.Fatal("nothing was acknowledged before the failure")
	}
	s := mustOpen(t, testConfig(t, vfs.Default, dir))
	defer mustClose(t, s)
	wantAcked(t, s, acked)
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, testConfig(t, vfs.Default, dir))
	cmd, stderr := child(t, "open", dir)
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != childLocked {
		t.Fatalf("a second process ended with %v, want exit code %d\n%s", err, childLocked, stderr)
	}
	if got := stderr.String(); !strings.Contains(got, dir) || !strings.Contains(got, "in use by another process") {
		t.Fatalf("it said:\n%s", got)
	}
	if other, err := Open(testConfig(t, vfs.Default, dir)); !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("a second store in this process: %v, %v, want ErrLocked", other, err)
	}
	mustCommit(t, s, testCommit(store.Shard(0), 1, 1, 0)) // the first one goes on
	mustClose(t, s)
	cmd, stderr = child(t, "open", dir)
	if err := cmd.Run(); err != nil {
		t.Fatalf("a process after the first one: %v\n%s", err, stderr)
	}
}

func TestUnusableDirectory(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(testConfig(t, vfs.Default, file)); err == nil || errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), file) {
		t.Fatalf("a store in a file: %v, %v", s, err)
	}
}

// TestCorruptTable damages the engine's own files: reads say so and the process goes on.
func TestCorruptTable(t *testing.T) {
	dir := t.TempDir()
	c := testConfig(t, vfs.Default, dir)
	c.Logger = slog.New(slog.DiscardHandler)
	s := mustOpen(t, c)
	p := store.Shard(0)
	mustCommit(t, s, testCommit(p, 1, 1, 100))
	if err := s.PutSnapshot(t.Context(), 0, store.Snapshot{Version: 1, Data: []byte("data")}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for _, name := range names {
		if !strings.HasSuffix(name.Name(), ".sst") {
			continue
		}
		data, err := os.ReadFile(dir + "/" + name.Name())
		if err != nil {
			t.Fatal(err)
		}
		data[20] ^= 0x10 // in the first block of data
		if err := os.WriteFile(dir+"/"+name.Name(), data, 0o600); err != nil {
			t.Fatal(err)
		}
		damaged++
	}
	if damaged == 0 {
		t.Fatal("no table to damage")
	}
	s = mustOpen(t, c)
	defer mustClose(t, s)
	if h, err := s.Head(t.Context(), p); !errors.Is(err, store.ErrCorrupt) {
		t.Fatalf("head from a damaged table: %+v, %v, want ErrCorrupt", h, err)
	}
	if _, err := s.Commit(t.Context(), testCommit(p, 2, 2, 0)); !errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrUnknown) {
		t.Fatalf("commit over a damaged head: %v, want ErrCorrupt", err)
	}
	if snap, err := s.Snapshot(t.Context(), 0, 9); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("snapshot from a damaged table: %+v, %v, want ErrNotFound", snap, err)
	}
}
