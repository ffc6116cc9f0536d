package actors

import (
	"slices"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
)

// blockRig is the core of block (0,0) on a store that answers when the test says so.
type blockRig struct {
	t     *testing.T
	block *Block
	store *mem.Core
	nowMs int64
	rules *Rules
	turn  uint64
}

func newBlockRig(t *testing.T) *blockRig {
	r := &blockRig{t: t, store: mem.NewCore(), nowMs: testStartMs, rules: testRules(nil, nil)}
	r.restart(nodeA)
	return r
}

func (r *blockRig) restart(node Node) []RegionEffect {
	r.block = NewBlock(0, node, r.rules, testRandom())
	return r.load(r.send(TouchBlock{}))
}

func (r *blockRig) load(effects []RegionEffect) []RegionEffect {
	r.t.Helper()
	e := one[LoadBlock](r.t, effects)
	state := store.NewBlockState()
	for _, entry := range r.store.Journal(store.Block(0), 1) {
		c, err := store.DecodeBlockCommit(entry.Value)
		if err == nil {
			err = state.Apply(entry.Version, &c)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return r.send(BlockLoaded{Generation: e.Generation, Head: r.store.Head(store.Block(0)), State: state})
}

func (r *blockRig) send(m RegionMessage) []RegionEffect {
	return slices.Clone(r.block.Receive(r.nowMs, m))
}

// charge makes a charge of a commit of shard 7.
func (r *blockRig) charge(commit uint64, index int, at board.Point, colour board.Colour) store.Charge {
	r.turn++
	return store.Charge{
		Ticket: board.Ticket{Shard: 7, Commit: commit, Index: uint16(index)}, User: alice, Turn: r.turn, Nonce: r.turn, At: at, Colour: colour,
		AtMs: r.nowMs, SettingsVersion: 1, Node: 1,
	}
}

func (r *blockRig) place(floor uint64, charges ...store.Charge) []RegionEffect {
	return r.send(PlaceTiles{Shard: 7, Floor: floor, Charges: charges, From: nodeB.Address})
}

func (r *blockRig) seal() *store.Commit {
	r.t.Helper()
	return one[MakeBlockCommit](r.t, r.send(BlockSlotGranted{})).Commit
}

func (r *blockRig) apply(c *store.Commit) []RegionEffect {
	return r.send(BlockCommitDone{Attempt: c.Head.Attempt, Result: r.store.Commit(c)})
}

func (r *blockRig) commit() []RegionEffect {
	r.t.Helper()
	return r.apply(r.seal())
}

// last returns the newest entry of the journal.
func (r *blockRig) last() store.BlockCommit {
	r.t.Helper()
	entries := r.store.Journal(store.Block(0), r.store.Head(store.Block(0)).Version)
	c, err := store.DecodeBlockCommit(entries[0].Value)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

var tile = board.Point{X: 3, Y: 4}

func TestBlockJudgesTickets(t *testing.T) {
	r := newBlockRig(t)
	a, b := r.charge(5, 0, tile, 1), r.charge(5, 1, board.Point{X: 60, Y: 4}, 2)
	one[TakeBlockSlot](t, r.place(5, a, b))
	none[AnswerShard](t, r.place(5, a)) // under way
	effects := r.commit()
	answer := one[AnswerShard](t, effects)
	want := []TicketPlaced{{Ticket: a.Ticket, Sequence: 1, Version: 1}, {Ticket: b.Ticket, Sequence: 1, Version: 1}}
	if answer.To != nodeB.Address || answer.Message.Shard != 7 || !slices.Equal(answer.Message.Results, want) {
		t.Fatalf("answered %+v", answer)
	}
	if p := one[Publish](t, effects).Message; p.Version != 1 || len(p.Tiles) != 2 || p.Tiles[0] != (AppliedTile{Chunk: 0, Tile: uint16(tile.Tile()), Colour: 1, Sequence: 1, User: a.User}) {
		t.Fatalf("published %+v", p)
	}
	if again := one[AnswerShard](t, r.place(5, a)); !slices.Equal(again.Message.Results, want[:1]) {
		t.Fatalf("seen before: %+v", again)
	}
	if c := r.last(); len(c.Floors) != 1 || c.Floors[0] != (store.Floor{Shard: 7, Commit: 5}) {
		t.Fatalf("floors %+v", c.Floors)
	}

	settled := one[AnswerShard](t, r.place(6, a)).Message.Results
	if len(settled) != 1 || !settled[0].Settled || settled[0].Ticket != a.Ticket {
		t.Fatalf("below the floor: %+v", settled)
	}
	if one[AnswerShard](t, r.place(1, a)); r.block.state.Shard(7).Floor != 6 {
		t.Fatal("a floor that came late lowered it")
	}

	// Everything that judges tickets is there again after a takeover.
	r.place(6, r.charge(6, 0, tile, 3))
	r.commit()
	r.restart(nodeB)
	if again := one[AnswerShard](t, r.place(1, a, r.charge(6, 0, tile, 3))).Message.Results; !again[0].Settled || again[1].Sequence != 2 {
		t.Fatalf("after a takeover: %+v", again)
	}
}

func TestBlockOrdersPlacements(t *testing.T) {
	r := newBlockRig(t)
	r.place(1, r.charge(1, 0, tile, 1))
	r.commit()
	r.place(1, r.charge(2, 0, tile, 2), r.charge(2, 1, board.Point{X: 70, Y: 70}, 3), r.charge(2, 2, tile, 4), r.charge(2, 3, board.Point{X: 5, Y: 5}, 5))
	r.commit()
	var got [][3]uint64 // chunk, sequence, previous version
	for _, p := range r.last().Placements {
		got = append(got, [3]uint64{uint64(p.Chunk), p.Sequence, p.PreviousVersion})
	}
	far := uint64(board.Point{X: 70, Y: 70}.Chunk())
	want := [][3]uint64{{0, 2, 1}, {far, 1, 0}, {0, 3, 2}, {0, 4, 0}}
	if !slices.Equal(got, want) {
		t.Fatalf("placements %v, want %v", got, want)
	}
	known := TileKnown{}
	r.send(GetTile{At: tile, Reply: func(k TileKnown) { known = k }})
	if known != (TileKnown{OK: true, Colour: 4, Version: 2}) {
		t.Errorf("tile %+v", known)
	}
}

func TestBlockCommitStaysInItsBounds(t *testing.T) {
	r := newBlockRig(t)
	long := board.UserID(strings.Repeat("x", board.UserBytesMax))
	for commit := range uint64(40) {
		var charges []store.Charge
		for i := range 10 {
			c := r.charge(1<<40+commit, i, tile, 1)
			c.User, c.Nonce, c.Node = long, 1<<63, 1<<63+commit
			charges = append(charges, c)
		}
		r.place(1<<40, charges...)
	}
	for sum := 0; sum < 400; {
		c := r.seal()
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		r.apply(c)
		n := len(r.last().Placements)
		if n == 0 || n > store.CommitRowsMax {
			t.Fatalf("%d placements in a commit", n)
		}
		sum += n
	}
	var many []store.Charge
	for i := range BlockQueueMax + 10 {
		many = append(many, r.charge(1<<41, i, tile, 1))
	}
	if r.place(1, many...); len(r.block.queue) != BlockQueueMax {
		t.Errorf("%d placements wait, at most %d", len(r.block.queue), BlockQueueMax)
	}
	r = newBlockRig(t)
	none[TakeBlockSlot](t, r.place(1, r.charge(1, 0, board.Point{X: 100, Y: 0}, 1))) // of another block
}

func TestBlockSnapshots(t *testing.T) {
	place := func(r *blockRig, n int) []RegionEffect {
		var charges []store.Charge
		for i := range n {
			charges = append(charges, r.charge(r.turn+1, i, tile, board.Colour(i%16)))
		}
		r.place(1, charges...)
		return r.commit()
	}
	t.Run("after a number of placements", func(t *testing.T) {
		r := newBlockRig(t)
		for sum := 200; sum < SnapshotPlacements; sum += 200 {
			none[WriteSnapshot](t, place(r, 200))
		}
		e := one[WriteSnapshot](t, place(r, 200))
		state, err := store.DecodeBlockState(e.Snapshot.Data)
		if err != nil || state.Version != r.block.state.Version || e.Snapshot.Version != state.Version {
			t.Fatalf("snapshot of version %d: %v", e.Snapshot.Version, err)
		}
		none[WriteSnapshot](t, r.send(SnapshotBlocks{})) // one is being written
		if r.block.Settled() {
			t.Error("settled before the snapshot is written")
		}
		r.send(SnapshotDone{Version: e.Snapshot.Version})
		if !r.block.Settled() {
			t.Error("not settled after it")
		}
		none[WriteSnapshot](t, r.send(SnapshotBlocks{})) // nothing has changed
	})
	t.Run("after a time", func(t *testing.T) {
		r := newBlockRig(t)
		place(r, 1)
		r.nowMs += SnapshotMs - 1
		none[WriteSnapshot](t, r.block.Tick(r.nowMs))
		r.nowMs++
		e := one[WriteSnapshot](t, slices.Clone(r.block.Tick(r.nowMs)))
		none[WriteSnapshot](t, r.block.Tick(r.nowMs+SnapshotMs))
		r.send(SnapshotDone{Version: e.Snapshot.Version, Failed: true})
		none[WriteSnapshot](t, r.block.Tick(r.nowMs+SnapshotMs-1))
		one[WriteSnapshot](t, slices.Clone(r.block.Tick(r.nowMs+SnapshotMs))) // it failed: again
	})
	t.Run("after a load with a tail", func(t *testing.T) {
		r := newBlockRig(t)
		place(r, 1)
		r.restart(nodeA)
		one[WriteSnapshot](t, slices.Clone(r.block.Tick(r.nowMs+SnapshotMs)))
	})
	t.Run("on request", func(t *testing.T) {
		r := newBlockRig(t)
		place(r, 1)
		r.place(1, r.charge(9, 0, tile, 1))
		c := r.seal()
		e := one[WriteSnapshot](t, r.send(SnapshotBlocks{}))
		r.send(SnapshotDone{Version: e.Snapshot.Version})
		one[WriteSnapshot](t, r.apply(c)) // and of what was in flight
		none[WriteSnapshot](t, newBlockRig(t).send(SnapshotBlocks{}))
	})
}

func TestBlockLoads(t *testing.T) {
	r := newBlockRig(t)
	r.place(1, r.charge(1, 0, tile, 9))
	r.commit()
	r.block = NewBlock(0, nodeA, r.rules, testRandom())
	load := r.place(1, r.charge(2, 0, tile, 8)) // waits, with whatever else comes
	var known []TileKnown
	for range BlockTilesMax + 1 {
		r.send(GetTile{At: tile, Reply: func(k TileKnown) { known = append(known, k) }})
	}
	if len(known) != 1 || known[0].OK {
		t.Fatalf("beyond %d questions: %+v", BlockTilesMax, known)
	}
	for range BlockEarlyMax {
		r.place(1, r.charge(3, 0, tile, 7))
	}
	if len(r.block.early) != BlockEarlyMax {
		t.Fatalf("%d messages wait", len(r.block.early))
	}
	effects := r.load(load)
	if images := one[PublishImages](t, effects).Message; len(images.Chunks) != 1 || images.Chunks[0].Sequence != 1 || images.Chunks[0].Tiles[tile.Tile()] != 9 {
		t.Fatalf("images %+v", images)
	}
	one[TakeBlockSlot](t, effects)
	if last := known[len(known)-1]; len(known) != BlockTilesMax+1 || !last.OK || last.Colour != 9 {
		t.Fatalf("%d answers, the last %+v", len(known), last)
	}
	one[PublishImages](t, r.send(PullBlock{}))

	t.Run("newer settings and stores that are away are waited for", func(t *testing.T) {
		b := NewBlock(0, nodeA, r.rules, testRandom())
		e := one[LoadBlock](t, slices.Clone(b.Receive(r.nowMs, TouchBlock{})))
		newer := BlockLoaded{Generation: e.Generation, Head: store.Head{Owner: store.Owner{SettingsVersion: 2}}, State: store.NewBlockState()}
		none[LoadBlock](t, b.Receive(r.nowMs, newer))
		one[LoadBlock](t, slices.Clone(b.Tick(r.nowMs+LoadRetryMs)))
		none[LoadBlock](t, b.Receive(r.nowMs+LoadRetryMs, BlockLoaded{Generation: e.Generation, Failed: true}))
		one[LoadBlock](t, slices.Clone(b.Tick(r.nowMs+2*LoadRetryMs)))
		b.SetRules(testRules(r.rules, nil))
		if b.Receive(r.nowMs, BlockLoaded{Generation: e.Generation - 1, State: store.NewBlockState()}); b.loaded {
			t.Fatal("an answer to another core is taken")
		}
		if b.Receive(r.nowMs, newer); !b.loaded {
			t.Error("not loaded with the settings at hand")
		}
	})
}

func TestBlockDeposed(t *testing.T) {
	r := newBlockRig(t)
	lose := func(owner Node) []RegionEffect {
		r.place(1, r.charge(8, int(r.turn), tile, 1))
		c := r.seal()
		r.store.Commit(r.store.Rival(store.Block(0), store.Owner{Address: owner.Address, SettingsVersion: 1}, 99))
		return r.apply(c)
	}
	none[LoadBlock](t, lose(nodeB))
	m := PlaceTiles{Shard: 7, Floor: 1, Charges: []store.Charge{r.charge(1, 0, tile, 1)}, From: nodeA.Address}
	forward := one[ForwardCharges](t, r.send(m))
	if forward.Address != nodeB.Address || !forward.Message.Forwarded || len(forward.Message.Charges) != 1 {
		t.Fatalf("forwarded %+v", forward)
	}
	effects := r.load(r.send(forward.Message)) // forwarded once already: served
	one[TakeBlockSlot](t, effects)
	r.commit()
	one[LoadBlock](t, lose(nodeA)) // an earlier process of this very node

	r = newBlockRig(t)
	lose(nodeB)
	none[LoadBlock](t, r.block.Tick(r.nowMs))
	one[LoadBlock](t, slices.Clone(r.block.Tick(r.nowMs+DeposedMsMax)))
}

func TestBlockRetires(t *testing.T) {
	r := newBlockRig(t)
	r.place(1, r.charge(1, 0, tile, 1))
	if !r.block.Retire() {
		t.Fatal("a slot is on its way, which has to go back")
	}
	one[DropBlockSlot](t, r.send(BlockSlotGranted{}))
	if r.block.Retire() {
		t.Fatal("nothing is in flight")
	}
	r.place(1, r.charge(1, 0, tile, 1))
	c := r.seal()
	r.place(1, r.charge(1, 1, tile, 2))
	if !r.block.Retire() {
		t.Fatal("a commit is in flight")
	}
	one[AnswerShard](t, r.apply(c))
	if r.block.Retire() || len(r.block.queue) != 0 {
		t.Error("unsealed work is kept")
	}

	// Who asks for a tile of a block that will not load any more hears so.
	loading := NewBlock(0, nodeA, r.block.rules, testRandom())
	var known []TileKnown
	loading.Receive(r.nowMs, GetTile{At: tile, Reply: func(k TileKnown) { known = append(known, k) }})
	if loading.Retire(); len(known) != 1 || known[0].OK {
		t.Errorf("told %+v", known)
	}
}
