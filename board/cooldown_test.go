package board

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// naiveCooldowns keeps every version and looks at all of them.
type naiveCooldowns []cooldownStep

func (n naiveCooldowns) minSince(version uint64) int64 {
	if len(n) == 0 {
		return 0
	}
	version = min(version, n[len(n)-1].version)
	least := int64(math.MaxInt64)
	for _, s := range n {
		if s.version >= version {
			least = min(least, s.ms)
		}
	}
	return least
}

func TestCooldownsAgreeWithANaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c, early Cooldowns
		var n, nEarly naiveCooldowns
		version := uint64(0)
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			if rapid.IntRange(0, 9).Draw(t, "copy") == 0 {
				early, nEarly = c, n[:len(n):len(n)]
			}
			added := version + rapid.Uint64Range(0, 3).Draw(t, "step")
			ms := rapid.Int64Range(0, 6).Draw(t, "cooldown")
			c.Add(added, ms)
			if added > version {
				n = append(n, cooldownStep{added, ms})
				version = added
			}
			if c.Newest() != version {
				t.Fatalf("newest %d, want %d", c.Newest(), version)
			}
		}
		for v := range version + 3 {
			if got, want := c.MinSince(v), n.minSince(v); got != want {
				t.Fatalf("since version %d: %d ms, want %d, of %v", v, got, want, n)
			}
			if got, want := early.MinSince(v), nEarly.minSince(v); got != want {
				t.Fatalf("the copy, since version %d: %d ms, want %d, of %v", v, got, want, nEarly)
			}
			if got, want := c.ReadyAtMs(1000, v), 1000+n.minSince(v); got != want {
				t.Fatalf("ready at %d, want %d", got, want)
			}
		}
	})
}

func TestCooldownsStaySmall(t *testing.T) {
	var c Cooldowns
	for v := range uint64(10_000) {
		c.Add(v+1, int64(v%7)*1000)
	}
	if len(c.steps) > 7 {
		t.Errorf("%d entries for seven cooldowns", len(c.steps))
	}
}

func TestCutsShortenAndRaisesDoNotLengthen(t *testing.T) {
	var c Cooldowns
	c.Add(1, 300_000)
	c.Add(2, 600_000)
	if got := c.MinSince(1); got != 300_000 {
		t.Errorf("a raise made %d ms of a running charge", got)
	}
	if got := c.MinSince(2); got != 600_000 {
		t.Errorf("a new charge waits %d ms", got)
	}
	c.Add(3, 60_000)
	for v := range uint64(4) {
		if got := c.MinSince(v); got != 60_000 {
			t.Errorf("after a cut a charge of version %d waits %d ms", v, got)
		}
	}
}
