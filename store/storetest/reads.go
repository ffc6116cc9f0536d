package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

func testRows(t *testing.T, o Opener) {
	s := open(t, o)
	p := store.Shard(board.OpsShard)
	if got := allRows(t, s, p); len(got) != 0 {
		t.Fatalf("rows of a new shard: %v", got)
	}
	model := map[string]string{}
	version := uint64(0)
	put := func(rows ...store.Row) {
		t.Helper()
		version++
		mustApply(t, s, shardCommit(board.OpsShard, version, attempt(1, version), rows...))
		for _, r := range rows {
			model[r.Key] = string(r.Value)
		}
	}
	put(store.Row{Key: "b", Value: []byte("1")}, store.Row{Key: "a", Value: []byte("2")}, store.Row{Key: "ab", Value: []byte{}},
		store.Row{Key: "a b", Value: []byte{0, 1, 255}}, store.Row{Key: "Ä", Value: []byte("umlaut")}, store.Row{Key: "日本", Value: []byte("kanji")},
		store.Row{Key: "\U0001F3A8", Value: []byte("beyond the basic plane")}, store.Row{Key: strings.Repeat("z", board.UserBytesMax), Value: []byte("long")})
	const pages = 5 // of 256 rows: more than any page a store reads at once needs to be right
	for page := range pages {
		rows := make([]store.Row, store.CommitRowsMax)
		for i := range rows {
			n := (i*31 + page*store.CommitRowsMax) % (pages * store.CommitRowsMax)
			rows[i] = store.Row{Key: fmt.Sprintf("user %05d/%d", n, page), Value: fmt.Appendf(nil, "value %d", n)}
		}
		put(rows...)
	}
	put(store.Row{Key: "b", Value: []byte("replaced")}, store.Row{Key: "user 00000/0", Value: []byte("replaced too")})
	mustApply(t, s, shardCommit(board.OpsShard-1, 1, 5, store.Row{Key: "zz other", Value: []byte("of another shard")}))
	mustApply(t, s, shardCommit(0, 1, 5, store.Row{Key: "a other", Value: []byte("of another shard")}))

	keys := make([]string, 0, len(model))
	for k := range model {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for range 2 {
		got := allRows(t, s, p)
		if len(got) != len(keys) {
			t.Fatalf("%d rows, want %d", len(got), len(keys))
		}
		for i, r := range got {
			if r.Key != keys[i] || string(r.Value) != model[r.Key] {
				t.Fatalf("row %d: %q = %q, want %q = %q", i, r.Key, r.Value, keys[i], model[keys[i]])
			}
		}
		for i := 0; i < len(keys); i += 37 {
			wantRow(t, s, p, keys[i], model[keys[i]])
		}
		wantNoRow(t, s, p, "nobody")
		wantNoRow(t, s, p, "zz other")
		wantNoRow(t, s, store.Shard(1), "a")
		seen := 0
		for range s.Rows(t.Context(), p) { // a reader may stop in the middle
			if seen++; seen == 3 {
				break
			}
		}
		s = reopen(t, o, s)
	}
}

// testJournal crosses the border between two storage partitions of a journal.
func testJournal(t *testing.T, o Opener) {
	s := open(t, o)
	b := board.NewBlockID(99, 99)
	p := store.Block(b)
	if got := journal(t, s, p, 1); len(got) != 0 {
		t.Fatalf("journal of a new block: %v", got)
	}
	neighbour := board.NewBlockID(98, 99)
	mustApply(t, s, blockCommit(neighbour, 1, 1))
	const entries = store.BucketCommits + 4
	check := func(from uint64, last uint64) {
		t.Helper()
		got := journal(t, s, p, from)
		first := max(from, 1)
		if want := int(last + 1 - min(first, last+1)); len(got) != want {
			t.Fatalf("journal from %d: %d entries, want %d", from, len(got), want)
		}
		for i, e := range got {
			v := first + uint64(i)
			if e.Version != v || string(e.Value) != string(journalValue(v, attempt(3, v))) {
				t.Fatalf("journal from %d: entry %d is %d %q", from, i, e.Version, e.Value)
			}
		}
	}
	for v := uint64(1); v <= entries; v++ {
		mustApply(t, s, blockCommit(b, v, attempt(3, v)))
		if v+2 >= store.BucketCommits && v <= store.BucketCommits+2 {
			wantHead(t, s, p, blockCommit(b, v, attempt(3, v)).Head)
			check(v-1, v)
			// A rival of the newest version, and of the next bucket's first, loses on both sides of the border.
			rival := blockCommit(b, v, attempt(4, v))
			if r, err := s.Commit(t.Context(), rival); err != nil || r.Applied || r.Head.Attempt != attempt(3, v) {
				t.Fatalf("rival of version %d: %+v, %v", v, r, err)
			}
			rival = blockCommit(b, v+2, attempt(4, v))
			if r, err := s.Commit(t.Context(), rival); err != nil || r.Applied {
				t.Fatalf("commit %d after %d: %+v, %v", v+2, v, r, err)
			}
		}
	}
	for range 2 {
		wantHead(t, s, p, blockCommit(b, entries, attempt(3, entries)).Head)
		for _, from := range []uint64{0, 1, 2, 1000, 4095, 4096, 4097, 4098, entries, entries + 1, entries + 5000} {
			check(from, entries)
		}
		seen := 0
		for range s.Journal(t.Context(), p, 4090) {
			if seen++; seen == 10 {
				break
			}
		}
		if got := journal(t, s, store.Block(neighbour), 0); len(got) != 1 {
			t.Fatalf("%d entries of the neighbour", len(got))
		}
		s = reopen(t, o, s)
	}
	// An old version of a full bucket, sent again, must not be made a second time.
	if r, err := s.Commit(t.Context(), blockCommit(b, store.BucketCommits, attempt(3, store.BucketCommits))); err != nil || r.Applied {
		t.Fatalf("old commit again: %+v, %v", r, err)
	}
	check(1, entries)
	mustApply(t, s, blockCommit(b, entries+1, attempt(3, entries+1)))
	check(4000, entries+1)
}

func testSettingsJournal(t *testing.T, o Opener) {
	s := open(t, o)
	p := store.Settings()
	for v := uint64(1); v <= 3; v++ {
		mustApply(t, s, &store.Commit{Partition: p, Head: store.Head{Version: v, Attempt: v}, Rows: []store.Row{{Value: journalValue(v, v)}}})
	}
	s = reopen(t, o, s)
	if got := journal(t, s, p, 2); len(got) != 2 || got[0].Version != 2 || string(got[1].Value) != string(journalValue(3, 3)) {
		t.Fatalf("settings journal from 2: %v", got)
	}
	wantHead(t, s, p, store.Head{Version: 3, Attempt: 3})
	wantHead(t, s, store.Block(0), store.Head{})
	wantHead(t, s, store.Shard(0), store.Head{})
}

func testBlocks(t *testing.T, o Opener) {
	s := open(t, o)
	blocks := func() []board.BlockID {
		t.Helper()
		got, err := s.Blocks(t.Context())
		if err != nil {
			t.Fatalf("blocks: %v", err)
		}
		return got
	}
	if got := blocks(); len(got) != 0 {
		t.Fatalf("blocks of a new store: %v", got)
	}
	want := []board.BlockID{board.NewBlockID(0, 0), board.NewBlockID(99, 0), board.NewBlockID(5, 1), board.NewBlockID(0, 99), board.NewBlockID(99, 99)}
	for _, i := range []int{3, 0, 4, 1, 2} {
		mustApply(t, s, blockCommit(want[i], 1, 9))
	}
	mustApply(t, s, blockCommit(want[1], 2, 9))
	mustApply(t, s, shardCommit(5, 1, 9))
	if r, err := s.Commit(t.Context(), blockCommit(board.NewBlockID(7, 7), 2, 9)); err != nil || r.Applied {
		t.Fatalf("a first commit with version 2: %+v, %v", r, err)
	}
	for range 2 {
		if got := blocks(); !slices.Equal(got, want) {
			t.Fatalf("blocks %v, want %v", got, want)
		}
		s = reopen(t, o, s)
	}
}

func snapshotOf(version uint64) store.Snapshot {
	return store.Snapshot{Version: version, Data: []byte(strings.Repeat(fmt.Sprintf("snapshot %d ", version), 500))}
}

func mustPutSnapshot(t testing.TB, s store.Store, b board.BlockID, version uint64) {
	t.Helper()
	if err := s.PutSnapshot(t.Context(), b, snapshotOf(version)); err != nil {
		t.Fatalf("put snapshot %d: %v", version, err)
	}
}

// wantSnapshot checks the newest snapshot up to most; version 0 stands for ErrNotFound.
func wantSnapshot(t testing.TB, s store.Store, b board.BlockID, most, version uint64) {
	t.Helper()
	got, err := s.Snapshot(t.Context(), b, most)
	if version == 0 {
		if !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("snapshot up to %d: version %d (%v), want ErrNotFound", most, got.Version, err)
		}
		return
	}
	if err != nil || got.Version != version || string(got.Data) != string(snapshotOf(version).Data) {
		t.Fatalf("snapshot up to %d: version %d with %d bytes (%v), want version %d", most, got.Version, len(got.Data), err, version)
	}
}

