package mem

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// slots is what Capabilities answers: as many as the embedded store likes.
const slots = 32

// Store is a store.Store over a Core.
type Store struct {
	core   *Core
	shared bool
	script atomic.Pointer[Script]
	calls  atomic.Uint64

	mu     sync.Mutex // guards what follows
	gate   chan struct{}
	late   []lateCommit // in the order of their calls
	slow   int
	closed bool
}

type lateCommit struct {
	commit *store.Commit
	after  int // further commits to let pass; negative: only at Release
}

var _ store.Store = (*Store)(nil)

// New returns a Store of its own, which is not shared with other nodes.
func New() *Store { return open(NewCore(), false) }

// Open returns a Store over data that other Stores may use too, like the nodes of a cluster.
func Open(core *Core) *Store { return open(core, true) }

func open(core *Core, shared bool) *Store {
	return &Store{core: core, shared: shared, gate: make(chan struct{})}
}

// Core returns the Store's data.
func (s *Store) Core() *Core { return s.core }

// SetScript replaces the script; nil lets everything do what it should.
func (s *Store) SetScript(script Script) { s.script.Store(&script) }

// Release lets all slow calls go on and attempts all late commits, in the order of their calls.
func (s *Store) Release() {
	s.mu.Lock()
	late := s.late
	s.late = nil
	close(s.gate)
	s.gate = make(chan struct{})
	s.mu.Unlock()
	for _, l := range late {
		s.core.Commit(l.commit)
	}
}

// Pending returns how many calls wait in Slow and how many commits are late.
func (s *Store) Pending() (slow, late int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slow, len(s.late)
}

// Drop forgets all late commits: they were lost on the way and will never arrive.
func (s *Store) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = nil
}

// begin asks the script, after the checks that every call makes first.
func (s *Store) begin(ctx context.Context, c Call) (Outcome, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return Outcome{}, fmt.Errorf("mem: %w", store.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return Outcome{}, fmt.Errorf("mem: not started: %w", err)
	}
	c.Number = s.calls.Add(1)
	script := s.script.Load()
	if script == nil || *script == nil {
		return Outcome{}, nil
	}
	o := (*script)(c)
	if o.kind == conflict && o.rival == nil {
		o.rival = s.core.Rival(c.Partition, RivalOwner, c.Number|RivalAttempt)
	}
	return o, nil
}

// wait does the outcome's delay and slowness.
func (s *Store) wait(ctx context.Context, o Outcome) error {
	if o.delay > 0 {
		t := time.NewTimer(o.delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if o.kind != slow {
		return nil
	}
	s.mu.Lock()
	gate := s.gate
	s.slow++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.slow--
		s.mu.Unlock()
	}()
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read is begin and wait for the calls that change no guarded data.
func (s *Store) read(ctx context.Context, c Call) error {
	o, err := s.begin(ctx, c)
	if err != nil {
		return err
	}
	if err := s.wait(ctx, o); err != nil {
		return fmt.Errorf("mem: %w", err)
	}
	switch o.kind {
	case fail, refuse:
		return fmt.Errorf("mem: %w", o.err)
	case unknownApplied, unknownNot, appliedLate, conflict:
		if c.Op != OpCreate {
			return fmt.Errorf("mem: outcome of a commit given to a read")
		}
	case normal, slow:
	}
	return nil
}

// Commit makes one conditional write, or what the script says.
func (s *Store) Commit(ctx context.Context, c *store.Commit) (store.Result, error) {
	if err := c.Validate(); err != nil {
		return store.Result{}, err
	}
	o, err := s.begin(ctx, Call{Op: OpCommit, Partition: c.Partition, Commit: c})
	if err != nil {
		return store.Result{}, err
	}
	s.arriveLate()
	if err := s.wait(ctx, o); err != nil {
		if o.kind == slow {
			s.postpone(c, -1)
		}
		return store.Result{}, fmt.Errorf("mem: commit %d of %s: %w: %w", c.Head.Version, c.Partition, err, store.ErrUnknown)
	}
	unknown := fmt.Errorf("mem: commit %d of %s: %w", c.Head.Version, c.Partition, store.ErrUnknown)
	switch o.kind {
	case unknownApplied:
		s.core.Commit(c)
		return store.Result{}, unknown
	case unknownNot:
		return store.Result{}, unknown
	case fail:
		return store.Result{}, fmt.Errorf("mem: commit %d of %s: %w: %w", c.Head.Version, c.Partition, o.err, store.ErrUnknown)
	case refuse:
		return store.Result{}, fmt.Errorf("mem: commit %d of %s: %w", c.Head.Version, c.Partition, o.err)
	case appliedLate:
		s.postpone(c, o.after)
		return store.Result{}, unknown
	case conflict:
		s.core.Commit(o.rival)
	case normal, slow:
	}
	r := s.core.Commit(c)
	r.Head = r.Head.Clone()
	return r, nil
}

// postpone keeps a commit for later.
func (s *Store) postpone(c *store.Commit, after int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, lateCommit{c.Clone(), after})
}

// arriveLate counts one more commit and attempts the late ones whose time has come.
func (s *Store) arriveLate() {
	s.mu.Lock()
	var due []*store.Commit
	s.late = slices.DeleteFunc(s.late, func(l lateCommit) bool {
		if l.after == 0 {
			due = append(due, l.commit)
		}
		return l.after == 0
	})
	for i := range s.late {
		s.late[i].after--
	}
	s.mu.Unlock()
	for _, c := range due {
		s.core.Commit(c)
	}
}

// Meta returns the board's description, or store.ErrNotFound.
func (s *Store) Meta(ctx context.Context) (store.Meta, error) {
	if err := s.read(ctx, Call{Op: OpMeta}); err != nil {
		return store.Meta{}, err
	}
	m, ok := s.core.Meta()
	if !ok {
		return store.Meta{}, fmt.Errorf("mem: board: %w", store.ErrNotFound)
	}
	return m, nil
}

// Create writes the board's description, or answers store.ErrExists.
func (s *Store) Create(ctx context.Context, m store.Meta) error {
	if err := s.read(ctx, Call{Op: OpCreate}); err != nil {
		return err
	}
	if !s.core.Create(m) {
		return fmt.Errorf("mem: %w", store.ErrExists)
	}
	return nil
}

// Head returns the newest head of a partition.
func (s *Store) Head(ctx context.Context, p store.Partition) (store.Head, error) {
	if err := s.read(ctx, Call{Op: OpHead, Partition: p}); err != nil {
		return store.Head{}, err
	}
	return s.core.Head(p).Clone(), nil
}

// Row returns a shard's row, or store.ErrNotFound.
func (s *Store) Row(ctx context.Context, p store.Partition, key string) ([]byte, error) {
	if err := s.read(ctx, Call{Op: OpRow, Partition: p, Key: key}); err != nil {
		return nil, err
	}
	v, ok := s.core.Row(p, key)
	if !ok {
		return nil, fmt.Errorf("mem: row %q of %s: %w", key, p, store.ErrNotFound)
	}
	return slices.Clone(v), nil
}

// Rows yields a shard's rows by ascending key.
func (s *Store) Rows(ctx context.Context, p store.Partition) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		if err := s.read(ctx, Call{Op: OpRows, Partition: p}); err != nil {
			yield(store.Row{}, err)
			return
		}
		for _, r := range s.core.Rows(p) {
			r.Value = slices.Clone(r.Value)
			if !yield(r, ctx.Err()) || ctx.Err() != nil {
				return
			}
		}
	}
}

