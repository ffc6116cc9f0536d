package pebble

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	engine "github.com/cockroachdb/pebble/v2"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Commit makes one conditional write. When ctx ends before the disk has answered, the write goes on by itself and the answer
// is store.ErrUnknown.
func (s *Store) Commit(ctx context.Context, c *store.Commit) (store.Result, error) {
	if err := c.Validate(); err != nil {
		return store.Result{}, err
	}
	if err := s.begin(ctx); err != nil {
		return store.Result{}, err
	}
	if s.guard.full() {
		s.calls.Done()
		return store.Result{}, fmt.Errorf("store/pebble: commit %d of %s: %w", c.Head.Version, c.Partition, store.ErrFull)
	}
	p, err := s.acquire(ctx, c.Partition)
	if err != nil {
		s.calls.Done()
		return store.Result{}, err
	}
	if p.version != c.Head.Version-1 {
		defer s.calls.Done()
		defer p.release()
		found, err := s.readHead(c.Partition)
		return store.Result{Head: found}, err
	}
	batch, err := s.batch(c)
	if err != nil {
		p.release()
		s.calls.Done()
		return store.Result{}, err
	}
	return s.write(ctx, c, p, batch)
}

// write applies the batch and gives p back, in a goroutine of its own if ctx can end before that.
func (s *Store) write(ctx context.Context, c *store.Commit, p *partition, batch *engine.Batch) (store.Result, error) {
	version, name := c.Head.Version, c.Partition
	run := func() error {
		defer s.calls.Done()
		defer p.release()
		err := s.apply(batch, engine.Sync)
		p.version, p.loaded = version, err == nil
		return err
	}
	var err error
	if ctx.Done() == nil {
		err = run()
	} else {
		done := make(chan error, 1)
		go func() { done <- run() }()
		select {
		case err = <-done:
		case <-ctx.Done():
			err = fmt.Errorf("%w: %w", ctx.Err(), store.ErrUnknown)
		}
	}
	if err != nil {
		return store.Result{}, fmt.Errorf("store/pebble: commit %d of %s: %w", version, name, err)
	}
	return store.Result{Applied: true}, nil
}

// batch encodes a commit.
func (s *Store) batch(c *store.Commit) (*engine.Batch, error) {
	size := encodedHeadMax + len(c.Head.State) + 64
	for i := range c.Rows {
		size += len(c.Rows[i].Key) + len(c.Rows[i].Value) + 32
	}
	b := s.db.NewBatchWithSize(size)
	err := b.Set(headKey(c.Partition), encodeHead(make([]byte, 0, encodedHeadMax+len(c.Head.State)), &c.Head), nil)
	for i := 0; i < len(c.Rows) && err == nil; i++ {
		key := journalKey(c.Partition, c.Head.Version)
		if c.Partition.Class == store.ClassShard {
			key = rowKey(c.Partition, c.Rows[i].Key)
		}
		err = b.Set(key, c.Rows[i].Value, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("store/pebble: commit %d of %s: %w", c.Head.Version, c.Partition, err)
	}
	return b, nil
}

// apply writes the batch, and with engine.Sync returns after its sync. An error wraps store.ErrUnknown. The engine reports a
// failed sync to its logger and by panics alone: both end in fail, and nothing after that counts as written.
func (s *Store) apply(b *engine.Batch, how *engine.WriteOptions) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.fail(fmt.Sprintf("panic while writing: %v", r))
		}
		if s.hasFailed() {
			err = fmt.Errorf("%w: %w", errFailed, store.ErrUnknown)
		}
	}()
	if err := s.db.Apply(b, how); err != nil {
		return fmt.Errorf("%w: %w", err, store.ErrUnknown)
	}
	_ = b.Close() // gives its memory back; the batch is written whatever it says
	return nil
}

// Head returns the newest head of a partition, after waiting for its commit under way.
func (s *Store) Head(ctx context.Context, id store.Partition) (store.Head, error) {
	if err := s.begin(ctx); err != nil {
		return store.Head{}, err
	}
	defer s.calls.Done()
	p, err := s.acquire(ctx, id)
	if err != nil {
		return store.Head{}, err
	}
	defer p.release()
	return s.readHead(id)
}

