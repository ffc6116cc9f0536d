package load

import (
	"sync"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/bench/ledger"
	"github.com/placed-board/placed/internal/bench/measure"
)

// player is one user. It has one move under way at a time; further events wait in its queue.
type player struct {
	storm  *Storm
	number int

	mu      sync.Mutex // guards what follows
	senders []Sender   // its connections; the first is the one it uses unless it doubles
	draws   *measure.Draws
	queue   []measure.Event
	move    *move               // nil while the user is free
	freed   time.Duration       // when the last move ended
	open    map[uint64]*attempt // by nonce: what has copies under way
}

// move is what one event of the plan became: one placement, or several at once of which one may be accepted.
type move struct {
	event    measure.Event
	left     int // attempts without an answer that settles them
	accepted bool
	wait     time.Duration // until the user may place again, by the newest answer
}

// attempt is one placement.
type attempt struct {
	move        *move
	turn, nonce uint64
	at          board.Point
	colour      board.Colour
	firstSent   time.Duration
	lastSent    time.Duration
	underWay    []int // copies without an answer, by connection
	settled     bool  // its move waits for it no longer
	charged     bool
}

// submit takes an event of the plan: at once when the user is free, else after its earlier ones.
func (p *player) submit(e measure.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.move == nil:
		p.begin(e)
	case len(p.queue) < playerQueueMax:
		p.queue = append(p.queue, e)
	default:
		p.storm.counts.unsent.Add(1)
	}
}

// placeNow begins a move of the closed loop.
func (p *player) placeNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.storm.now(); p.move == nil && now < time.Duration(p.storm.until.Load()) && !p.storm.ending.Load() {
		p.freed = now
		p.begin(p.draws.Event(now, p.number))
	}
}

func (p *player) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.move != nil
}

// begin sends an event's placements.
func (p *player) begin(e measure.Event) {
	m := &move{event: e}
	p.move = m
	turn, known := p.senders[0].Turn()
	copies := 1
	if e.Act == measure.ActDouble {
		copies = len(p.senders)
		// Half of the time the server is left to find the turn by itself: then not even the turn tells the copies apart.
		known = known && p.draws.Uint64()&1 == 0
	}
	if !known {
		turn = 0
	}
	sameNonce := copies > 1 && p.draws.Uint64()&1 == 0
	var a *attempt
	for connection := range copies {
		if a == nil || !sameNonce {
			a = p.attempt(m, turn, connection)
		}
		p.send(a, connection)
	}
	p.storm.counts.doubled.Add(int64(copies - 1))
	if e.Act == measure.ActRetry && p.draws.Uint64()&1 == 0 {
		p.send(a, 0) // a client that did not wait for the answer
	}
	if e.Act != measure.ActDouble { // see Storm.Latencies
		p.storm.Latencies.Sent(p.number, e.At, p.freed, a.firstSent)
	}
}

// attempt makes a placement of the move. Those after the first go to the neighbouring tiles in another colour, so that an
// extra one shows on the board.
func (p *player) attempt(m *move, turn uint64, index int) *attempt {
	plan := &p.storm.config.Plan
	a := &attempt{
		move: m, turn: turn, nonce: p.draws.Uint64(), underWay: make([]int, len(p.senders)),
		at:     board.Point{X: (m.event.X + index) % plan.Width, Y: m.event.Y},
		colour: board.Colour((int(m.event.Colour) + index) % plan.Colours),
	}
	m.left++
	p.open[a.nonce] = a
	p.storm.Ledger.Sent(p.number, a.nonce)
	return a
}

// send puts one copy on a connection. A copy that cannot be sent waits for the sweep.
func (p *player) send(a *attempt, connection int) {
	now := p.storm.now()
	if a.firstSent == 0 {
		a.firstSent = now
	}
	a.lastSent = now
	sender := p.senders[connection]
	err := errNoConnection
	if sender != nil {
		a.underWay[connection]++ // before the write: the answer may be quicker than its return
		err = sender.PlaceAs(a.turn, a.nonce, a.at, a.colour)
	}
	if err != nil {
		p.storm.counts.sendFail.Add(1)
	}
}

// answered takes an answer, or a notice of what another connection of the user was answered.
func (p *player) answered(connection int, o board.PlaceOutcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.storm.now()
	a := p.open[o.Nonce]
	switch o.Verdict {
	case board.VerdictAccepted:
		p.accepted(a, o, now)
	case board.VerdictCharged:
		p.storm.counts.charged.Add(1)
		if a != nil {
			a.charged = true
		}
	case board.VerdictUnknown:
		p.storm.counts.unknown.Add(1)
		if a != nil && !a.settled {
			p.resendLater(a, o.WaitMs)
		}
	case board.VerdictRefused:
		p.storm.counts.refused[min(int(o.Code), len(board.Refusals)-1)].Add(1)
		p.storm.Refused.Add(now, 0)
		p.refused(a, connection, o)
	}
	p.endMove(now)
}

