package pebble

import (
	"context"
	"errors"
	"fmt"
	"sync"

	engine "github.com/cockroachdb/pebble/v2"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// PutSnapshot writes a snapshot over the older of the block's two, or over a corrupt one. It is not synced: lost with the
// power it costs a longer replay, nothing else.
func (s *Store) PutSnapshot(ctx context.Context, b board.BlockID, snap store.Snapshot) error {
	if err := snap.Validate(); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	if s.guard.full() {
		return fmt.Errorf("store/pebble: snapshot %d of %s: %w", snap.Version, store.Block(b), store.ErrFull)
	}
	mu := s.snapshotLock(b)
	mu.Lock()
	defer mu.Unlock()
	kept, err := s.readSnapshots(b)
	if err != nil {
		return err
	}
	slot := 0
	for i, k := range kept {
		if k.Version == snap.Version {
			slot = i
			break
		}
		if k.Version < kept[slot].Version { // corrupt and empty ones have version 0
			slot = i
		}
	}
	if kept[slot].Version > snap.Version {
		return nil // late: both are newer
	}
	key := snapshotKey(b, slot)
	batch := s.db.NewBatch()
	err = batch.Set(key, encodeSnapshot(key, &snap), nil)
	if err == nil {
		err = s.apply(batch, engine.NoSync)
	}
	if err != nil {
		return fmt.Errorf("store/pebble: snapshot %d of %s: %w", snap.Version, store.Block(b), err)
	}
	return nil
}

func (s *Store) snapshotLock(b board.BlockID) *sync.Mutex {
	return &s.snapshots[int(b)%len(s.snapshots)]
}

// readSnapshots returns the block's snapshots by slot; one that is missing or corrupt is zero.
func (s *Store) readSnapshots(b board.BlockID) (out [snapshotSlots]store.Snapshot, err error) {
	for slot := range out {
		key := snapshotKey(b, slot)
		v, err := s.get(key)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return out, err
		}
		if v == nil {
			continue
		}
		snap, ok := decodeSnapshot(key, v)
		if !ok {
			s.config.Logger.Warn("store: corrupt snapshot, the journal replaces it", "dir", s.config.Dir, "block", store.Block(b).String(), "slot", slot)
			continue
		}
		out[slot] = snap
	}
	return out, nil
}

// Snapshot returns the newest valid snapshot up to a version.
func (s *Store) Snapshot(ctx context.Context, b board.BlockID, most uint64) (store.Snapshot, error) {
	if err := s.begin(ctx); err != nil {
		return store.Snapshot{}, err
	}
	defer s.calls.Done()
	mu := s.snapshotLock(b)
	mu.Lock()
	defer mu.Unlock()
	kept, err := s.readSnapshots(b)
	if err != nil {
		return store.Snapshot{}, err
	}
	var best store.Snapshot
	for _, k := range kept {
		if k.Version <= most && k.Version > best.Version {
			best = k
		}
	}
	if best.Version == 0 {
		return store.Snapshot{}, fmt.Errorf("store/pebble: snapshot of %s: %w", store.Block(b), store.ErrNotFound)
	}
	return best, nil
}
