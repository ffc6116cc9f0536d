// Package ledger keeps what a run was told about its placements and judges it against what the board shows in the end:
// extra tiles, lost acknowledgements, changed answers, sequence gaps, boards that differ. It sees a server only through
// its answers and its board, and it does no I/O.
package ledger

import (
	"fmt"
	"sync"
	"time"

	"github.com/placed-board/placed/board"
)

// Accepted is a placement that the server says is on the board.
type Accepted struct {
	User     int // the run's own number of the user
	Turn     uint64
	Nonce    uint64
	Chunk    board.ChunkID
	Sequence uint64
	Tile     int // index in the chunk
	Colour   board.Colour
	Sent     time.Duration // when the first copy of it left, since the start of the run
	Heard    time.Duration // when its acceptance was first heard
}

// place is a position in the order of a chunk.
type place struct {
	chunk    board.ChunkID
	sequence uint64
}

const usersPerStripe = 64

// Ledger collects answers from many goroutines. Use New.
type Ledger struct {
	cooldown time.Duration
	stripes  []stripe // by user / usersPerStripe
}

type stripe struct {
	mu    sync.Mutex
	users map[int]*account // guarded by mu, and so are the accounts
}

// account is one user's part of the ledger.
type account struct {
	accepted map[uint64]Accepted // by nonce
	doubtful map[uint64]struct{} // nonces that were sent and have no final answer yet
	changed  []string            // answers that contradict an earlier one
}

// New returns an empty ledger for users 0..users-1 under one cooldown.
func New(users int, cooldown time.Duration) *Ledger {
	l := &Ledger{cooldown: cooldown, stripes: make([]stripe, users/usersPerStripe+1)}
	for i := range l.stripes {
		l.stripes[i].users = map[int]*account{}
	}
	return l
}

func (l *Ledger) with(user int, do func(*account)) {
	s := &l.stripes[user/usersPerStripe]
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.users[user]
	if a == nil {
		a = &account{accepted: map[uint64]Accepted{}, doubtful: map[uint64]struct{}{}}
		s.users[user] = a
	}
	do(a)
}

// Sent notes that a placement is about to leave: until it is answered for good it may be on the board or not.
func (l *Ledger) Sent(user int, nonce uint64) {
	l.with(user, func(a *account) {
		if _, accepted := a.accepted[nonce]; !accepted {
			a.doubtful[nonce] = struct{}{}
		}
	})
}

// Accept notes an acceptance. A second one of the same placement must name the same place.
func (l *Ledger) Accept(answer Accepted) {
	l.with(answer.User, func(a *account) {
		delete(a.doubtful, answer.Nonce)
		before, again := a.accepted[answer.Nonce]
		if !again {
			a.accepted[answer.Nonce] = answer
			return
		}
		if before.Chunk != answer.Chunk || before.Sequence != answer.Sequence {
			a.changed = append(a.changed, moved(before, answer.Chunk, answer.Sequence))
		}
	})
}

// Repeat notes an acceptance of a placement that was settled before, or that another session of the user has sent: it must
// name the place that was given first.
func (l *Ledger) Repeat(user int, nonce uint64, chunk board.ChunkID, sequence uint64) {
	l.with(user, func(a *account) {
		switch before, known := a.accepted[nonce]; {
		case !known:
			a.changed = append(a.changed, fmt.Sprintf("user %d was told of an acceptance of nonce %#x, which had been refused or never sent", user, nonce))
		case before.Chunk != chunk || before.Sequence != sequence:
			a.changed = append(a.changed, moved(before, chunk, sequence))
		}
	})
}

func moved(before Accepted, chunk board.ChunkID, sequence uint64) string {
	return fmt.Sprintf("user %d nonce %#x was placed at chunk %d sequence %d and at chunk %d sequence %d",
		before.User, before.Nonce, before.Chunk, before.Sequence, chunk, sequence)
}

// Refuse notes a refusal. final says that every copy of the placement has been refused, which settles it. A placement that
// was accepted before may only be refused as superseded, or for the moment.
func (l *Ledger) Refuse(user int, nonce uint64, code board.Code, final bool) {
	l.with(user, func(a *account) {
		if final {
			delete(a.doubtful, nonce)
		}
		if _, accepted := a.accepted[nonce]; accepted && code != board.CodeSuperseded && !code.Passing() {
			a.changed = append(a.changed, fmt.Sprintf("user %d nonce %#x was accepted, and a retry of it refused as %s", user, nonce, code))
		}
	})
}

// Each calls do with every acceptance, in no order. do must not call the ledger.
func (l *Ledger) Each(do func(Accepted)) {
	l.each(func(_ int, a *account) {
		for _, accepted := range a.accepted {
			do(accepted)
		}
	})
}

// Counts are totals of the ledger.
type Counts struct {
	Accepted int // placements, each once however often it was acknowledged
	Doubtful int // placements sent without any final answer
	Users    int // users with at least one acceptance
}

// Counts returns the totals so far.
func (l *Ledger) Counts() Counts {
	var c Counts
	l.each(func(_ int, a *account) {
		c.Accepted += len(a.accepted)
		c.Doubtful += len(a.doubtful)
		if len(a.accepted) > 0 {
			c.Users++
		}
	})
	return c
}

func (l *Ledger) each(do func(user int, a *account)) {
	for i := range l.stripes {
		s := &l.stripes[i]
		s.mu.Lock()
		for user, a := range s.users {
			do(user, a)
		}
		s.mu.Unlock()
	}
}
