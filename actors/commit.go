package actors

import (
	"fmt"

	"github.com/placed-board/placed/store"
)

// fate is what became of a sealed commit.
type fate uint8

const (
	fateStale   fate = iota // not the commit in flight: an echo of an earlier life
	fateApplied             // the store holds it
	fateMoved               // somebody else made this version: what the core knows is old
	fateUnknown             // send the same bytes again
)

// committer drives the commits of one partition: at most one in flight, its bytes and attempt id fixed when it is sealed,
// sent again unchanged until its fate is known (DESIGN, rules of commits). It is part of the cores of Shard, Region and
// Settings.
type committer struct {
	partition store.Partition
	owner     store.Owner
	random    func() uint64 // attempt ids

	version   uint64        // the newest commit known to be applied
	inFlight  *store.Commit // sealed, fate not known
	wantsSlot bool          // asked for a store slot, not granted yet
}

// askSlot reports whether the caller should ask for a store slot now, and remembers that it does.
func (c *committer) askSlot() bool {
	if c.wantsSlot || c.inFlight != nil {
		return false
	}
	c.wantsSlot = true
	return true
}

// seal fixes the next commit.
func (c *committer) seal(settingsVersion uint64, state []byte, rows []store.Row) *store.Commit {
	if c.inFlight != nil {
		panic(fmt.Sprintf("actors: %v sealed a commit while one is in flight", c.partition))
	}
	attempt := c.random()
	for attempt == 0 {
		attempt = c.random()
	}
	owner := c.owner
	owner.SettingsVersion = settingsVersion
	c.inFlight = &store.Commit{
		Partition: c.partition,
		Head:      store.Head{Version: c.version + 1, Attempt: attempt, Owner: owner, State: state},
		Rows:      rows,
	}
	return c.inFlight
}

// result judges the answer to the commit with the given attempt id.
func (c *committer) result(attempt uint64, r store.Result) fate {
	sealed := c.inFlight
	if sealed == nil || sealed.Head.Attempt != attempt {
		return fateStale
	}
	switch {
	case r.Applied || r.Head.Attempt == attempt:
		c.inFlight = nil
		c.version = sealed.Head.Version
		return fateApplied
	case r.Head.Version < sealed.Head.Version:
		return fateUnknown // nothing has taken this version yet
	}
	c.inFlight = nil
	return fateMoved
}

// reset forgets everything; the next life starts with load.
func (c *committer) reset() {
	c.version, c.inFlight, c.wantsSlot = 0, nil, false
}