// Journal yields a journal's commits from a version on.
func (s *Store) Journal(ctx context.Context, p store.Partition, from uint64) iter.Seq2[store.JournalEntry, error] {
	return func(yield func(store.JournalEntry, error) bool) {
		if err := s.read(ctx, Call{Op: OpJournal, Partition: p}); err != nil {
			yield(store.JournalEntry{}, err)
			return
		}
		for _, e := range s.core.Journal(p, from) {
			e.Value = slices.Clone(e.Value)
			if !yield(e, ctx.Err()) || ctx.Err() != nil {
				return
			}
		}
	}
}

// Blocks returns the blocks that have a commit.
func (s *Store) Blocks(ctx context.Context) ([]board.BlockID, error) {
	if err := s.read(ctx, Call{Op: OpBlocks}); err != nil {
		return nil, err
	}
	return s.core.Blocks(), nil
}

// PutSnapshot stores a block's snapshot.
func (s *Store) PutSnapshot(ctx context.Context, b board.BlockID, snap store.Snapshot) error {
	if err := snap.Validate(); err != nil {
		return err
	}
	if err := s.read(ctx, Call{Op: OpPutSnapshot, Partition: store.Block(b)}); err != nil {
		return err
	}
	s.core.PutSnapshot(b, snap)
	return nil
}

// Snapshot returns the newest valid snapshot up to a version, or store.ErrNotFound.
func (s *Store) Snapshot(ctx context.Context, b board.BlockID, most uint64) (store.Snapshot, error) {
	if err := s.read(ctx, Call{Op: OpSnapshot, Partition: store.Block(b)}); err != nil {
		return store.Snapshot{}, err
	}
	snap, ok := s.core.Snapshot(b, most)
	if !ok {
		return store.Snapshot{}, fmt.Errorf("mem: snapshot of %s: %w", store.Block(b), store.ErrNotFound)
	}
	snap.Data = slices.Clone(snap.Data)
	return snap, nil
}

// Health answers what Core.SetHealth set.
func (s *Store) Health(context.Context) store.Health { return s.core.Health() }

// Capabilities says that a Store made by New serves one node, one made by Open many.
func (s *Store) Capabilities() store.Capabilities {
	return store.Capabilities{Name: "mem", Slots: slots, Shared: s.shared}
}

// Close makes later calls answer store.ErrClosed and lets slow ones go on. The Core keeps its content.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.gate)
	s.gate = make(chan struct{})
	return nil
}
