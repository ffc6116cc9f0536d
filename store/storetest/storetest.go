// Package storetest is the conformance suite that every store.Store passes: what the fenced partition promises, checked
// from outside. An implementation's test calls Run with a function that makes a fresh, empty place for data.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Opener is one place for data, empty at first.
type Opener interface {
	// Open opens the data as it is; t.Fatal when it cannot. The suite closes what it opened, and opens again afterwards;
	// when the store's Capabilities say Shared it also opens several at a time.
	Open(t testing.TB) store.Store
	// CorruptSnapshot changes stored bytes of the block's snapshot of that version. No store is open meanwhile.
	CorruptSnapshot(t testing.TB, b board.BlockID, version uint64)
}

// Model is a store that is right by being simple, as store/mem's Core: random calls are compared with it.
type Model interface {
	Commit(c *store.Commit) store.Result
	Head(p store.Partition) store.Head
	Rows(p store.Partition) []store.Row
	Journal(p store.Partition, from uint64) []store.JournalEntry
	PutSnapshot(b board.BlockID, s store.Snapshot)
	Snapshot(b board.BlockID, most uint64) (store.Snapshot, bool)
}

// Run checks everything that store.Store promises. fresh is called once for each part; model is empty.
func Run(t *testing.T, fresh func(t *testing.T) Opener, model Model) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, Opener)
	}{
		{"Create", testCreate},
		{"CommitsInOrder", testCommitsInOrder},
		{"Conflict", testConflict},
		{"SameCommitAgain", testSameCommitAgain},
		{"Race", testRace},
		{"ManyPartitions", testManyPartitions},
		{"Rows", testRows},
		{"Journal", testJournal},
		{"SettingsJournal", testSettingsJournal},
		{"Blocks", testBlocks},
		{"Snapshots", testSnapshots},
		{"CorruptSnapshots", testCorruptSnapshots},
		{"Limits", testLimits},
		{"Invalid", testInvalid},
		{"Memory", testMemory},
		{"Context", testContext},
		{"Closed", testClosed},
		{"Model", func(t *testing.T, o Opener) { testModel(t, o, model) }},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, fresh(t)) })
	}
}

// open opens the data and closes it when the test ends, unless the test did.
func open(t *testing.T, o Opener) store.Store {
	t.Helper()
	s := o.Open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close at the end: %v", err)
		}
	})
	return s
}

// reopen closes the store and opens the same data again.
func reopen(t *testing.T, o Opener, s store.Store) store.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return open(t, o)
}

// attempt makes an attempt id that a test can recognise.
func attempt(writer int, version uint64) uint64 { return uint64(writer)<<32 | version }

func shardCommit(shard int, version, attemptID uint64, rows ...store.Row) *store.Commit {
	return &store.Commit{
		Partition: store.Shard(shard),
		Head: store.Head{
			Version: version, Attempt: attemptID,
			Owner: store.Owner{Address: fmt.Sprintf("10.0.0.%d:7000", shard), Incarnation: 1<<63 | attemptID, SettingsVersion: version / 3},
			State: fmt.Appendf(nil, "state %d of %d", version, attemptID),
		},
		Rows: rows,
	}
}

func blockCommit(b board.BlockID, version, attemptID uint64) *store.Commit {
	return &store.Commit{
		Partition: store.Block(b),
		Head:      store.Head{Version: version, Attempt: attemptID, Owner: store.Owner{Address: "10.0.0.1:7000", Incarnation: 5}},
		Rows:      []store.Row{{Value: journalValue(version, attemptID)}},
	}
}

func journalValue(version, attemptID uint64) []byte {
	return fmt.Appendf(nil, "entry %d of attempt %d", version, attemptID)
}

// sendsMax bounds how often a commit of unknown outcome is sent again.
const sendsMax = 50

// settle sends a commit until its outcome is known. A store under contention may answer ErrUnknown.
func settle(ctx context.Context, s store.Store, c *store.Commit) (won bool, found store.Head, err error) {
	for range sendsMax {
		var r store.Result
		r, err = s.Commit(ctx, c)
		if err == nil {
			return r.Applied || (r.Head.Version == c.Head.Version && r.Head.Attempt == c.Head.Attempt), r.Head, nil
		}
		if !errors.Is(err, store.ErrUnknown) {
			break
		}
	}
	return false, store.Head{}, err
}

// mustApply sends a commit that nothing competes with.
func mustApply(t testing.TB, s store.Store, c *store.Commit) {
	t.Helper()
	won, found, err := settle(t.Context(), s, c)
	if err != nil || !won {
		t.Fatalf("commit %d of %s: won %t, found head %+v, %v", c.Head.Version, c.Partition, won, found, err)
	}
}

func mustHead(t testing.TB, s store.Store, p store.Partition) store.Head {
	t.Helper()
	h, err := s.Head(t.Context(), p)
	if err != nil {
		t.Fatalf("head of %s: %v", p, err)
	}
	return h
}

func wantHead(t testing.TB, s store.Store, p store.Partition, want store.Head) {
	t.Helper()
	if got := mustHead(t, s, p); !equalHead(got, want) {
		t.Fatalf("head of %s: %+v, want %+v", p, got, want)
	}
}

func equalHead(a, b store.Head) bool {
	return a.Version == b.Version && a.Attempt == b.Attempt && a.Owner == b.Owner && bytes.Equal(a.State, b.State)
}

func wantRow(t testing.TB, s store.Store, p store.Partition, key, want string) {
	t.Helper()
	got, err := s.Row(t.Context(), p, key)
	if err != nil || string(got) != want {
		t.Fatalf("row %q of %s: %q (%v), want %q", key, p, got, err, want)
	}
}

func wantNoRow(t testing.TB, s store.Store, p store.Partition, key string) {
	t.Helper()
	if got, err := s.Row(t.Context(), p, key); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("row %q of %s: %q (%v), want ErrNotFound", key, p, got, err)
	}
}

func allRows(t testing.TB, s store.Store, p store.Partition) []store.Row {
	t.Helper()
	var out []store.Row
	for r, err := range s.Rows(t.Context(), p) {
		if err != nil {
			t.Fatalf("rows of %s: %v", p, err)
		}
		out = append(out, r)
	}
	return out
}

func equalRows(a, b []store.Row) bool {
	return slices.EqualFunc(a, b, func(x, y store.Row) bool { return x.Key == y.Key && bytes.Equal(x.Value, y.Value) })
}

func journal(t testing.TB, s store.Store, p store.Partition, from uint64) []store.JournalEntry {
	t.Helper()
	var out []store.JournalEntry
	for e, err := range s.Journal(t.Context(), p, from) {
		if err != nil {
			t.Fatalf("journal of %s from %d: %v", p, from, err)
		}
		out = append(out, e)
	}
	return out
}

func equalJournal(a, b []store.JournalEntry) bool {
	return slices.EqualFunc(a, b, func(x, y store.JournalEntry) bool { return x.Version == y.Version && bytes.Equal(x.Value, y.Value) })
}
