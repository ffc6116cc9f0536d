package actors

import (
	"errors"
	"sync/atomic"
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

// A feed that starts while the store is away shows the whole board once it is back.
func TestFeedAsksUntilTheStoreAnswers(t *testing.T) {
	st := mem.New()
	bubble(t, st, nil, func(n *node) {
		n.want(n.place("alice", 1, 1, 3, 4), board.VerdictAccepted, board.CodeOK)
		var asked atomic.Int64
		st.SetScript(func(c mem.Call) mem.Outcome {
			if c.Op == mem.OpBlocks && asked.Add(1) <= 3 {
				return mem.Fail(errors.New("away"))
			}
			return mem.Normal()
		})
		n.post.toFeed(GetBody{}) // panics
		n.until("the tile is back", func() bool {
			image, ok := n.chunk(n.t.Context(), board.Point{X: 3, Y: 4}.Chunk())
			return ok && image.Sequence == 1
		})
		if asked.Load() != 4 {
			t.Errorf("the store was asked %d times", asked.Load())
		}
	})
}