func testSnapshots(t *testing.T, o Opener) {
	s := open(t, o)
	a, b := board.NewBlockID(1, 0), board.NewBlockID(2, 0)
	wantSnapshot(t, s, a, 1<<62, 0)
	mustPutSnapshot(t, s, a, 10)
	wantSnapshot(t, s, a, 1<<62, 10)
	wantSnapshot(t, s, a, 10, 10)
	wantSnapshot(t, s, a, 9, 0)
	wantSnapshot(t, s, b, 1<<62, 0)
	for v := uint64(20); v <= 70; v += 10 {
		mustPutSnapshot(t, s, a, v)
		mustPutSnapshot(t, s, a, v) // again: it must not push the one before out
	}
	mustPutSnapshot(t, s, b, 65)
	for range 2 {
		wantSnapshot(t, s, a, 1<<62, 70)
		wantSnapshot(t, s, a, 70, 70)
		wantSnapshot(t, s, a, 69, 60)
		wantSnapshot(t, s, b, 70, 65)
		s = reopen(t, o, s)
	}
	mustPutSnapshot(t, s, a, 1) // one that comes late must not push the newest out
	wantSnapshot(t, s, a, 1<<62, 70)
	wantSnapshot(t, s, a, 69, 60)
	if err := s.PutSnapshot(t.Context(), a, store.Snapshot{Data: []byte("x")}); !errors.Is(err, store.ErrInvalid) {
		t.Fatalf("snapshot of version 0: %v, want ErrInvalid", err)
	}
	if err := s.PutSnapshot(t.Context(), a, store.Snapshot{Version: 80, Data: make([]byte, store.SnapshotBytesMax+1)}); !errors.Is(err, store.ErrInvalid) {
		t.Fatalf("snapshot that is too large: %v, want ErrInvalid", err)
	}
	large := store.Snapshot{Version: 90, Data: []byte(strings.Repeat("0123456789abcdef", store.SnapshotBytesMax/16))}
	if err := s.PutSnapshot(t.Context(), a, large); err != nil {
		t.Fatalf("snapshot of %d bytes: %v", len(large.Data), err)
	}
	if got, err := s.Snapshot(t.Context(), a, 90); err != nil || got.Version != 90 || string(got.Data) != string(large.Data) {
		t.Fatalf("snapshot of %d bytes: version %d with %d bytes, %v", len(large.Data), got.Version, len(got.Data), err)
	}
}

