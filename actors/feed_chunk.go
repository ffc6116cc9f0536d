package actors

// One chunk of the feed's replica: what clients have of it, what waits for the next frame, and how that frame says it.

import (
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// feedChunk is the replica of one chunk.
type feedChunk struct {
	id       board.ChunkID
	sequence uint64 // as of the newest frame
	tiles    board.Tiles
	hash     uint64       // of tiles
	recent   []wire.Tile  // the last placements up to sequence, oldest first
	image    []byte       // packed tiles; nil: pack again
	width    board.Width  // of image
	head     uint64       // sequence with what waits for the next frame
	heard    uint64       // the highest sequence heard of: above head there is a gap
	waiting  []wire.Tile  // sequence+1 .. head, unless set
	set      *board.Tiles // an image that waits for the next frame, at setAt
	setAt    uint64
	isDirty  bool
}

// apply brings the chunk to its head and returns the section that does the same to a client.
func (c *feedChunk) apply() wire.Section {
	section := wire.Section{Chunk: c.id, Width: board.Width4}
	if c.set != nil {
		c.tiles = *c.set
		c.hash = c.tiles.Hash(c.id)
		c.sequence, c.recent = c.setAt, c.recent[:0]
		c.set, c.image = nil, nil
		if len(c.waiting) == 0 {
			return c.setSection()
		}
		c.applyTiles(c.waiting)
		c.waiting = c.waiting[:0]
		return c.setSection()
	}
	tiles := slices.Clone(c.waiting) // sessions of some chunks encode it later
	c.waiting = c.waiting[:0]
	c.applyTiles(tiles)
	section.Kind, section.Tiles, section.Width = wire.SectionRun, tiles, widthOf(tiles)
	if last := lastColours(tiles); len(last)+2 < len(tiles) {
		section.Kind, section.Tiles, section.Advance = wire.SectionPatch, last, uint64(len(tiles))
	}
	if len(section.Tiles)*2 > board.ChunkTiles/2 {
		return c.setSection()
	}
	return section
}

func (c *feedChunk) applyTiles(tiles []wire.Tile) {
	for _, t := range tiles {
		p := c.id.Point(int(t.Index))
		c.hash ^= board.TileHash(p, c.tiles[t.Index]) ^ board.TileHash(p, t.Colour)
		c.tiles[t.Index] = t.Colour
	}
	c.sequence += uint64(len(tiles))
	c.image = nil
	c.recent = append(c.recent, tiles...)
	if n := len(c.recent) - ChunkRecentMax; n > 0 {
		c.recent = slices.Delete(c.recent, 0, n)
	}
}

func (c *feedChunk) setSection() wire.Section {
	c.pack()
	return wire.Section{Chunk: c.id, Kind: wire.SectionSet, Width: c.width, Sequence: c.sequence, Image: c.image}
}

// pack makes the chunk's image. It is never changed in place: frames and bodies share it.
func (c *feedChunk) pack() {
	if c.image != nil {
		return
	}
	c.width = board.Width4
	if c.tiles.Max() > 15 {
		c.width = board.Width8
	}
	c.image = c.tiles.AppendImage(make([]byte, 0, c.width.ImageBytes()), c.width)
}

// now returns the chunk's tiles at its head.
func (c *feedChunk) now() board.Tiles {
	tiles := c.tiles
	if c.set != nil {
		tiles = *c.set
	}
	for _, t := range c.waiting {
		tiles[t.Index] = t.Colour
	}
	return tiles
}

func widthOf(tiles []wire.Tile) board.Width {
	for _, t := range tiles {
		if t.Colour > 15 {
			return board.Width8
		}
	}
	return board.Width4
}

// lastColours returns each tile's last colour, in the order of the last placements.
func lastColours(tiles []wire.Tile) []wire.Tile {
	if len(tiles) < 4 {
		return tiles
	}
	seen := make(map[uint16]bool, len(tiles))
	out := make([]wire.Tile, 0, len(tiles))
	for i := len(tiles) - 1; i >= 0; i-- {
		if !seen[tiles[i].Index] {
			seen[tiles[i].Index] = true
			out = append(out, tiles[i])
		}
	}
	slices.Reverse(out)
	return out
}
