// Package mem keeps a board in memory, for tests and for trying things out.
//
// Core is the data alone: synchronous methods that never wait, no goroutines, no clock, no randomness. A single-threaded
// simulation calls it directly and decides itself when a commit arrives; the iteration methods show everything for checks
// of the invariants. Store is a store.Store over a Core whose Script decides call by call what happens: unknown outcomes,
// late arrivals, conflicts, slowness. Several Stores over one Core behave like the nodes of a cluster on a shared store.
package mem

import (
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sync"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// snapshotsKept is how many snapshots of a block are kept: the newest ones.
const snapshotsKept = 2

// Core is the content of a store. Its methods may be called from many goroutines; each takes effect at once. What they
// return is shared with the Core and must not be changed.
type Core struct {
	mu         sync.Mutex // guards everything below
	meta       *store.Meta
	partitions map[store.Partition]*partition
	snapshots  map[board.BlockID][]snapshot // ascending versions
	health     store.Health
	applied    uint64
}

type partition struct {
	head    store.Head
	rows    map[string][]byte
	journal [][]byte // the row of version n at n-1
}

type snapshot struct {
	store.Snapshot
	crc uint32
}

func (s *snapshot) valid() bool { return crc32.Checksum(s.Data, castagnoli) == s.crc }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NewCore returns an empty Core.
func NewCore() *Core {
	return &Core{partitions: map[store.Partition]*partition{}, snapshots: map[board.BlockID][]snapshot{}}
}

// Commit makes the conditional write if the partition's version is the one before c's. The commit is copied. A commit that
// fails store.Commit.Validate panics: here the caller is always our own code.
func (c *Core) Commit(commit *store.Commit) store.Result {
	if err := commit.Validate(); err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitions[commit.Partition]
	if p == nil {
		p = &partition{}
	}
	if p.head.Version != commit.Head.Version-1 {
		return store.Result{Head: p.head}
	}
	c.partitions[commit.Partition] = p
	p.head = commit.Head.Clone()
	if commit.Partition.Journal() {
		p.journal = append(p.journal, slices.Clone(commit.Rows[0].Value))
	} else if p.rows == nil {
		p.rows = make(map[string][]byte, len(commit.Rows))
	}
	if !commit.Partition.Journal() {
		for _, r := range commit.Rows {
			p.rows[r.Key] = slices.Clone(r.Value)
		}
	}
	c.applied++
	return store.Result{Applied: true}
}

// Applied returns how many commits have been applied.
func (c *Core) Applied() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applied
}

// Partitions returns every partition that has a commit, by class and index.
func (c *Core) Partitions() []store.Partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.partitions), func(a, b store.Partition) int {
		if a.Class != b.Class {
			return int(a.Class) - int(b.Class)
		}
		return int(a.Index) - int(b.Index)
	})
}

// Head returns the partition's head, the zero Head when it has no commit.
func (c *Core) Head(p store.Partition) store.Head {
	c.mu.Lock()
	defer c.mu.Unlock()
	if part := c.partitions[p]; part != nil {
		return part.head
	}
	return store.Head{}
}

// Row returns a shard's row; ok is false when there is none.
func (c *Core) Row(p store.Partition, key string) (value []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if part := c.partitions[p]; part != nil {
		value, ok = part.rows[key]
	}
	return value, ok
}

// Rows returns a shard's rows by ascending key.
func (c *Core) Rows(p store.Partition) []store.Row {
	c.mu.Lock()
	defer c.mu.Unlock()
	part := c.partitions[p]
	if part == nil {
		return nil
	}
	out := make([]store.Row, 0, len(part.rows))
	for _, key := range slices.Sorted(maps.Keys(part.rows)) {
		out = append(out, store.Row{Key: key, Value: part.rows[key]})
	}
	return out
}

// Journal returns a journal's commits with versions >= from, ascending and without gap.
func (c *Core) Journal(p store.Partition, from uint64) []store.JournalEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	part := c.partitions[p]
	from = max(from, 1)
	if part == nil || from > uint64(len(part.journal)) {
		return nil
	}
	out := make([]store.JournalEntry, 0, uint64(len(part.journal))-from+1)
	for i := from - 1; i < uint64(len(part.journal)); i++ {
		out = append(out, store.JournalEntry{Version: i + 1, Value: part.journal[i]})
	}
	return out
}

