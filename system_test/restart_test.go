//go:build unix

package system_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/actors"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store/pebble"
)

// Sizes of the test of restarts.
const (
	manyPlacements = 200_000
	manyUsers      = 3_000
	fillWithin     = 2 * time.Minute
	restartWithin  = 20 * time.Second // generous: bench/README.md has the figures
)

// TestRestartWithManyPlacements restarts a board of 1000x1000 tiles with 200,000 placements in its journals, after a clean
// stop and after kill -9: it is the same board.
func TestRestartWithManyPlacements(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	began := time.Now()
	fill(t, filepath.Join(n.dir, "board"))
	t.Logf("%d placements in %v", manyPlacements, time.Since(began).Round(time.Millisecond))
	j := readJournals(t, n.dir)
	if len(j.placements) < manyPlacements {
		t.Fatalf("the journals hold %d placements", len(j.placements))
	}
	for _, end := range []func(){n.stop, n.kill, n.stop} {
		n.start()
		t.Logf("ready after %v", n.readyAfter.Round(time.Millisecond))
		if n.readyAfter > restartWithin {
			t.Errorf("ready after %v", n.readyAfter)
		}
		body, err := n.api().Board(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		faults := newLedger()
		if j.replay(faults, body); len(faults.faults) > 0 {
			t.Errorf("the board is not that of the journals: %v", faults.faults)
		}
		end()
	}
	n.start()
	if report := n.verify(); int(report.Placements) != len(j.placements) {
		t.Errorf("verify counts %d placements, the journals hold %d", report.Placements, len(j.placements))
	}
	n.stop()
}

// fill makes a store with many placements by the same actors as the program's, without its sockets.
func fill(t *testing.T, dir string) {
	t.Helper()
	config := pebble.DefaultConfig(dir)
	config.Logger = slog.New(slog.DiscardHandler)
	st, err := pebble.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	c := actors.DefaultConfig()
	c.Node = actors.Node{ID: 1, Address: "alone", Incarnation: rand.Uint64()}
	c.Store, c.Logger, c.Metrics = st, config.Logger, prometheus.NewRegistry()
	c.Board.CooldownMs = 0
	system, err := actors.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), fillWithin)
	defer cancel()
	var left atomic.Int64
	left.Store(manyPlacements)
	var users sync.WaitGroup
	for i := range manyUsers {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		users.Go(func() {
			user := board.UserID(fmt.Sprintf("filler %d", i))
			for ctx.Err() == nil && left.Add(-1) >= 0 {
				o := system.Place(ctx, board.PlaceRequest{
					User: user, Nonce: random.Uint64(), At: board.Point{X: random.IntN(1000), Y: random.IntN(1000)}, Colour: board.Colour(random.IntN(16)),
				})
				if o.Verdict != board.VerdictAccepted { // charged ones will be there as well
					left.Add(1)
				}
			}
		})
	}
	users.Wait()
	system.Stop(ctx)
	if err := st.Close(); err != nil || ctx.Err() != nil {
		t.Fatalf("fill the journals: %v, %v", err, ctx.Err())
	}
}
