//go:build unix

package system_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/wire"
)

// Bounds of a storm on a busy machine.
const (
	dialWithin   = 30 * time.Second
	finalWithin  = 60 * time.Second // for the final answer of one placement, outages included
	moreWithin   = 60 * time.Second // for the storm to go on
	retryAfter   = time.Second      // without an answer
	refusedPause = 20 * time.Millisecond
)

// quickly is how sessions of tests come back.
var quickly = client.Backoff{Base: 20 * time.Millisecond, Max: 250 * time.Millisecond}

// load says what a storm consists of.
type load struct {
	users   int
	mirrors int
	area    board.Rect // where users place
	colours int
	// attack is the share of placements around which a user's second session sends old, doubled and impossible turns.
	attack float64
	// onSettings hears of new settings on every session, by its number.
	onSettings func(session int, settings board.Settings)
}

// storm is load on a node, or on several in turn: users who place, with turns and retries, and mirrors of the board.
type storm struct {
	t       *testing.T
	node    *node
	nodes   []*node
	load    load
	ledger  *ledger
	colours atomic.Int64 // that users place
	users   []*user
	mirrors []*client.Session
	dialled int
	loop    context.CancelFunc // ends the users' loops
	placing sync.WaitGroup
}

// user is one placing user with two sessions.
type user struct {
	name   board.UserID
	first  *client.Session
	second *client.Session // nil without attacks
	random *rand.Rand
	mirror bool

	placed atomic.Int64 // acceptances
}

// seed is that of the storms' random choices; PLACED_SYSTEM_SEED sets it.
var seed = func() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("PLACED_SYSTEM_SEED"), 10, 64); err == nil {
		return n
	}
	return rand.Uint64()
}()

// startStorm connects everybody and lets the users place until stop.
func startStorm(t *testing.T, n *node, l load) *storm {
	t.Helper()
	return startStormOn(t, []*node{n}, l)
}

// startStormOn spreads the sessions over several nodes of one board.
func startStormOn(t *testing.T, nodes []*node, l load) *storm {
	t.Helper()
	s := &storm{t: t, node: nodes[0], nodes: nodes, load: l, ledger: newLedger()}
	s.colours.Store(int64(l.colours))
	t.Logf("PLACED_SYSTEM_SEED=%d", seed)
	for i := range l.mirrors {
		o := client.Options{Mirror: true, Whole: true}
		if i%4 == 3 { // a part of the board
			o.Whole, o.Chunks = false, wire.ChunkRect{Col: 1, Row: 1, Cols: 3, Rows: 2}
		}
		s.mirrors = append(s.mirrors, s.dial(o))
	}
	for i := range l.users {
		s.users = append(s.users, s.newUser(i))
	}
	loop, cancel := context.WithCancel(context.Background())
	s.loop = cancel
	t.Cleanup(s.close)
	for _, u := range s.users {
		s.placing.Go(func() { s.place(loop, u) })
	}
	return s
}

func (s *storm) newUser(i int) *user {
	u := &user{name: board.UserID(fmt.Sprintf("painter %d", i)), random: rand.New(rand.NewPCG(seed, uint64(i))), mirror: i%8 == 0}
	u.first = s.dialUser(u, client.Options{Mirror: u.mirror, Whole: u.mirror})
	if s.load.attack > 0 {
		u.second = s.dialUser(u, client.Options{})
	}
	return u
}

func (s *storm) dialUser(u *user, o client.Options) *client.Session {
	o.Name = string(u.name)
	o.Hooks.OnPlaced = func(outcome board.PlaceOutcome) {
		// An acceptance says its colour; of anything else the ledger knows it, or learns it from Place, which does not
		// return before a final answer.
		switch {
		case outcome.Verdict == board.VerdictAccepted:
			s.ledger.heard(u.name, outcome, outcome.Colour, time.Time{})
		case s.ledger.knows(u.name, outcome.Nonce):
			s.ledger.heard(u.name, outcome, 0, time.Time{})
		case outcome.Verdict == board.VerdictUnknown:
			s.ledger.unknown()
		}
	}
	return s.dial(o)
}

func (s *storm) dial(o client.Options) *client.Session {
	s.t.Helper()
	o.Backoff, o.RetryAfter = quickly, retryAfter
	number := s.dialled
	s.dialled++
	to := s.nodes[number%len(s.nodes)]
	if hear := s.load.onSettings; hear != nil {
		o.Hooks.OnSettings = func(settings board.Settings) { hear(number, settings) }
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), dialWithin)
	defer cancel()
	session, err := client.Dial(ctx, to.url, o)
	if err != nil {
		s.t.Fatalf("dial as %q: %v", o.Name, err)
	}
	s.t.Cleanup(func() { _ = session.Close() })
	return session
}

