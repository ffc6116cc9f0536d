package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Waits between attempts at the store; up to half is added at random.
const (
	CommitRetryMs    = 20
	CommitRetryMsMax = 1000
	// ReadTimeout bounds one read of a core's state.
	ReadTimeout = 30 * time.Second
	// RowReadsMax is how many users' rows are read at once: a node's sessions may all come back at the same moment.
	RowReadsMax = 256
)

// storing runs the store calls of the actors, each in a goroutine of its own: no actor ever blocks on I/O (DESIGN, a
// placement). It is shared by all actors of a node.
type storing struct {
	store   store.Store
	slots   *slots // of commits
	rows    *slots // of reads of users' rows
	metrics *metrics
	log     *slog.Logger
	crash   func(point string) // Config.CrashPoint, never nil
	ctx     context.Context    // ends when the node stops
	saidMs  atomic.Int64       // when a failure was logged last, Unix milliseconds
}

// FailureLogMs is the time between two log lines about failed reads and snapshots: an absent store fails many at once.
const FailureLogMs = 1000

// failed counts a failed read or snapshot and says why, so that nobody has to guess why a block or shard keeps loading.
func (s *storing) failed(op, of string, err error) {
	s.metrics.storeError(op)
	now, said := time.Now().UnixMilli(), s.saidMs.Load()
	if s.ctx.Err() == nil && (now-said >= FailureLogMs || now < said) && s.saidMs.CompareAndSwap(said, now) {
		s.log.Warn("the store failed", "operation", op, "of", of, "error", err)
	}
}

// commit makes a sealed commit: the same bytes again until the outcome is known (DESIGN, rules of commits, 2). It gives the
// slot back and then the result; when the node stops first, there is no result.
func (s *storing) commit(c *store.Commit, slot bool, done func(store.Result)) {
	go func() {
		result, ok := s.untilKnown(c)
		if slot {
			s.slots.release()
		}
		if ok {
			done(result)
		}
	}()
}

func (s *storing) untilKnown(c *store.Commit) (store.Result, bool) {
	wait := int64(CommitRetryMs)
	before, after := crashPointsOf(c.Partition.Class)
	for {
		s.crash(before)
		start := time.Now()
		result, err := s.store.Commit(s.ctx, c)
		s.metrics.commit(c, time.Since(start), result, err)
		switch {
		case err == nil && (result.Applied || result.Head.Attempt == c.Head.Attempt || result.Head.Version >= c.Head.Version):
			s.crash(after)
			return result, true
		case errors.Is(err, store.ErrInvalid):
			panic(err) // a commit that breaks the bounds of the store: our own sealing is wrong
		}
		select {
		case <-s.ctx.Done():
			return store.Result{}, false
		case <-time.After(time.Duration(wait+rand.Int64N(wait/2+1)) * time.Millisecond):
		}
		wait = min(2*wait, CommitRetryMsMax)
	}
}

// loadShard reads a shard's head and the rows of the users of its open charges.
func (s *storing) loadShard(index int, generation uint64) ShardLoaded {
	loaded := ShardLoaded{Generation: generation, Rows: map[board.UserID]store.UserRow{}}
	ctx, cancel := context.WithTimeout(s.ctx, ReadTimeout)
	defer cancel()
	p := store.Shard(index)
	head, err := s.store.Head(ctx, p)
	if err == nil {
		loaded.Head = head
		err = s.openRows(ctx, p, head, &loaded)
	}
	if err != nil {
		s.failed("load_shard", p.String(), err)
		loaded.Failed = true
	}
	return loaded
}

func (s *storing) openRows(ctx context.Context, p store.Partition, head store.Head, loaded *ShardLoaded) error {
	if p.Index == board.OpsShard {
		for row, err := range s.store.Rows(ctx, p) {
			if err != nil {
				return err
			}
			loaded.Jobs = append(loaded.Jobs, row)
		}
		return nil
	}
	state, err := store.DecodeShardState(int(p.Index), head.State)
	if err != nil {
		return nil // the core reports it
	}
	for i := range state.Open {
		row, err := s.row(ctx, p, state.Open[i].User)
		if err != nil {
			return err
		}
		loaded.Rows[state.Open[i].User] = row
	}
	return nil
}

