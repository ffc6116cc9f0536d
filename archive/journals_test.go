package archive

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/store/storetest"
)

// randomPlacements are spread over four blocks, nearly in the order of their times.
func randomPlacements(n int) []board.Placement {
	r := rand.New(rand.NewPCG(1, 2))
	sequences := map[board.ChunkID]uint64{}
	list := make([]board.Placement, n)
	for i := range list {
		at := board.Point{X: r.IntN(200), Y: r.IntN(200)}
		sequences[at.Chunk()]++
		list[i] = board.Placement{
			Chunk: at.Chunk(), Tile: uint16(at.Tile()), Colour: board.Colour(r.IntN(16)), User: "u", Turn: uint64(i),
			AtMs: 1000 + int64(i)*10 + int64(r.IntN(40)), Sequence: sequences[at.Chunk()],
		}
	}
	return list
}

func collect(t *testing.T, st Journals, s Span) []board.Placement {
	t.Helper()
	var out []board.Placement
	for p, err := range Placements(t.Context(), st, s) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func TestPlacementsOfASpanInOrder(t *testing.T) {
	st := mem.New()
	placements := randomPlacements(3000)
	storetest.CommitPlacements(t, st, placements)
	for name, s := range map[string]Span{
		"all": {}, "time": {FromMs: 9_000, ToMs: 20_000}, "near": {FromMs: 9_000, ToMs: 20_000, LateMs: 50}, "open end": {FromMs: 30_000, LateMs: 50},
		"place": {Rect: board.Rect{X: 90, Y: 20, Width: 30, Height: 30}}, "nothing": {FromMs: 1e12}, "before": {ToMs: 5, LateMs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := collect(t, st, s)
			want := 0
			for i := range placements {
				if s.Contains(&placements[i]) {
					want++
				}
			}
			if len(got) != want {
				t.Fatalf("%d placements, want %d", len(got), want)
			}
			last := map[board.ChunkID]uint64{}
			newestMs := int64(0)
			for _, p := range got {
				if p.Sequence <= last[p.Chunk] {
					t.Fatalf("chunk %d: sequence %d after %d", p.Chunk, p.Sequence, last[p.Chunk])
				}
				last[p.Chunk] = p.Sequence
				if p.AtMs < newestMs-40 {
					t.Fatalf("time %d after %d", p.AtMs, newestMs)
				}
				newestMs = max(newestMs, p.AtMs)
			}
		})
	}
}

// A placement that came into its journal hours late is found by an exact reading, and leaves the order of its block alone.
func TestLatePlacementIsFound(t *testing.T) {
	st := mem.New()
	late := randomPlacements(300)
	late[200].AtMs = 5
	storetest.CommitPlacements(t, st, late)
	if got := collect(t, st, Span{ToMs: 10}); len(got) != 1 || got[0].AtMs != 5 {
		t.Fatalf("found %v", got)
	}
	got := collect(t, st, Span{})
	i := slices.IndexFunc(got, func(p board.Placement) bool { return p.AtMs == 5 })
	if i < 100 {
		t.Fatalf("the late one is number %d: before those that came before it", i)
	}
}

func TestBoardAt(t *testing.T) {
	st := mem.New()
	placements := randomPlacements(2000)
	storetest.CommitPlacements(t, st, placements)
	rect := board.Rect{X: 30, Y: 10, Width: 120, Height: 140}
	for _, atMs := range []int64{0, 1500, 9_999, 1e9} {
		want := NewPicture(rect)
		for _, p := range placements {
			if p.AtMs <= atMs {
				want.Set(p.Point(), p.Colour)
			}
		}
		got, err := BoardAt(t.Context(), st, rect, atMs)
		if err != nil || !slices.Equal(got.Colours, want.Colours) {
			t.Fatalf("board at %d differs (%v)", atMs, err)
		}
	}
	if _, err := BoardAt(t.Context(), st, board.Rect{X: -1, Width: 5, Height: 5}, 0); err == nil {
		t.Fatal("an impossible rectangle was taken")
	}
}

func TestReadingEndsWithTheContext(t *testing.T) {
	st := mem.New()
	storetest.CommitPlacements(t, st, randomPlacements(100))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range Placements(ctx, st, Span{}) {
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
		return
	}
	t.Fatal("no error")
}
