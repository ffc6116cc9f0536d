package load

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/bench/ledger"
	"github.com/placed-board/placed/internal/bench/measure"
)

// fakeServer answers placements of users as a server would, after a delay, and can be told to misbehave.
type fakeServer struct {
	cooldown time.Duration
	delay    time.Duration
	stall    func(copy int) time.Duration // extra delay of the n-th copy received
	answer   func(copy int, o *board.PlaceOutcome) (drop bool)
	busy     func(copy int) bool // turn this copy away

	mu     sync.Mutex
	copies int
	turns  []uint64 // by user; the number of placements made
	ready  []time.Time
	last   []board.PlaceOutcome // by user, with the nonce
	after  ledger.Board
}

func newFakeServer(users int, cooldown time.Duration) *fakeServer {
	return &fakeServer{
		cooldown: cooldown, delay: time.Millisecond, turns: make([]uint64, users), ready: make([]time.Time, users),
		last: make([]board.PlaceOutcome, users), after: ledger.Board{},
	}
}

type fakeSender struct {
	server   *fakeServer
	user     int
	answered func(board.PlaceOutcome)
}

func (s *fakeSender) Turn() (uint64, bool) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return s.server.turns[s.user] + 1, true
}

func (s *fakeSender) PlaceAs(turn, nonce uint64, at board.Point, colour board.Colour) error {
	server := s.server
	server.mu.Lock()
	defer server.mu.Unlock()
	server.copies++
	var o board.PlaceOutcome
	if server.busy != nil && server.busy(server.copies) {
		o = board.PlaceOutcome{Verdict: board.VerdictRefused, Code: board.CodeBusy, Turn: turn, Nonce: nonce, At: at, WaitMs: 30}
	} else {
		o = server.place(s.user, turn, nonce, at, colour)
	}
	copied, delay := server.copies, server.delay
	if server.stall != nil {
		delay += server.stall(copied)
	}
	if server.answer != nil && server.answer(copied, &o) {
		return nil
	}
	time.AfterFunc(delay, func() { s.answered(o) })
	return nil
}

func (s *fakeServer) place(user int, turn, nonce uint64, at board.Point, colour board.Colour) board.PlaceOutcome {
	o := board.PlaceOutcome{Turn: turn, Nonce: nonce, At: at, Colour: colour, NextTurn: s.turns[user] + 1}
	wait := time.Until(s.ready[user])
	switch last := s.last[user]; {
	case last.Nonce == nonce && last.Sequence > 0:
		return last
	case turn != 0 && turn <= s.turns[user]:
		o.Verdict, o.Code = board.VerdictRefused, board.CodeSuperseded
		return o
	case wait > 0:
		o.Verdict, o.Code, o.WaitMs = board.VerdictRefused, board.CodeCooldown, (wait + time.Millisecond - 1).Milliseconds()
		return o
	}
	chunk := s.after[at.Chunk()]
	if chunk == nil {
		chunk = &ledger.Chunk{}
		s.after[at.Chunk()] = chunk
	}
	chunk.Sequence++
	chunk.Tiles[at.Tile()] = colour
	s.turns[user]++
	s.ready[user] = time.Now().Add(s.cooldown)
	o.Verdict, o.Turn, o.NextTurn = board.VerdictAccepted, s.turns[user], s.turns[user]+1
	o.Chunk, o.Sequence, o.WaitMs = at.Chunk(), chunk.Sequence, s.cooldown.Milliseconds()
	s.last[user] = o
	return o
}

func (s *fakeServer) connect(storm *Storm, users, doublers, connections int) {
	for user := range users {
		n := 1
		if user < doublers {
			n = connections
		}
		for range n {
			sender := &fakeSender{server: s, user: user}
			_, sender.answered = storm.Connect(user, sender)
		}
	}
}

func configForTest() Config {
	return Config{
		Plan: measure.PlanConfig{
			Seed: 3, Rate: 200, Warmup: time.Second, Duration: 4 * time.Second, Users: 40, Width: 200, Height: 200, Colours: 16,
			HotShare: 0.8, HotArea: 0.1, Doublers: 5, RetryShare: 0.3,
		},
		Cooldown: 100 * time.Millisecond, Connections: 3,
	}
}

