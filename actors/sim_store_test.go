package actors

import (
	"context"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
)

const (
	simEpoch = 0xe90c4
	simSide  = 120 // tiles: four blocks, nine chunks
)

// createBoard makes the first version of the settings.
func (w *world) createBoard() {
	s := board.DefaultSettings()
	s.Width, s.Height, s.CooldownMs = simSide, simSide, []int64{0, 50, 400, 2500}[w.rand.IntN(4)]
	value, err := store.EncodeSettings(board.SettingsRecord{Settings: s, By: "sim", AtMs: w.nowMs})
	if err != nil {
		panic(err)
	}
	w.apply(&store.Commit{
		Partition: store.Settings(), Head: store.Head{Version: 1, Attempt: 1, Owner: store.Owner{SettingsVersion: 1}},
		Rows: []store.Row{{Value: value}},
	})
}

// apply lets a commit arrive at the store.
func (w *world) apply(c *store.Commit) store.Result {
	if w.mutant.store != nil {
		if r, ok := w.mutant.store(w, c); ok {
			return r
		}
	}
	r := w.core.Commit(c)
	w.log("store: %v version %d attempt %x by %s: applied %v", c.Partition, c.Head.Version, c.Head.Attempt, c.Head.Owner.Address, r.Applied)
	if r.Applied {
		w.check.applied(c)
	}
	return r
}

// sending is a commit on its way until its fate is known: what storing does, without goroutines.
type sending struct {
	n      *simNode
	life   int
	core   coreLife
	slot   bool
	commit *store.Commit
	known  bool
	done   func(attempt uint64, r store.Result)
}

func (n *simNode) commit(core coreLife, c *store.Commit, slot bool, done func(uint64, store.Result)) {
	s := &sending{n: n, life: n.life, core: core, slot: slot, commit: c, done: done}
	n.w.check.sealed(core, c)
	s.send()
}

// send lets the commit be on time, late, lost, or applied without an answer; then the same bytes go again.
func (s *sending) send() {
	w := s.n.w
	if s.known || s.n.life != s.life {
		return // the process that would have sent it again is gone
	}
	c := s.commit
	arrive := func(answered bool) func() {
		return func() {
			r := w.apply(c)
			if answered {
				w.after(w.delay(), "store answers", func() { s.answer(c, r) })
			}
		}
	}
	again := func() {
		w.after(w.between(20, 1000), "commit goes again", func() {
			if w.mutant.resend != nil {
				w.mutant.resend(s)
			}
			s.send()
		})
	}
	switch {
	case w.down:
		again()
	case w.happens(w.odds.storeUnknown):
		if w.chance(0.5) {
			w.after(w.delay(), "commit arrives, the answer is lost", arrive(false))
		}
		again()
	case w.happens(w.odds.storeLate):
		w.after(w.between(200, 5000), "commit arrives late", arrive(w.chance(0.5)))
		again()
	case c.Partition.Class != store.ClassSettings && w.happens(w.odds.storeRival):
		w.after(w.delay(), "a rival comes first", func() { w.apply(w.rival(c.Partition)); arrive(true)() })
	default:
		w.after(w.storeDelay(), "commit arrives", arrive(true))
	}
}

func (s *sending) answer(c *store.Commit, r store.Result) {
	if s.known || s.n.life != s.life || c != s.commit {
		return
	}
	if !r.Applied && r.Head.Attempt != c.Head.Attempt && r.Head.Version < c.Head.Version {
		s.send()
		return
	}
	s.known = true
	if s.slot {
		s.n.release()
	}
	s.n.w.check.duel(s.core, c.Head.Attempt, r)
	s.done(c.Head.Attempt, r)
}

// rival makes a commit of an owner that nobody simulates: it changes nothing but the version.
func (w *world) rival(p store.Partition) *store.Commit {
	n := w.nodes[w.rand.IntN(len(w.nodes))]
	owner := store.Owner{Address: n.node.Address, Incarnation: 1, SettingsVersion: w.core.Head(p).Owner.SettingsVersion}
	return w.core.Rival(p, owner, w.rand.Uint64()|1)
}

func (w *world) storeDelay() int64 {
	if w.happens(w.odds.storeSlow) {
		return w.between(20, 2000)
	}
	return w.between(0, 6)
}

// read reads in two steps that other events may come between; a failed one reads nothing.
func (n *simNode) read(what string, first, second func(), done func(failed bool)) {
	w, life := n.w, n.life
	w.after(w.storeDelay(), what, func() {
		if n.life != life {
			return
		}
		if w.down || w.happens(w.odds.storeFail) {
			w.after(w.delay(), what+" fails", func() { n.ifAlive(life, func() { done(true) }) })
			return
		}
		first()
		w.after(w.storeDelay(), what+" ends", func() {
			n.ifAlive(life, func() { second(); done(false) })
		})
	})
}

func (n *simNode) ifAlive(life int, do func()) {
	if n.life == life {
		do()
	}
}

func (w *world) row(shard int, user board.UserID) store.UserRow {
	value, ok := w.core.Row(store.Shard(shard), string(user))
	if !ok {
		return store.UserRow{}
	}
	row, err := store.DecodeUserRow(value)
	if err != nil {
		panic(err)
	}
	return row
}

// loadShard does what storing.loadShard does: the head first, the rows later.
func (n *simNode) loadShard(s *simShard, generation uint64) {
	w := n.w
	loaded := ShardLoaded{Generation: generation, Rows: map[board.UserID]store.UserRow{}}
	n.read("load shard", func() { loaded.Head = w.core.Head(store.Shard(s.index)) }, func() {
		if s.index == board.OpsShard {
			loaded.Jobs = w.core.Rows(store.Shard(s.index))
			return
		}
		state, err := store.DecodeShardState(s.index, loaded.Head.State)
		if err != nil {
			panic(err)
		}
		for i := range state.Open {
			loaded.Rows[state.Open[i].User] = w.row(s.index, state.Open[i].User)
		}
	}, func(failed bool) { loaded.Failed = failed; s.box.put(loaded) })
}

func (n *simNode) readRow(s *simShard, e ReadRow, done func(RowRead)) {
	read := RowRead{Generation: e.Generation, User: e.User}
	n.read("read row", func() { read.Row = n.w.row(s.index, e.User) }, func() {}, func(failed bool) {
		read.Failed = failed
		done(read)
	})
}

func (n *simNode) loadBlock(b *simBlock, generation uint64) {
	w := n.w
	loaded := BlockLoaded{Block: b.id, Generation: generation}
	n.read("load block", func() { loaded.Head = w.core.Head(store.Block(b.id)) }, func() {
		loaded.State, loaded.SnapshotVersion = w.replay(b.id)
	}, func(failed bool) { loaded.Failed = failed; b.box.put(loaded) })
}

// replay rebuilds a block by the very code of the product.
func (w *world) replay(id board.BlockID) (*store.BlockState, uint64) {
	state, version, err := ReplayBlock(context.Background(), mem.Open(w.core), id)
	if err != nil {
		w.fail("I6", "replay of block %v: %v", id, err)
	}
	return state, version
}

// rulesOf reads all settings versions.
func (w *world) rulesOf() *Rules {
	var rules *Rules
	for _, e := range w.core.Journal(store.Settings(), 1) {
		r, err := store.DecodeSettings(e.Value)
		if err != nil {
			panic(err)
		}
		rules = rules.Next(r)
	}
	return rules
}
