package actors

import (
	"context"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/wire"
)

// simBanSession is the first of the sessions that stand for a waiting ban.
const simBanSession wire.SessionID = 1 << 41

// simBan is an operator's ban of a user.
type simBan struct {
	user    board.UserID
	untilMs int64
	applied bool // durable
	earlier int  // rows of the user in commits when it was asked for
}

// simJob is an operator's job.
type simJob struct {
	rect    board.Rect
	id      string
	durable bool
}

// tickSome lets timers fire, at no regular pace.
func (w *world) tickSome() {
	n := w.nodes[w.rand.IntN(len(w.nodes))]
	switch w.rand.IntN(5) {
	case 0:
		if len(n.shards) > 0 {
			n.shards[w.rand.IntN(len(n.shards))].box.put(Tick{})
		}
	case 1:
		if len(n.blocks) > 0 {
			b := n.blocks[w.rand.IntN(len(n.blocks))]
			b.do(b.core.Tick(n.wallMs()))
		}
	case 2, 3:
		n.feed.box.put(FeedTick{})
	case 4:
		n.sub.box.put(SubscriberTick{Online: len(w.clients)})
	}
}

func (w *world) faults() {
	o := &w.odds
	n := w.nodes[w.rand.IntN(len(w.nodes))]
	for _, f := range []struct {
		p  float64
		do func(*simNode)
	}{
		{o.crash, w.crashOne},
		{o.crashNode, w.crashNode},
		{o.crashFeed, w.crashFeed},
		{o.crashFeed, w.crashSubscriber},
		{o.moveOwner, func(*simNode) { w.moveOwner() }},
		{o.moveOwner / 2, w.standStill},
		{o.clock, w.shiftClock},
		{o.settings, w.changeSettings},
		{o.ban, func(*simNode) { w.ban() }},
		{o.job, func(*simNode) { w.startJob() }},
		{o.idle, w.passivate},
		{o.snapshot, w.snapshotSome},
		{o.outage, func(*simNode) { w.down, w.upAtMs = true, w.nowMs+w.between(50, 3000) }},
		{o.stall, func(*simNode) { w.stallSome() }},
		{o.reconnect, func(*simNode) { w.reconnectSome() }},
		{o.retire, w.retireSome},
		{o.health, w.changeHealth},
		{0.05, w.pollSettings},
	} {
		if w.happens(f.p) {
			f.do(n)
		}
	}
	if w.down && w.nowMs >= w.upAtMs {
		w.down = false
	}
}

// crashOne replaces one core of a node by a fresh one. Its mailbox stays, or goes too.
func (w *world) crashOne(n *simNode) {
	keep := w.chance(0.6)
	switch w.rand.IntN(3) {
	case 0:
		if len(n.shards) > 0 {
			s := n.shards[w.rand.IntN(len(n.shards))]
			w.log("crash of %s, keeps its mailbox: %v", s.box.name, keep)
			n.empty(s.box, keep)
			for _, u := range s.users {
				u.box.queue = nil // children end with their parent
			}
			s.users = nil
			s.start()
			n.sub.box.put(RegisterAgain{Shard: s.index})
		}
	case 1:
		if len(n.blocks) > 0 {
			b := n.blocks[w.rand.IntN(len(n.blocks))]
			w.log("crash of %s, keeps its mailbox: %v", b.box.name, keep)
			n.empty(b.box, keep)
			b.start()
		}
	case 2:
		for _, s := range n.shards {
			if len(s.users) > 0 && w.chance(0.7) {
				u := s.users[w.rand.IntN(len(s.users))]
				w.log("crash of %s, keeps its mailbox: %v", u.box.name, keep)
				if !keep {
					u.box.queue = nil
				}
				u.start()
				n.sub.box.put(RegisterAgain{Shard: s.index})
			}
		}
	}
}

// empty throws a mailbox away; slots that were granted in it go back.
func (n *simNode) empty(b *box, keep bool) {
	if keep {
		return
	}
	lost := b.queue
	b.queue = nil
	for _, m := range lost {
		switch m.(type) {
		case SlotGranted, BlockSlotGranted:
			n.release()
		}
	}
}

// crashNode ends a node's process and starts it again.
func (w *world) crashNode(n *simNode) {
	w.log("crash of %s", n.node.Address)
	for _, s := range n.shards {
		s.box.queue = nil
		for _, u := range s.users {
			u.box.queue = nil
		}
	}
	for _, b := range n.blocks {
		b.box.queue = nil
	}
	n.feed.box.queue, n.sub.box.queue, n.keeper.box.queue = nil, nil, nil
	n.start()
	for _, c := range w.clients {
		for _, s := range c.sessions {
			if s.n == n {
				s.reconnect(w.nodes[w.rand.IntN(len(w.nodes))])
			}
		}
	}
}

