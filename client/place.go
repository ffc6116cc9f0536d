package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// turnState is what the session knows of its user's turn. Waits become deadlines of the local monotonic clock.
type turnState struct {
	known   bool
	turn    uint64
	readyAt time.Time
	banned  int64 // Unix milliseconds of the node's clock, 0: not banned
}

func (t *turnState) hello(h *wire.Hello, now time.Time) {
	if h.Known {
		t.set(h.Turn, h.WaitMs, now)
	}
	if !h.Known {
		t.known = false
	}
}

func (t *turnState) set(turn uint64, waitMs int64, now time.Time) {
	t.known, t.turn, t.readyAt = true, turn, now.Add(time.Duration(waitMs)*time.Millisecond)
}

// placed learns from an answer.
func (t *turnState) placed(o *board.PlaceOutcome, now time.Time) {
	if o.NextTurn == 0 {
		return
	}
	switch {
	case o.Verdict == board.VerdictAccepted, o.Verdict == board.VerdictCharged, o.Code == board.CodeCooldown:
		if o.NextTurn >= t.turn || !t.known {
			t.set(o.NextTurn, o.WaitMs, now)
		}
	default:
		// WaitMs says when a retry makes sense, not when the user is ready.
		t.turn, t.known = max(o.NextTurn, t.turn), true
		if o.Code == board.CodeTurn {
			t.turn = o.NextTurn
		}
	}
}

// pendingPlace is a Place that waits for its answer.
type pendingPlace struct {
	turn, nonce uint64
	outcomes    chan board.PlaceOutcome // buffered; the newest answers are kept
	reconnects  chan bool               // buffered; true: to another epoch
	notices     chan time.Duration      // buffered; the last message was not acted on, try again after
}

func (p *pendingPlace) connected(replaced bool) {
	select {
	case p.reconnects <- replaced:
	default:
		if replaced {
			<-p.reconnects
			p.reconnects <- true
		}
	}
}

func (p *pendingPlace) answered(o board.PlaceOutcome) {
	for {
		select {
		case p.outcomes <- o:
			return
		default: // full of answers nobody has read: the oldest goes
			select {
			case <-p.outcomes:
			default:
			}
		}
	}
}

// Turn returns the user's next turn; false while the node has not told it.
func (s *Session) Turn() (turn uint64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn.turn, s.turn.known
}

// ReadyIn returns how long until the user's next placement may be accepted; 0 when it may be now, or when nobody knows.
func (s *Session) ReadyIn() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.turn.known {
		return 0
	}
	return max(0, time.Until(s.turn.readyAt))
}

// WaitReady waits until the user's next placement may be accepted.
func (s *Session) WaitReady(ctx context.Context) error {
	for {
		if err := s.await(ctx, func() bool { return s.turn.known }); err != nil {
			return err
		}
		s.mu.Lock()
		left, changed := time.Until(s.turn.readyAt), s.changing()
		s.mu.Unlock()
		if left <= 0 {
			return nil
		}
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-changed: // the cooldown may have been cut
		case <-ctx.Done():
		case <-s.done:
		}
		t.Stop()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case s.Err() != nil:
			return s.ended()
		}
	}
}

// Place puts a colour on a tile with the user's next turn, and waits until that is on the board (accepted) or refused. It
// sends the same turn and nonce again when no final answer comes, and on every new connection, so a lost answer neither
// doubles nor loses the placement. It does not wait for the cooldown: a user who is not ready is refused. Calls on one
// session queue up.
//
// When the context ends first the outcome is the last one heard: charged (it will be on the board) or unknown, and the error
// wraps the context's. A refusal of a placement that was sent only once changed nothing; after a retry, a passing refusal
// (busy, store ...) is no verdict over the first copy, and Place goes on asking. Other errors: ErrNotSignedIn, ErrClosed,
// ErrEpochChanged.
func (s *Session) Place(ctx context.Context, at board.Point, colour board.Colour) (board.PlaceOutcome, error) {
	p := &pendingPlace{
		nonce: rand.Uint64(), outcomes: make(chan board.PlaceOutcome, 4), reconnects: make(chan bool, 1), notices: make(chan time.Duration, 1),
	}
	last := board.PlaceOutcome{Verdict: board.VerdictUnknown, Nonce: p.nonce, At: at, Colour: colour}
	select {
	case s.placer <- struct{}{}:
		defer func() { <-s.placer }()
	case <-ctx.Done():
		return last, fmt.Errorf("client: place: %w", ctx.Err())
	case <-s.done:
		return last, s.ended()
	}
	spectator := false
	err := s.await(ctx, func() bool {
		spectator = s.conn != nil && s.hello.User == ""
		if s.turn.known && !spectator {
			p.turn, s.pending = s.turn.turn, p
		}
		return s.turn.known || spectator
	})
	last.Turn = p.turn
	switch {
	case err != nil:
		return last, fmt.Errorf("client: place: %w", err)
	case spectator:
		return last, ErrNotSignedIn
	}
	defer func() {
		s.mu.Lock()
		s.pending = nil
		s.mu.Unlock()
	}()
	return s.settle(ctx, p, last)
}

