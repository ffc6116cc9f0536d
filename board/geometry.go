package board

import "fmt"

// Sizes of the fixed grids. They are part of the wire protocol and of the stored data and never change.
const (
	// ChunkSize is the side of a chunk in tiles: the unit of the wire and of images.
	ChunkSize = 50
	// ChunkTiles is the number of tiles of a chunk.
	ChunkTiles = ChunkSize * ChunkSize
	// BlockSize is the side of a block in tiles: the unit of order, storage and ownership.
	BlockSize = 100
	// BlockChunks is the number of chunks of a block.
	BlockChunks = (BlockSize / ChunkSize) * (BlockSize / ChunkSize)
	// SideMax is the largest width and height of a board in tiles.
	SideMax = 10_000
	// chunksPerBlockSide is how many chunks lie along one side of a block.
	chunksPerBlockSide = BlockSize / ChunkSize
)

// Point is the place of a tile: X grows to the right, Y downwards, from (0,0).
type Point struct{ X, Y int }

// String returns "(x,y)".
func (p Point) String() string { return fmt.Sprintf("(%d,%d)", p.X, p.Y) }

// ChunkID names a chunk: row*256 + column, in chunks. It does not depend on the board's size.
type ChunkID uint16

// BlockID names a block: row*256 + column, in blocks. It does not depend on the board's size or the size of regions.
type BlockID uint16

// NewChunkID returns the id of the chunk in column col and row row, both 0..199.
func NewChunkID(col, row int) ChunkID { return ChunkID(row<<8 | col) }

// NewBlockID returns the id of the block in column col and row row, both 0..99.
func NewBlockID(col, row int) BlockID { return BlockID(row<<8 | col) }

// Col returns the chunk's column.
func (c ChunkID) Col() int { return int(c & 0xff) }

// Row returns the chunk's row.
func (c ChunkID) Row() int { return int(c >> 8) }

// Valid reports whether the chunk lies on the largest possible board.
func (c ChunkID) Valid() bool { return c.Col() < SideMax/ChunkSize && c.Row() < SideMax/ChunkSize }

// Origin returns the chunk's upper left tile.
func (c ChunkID) Origin() Point { return Point{c.Col() * ChunkSize, c.Row() * ChunkSize} }

// Block returns the block that holds the chunk.
func (c ChunkID) Block() BlockID {
	return NewBlockID(c.Col()/chunksPerBlockSide, c.Row()/chunksPerBlockSide)
}

// Slot returns the chunk's place in its block, 0..3, row by row.
func (c ChunkID) Slot() int {
	return (c.Row()%chunksPerBlockSide)*chunksPerBlockSide + c.Col()%chunksPerBlockSide
}

// Point returns the tile of the chunk with the index tile, 0..2499, row by row.
func (c ChunkID) Point(tile int) Point {
	o := c.Origin()
	return Point{o.X + tile%ChunkSize, o.Y + tile/ChunkSize}
}

// Col returns the block's column.
func (b BlockID) Col() int { return int(b & 0xff) }

// Row returns the block's row.
func (b BlockID) Row() int { return int(b >> 8) }

// Valid reports whether the block lies on the largest possible board.
func (b BlockID) Valid() bool { return b.Col() < SideMax/BlockSize && b.Row() < SideMax/BlockSize }

// Origin returns the block's upper left tile.
func (b BlockID) Origin() Point { return Point{b.Col() * BlockSize, b.Row() * BlockSize} }

// Chunks returns the block's chunks in the order of their slots.
func (b BlockID) Chunks() [BlockChunks]ChunkID {
	var out [BlockChunks]ChunkID
	for slot := range out {
		out[slot] = NewChunkID(b.Col()*chunksPerBlockSide+slot%chunksPerBlockSide, b.Row()*chunksPerBlockSide+slot/chunksPerBlockSide)
	}
	return out
}

// Chunk returns the chunk of the block in the given slot, 0..3.
func (b BlockID) Chunk(slot int) ChunkID {
	return NewChunkID(b.Col()*chunksPerBlockSide+slot%chunksPerBlockSide, b.Row()*chunksPerBlockSide+slot/chunksPerBlockSide)
}

// Chunk returns the chunk that holds the tile. The point must lie within 0..9999.
func (p Point) Chunk() ChunkID { return NewChunkID(p.X/ChunkSize, p.Y/ChunkSize) }

// Tile returns the tile's index in its chunk, 0..2499, row by row.
func (p Point) Tile() int { return (p.Y%ChunkSize)*ChunkSize + p.X%ChunkSize }

// Block returns the block that holds the tile. The point must lie within 0..9999.
func (p Point) Block() BlockID { return NewBlockID(p.X/BlockSize, p.Y/BlockSize) }

// RegionID names the region that runs a block: its size in tiles, and its column and row in regions.
type RegionID struct{ Size, Col, Row int }

// String returns the region's key, as "100/3/7": size, column, row.
func (r RegionID) String() string { return fmt.Sprintf("%d/%d/%d", r.Size, r.Col, r.Row) }

// Region returns the region of the given size (a multiple of 100 tiles) that runs the block.
func (b BlockID) Region(size int) RegionID {
	blocks := size / BlockSize
	return RegionID{Size: size, Col: b.Col() / blocks, Row: b.Row() / blocks}
}

// Rect is a rectangle of tiles; X and Y are its upper left tile, Width and Height its extent in tiles.
type Rect struct {
	X      int `json:"x"`
	Y      int `json:"y"`
	Width  int `json:"width"`
	Height int `json:"height"`
}

// Valid reports whether the rectangle has tiles and lies on the largest possible board. No sum here can overflow.
func (r Rect) Valid() bool {
	return r.X >= 0 && r.Y >= 0 && r.X < SideMax && r.Y < SideMax &&
		r.Width >= 1 && r.Height >= 1 && r.Width <= SideMax-r.X && r.Height <= SideMax-r.Y
}

// Contains reports whether the tile lies in the rectangle.
func (r Rect) Contains(p Point) bool {
	return p.X >= r.X && p.Y >= r.Y && p.X < r.X+r.Width && p.Y < r.Y+r.Height
}

// Meets reports whether the rectangles share a tile.
func (r Rect) Meets(o Rect) bool {
	return max(r.X, o.X) < min(r.X+r.Width, o.X+o.Width) && max(r.Y, o.Y) < min(r.Y+r.Height, o.Y+o.Height)
}

// Meet returns the tiles that two rectangles which meet share.
func (r Rect) Meet(o Rect) Rect {
	x, y := max(r.X, o.X), max(r.Y, o.Y)
	return Rect{x, y, min(r.X+r.Width, o.X+o.Width) - x, min(r.Y+r.Height, o.Y+o.Height) - y}
}

// Rect returns the tiles of the chunk.
func (c ChunkID) Rect() Rect {
	o := c.Origin()
	return Rect{o.X, o.Y, ChunkSize, ChunkSize}
}

// Rect returns the tiles of the block.
func (b BlockID) Rect() Rect {
	o := b.Origin()
	return Rect{o.X, o.Y, BlockSize, BlockSize}
}

// ChunkGrid returns how many columns and rows of chunks meet a board of the given width and height in tiles.
func ChunkGrid(width, height int) (cols, rows int) {
	return (width + ChunkSize - 1) / ChunkSize, (height + ChunkSize - 1) / ChunkSize
}
