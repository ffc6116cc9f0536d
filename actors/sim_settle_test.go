package actors

import (
	"fmt"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// simQuietMs and simQuietStepMs say how long the world may take to come to rest: well above the longest cooldown, ban, jump
// of a clock and delay, and two heartbeats.
const (
	simQuietMs     = 120_000
	simQuietStepMs = 250
)

// settle stops all faults. Then everything that was promised must come true, within bounds.
func (w *world) settle() {
	w.quiet, w.down = true, false
	w.log("quiet from here on")
	for _, n := range w.nodes {
		n.skewMs = max(n.skewMs, -20_000) // a clock that had fallen back further was set right
		n.setHealth(board.CodeOK)
	}
	for _, c := range w.clients {
		for _, s := range c.sessions {
			s.conn.stalled = false
		}
	}
	for _, p := range w.core.Partitions() {
		for _, n := range w.nodes {
			if n != w.owner(p) {
				w.lost(n, p)
			}
		}
		w.gained(w.owner(p), p)
	}
	beats := 0
	for end := w.nowMs + simQuietMs; w.nowMs < end; w.nowMs += simQuietStepMs {
		w.step++
		w.calm()
		w.drain()
		w.check.bounds(w)
		if w.settled() == "" {
			if beats++; beats > 2*HeartbeatMs/simQuietStepMs {
				break
			}
			continue
		}
		beats = 0
	}
	if why := w.settled(); why != "" {
		w.fail("stuck", "%s", why)
	}
	w.check.journals()
	w.check.replicas()
}

// calm lets every timer fire, opens the board, and lets each user place once more.
func (w *world) calm() {
	newest := w.rulesOf()
	if s := newest.Settings(); s.Frozen || s.CooldownMs > 400 || len(s.Protected) > 0 || s.Width != simSide {
		next := *s
		next.Frozen, next.CooldownMs, next.Protected, next.Width, next.Height = false, 400, nil, simSide, simSide
		w.ask(w.nodes[0], newest.Version(), next)
	}
	for _, n := range w.nodes {
		n.adopt(newest)
		for _, s := range n.shards {
			s.box.put(Tick{})
		}
		for _, b := range n.blocks {
			b.do(b.core.Tick(n.wallMs()))
		}
		n.feed.box.put(FeedTick{})
		n.sub.box.put(SubscriberTick{})
	}
	for _, p := range w.core.Partitions() {
		if p.Class == store.ClassShard {
			w.owner(p).shard(int(p.Index)) // a shard actor lives on its owner whether it is used or not
		}
	}
	for _, c := range w.clients {
		c.calm()
	}
}

// calm ends what the user is at, then makes one last placement.
func (c *simClient) calm() {
	w := c.w
	if len(c.sessions) == 0 {
		c.connect()
		return
	}
	if c.now == nil && c.last == nil {
		c.last = &simRequest{user: c.id, turn: c.turn, nonce: w.rand.Uint64(), at: board.Point{X: w.rand.IntN(simSide), Y: w.rand.IntN(simSide)}, colour: 3}
		w.check.requests[c.last.nonce] = c.last
		c.now = c.last
	}
	if c.now == nil {
		if !c.last.accepted {
			c.last = nil // refused: try again
		}
		return
	}
	if w.nowMs-c.triedMs >= 1000 {
		c.submit(c.now)
	}
}

// settled says what has not come to rest yet.
func (w *world) settled() string {
	for _, c := range w.clients {
		if c.last == nil || !c.last.accepted || c.now != nil {
			return "user " + string(c.id) + " still tries to place"
		}
		for _, s := range c.sessions {
			if s.mirror == nil || !s.mirror.settled() {
				return fmt.Sprintf("session %d of %s on %s is not up to date: %s", s.id, c.id, s.n.node.Address, s.mirror)
			}
		}
	}
	for index, s := range w.check.shards {
		if len(s.state.Open) > 0 {
			return store.Shard(index).String() + " has open charges"
		}
	}
	for _, n := range w.nodes {
		if n.inUse != 0 || len(n.waiting) != 0 {
			return n.node.Address + " has store slots in use"
		}
		for _, s := range n.shards {
			if what := s.busy(); what != "" {
				return s.box.name + " " + what
			}
		}
	}
	return w.jobsOpen()
}

// busy says what a shard or its users are still at.
func (s *simShard) busy() string {
	if s.core.duel.deposed(s.n.wallMs()) || !s.core.loaded {
		if s.n.w.owner(store.Shard(s.index)) != s.n {
			return ""
		}
		return "is not loaded"
	}
	switch c := s.core; {
	case len(c.queue) > 0 || c.unclosed > 0 || len(c.bans) > 0 || len(c.head) > 0:
		return "has charges under way"
	case c.inForce != s.n.rules.Version():
		return "has not put the newest settings in force"
	}
	for _, u := range s.users {
		if u.core.placing != nil || len(u.core.waiting) > 0 || len(u.core.bans) > 0 {
			return "has a busy user " + string(u.id)
		}
	}
	return ""
}

func (w *world) jobsOpen() string {
	n := w.owner(store.Shard(board.OpsShard))
	if len(w.jobs) == 0 {
		return ""
	}
	open := ""
	for _, j := range n.shard(board.OpsShard).core.jobs.all {
		if !j.Done {
			open = "job " + j.ID + " is not done"
		}
	}
	return open
}

// journals checks what the journals add up to: every promise is kept (I2), blocks rebuild alike (I6).
func (k *checker) journals() {
	w := k.w
	for key, o := range k.charged {
		if _, ok := k.placed[key]; !ok {
			w.fail("I2", "charged and never placed: %+v", o)
		}
	}
	for _, r := range k.requests {
		if r.accepted && r.turn != 0 {
			if _, ok := k.placed[placementKey{r.user, r.turn, r.nonce}]; !ok {
				w.fail("I2", "accepted and not in the journal: %+v", r)
			}
		}
	}
	for id, full := range k.blocks {
		state, _ := w.replay(id)
		if what := differ(full, state); what != "" {
			w.fail("I6", "block %v from snapshot and tail: %s", id, what)
		}
		for _, n := range w.nodes {
			for _, b := range n.blocks {
				if b.id == id && b.core.loaded && b.core.state.Version == full.Version {
					if what := differ(full, b.core.state); what != "" {
						w.fail("I6", "%s: %s", b.box.name, what)
					}
				}
			}
		}
	}
}

// differ says how two states of a block differ in what can be seen. Floors may be higher where more has been heard.
func differ(a, b *store.BlockState) string {
	if a.Version != b.Version {
		return "another version"
	}
	for slot := range a.Chunks {
		x, y := a.Chunks[slot], b.Chunks[slot]
		if (x == nil) != (y == nil) || x != nil && *x != *y {
			return "another chunk"
		}
	}
	for shard, t := range a.Shards {
		for ticket, seen := range t.Seen {
			o := b.Shard(shard)
			if got, ok := o.Seen[ticket]; ticket.Commit >= o.Floor && (!ok || got != seen) {
				return "a ticket is forgotten"
			}
		}
	}
	return ""
}

// replicas checks that every feed and every session shows what the journals add up to, bit for bit (I5).
func (k *checker) replicas() {
	w := k.w
	for _, n := range w.nodes {
		for id, full := range k.blocks {
			for slot, want := range full.Chunks {
				chunk := id.Chunk(slot)
				got := n.feed.core.chunks[chunk]
				if want != nil && (got == nil || got.sequence != want.Sequence || got.tiles != want.Tiles || got.hash != want.Tiles.Hash(chunk)) {
					w.fail("I5", "%s: chunk %v differs from the journal (sequence %d)", n.feed.box.name, chunk, want.Sequence)
				}
			}
		}
		if _, hashes := n.feed.core.table(); hashes != n.feed.core.hashes || hashes != n.sub.core.hashes {
			w.fail("I5", "%s: hashes do not add up", n.feed.box.name)
		}
	}
	for _, c := range w.clients {
		for _, s := range c.sessions {
			s.mirror.each(func(id board.ChunkID, have *simChunk) {
				want := &store.ChunkState{}
				if full := k.blocks[id.Block()]; full != nil && full.Chunks[id.Slot()] != nil {
					want = full.Chunks[id.Slot()]
				}
				if have.held != want.Sequence || have.tiles != want.Tiles {
					w.fail("I5", "session %d of %s on %s: chunk %v stands at %d (position %d, tick %d of %d), the journal at %d", s.id, c.id,
						s.n.node.Address, id, have.held, have.position, have.tick, s.mirror.tick, want.Sequence)
				}
			})
		}
	}
	if len(w.clients) > 0 && k.beats == 0 {
		w.fail("I5", "no heartbeat was compared")
	}
}
