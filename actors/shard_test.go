package actors

import (
	"fmt"
	"slices"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
)

// shardRig is a shard core on a store that answers when the test says so.
type shardRig struct {
	t      *testing.T
	shard  *Shard
	store  *mem.Core
	index  int
	nowMs  int64
	rules  *Rules
	turns  map[board.UserID]uint64
	sealed *store.Commit
}

func newShardRig(t *testing.T) *shardRig {
	r := &shardRig{
		t: t, store: mem.NewCore(), index: alice.Shard(), nowMs: testStartMs, turns: map[board.UserID]uint64{},
		rules: testRules(nil, func(s *board.Settings) { s.CooldownMs = 0 }),
	}
	r.restart(nodeA)
	return r
}

// restart makes a fresh core on the same store.
func (r *shardRig) restart(node Node) {
	r.shard = NewShard(r.index, node, r.rules, testRandom())
	r.load(r.send(Tick{}))
}

// load answers LoadShard from the store.
func (r *shardRig) load(effects []ShardEffect) []ShardEffect {
	r.t.Helper()
	e := one[LoadShard](r.t, effects)
	loaded := ShardLoaded{Generation: e.Generation, Head: r.store.Head(store.Shard(r.index)), Rows: map[board.UserID]store.UserRow{}}
	state, err := store.DecodeShardState(r.index, loaded.Head.State)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range state.Open {
		loaded.Rows[c.User] = r.row(c.User)
	}
	return r.send(loaded)
}

func (r *shardRig) row(user board.UserID) store.UserRow {
	value, _ := r.store.Row(store.Shard(r.index), string(user))
	row, _ := store.DecodeUserRow(value)
	return row
}

func (r *shardRig) send(m ShardMessage) []ShardEffect {
	return slices.Clone(r.shard.Receive(r.nowMs, m))
}

func (r *shardRig) user(e UserEffect) []ShardEffect {
	return slices.Clone(r.shard.FromUser(r.nowMs, e))
}

// ask asks for the user's next charge.
func (r *shardRig) ask(user board.UserID, at board.Point) []ShardEffect {
	r.turns[user]++
	return r.user(AskCharge{
		User: user, Generation: r.shard.Generation(), Turn: r.turns[user], Nonce: r.turns[user], At: at, Colour: 1, Before: r.row(user),
	})
}

// seal grants a slot and returns what the core gives to the store.
func (r *shardRig) seal() *store.Commit {
	r.t.Helper()
	r.sealed = one[MakeCommit](r.t, r.send(SlotGranted{})).Commit
	return r.sealed
}

// commit grants a slot, lets the store apply the commit, and tells the core.
func (r *shardRig) commit() []ShardEffect {
	r.t.Helper()
	return r.apply(r.seal())
}

func (r *shardRig) apply(c *store.Commit) []ShardEffect {
	return r.send(CommitDone{Attempt: c.Head.Attempt, Result: r.store.Commit(c)})
}

// placed tells the shard that charges are on the board.
func (r *shardRig) placed(charges ...store.Charge) []ShardEffect {
	m := TilesPlaced{Shard: r.index, Block: charges[0].At.Block()}
	for i, c := range charges {
		m.Results = append(m.Results, TicketPlaced{Ticket: c.Ticket, Sequence: uint64(i + 1)})
	}
	return r.send(m)
}

func (r *shardRig) open() []store.Charge {
	state, err := store.DecodeShardState(r.index, r.store.Head(store.Shard(r.index)).State)
	if err != nil {
		r.t.Fatal(err)
	}
	return state.Open
}

// told returns what a user is told of one kind.
func told[T UserMessage](effects []ShardEffect, user board.UserID) []T {
	var out []T
	for _, e := range only[TellUser](effects) {
		if m, ok := e.Message.(T); ok && e.User == user {
			out = append(out, m)
		}
	}
	return out
}

func someone(i int) board.UserID { return board.UserID(fmt.Sprintf("someone %d", i)) }

// inBlock returns a tile of one of the hundred blocks.
func inBlock(block int) board.Point {
	return board.Point{X: block%10*board.BlockSize + 1, Y: block/10*board.BlockSize + 1}
}

