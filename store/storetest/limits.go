package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// noise returns n bytes that do not compress.
func noise(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

func testLimits(t *testing.T, o Opener) {
	s := open(t, o)
	r := rand.New(rand.NewPCG(1, 2))
	full := &store.Commit{Partition: store.Shard(63), Head: store.Head{
		Version: 1, Attempt: math.MaxUint64,
		Owner: store.Owner{Address: strings.Repeat("a", store.OwnerAddressMax), Incarnation: math.MaxUint64, SettingsVersion: math.MaxInt64},
		State: noise(r, store.HeadStateBytesMax),
	}}
	for i := range store.CommitRowsMax {
		key := fmt.Sprintf("%0*d", board.UserBytesMax, i)
		full.Rows = append(full.Rows, store.Row{Key: key, Value: noise(r, store.CommitRowBytesMax/store.CommitRowsMax)})
	}
	full.Rows[0].Key = strings.Repeat("k", store.RowKeyBytesMax)
	mustApply(t, s, full)
	one := &store.Commit{Partition: store.Shard(63), Head: store.Head{Version: 2, Attempt: 1}, Rows: []store.Row{{Key: "one", Value: noise(r, store.CommitRowBytesMax)}}}
	mustApply(t, s, one)
	entry := &store.Commit{Partition: store.Block(board.NewBlockID(99, 99)), Head: store.Head{Version: 1, Attempt: 1}, Rows: []store.Row{{Value: noise(r, store.CommitRowBytesMax)}}}
	mustApply(t, s, entry)
	if won, found, err := settle(t.Context(), s, full); err != nil || won {
		t.Fatalf("old full commit again: won %t, %d, %v", won, found.Version, err)
	}
	s = reopen(t, o, s)
	wantHead(t, s, store.Shard(63), one.Head)
	for _, row := range append(full.Rows, one.Rows...) {
		wantRow(t, s, store.Shard(63), row.Key, string(row.Value))
	}
	if got := journal(t, s, entry.Partition, 1); len(got) != 1 || !bytes.Equal(got[0].Value, entry.Rows[0].Value) {
		t.Fatalf("%d entries, or another value", len(got))
	}
	again := full.Clone()
	again.Head.Version, again.Rows = 3, nil
	mustApply(t, s, again)
	wantHead(t, s, store.Shard(63), again.Head)
}

func testInvalid(t *testing.T, o Opener) {
	s := open(t, o)
	row := store.Row{Key: "ada", Value: []byte("1")}
	entry := []store.Row{{Value: []byte("1")}}
	many := make([]store.Row, store.CommitRowsMax+1)
	for i := range many {
		many[i].Key = fmt.Sprint(i)
	}
	shard, block := store.Shard(1), store.Block(board.NewBlockID(1, 1))
	ok := store.Head{Version: 1, Attempt: 1}
	for name, c := range map[string]*store.Commit{
		"version 0":                {Partition: shard, Head: store.Head{Attempt: 1}},
		"attempt 0":                {Partition: shard, Head: store.Head{Version: 1}},
		"no class":                 {Partition: store.Partition{}, Head: ok},
		"no such shard":            {Partition: store.Shard(board.Shards), Head: ok},
		"no such block":            {Partition: store.Block(board.NewBlockID(100, 0)), Head: ok, Rows: entry},
		"no such settings":         {Partition: store.Partition{Class: store.ClassSettings, Index: 1}, Head: ok, Rows: entry},
		"journal without row":      {Partition: block, Head: ok},
		"journal with two rows":    {Partition: block, Head: ok, Rows: []store.Row{{Value: []byte("1")}, {Value: []byte("2")}}},
		"journal with a key":       {Partition: block, Head: ok, Rows: []store.Row{row}},
		"journal with a state":     {Partition: block, Head: store.Head{Version: 1, Attempt: 1, State: []byte("x")}, Rows: entry},
		"settings with a state":    {Partition: store.Settings(), Head: store.Head{Version: 1, Attempt: 1, State: []byte("x")}, Rows: entry},
		"row without key":          {Partition: shard, Head: ok, Rows: []store.Row{{Value: []byte("1")}}},
		"row twice":                {Partition: shard, Head: ok, Rows: []store.Row{row, {Key: "bob"}, row}},
		"long key":                 {Partition: shard, Head: ok, Rows: []store.Row{{Key: strings.Repeat("k", store.RowKeyBytesMax+1)}}},
		"too many rows":            {Partition: shard, Head: ok, Rows: many},
		"too many bytes":           {Partition: shard, Head: ok, Rows: []store.Row{row, {Key: "bob", Value: make([]byte, store.CommitRowBytesMax)}}},
		"too many bytes, journal":  {Partition: block, Head: ok, Rows: []store.Row{{Value: make([]byte, store.CommitRowBytesMax+1)}}},
		"state too long":           {Partition: shard, Head: store.Head{Version: 1, Attempt: 1, State: make([]byte, store.HeadStateBytesMax+1)}},
		"owner's address too long": {Partition: shard, Head: store.Head{Version: 1, Attempt: 1, Owner: store.Owner{Address: strings.Repeat("a", store.OwnerAddressMax+1)}}},
	} {
		if r, err := s.Commit(t.Context(), c); !errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: %+v, %v, want ErrInvalid", name, r, err)
		}
	}
	wantHead(t, s, shard, store.Head{})
	wantHead(t, s, block, store.Head{})
	wantNoRow(t, s, shard, "ada")
}

