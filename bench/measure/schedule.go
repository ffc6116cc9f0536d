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

	DoubleShare float64 // share of the placements submitted on several connections of the user at the same moment, 0..1
	RetryShare  float64 // share of the placements whose nonce is sent again much later, 0..1
}

// Act is what a user does at one event of the plan.
type Act uint8

const (
	// ActPlace sends one placement on one connection.
	ActPlace Act = iota
	// ActDouble sends different placements of one user on several connections at the same moment: one may be accepted.
	ActDouble
	// ActRetry sends a placement and, after its answer and later placements, its nonce once more.
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
	}{{"hot share", c.HotShare}, {"hot area", c.HotArea}, {"double share", c.DoubleShare}, {"retry share", c.RetryShare}}
	for _, s := range shares {
		if !(s.value >= 0 && s.value <= 1) {
			return fmt.Errorf("%s %v is not in 0..1", s.name, s.value)
		}
	}
	if c.DoubleShare+c.RetryShare > 1 {
		return fmt.Errorf("double share %v and retry share %v are more than 1 together", c.DoubleShare, c.RetryShare)
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
		rng := rand.New(rand.NewPCG(c.Seed, 0x706c61636564))
		hot := c.hotSpot(rng)
		order := rng.Perm(c.Users)
		gap := float64(time.Second) / c.Rate
		for i := range c.Planned() {
			event := Event{At: time.Duration(float64(i) * gap), User: order[i%c.Users], Act: c.act(rng.Float64())}
			if c.Cooldown == 0 {
				event.User = rng.IntN(c.Users)
			}
			if rng.Float64() < c.HotShare {
				event.X, event.Y = hot.x+rng.IntN(hot.width), hot.y+rng.IntN(hot.height)
			} else {
				event.X, event.Y = rng.IntN(c.Width), rng.IntN(c.Height)
			}
			event.Colour = uint8(rng.IntN(c.Colours))
			if !yield(event) {
				return
			}
		}
	}
}

func (c PlanConfig) act(draw float64) Act {
	switch {
	case draw < c.DoubleShare:
		return ActDouble
	case draw < c.DoubleShare+c.RetryShare:
		return ActRetry
	default:
		return ActPlace
	}
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
