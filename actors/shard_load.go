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
		return
	}
	state, err := store.DecodeShardState(s.index, m.Head.State)
	if err != nil {
		s.loadAtMs = wallMs + LoadRetryMs
		s.emit(ReportProblem{What: "load " + store.Shard(s.index).String(), Err: err})
		return
	}
	s.loaded, s.deposedBy = true, ""
	s.commits.version, s.inForce, s.lastAtMs = m.Head.Version, m.Head.Owner.SettingsVersion, state.LastAtMs
	s.jobs.load(m.Jobs)
	for i := range state.Open {
		c := &charge{Charge: state.Open[i], state: chargeOpen, madeAtMs: wallMs}
		c.banned = m.Rows[c.User].BannedUntilMs
		s.unclosed++
		s.load(c.At.Block()).unclosed++
		s.addToHead(c)
		if c.Kind == board.KindUser {
			s.users[c.User] = c
		} else {
			s.jobs.adopt(c)
		}
	}
	for _, user := range s.rowsAsked {
		s.emit(ReadRow{Generation: s.generation, User: user})
	}
	s.rowsAsked = nil
	s.sendCharges(wallMs, slices.Clone(s.head))
	s.reportInForce()
}

// rowRead passes a user's row on, with what the shard knows beyond it.
func (s *Shard) rowRead(wallMs int64, m RowRead) {
	if m.Generation != s.generation || !s.loaded {
		return
	}
	row, open := m.Row, false
	for _, c := range s.head {
		if c.User != m.User || c.Kind != board.KindUser || c.Turn < row.Turn {
			continue
		}
		row, open = chargeRow(c), c.state == chargeOpen
		row.BannedUntilMs = m.Row.BannedUntilMs
	}
	s.tell(m.User, UserRowLoaded{
		Generation: s.generation, Row: row, Open: open, Failed: m.Failed, Rules: s.rules, NowMs: s.Now(wallMs),
	})
}

// moved ends a life of the shard: somebody else made the version that was in flight.
func (s *Shard) moved(wallMs int64, head store.Head) {
	if head.Owner.Address != s.node.Address {
		s.deposedBy = head.Owner.Address
		s.deposedToMs = wallMs + DeposedMs + int64(s.random()%(DeposedMs/2))
	}
	s.reload(wallMs)
}

// reload drops everything that may be wrong and begins a new generation. User actors live on: stopping them would lose
// their mailboxes.
func (s *Shard) reload(wallMs int64) {
	s.generation++
	s.forget()
	s.loadAtMs = wallMs
	s.emit(TellUsers{ReloadUser{Generation: s.generation}})
}

// ViewChanged lets the loser of a duel try again at once.
func (s *Shard) ViewChanged(wallMs int64) []ShardEffect {
	s.out = s.out[:0]
	s.deposedToMs = 0
	s.drive(wallMs)
	return s.out
}
