package board

// PastBoard is a board as its placements up to and including a time left it.
type PastBoard struct {
	Settings Settings    // that were made last by then, or the first ones
	Chunks   []PastChunk // those with placements by then, ascending
	// Settled says that nothing can be added to it any more: no placement of that time is still on its way.
	Settled bool
}

// PastChunk is a chunk of a PastBoard.
type PastChunk struct {
	Chunk    ChunkID
	Sequence uint64 // the highest among the placements by then
	Tiles    *Tiles
}

// Heat counts people's placements of a span of time by tile.
type Heat struct {
	Width, Height int
	Counts        []uint32 // row by row
}
