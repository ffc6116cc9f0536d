package actors

import (
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

const (
	// AcquireMs is how long the new owner of a shard or region waits before it loads, so that the old one, if it lives, can end
	// what it has in flight.
	AcquireMs = 200
	// StrayMs is how long a node goes on serving a shard or region that is another's in its own view, after a message that was
	// forwarded to it: somebody sees it otherwise, and whoever gets a forwarded message serves it.
	StrayMs = 2000
	// LeaveMs is how long a shard that is given up waits for what its users have been promised to be on the board, so that they
	// get their answers from here.
	LeaveMs = 1000
)

// SetOwned tells whether this node owns the shard in its own view, and returns what to do. A shard that is given up charges
// what is queued, waits for the placements and then forgets everything; charges that are still open are the next owner's, from
// the head. The safety of it all is the store's (DESIGN, 4): two nodes may take themselves for the owner.
func (s *Shard) SetOwned(wallMs int64, owned bool) []ShardEffect {
	s.out = s.out[:0]
	s.duel.tryAgain()
	switch {
	case owned && s.away:
		s.away = false
		if !s.loaded && !s.loading {
			s.loadAtMs = wallMs + AcquireMs
		}
	case !owned && !s.away:
		s.away, s.strayToMs, s.leaveByMs = true, 0, wallMs+LeaveMs
		s.leave(wallMs)
	}
	s.drive(wallMs)
	return s.out
}

// Forget drops everything that the shard knows: the process stood still, and the world went on.
func (s *Shard) Forget(wallMs int64) []ShardEffect {
	s.out = s.out[:0]
	s.reload(wallMs)
	s.drive(wallMs)
	return s.out
}

// serves reports whether the shard may load and commit on this node.
func (s *Shard) serves(wallMs int64) bool { return !s.away || waits(wallMs, s.strayToMs, StrayMs) }

// stray lets a shard that is another's serve for a while: a message for it was forwarded to this node.
func (s *Shard) stray(wallMs int64) {
	if s.away {
		s.strayToMs = wallMs + StrayMs
		s.leaveByMs = s.strayToMs + LeaveMs
	}
}

// leave gives the shard up once nothing is in flight and nobody waits for more, or has waited for long enough.
func (s *Shard) leave(wallMs int64) {
	if s.serves(wallMs) || s.commits.inFlight != nil || !s.loaded && !s.loading {
		return
	}
	if s.unclosed+len(s.bans) > 0 && waits(wallMs, s.leaveByMs, StrayMs+LeaveMs) {
		return
	}
	queue := s.queue
	s.queue = nil
	for _, c := range queue {
		if c.job == nil {
			s.refuseQueued(c, board.CodeBusy, BusyRetryMs)
		}
	}
	s.reload(wallMs)
	s.emit(StopUsers{})
}

// needSettings asks for newer settings if the head was written under some.
func (s *Shard) needSettings(head store.Head) {
	if version := head.Owner.SettingsVersion; version > s.rules.Version() {
		s.emit(ShardNeedsSettings{Version: version})
	}
}