func TestShardLimits(t *testing.T) {
	t.Run("one block", func(t *testing.T) {
		r := newShardRig(t)
		for i := range ShardBlockOpenMax {
			none[TellUser](t, r.ask(someone(i), inBlock(0)))
		}
		if m := told[ChargeRefused](r.ask(bob, inBlock(0)), bob); len(m) != 1 || m[0].Code != board.CodeBusy || m[0].WaitMs != BusyRetryMs {
			t.Fatalf("beyond %d charges of a block: %+v", ShardBlockOpenMax, m)
		}
		none[TellUser](t, r.ask(alice, inBlock(1)))
	})
	t.Run("the shard", func(t *testing.T) {
		r := newShardRig(t)
		for i := range ShardOpenMax {
			none[TellUser](t, r.ask(someone(i), inBlock(i/ShardBlockOpenMax)))
		}
		if m := told[ChargeRefused](r.ask(bob, inBlock(50)), bob); len(m) != 1 || m[0].Code != board.CodeBusy {
			t.Fatalf("beyond %d charges: %+v", ShardOpenMax, m)
		}
		for len(r.shard.queue) > 0 { // a commit takes as many as it has rows
			c := r.seal()
			if err := c.Validate(); err != nil || len(c.Rows) != store.CommitRowsMax {
				t.Fatalf("%d rows: %v", len(c.Rows), err)
			}
			r.apply(c)
		}
		if n := len(r.open()); n != ShardOpenMax {
			t.Errorf("%d open charges", n)
		}
	})
	t.Run("one charge a user", func(t *testing.T) {
		r := newShardRig(t)
		r.ask(alice, inBlock(0))
		if m := told[ChargeRefused](r.ask(alice, inBlock(1)), alice); len(m) != 1 || m[0].Code != board.CodeBusy {
			t.Fatalf("a second charge: %+v", m)
		}
	})
	t.Run("tickets above the floor", func(t *testing.T) {
		r := newShardRig(t)
		r.ask(bob, inBlock(0))
		r.commit() // stays open and holds the floor down
		for i := range ShardBlockTicketsMax {
			if refused := told[ChargeRefused](r.ask(someone(i), inBlock(0)), someone(i)); len(refused) > 0 {
				if tickets := len(r.shard.blocks[0].tickets); i < 200 || tickets+1 > ShardBlockTicketsMax {
					t.Fatalf("refused with %d tickets", tickets)
				}
				r.placed(r.open()...)
				r.nowMs += CloseMs
				r.send(Tick{})
				r.commit() // the floor rises above all of them
				none[TellUser](t, r.ask(alice, inBlock(0)))
				return
			}
			r.commit()
			r.placed(r.open()[1:]...)
		}
		t.Fatal("no limit")
	})
}

// Nothing is charged that the settings of the commit, or a ban in it, refuse.
func TestShardChecksAgainAtSealing(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*shardRig)
		want   board.Code
	}{
		{"frozen since", func(r *shardRig) {
			r.send(SettingsMade{testRules(r.rules, func(s *board.Settings) { s.Frozen = true })})
		}, board.CodeFrozen},
		{"shrunk since", func(r *shardRig) {
			r.send(SettingsMade{testRules(r.rules, func(s *board.Settings) { s.Width = 50 })})
		}, board.CodeBounds},
		{"banned in the same commit", func(r *shardRig) {
			r.user(AskBan{User: alice, Generation: r.shard.Generation(), UntilMs: r.nowMs + 1000})
		}, board.CodeBanned},
		{"the shard's clock stands still", func(r *shardRig) { r.nowMs -= 60_000 }, board.CodeOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newShardRig(t)
			r.ask(alice, board.Point{X: 60, Y: 60})
			c.change(r)
			effects := r.send(SlotGranted{})
			refused := told[ChargeRefused](effects, alice)
			if c.want == board.CodeOK {
				if one[MakeCommit](t, effects); len(refused) != 0 {
					t.Fatalf("refused: %+v", refused)
				}
				return
			}
			if len(refused) != 1 || refused[0].Code != c.want {
				t.Fatalf("refused: %+v, want %v", refused, c.want)
			}
			for _, commit := range only[MakeCommit](effects) {
				r.apply(commit.Commit)
			}
			if row := r.row(alice); row.Turn != 0 || len(r.open()) != 0 || r.shard.Open() != 0 {
				t.Errorf("charged: %+v", row)
			}
		})
	}
}

