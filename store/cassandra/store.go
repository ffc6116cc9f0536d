// Package cassandra keeps a board in Apache Cassandra (4.1 or later), for several placed nodes at once.
//
// A partition of package store is one Cassandra partition with the head in static columns, and a commit is one conditional
// batch in it: it moves head_version from n-1 to n and writes the rows, or does nothing, and Paxos orders it among all
// others. A journal goes on in a new Cassandra partition, its next bucket, every store.BucketCommits commits, so that none
// grows without bound; see bucket.go for why two owners cannot slip past each other there. Reads of guarded data are
// serial reads, linearizable with the commits. Nothing is ever deleted.
//
// When a request times out or its connection breaks, the commit may have been applied, or may be later: Commit answers
// store.ErrUnknown, and the caller sends the same commit again until the answer is known. The store itself never repeats one.
package cassandra

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gocql/gocql"

	"github.com/placed-board/placed/store"
)

// readsInFlightMax bounds the reads in flight; commits have their own bound, Config.Slots.
const readsInFlightMax = 32

// Store is a store.Store over a Cassandra keyspace.
type Store struct {
	session       *gocql.Session
	keyspace      string
	dataCentre    string
	serial        gocql.SerialConsistency
	bucketCommits uint64 // store.BucketCommits; tests lower it

	writes semaphore // conditional writes
	reads  semaphore
	health health

	mu       sync.Mutex // guards what follows
	closed   bool
	journals map[store.Partition]progress

	running sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

func newStore(session *gocql.Session, cfg *Config, dataCentre string) *Store {
	return &Store{
		session:       session,
		keyspace:      cfg.Keyspace,
		dataCentre:    dataCentre,
		serial:        serialConsistencies[cfg.SerialConsistency],
		bucketCommits: store.BucketCommits,
		writes:        make(semaphore, cfg.Slots),
		reads:         make(semaphore, readsInFlightMax),
		journals:      map[store.Partition]progress{},
	}
}

// semaphore has a place for each permitted holder.
type semaphore chan struct{}

func (s semaphore) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s semaphore) give() { <-s }

// begin registers a call that Close has to wait for; end must follow when there is no error.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("cassandra: %w", store.ErrClosed)
	}
	s.running.Add(1)
	return nil
}

func (s *Store) end() { s.running.Done() }

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
	if !closed {
		s.session.Close()
	}
	return nil
}

// Capabilities implements store.Store.
func (s *Store) Capabilities() store.Capabilities {
	return store.Capabilities{Name: "cassandra", Slots: cap(s.writes), Shared: true}
}

// read runs one read: bounded, waited for by Close, and its outcome is noted for Health.
func (s *Store) read(ctx context.Context, what string, f func() error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	if err := s.reads.take(ctx); err != nil {
		return fmt.Errorf("cassandra: %s: %w", what, err)
	}
	defer s.reads.give()
	err := f()
	if errors.Is(err, gocql.ErrNotFound) {
		s.health.note(ctx, nil)
		return fmt.Errorf("cassandra: %s: %w", what, store.ErrNotFound)
	}
	s.health.note(ctx, err)
	if err != nil {
		return fmt.Errorf("cassandra: %s: %w", what, err)
	}
	return nil
}

// guarded makes a serial read. The driver has no name for it, but the two types share their values on the wire.
func (s *Store) guarded(ctx context.Context, stmt string, args ...any) *gocql.Query {
	return s.session.Query(stmt, args...).WithContext(ctx).Consistency(gocql.Consistency(s.serial))
}

func (s *Store) plain(ctx context.Context, stmt string, args ...any) *gocql.Query {
	return s.session.Query(stmt, args...).WithContext(ctx)
}

const (
	boardRead   = "SELECT format, epoch, shards, data_centre, created_at_ms FROM board WHERE id = ?"
	boardInsert = "INSERT INTO board (id, format, epoch, shards, data_centre, created_at_ms) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS"
)

// Meta implements store.Store. A board in another format gives an error that wraps store.ErrFormat.
func (s *Store) Meta(ctx context.Context) (store.Meta, error) {
	var m store.Meta
	var epoch int64
	err := s.read(ctx, "read the board's description", func() error {
		return s.guarded(ctx, boardRead, boardID).Scan(&m.Format, &epoch, &m.Shards, &m.DataCentre, &m.CreatedAtMs)
	})
	if err != nil {
		return store.Meta{}, err
	}
	if m.Format != store.FormatVersion {
		return store.Meta{}, fmt.Errorf("cassandra: the board in keyspace %s has format %d, this placed knows %d: %w",
			s.keyspace, m.Format, store.FormatVersion, store.ErrFormat)
	}
	m.Epoch = uint64(epoch)
	return m, nil
}

// Create implements store.Store. The local data centre's name is put into the description; another one is an error. When
// the outcome is unknown and cannot be read back, the error wraps store.ErrUnknown.
func (s *Store) Create(ctx context.Context, m store.Meta) error {
	if m.DataCentre == "" {
		m.DataCentre = s.dataCentre
	}
	if m.DataCentre != s.dataCentre {
		return fmt.Errorf("cassandra: create the board in data centre %s from %s: %w", m.DataCentre, s.dataCentre, store.ErrInvalid)
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	if err := s.writes.take(ctx); err != nil {
		return fmt.Errorf("cassandra: create the board: %w", err)
	}
	defer s.writes.give()
	applied, err := s.insertBoard(ctx, m)
	s.health.note(ctx, err)
	if err == nil && !applied {
		return fmt.Errorf("cassandra: create the board: %w", store.ErrExists)
	}
	if err == nil {
		return nil
	}
	if found, readErr := s.Meta(ctx); readErr == nil && found == m {
		return nil
	} else if readErr == nil {
		return fmt.Errorf("cassandra: create the board: %w", store.ErrExists)
	}
	return fmt.Errorf("cassandra: create the board: %w: %w", store.ErrUnknown, err)
}

func (s *Store) insertBoard(ctx context.Context, m store.Meta) (applied bool, err error) {
	it := s.plain(ctx, boardInsert, boardID, m.Format, int64(m.Epoch), m.Shards, m.DataCentre, m.CreatedAtMs).Iter()
	dest := make([]any, max(1, len(it.Columns()))) // refused: the row found follows
	dest[0] = &applied
	scanned := it.Scan(dest...)
	if err := it.Close(); err != nil {
		return false, err
	}
	if !scanned {
		return false, errors.New("an answer without a row")
	}
	return applied, nil
}
