//go:build unix

package system_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/placed-board/placed/board"
)

// ledger is what the users of a test were told, from all their sessions.
type ledger struct {
	mu       sync.Mutex // guards the fields below
	entries  map[attempt]*entry
	faults   []string
	accepted int
	answers  map[string]int // by verdict or refusal
}

// attempt names a placement as its user does.
type attempt struct {
	user  board.UserID
	nonce uint64
}

// entry is what is known of one placement.
type entry struct {
	turn     uint64
	at       board.Point
	colour   board.Colour
	sentAt   time.Time // of the first copy
	heardAt  time.Time // of the acceptance
	accepted *board.PlaceOutcome
	copies   int // sent by raw; 0 when the client's Place sent them
	refusals int
}

func newLedger() *ledger {
	return &ledger{entries: map[attempt]*entry{}, answers: map[string]int{}}
}

// faultsMax is how many faults are spelt out.
const faultsMax = 20

func (l *ledger) fault(format string, a ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, a...))
}

// sent notes that a copy of a placement leaves.
func (l *ledger) sent(user board.UserID, turn, nonce uint64, at board.Point, colour board.Colour) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[attempt{user, nonce}]
	if e == nil {
		l.entries[attempt{user, nonce}] = &entry{turn: turn, at: at, colour: colour, sentAt: time.Now(), copies: 1}
		return
	}
	if e.copies > 0 {
		e.copies++
	}
}

// heard notes an answer to a placement of the user, on whichever session. sentAt tells when the placement began if sent was
// not told, as the client's Place chooses nonces by itself.
func (l *ledger) heard(user board.UserID, o board.PlaceOutcome, colour board.Colour, sentAt time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := attempt{user, o.Nonce}
	e := l.entries[key]
	if e == nil {
		e = &entry{turn: o.Turn, at: o.At, colour: colour, sentAt: sentAt}
		l.entries[key] = e
	}
	switch o.Verdict {
	case board.VerdictAccepted:
		l.answers["accepted"]++
		l.accept(key, e, o)
	case board.VerdictRefused:
		l.answers[o.Code.String()]++
		if e.accepted != nil && !o.Code.Passing() && o.Code != board.CodeSuperseded {
			l.fault("user %s turn %d: refused as %v after its acceptance", user, o.Turn, o.Code)
		}
		e.refusals++
	case board.VerdictCharged, board.VerdictUnknown:
		l.answers[o.Verdict.String()]++
	}
}

// unknown counts an answer that says that nobody knows.
func (l *ledger) unknown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[board.VerdictUnknown.String()]++
}

// knows reports whether a placement has been sent or heard of.
func (l *ledger) knows(user board.UserID, nonce uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[attempt{user, nonce}] != nil
}

// refused reports whether a copy of the placement has been refused.
func (l *ledger) refused(user board.UserID, nonce uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[attempt{user, nonce}]
	return e != nil && e.refusals > 0
}

// accept notes an acceptance: the first, or the same again.
func (l *ledger) accept(key attempt, e *entry, o board.PlaceOutcome) {
	if o.At != e.at || o.Colour != e.colour || o.Chunk != e.at.Chunk() || o.Sequence == 0 || e.turn != 0 && o.Turn != e.turn {
		l.fault("user %s: asked for turn %d %v colour %d, accepted was %+v", key.user, e.turn, e.at, e.colour, o)
	}
	if e.accepted == nil {
		e.accepted, e.heardAt = &o, time.Now()
		l.accepted++
		return
	}
	if first := e.accepted; first.Sequence != o.Sequence || first.Turn != o.Turn {
		l.fault("user %s: accepted as turn %d sequence %d, later as turn %d sequence %d", key.user, first.Turn, first.Sequence, o.Turn, o.Sequence)
	}
}

// acceptances returns how many placements have been accepted.
func (l *ledger) acceptances() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

// answered returns how often an answer was heard.
func (l *ledger) answered(label string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers[label]
}

// newest returns the accepted placements that no later accepted one covers, by tile.
func (l *ledger) newest() map[board.Point]attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	top := map[board.Point]attempt{}
	for key, e := range l.entries {
		if e.accepted == nil {
			continue
		}
		if other, ok := top[e.at]; !ok || l.entries[other].accepted.Sequence < e.accepted.Sequence {
			top[e.at] = key
		}
	}
	return top
}
