package cassandra

import (
	"context"
	"fmt"
	"iter"

	"github.com/placed-board/placed/store"
)

// Rows of one answer. The driver's own paging is not used: a page is a query of its own, so that nothing is held while the
// caller works on it.
const (
	journalPageRows   = 256 // at most 8 MiB, by store.CommitRowBytesMax
	journalPageGrowth = 16  // from a page of one entry on
	shardPageRows     = 1000
)

const (
	shardRow    = "SELECT value FROM shards WHERE shard = ? AND key = ?"
	shardPage   = "SELECT key, value FROM shards WHERE shard = ? AND key > ? LIMIT ?"
	journalPage = "SELECT version, value FROM journals WHERE journal = ? AND bucket = ? AND version >= ? AND version <= ?"
)

// Row implements store.Store.
func (s *Store) Row(ctx context.Context, p store.Partition, key string) ([]byte, error) {
	if !p.Valid() || p.Journal() {
		return nil, fmt.Errorf("cassandra: row of %s: %w", p, store.ErrInvalid)
	}
	var value []byte
	err := s.read(ctx, "row of "+p.String(), func() error { return s.guarded(ctx, shardRow, int(p.Index), key).Scan(&value) })
	return value, err
}

// Rows implements store.Store.
func (s *Store) Rows(ctx context.Context, p store.Partition) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		if !p.Valid() || p.Journal() {
			yield(store.Row{}, fmt.Errorf("cassandra: rows of %s: %w", p, store.ErrInvalid))
			return
		}
		for after := ""; ; {
			page, err := s.shardPage(ctx, p, after)
			if err != nil {
				yield(store.Row{}, err)
				return
			}
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
				after = row.Key
			}
			if len(page) < shardPageRows {
				return
			}
		}
	}
}

func (s *Store) shardPage(ctx context.Context, p store.Partition, after string) (page []store.Row, err error) {
	err = s.read(ctx, "rows of "+p.String(), func() error {
		it := s.guarded(ctx, shardPage, int(p.Index), after, shardPageRows).Iter()
		for r := (store.Row{}); it.Scan(&r.Key, &r.Value); r = (store.Row{}) {
			page = append(page, r)
		}
		return it.Close()
	})
	return page, err
}

// Journal implements store.Store.
func (s *Store) Journal(ctx context.Context, p store.Partition, from uint64) iter.Seq2[store.JournalEntry, error] {
	return func(yield func(store.JournalEntry, error) bool) {
		if !p.Valid() || !p.Journal() {
			yield(store.JournalEntry{}, fmt.Errorf("cassandra: journal of %s: %w", p, store.ErrInvalid))
			return
		}
		head, err := s.Head(ctx, p)
		if err != nil {
			yield(store.JournalEntry{}, err)
			return
		}
		entries := uint64(1) // most readers want no more
		for next := max(from, 1); next <= head.Version; entries = min(entries*journalPageGrowth, journalPageRows) {
			last := min(head.Version, s.bucketEnd(s.bucket(next)), next+entries-1)
			page, err := s.journalPage(ctx, p, next, last)
			if err != nil {
				yield(store.JournalEntry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			next = last + 1
		}
	}
}

// journalPage reads the entries first to last of one bucket, all of which are known to exist.
func (s *Store) journalPage(ctx context.Context, p store.Partition, first, last uint64) (page []store.JournalEntry, err error) {
	err = s.read(ctx, "journal of "+p.String(), func() error {
		it := s.guarded(ctx, journalPage, p.String(), s.bucket(first), int64(first), int64(last)).PageSize(journalPageRows).Iter()
		version := int64(0)
		for e := (store.JournalEntry{}); it.Scan(&version, &e.Value); e = (store.JournalEntry{}) {
			e.Version = uint64(version)
			page = append(page, e)
		}
		return it.Close()
	})
	for i := range page {
		if page[i].Version != first+uint64(i) {
			return nil, fmt.Errorf("cassandra: journal of %s: entry %d in place of %d: %w", p, page[i].Version, first+uint64(i), store.ErrCorrupt)
		}
	}
	if want := last - first + 1; err == nil && uint64(len(page)) != want {
		return nil, fmt.Errorf("cassandra: journal of %s: %d entries from %d on, want %d: %w", p, len(page), first, want, store.ErrCorrupt)
	}
	return page, err
}
