package actors

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Clock-guard limits.
const (
	// ClockLeapMs is how far the wall clock may run ahead of the monotonic one between two looks before it is distrusted.
	ClockLeapMs = 1000
	// ClockStayMs is how long a wall clock that leapt ahead must stay there before it is trusted again.
	ClockStayMs = 60_000
)

// Clock is where the actors get the time from. It is injected, so that tests can set it.
type Clock interface {
	// Read returns the wall clock in Unix milliseconds and a monotonic clock in milliseconds from any start.
	Read() (wallMs, monoMs int64)
}

// SystemClock is the clock of the machine.
type SystemClock struct{ start time.Time }

// NewSystemClock returns the clock of the machine.
func NewSystemClock() *SystemClock { return &SystemClock{start: time.Now()} }

// Read implements Clock.
func (c *SystemClock) Read() (wallMs, monoMs int64) {
	now := time.Now()
	return now.UnixMilli(), now.Sub(c.start).Milliseconds()
}

// clockGuard distrusts a wall clock that leaps ahead of the monotonic one: nothing is sealed until it has stayed there for
// ClockStayMs. A wall clock that falls back needs no guard: a shard never gives out a time before its latest.
type clockGuard struct {
	clock Clock

	steady atomic.Int64 // wall minus monotonic while trusted; noOffset otherwise. Read without the lock.

	mu      sync.Mutex // guards the fields below
	known   bool
	offset  int64 // wall minus monotonic, trusted
	leapt   int64 // offset after the leap, when distrusted
	sinceMs int64 // monotonic time of the leap
	trusted bool
}

// noOffset says that now has to take the lock.
const noOffset = math.MinInt64

func newClockGuard(c Clock) *clockGuard {
	g := &clockGuard{clock: c, trusted: true}
	g.steady.Store(noOffset)
	return g
}

// now returns the wall clock in Unix milliseconds, and whether it is trusted.
func (g *clockGuard) now() (int64, bool) {
	wall, mono := g.clock.Read()
	offset := wall - mono
	if steady := g.steady.Load(); steady != noOffset && offset >= steady-1 && offset <= steady+1 {
		return wall, true // every message asks: the usual case takes no lock
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.known:
		g.known, g.offset = true, offset
	case g.trusted && offset-g.offset > ClockLeapMs:
		g.trusted, g.leapt, g.sinceMs = false, offset, mono
	case g.trusted:
		g.offset = offset
	case offset-g.offset <= ClockLeapMs: // it came back
		g.trusted, g.offset = true, offset
	case offset-g.leapt > ClockLeapMs: // it leapt again
		g.leapt, g.sinceMs = offset, mono
	case mono-g.sinceMs >= ClockStayMs:
		g.trusted, g.offset = true, offset
	}
	g.steady.Store(noOffset)
	if g.trusted {
		g.steady.Store(g.offset)
	}
	return wall, g.trusted
}
