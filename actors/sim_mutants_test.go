package actors

import (
	"slices"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// mutant breaks the cores from the outside: its functions may change a message, a core or an effect on the way. A simulation
// that catches none of them proves nothing.
type mutant struct {
	name        string
	shard       func(*simShard, any) any                     // before a shard's message
	afterShard  func(*simShard, any)                         // and after it
	shardEffect func(*simShard, ShardEffect) ShardEffect     //
	user        func(*simUser, UserMessage) UserMessage      //
	userEffect  func(*simUser, UserEffect)                   // after it went to the shard
	block       func(*simBlock, RegionMessage) RegionMessage //
	blockEffect func(*simBlock, RegionEffect) RegionEffect   //
	feed        func(*simFeed, FeedMessage) FeedMessage      //
	subscriber  func(SubscriberMessage) SubscriberMessage    //
	keeper      func(*simKeeper, SettingsMessage) SettingsMessage
	resend      func(*sending)                                   // before a commit goes again
	store       func(*world, *store.Commit) (store.Result, bool) // instead of the store
}

// simMutantSeeds is within how many seeds every mutant has to be caught.
const simMutantSeeds = 5000

// TestSimMutants breaks the cores, one rule at a time, and checks that the simulation notices.
func TestSimMutants(t *testing.T) {
	for _, m := range simMutants() {
		t.Run(m.name, func(t *testing.T) {
			seed, _ := firstFailure(1, simMutantSeeds, m)
			if seed == 0 {
				t.Fatalf("not caught within %d seeds", simMutantSeeds)
			}
			f := runSeed(seed, m, false).failure
			if f == nil {
				t.Fatalf("seed %d fails, and does not when it is run again", seed)
			}
			t.Logf("caught after %d seeds: %s: %s", seed, f.invariant, f.what)
		})
	}
}

func simMutants() []*mutant {
	return []*mutant{
		{name: "no turn check", user: mutantNoTurn},
		{name: "no ticket check", block: mutantNoTickets},
		{name: "floor from uncommitted memory that drops", shardEffect: mutantMemoryFloor, blockEffect: mutantDropSettled},
		{name: "refund of a charge", afterShard: mutantRefund},
		{name: "user acknowledges before the charge is durable", userEffect: mutantEarlyAccept},
		{name: "block acknowledges before its commit", blockEffect: mutantEarlyPlaced},
		{name: "checks not repeated at sealing", shard: mutantPermissive, afterShard: mutantStrict},
		{name: "closing over a newer charge", shard: mutantForgetOlder},
		{name: "stale generation accepted", shard: mutantAnyGeneration},
		{name: "changed bytes after an unknown outcome", resend: mutantResend},
		{name: "gap in the feed ignored", feed: mutantNoGap},
		{name: "store without a condition", store: mutantUnconditional},
		{name: "closed while the placement is under way", afterShard: mutantCloseEarly},
		{name: "sequence of the block, not of the chunk", block: mutantSequence},
		{name: "row read taken as it is", shard: mutantRawRow},
		{name: "ban forgotten by a closing", shard: mutantForgetBan},
		{name: "clock follows the wall", shard: mutantWallClock},
		{name: "user's history with the wrong commit", shard: mutantShortChain},
		{name: "lag repaired from where the node stands", subscriber: mutantRepairNothing},
		{name: "settings without compare and set", keeper: mutantAnyBase},
	}
}

// mutantNoTurn lets every request take whatever turn the user has.
func mutantNoTurn(_ *simUser, m UserMessage) UserMessage {
	if p, ok := m.(PlaceTile); ok {
		p.Request.Turn = 0
		return p
	}
	return m
}

// mutantNoTickets lets a block forget which tickets it has seen.
func mutantNoTickets(b *simBlock, m RegionMessage) RegionMessage {
	if _, ok := m.(PlaceTiles); ok && b.core.loaded {
		b.core.state.Shards = map[uint8]*store.ShardTickets{}
		clear(b.core.waiting)
	}
	return m
}

// mutantMemoryFloor takes the floor from the charges that are open in memory: those that are placed, but not closed in the
// committed head, no longer hold it down.
func mutantMemoryFloor(s *simShard, e ShardEffect) ShardEffect {
	send, ok := e.(SendCharges)
	if !ok {
		return e
	}
	send.Message.Floor = s.core.commits.version + 1
	for _, c := range s.core.head {
		if c.state == chargeOpen && c.At.Block() == send.Message.Block {
			send.Message.Floor = min(send.Message.Floor, c.Ticket.Commit)
		}
	}
	return send
}

// mutantDropSettled does not answer tickets below the floor.
func mutantDropSettled(_ *simBlock, e RegionEffect) RegionEffect {
	if a, ok := e.(AnswerShard); ok {
		a.Message.Results = slices.DeleteFunc(slices.Clone(a.Message.Results), func(r TicketPlaced) bool { return r.Settled })
		return a
	}
	return e
}

// mutantRefund takes an overdue charge back: the user gets the turn again.
func mutantRefund(s *simShard, m any) {
	if _, ok := m.(Tick); !ok || s.index == board.OpsShard {
		return
	}
	for _, c := range s.core.head {
		if c.state != chargeOpen || !c.overdue || c.before.Turn+1 != c.Turn {
			continue
		}
		s.closeNow(c, 0)
		for _, u := range s.users {
			if u.id == c.User {
				u.core.row, u.core.placing = c.before, nil
			}
		}
	}
}

// mutantEarlyAccept answers as soon as the shard is asked.
func mutantEarlyAccept(u *simUser, e UserEffect) {
	ask, ok := e.(AskCharge)
	if !ok {
		return
	}
	u.s.n.w.check.answer(u, Answer{User: u.id, Outcome: board.PlaceOutcome{
		Verdict: board.VerdictCharged, Turn: ask.Turn, Nonce: ask.Nonce, At: ask.At, Colour: ask.Colour,
	}})
}

// mutantEarlyPlaced tells the shards what a commit will place when it is sealed.
func mutantEarlyPlaced(b *simBlock, e RegionEffect) RegionEffect {
	if _, ok := e.(MakeBlockCommit); !ok {
		return e
	}
	for i, a := range b.core.arrivals {
		m := TilesPlaced{Shard: int(a.Ticket.Shard), Block: b.id, Results: []TicketPlaced{
			{Ticket: a.Ticket, Sequence: b.core.sealed.Placements[i].Sequence, Version: b.core.commits.version + 1},
		}}
		if to := b.n.w.byAddress(a.from); to != nil {
			to.shard(m.Shard).box.put(m)
		}
	}
	return e
}

// mutantPermissive lets the last check see settings that allow everything, and no ban.
func mutantPermissive(s *simShard, m any) any {
	if _, ok := m.(SlotGranted); !ok {
		return m
	}
	allowing := *s.core.rules
	settings := &allowing.Record.Settings
	settings.Frozen, settings.Protected, settings.Width, settings.Height = false, nil, board.SideMax, board.SideMax
	s.strict, s.core.rules = s.core.rules, &allowing
	return m
}

func mutantStrict(s *simShard, _ any) {
	if s.strict != nil {
		s.core.rules, s.strict = s.strict, nil
	}
}

// mutantForgetOlder lets a charge come before the closing of the user's last one, whose row then is written over the newer.
func mutantForgetOlder(s *simShard, m any) any {
	for _, c := range s.core.queue {
		c.older = nil
	}
	return m
}

// mutantAnyGeneration takes what was meant for an earlier life of the shard.
func mutantAnyGeneration(s *simShard, m any) any {
	switch m := m.(type) {
	case ShardLoaded:
		m.Generation = s.core.generation
		return m
	case RowRead:
		m.Generation = s.core.generation
		if s.core.loaded && s.core.reads[m.User] == nil {
			s.core.reads[m.User] = new(rowKnown)
		}
		return m
	case AskCharge:
		m.Generation = s.core.generation
		return m
	case AskBan:
		m.Generation = s.core.generation
		return m
	}
	return m
}

// mutantResend seals the commit anew instead of sending it again.
func mutantResend(s *sending) {
	if s.core.commits.inFlight != s.commit {
		return // of an earlier life
	}
	s.commit = s.commit.Clone()
	s.commit.Head.Attempt = s.n.random() | 1
	s.core.commits.inFlight = s.commit
}

// mutantNoGap lets a feed take placements whose predecessors it has not seen.
func mutantNoGap(f *simFeed, m FeedMessage) FeedMessage {
	if a, ok := m.(TilesApplied); ok {
		for _, t := range a.Tiles {
			if c := f.core.chunk(t.Chunk); t.Sequence > c.head+1 {
				c.head = t.Sequence - 1
			}
		}
	}
	return m
}

// mutantRepairNothing takes a session that missed a frame for one that has its chunks.
func mutantRepairNothing(m SubscriberMessage) SubscriberMessage {
	f, ok := m.(FrameMade)
	if !ok {
		return m
	}
	f.Marks = slices.Clone(f.Marks)
	for i := range f.Marks {
		f.Marks[i].Before = f.Marks[i].Sequence
	}
	return f
}

// mutantAnyBase makes a change on top of whatever the settings are.
func mutantAnyBase(k *simKeeper, m SettingsMessage) SettingsMessage {
	if c, ok := m.(ChangeSettings); ok && len(k.core.waiting) == 0 {
		c.Base = k.core.rules.Version()
		return c
	}
	return m
}

// mutantUnconditional lets the store take a commit whatever the version is.
func mutantUnconditional(w *world, c *store.Commit) (store.Result, bool) {
	if c.Partition.Class != store.ClassShard {
		return store.Result{}, false
	}
	again := c.Clone()
	again.Head.Version = w.core.Head(c.Partition).Version + 1
	r := w.core.Commit(again)
	w.check.applied(again)
	return r, true
}

// mutantCloseEarly takes a charge for placed when it is sent.
func mutantCloseEarly(s *simShard, m any) {
	if _, ok := m.(Tick); !ok {
		return
	}
	for _, c := range s.core.head {
		if c.state == chargeOpen && c.Kind == board.KindUser {
			s.closeNow(c, 1)
			return
		}
	}
}

// closeNow closes a charge, whatever its region says.
func (s *simShard) closeNow(c *charge, sequence uint64) {
	s.core.out = nil
	s.core.close(s.n.wallMs(), c, sequence, 1)
	s.do(s.core.out)
}

// mutantSequence gives a block's chunks one sequence together.
func mutantSequence(b *simBlock, m RegionMessage) RegionMessage {
	if _, ok := m.(BlockSlotGranted); ok && b.core.loaded {
		for _, c := range b.core.state.Chunks {
			if c != nil {
				c.Sequence = max(c.Sequence, b.core.state.Version)
			}
		}
	}
	return m
}

// mutantRawRow passes a row on as the store gave it, whatever happened since.
func mutantRawRow(s *simShard, m any) any {
	read, ok := m.(RowRead)
	if !ok || read.Failed || !s.core.loaded || s.core.reads[read.User] == nil {
		return m
	}
	delete(s.core.reads, read.User)
	s.tell(read.User, UserRowLoaded{Generation: s.core.generation, Row: read.Row, Rules: s.core.rules})
	return Tick{}
}

// mutantForgetBan lets closings write rows without the bans that came meanwhile.
func mutantForgetBan(s *simShard, m any) any {
	if _, ok := m.(SlotGranted); ok {
		for _, c := range s.core.head {
			c.banned = store.Ban{}
		}
	}
	return m
}

// mutantShortChain takes every placement for the one of the commit before.
func mutantShortChain(_ *simShard, m any) any {
	placed, ok := m.(TilesPlaced)
	if !ok {
		return m
	}
	placed.Results = slices.Clone(placed.Results)
	for i := range placed.Results {
		placed.Results[i].Version--
	}
	return placed
}

// mutantWallClock lets a shard's clock jump back with the wall clock.
func mutantWallClock(s *simShard, m any) any {
	if _, ok := m.(SlotGranted); ok {
		s.core.lastAtMs = 0
		for _, c := range s.core.queue {
			c.before.AtMs = min(c.before.AtMs, s.n.wallMs()-CloseMs*10)
		}
	}
	return m
}