func (s *storing) row(ctx context.Context, p store.Partition, user board.UserID) (store.UserRow, error) {
	value, err := s.store.Row(ctx, p, string(user))
	if errors.Is(err, store.ErrNotFound) {
		return store.UserRow{}, nil
	}
	if err != nil {
		return store.UserRow{}, err
	}
	return store.DecodeUserRow(value)
}

// askRow reads a user's row once fewer than RowReadsMax are being read.
func (s *storing) askRow(index int, generation uint64, user board.UserID, done func(RowRead)) {
	s.rows.take(func() {
		go func() {
			read := s.readRow(index, generation, user)
			s.rows.release()
			done(read)
		}()
	})
}

// readRow reads a user's row.
func (s *storing) readRow(index int, generation uint64, user board.UserID) RowRead {
	ctx, cancel := context.WithTimeout(s.ctx, ReadTimeout)
	defer cancel()
	row, err := s.row(ctx, store.Shard(index), user)
	if err != nil {
		s.failed("read_row", store.Shard(index).String(), err)
	}
	return RowRead{Generation: generation, User: user, Row: row, Failed: err != nil}
}

// loadBlock rebuilds a block from its newest usable snapshot and the journal after it. A snapshot that does not decode is
// passed over: an older one, or the whole journal, gives the same.
func (s *storing) loadBlock(id board.BlockID, generation uint64) BlockLoaded {
	loaded := BlockLoaded{Block: id, Generation: generation}
	ctx, cancel := context.WithTimeout(s.ctx, ReadTimeout)
	defer cancel()
	head, err := s.store.Head(ctx, store.Block(id))
	if err == nil {
		loaded.Head = head
		loaded.State, loaded.SnapshotVersion, err = ReplayBlock(ctx, s.store, id)
	}
	if err != nil {
		s.failed("load_block", store.Block(id).String(), err)
		loaded.Failed = true
	}
	return loaded
}

// ReplayBlock returns a block's state from its newest usable snapshot and the journal after it, and the snapshot's version.
func ReplayBlock(ctx context.Context, st store.Store, id board.BlockID) (*store.BlockState, uint64, error) {
	state, snapshot := store.NewBlockState(), uint64(0)
	for most := ^uint64(0); most > 0; {
		found, err := st.Snapshot(ctx, id, most)
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, 0, fmt.Errorf("actors: snapshot of %v: %w", store.Block(id), err)
		}
		if decoded, err := store.DecodeBlockState(found.Data); err == nil && decoded.Version == found.Version {
			state, snapshot = decoded, found.Version
			break
		}
		most = found.Version - 1
	}
	for entry, err := range st.Journal(ctx, store.Block(id), state.Version+1) {
		var commit store.BlockCommit
		if err == nil {
			commit, err = store.DecodeBlockCommit(entry.Value)
		}
		if err == nil {
			err = state.Apply(entry.Version, &commit)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("actors: journal of %v after version %d: %w", store.Block(id), state.Version, err)
		}
	}
	return state, snapshot, nil
}

// writeSnapshot stores a block's snapshot.
func (s *storing) writeSnapshot(id board.BlockID, snapshot store.Snapshot) SnapshotDone {
	err := s.store.PutSnapshot(s.ctx, id, snapshot)
	if err != nil {
		s.failed("put_snapshot", store.Block(id).String(), err)
	}
	return SnapshotDone{Block: id, Version: snapshot.Version, Failed: err != nil}
}

// readSettings reads the settings versions from a version on.
func readSettings(ctx context.Context, st store.Store, from uint64) ([]board.SettingsRecord, error) {
	var records []board.SettingsRecord
	for entry, err := range st.Journal(ctx, store.Settings(), from) {
		var r board.SettingsRecord
		if err == nil {
			r, err = store.DecodeSettings(entry.Value)
		}
		if err != nil {
			return nil, fmt.Errorf("actors: read settings: %w", err)
		}
		records = append(records, r)
	}
	return records, nil
}
