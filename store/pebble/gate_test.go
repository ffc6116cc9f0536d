package pebble

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/placed-board/placed/store"
)

// awaitMax bounds every wait of the tests.
const awaitMax = 30 * time.Second

// await waits until the condition holds; it fails the test after awaitMax.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for start := time.Now(); !holds(); runtime.Gosched() {
		if time.Since(start) > awaitMax {
			t.Fatalf("waited %s in vain for %s", awaitMax, what)
		}
	}
}

func wantUnknown(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("%v, want ErrUnknown", err)
	}
}

// syncGate is a file system whose syncs of the engine's log count, and wait while the gate is shut.
type syncGate struct {
	vfs.FS
	mu      sync.Mutex
	changed sync.Cond
	closed  bool
	begun   int
}

func newSyncGate(fs vfs.FS) *syncGate {
	g := &syncGate{FS: fs}
	g.changed.L = &g.mu
	return g
}

func (g *syncGate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.begun = true, 0
}

func (g *syncGate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	g.changed.Broadcast()
}

// syncs returns the syncs begun since the gate was shut.
func (g *syncGate) syncs() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.begun
}

func (g *syncGate) waitForSyncs(t testing.TB, n int) {
	t.Helper()
	await(t, "a sync to begin", func() bool { return g.syncs() >= n })
}

func (g *syncGate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begun++
	for g.closed {
		g.changed.Wait()
	}
}

func (g *syncGate) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.wrap(name)(g.FS.Create(name, c))
}

func (g *syncGate) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.wrap(newname)(g.FS.ReuseForWrite(oldname, newname, c))
}

func (g *syncGate) wrap(name string) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err != nil || !strings.HasSuffix(name, ".log") {
			return f, err
		}
		return gatedFile{f, g}, nil
	}
}

type gatedFile struct {
	vfs.File
	gate *syncGate
}

func (f gatedFile) Sync() error {
	f.gate.pass()
	return f.File.Sync()
}

func (f gatedFile) SyncData() error {
	f.gate.pass()
	return f.File.SyncData()
}

// nobodyWaits is the context of calls that run to their end.
var nobodyWaits = context.Background()