// crashFeed gives a node a fresh feed; its blocks are announced again.
func (w *world) crashFeed(n *simNode) {
	w.log("crash of %s", n.feed.box.name)
	if w.chance(0.5) {
		n.feed.box.queue = nil
	}
	n.feed.core = NewFeed(simEpoch, n.node.Incarnation, n.feed.core.Tick(), n.rules)
	w.check.feedCrashes[n] = n.life
	for _, id := range w.core.Blocks() {
		w.owner(store.Block(id)).toBlock(id, TouchBlock{Block: id})
	}
}

// crashSubscriber gives a node a fresh subscriber; it closes the sessions of the one before, whose clients connect again.
func (w *world) crashSubscriber(n *simNode) {
	w.log("crash of %s", n.sub.box.name)
	if w.chance(0.5) {
		n.sub.box.queue = nil
	}
	n.sub.start()
	for _, c := range w.clients {
		for _, s := range c.sessions {
			if s.n == n {
				s.reconnect(w.nodes[w.rand.IntN(len(w.nodes))])
			}
		}
	}
}

// moveOwner lets the cluster think that another node owns a partition. The old owner may not know yet: doubled owners.
func (w *world) moveOwner() {
	parts := w.core.Partitions()
	p := parts[w.rand.IntN(len(parts))]
	to := w.rand.IntN(len(w.nodes))
	w.log("%v belongs to node%d", p, to)
	w.owners[p] = to
	for i, n := range w.nodes {
		if i != to && w.chance(0.7) { // the others' views follow, or do not
			w.lost(n, p)
		}
	}
	w.gained(w.nodes[to], p)
}

// standStill lets a node forget a shard, as one that was paused does.
func (w *world) standStill(n *simNode) {
	if len(n.shards) > 0 {
		s := n.shards[w.rand.IntN(len(n.shards))]
		w.log("%s stood still", s.box.name)
		s.do(s.core.Forget(n.wallMs()))
	}
}

// lost tells a node that a partition is another's now.
func (w *world) lost(n *simNode, p store.Partition) {
	if p.Class == store.ClassShard {
		s := n.shard(int(p.Index))
		s.do(s.core.SetOwned(n.wallMs(), false))
	}
}

// gained tells a node that it owns a partition now: its view changed, and a block is loaded afresh and announced.
func (w *world) gained(n *simNode, p store.Partition) {
	switch p.Class {
	case store.ClassShard:
		s := n.shard(int(p.Index))
		s.do(s.core.SetOwned(n.wallMs(), true))
	case store.ClassBlock:
		b := n.block(board.BlockID(p.Index))
		b.start()
		b.box.put(TouchBlock{Block: b.id})
	case store.ClassSettings:
	}
}

func (w *world) shiftClock(n *simNode) {
	if w.chance(0.7) {
		n.skewMs = w.between(-120, 120)
		return
	}
	n.skewMs -= w.between(200, 20_000) // a jump back
}

// changeSettings asks for a change, sometimes on top of an old version.
func (w *world) changeSettings(n *simNode) {
	base := n.rules
	next := *base.Settings()
	switch w.rand.IntN(8) {
	case 0, 1, 2:
		next.CooldownMs = []int64{0, 20, 100, 400, 1500, 4000}[w.rand.IntN(6)]
	case 3:
		next.Width, next.Height = 30+w.rand.IntN(150), 30+w.rand.IntN(150)
	case 4, 5:
		next.Frozen = !next.Frozen
	case 6:
		next.RegionSize = 100 * (1 + w.rand.IntN(3))
	case 7:
		next.Protected = nil
		if w.chance(0.6) {
			next.Protected = []board.Rect{{X: w.rand.IntN(100), Y: w.rand.IntN(100), Width: 40, Height: 40}}
		}
	}
	w.ask(n, base.Version(), next)
}

func (w *world) ask(n *simNode, base uint64, next board.Settings) {
	n.keeper.box.put(ChangeSettings{Base: base, Next: next, By: "op", Why: "sim", Reply: func(r board.SettingsRecord, err error) {
		if err == nil {
			w.check.settingsMade(base, r)
		}
	}})
}

// pollSettings lets a node read the newest settings: how it hears of what another node made.
func (w *world) pollSettings(n *simNode) { n.adopt(w.rulesOf()) }

