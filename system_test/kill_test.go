//go:build unix

package system_test

import (
	"math/rand/v2"
	"testing"

	"github.com/placed-board/placed/board"
)

// kills is how often a node is killed in one storm.
const kills = 4

// stormy is the usual load.
func stormy() load {
	return load{users: 32, mirrors: 5, area: board.Rect{Width: 300, Height: 250}, colours: 16, attack: 0.15}
}

// TestKillInAStorm is kill -9 at random moments, again and again, on one data directory (I1 to I5, I9).
func TestKillInAStorm(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--width", "300", "--height", "250", "--cooldown", "100ms")
	s := startStorm(t, n, stormy())
	random := rand.New(rand.NewPCG(seed, 1))
	s.everyone()
	for range kills {
		s.more(1 + random.IntN(300))
		n.kill()
		n.start()
		s.everyone()
		s.back()
	}
	s.keptBoards()
	s.judge()
}
