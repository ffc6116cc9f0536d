package measure

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func planForTest() PlanConfig {
	return PlanConfig{
		Seed: 7, Rate: 1000, Warmup: time.Second, Duration: 9 * time.Second, Users: 400, Width: 1000, Height: 500, Colours: 16,
		HotShare: 0.8, HotArea: 0.1, Doublers: 20, RetryShare: 0.1,
	}
}

func TestEventsAreTheSameForTheSameSeed(t *testing.T) {
	plan := planForTest()
	first, again := slices.Collect(plan.Events()), slices.Collect(plan.Events())
	if !slices.Equal(first, again) {
		t.Fatal("two runs of one plan differ")
	}
	plan.Seed++
	if slices.Equal(first, slices.Collect(plan.Events())) {
		t.Fatal("another seed gave the same plan")
	}
}

func TestEventsKeepTheRate(t *testing.T) {
	plan := planForTest()
	events := slices.Collect(plan.Events())
	if len(events) != 10_000 || len(events) != plan.Planned() {
		t.Fatalf("planned %d events, yielded %d, want 10000", plan.Planned(), len(events))
	}
	for i, event := range events {
		if want := time.Duration(i) * time.Millisecond; event.At != want {
			t.Fatalf("event %d is meant for %v, want %v", i, event.At, want)
		}
	}
}

func TestEventsStayOnTheBoardAndInTheShares(t *testing.T) {
	plan := planForTest()
	acts := map[Act]int{}
	columns := make([]int, plan.Width)
	total := 0
	for event := range plan.Events() {
		if event.X < 0 || event.X >= plan.Width || event.Y < 0 || event.Y >= plan.Height || int(event.Colour) >= plan.Colours {
			t.Fatalf("event %+v is off the board or the palette", event)
		}
		if event.User < 0 || event.User >= plan.Users {
			t.Fatalf("event %+v has no such user", event)
		}
		if (event.Act == ActDouble) != (event.User < plan.Doublers) {
			t.Fatalf("event %+v of %d doublers", event, plan.Doublers)
		}
		acts[event.Act]++
		columns[event.X]++
		total++
	}
	between := func(what string, share, low, high float64) {
		if share < low || share > high {
			t.Errorf("%s: share %.3f is not in %.3f..%.3f", what, share, low, high)
		}
	}
	between("double submits", float64(acts[ActDouble])/float64(total), 0.04, 0.06)
	between("late retries", float64(acts[ActRetry])/float64(total), 0.085, 0.105)
	// The hot spot is sqrt(0.1) = 316 columns wide, so the busiest 316 columns hold its 80% and their part of the rest.
	slices.Sort(columns)
	busiest := 0
	for _, n := range columns[len(columns)-316:] {
		busiest += n
	}
	between("hot columns", float64(busiest)/float64(total), 0.82, 0.92)
}

func TestCooldownAwarePlanNeverAsksAUserTooEarly(t *testing.T) {
	plan := planForTest()
	plan.Cooldown = 400 * time.Millisecond
	last := map[int]time.Duration{}
	for event := range plan.Events() {
		if before, ok := last[event.User]; ok && event.At-before < plan.Cooldown {
			t.Fatalf("user %d is planned at %v and %v, cooldown %v", event.User, before, event.At, plan.Cooldown)
		}
		last[event.User] = event.At
	}
	if len(last) != plan.Users {
		t.Fatalf("%d of %d users have a turn", len(last), plan.Users)
	}
	plan.Cooldown = 0
	early := 0
	clear(last)
	for event := range plan.Events() {
		if before, ok := last[event.User]; ok && event.At-before < 400*time.Millisecond {
			early++
		}
		last[event.User] = event.At
	}
	if early == 0 {
		t.Fatal("a plan that ignores cooldowns should ask some users too early")
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for name, spoil := range map[string]func(*PlanConfig){
		"rate":     func(c *PlanConfig) { c.Rate = 0 },
		"duration": func(c *PlanConfig) { c.Duration = 0 },
		"warm-up":  func(c *PlanConfig) { c.Warmup = -1 },
		"users":    func(c *PlanConfig) { c.Users = 0 },
		"board":    func(c *PlanConfig) { c.Height = 0 },
		"palette":  func(c *PlanConfig) { c.Colours = 257 },
		"share":    func(c *PlanConfig) { c.HotShare = 1.1 },
		"doubler":  func(c *PlanConfig) { c.Doublers = 401 },
		"cooldown": func(c *PlanConfig) { c.Cooldown = 401 * time.Millisecond },
	} {
		plan := planForTest()
		if err := plan.Validate(); err != nil {
			t.Fatalf("the sound plan is refused: %v", err)
		}
		if spoil(&plan); plan.Validate() == nil {
			t.Errorf("a plan with a wrong %s is accepted", name)
		}
	}
}

func TestRunKeepsTheScheduleAndNeverSkips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := planForTest()
		start := time.Now()
		stalled := false
		var late, sent int
		err := Run(t.Context(), start, plan.Events(), TimerWait, func(event Event) {
			sent++
			switch lag := time.Since(start) - event.At; {
			case lag < 0:
				t.Fatalf("event of %v was sent %v early", event.At, -lag)
			case lag > 0:
				late++
			}
			if !stalled && event.At >= 2*time.Second {
				stalled = true
				<-time.After(500 * time.Millisecond) // a stall of the generator: what follows is late, and sent all the same
			}
		})
		if err != nil || sent != plan.Planned() {
			t.Fatalf("sent %d of %d: %v", sent, plan.Planned(), err)
		}
		if late != 499 {
			t.Fatalf("%d events were late after a stall of 500 ms at 1000/s, want 499", late)
		}
	})
}

func TestRunStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		sent := 0
		err := Run(ctx, time.Now(), planForTest().Events(), TimerWait, func(Event) { sent++ })
		if !errors.Is(err, context.DeadlineExceeded) || sent < 3000 || sent > 3001 {
			t.Fatalf("sent %d, error %v; want 3000 or 3001 and the deadline", sent, err)
		}
	})
}

func TestPreciseWaitIsNeverEarly(t *testing.T) {
	for _, wait := range []time.Duration{0, 300 * time.Microsecond, 5 * time.Millisecond} {
		until := time.Now().Add(wait)
		if err := PreciseWait(t.Context(), until); err != nil || time.Now().Before(until) {
			t.Errorf("a wait of %v ended %v early, error %v", wait, time.Until(until), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := PreciseWait(ctx, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
