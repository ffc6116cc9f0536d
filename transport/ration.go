package transport

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/placed-board/placed/board"
)

// The ration of new identities counts people, not names: the page gives everybody an anonymous identity, and who then chooses
// a name gives that one up for it, which costs nothing more. Otherwise one network would let in half as many guests.

// givenUpMax is how many given-up identities are remembered for certain; up to twice as many are. An older one would be good
// again: each has cost a place in a ration, so forgetting sheds at most one cooldown for each.
const givenUpMax = 65_536

// givenUp remembers the anonymous identities that were given up for a name, in two generations.
type givenUp struct {
	mu            sync.RWMutex // guards the fields below
	recent, older map[board.UserID]struct{}
}

func newGivenUp() *givenUp { return &givenUp{recent: map[board.UserID]struct{}{}} }

// add reports whether the identity is given up by this call, and was not before.
func (g *givenUp) add(user board.UserID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hasLocked(user) {
		return false
	}
	if len(g.recent) >= givenUpMax {
		g.recent, g.older = map[board.UserID]struct{}{}, g.recent
	}
	g.recent[user] = struct{}{}
	return true
}

func (g *givenUp) has(user board.UserID) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.hasLocked(user)
}

func (g *givenUp) hasLocked(user board.UserID) bool {
	_, recent := g.recent[user]
	_, older := g.older[user]
	return recent || older
}

// takeName takes one identity from the address's ration for a chosen name; free of charge for somebody who gives an anonymous
// identity of this board up for it.
func (s *Server) takeName(r *http.Request) *problem {
	if who, p := s.identify(r); p == nil && who.anonymous && s.givenUp.add(who.user) {
		return nil
	}
	return s.takeIdentity(r)
}

// takeIdentity takes one identity from the address's ration.
func (s *Server) takeIdentity(r *http.Request) *problem {
	wait, ok := s.limits.signIn(s.peerOf(r).addr, time.Now())
	if ok {
		return nil
	}
	p := newProblem(problemRation, fmt.Sprintf("%d new guests an hour may come from one network: the next one in %v", s.cfg.SignInsPerHour, roundUp(wait)))
	p.RetryAfterMs = max(wait.Milliseconds(), 1)
	return p
}

// roundUp returns a wait as a person says it, never too short.
func roundUp(wait time.Duration) time.Duration {
	unit := time.Second
	if wait > 2*time.Minute {
		unit = time.Minute
	}
	return (wait + unit - 1) / unit * unit
}
