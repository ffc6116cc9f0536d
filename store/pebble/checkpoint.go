package pebble

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/placed-board/placed/store"
)

// checkpointSuffix makes the name of the directory of a checkpoint, beside the store's own: on the same disk, so that tables are
// linked and not copied.
const checkpointSuffix = ".checkpoint"

// Checkpoint implements store.Checkpointer. Whatever was answered before the call is in it. Commits go on meanwhile; tables that
// the engine replaces keep their space until release. One checkpoint at a time.
func (s *Store) Checkpoint(ctx context.Context) (dir string, release func() error, err error) {
	if err := s.begin(ctx); err != nil {
		return "", nil, err
	}
	defer s.calls.Done()
	if s.guard.full() || s.guard.tight() {
		return "", nil, fmt.Errorf("store/pebble: checkpoint: directory %s: %w", s.config.Dir, store.ErrFull)
	}
	if !s.checkpoint.TryLock() {
		return "", nil, fmt.Errorf("store/pebble: checkpoint: %w: another one is under way", store.ErrBusy)
	}
	dir = s.config.Dir + checkpointSuffix
	release = func() error {
		defer s.checkpoint.Unlock()
		return s.config.FS.RemoveAll(dir)
	}
	if err = s.config.FS.RemoveAll(dir); err == nil {
		err = s.makeCheckpoint(dir)
	}
	if err != nil {
		return "", nil, fmt.Errorf("store/pebble: checkpoint: %w", errors.Join(err, release()))
	}
	return dir, release, nil
}

// makeCheckpoint fills dir with a whole store; the engine's panics become errors.
func (s *Store) makeCheckpoint(dir string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("engine: %v", r)
		}
	}()
	if err := s.db.Checkpoint(dir, engine.WithFlushedWAL()); err != nil {
		return err
	}
	if s.hasFailed() {
		return errFailed
	}
	f := s.config.FS
	return vfs.Copy(f, f.PathJoin(s.config.Dir, formatFile), f.PathJoin(dir, formatFile))
}

// Renew gives the board another identity: it goes on from what the store holds, and nobody takes it for the board that it was.
// No node may run on the store.
func (s *Store) Renew(ctx context.Context, epoch uint64) error {
	m, err := s.Meta(ctx)
	if err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	s.create.Lock()
	defer s.create.Unlock()
	m.Epoch = epoch
	v, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("store/pebble: renew: %w", err)
	}
	b := s.db.NewBatch()
	if err = b.Set(metaKey(), v, nil); err == nil {
		err = s.apply(b, engine.Sync)
	}
	if err != nil {
		return fmt.Errorf("store/pebble: renew: %w", err)
	}
	return nil
}

// Lock takes a directory for this process until it is closed, or answers store.ErrLocked.
func Lock(dir string) (*engine.Lock, error) { return lockDir(vfs.Default, dir) }

// Free returns the bytes that are left on the disk of a directory; an error where the system does not tell.
func Free(dir string) (uint64, error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	return usage.AvailBytes, err
}
