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

// lose lets another node make the next version.
func (r *shardRig) lose(owner Node) []ShardEffect {
	c := r.seal()
	rival := r.store.Rival(store.Shard(r.index), store.Owner{Address: owner.Address, Incarnation: owner.Incarnation, SettingsVersion: 1}, 99)
	r.store.Commit(rival)
	return r.apply(c)
}

func TestShardDeposed(t *testing.T) {
	place := func(forwarded bool) PlaceTile {
		return PlaceTile{Request: board.PlaceRequest{User: alice, Turn: 1}, ReplyTo: ref(1), Forwarded: forwarded}
	}
	r := newShardRig(t)
	r.ask(alice, inBlock(0))
	effects := r.lose(nodeB)
	one[TellUsers](t, effects)
	none[LoadShard](t, effects)
	for _, m := range []UserMessage{
		place(false), RegisterSession{User: alice}, ForgetSession{User: alice}, SetBan{User: alice},
	} {
		forward := one[ForwardToOwner](t, r.shard.ForUser(r.nowMs, alice, m))
		if _, again := forwarded(forward.Message); forward.Address != nodeB.Address || !again {
			t.Fatalf("forwarded %+v", forward)
		}
	}
	r.nowMs += DeposedMsMax
	one[LoadShard](t, r.send(Tick{}))

	r = newShardRig(t)
	r.ask(alice, inBlock(0))
	r.lose(nodeB)
	effects = slices.Clone(r.shard.ForUser(r.nowMs, alice, place(true)))
	one[TellUser](t, effects) // once forwarded it is served
	r.load(effects)

	r = newShardRig(t)
	r.ask(alice, inBlock(0))
	r.lose(nodeB)
	one[LoadShard](t, r.shard.ViewChanged(r.nowMs))

	r = newShardRig(t)
	r.ask(alice, inBlock(0))
	r.lose(nodeB)
	r.nowMs -= 3_600_000
	one[LoadShard](t, r.send(Tick{})) // the clock jumped back: nobody waits an hour

	r = newShardRig(t)
	r.ask(alice, inBlock(0))
	one[LoadShard](t, r.lose(nodeA)) // an earlier process of this very node
}

// A commit whose fate is not known stays as it is: nothing else is sealed.
func TestShardWaitsForAnUnknownCommit(t *testing.T) {
	r := newShardRig(t)
	r.ask(alice, inBlock(0))
	c := r.seal()
	if e := r.send(CommitDone{Attempt: c.Head.Attempt, Result: store.Result{}}); len(e) != 0 {
		t.Fatalf("effects %+v", e)
	}
	r.ask(bob, inBlock(0))
	none[MakeCommit](t, r.send(SlotGranted{}))
	if made := told[ChargeMade](r.apply(c), alice); len(made) != 1 {
		t.Fatalf("made %+v", made)
	}
	if made := told[ChargeMade](r.commit(), bob); len(made) != 1 {
		t.Fatalf("made %+v", made)
	}
}

// A charge that waits for long for a commit of known outcome is called unknown, once.
func TestShardCallsUnsure(t *testing.T) {
	r := newShardRig(t)
	r.ask(alice, inBlock(0))
	c := r.seal() // its answer does not come
	r.nowMs += 1000
	r.ask(bob, inBlock(0))
	r.nowMs += UnknownMs - 1001
	if m := told[ChargeUnsure](r.send(Tick{}), alice); len(m) != 0 {
		t.Fatal("too early")
	}
	r.nowMs++
	effects := r.send(Tick{})
	if m := told[ChargeUnsure](effects, alice); len(m) != 1 || m[0].Turn != 1 || len(told[ChargeUnsure](effects, bob)) != 0 {
		t.Fatalf("in flight: %+v", effects)
	}
	read := one[ReadRow](t, r.user(AskRow{User: alice, Generation: r.shard.Generation()}))
	effects = r.send(RowRead{Generation: read.Generation, User: alice})
	if loaded, unsure := told[UserRowLoaded](effects, alice), told[ChargeUnsure](effects, alice); len(loaded) != 1 || loaded[0].Placing == nil || len(unsure) != 1 {
		t.Fatalf("a new actor of the user hears %+v", effects)
	}
	r.nowMs += 1000
	effects = r.send(Tick{})
	if m := told[ChargeUnsure](effects, bob); len(m) != 1 || len(told[ChargeUnsure](effects, alice)) != 0 {
		t.Fatalf("queued: %+v", effects)
	}
	if m := told[ChargeMade](r.apply(c), alice); len(m) != 1 {
		t.Errorf("made %+v", m)
	}
}

