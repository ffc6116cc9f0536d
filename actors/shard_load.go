package actors

import (
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// shardLoaded starts a life of the shard from the head in the store.
func (s *Shard) shardLoaded(wallMs int64, m ShardLoaded) {
	if m.Generation != s.generation || s.loaded {
		return
	}
	s.loading = false
	if m.Failed || m.Head.Owner.SettingsVersion > s.rules.Version() {
		s.loadAtMs = wallMs + LoadRetryMs // the store is away, or newer settings are still on their way
		s.needSettings(m.Head)
		return
	}
	state, err := store.DecodeShardState(s.index, m.Head.State)
	if err != nil {
		s.loadAtMs = wallMs + LoadRetryMs
		s.emit(ReportProblem{What: "load " + store.Shard(s.index).String(), Err: err})
		return
	}
	s.loaded, s.fenced, s.fenceAt = true, false, wallMs+FenceMs
	s.duel.loaded()
	s.commits.version, s.inForce, s.lastAtMs = m.Head.Version, m.Head.Owner.SettingsVersion, state.LastAtMs
	if err := s.jobs.load(m.Jobs); err != nil {
		s.emit(ReportProblem{What: "load the jobs", Err: err})
	}
	for i := range state.Open {
		c := &charge{Charge: state.Open[i], state: chargeOpen, madeAtMs: wallMs}
		c.banned = m.Rows[c.User].Ban
		s.unclosed++
		s.load(c.At.Block()).unclosed++
		s.addToHead(c)
		if c.Kind == board.KindUser {
			s.users[c.User] = c
		} else {
			s.jobs.adopt(c)
		}
	}
	for _, asked := range s.rowsAsked {
		s.readRow(asked)
	}
	s.rowsAsked = nil
	s.sendCharges(wallMs, slices.Clone(s.head))
	s.reportInForce()
}

// rowAsked is a user's question for its row, and the life of the core that asks.
type rowAsked struct {
	user board.UserID
	life uint64
}

// rowKnown is what happened to a user's row while it was being read: the store's answer may be older.
type rowKnown struct {
	row    store.UserRow
	charge bool   // row is the user's newest charge
	ban    bool   // row.Ban is the user's newest ban
	life   uint64 // of the newest core that asks
}

// readRow asks the store for a user's row, unless an answer is under way already: that one serves the newest life.
func (s *Shard) readRow(asked rowAsked) {
	known := s.reads[asked.user]
	if known == nil {
		known = new(rowKnown)
		s.reads[asked.user] = known
		s.emit(ReadRow{Generation: s.generation, User: asked.user})
	}
	known.life = max(known.life, asked.life)
}

// rowRead passes a user's row on as it is now: the store's answer, and what happened since the store was asked. What the
// user is told later builds on this.
func (s *Shard) rowRead(wallMs int64, m RowRead) {
	known := s.reads[m.User]
	if m.Generation != s.generation || !s.loaded || known == nil {
		return
	}
	delete(s.reads, m.User)
	loaded := UserRowLoaded{Generation: s.generation, Life: known.life, Row: m.Row, Failed: m.Failed, Rules: s.rules}
	if m.Failed {
		s.rowsAsked = append(s.rowsAsked, rowAsked{m.User, known.life}) // again at the next tick
		s.tell(m.User, loaded)
		return
	}
	row := &loaded.Row
	banned := row.Ban
	if known.ban {
		banned = known.row.Ban
	}
	pending := s.users[m.User]
	if pending != nil && pending.state < chargeOpen {
		loaded.Placing = &pending.Charge
		if pending.state == chargeSealed && row.Turn == pending.Turn && row.Nonce == pending.Nonce {
			*row = pending.before // the store shows the commit in flight already
		}
	}
	if known.charge && known.row.Turn >= row.Turn {
		*row = known.row
	}
	var newest *charge
	for _, c := range s.head {
		if c.User == m.User && c.Kind == board.KindUser && c.Turn >= row.Turn {
			newest, *row = c, chargeRow(c)
		}
	}
	loaded.Open = newest != nil && newest.state == chargeOpen
	if row.Turn > 0 && row.Sequence == 0 && !loaded.Open {
		s.reload(wallMs) // the row of an open charge that is not in this head: a newer head exists
		return
	}
	for _, ban := range slices.Concat(s.sealed.bans, s.bans) { // as good as written: no charge may come before it
		if ban.User == m.User {
			banned = ban.ban()
		}
	}
	row.Ban = banned
	s.tell(m.User, loaded)
	if loaded.Placing != nil && pending.unsure {
		s.tell(m.User, ChargeUnsure{Turn: pending.Turn, Rules: s.rules})
	}
	if newest != nil && newest.overdue {
		s.tell(m.User, ChargeOverdue{Turn: newest.Turn, Rules: s.rules})
	}
}

// moved ends a life of the shard: somebody else made the version that was in flight.
func (s *Shard) moved(wallMs int64, head store.Head) {
	s.needSettings(head)
	s.duel.lost(wallMs, head, s.node.Address, s.random)
	s.reload(wallMs)
}

// reload drops everything that may be wrong and begins a new generation. User actors live on: stopping them would lose
// their mailboxes.
func (s *Shard) reload(wallMs int64) {
	s.generation++
	s.jobs.lost()
	s.forget()
	s.loadAtMs = wallMs
	s.emit(TellUsers{ReloadUser{Generation: s.generation}})
}

// ViewChanged lets the loser of a duel try again at once.
func (s *Shard) ViewChanged(wallMs int64) []ShardEffect {
	s.out = s.out[:0]
	s.duel.tryAgain()
	s.drive(wallMs)
	return s.out
}
