package actors

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

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

// TestTheLargestBansFitACommit: all bans that wait go into one commit, however long their reasons are.
func TestTheLargestBansFitACommit(t *testing.T) {
	r := newShardRig(t)
	for i := range ShardBansMax {
		user := board.UserID(fmt.Sprintf("%s%02d", strings.Repeat("u", board.UserBytesMax-2), i))
		largest := store.UserRow{
			Turn: math.MaxUint64, Nonce: math.MaxUint64, At: board.Point{X: board.SideMax - 1, Y: board.SideMax - 1}, AtMs: math.MinInt64,
			SettingsVersion: math.MaxUint64, Node: math.MaxUint64, Sequence: math.MaxUint64,
			Newest: board.Entry{Block: board.NewBlockID(99, 99), Version: math.MaxUint64},
		}
		note := &store.BanNote{By: user, Why: strings.Repeat("w", board.WhyBytesMax), AtMs: math.MinInt64}
		r.user(AskBan{User: user, Generation: r.shard.Generation(), UntilMs: math.MinInt64, Note: note, To: ref(i + 1), Before: largest})
	}
	effects := r.commit()
	for i := range ShardBansMax {
		user := board.UserID(fmt.Sprintf("%s%02d", strings.Repeat("u", board.UserBytesMax-2), i))
		if m := told[BanWritten](effects, user); len(m) != 1 || r.row(user).BanNote == nil || r.row(user).BanNote.By != user {
			t.Fatalf("ban %d: %+v, row %+v", i, m, r.row(user))
		}
	}
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
