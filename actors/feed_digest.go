package actors

import (
	"slices"

	"github.com/placed-board/placed/board"
)

// placements returns the sum of the sequences of a block's chunks, with what waits for the next frame. It only grows, so
// whoever has less than a block's owner lacks something.
func (f *Feed) placements(b board.BlockID) uint64 {
	sum := uint64(0)
	for _, id := range b.Chunks() {
		if c := f.chunks[id]; c != nil {
			sum += c.head
		}
	}
	return sum
}

// compare asks for the images of blocks of which others have more placements.
func (f *Feed) compare(wallMs int64, blocks []blockCount) {
	for _, b := range blocks {
		if f.placements(b.Block) < b.Placements {
			f.gap(wallMs, b.Block)
		}
	}
}

// counts returns the digests of all blocks with placements, ascending.
func (f *Feed) counts() []blockCount {
	sums := map[board.BlockID]uint64{}
	for id, c := range f.chunks {
		if c.head > 0 {
			sums[id.Block()] += c.head
		}
	}
	list := make([]blockCount, 0, len(sums))
	for b, sum := range sums {
		list = append(list, blockCount{Block: b, Placements: sum})
	}
	slices.SortFunc(list, func(a, b blockCount) int { return int(a.Block) - int(b.Block) })
	return list
}