// Row returns a shard's row, after waiting for the shard's commit under way.
func (s *Store) Row(ctx context.Context, id store.Partition, key string) ([]byte, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	p, err := s.acquire(ctx, id)
	if err != nil {
		return nil, err
	}
	defer p.release()
	v, err := s.get(rowKey(id, key))
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, fmt.Errorf("store/pebble: row %q of %s: %w", key, id, store.ErrNotFound)
	}
	return v, nil
}

// Rows yields a shard's rows page by page; no lock is held while the caller looks at them.
func (s *Store) Rows(ctx context.Context, id store.Partition) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		from := rowKey(id, "")
		for {
			page, err := s.rowsPage(ctx, id, from)
			if err != nil {
				yield(store.Row{}, err)
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
			}
			if len(page) < rowsPage {
				return
			}
			from = append(rowKey(id, page[len(page)-1].Key), 0)
		}
	}
}

func (s *Store) rowsPage(ctx context.Context, id store.Partition, from []byte) ([]store.Row, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	p, err := s.acquire(ctx, id)
	if err != nil {
		return nil, err
	}
	it, err := s.db.NewIter(&engine.IterOptions{LowerBound: from, UpperBound: rowsEnd(id)})
	p.release() // the iterator shows this moment
	if err != nil {
		return nil, readError(err)
	}
	var page []store.Row
	for ok := it.First(); ok && len(page) < rowsPage; ok = it.Next() {
		page = append(page, store.Row{Key: string(it.Key()[3:]), Value: append([]byte{}, it.Value()...)})
	}
	if err := it.Close(); err != nil {
		return nil, readError(err)
	}
	return page, nil
}

// Journal yields a journal's entries page by page, up to the version that was newest when it began. The first page is one
// entry: tile details and histories want no more. The following ones grow up to journalPage.
func (s *Store) Journal(ctx context.Context, id store.Partition, from uint64) iter.Seq2[store.JournalEntry, error] {
	return func(yield func(store.JournalEntry, error) bool) {
		head, err := s.Head(ctx, id)
		if err != nil {
			yield(store.JournalEntry{}, err)
			return
		}
		entries := 1
		for next := max(from, 1); next <= head.Version; entries = min(entries*journalPageGrowth, journalPage) {
			page, err := s.journalPage(ctx, id, next, min(head.Version, next+uint64(entries)-1))
			if err != nil {
				yield(store.JournalEntry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			next += uint64(len(page))
		}
	}
}

// journalPage returns at least one entry, and checks that none is missing.
func (s *Store) journalPage(ctx context.Context, id store.Partition, from, last uint64) ([]store.JournalEntry, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	it, err := s.db.NewIter(&engine.IterOptions{LowerBound: journalKey(id, from), UpperBound: journalKey(id, last+1)})
	if err != nil {
		return nil, readError(err)
	}
	var page []store.JournalEntry
	size := 0
	for ok := it.First(); ok && size < journalPageSize; ok = it.Next() {
		e := store.JournalEntry{Version: binary.BigEndian.Uint64(it.Key()[4:]), Value: append([]byte{}, it.Value()...)}
		if e.Version != from+uint64(len(page)) {
			break
		}
		size += len(e.Value)
		page = append(page, e)
	}
	if err := it.Close(); err != nil {
		return nil, readError(err)
	}
	if len(page) == 0 {
		return nil, fmt.Errorf("store/pebble: journal of %s: entry %d is missing: %w", id, from, store.ErrCorrupt)
	}
	return page, nil
}

// Blocks returns the blocks that have a head. A first commit that is still on its way to the disk may show already.
func (s *Store) Blocks(ctx context.Context) ([]board.BlockID, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	it, err := s.db.NewIter(&engine.IterOptions{LowerBound: headKey(store.Block(0)), UpperBound: headsEnd(store.ClassBlock)})
	if err != nil {
		return nil, readError(err)
	}
	var out []board.BlockID
	for ok := it.First(); ok; ok = it.Next() {
		out = append(out, board.BlockID(binary.BigEndian.Uint16(it.Key()[2:])))
	}
	if err := it.Close(); err != nil {
		return nil, readError(err)
	}
	return out, nil
}
