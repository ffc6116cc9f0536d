package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard is the file system under the engine. The engine takes a write that fails for want of space in its log or its
// manifest as the end, and a compaction may eat the last space that open charges need. So:
//
//   - once the store is open, a write or a creation that finds the disk full waits and is tried again, until it succeeds or
//     the store closes. Commits wait with it. A sync that fails is never tried again: nothing is known then about what the
//     disk holds.
//   - a compaction starts no new file while less than lowWater is free. While the store opens it fails instead.
//
// Deletions pass, so that space comes back. While the store opens no write waits: Open fails with the reason instead.
type guard struct {
	vfs.FS
	dir      string
	lowWater uint64
	logger   *slog.Logger
	fail     func(cause string) // ends the process
	active   atomic.Bool        // set once the store is open
	waiting  atomic.Int32       // writes that found the disk full and wait
	held     atomic.Int32       // compactions that wait for low water to end
	stopped  chan struct{}      // closed when the store closes
}

// fullRetry is the time between two tries of a write that found the disk full.
const fullRetry = 200 * time.Millisecond

// compactionCategory is how the engine marks the files that a compaction writes.
const compactionCategory vfs.DiskWriteCategory = "pebble-compaction"

// errHeld fails a compaction that would have to wait for space while the store opens or closes; its inputs are untouched.
var errHeld = errors.New("too little free space for a compaction")

func newGuard(c Config, fs vfs.FS, fail func(cause string)) *guard {
	return &guard{FS: fs, dir: c.Dir, lowWater: uint64(c.LowWaterBytes), logger: c.Logger, fail: fail, stopped: make(chan struct{})}
}

// stop ends all waiting: what waits fails. Called once.
func (g *guard) stop() { close(g.stopped) }

// full reports whether a write waits for space.
func (g *guard) full() bool { return g.waiting.Load() > 0 }

// free returns the bytes left; known is false where the file system does not tell.
func (g *guard) free() (bytes uint64, known bool) {
	usage, err := g.FS.GetDiskUsage(g.dir)
	return usage.AvailBytes, err == nil
}

func (g *guard) tight() bool {
	free, known := g.free()
	return known && free < g.lowWater
}

// retry does op again and again while the disk is full.
func (g *guard) retry(name string, op func() error) error {
	err := op()
	if err == nil || !vfs.IsNoSpaceError(err) || !g.active.Load() {
		return err
	}
	if g.waiting.Add(1) == 1 {
		g.logger.Error("disk full: commits wait until there is space", "dir", g.dir, "file", name, "error", err)
	}
	defer func() {
		if g.waiting.Add(-1) == 0 && err == nil {
			g.logger.Info("disk has space again: commits go on", "dir", g.dir)
		}
	}()
	for vfs.IsNoSpaceError(err) && g.pause() {
		err = op()
	}
	return err
}

// pause waits for fullRetry; false when the store closes.
func (g *guard) pause() bool {
	t := time.NewTimer(fullRetry)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-g.stopped:
		return false
	}
}

// hold keeps a compaction from making a file while space is low.
func (g *guard) hold(category vfs.DiskWriteCategory) error {
	if category != compactionCategory || !g.tight() {
		return nil
	}
	if !g.active.Load() {
		return errHeld // opening waits for the compactions that it starts; they are scheduled again
	}
	if g.held.Add(1) == 1 {
		g.logger.Warn("little disk space: compactions wait", "dir", g.dir)
	}
	defer g.held.Add(-1)
	for g.tight() {
		if !g.pause() {
			return errHeld
		}
	}
	return nil
}

// Create implements vfs.FS.
func (g *guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.hold(category); err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	return g.make(name, func() (vfs.File, error) { return g.FS.Create(name, category) })
}

// OpenReadWrite implements vfs.FS.
func (g *guard) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.make(name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, category, opts...) })
}

// ReuseForWrite implements vfs.FS.
func (g *guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.make(newname, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, category) })
}

// Rename implements vfs.FS.
func (g *guard) Rename(oldname, newname string) error {
	return g.vital(newname, g.retry(newname, func() error { return g.FS.Rename(oldname, newname) }))
}

// Unwrap implements vfs.FS.
func (g *guard) Unwrap() vfs.FS { return g.FS }

func (g *guard) make(name string, create func() (vfs.File, error)) (f vfs.File, err error) {
	err = g.retry(name, func() error {
		f, err = create()
		return err
	})
	if err != nil {
		return nil, g.vital(name, err)
	}
	return &guardedFile{File: f, guard: g, name: name}, nil
}

// OpenDir implements vfs.FS.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	d, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardedDir{File: d, guard: g, name: name}, nil
}

// guardedDir is a directory open for syncing.
type guardedDir struct {
	vfs.File
	guard *guard
	name  string
}

// Sync implements vfs.File.
func (d *guardedDir) Sync() error { return d.guard.vital(d.name, d.File.Sync()) }

// vital ends the process at an error of a file that the engine cannot do without: its log, its manifest, its markers and the
// directory itself. The engine would end it too, but by panics in its own goroutines that no operator can read. Tables are
// not vital: the engine writes them again from what it has.
func (g *guard) vital(name string, err error) error {
	if err != nil && g.active.Load() && !strings.HasSuffix(name, ".sst") {
		g.fail(fmt.Sprintf("%s: %v", name, err))
	}
	return err
}

// guardedFile is a file open for writing.
type guardedFile struct {
	vfs.File
	guard *guard
	name  string
}

// Write implements vfs.File; what is left of a partial write is tried again.
func (f *guardedFile) Write(p []byte) (n int, err error) {
	err = f.guard.retry(f.name, func() error {
		m, err := f.File.Write(p[n:])
		n += m
		return err
	})
	return n, f.guard.vital(f.name, err)
}

// Sync implements vfs.File.
func (f *guardedFile) Sync() error { return f.guard.vital(f.name, f.File.Sync()) }

// SyncData implements vfs.File.
func (f *guardedFile) SyncData() error { return f.guard.vital(f.name, f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f *guardedFile) SyncTo(length int64) (fullSync bool, err error) {
	fullSync, err = f.File.SyncTo(length)
	return fullSync, f.guard.vital(f.name, err)
}