// place is a user's life.
func (s *storm) place(loop context.Context, u *user) {
	var before, last *board.PlaceOutcome
	for loop.Err() == nil {
		if err := u.first.WaitReady(loop); err != nil {
			if loop.Err() == nil {
				s.t.Errorf("user %s: wait for the turn: %v", u.name, err)
			}
			return
		}
		attacked := u.second != nil && u.random.Float64() < s.load.attack
		if attacked {
			s.attackBefore(u, before, last)
		}
		at, colour := s.point(u), board.Colour(u.random.Int64N(s.colours.Load()))
		final, cancel := context.WithTimeout(context.Background(), finalWithin)
		sentAt := time.Now()
		o, err := u.first.Place(final, at, colour)
		cancel()
		if err != nil {
			s.t.Errorf("user %s: no final answer: %v (%+v)", u.name, err, o)
			return
		}
		s.ledger.heard(u.name, o, colour, sentAt)
		if o.Verdict != board.VerdictAccepted {
			pause(loop, max(refusedPause, min(time.Duration(o.WaitMs)*time.Millisecond, time.Second)))
			continue
		}
		u.placed.Add(1)
		before, last = last, &o
		if attacked {
			s.again(u, last) // late, on another connection: the same answer
		}
	}
}

// attackBefore sends, beside the placement that follows, what must not become one: the turn before the last again, a
// turn that is not due yet, and another placement of the very turn that is about to be used.
func (s *storm) attackBefore(u *user, before, last *board.PlaceOutcome) {
	if before != nil {
		s.again(u, before)
	}
	turn, known := u.first.Turn()
	if last == nil || !known {
		return
	}
	s.raw(u, turn+5, u.random.Uint64(), s.point(u), 0)
	nonce, at := u.random.Uint64(), s.point(u)
	s.raw(u, turn, nonce, at, 1)
	s.raw(u, turn, nonce, at, 1)
}

// again sends an accepted placement once more.
func (s *storm) again(u *user, o *board.PlaceOutcome) { s.raw(u, o.Turn, o.Nonce, o.At, o.Colour) }

func (s *storm) raw(u *user, turn, nonce uint64, at board.Point, colour board.Colour) {
	s.ledger.sent(u.name, turn, nonce, at, colour)
	_ = u.second.PlaceAs(turn, nonce, at, colour) // not connected: it was not sent, which is as good as lost
}

// point is half of the time in a corner where users meet.
func (s *storm) point(u *user) board.Point {
	a := s.load.area
	w, h := a.Width, a.Height
	if u.random.IntN(2) == 0 {
		w, h = min(w, 20), min(h, 20)
	}
	return board.Point{X: a.X + u.random.IntN(w), Y: a.Y + u.random.IntN(h)}
}

// pause spaces a user's tries.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// more waits until that many more placements have been accepted.
func (s *storm) more(n int) {
	s.t.Helper()
	want := s.ledger.acceptances() + n
	eventually(s.t, moreWithin, fmt.Sprintf("%d acceptances", want), func() bool { return s.ledger.acceptances() >= want })
}

// everyone waits until every user has had another placement accepted.
func (s *storm) everyone() {
	s.t.Helper()
	s.all(s.users)
}

// all waits until each of the users has had another placement accepted.
func (s *storm) all(users []*user) {
	s.t.Helper()
	was := make([]int64, len(users))
	for i, u := range users {
		was[i] = u.placed.Load()
	}
	eventually(s.t, moreWithin, "everyone to place", func() bool {
		for i, u := range users {
			if u.placed.Load() == was[i] {
				return false
			}
		}
		return true
	})
}

// back waits until every session is connected to the process that runs now.
func (s *storm) back() {
	s.t.Helper()
	incarnation := s.node.status().Incarnation
	for _, session := range s.sessions() {
		eventually(s.t, moreWithin, "every session to be back", func() bool {
			return fmt.Sprintf("%016x", session.Hello().Incarnation) == incarnation
		})
	}
}

// keptBoards sees that no mirror was fetched anew, however often its session had to connect.
func (s *storm) keptBoards() {
	s.t.Helper()
	for _, session := range s.mirroring() {
		if stats := session.Stats(); stats.Connects < 2 || stats.Fetches > 1 {
			s.t.Errorf("a session of %q connected %d times and fetched the board %d times", session.User(), stats.Connects, stats.Fetches)
		}
	}
}

// stop ends the placing: every user has the final answer to the last placement.
func (s *storm) stop() {
	s.t.Helper()
	s.loop()
	s.placing.Wait()
}

func (s *storm) close() {
	s.loop()
	s.placing.Wait()
}

// sessions returns every session of the storm.
func (s *storm) sessions() []*client.Session {
	all := append([]*client.Session{}, s.mirrors...)
	for _, u := range s.users {
		all = append(all, u.first)
		if u.second != nil {
			all = append(all, u.second)
		}
	}
	return all
}

// mirroring returns the sessions that keep a mirror.
func (s *storm) mirroring() []*client.Session {
	all := append([]*client.Session{}, s.mirrors...)
	for _, u := range s.users {
		if u.mirror {
			all = append(all, u.first)
		}
	}
	return all
}
