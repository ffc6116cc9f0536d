package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

func testCreate(t *testing.T, o Opener) {
	s := open(t, o)
	if m, err := s.Meta(t.Context()); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("meta of a new store: %+v, %v, want ErrNotFound", m, err)
	}
	const writers = 8
	metas := make([]store.Meta, writers)
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		metas[i] = store.Meta{Format: store.FormatVersion, Epoch: 1<<63 + uint64(i), Shards: board.UserShards, DataCentre: "dc1", CreatedAtMs: 1_700_000_000_000}
		wg.Go(func() { errs[i] = s.Create(t.Context(), metas[i]) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			t.Fatalf("creations %d and %d both succeeded", winner, i)
		case !errors.Is(err, store.ErrExists):
			t.Fatalf("creation %d: %v, want ErrExists", i, err)
		}
	}
	if winner < 0 {
		t.Fatal("no creation succeeded")
	}
	s = reopen(t, o, s)
	if m, err := s.Meta(t.Context()); err != nil || m != metas[winner] {
		t.Fatalf("meta %+v (%v), want %+v", m, err, metas[winner])
	}
	// Another one: of its own description, found after an answer was lost, a store may say that it was created.
	if err := s.Create(t.Context(), metas[(winner+1)%writers]); !errors.Is(err, store.ErrExists) {
		t.Fatalf("creation of what exists: %v, want ErrExists", err)
	}
	c := s.Capabilities()
	if c.Name == "" || c.Slots < 1 {
		t.Fatalf("capabilities %+v", c)
	}
	if h := s.Health(t.Context()); h.Err != nil || h.Tight {
		t.Fatalf("health %+v", h)
	}
}

func testCommitsInOrder(t *testing.T, o Opener) {
	s := open(t, o)
	p := store.Shard(7)
	wantHead(t, s, p, store.Head{})
	var last *store.Commit
	for v := uint64(1); v <= 10; v++ {
		last = shardCommit(7, v, attempt(1, v), store.Row{Key: "ada", Value: fmt.Appendf(nil, "ada %d", v)},
			store.Row{Key: fmt.Sprintf("once %d", v), Value: []byte{byte(v)}})
		r, err := s.Commit(t.Context(), last)
		if err != nil || !r.Applied {
			t.Fatalf("commit %d: %+v, %v", v, r, err)
		}
		wantHead(t, s, p, last.Head)
		wantRow(t, s, p, "ada", fmt.Sprintf("ada %d", v))
	}
	mustApply(t, s, shardCommit(7, 11, attempt(1, 11))) // without rows: only the head moves
	last.Head = shardCommit(7, 11, attempt(1, 11)).Head
	for range 2 {
		wantHead(t, s, p, last.Head)
		wantRow(t, s, p, "ada", "ada 10")
		wantRow(t, s, p, "once 3", "\x03")
		wantHead(t, s, store.Shard(8), store.Head{})
		s = reopen(t, o, s)
	}
	next := shardCommit(7, 12, attempt(2, 12))
	next.Head.State = nil // an empty state replaces a full one
	mustApply(t, s, next)
	wantHead(t, s, p, next.Head)
}

func testConflict(t *testing.T, o Opener) {
	s := open(t, o)
	p := store.Shard(0)
	refuse := func(c *store.Commit, found store.Head) {
		t.Helper()
		r, err := s.Commit(t.Context(), c)
		if err != nil || r.Applied || !equalHead(r.Head, found) {
			t.Fatalf("commit %d: %+v, %v, want a conflict with head %+v", c.Head.Version, r, err, found)
		}
		wantHead(t, s, c.Partition, found)
	}
	refuse(shardCommit(0, 2, 77, store.Row{Key: "eve", Value: []byte("early")}), store.Head{})
	first := shardCommit(0, 1, attempt(1, 1), store.Row{Key: "ada", Value: []byte("first")})
	mustApply(t, s, first)
	refuse(shardCommit(0, 1, attempt(2, 1), store.Row{Key: "ada", Value: []byte("rival")}), first.Head)
	refuse(shardCommit(0, 3, attempt(2, 3), store.Row{Key: "ada", Value: []byte("gap")}), first.Head)
	second := shardCommit(0, 2, attempt(1, 2))
	mustApply(t, s, second)
	refuse(shardCommit(0, 1, attempt(2, 1), store.Row{Key: "eve", Value: []byte("late")}), second.Head)
	s = reopen(t, o, s)
	refuse(shardCommit(0, 2, attempt(2, 2), store.Row{Key: "eve", Value: []byte("late")}), second.Head)
	wantRow(t, s, p, "ada", "first")
	wantNoRow(t, s, p, "eve")

	block := board.NewBlockID(3, 4)
	refuse(blockCommit(block, 2, 9), store.Head{})
	mustApply(t, s, blockCommit(block, 1, 8))
	refuse(blockCommit(block, 1, 9), blockCommit(block, 1, 8).Head)
	if got := journal(t, s, store.Block(block), 1); len(got) != 1 || string(got[0].Value) != string(journalValue(1, 8)) {
		t.Fatalf("journal %v", got)
	}
}

