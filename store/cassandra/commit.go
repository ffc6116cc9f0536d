package cassandra

import (
	"context"
	"fmt"

	"github.com/gocql/gocql"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

const (
	shardFirst    = "UPDATE shards SET head_version = ?, head = ? WHERE shard = ? IF head_version = null"
	shardUpdate   = "UPDATE shards SET head_version = ?, head = ? WHERE shard = ? IF head_version = ?"
	shardRowWrite = "UPDATE shards SET value = ? WHERE shard = ? AND key = ?"

	journalFirst    = "UPDATE journals SET head_version = ?, head = ? WHERE journal = ? AND bucket = ? IF head_version = null"
	journalUpdate   = "UPDATE journals SET head_version = ?, head = ? WHERE journal = ? AND bucket = ? IF head_version = ?"
	journalRowWrite = "UPDATE journals SET value = ? WHERE journal = ? AND bucket = ? AND version = ?"
)

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, c *store.Commit) (store.Result, error) {
	if err := c.Validate(); err != nil {
		return store.Result{}, err
	}
	if err := s.begin(); err != nil {
		return store.Result{}, err
	}
	defer s.end()
	if err := s.writes.take(ctx); err != nil {
		return store.Result{}, fmt.Errorf("cassandra: commit %d of %s not sent: %w", c.Head.Version, c.Partition, err)
	}
	defer s.writes.give()
	r, err := s.commit(ctx, c)
	if err != nil {
		return store.Result{}, fmt.Errorf("cassandra: commit %d of %s: %w: %w", c.Head.Version, c.Partition, store.ErrUnknown, err)
	}
	return r, nil
}

func (s *Store) commit(ctx context.Context, c *store.Commit) (store.Result, error) {
	p, version := c.Partition, c.Head.Version
	if p.Journal() && s.opensBucket(version) {
		switch head, open, err := s.mayOpen(ctx, p, version); {
		case err != nil:
			return store.Result{}, err
		case !open:
			return store.Result{Head: head}, nil
		}
	}
	applied, err := s.send(s.batch(ctx, c), refusalColumns(p))
	s.health.note(ctx, err)
	if err != nil {
		return store.Result{}, err
	}
	if applied {
		s.learn(p, version)
		if p.Class == store.ClassBlock && version == 1 {
			s.markSeen(ctx, board.BlockID(p.Index))
		}
		return store.Result{Applied: true}, nil
	}
	// The refusal names the version alone. The head read now may be a later one, which serves the caller as well.
	head, err := s.Head(ctx, p)
	return store.Result{Head: head}, err
}

// mayOpen decides whether the commit that opens a bucket may be sent, see bucket.go. If not, the journal's head is returned.
func (s *Store) mayOpen(ctx context.Context, p store.Partition, version uint64) (store.Head, bool, error) {
	if version == 1 {
		if p.Class == store.ClassBlock {
			return store.Head{}, true, s.touch(ctx, board.BlockID(p.Index))
		}
		return store.Head{}, true, nil
	}
	if s.progress(p).proved >= version-1 {
		return store.Head{}, true, nil
	}
	head, err := s.Head(ctx, p)
	if err != nil {
		return store.Head{}, false, err
	}
	return head, head.Version == version-1, nil
}

// batch makes the conditional batch of a commit. The row writes are updates and not inserts, which saves the row markers.
func (s *Store) batch(ctx context.Context, c *store.Commit) *gocql.Batch {
	b := s.session.NewBatch(gocql.LoggedBatch).WithContext(ctx).SerialConsistency(s.serial).DefaultTimestamp(false)
	version := int64(c.Head.Version)
	head := appendHead(nil, &c.Head)
	if c.Partition.Journal() {
		name, bucket := c.Partition.String(), s.bucket(c.Head.Version)
		if s.opensBucket(c.Head.Version) {
			b.Query(journalFirst, version, head, name, bucket)
		} else {
			b.Query(journalUpdate, version, head, name, bucket, version-1)
		}
		b.Query(journalRowWrite, notNull(c.Rows[0].Value), name, bucket, version)
		return b
	}
	shard := int(c.Partition.Index)
	if version == 1 {
		b.Query(shardFirst, version, head, shard)
	} else {
		b.Query(shardUpdate, version, head, shard, version-1)
	}
	for i := range c.Rows {
		b.Query(shardRowWrite, notNull(c.Rows[i].Value), shard, c.Rows[i].Key)
	}
	return b
}

// notNull keeps an empty value from being written as null, which would be a deletion.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// refusalColumns is the width of the answer to a refused batch, without the flag: the primary key and head_version.
func refusalColumns(p store.Partition) int {
	if p.Journal() {
		return 4
	}
	return 3
}

// send executes a conditional batch; an error leaves its outcome unknown. The driver has traps here: MapExecuteBatchCAS
// panics when the answer has other columns than it expects, and ExecuteBatchCAS keeps a failed scan for Close to tell.
func (s *Store) send(b *gocql.Batch, refusalColumns int) (applied bool, err error) {
	applied, it, err := s.session.ExecuteBatchCAS(b, make([]any, refusalColumns)...) // nil skips a column
	if err != nil {
		return false, err
	}
	if err := it.Close(); err != nil {
		return false, err
	}
	return applied, nil
}
