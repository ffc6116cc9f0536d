package actors

import "github.com/placed-board/placed/store"

// How long the loser of a duel leaves the partition alone; up to half of DeposedMs is added at random, so that two losers do
// not come back together.
const (
	DeposedMs    = 1000
	DeposedMsMax = DeposedMs + DeposedMs/2
)

// duel is what one of two owners of a partition remembers after the store has taken the other's commit. For a while it leaves
// the partition to the winner and forwards what comes for it. It is part of the cores of Shard and Block.
type duel struct {
	winner  string // address of the node that made the version; "" when the partition has been loaded since
	untilMs int64  // until when the partition is left alone
}

// lost takes the head that another commit made; one of an earlier process at the address self is no duel: nobody serves there
// but this node. random gives the jitter.
func (d *duel) lost(wallMs int64, head store.Head, self string, random func() uint64) {
	if head.Owner.Address == self {
		return
	}
	d.winner = head.Owner.Address
	d.untilMs = wallMs + DeposedMs + int64(random()%(DeposedMs/2))
}

// deposed reports whether the partition is to be left to the winner.
func (d *duel) deposed(wallMs int64) bool { return waits(wallMs, d.untilMs, DeposedMsMax) }

// tryAgain ends the wait: the view has changed, or the winner's node thinks that the partition is this one's.
func (d *duel) tryAgain() { d.untilMs = 0 }

// loaded forgets the winner: what the store has is known here.
func (d *duel) loaded() { d.winner = "" }
