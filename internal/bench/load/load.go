// Package load is the traffic of a bench run: users who place tiles in an open or a closed loop, some of whom submit on
// several connections at once while further connections of theirs come and go, late retries of old nonces, and listeners
// who mirror the whole board. It speaks to a server through package client only, tells a ledger everything it is answered,
// and measures from the intended send time.
package load

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/bench/ledger"
	"github.com/placed-board/placed/internal/bench/measure"
)

// Bounds of a run's users.
const (
	playerQueueMax   = 64                     // events that wait for one user's earlier answers; more are not sent
	resendAfter      = 5 * time.Second        // without a final answer the same turn and nonce go out again
	resendSweepEvery = 250 * time.Millisecond // how often that is looked at
	retryWaitMin     = 10 * time.Millisecond  // before a placement that was answered "busy" goes out again
	retryWaitMax     = 5 * time.Second
	lateRetryMax     = 3 * time.Second // after an acceptance, its nonce is retried within this time
	drainWait        = 15 * time.Second
	drainPollEvery   = 20 * time.Millisecond
	dialersAtOnce    = 32
)

// Config describes the placing users of a run.
type Config struct {
	Plan        measure.PlanConfig
	Closed      bool // every user places as soon as it may, instead of by the plan's rate
	Cooldown    time.Duration
	Connections int // of each doubler; the others have one
	// Events replace those that the plan would make, and are in order of time; nil for the plan's. An open loop's.
	Events iter.Seq[measure.Event]
	// Wait paces the open loop; nil for measure.TimerWait.
	Wait measure.Waiter
}

// Storm is a run under way. Make one with New, give each user its connections, then call Run.
type Storm struct {
	config Config
	Ledger *ledger.Ledger
	// Latencies of the users who have one connection. Those who double lose copies on purpose, with the connections that
	// they drop: what that costs them is no figure of the server.
	Latencies *measure.Latencies
	// Refused counts refusals second by second; nil for not at all.
	Refused *measure.Timeline
	players []*player

	start  time.Time     // set by Run before anything is sent
	until  atomic.Int64  // closed loop: nothing is begun this long after the start, in nanoseconds
	early  chan struct{} // closed by EndEarly
	once   sync.Once
	ending atomic.Bool // nothing new is begun and nothing sent again

	counts   counters
	accepted atomic.Int64 // placements accepted
	inWindow atomic.Int64 // of these within the measured time
}

// counters count answers to placements, one per copy sent.
type counters struct {
	refused  [len(board.Refusals)]atomic.Int64
	charged  atomic.Int64
	unknown  atomic.Int64
	resent   atomic.Int64 // copies sent again for want of a final answer
	doubled  atomic.Int64 // copies sent beside another of the same user at the same moment
	late     atomic.Int64 // retries of settled placements
	unsent   atomic.Int64 // events that found too many others waiting for their user
	sendFail atomic.Int64 // copies that found no connection
	notices  atomic.Int64 // messages of the server that a copy was not acted on
}

// New returns a storm without connections.
func New(config Config) *Storm {
	if config.Wait == nil {
		config.Wait = measure.TimerWait
	}
	s := &Storm{config: config, Ledger: ledger.New(config.Plan.Users, config.Cooldown), Latencies: measure.NewLatencies(config.Plan), early: make(chan struct{})}
	s.players = make([]*player, config.Plan.Users)
	for i := range s.players {
		s.players[i] = &player{storm: s, number: i, draws: config.Plan.Draws(uint64(i) + 1), open: map[uint64]*attempt{}}
	}
	return s
}

// Sender is what a user needs of a connection; *client.Session is one.
type Sender interface {
	// PlaceAs sends one placement and returns when it is written.
	PlaceAs(turn, nonce uint64, at board.Point, colour board.Colour) error
	// Turn returns the user's next turn; false while it is not known.
	Turn() (turn uint64, known bool)
}

// Connect gives a user one more connection and returns the hook that must hear of every answer on it. sender may be nil
// when it does not exist before the hook: give it with Attach then.
func (s *Storm) Connect(user int, sender Sender) (connection int, answered func(board.PlaceOutcome)) {
	p := s.players[user]
	p.mu.Lock()
	defer p.mu.Unlock()
	connection = len(p.senders)
	p.senders = append(p.senders, sender)
	return connection, func(o board.PlaceOutcome) { p.answered(connection, o) }
}

