package board

import "sort"

// Cooldowns answers which cooldown a charge is subject to, from the cooldowns of all settings versions so far (I1): it gets
// shorter with every cut, and never longer. The zero value knows no version.
//
// Only the versions that can still be the smallest of a suffix are kept, so a thousand changes cost a few entries.
type Cooldowns struct {
	steps  []cooldownStep // ascending versions, ascending cooldowns
	newest uint64
}

type cooldownStep struct {
	version uint64
	ms      int64
}

// Add appends the cooldown of the next settings version. Versions must grow; an older or equal one is ignored.
func (c *Cooldowns) Add(version uint64, cooldownMs int64) {
	if version <= c.newest {
		return
	}
	n := len(c.steps)
	for n > 0 && c.steps[n-1].ms >= cooldownMs {
		n--
	}
	// A new backing array, so that copies of the value made before stay true.
	steps := make([]cooldownStep, n, n+1)
	copy(steps, c.steps[:n])
	c.steps = append(steps, cooldownStep{version, cooldownMs})
	c.newest = version
}

// Newest returns the newest version added, 0 for none.
func (c *Cooldowns) Newest() uint64 { return c.newest }

// MinSince returns the smallest cooldown in milliseconds of the versions from version to the newest. A version above the
// newest counts as the newest.
func (c *Cooldowns) MinSince(version uint64) int64 {
	if len(c.steps) == 0 {
		return 0
	}
	i := sort.Search(len(c.steps), func(i int) bool { return c.steps[i].version >= version })
	if i == len(c.steps) {
		i--
	}
	return c.steps[i].ms
}

// ReadyAtMs returns when a user who was charged at atMs under the given settings version may place again.
func (c *Cooldowns) ReadyAtMs(atMs int64, version uint64) int64 { return atMs + c.MinSince(version) }