func TestShardCallsOverdue(t *testing.T) {
	r := newShardRig(t)
	r.ask(alice, inBlock(0))
	r.commit()
	r.nowMs += OverdueMs - 1
	if m := told[ChargeOverdue](r.send(Tick{}), alice); len(m) != 0 {
		t.Fatal("too early")
	}
	r.nowMs++
	if m := told[ChargeOverdue](r.send(Tick{}), alice); len(m) != 1 || m[0].Turn != 1 {
		t.Fatalf("overdue %+v", m)
	}
	r.nowMs += OverdueMs
	if m := told[ChargeOverdue](r.send(Tick{}), alice); len(m) != 0 {
		t.Fatal("told twice")
	}
}

func TestShardLoads(t *testing.T) {
	r := newShardRig(t)
	r.user(AskBan{User: alice, Generation: r.shard.Generation(), UntilMs: r.nowMs - 5})
	r.commit()
	r.ask(alice, inBlock(0))
	r.commit()
	lastAt := r.shard.lastAtMs

	r.shard = NewShard(r.index, nodeB, r.rules, testRandom())
	r.nowMs -= 5000
	effects := r.load(r.send(Tick{}))
	if sent := one[SendCharges](t, effects).Message; len(sent.Charges) != 1 || sent.Floor != 2 || sent.From != nodeB.Address {
		t.Fatalf("sent %+v", sent)
	}
	if now := r.shard.Now(r.nowMs); now != lastAt {
		t.Errorf("the clock stands at %d, the head at %d", now, lastAt)
	}
	r.placed(r.open()...)
	r.nowMs += CloseMs
	r.send(Tick{})
	r.commit()
	if row := r.row(alice); row.BannedUntilMs != testStartMs-5 || row.Sequence != 1 {
		t.Errorf("the closing wrote %+v", row)
	}

	t.Run("newer settings are waited for", func(t *testing.T) {
		newer := testRules(r.rules, nil)
		r.send(SettingsMade{newer})
		r.commit()
		late := NewShard(r.index, nodeA, r.rules, testRandom())
		load := one[LoadShard](t, slices.Clone(late.Receive(r.nowMs, Tick{})))
		loaded := ShardLoaded{Generation: load.Generation, Head: r.store.Head(store.Shard(r.index))}
		none[LoadShard](t, late.Receive(r.nowMs, loaded))
		none[LoadShard](t, late.Receive(r.nowMs+LoadRetryMs-1, Tick{}))
		load = one[LoadShard](t, slices.Clone(late.Receive(r.nowMs+LoadRetryMs, SettingsMade{newer})))
		loaded.Generation = load.Generation
		if late.Receive(r.nowMs+LoadRetryMs, loaded); !late.loaded {
			t.Error("not loaded with the settings at hand")
		}
	})
	t.Run("bytes that do not decode are reported", func(t *testing.T) {
		bad := NewShard(r.index, nodeA, r.rules, testRandom())
		load := one[LoadShard](t, slices.Clone(bad.Receive(r.nowMs, Tick{})))
		head := store.Head{Version: 3, State: []byte{77}}
		if p := one[ReportProblem](t, bad.Receive(r.nowMs, ShardLoaded{Generation: load.Generation, Head: head})); p.Err == nil || bad.loaded {
			t.Errorf("report %+v", p)
		}
	})
	t.Run("a store that is away is asked again", func(t *testing.T) {
		away := NewShard(r.index, nodeA, r.rules, testRandom())
		load := one[LoadShard](t, slices.Clone(away.Receive(r.nowMs, Tick{})))
		none[LoadShard](t, away.Receive(r.nowMs, ShardLoaded{Generation: load.Generation, Failed: true}))
		one[LoadShard](t, away.Receive(r.nowMs+LoadRetryMs, Tick{}))
	})
}

