package storetest

import (
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// CommitPlacements puts placements into the journals of their blocks, which have to be empty, in the order given: one to three
// a commit.
func CommitPlacements(t testing.TB, st store.Store, placements []board.Placement) {
	t.Helper()
	byBlock := map[board.BlockID][]board.Placement{}
	for _, p := range placements {
		byBlock[p.Chunk.Block()] = append(byBlock[p.Chunk.Block()], p)
	}
	for b, list := range byBlock {
		for version := uint64(1); len(list) > 0; version++ {
			n := min(len(list), 1+int(version)%3)
			c := store.BlockCommit{Placements: list[:n]}
			list = list[n:]
			r, err := st.Commit(t.Context(), &store.Commit{
				Partition: store.Block(b), Head: store.Head{Version: version, Attempt: version}, Rows: []store.Row{{Value: c.AppendTo(nil)}},
			})
			if err != nil || !r.Applied {
				t.Fatalf("commit %d of block %v: %+v, %v", version, b, r, err)
			}
		}
	}
}