// A cooldown raised between the question and the sealing does not lengthen a running charge; the commit carries its version.
func TestShardCarriesTheSettingsOfTheSealing(t *testing.T) {
	r := newShardRig(t)
	r.ask(alice, inBlock(0))
	newer := testRules(r.rules, func(s *board.Settings) { s.CooldownMs = 5000 })
	r.send(SettingsMade{newer})
	effects := r.commit()
	made := told[ChargeMade](effects, alice)
	if len(made) != 1 || made[0].Row.SettingsVersion != newer.Version() || made[0].Row != r.row(alice) {
		t.Fatalf("made %+v, stored %+v", made, r.row(alice))
	}
	if r.store.Head(store.Shard(r.index)).Owner.SettingsVersion != newer.Version() {
		t.Error("the head carries older settings")
	}
	if told := only[TellUsers](effects); len(told) != 1 {
		t.Errorf("users hear of the new settings %d times", len(told))
	}
}

// Closings are sealed before new charges, and a user has one row in a commit: the newest.
func TestShardClosesBeforeItCharges(t *testing.T) {
	r := newShardRig(t)
	r.ask(alice, inBlock(0))
	r.commit()
	r.placed(r.open()...)
	r.ask(alice, inBlock(1))
	c := r.seal()
	if len(c.Rows) != 1 || c.Rows[0].Key != string(alice) {
		t.Fatalf("rows %+v", c.Rows)
	}
	r.apply(c)
	if open := r.open(); len(open) != 1 || open[0].Turn != 2 || r.row(alice).Turn != 2 {
		t.Fatalf("open %+v, row %+v", open, r.row(alice))
	}
	for i := range 3 { // a row of another user comes beside it
		r.ask(someone(i), inBlock(i))
	}
	if c := r.seal(); len(c.Rows) != 3 {
		t.Errorf("%d rows", len(c.Rows))
	}
}

// A charge waits for the closing of the user's last one: otherwise that closing would be written over the newer row.
func TestShardClosesOneChargeBeforeTheNext(t *testing.T) {
	r := newShardRig(t)
	r.ask(alice, inBlock(0))
	r.commit()
	r.placed(r.open()...)
	old := r.shard.head[0]
	r.ask(bob, inBlock(1))
	r.ask(alice, inBlock(1))
	old.state = chargeOpen // as if the commit were full before its closing
	c := r.seal()
	old.state = chargePlaced
	r.apply(c)
	if open := r.open(); len(open) != 2 || open[0].Turn != 1 || open[1].User != bob {
		t.Fatalf("open %+v", open)
	}
	r.commit()
	if open := r.open(); len(open) != 2 || open[1].User != alice || open[1].Turn != 2 || r.row(alice).Turn != 2 {
		t.Fatalf("open %+v", open)
	}
	if c := r.shard.users[alice]; c.older != nil {
		t.Error("the charges of before are kept")
	}
	// The same when the charge between the two was refused.
	r.placed(r.open()[1])
	old = r.shard.users[alice]
	r.ask(alice, inBlock(1))
	r.send(HealthChanged{Refuse: board.CodeClock})
	r.send(HealthChanged{})
	r.turns[alice]--
	r.ask(alice, inBlock(1))
	if c := r.shard.users[alice]; c.state != chargeQueued || c.older != old {
		t.Errorf("the placed charge is forgotten: %+v", c)
	}
}

func TestShardClosesWhenIdle(t *testing.T) {
	r := newShardRig(t)
	r.ask(alice, inBlock(0))
	r.commit()
	effects := r.placed(r.open()...)
	if m := told[ChargePlaced](effects, alice); len(m) != 1 || m[0].Sequence != 1 {
		t.Fatalf("placed: %+v", m)
	}
	none[TakeSlot](t, effects)
	r.nowMs += CloseMs - 1
	none[TakeSlot](t, r.send(Tick{}))
	r.nowMs++
	one[TakeSlot](t, r.send(Tick{}))
	r.commit()
	if row := r.row(alice); len(r.open()) != 0 || row.Sequence != 1 {
		t.Errorf("open %+v, row %+v", r.open(), row)
	}
	none[TakeSlot](t, r.send(Tick{}))
}

