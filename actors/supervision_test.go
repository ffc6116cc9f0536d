package actors

import (
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store/mem"
)

// Actors that panic again and again go on all the same: nobody's placements are lost in a mailbox that nobody empties.
func TestActorsAreNeverGivenUp(t *testing.T) {
	bubble(t, mem.New(), nil, func(n *node) {
		n.want(n.place("alice", 1, 1, 3, 4), board.VerdictAccepted, board.CodeOK)
		for kind, crash := range map[string]func(){
			"shard": func() { n.post.toShard(board.UserID("alice").Shard(), GetJobs{}) },
			"feed":  func() { n.post.toFeed(GetBody{}) },
		} {
			before := n.counter("placed_actor_restarts_total", kind)
			const panics = RestartsMax + 2
			for range panics {
				crash()
			}
			n.until(kind+" restarts", func() bool { return n.counter("placed_actor_restarts_total", kind) == before+panics })
			n.want(n.place("alice", 1, 1, 3, 4), board.VerdictAccepted, board.CodeOK)
			n.want(n.place("bob-"+kind, 1, 1, 6, 6), board.VerdictAccepted, board.CodeOK)
		}
	})
}