// A shard that may not charge says so at once, and seals nothing under a clock that is not trusted.
func TestShardHealth(t *testing.T) {
	for _, code := range []board.Code{board.CodeStore, board.CodeClock, board.CodeDraining} {
		t.Run(code.String(), func(t *testing.T) {
			r := newShardRig(t)
			r.ask(alice, inBlock(0))
			r.commit()
			r.ask(bob, inBlock(0))
			effects := r.send(HealthChanged{Refuse: code})
			if m := told[ChargeRefused](effects, bob); len(m) != 1 || m[0].Code != code || m[0].WaitMs != StoreRetryMs {
				t.Fatalf("queued: %+v", m)
			}
			if m := told[ChargeRefused](r.ask(bob, inBlock(0)), bob); len(m) != 1 || m[0].Code != code {
				t.Fatalf("new: %+v", m)
			}
			effects = r.send(SlotGranted{})
			one[DropSlot](t, effects)
			none[TakeSlot](t, effects) // no turning in circles
			r.placed(r.open()...)
			r.nowMs += CloseMs
			if got, want := len(only[TakeSlot](r.send(Tick{}))), 1; code == board.CodeClock && got != 0 || code != board.CodeClock && got != want {
				t.Fatalf("open charges land: asked for %d slots", got)
			}
			r.send(HealthChanged{})
			r.turns[bob] = 0
			none[TellUser](t, r.ask(bob, inBlock(1)))
			if made := told[ChargeMade](r.commit(), bob); len(made) != 1 {
				t.Errorf("once all is well: %+v", made)
			}
		})
	}
}

func TestShardPassesRowsOnAsTheyAre(t *testing.T) {
	read := func(t *testing.T, r *shardRig) ReadRow {
		return one[ReadRow](t, r.user(AskRow{User: alice, Generation: r.shard.Generation()}))
	}
	answer := func(r *shardRig, e ReadRow, row store.UserRow) []ShardEffect {
		return r.send(RowRead{Generation: e.Generation, User: alice, Row: row})
	}
	t.Run("while the closing of its charge becomes durable", func(t *testing.T) {
		r := newShardRig(t)
		r.ask(alice, inBlock(0))
		r.commit()
		e, row := read(t, r), r.row(alice)
		r.placed(r.open()...)
		r.nowMs += CloseMs
		r.send(Tick{})
		r.commit()
		if m := told[UserRowLoaded](answer(r, e, row), alice); len(m) != 1 || m[0].Row.Sequence != 1 || m[0].Open {
			t.Fatalf("loaded %+v", m)
		}
	})
	t.Run("with its charge open", func(t *testing.T) {
		r := newShardRig(t)
		e := read(t, r)
		r.ask(alice, inBlock(0))
		r.commit()
		r.nowMs += OverdueMs
		r.send(Tick{})
		effects := answer(r, e, store.UserRow{})
		if m := told[UserRowLoaded](effects, alice); len(m) != 1 || m[0].Row != r.row(alice) || !m[0].Open {
			t.Fatalf("loaded %+v", m)
		}
		if m := told[ChargeOverdue](effects, alice); len(m) != 1 {
			t.Error("not told that the charge is overdue")
		}
	})
	t.Run("with its charge in flight", func(t *testing.T) {
		r := newShardRig(t)
		r.ask(alice, inBlock(0))
		r.store.Commit(r.seal()) // the answer is not here yet
		m := told[UserRowLoaded](answer(r, read(t, r), r.row(alice)), alice)
		if len(m) != 1 || m[0].Row.Turn != 0 || m[0].Open || m[0].Placing == nil || m[0].Placing.Turn != 1 {
			t.Fatalf("loaded %+v", m)
		}
	})
	t.Run("with a ban on its way", func(t *testing.T) {
		r := newShardRig(t)
		r.user(AskBan{User: alice, Generation: r.shard.Generation(), UntilMs: 5})
		e := read(t, r)
		if m := told[UserRowLoaded](answer(r, e, store.UserRow{}), alice); len(m) != 1 || m[0].Row.BannedUntilMs != 5 {
			t.Fatalf("queued: %+v", m)
		}
		e = read(t, r)
		r.commit()
		if m := told[UserRowLoaded](answer(r, e, store.UserRow{}), alice); len(m) != 1 || m[0].Row.BannedUntilMs != 5 {
			t.Fatalf("written meanwhile: %+v", m)
		}
	})
	t.Run("from a newer head", func(t *testing.T) {
		r := newShardRig(t)
		effects := answer(r, read(t, r), store.UserRow{Turn: 4, Nonce: 1, AtMs: 5})
		none[TellUser](t, effects)
		one[LoadShard](t, effects)
	})
	t.Run("not at all", func(t *testing.T) {
		r := newShardRig(t)
		e := read(t, r)
		none[ReadRow](t, r.user(AskRow{User: alice, Generation: r.shard.Generation()})) // one is on its way
		if m := told[UserRowLoaded](r.send(RowRead{Generation: e.Generation, User: alice, Failed: true}), alice); len(m) != 1 || !m[0].Failed {
			t.Fatalf("loaded %+v", m)
		}
		one[ReadRow](t, r.send(Tick{}))
		if effects := r.send(RowRead{Generation: e.Generation - 1, User: alice}); len(effects) != 0 {
			t.Errorf("an answer to the life before is passed on: %+v", effects)
		}
	})
	t.Run("once the shard is loaded", func(t *testing.T) {
		r := newShardRig(t)
		r.shard = NewShard(r.index, nodeA, r.rules, testRandom())
		effects := r.user(AskRow{User: alice, Generation: r.shard.Generation()})
		none[ReadRow](t, effects)
		one[ReadRow](t, r.load(effects))
	})
}