func TestShardSendsUntilPlaced(t *testing.T) {
	r := newShardRig(t)
	r.ask(alice, inBlock(0))
	r.ask(bob, inBlock(3))
	first := only[SendCharges](r.commit())
	if len(first) != 2 || len(first[0].Message.Charges) != 1 || first[0].Message.Floor != 1 || first[0].Message.From != nodeA.Address {
		t.Fatalf("sent %+v", first)
	}
	r.nowMs += ResendMs - 1
	none[SendCharges](t, r.send(Tick{}))
	r.nowMs++
	if again := only[SendCharges](r.send(Tick{})); len(again) != 2 || again[0].Message.Charges[0] != first[0].Message.Charges[0] {
		t.Fatalf("sent again %+v", again)
	}
	r.nowMs -= 3_600_000 // the wall clock jumps back: nothing waits for the old time to come again
	if again := only[SendCharges](r.send(Tick{})); len(again) != 2 {
		t.Fatalf("after a jump back: %+v", again)
	}
	r.placed(first[0].Message.Charges...)
	r.nowMs += ResendMs
	if again := only[SendCharges](r.send(Tick{})); len(again) != 1 || again[0].Message.Block != inBlock(3).Block() {
		t.Errorf("after one is placed: %+v", again)
	}
	if e := r.placed(first[0].Message.Charges...); len(only[TellUser](e)) != 0 {
		t.Errorf("placed twice: %+v", e)
	}
}

// The floor comes from the committed head: a charge that is placed holds it down until its closing is durable.
func TestShardFloor(t *testing.T) {
	r := newShardRig(t)
	floor := func() uint64 { return r.shard.floor(0) }
	r.ask(alice, inBlock(0))
	r.commit() // commit 1
	r.ask(bob, inBlock(0))
	r.commit() // commit 2
	open := r.open()
	r.placed(open[0])
	if floor() != 1 {
		t.Fatalf("floor %d with the closing still in memory", floor())
	}
	r.nowMs += CloseMs
	r.send(Tick{})
	c := r.seal()
	if floor() != 1 {
		t.Fatalf("floor %d with the closing in flight", floor())
	}
	r.apply(c) // commit 3
	if floor() != 2 {
		t.Fatalf("floor %d with ticket 2 open", floor())
	}
	r.placed(open[1])
	r.nowMs += CloseMs
	r.send(Tick{})
	r.commit() // commit 4
	if floor() != 5 || len(r.shard.blocks) != 0 {
		t.Errorf("floor %d with nothing open, %d blocks remembered", floor(), len(r.shard.blocks))
	}
}

// A block that calls an open ticket settled proves that a newer head exists.
func TestShardReloadsWhenSettled(t *testing.T) {
	r := newShardRig(t)
	r.ask(alice, inBlock(0))
	r.commit()
	before := r.shard.Generation()
	effects := r.send(TilesPlaced{Shard: r.index, Results: []TicketPlaced{{Ticket: r.open()[0].Ticket, Settled: true}}})
	if m, ok := one[TellUsers](t, effects).Message.(ReloadUser); !ok || m.Generation != before+1 || r.shard.Generation() != before+1 {
		t.Fatalf("users hear %+v", effects)
	}
	if e := r.send(ShardLoaded{Generation: before}); len(e) != 0 || r.shard.loaded {
		t.Fatal("an answer to the life before is taken")
	}
	one[LoadShard](t, effects)
}

func TestShardReportsSettingsInForce(t *testing.T) {
	r := newShardRig(t)
	r.ask(alice, inBlock(0))
	r.commit()
	open := r.open()
	newer := testRules(r.rules, nil)
	one[TakeSlot](t, r.send(SettingsMade{newer}))
	if e := one[ShardInForce](t, r.commit()); e.Version != newer.Version() || e.OpenOlder != 1 || e.Shard != r.index {
		t.Fatalf("report %+v", e)
	}
	r.placed(open...)
	r.nowMs += CloseMs
	r.send(Tick{})
	if e := one[ShardInForce](t, r.commit()); e.OpenOlder != 0 {
		t.Fatalf("report %+v", e)
	}
	r.ask(bob, inBlock(0))
	none[ShardInForce](t, r.commit())
	none[TakeSlot](t, r.send(SettingsMade{r.rules})) // older ones change nothing
}