// testMemory checks that the store shares no memory with its callers.
func testMemory(t *testing.T, o Opener) {
	s := open(t, o)
	p := store.Shard(4)
	c := shardCommit(4, 1, 1, store.Row{Key: "ada", Value: []byte("value")})
	want := c.Clone()
	mustApply(t, s, c)
	scribble := func(b []byte) {
		for i := range b {
			b[i] = '#'
		}
	}
	scribble(c.Head.State)
	scribble(c.Rows[0].Value)
	wantHead(t, s, p, want.Head)
	wantRow(t, s, p, "ada", "value")
	scribble(mustHead(t, s, p).State)
	r, err := s.Commit(t.Context(), shardCommit(4, 1, 2))
	if err != nil {
		t.Fatal(err)
	}
	scribble(r.Head.State)
	v, err := s.Row(t.Context(), p, "ada")
	if err != nil {
		t.Fatal(err)
	}
	scribble(v)
	scribble(allRows(t, s, p)[0].Value)
	wantHead(t, s, p, want.Head)
	wantRow(t, s, p, "ada", "value")

	mustApply(t, s, blockCommit(1, 1, 1))
	scribble(journal(t, s, store.Block(1), 1)[0].Value)
	snap := snapshotOf(1)
	if err := s.PutSnapshot(t.Context(), 1, snap); err != nil {
		t.Fatal(err)
	}
	scribble(snap.Data)
	got, err := s.Snapshot(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	scribble(got.Data)
	wantSnapshot(t, s, 1, 1, 1)
	if got := journal(t, s, store.Block(1), 1); string(got[0].Value) != string(journalValue(1, 1)) {
		t.Fatalf("journal %v", got)
	}
}

// testModel makes random calls and compares every answer with the model's.
func testModel(t *testing.T, o Opener, model Model) {
	const steps = 400
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	s := open(t, o)
	blocks := []board.BlockID{0, board.NewBlockID(1, 0), board.NewBlockID(0, 1)}
	partitions := []store.Partition{store.Settings(), store.Invites(), store.Shard(0), store.Shard(1), store.Block(blocks[0]), store.Block(blocks[1])}
	for step := range steps {
		p := partitions[r.IntN(len(partitions))]
		switch n := r.IntN(100); {
		case n < 60:
			c := randomCommit(r, p, model.Head(p).Version)
			want := model.Commit(c)
			got, err := s.Commit(t.Context(), c)
			if errors.Is(err, store.ErrUnknown) { // known in the end, if perhaps as "the head is yours"
				got.Applied, got.Head, err = settle(t.Context(), s, c)
			}
			if err != nil || got.Applied != want.Applied || (!want.Applied && !equalHead(got.Head, want.Head)) {
				t.Fatalf("step %d: commit %d of %s: %+v, %v, want %+v", step, c.Head.Version, p, got, err, want)
			}
		case n < 75 && p.Journal():
			from := uint64(r.IntN(int(model.Head(p).Version) + 3))
			if got, want := journal(t, s, p, from), model.Journal(p, from); !equalJournal(got, want) {
				t.Fatalf("step %d: journal of %s from %d: %v, want %v", step, p, from, got, want)
			}
		case n < 75:
			if got, want := allRows(t, s, p), model.Rows(p); !equalRows(got, want) {
				t.Fatalf("step %d: rows of %s: %q, want %q", step, p, got, want)
			}
		case n < 80:
			snap := store.Snapshot{Version: 1 + r.Uint64N(40), Data: noise(r, r.IntN(100))}
			b := blocks[r.IntN(len(blocks))]
			model.PutSnapshot(b, snap)
			if err := s.PutSnapshot(t.Context(), b, snap); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			// Two snapshots are promised, a store may keep more: only the newest compares.
			want, _ := model.Snapshot(b, math.MaxInt64)
			if got, err := s.Snapshot(t.Context(), b, math.MaxInt64); err != nil || got.Version != want.Version || !bytes.Equal(got.Data, want.Data) {
				t.Fatalf("step %d: snapshot %d %q, %v, want %d %q", step, got.Version, got.Data, err, want.Version, want.Data)
			}
		case n < 99:
			wantHead(t, s, p, model.Head(p))
		default:
			s = reopen(t, o, s)
		}
	}
}

// randomCommit makes a commit that applies in two cases of three.
func randomCommit(r *rand.Rand, p store.Partition, version uint64) *store.Commit {
	v := version + 1
	if r.IntN(3) == 0 {
		v = 1 + r.Uint64N(version+3)
	}
	c := &store.Commit{Partition: p, Head: store.Head{Version: v, Attempt: 1 + r.Uint64N(math.MaxInt64), Owner: store.Owner{Address: "n1", Incarnation: r.Uint64()}}}
	if p.Journal() {
		c.Rows = []store.Row{{Value: noise(r, 1+r.IntN(60))}}
		return c
	}
	c.Head.State = noise(r, r.IntN(200))
	for i := range 6 {
		if r.IntN(2) == 0 {
			c.Rows = append(c.Rows, store.Row{Key: fmt.Sprintf("user %d", i), Value: noise(r, 1+r.IntN(60))})
		}
	}
	return c
}