func TestShardWritesBans(t *testing.T) {
	r := newShardRig(t)
	ban := func(user board.UserID, untilMs int64) []ShardEffect {
		return r.user(AskBan{User: user, Generation: r.shard.Generation(), UntilMs: untilMs, To: ref(int(untilMs)), Before: r.row(user)})
	}
	for i := range ShardBansMax {
		ban(someone(i), int64(i+1))
	}
	if m := told[BanRefused](ban(alice, 7), alice); len(m) != 1 || m[0].To != ref(7) || m[0].Code != board.CodeBusy {
		t.Fatalf("beyond %d bans: %+v", ShardBansMax, m)
	}
	effects := r.commit()
	for i := range ShardBansMax {
		if m := told[BanWritten](effects, someone(i)); len(m) != 1 || m[0].To != ref(i+1) || r.row(someone(i)).BannedUntilMs != int64(i+1) {
			t.Fatalf("ban %d: %+v", i, m)
		}
	}
	// A ban goes on top of the user's open charge, and the closing keeps it.
	r.ask(alice, inBlock(0))
	r.commit()
	row := r.row(alice)
	ban(alice, 9)
	r.commit()
	if row.BannedUntilMs = 9; r.row(alice) != row {
		t.Fatalf("row %+v, want %+v", r.row(alice), row)
	}
	r.placed(r.open()...)
	r.nowMs += CloseMs
	r.send(Tick{})
	r.commit()
	if row.Sequence = 1; r.row(alice) != row || len(r.open()) != 0 {
		t.Errorf("row %+v, want %+v", r.row(alice), row)
	}
}

// A commit of the life before may be applied after this life has loaded: its charge must not be forgotten.
func TestShardFencesTheLifeBefore(t *testing.T) {
	r := newShardRig(t)
	r.ask(bob, inBlock(0))
	r.commit()
	r.placed(r.open()...)
	r.nowMs += CloseMs
	r.send(Tick{})
	r.commit()
	r.ask(alice, inBlock(0))
	late := r.seal()

	r.restart(nodeB)
	r.store.Commit(late)
	r.nowMs += FenceMs - 1
	none[TakeSlot](t, r.send(Tick{}))
	r.nowMs++
	one[TakeSlot](t, r.send(Tick{}))
	r.commit()
	r.nowMs += DeposedMsMax
	if sent := one[SendCharges](t, r.load(r.send(Tick{}))).Message; len(sent.Charges) != 1 || sent.Charges[0].User != alice {
		t.Fatalf("sent %+v", sent)
	}
	r.nowMs += FenceMs
	one[TakeSlot](t, r.send(Tick{}))
	if c := r.seal(); len(c.Rows) != 0 {
		t.Errorf("the fence writes %+v", c.Rows)
	}
	r.apply(r.sealed)
	r.nowMs += FenceMs
	none[TakeSlot](t, r.send(Tick{}))
}

// What users of the life before ask for is not done.
func TestShardIgnoresEarlierGenerations(t *testing.T) {
	r := newShardRig(t)
	old := r.shard.Generation() - 1
	for _, e := range []UserEffect{
		AskRow{User: alice, Generation: old},
		AskCharge{User: alice, Generation: old, Turn: 1, At: inBlock(0)},
		AskBan{User: alice, Generation: old, UntilMs: 5},
	} {
		if effects := r.user(e); len(effects) != 0 {
			t.Errorf("%T: %+v", e, effects)
		}
	}
	if NewShard(3, nodeA, r.rules, testRandom()).Generation() == 0 {
		t.Error("the first generation is the same for every core")
	}
	r.commit()
	one[DropSlot](t, r.send(SlotGranted{})) // asked for in an earlier life
}