func testCorruptSnapshots(t *testing.T, o Opener) {
	s := open(t, o)
	b := board.NewBlockID(4, 2)
	mustPutSnapshot(t, s, b, 10)
	mustPutSnapshot(t, s, b, 20)
	corrupt := func(version uint64) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		o.CorruptSnapshot(t, b, version)
		s = open(t, o)
	}
	corrupt(20)
	wantSnapshot(t, s, b, 1<<62, 10)
	mustPutSnapshot(t, s, b, 30)
	wantSnapshot(t, s, b, 1<<62, 30)
	corrupt(30) // whether 10 is still kept is the store's choice; a corrupt one must not be served
	if got, err := s.Snapshot(t.Context(), b, 1<<62); errors.Is(err, store.ErrNotFound) {
		mustPutSnapshot(t, s, b, 10)
	} else if err != nil || got.Version != 10 {
		t.Fatalf("snapshot after two corrupt ones: version %d (%v), want 10 or ErrNotFound", got.Version, err)
	}
	corrupt(10)
	wantSnapshot(t, s, b, 1<<62, 0)
	mustPutSnapshot(t, s, b, 40)
	wantSnapshot(t, s, b, 1<<62, 40)
}

func testContext(t *testing.T, o Opener) {
	s := open(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := store.Shard(1)
	if r, err := s.Commit(ctx, shardCommit(1, 1, 1)); err == nil || errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Fatalf("commit under a context that ended before: %+v, %v, want context.Canceled and not ErrUnknown", r, err)
	}
	wantHead(t, s, p, store.Head{})
	if _, err := s.Head(ctx, p); !errors.Is(err, context.Canceled) {
		t.Fatalf("head under an ended context: %v", err)
	}
	if _, err := s.Row(ctx, p, "ada"); !errors.Is(err, context.Canceled) {
		t.Fatalf("row under an ended context: %v", err)
	}
	mustApply(t, s, shardCommit(1, 1, 2, store.Row{Key: "ada", Value: []byte("1")}))
	mustApply(t, s, blockCommit(0, 1, 2))
	for r, err := range s.Rows(ctx, p) {
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("rows under an ended context: %v, %v", r, err)
		}
	}
	for e, err := range s.Journal(ctx, store.Block(0), 1) {
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("journal under an ended context: %v, %v", e, err)
		}
	}
}

func testClosed(t *testing.T, o Opener) {
	s := open(t, o)
	mustApply(t, s, shardCommit(1, 1, 1, store.Row{Key: "ada", Value: []byte("1")}))
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("close again: %v", err)
	}
	if r, err := s.Commit(t.Context(), shardCommit(1, 2, 2)); !errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrUnknown) {
		t.Fatalf("commit to a closed store: %+v, %v, want ErrClosed", r, err)
	}
	if _, err := s.Head(t.Context(), store.Shard(1)); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("head of a closed store: %v, want ErrClosed", err)
	}
	for _, err := range s.Rows(t.Context(), store.Shard(1)) {
		if !errors.Is(err, store.ErrClosed) {
			t.Fatalf("rows of a closed store: %v, want ErrClosed", err)
		}
	}
	if err := s.PutSnapshot(t.Context(), 0, snapshotOf(1)); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("snapshot to a closed store: %v, want ErrClosed", err)
	}
	s = open(t, o)
	wantHead(t, s, store.Shard(1), shardCommit(1, 1, 1).Head)
}