// Attach gives the connection its sender.
func (s *Storm) Attach(user, connection int, sender Sender) {
	p := s.players[user]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.senders[connection] = sender
}

func (s *Storm) now() time.Duration { return time.Since(s.start) }

// Begin sets the start of the run to now; Run does it unless it was done before.
func (s *Storm) Begin() {
	if s.start.IsZero() {
		s.start = time.Now()
	}
}

// Start is when the run began; valid after Begin.
func (s *Storm) Start() time.Time { return s.start }

// Accepted is how many placements were accepted so far.
func (s *Storm) Accepted() int64 { return s.accepted.Load() }

// EndEarly ends a closed loop before its time: nothing more is begun.
func (s *Storm) EndEarly() {
	s.once.Do(func() {
		s.until.Store(0)
		close(s.early)
	})
}

// Unanswered is how many users still wait for a final answer.
func (s *Storm) Unanswered() int {
	waiting := 0
	for _, p := range s.players {
		if p.busy() {
			waiting++
		}
	}
	return waiting
}

// Run plays the plan, warm-up included, and then waits until every placement has its final answer, for at most 15 s; what
// has none by then stays in doubt in the ledger.
func (s *Storm) Run(ctx context.Context) error {
	s.Begin()
	plan := s.config.Plan
	s.until.Store(int64(plan.Warmup + plan.Duration))
	sweepCtx, stopSweep := context.WithCancel(ctx)
	var sweeper sync.WaitGroup
	sweeper.Go(func() { s.sweep(sweepCtx) })
	defer sweeper.Wait()
	defer stopSweep()
	var err error
	if s.config.Closed {
		err = s.runClosed(ctx)
	} else {
		events := s.config.Events
		if events == nil {
			events = plan.Events()
		}
		err = measure.Run(ctx, s.start, events, s.config.Wait, func(e measure.Event) { s.players[e.User].submit(e) })
	}
	if err != nil {
		return fmt.Errorf("storm: %w", err)
	}
	err = s.drain(ctx)
	s.ending.Store(true)
	return err
}

// runClosed starts all users, spread over one cooldown, and waits for the end.
func (s *Storm) runClosed(ctx context.Context) error {
	for i, p := range s.players {
		offset := time.Duration(float64(s.config.Cooldown) * float64(i) / float64(len(s.players)))
		time.AfterFunc(time.Until(s.start.Add(offset)), p.placeNow)
	}
	timer := time.NewTimer(time.Until(s.start.Add(time.Duration(s.until.Load()))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.early:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Storm) drain(ctx context.Context) error {
	deadline := time.Now().Add(drainWait)
	for {
		if s.Unanswered() == 0 || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(drainPollEvery):
		}
	}
}

// sweep sends what has waited too long for a final answer again.
func (s *Storm) sweep(ctx context.Context) {
	ticker := time.NewTicker(resendSweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, p := range s.players {
				p.resendOld()
			}
		}
	}
}

// Result is what a run counted.
type Result struct {
	PerSecond float64          // placements accepted within the measured time
	InWindow  int64            // the same as a count
	Refused   map[string]int64 // by label, every code named; one per copy sent
	Charged   int64            // answers "charged, not on the board yet"
	Unknown   int64            // answers "unknown"
	Resent    int64            // copies sent again for want of a final answer
	Doubled   int64            // copies sent beside another of the same user
	Late      int64            // retries of settled placements
	Unsent    int64            // events whose user had too many others waiting
	SendFail  int64            // copies that found no connection
	Notices   int64            // messages of the server that something sent was not acted on
	Totals    ledger.Counts
}

// Result returns the counts so far.
func (s *Storm) Result() Result {
	c := &s.counts
	r := Result{
		InWindow: s.inWindow.Load(), Refused: map[string]int64{}, Charged: c.charged.Load(), Unknown: c.unknown.Load(), Resent: c.resent.Load(),
		Doubled: c.doubled.Load(), Late: c.late.Load(), Unsent: c.unsent.Load(), SendFail: c.sendFail.Load(), Notices: c.notices.Load(), Totals: s.Ledger.Counts(),
	}
	r.PerSecond = float64(r.InWindow) / s.config.Plan.Duration.Seconds()
	for i := range c.refused {
		if code := board.Code(i); code != board.CodeOK {
			r.Refused[code.String()] = c.refused[i].Load()
		}
	}
	return r
}

var errNoConnection = errors.New("no connection")