// settle sends a placement until its answer is final.
func (s *Session) settle(ctx context.Context, p *pendingPlace, last board.PlaceOutcome) (board.PlaceOutcome, error) {
	resend := time.NewTimer(0)
	defer resend.Stop()
	for copies := 0; ; {
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("client: place: %w", ctx.Err())
		case <-s.done:
			return last, s.ended()
		case replaced := <-p.reconnects:
			if replaced {
				return last, ErrEpochChanged
			}
			resend.Reset(0)
		case after := <-p.notices:
			resend.Reset(min(max(after, retryAfterMin), s.o.RetryAfter))
		case <-resend.C:
			if s.PlaceAs(p.turn, p.nonce, last.At, last.Colour) == nil {
				if copies++; copies > 1 {
					s.mu.Lock()
					s.stats.PlacesResent++
					s.mu.Unlock()
				}
			}
			resend.Reset(s.o.RetryAfter)
		case o := <-p.outcomes:
			switch o.Verdict {
			case board.VerdictAccepted:
				return o, nil
			case board.VerdictRefused:
				if copies <= 1 || !o.Code.Passing() {
					return o, nil
				}
				resend.Reset(min(max(time.Duration(o.WaitMs)*time.Millisecond, retryAfterMin), s.o.RetryAfter))
			case board.VerdictCharged:
				last = o
				resend.Reset(s.o.RetryAfter)
			case board.VerdictUnknown:
				if last.Verdict != board.VerdictCharged {
					last = o
				}
				resend.Reset(min(max(time.Duration(o.WaitMs)*time.Millisecond, retryAfterMin), s.o.RetryAfter))
			}
		}
	}
}

// PlaceAs sends one placement with any turn and nonce, once, and returns when it is written; answers come to Hooks.OnPlaced.
// Turn 0 is whatever the user's turn is. It is for tests and storms, which need double submits and old nonces: bots use
// Place. It returns ErrNotConnected while there is no connection.
func (s *Session) PlaceAs(turn, nonce uint64, at board.Point, colour board.Colour) error {
	return s.send(&wire.Place{Turn: turn, Nonce: nonce, X: at.X, Y: at.Y, Colour: int(colour)})
}

func (s *Session) receivePlaced(m *wire.Placed) {
	o := m.PlaceOutcome
	s.mu.Lock()
	s.turn.placed(&o, time.Now())
	if p := s.pending; p != nil && p.turn == o.Turn && p.nonce == o.Nonce {
		p.answered(o)
	}
	s.announce()
	s.mu.Unlock()
	if f := s.o.Hooks.OnPlaced; f != nil {
		f(o)
	}
}

func (s *Session) receiveMe(m *wire.Me) {
	s.mu.Lock()
	s.turn.set(m.Turn, m.WaitMs, time.Now())
	s.turn.banned = m.BannedUntilMs
	s.announce()
	s.mu.Unlock()
	if f := s.o.Hooks.OnMe; f != nil {
		f(*m)
	}
}

func (s *Session) receiveNotice(m *wire.Notice) {
	s.mu.Lock()
	if p := s.pending; p != nil {
		select {
		case p.notices <- time.Duration(m.RetryMs) * time.Millisecond:
		default:
		}
	}
	s.mu.Unlock()
	if f := s.o.Hooks.OnNotice; f != nil {
		f(*m)
	}
}
