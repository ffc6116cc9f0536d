package system_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/placed-board/placed/internal/smalldisk"
)

// Sizes of the small disk. Below 256 MiB of free space a node charges nobody.
const (
	smallDiskBytes = 512 << 20
	leaveBytes     = 200 << 20 // what is left of it when it is low
)

// TestFullDisk takes the space away from a node in a storm, first nearly and then wholly: placements are refused with the
// reason, what was promised before lands, boards are still served, and all goes on when there is space again (I2, I8).
func TestFullDisk(t *testing.T) {
	disk, ok := smalldisk.Mount(t, smallDiskBytes)
	if !ok {
		t.Skip("no right to mount a small disk: TestFullDiskHeals of store/pebble has a simulated one")
	}
	t.Parallel()
	n := newNode(t, "--width", "300", "--height", "250", "--cooldown", "50ms")
	n.dir = filepath.Join(disk, "data")
	n.start()
	load := stormy()
	load.attack = 0 // refusals of the moment would hide those of this test
	s := startStorm(t, n, load)
	s.everyone()
	filler := filepath.Join(disk, "filler")
	giveBack := func() {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	for _, leave := range []int64{leaveBytes, 0} {
		takeSpace(t, filler, leave)
		s.storeRefuses()
		n.awaitNotReady("store: ")
		giveBack()
		s.everyone()
		n.awaitReady()
	}
	takeSpace(t, filler, 0)
	s.storeRefuses()
	n.signal(syscall.SIGTERM) // it may not be able to tidy up, which is no reason to hang or to lose anything
	t.Logf("SIGTERM on a full disk: code %d", n.awaitEnd(stopWithin))
	n.launch()
	if code := n.awaitEnd(refusedWithin); code != 1 || !strings.Contains(n.stderr.String(), "no space left") {
		t.Errorf("a start on a full disk ended with code %d:\n%s", code, n.stderr.String())
	}
	giveBack()
	n.start()
	s.everyone()
	s.judge()
}

// takeSpace makes a file that leaves so many bytes, 0 for none at all.
func takeSpace(t *testing.T, filler string, leave int64) {
	t.Helper()
	var stat unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(filler), &stat); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if leave > 0 {
		if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(stat.Bavail)*stat.Bsize-leave); err != nil {
			t.Fatalf("take space: %v", err)
		}
		return
	}
	for at, piece := int64(0), int64(smallDiskBytes); piece >= stat.Bsize; {
		switch err := unix.Fallocate(int(f.Fd()), 0, at, piece); {
		case err == nil:
			at += piece
		case errors.Is(err, unix.ENOSPC):
			piece /= 2
		case !errors.Is(err, unix.EINTR):
			t.Fatalf("take all space: %v", err)
		}
	}
}

// storeRefuses waits until everybody is refused because of the store, or told that nobody knows, as those are whose commits
// wait for space; sees that nobody is accepted any more, and that the board is still there to be read.
func (s *storm) storeRefuses() {
	s.t.Helper()
	refused := func() int { return s.ledger.answered("store") + s.ledger.answered("unknown") }
	was := refused()
	eventually(s.t, moreWithin, "placements to be refused", func() bool { return refused() >= was+len(s.users) })
	accepted := s.ledger.acceptances()
	was = refused()
	eventually(s.t, moreWithin, "more to be refused", func() bool { return refused() >= was+len(s.users) })
	if now := s.ledger.acceptances(); now > accepted+len(s.users) { // open charges land
		s.t.Errorf("%d placements were accepted while the store had no space", now-accepted)
	}
	if _, err := s.node.api().Board(s.t.Context()); err != nil {
		s.t.Errorf("the board of a node without space: %v", err)
	}
	for at, key := range s.ledger.newest() {
		tile, err := s.node.api().Tile(s.t.Context(), at.X, at.Y)
		if err != nil || tile.User != key.user {
			s.t.Errorf("a tile of a node without space: %+v, %v", tile, err)
		}
		break
	}
}

// awaitNotReady waits until readyz says why placements are refused.
func (n *node) awaitNotReady(words string) {
	n.t.Helper()
	eventually(n.t, moreWithin, "readyz to speak of "+words, func() bool {
		request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, n.url+"/readyz", nil)
		if err != nil {
			n.t.Fatal(err)
		}
		a := do(n.t, request)
		return a.status == http.StatusServiceUnavailable && strings.Contains(string(a.body), words)
	})
}
