package measure

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// PlanConfig describes an open-loop run. Two plans of equal configs are equal, event for event.
type PlanConfig struct {
	Seed     uint64        // of every random choice
	Rate     float64       // intended placements per second, over all users
	Warmup   time.Duration // at the start, sent but not measured
	Duration time.Duration // measured part, after the warm-up
	Users    int           // simulated users, numbered from 0
	Cooldown time.Duration // when above 0, no user is planned twice within it (the plan asks only users who may place)

	Width, Height int // board, in tiles
	Colours       int // palette entries; colours are 0..Colours-1

	HotShare float64 // share of the placements that go to the hot spot, 0..1
	HotArea  float64 // share of the board's area that the hot spot covers, 0..1

	Doublers   int     // users 0..Doublers-1 always submit on several connections at the same moment
	RetryShare float64 // share of the other users' placements whose nonce is sent again later, 0..1
}

// Act is what a user does at one event of the plan.
type Act uint8

const (
	// ActPlace sends one placement on one connection.
	ActPlace Act = iota
	// ActDouble sends placements of one user on several connections at the same moment: one may be accepted. Such events
	// test the server's rules, and take no part in latencies.
	ActDouble
	// ActRetry sends a placement and, some time after its answer, the same turn and nonce once more.
	ActRetry
)

// Event is one planned placement.
type Event struct {
	At     time.Duration // intended send time, from the start of the run
	User   int           // 0..Users-1
	X, Y   int           // tile
	Colour uint8
	Act    Act
}

// Validate says what is wrong with the plan, or nil. A cooldown-aware plan must have enough users for its rate.
func (c PlanConfig) Validate() error {
	switch {
	case c.Rate <= 0 || math.IsInf(c.Rate, 0) || math.IsNaN(c.Rate):
		return fmt.Errorf("rate %v must be a positive number of placements per second", c.Rate)
	case c.Duration <= 0 || c.Warmup < 0:
		return fmt.Errorf("duration %v must be above 0 and warm-up %v not below 0", c.Duration, c.Warmup)
	case c.Users < 1:
		return fmt.Errorf("users %d must be at least 1", c.Users)
	case c.Width < 1 || c.Height < 1:
		return fmt.Errorf("board of %dx%d tiles has no tile", c.Width, c.Height)
	case c.Colours < 1 || c.Colours > 256:
		return fmt.Errorf("palette of %d colours is not in 1..256", c.Colours)
	}
	shares := []struct {
		name  string
		value float64
	}{{"hot share", c.HotShare}, {"hot area", c.HotArea}, {"retry share", c.RetryShare}}
	for _, s := range shares {
		if !(s.value >= 0 && s.value <= 1) {
			return fmt.Errorf("%s %v is not in 0..1", s.name, s.value)
		}
	}
	if c.Doublers < 0 || c.Doublers > c.Users {
		return fmt.Errorf("%d of %d users cannot submit doubly", c.Doublers, c.Users)
	}
	if c.Cooldown > 0 && c.Rate*c.Cooldown.Seconds() > float64(c.Users) {
		return fmt.Errorf("%d users with a cooldown of %v can place %.0f times per second at most, not %.0f",
			c.Users, c.Cooldown, float64(c.Users)/c.Cooldown.Seconds(), c.Rate)
	}
	return nil
}

// Planned is the number of events of the plan, the warm-up's included.
func (c PlanConfig) Planned() int {
	return int(c.Rate * (c.Warmup + c.Duration).Seconds())
}

// Events yields the plan in order of time. Arrivals are evenly spaced: a burst in the results is then the server's.
// With a Cooldown, users take turns in a shuffled order, which spaces each by Users/Rate seconds; without one, users
// are drawn at random, so some come back too early and must be refused.
func (c PlanConfig) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		draws := c.Draws(0)
		order := draws.rng.Perm(c.Users)
		gap := float64(time.Second) / c.Rate
		for i := range c.Planned() {
			user := order[i%c.Users]
			if c.Cooldown == 0 {
				user = draws.rng.IntN(c.Users)
			}
			if !yield(draws.Event(time.Duration(float64(i)*gap), user)) {
				return
			}
		}
	}
}

// Draws is a stream of random events of a plan. Not safe for concurrent use.
type Draws struct {
	plan PlanConfig
	rng  *rand.Rand
	hot  rectangle
}

// Draws returns one of the plan's streams. All streams share the hot spot; equal numbers give equal streams.
func (c PlanConfig) Draws(stream uint64) *Draws {
	const salt = 0x706c61636564
	return &Draws{plan: c, rng: rand.New(rand.NewPCG(c.Seed, salt+stream)), hot: c.hotSpot(rand.New(rand.NewPCG(c.Seed, salt-1)))}
}

// Event draws what a user does at a time.
func (d *Draws) Event(at time.Duration, user int) Event {
	e := Event{At: at, User: user, Colour: uint8(d.rng.IntN(d.plan.Colours))}
	if d.rng.Float64() < d.plan.HotShare {
		e.X, e.Y = d.hot.x+d.rng.IntN(d.hot.width), d.hot.y+d.rng.IntN(d.hot.height)
	} else {
		e.X, e.Y = d.rng.IntN(d.plan.Width), d.rng.IntN(d.plan.Height)
	}
	switch {
	case user < d.plan.Doublers:
		e.Act = ActDouble
	case d.rng.Float64() < d.plan.RetryShare:
		e.Act = ActRetry
	}
	return e
}

// Uint64 draws a number, for a nonce.
func (d *Draws) Uint64() uint64 { return d.rng.Uint64() }

// Up draws a duration of at least 0 and below most.
func (d *Draws) Up(most time.Duration) time.Duration {
	return time.Duration(d.rng.Int64N(int64(max(1, most))))
}

type rectangle struct{ x, y, width, height int }

// hotSpot is a rectangle of the board's own proportions with HotArea of its area, at a place drawn from the seed.
func (c PlanConfig) hotSpot(rng *rand.Rand) rectangle {
	side := math.Sqrt(c.HotArea)
	width := max(1, int(math.Round(float64(c.Width)*side)))
	height := max(1, int(math.Round(float64(c.Height)*side)))
	return rectangle{rng.IntN(c.Width - width + 1), rng.IntN(c.Height - height + 1), width, height}
}

// Measured says whether an event of this intended time counts, or belongs to the warm-up.
func (c PlanConfig) Measured(at time.Duration) bool { return at >= c.Warmup }
