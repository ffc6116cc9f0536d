package measure

import (
	"context"
	"iter"
	"time"
)

// Run hands every event to send at its intended time after start, as closely as the machine allows, and never skips
// one: a late event goes out at once and its lateness shows in Latencies.Lag. send must not block. It returns early
// with the context's error when that ends.
func Run(ctx context.Context, start time.Time, events iter.Seq[Event], send func(Event)) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for event := range events {
		if wait := time.Until(start.Add(event.At)); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
		send(event)
	}
	return nil
}
