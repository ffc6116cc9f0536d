package pebble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"github.com/placed-board/placed/internal/smalldisk"
	"github.com/placed-board/placed/store"
)

// TestRealFullDisk fills a small file system of the kernel to the last byte and makes room again.
// Where mounting is not allowed TestLowSpaceIsTold and TestFullDiskHeals alone stand for it.
func TestRealFullDisk(t *testing.T) {
	const diskBytes, lowWater = 24 << 20, 8 << 20
	mount, ok := smalldisk.Mount(t, diskBytes)
	if !ok {
		t.Log("no right to mount: the simulated disk must do")
		return
	}
	c := testConfig(t, vfs.Default, filepath.Join(mount, "store"))
	c.MemTableBytes, c.LowWaterBytes = 1<<20, lowWater
	c.Logger = slog.New(slog.DiscardHandler)
	s := mustOpen(t, c)
	p := store.Block(0)
	v := uint64(0)
	ctx, cancel := context.WithCancel(t.Context())
	commit := func() error {
		r, err := s.Commit(ctx, testCommit(p, v+1, v+1, 20_000))
		if err == nil && !r.Applied {
			err = fmt.Errorf("conflict with %+v", r.Head)
		}
		if err == nil {
			v++
		}
		return err
	}
	for !s.Health(t.Context()).Tight {
		if err := commit(); err != nil {
			t.Fatalf("with space left: %v", err)
		}
		if v > diskBytes/20_000 {
			t.Fatal("more written than the disk holds, and it was never tight")
		}
	}
	if h := s.Health(t.Context()); h.Err != nil || h.FreeBytes >= lowWater || h.FreeBytes == 0 {
		t.Fatalf("health %+v", h)
	}
	for range 32 { // open charges still land
		if err := commit(); err != nil {
			t.Fatalf("below the low water mark: %v", err)
		}
	}
	filler := fill(t, mount)
	answer := make(chan error)
	go func() {
		for {
			if err := commit(); err != nil {
				answer <- err
				return
			}
		}
	}()
	await(t, "the disk to be full", s.guard.full)
	if h := s.Health(t.Context()); !errors.Is(h.Err, store.ErrFull) || !h.Tight {
		t.Fatalf("health %+v", h)
	}
	if _, err := s.Commit(t.Context(), testCommit(store.Shard(0), 1, 1, 0)); !errors.Is(err, store.ErrFull) {
		t.Fatalf("commit on a full disk: %v, want ErrFull", err)
	}
	cancel()
	if err := <-answer; !errors.Is(err, store.ErrFull) && !errors.Is(err, context.Canceled) {
		t.Fatalf("the writer ended with %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	await(t, "the store to go on", func() bool { return !s.guard.full() })
	r, err := s.Commit(t.Context(), testCommit(p, v+1, v+1, 20_000)) // the same again
	if err != nil || (!r.Applied && r.Head.Attempt != v+1) {
		t.Fatalf("the commit of unknown outcome, sent again: %+v, %v", r, err)
	}
	mustCommit(t, s, testCommit(p, v+2, v+2, 20_000))
	mustClose(t, s)
	s = mustOpen(t, c)
	if h := mustHead(t, s, p); h.Version != v+2 {
		t.Fatalf("version %d after a restart, acknowledged %d", h.Version, v+2)
	}
	mustClose(t, s)
}

// fill makes a file that takes all space left.
func fill(t testing.TB, dir string) string {
	t.Helper()
	f, err := os.CreateTemp(dir, "filler")
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(chunk)
	}
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
		t.Fatalf("fill: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}
