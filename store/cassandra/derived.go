package cassandra

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// snapshotSlots is how many snapshots of a block are kept. With more than the two that are promised, an old owner that
// writes its last one at the same time as the new owner its first does no harm.
const snapshotSlots = 4

// stampStep is the distance of two versions' timestamps; between them there is room to replace a snapshot of one version.
const stampStep = 1024

// Plain statements carry timestamps of their own: where two writes meet, the order of versions decides and not the clocks'.
const (
	blockTouch = "INSERT INTO blocks (board, block) VALUES (?, ?) USING TIMESTAMP 1"
	blockSeen  = "INSERT INTO blocks (board, block, seen) VALUES (?, ?, true) USING TIMESTAMP 1"
	blockList  = "SELECT block, seen FROM blocks WHERE board = ?"

	snapshotSlotList = "SELECT slot, version, WRITETIME(version) FROM snapshots WHERE block = ?"
	snapshotRead     = "SELECT version, data FROM snapshots WHERE block = ? AND slot = ?"
	snapshotWrite    = "INSERT INTO snapshots (block, slot, version, data) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
)

// touch lists a block before its first commit, so that no block with commits is ever missing from the list.
func (s *Store) touch(ctx context.Context, b board.BlockID) error {
	err := s.plain(ctx, blockTouch, boardID, int(b)).Exec()
	s.health.note(ctx, err)
	return err
}

// markSeen notes that a listed block has a commit. A failure does no harm: Blocks looks for itself then.
func (s *Store) markSeen(ctx context.Context, b board.BlockID) {
	_ = s.plain(ctx, blockSeen, boardID, int(b)).Exec()
}

// Blocks implements store.Store. A block that is listed without the note that it has a commit is looked at: its first
// commit may have failed for good.
func (s *Store) Blocks(ctx context.Context) ([]board.BlockID, error) {
	var blocks, doubtful []board.BlockID
	err := s.read(ctx, "list the blocks", func() error {
		it := s.plain(ctx, blockList, boardID).Iter()
		block, seen := 0, false
		for ; it.Scan(&block, &seen); seen = false {
			if seen {
				blocks = append(blocks, board.BlockID(block))
			} else {
				doubtful = append(doubtful, board.BlockID(block))
			}
		}
		return it.Close()
	})
	if err != nil {
		return nil, err
	}
	for _, b := range doubtful {
		h, err := s.Head(ctx, store.Block(b))
		if err != nil {
			return nil, err
		}
		if h.Version > 0 {
			s.markSeen(ctx, b)
			blocks = append(blocks, b)
		}
	}
	slices.Sort(blocks)
	return blocks, nil
}

// slot is one of a block's places for a snapshot; version 0 says that it is empty.
type slot struct {
	index   int
	version uint64
	stamp   int64 // the timestamp of the write
}

// slots returns a block's slots, newest version first, the empty ones last.
func (s *Store) slots(ctx context.Context, b board.BlockID) ([]slot, error) {
	slots := make([]slot, snapshotSlots)
	for i := range slots {
		slots[i].index = i
	}
	err := s.read(ctx, "list the snapshots of "+store.Block(b).String(), func() error {
		it := s.plain(ctx, snapshotSlotList, int(b)).Iter()
		index, version, stamp := 0, int64(0), int64(0)
		for it.Scan(&index, &version, &stamp) {
			if index >= 0 && index < snapshotSlots {
				slots[index] = slot{index, uint64(version), stamp}
			}
		}
		return it.Close()
	})
	slices.SortStableFunc(slots, func(a, b slot) int { return cmp.Compare(b.version, a.version) })
	return slots, err
}

// PutSnapshot implements store.Store: it overwrites the slot with the lowest version, and does nothing when all of them are
// newer than snap. One of the same version is replaced.
func (s *Store) PutSnapshot(ctx context.Context, b board.BlockID, snap store.Snapshot) error {
	if err := snap.Validate(); err != nil {
		return err
	}
	slots, err := s.slots(ctx, b)
	if err != nil {
		return err
	}
	into := slots[len(slots)-1]
	for _, sl := range slots {
		if sl.version == snap.Version {
			into = sl
		}
	}
	if snap.Version < into.version {
		return nil
	}
	// Later than what was found there, and later than a write of a lower version that is still under way.
	stamp := max(int64(snap.Version)*stampStep, into.stamp+1)
	return s.read(ctx, "write a snapshot of "+store.Block(b).String(), func() error {
		return s.plain(ctx, snapshotWrite, int(b), into.index, int64(snap.Version), sealSnapshot(&snap), stamp).Exec()
	})
}

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context, b board.BlockID, most uint64) (store.Snapshot, error) {
	slots, err := s.slots(ctx, b)
	if err != nil {
		return store.Snapshot{}, err
	}
	s.hear(store.Block(b), slots[0].version)
	for _, sl := range slots {
		if sl.version == 0 || sl.version > most {
			continue
		}
		var v int64
		var data []byte
		err := s.read(ctx, "snapshot of "+store.Block(b).String(), func() error {
			return s.plain(ctx, snapshotRead, int(b), sl.index).Scan(&v, &data)
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return store.Snapshot{}, err
		}
		if snap, ok := openSnapshot(uint64(v), data); ok && snap.Version <= most {
			return snap, nil
		}
	}
	return store.Snapshot{}, fmt.Errorf("cassandra: snapshot of %s up to version %d: %w", store.Block(b), most, store.ErrNotFound)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// snapshotCRC covers the version too: it lies in another column.
func snapshotCRC(version uint64, data []byte) uint32 {
	return crc32.Update(crc32.Checksum(binary.LittleEndian.AppendUint64(nil, version), castagnoli), castagnoli, data)
}

// sealSnapshot puts the checksum before the data.
func sealSnapshot(s *store.Snapshot) []byte {
	b := make([]byte, 0, 4+len(s.Data))
	return append(binary.LittleEndian.AppendUint32(b, snapshotCRC(s.Version, s.Data)), s.Data...)
}

func openSnapshot(version uint64, b []byte) (store.Snapshot, bool) {
	if len(b) < 4 || binary.LittleEndian.Uint32(b) != snapshotCRC(version, b[4:]) {
		return store.Snapshot{}, false
	}
	return store.Snapshot{Version: version, Data: b[4:]}, true
}
