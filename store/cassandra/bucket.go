package cassandra

import (
	"context"
	"errors"
	"fmt"

	"github.com/placed-board/placed/store"
)

// A journal's commits 1..4096 lie in bucket 0, the next 4096 in bucket 1, and so on. Each bucket is a Cassandra partition of
// its own, with its own head columns, and Paxos orders what happens within one bucket only. What orders the buckets is one
// rule: the first commit of a bucket is sent only by a process that KNOWS that the bucket before is full, its head_version
// being the last of that bucket. A full bucket stays full, so the knowledge does not age: it may come from a commit of ours
// that was applied or from a serial read, and be kept for ever. Hence the buckets with a head are always 0..k without a hole,
// all but the last of them full, and the head of the last is the journal's.
//
// An owner that lags, whatever it believes, sends a commit to a bucket where either head_version is not what it expects
// (refused by the condition) or that is already open (refused by head_version = null), or, if it runs ahead of the truth,
// finds the bucket before not full (refused here, without sending anything).

// progress is what this process has learnt of a journal.
type progress struct {
	proved uint64 // the highest version seen committed by a commit's answer or by a serial read: the knowledge of the rule above
	hint   uint64 // the highest version heard of; only a place to begin the search
}

// learn notes that the journal has reached a version for certain.
func (s *Store) learn(p store.Partition, version uint64) {
	if !p.Journal() || version == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.journals[p]
	s.journals[p] = progress{max(was.proved, version), max(was.hint, version)}
}

// hear notes that the journal is said to have reached a version.
func (s *Store) hear(p store.Partition, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.journals[p]
	s.journals[p] = progress{was.proved, max(was.hint, version)}
}

func (s *Store) progress(p store.Partition) progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journals[p]
}

// bucket returns the bucket of a version >= 1.
func (s *Store) bucket(version uint64) int { return int((version - 1) / s.bucketCommits) }

// bucketEnd returns the last version of a bucket.
func (s *Store) bucketEnd(bucket int) uint64 { return uint64(bucket+1) * s.bucketCommits }

// opensBucket reports whether a version is the first of its bucket.
func (s *Store) opensBucket(version uint64) bool { return (version-1)%s.bucketCommits == 0 }

const (
	shardHead   = "SELECT DISTINCT head_version, head FROM shards WHERE shard = ?"
	journalHead = "SELECT DISTINCT head_version, head FROM journals WHERE journal = ? AND bucket = ?"
)

// Head implements store.Store.
func (s *Store) Head(ctx context.Context, p store.Partition) (store.Head, error) {
	if !p.Valid() {
		return store.Head{}, fmt.Errorf("cassandra: head of %s: %w", p, store.ErrInvalid)
	}
	if !p.Journal() {
		return s.readHead(ctx, p, shardHead, int(p.Index))
	}
	h, err := s.searchHead(ctx, p)
	if err == nil {
		s.learn(p, h.Version)
	}
	return h, err
}

func (s *Store) readHead(ctx context.Context, p store.Partition, stmt string, key ...any) (h store.Head, err error) {
	var version int64
	var rest []byte
	err = s.read(ctx, "head of "+p.String(), func() error { return s.guarded(ctx, stmt, key...).Scan(&version, &rest) })
	if errors.Is(err, store.ErrNotFound) {
		return store.Head{}, nil
	}
	if err != nil {
		return store.Head{}, err
	}
	if h, err = decodeHead(version, rest); err != nil {
		return store.Head{}, fmt.Errorf("cassandra: %s: %w", p, err)
	}
	return h, nil
}

// searchHead finds the last bucket that has a head: from the hint forward in growing steps, and by halves once an empty
// bucket is known.
//
// It is linearizable although it reads several partitions. A head that does not fill its bucket is the journal's head at the
// moment of the read, because the next bucket cannot have been open. A full bucket before an empty one is the journal's head
// at some moment between the two reads, because versions move in steps of one.
func (s *Store) searchHead(ctx context.Context, p store.Partition) (store.Head, error) {
	var newest store.Head // of the bucket last
	last, empty := -1, -1 // the highest bucket seen with a head, the lowest seen without one (-1: none yet)
	step := 1             // forward
	probe := 0
	if hint := s.progress(p).hint; hint > 0 {
		probe = s.bucket(hint)
	}
	for {
		h, err := s.readHead(ctx, p, journalHead, p.String(), probe)
		if err != nil {
			return store.Head{}, err
		}
		switch {
		case h.Version == 0:
			empty = probe
		case s.bucket(h.Version) != probe:
			return store.Head{}, fmt.Errorf("cassandra: %s: bucket %d has head %d: %w", p, probe, h.Version, store.ErrCorrupt)
		case h.Version < s.bucketEnd(probe):
			return h, nil
		default:
			last, newest = probe, h
		}
		switch {
		case empty == last+1:
			return newest, nil
		case empty < 0:
			probe = last + step
			step *= 2
		default:
			probe = (last + empty) / 2
		}
	}
}
