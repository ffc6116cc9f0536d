package measure

import (
	"context"
	"iter"
	"time"
)

// Waiter waits until a time, or returns the context's error when that ends first.
type Waiter func(ctx context.Context, until time.Time) error

// TimerWait waits with a timer of the runtime, which may be late by a millisecond.
func TimerWait(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// preciseFrom is when PreciseWait leaves the runtime's timers, which round up to a millisecond, for the kernel's.
const preciseFrom = 2 * time.Millisecond

// PreciseWait waits to within some 50 us where the system allows it. It blocks a thread for the last two milliseconds, so
// the process should have a processor to spare (runtime.GOMAXPROCS).
func PreciseWait(ctx context.Context, until time.Time) error {
	if rest := time.Until(until) - preciseFrom; rest > 0 {
		if err := TimerWait(ctx, until.Add(-preciseFrom)); err != nil {
			return err
		}
	}
	for rest := time.Until(until); rest > 0; rest = time.Until(until) {
		threadSleep(rest)
	}
	return ctx.Err()
}

// Run hands every event to send at its intended time after start, as closely as wait allows, and never skips one: a late
// event goes out at once and its lateness shows in Latencies.Lag. send must not block. It returns early with the context's
// error when that ends.
func Run(ctx context.Context, start time.Time, events iter.Seq[Event], wait Waiter, send func(Event)) error {
	for event := range events {
		at := start.Add(event.At)
		if time.Until(at) > 0 {
			if err := wait(ctx, at); err != nil {
				return err
			}
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
		send(event)
	}
	return nil
}