func testSameCommitAgain(t *testing.T, o Opener) {
	s := open(t, o)
	for _, c := range []*store.Commit{
		shardCommit(1, 1, attempt(1, 1), store.Row{Key: "ada", Value: []byte("v1")}),
		blockCommit(board.NewBlockID(9, 9), 1, attempt(1, 1)),
	} {
		mustApply(t, s, c)
		for range 2 {
			r, err := s.Commit(t.Context(), c)
			if err != nil || r.Applied || !equalHead(r.Head, c.Head) {
				t.Fatalf("%s: same commit again: %+v, %v, want its own head", c.Partition, r, err)
			}
			s = reopen(t, o, s)
		}
	}
}

// testRace lets several writers, over several stores where that is allowed, compete for each version: exactly one wins, and
// all the others find its head.
func testRace(t *testing.T, o Opener) {
	const writers, versions = 12, 12
	stores := []store.Store{open(t, o)}
	if stores[0].Capabilities().Shared {
		stores = append(stores, open(t, o), open(t, o))
	}
	for _, p := range []store.Partition{store.Shard(2), store.Block(board.NewBlockID(1, 1))} {
		for v := uint64(1); v <= versions; v++ {
			won := make([]bool, writers)
			found := make([]store.Head, writers)
			errs := make([]error, writers)
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() { won[w], found[w], errs[w] = settle(t.Context(), stores[w%len(stores)], raceCommit(p, v, w)) })
			}
			wg.Wait()
			winner := -1
			for w := range writers {
				switch {
				case errs[w] != nil:
					t.Fatalf("%s version %d writer %d: %v", p, v, w, errs[w])
				case won[w] && winner >= 0:
					t.Fatalf("%s version %d: writers %d and %d both won", p, v, winner, w)
				case won[w]:
					winner = w
				}
			}
			if winner < 0 {
				t.Fatalf("%s version %d: nobody won", p, v)
			}
			want := raceCommit(p, v, winner).Head
			for w := range writers {
				if !won[w] && !equalHead(found[w], want) {
					t.Fatalf("%s version %d: writer %d found %+v, the winner is %+v", p, v, w, found[w], want)
				}
			}
			wantHead(t, stores[v%uint64(len(stores))], p, want)
			if p.Class == store.ClassShard {
				wantRow(t, stores[0], p, "ada", fmt.Sprint(winner))
			}
		}
	}
	if got := journal(t, stores[0], store.Block(board.NewBlockID(1, 1)), 1); len(got) != versions {
		t.Fatalf("%d entries after %d versions", len(got), versions)
	}
}

func raceCommit(p store.Partition, version uint64, writer int) *store.Commit {
	if p.Class == store.ClassBlock {
		return blockCommit(board.BlockID(p.Index), version, attempt(writer+1, version))
	}
	return shardCommit(int(p.Index), version, attempt(writer+1, version), store.Row{Key: "ada", Value: fmt.Append(nil, writer)})
}

func testManyPartitions(t *testing.T, o Opener) {
	const partitions, versions = 32, 5
	s := open(t, o)
	errs := make([]error, partitions)
	last := make([]*store.Commit, partitions)
	var wg sync.WaitGroup
	for i := range partitions {
		wg.Go(func() {
			for v := uint64(1); v <= versions && errs[i] == nil; v++ {
				if last[i] = shardCommit(i, v, attempt(i, v), store.Row{Key: "ada", Value: fmt.Appendf(nil, "%d/%d", i, v)}); i%2 == 1 {
					last[i] = blockCommit(board.NewBlockID(i, i), v, attempt(i, v))
				}
				won, found, err := settle(t.Context(), s, last[i])
				if err == nil && !won {
					err = fmt.Errorf("version %d: conflict with %+v", v, found)
				}
				errs[i] = err
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, o, s)
	for i, c := range last {
		wantHead(t, s, c.Partition, c.Head)
		if i%2 == 0 {
			wantRow(t, s, c.Partition, "ada", fmt.Sprintf("%d/%d", i, versions))
		} else if got := journal(t, s, c.Partition, versions); len(got) != 1 || string(got[0].Value) != string(c.Rows[0].Value) {
			t.Fatalf("%s: %v", c.Partition, got)
		}
	}
}
