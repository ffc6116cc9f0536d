package store_test

import (
	"errors"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
)

// TestHistoryOfBrokenChains meets links that a right journal never has: an error each time, and an end.
func TestHistoryOfBrokenChains(t *testing.T) {
	at := board.Point{X: 3, Y: 4}
	placement := func(sequence, previous uint64, before board.Entry) board.Placement {
		return board.Placement{Chunk: at.Chunk(), Tile: uint16(at.Tile()), Sequence: sequence, User: "ada", PreviousVersion: previous, UserPrevious: before}
	}
	for name, p := range map[string]board.Placement{
		"names itself":      placement(1, 1, board.Entry{Version: 1}),
		"names the future":  placement(1, 7, board.Entry{Version: 7}),
		"names another row": placement(1, 2, board.Entry{Version: 2}),
	} {
		t.Run(name, func(t *testing.T) {
			core := mem.NewCore()
			other := placement(2, 0, board.Entry{})
			other.User, other.Tile = "bob", 9
			for i, q := range []board.Placement{p, other} {
				c := store.BlockCommit{Placements: []board.Placement{q}}
				core.Commit(&store.Commit{
					Partition: store.Block(0), Head: store.Head{Version: uint64(i + 1), Attempt: uint64(i + 1)}, Rows: []store.Row{{Value: c.AppendTo(nil)}},
				})
			}
			start := board.NewestIn(board.Entry{Version: 1})
			if _, _, err := store.TileHistory(t.Context(), mem.Open(core), at, start, 10); !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("tile: %v", err)
			}
			if _, _, err := store.UserHistory(t.Context(), mem.Open(core), "ada", start, 10); !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("user: %v", err)
			}
		})
	}
}

// TestHistoryWithinACommit follows a user and a tile through records of one commit, as imports have them.
func TestHistoryWithinACommit(t *testing.T) {
	core, at := mem.NewCore(), board.Point{X: 3, Y: 4}
	var c store.BlockCommit
	for i, user := range []board.UserID{"ada", "bob", "ada", "ada"} {
		p := board.Placement{Chunk: at.Chunk(), Tile: uint16(at.Tile()), Sequence: uint64(i + 1), Kind: board.KindImport, User: user}
		if i > 0 {
			p.PreviousVersion = 1
		}
		if i > 1 {
			p.UserPrevious = board.Entry{Version: 1}
		}
		c.Placements = append(c.Placements, p)
	}
	core.Commit(&store.Commit{Partition: store.Block(0), Head: store.Head{Version: 1, Attempt: 1}, Rows: []store.Row{{Value: c.AppendTo(nil)}}})
	for name, want := range map[string][]uint64{"tile": {4, 3, 2, 1}, "ada": {4, 3, 1}, "bob": {2}} {
		for limit := 1; limit < 5; limit++ {
			var got []uint64
			for from := board.NewestIn(board.Entry{Version: 1}); !from.End(); {
				var found []board.Placement
				var err error
				if name == "tile" {
					found, from, err = store.TileHistory(t.Context(), mem.Open(core), at, from, limit)
				} else {
					found, from, err = store.UserHistory(t.Context(), mem.Open(core), board.UserID(name), from, limit)
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range found {
					got = append(got, p.Sequence)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%s in pages of %d: %v, want %v", name, limit, got, want)
			}
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s in pages of %d: %v, want %v", name, limit, got, want)
				}
			}
		}
	}
}