// Blocks returns the blocks that have a commit, in ascending order.
func (c *Core) Blocks() []board.BlockID {
	var out []board.BlockID
	for _, p := range c.Partitions() {
		if p.Class == store.ClassBlock {
			out = append(out, board.BlockID(p.Index))
		}
	}
	return out
}

// PutSnapshot stores a block's snapshot and keeps the two newest that are not corrupt; one that fails Validate panics.
func (c *Core) PutSnapshot(b board.BlockID, s store.Snapshot) {
	if err := s.Validate(); err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := slices.DeleteFunc(c.snapshots[b], func(k snapshot) bool { return k.Version == s.Version || !k.valid() })
	s.Data = slices.Clone(s.Data)
	kept = append(kept, snapshot{s, crc32.Checksum(s.Data, castagnoli)})
	slices.SortFunc(kept, func(a, b snapshot) int {
		if a.Version < b.Version {
			return -1
		}
		return 1
	})
	if len(kept) > snapshotsKept {
		kept = slices.Delete(kept, 0, len(kept)-snapshotsKept)
	}
	c.snapshots[b] = kept
}

// Snapshot returns the block's newest valid snapshot with a version <= most; ok is false when there is none.
func (c *Core) Snapshot(b board.BlockID, most uint64) (s store.Snapshot, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range slices.Backward(c.snapshots[b]) {
		if k.Version <= most && k.valid() {
			return k.Snapshot, true
		}
	}
	return store.Snapshot{}, false
}

// CorruptSnapshot flips a bit of the block's snapshot of that version, which its checksum then tells. It reports whether
// there is such a snapshot.
func (c *Core) CorruptSnapshot(b board.BlockID, version uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.snapshots[b] {
		k := &c.snapshots[b][i]
		if k.Version != version {
			continue
		}
		if len(k.Data) == 0 {
			k.crc ^= 1
			return true
		}
		k.Data = slices.Clone(k.Data)
		k.Data[len(k.Data)/2] ^= 0x10
		return true
	}
	return false
}

// Meta returns the board's description; ok is false before Create.
func (c *Core) Meta() (m store.Meta, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.meta == nil {
		return store.Meta{}, false
	}
	return *c.meta, true
}

// Create writes the board's description; it reports false when there is one already.
func (c *Core) Create(m store.Meta) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.meta != nil {
		return false
	}
	c.meta = &m
	return true
}

// SetHealth sets what Health answers from now on.
func (c *Core) SetHealth(h store.Health) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health = h
}

// Health returns what SetHealth set last.
func (c *Core) Health() store.Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health
}

// Clone returns a copy that shares nothing that can change: the state of this moment, to compare or to go on from.
func (c *Core) Clone() *Core {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := NewCore()
	out.health, out.applied = c.health, c.applied
	if c.meta != nil {
		m := *c.meta
		out.meta = &m
	}
	for id, p := range c.partitions {
		out.partitions[id] = &partition{head: p.head, rows: maps.Clone(p.rows), journal: slices.Clone(p.journal)}
	}
	for b, kept := range c.snapshots {
		out.snapshots[b] = slices.Clone(kept)
	}
	return out
}

// Rival returns a commit by another owner that makes the partition's next version and changes nothing else: the state
// stays, a block's journal gets an entry without placements, the settings' and the invites' journal its newest document again.
func (c *Core) Rival(p store.Partition, owner store.Owner, attempt uint64) *store.Commit {
	head := c.Head(p)
	out := &store.Commit{Partition: p, Head: store.Head{Version: head.Version + 1, Attempt: attempt, Owner: owner, State: head.State}}
	switch p.Class {
	case store.ClassBlock:
		out.Rows = []store.Row{{Value: new(store.BlockCommit).AppendTo(nil)}}
	case store.ClassSettings, store.ClassInvites:
		value := []byte("{}")
		if j := c.Journal(p, head.Version); len(j) == 1 {
			value = j[0].Value
		}
		out.Rows = []store.Row{{Value: value}}
	case store.ClassShard:
	default:
		panic(fmt.Sprintf("mem: rival for %s", p))
	}
	return out
}
