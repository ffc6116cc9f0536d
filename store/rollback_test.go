package store_test

import (
	"math/rand/v2"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/store/storetest"
)

// contested are placements of few tiles by three users, by a clear with nonce 77 and by imports, with the links of a tile's
// history. Their times lie hours apart, so that plans have to look before the time that they read.
func contested(seed uint64, n int) []board.Placement {
	r := rand.New(rand.NewPCG(seed, 2))
	list := make([]board.Placement, n)
	sequences, versions, last := map[board.ChunkID]uint64{}, map[board.BlockID]uint64{}, map[board.Point]uint64{}
	room := map[board.BlockID]int{}
	for i := range list {
		at := board.Point{X: 96 + r.IntN(8), Y: r.IntN(3)}
		b := at.Block()
		if room[b] == 0 { // as commitJournals cuts its commits
			versions[b]++
			room[b] = 1 + int(versions[b])%3
		}
		room[b]--
		sequences[at.Chunk()]++
		list[i] = board.Placement{
			Chunk: at.Chunk(), Tile: uint16(at.Tile()), Colour: board.Colour(r.IntN(4)), User: []board.UserID{"ann", "bob", "cyd"}[r.IntN(3)],
			AtMs: 1e12 + int64(i)*3600*500, Sequence: sequences[at.Chunk()], PreviousVersion: last[at], Kind: board.KindUser,
		}
		last[at] = versions[b]
		switch r.IntN(6) {
		case 0:
			list[i].Kind, list[i].Nonce, list[i].Ticket.Shard = board.KindClear, 77, board.OpsShard
		case 1:
			list[i].Kind = board.KindImport
		}
	}
	return list
}

func TestRollbackPlans(t *testing.T) {
	total := 0
	for seed := range uint64(20) {
		core, placements := mem.NewCore(), contested(seed, 120)
		st := mem.Open(core)
		storetest.CommitPlacements(t, st, placements)
		at := func(i int) int64 { return placements[i].AtMs }
		for name, r := range map[string]store.Rollback{
			"user":         {User: "ann", SinceMs: at(60), UntilMs: at(119)},
			"user, all":    {User: "bob", SinceMs: 1, UntilMs: at(119)},
			"place":        {Rect: board.Rect{X: 97, Y: 1, Width: 4, Height: 2}, SinceMs: at(90), UntilMs: at(119)},
			"user, place":  {User: "cyd", Rect: board.Rect{X: 97, Y: 0, Width: 2, Height: 2}, SinceMs: at(10), UntilMs: at(119)},
			"until before": {User: "ann", SinceMs: at(20), UntilMs: at(80)},
			"job":          {Job: 77, SinceMs: at(0), UntilMs: at(1)},
			"nobody":       {User: "dan", SinceMs: 1, UntilMs: at(119)},
			"future":       {User: "ann", SinceMs: at(119) + 1, UntilMs: at(119) + 2},
		} {
			// By definition: replay without what is taken back, wherever the newest placement is taken back.
			with, without, newest := map[board.Point]board.Colour{}, map[board.Point]board.Colour{}, map[board.Point]*board.Placement{}
			for i := range placements {
				p := &placements[i]
				with[p.Point()], newest[p.Point()] = p.Colour, p
				if !r.Has(p) {
					without[p.Point()] = p.Colour
				}
			}
			want := map[board.Point]board.Colour{}
			for p, n := range newest {
				if r.Has(n) && with[p] != without[p] {
					want[p] = without[p]
				}
			}
			changes, err := store.PlanRollback(t.Context(), st, r)
			if err != nil {
				t.Fatal(err)
			}
			if len(changes) != len(want) {
				t.Fatalf("seed %d, %s: %d changes, want %d", seed, name, len(changes), len(want))
			}
			total += len(changes)
			for i, c := range changes {
				if colour, ok := want[c.At]; !ok || colour != c.Colour || c.Placements < 1 {
					t.Fatalf("seed %d, %s: %+v, want colour %d (%v)", seed, name, c, colour, ok)
				}
				if i > 0 && (changes[i-1].At.Chunk() > c.At.Chunk() || changes[i-1].At.Chunk() == c.At.Chunk() && changes[i-1].At.Tile() >= c.At.Tile()) {
					t.Fatalf("%s: %v after %v", name, c.At, changes[i-1].At)
				}
			}
		}
	}
	if total < 200 {
		t.Errorf("only %d changes in all", total)
	}
}