func (w *world) ban() {
	c := w.clients[w.rand.IntN(len(w.clients))]
	b := &simBan{user: c.id, earlier: w.check.written[c.id]}
	if w.chance(0.5) {
		b.untilMs = w.nowMs + w.between(50, 6000)
	}
	w.bans = append(w.bans, b)
	n := w.nodes[w.rand.IntN(len(w.nodes))]
	note := &store.BanNote{By: "op", AtMs: int64(len(w.bans))}
	m := SetBan{User: b.user, UntilMs: b.untilMs, Note: note, ReplyTo: SessionRef{n.node.Address, simBanSession + wire.SessionID(len(w.bans)-1)}}
	w.after(w.delay(), "ban", func() { w.owner(store.Shard(c.id.Shard())).toUser(c.id, m) })
}

// banAnswered checks that an accepted ban was durable.
func (w *world) banAnswered(a Answered) {
	b := w.bans[a.Session-simBanSession]
	if a.Outcome.Verdict == board.VerdictAccepted && !b.applied && !w.check.hadBan(b) {
		w.fail("I8", "ban of %s until %d answered, but not durable", b.user, b.untilMs)
	}
}

func (w *world) startJob() {
	j := &simJob{rect: board.Rect{X: w.rand.IntN(110), Y: w.rand.IntN(110), Width: 1 + w.rand.IntN(60), Height: 1 + w.rand.IntN(60)}}
	job := board.Job{Kind: "clear", By: "op", Why: "sim", Rect: j.rect, AtMs: w.nowMs}
	if w.chance(0.5) {
		job.Kind, job.SinceMs = "rollback", w.nowMs-w.rand.Int64N(5000)
		if w.chance(0.5) {
			job.User = w.clients[w.rand.IntN(len(w.clients))].id
		}
		if n := len(w.jobs); n > 0 && w.chance(0.4) && w.jobs[n-1].durable {
			job.Undoes = w.jobs[n-1].id
		}
	}
	w.jobs = append(w.jobs, j)
	w.owner(store.Shard(board.OpsShard)).shard(board.OpsShard).box.put(StartJob{
		Job: job,
		Reply: func(job board.Job, err error) {
			if err == nil {
				j.id, j.durable = job.ID, true
				w.check.jobDurable(j)
			}
		},
	})
}

// plan reads the journals for a roll-back, as a node would.
func (w *world) plan(e NeedPlan) ChunkPlanned {
	changes, err := store.PlanRollback(context.Background(), mem.Open(w.core), rollbackOf(&e.Job, e.Undoes, e.Chunk.Rect().Meet(e.Job.Rect)))
	if err != nil {
		w.fail("I6", "plan of job %x: %v", e.Number, err)
	}
	return ChunkPlanned{Number: e.Number, Chunk: e.Chunk, Tiles: plannedTiles(changes)}
}

func (w *world) passivate(n *simNode) {
	for _, s := range n.shards {
		for _, u := range s.users {
			if w.chance(0.5) {
				u.box.put(GetIdle{Messages: u.sent, Rules: n.rules})
			}
		}
	}
}

func (w *world) snapshotSome(n *simNode) {
	for _, b := range n.blocks {
		if w.chance(0.5) {
			b.box.put(SnapshotBlocks{Reply: func() {}})
		}
	}
}

func (w *world) retireSome(n *simNode) {
	if len(n.blocks) > 0 {
		n.blocks[w.rand.IntN(len(n.blocks))].retire()
	}
}

// changeHealth lets the node's watch distrust its clock or its store, or trust them again.
func (w *world) changeHealth(n *simNode) {
	codes := []board.Code{board.CodeOK, board.CodeOK, board.CodeClock, board.CodeStore, board.CodeDraining}
	n.setHealth(codes[w.rand.IntN(len(codes))])
}

func (n *simNode) setHealth(refuse board.Code) {
	n.refuse = refuse
	for _, s := range n.shards {
		s.box.put(HealthChanged{Refuse: refuse})
	}
}

func (w *world) stallSome() {
	for _, c := range w.clients {
		for _, s := range c.sessions {
			if w.chance(0.3) {
				s.conn.stalled = !s.conn.stalled
			}
		}
	}
}

func (w *world) reconnectSome() {
	for _, c := range w.clients {
		switch {
		case len(c.sessions) < 3 && w.chance(0.2):
			c.connect()
		case len(c.sessions) > 0 && w.chance(0.2):
			c.sessions[w.rand.IntN(len(c.sessions))].reconnect(w.nodes[w.rand.IntN(len(w.nodes))])
		case len(c.sessions) > 1 && w.chance(0.1):
			s := c.sessions[0]
			s.n.sub.box.put(SessionClosed{Session: s.id})
			s.conn.closed = true
			c.sessions = slices.Delete(c.sessions, 0, 1)
		}
	}
}