func (p *player) accepted(a *attempt, o board.PlaceOutcome, now time.Duration) {
	s := p.storm
	if a == nil {
		s.Ledger.Repeat(p.number, o.Nonce, o.Chunk, o.Sequence)
		return
	}
	delete(p.open, a.nonce)
	s.Ledger.Accept(ledger.Accepted{
		User: p.number, Turn: o.Turn, Nonce: a.nonce, Chunk: o.Chunk, Sequence: o.Sequence, Tile: a.at.Tile(), Colour: a.colour,
		Sent: a.firstSent, Heard: now,
	})
	s.accepted.Add(1)
	if plan := s.config.Plan; now >= plan.Warmup && now < plan.Warmup+plan.Duration {
		s.inWindow.Add(1)
	}
	m := a.move
	if !m.accepted {
		m.accepted, m.wait = true, time.Duration(o.WaitMs)*time.Millisecond
		if m.event.Act != measure.ActDouble {
			s.Latencies.Answered(p.number, m.event.At, a.firstSent, now)
		}
	}
	p.settle(a)
	if m.event.Act == measure.ActRetry {
		turn := o.Turn
		time.AfterFunc(p.draws.Up(lateRetryMax), func() { p.retryLate(turn, a) })
	}
}

// retryLate sends a placement that was accepted long ago once more: the same answer or "superseded" is due, never a second
// effect.
func (p *player) retryLate(turn uint64, a *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.storm.ending.Load() || p.senders[0] == nil {
		return
	}
	p.storm.counts.late.Add(1)
	if p.senders[0].PlaceAs(turn, a.nonce, a.at, a.colour) != nil {
		p.storm.counts.sendFail.Add(1)
	}
}

func (p *player) refused(a *attempt, connection int, o board.PlaceOutcome) {
	s := p.storm
	if a == nil {
		s.Ledger.Refuse(p.number, o.Nonce, o.Code, false)
		return
	}
	if a.underWay[connection] == 0 {
		return // the answer to another connection's copy
	}
	a.underWay[connection]--
	final := true
	for _, n := range a.underWay {
		final = final && n == 0
	}
	s.Ledger.Refuse(p.number, a.nonce, o.Code, final)
	if final && a.settled {
		delete(p.open, a.nonce)
	}
	if a.settled || s.ending.Load() {
		return
	}
	alone := a.move.event.Act != measure.ActDouble
	switch {
	case alone && o.Code.Passing():
		p.resendLater(a, o.WaitMs)
	case alone && o.Code == board.CodeTurn && o.NextTurn != 0 && o.NextTurn != a.turn:
		a.turn = o.NextTurn
		p.resendLater(a, 0)
	default:
		if o.Code == board.CodeCooldown {
			a.move.wait = max(a.move.wait, time.Duration(o.WaitMs)*time.Millisecond)
		}
		p.settle(a)
		if final {
			delete(p.open, a.nonce)
		}
	}
}

func (p *player) settle(a *attempt) {
	if !a.settled {
		a.settled = true
		a.move.left--
	}
}

func (p *player) resendLater(a *attempt, waitMs int64) {
	wait := min(max(time.Duration(waitMs)*time.Millisecond, retryWaitMin), retryWaitMax)
	time.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.resend(a)
	})
}

func (p *player) resend(a *attempt) {
	if a.settled || p.storm.ending.Load() {
		return
	}
	p.storm.counts.resent.Add(1)
	p.storm.Ledger.Sent(p.number, a.nonce)
	p.open[a.nonce] = a
	p.send(a, 0)
}

// resendOld sends again what has been without any answer for too long.
func (p *player) resendOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.move == nil || p.storm.now() < resendAfter {
		return
	}
	for _, a := range p.open {
		if a.move == p.move && p.storm.now()-a.lastSent >= resendAfter {
			p.resend(a)
		}
	}
}

// endMove goes on to the next event when the move under way is settled.
func (p *player) endMove(now time.Duration) {
	m := p.move
	if m == nil || m.left > 0 {
		return
	}
	p.move, p.freed = nil, now
	switch {
	case len(p.queue) > 0:
		next := p.queue[0]
		p.queue = p.queue[:copy(p.queue, p.queue[1:])]
		p.begin(next)
	case p.storm.config.Closed:
		if !m.accepted {
			m.wait = max(m.wait, retryWaitMin)
		}
		time.AfterFunc(m.wait, p.placeNow)
	}
}