// play runs a storm against the server in virtual time and returns the verdict.
func play(t *testing.T, config Config, server *fakeServer) (*Storm, map[string]measure.Check) {
	t.Helper()
	storm := New(config)
	server.connect(storm, config.Plan.Users, config.Plan.Doublers, config.Connections)
	if err := storm.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	checks := map[string]measure.Check{}
	for _, check := range storm.Ledger.Verdict(ledger.Evidence{Before: ledger.Board{}, After: server.after, Sole: true}) {
		checks[check.Name] = check
	}
	return storm, checks
}

func wantAllPass(t *testing.T, checks map[string]measure.Check) {
	t.Helper()
	for name, check := range checks {
		if check.Outcome != measure.Pass {
			t.Errorf("%s: %s with %s (%s)", name, check.Outcome, check.Value, check.Detail)
		}
	}
}

func TestOpenLoopAgainstAnHonestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := configForTest()
		server := newFakeServer(config.Plan.Users, config.Cooldown)
		storm, checks := play(t, config, server)
		wantAllPass(t, checks)
		r := storm.Result()
		if r.Doubled < 100 || r.Late < 50 || r.Refused["cooldown"] == 0 || r.Refused["superseded"] == 0 {
			t.Errorf("the storm was too tame: %+v", r)
		}
		if got := measure.Schedule(storm.Latencies); got.Outcome != measure.Pass || storm.Latencies.MeasuredSent() < 680 || storm.Latencies.MeasuredSent() > 720 {
			t.Errorf("%s: %s, %d events measured, want 7 in 8 of 800", got.Outcome, got.Value, storm.Latencies.MeasuredSent())
		}
		if r.Totals.Doubtful != 0 || int64(storm.Latencies.Response.Summary().Count) > r.InWindow+5 {
			t.Errorf("%d in doubt, %d responses for %d acceptances", r.Totals.Doubtful, storm.Latencies.Response.Summary().Count, r.InWindow)
		}
		if p99 := storm.Latencies.Response.Summary().P99; p99 < time.Millisecond || p99 > 3*time.Millisecond {
			t.Errorf("response p99 %v, want about the server's 1ms", p99)
		}
	})
}

func TestClosedLoopPlacesWheneverItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := configForTest()
		config.Closed, config.Plan.Doublers, config.Plan.RetryShare = true, 0, 0
		storm, checks := play(t, config, newFakeServer(config.Plan.Users, config.Cooldown))
		wantAllPass(t, checks)
		// A cooldown of 100 ms and an answer after 1 ms: each of 40 users comes again every 101 ms.
		if got := storm.Result().PerSecond; got < 380 || got > 400 {
			t.Errorf("%.0f placements per second, want about 396", got)
		}
	})
}

func TestServerThatLosesAnswersIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := configForTest()
		config.Plan.Doublers = 0
		server := newFakeServer(config.Plan.Users, config.Cooldown)
		server.answer = func(copy int, o *board.PlaceOutcome) bool {
			switch {
			case copy%7 == 0:
				return true // lost
			case copy%7 == 1:
				*o = board.PlaceOutcome{Verdict: board.VerdictUnknown, Turn: o.Turn, Nonce: o.Nonce, WaitMs: 50}
			case copy%7 == 2 && o.Verdict == board.VerdictRefused:
				o.Code, o.WaitMs = board.CodeBusy, 20
			}
			return false
		}
		storm, checks := play(t, config, server)
		wantAllPass(t, checks)
		r := storm.Result()
		if r.Resent == 0 || r.Unknown == 0 {
			t.Errorf("nothing was sent again: %+v", r)
		}
		if p := storm.Latencies.Response.Summary(); p.Max < resendAfter {
			t.Errorf("slowest response %v: what was answered only after 5 s should show", p.Max)
		}
	})
}

func TestWhoIsTurnedAwayComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := configForTest()
		config.Cooldown, config.Plan.Doublers, config.Plan.RetryShare = 0, 0, 0
		server := newFakeServer(config.Plan.Users, 0)
		server.busy = func(copy int) bool { return copy%2 == 0 }
		storm, checks := play(t, config, server)
		wantAllPass(t, checks)
		p := storm.Latencies.Response.Summary()
		if p.Count != 800 || p.P90 < 30*time.Millisecond {
			t.Errorf("%d of 800 events were accepted in the end, p90 %v; being turned away for 30ms should show", p.Count, p.P90)
		}
		if r := storm.Result(); r.Totals.Doubtful != 0 {
			t.Errorf("%d placements in doubt although every copy was answered", r.Totals.Doubtful)
		}
	})
}

func TestDishonestServersAreCaught(t *testing.T) {
	for broken, spoil := range map[string]func(*fakeServer){
		"extra tiles": func(s *fakeServer) { s.cooldown = 60 * time.Millisecond },
		"lost acknowledgements": func(s *fakeServer) {
			s.answer = func(copy int, o *board.PlaceOutcome) bool {
				if copy == 300 && o.Verdict == board.VerdictRefused { // says yes and does nothing
					o.Verdict, o.Code, o.Chunk, o.Sequence = board.VerdictAccepted, board.CodeOK, o.At.Chunk(), 1<<40
				}
				return false
			}
		},
		"answers that changed": func(s *fakeServer) {
			s.answer = func(_ int, o *board.PlaceOutcome) bool {
				if o.Code == board.CodeSuperseded { // forgets what it has accepted
					o.Code = board.CodeTurn
				}
				return false
			}
		},
	} {
		t.Run(broken, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := configForTest()
				server := newFakeServer(config.Plan.Users, config.Cooldown)
				spoil(server)
				_, checks := play(t, config, server)
				if check := checks[broken]; check.Outcome != measure.Fail || check.Detail == "" {
					t.Errorf("%s: %s with %s (%s)", broken, check.Outcome, check.Value, check.Detail)
				}
			})
		})
	}
}

// The run must not end before what is under way has its answer, and must end although one answer never comes.
func TestRunWaitsForAnswersButNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := configForTest()
		config.Plan.Doublers, config.Plan.RetryShare = 0, 0
		server := newFakeServer(config.Plan.Users, config.Cooldown)
		server.stall = func(copy int) time.Duration {
			if copy >= 990 {
				return 3 * time.Second
			}
			return 0
		}
		server.answer = func(copy int, _ *board.PlaceOutcome) bool { return copy > 999 }
		start := time.Now()
		storm, checks := play(t, config, server)
		wantAllPass(t, checks)
		if took := time.Since(start); took < 19*time.Second || took > 21*time.Second {
			t.Errorf("the run took %v, want its 5 s and the 15 s it waits for answers", took)
		}
		if r := storm.Result(); r.Totals.Doubtful != 1 {
			t.Errorf("%d placements in doubt, want the one without an answer", r.Totals.Doubtful)
		}
	})
}

func TestQueueOfOneUserIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := configForTest()
		config.Plan.Users, config.Plan.Doublers, config.Plan.RetryShare = 1, 0, 0
		server := newFakeServer(1, 0)
		server.stall = func(copy int) time.Duration {
			if copy == 300 {
				return 2 * time.Second
			}
			return 0
		}
		storm, _ := play(t, config, server)
		// 2 s without an answer at 200/s: 400 events, of which 64 may wait.
		if r := storm.Result(); r.Unsent < 330 || r.Unsent > 340 {
			t.Errorf("%d events were dropped, want about 336", r.Unsent)
		}
		if got := measure.Schedule(storm.Latencies); got.Outcome != measure.Invalid {
			t.Errorf("%s: a plan of which a third was not sent must be INVALID", got.Outcome)
		}
	})
}

func TestParallelStopsAtTheFirstError(t *testing.T) {
	wrong := errors.New("wrong")
	var mu sync.Mutex
	calls := 0
	err := parallel(100_000, func(i int) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; i == 5 {
			return wrong
		}
		return nil
	})
	if !errors.Is(err, wrong) || calls > 50_000 {
		t.Fatalf("error %v after %d calls", err, calls)
	}
}
