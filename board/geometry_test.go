package board

import (
	"testing"

	"pgregory.net/rapid"
)

func drawPoint(t *rapid.T) Point {
	side := rapid.IntRange(0, SideMax-1)
	return Point{side.Draw(t, "x"), side.Draw(t, "y")}
}

func TestGridsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPoint(t)
		c, b := p.Chunk(), p.Block()
		switch {
		case !c.Valid() || !b.Valid():
			t.Fatalf("%v lies in chunk %d and block %d, one of them invalid", p, c, b)
		case p.Tile() < 0 || p.Tile() >= ChunkTiles:
			t.Fatalf("%v has tile %d", p, p.Tile())
		case c.Point(p.Tile()) != p:
			t.Fatalf("%v is tile %d of chunk %d, which is %v", p, p.Tile(), c, c.Point(p.Tile()))
		case c.Block() != b:
			t.Fatalf("%v lies in block %d, its chunk in block %d", p, b, c.Block())
		case b.Chunk(c.Slot()) != c || b.Chunks()[c.Slot()] != c:
			t.Fatalf("slot %d of block %d is not chunk %d", c.Slot(), b, c)
		case NewChunkID(c.Col(), c.Row()) != c || NewBlockID(b.Col(), b.Row()) != b:
			t.Fatalf("chunk %d or block %d is not made of its column and row", c, b)
		case !c.Rect().Contains(p) || !b.Rect().Contains(p) || !c.Rect().Contains(c.Origin()) || !b.Rect().Contains(b.Origin()):
			t.Fatalf("%v does not lie in %v and %v", p, c.Rect(), b.Rect())
		}
		placement := Placement{Chunk: c, Tile: uint16(p.Tile())}
		if placement.Point() != p {
			t.Fatalf("a placement on %v says %v", p, placement.Point())
		}
	})
}

func TestRegionsHoldTheirBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, SideMax/BlockSize).Draw(t, "blocks") * BlockSize
		p, q := drawPoint(t), drawPoint(t)
		r := p.Block().Region(size)
		rect := Rect{r.Col * size, r.Row * size, size, size}
		if r.Size != size || !rect.Contains(p) {
			t.Fatalf("region %v of %v covers %v", r, p, rect)
		}
		if same := q.Block().Region(size) == r; same != rect.Contains(q) {
			t.Fatalf("%v in region %v: %v; in %v: %v", q, r, same, rect, rect.Contains(q))
		}
	})
}

func TestCorners(t *testing.T) {
	for _, c := range []struct {
		point Point
		chunk ChunkID
		tile  int
		block BlockID
	}{
		{Point{0, 0}, 0, 0, 0},
		{Point{49, 49}, 0, 2499, 0},
		{Point{50, 0}, 1, 0, 0},
		{Point{99, 50}, 257, 49, 0},
		{Point{100, 0}, 2, 0, 1},
		{Point{999, 999}, 19<<8 | 19, 2499, 9<<8 | 9},
		{Point{9999, 0}, 199, 49, 99},
		{Point{9999, 9999}, 199<<8 | 199, 2499, 99<<8 | 99},
	} {
		p := c.point
		if p.Chunk() != c.chunk || p.Tile() != c.tile || p.Block() != c.block {
			t.Errorf("%v: chunk %d tile %d block %d, want %d %d %d", p, p.Chunk(), p.Tile(), p.Block(), c.chunk, c.tile, c.block)
		}
	}
}

func TestOnlyIDsOfTheLargestBoardAreValid(t *testing.T) {
	chunks, blocks := 0, 0
	for id := range 1 << 16 {
		if ChunkID(id).Valid() {
			chunks++
		}
		if BlockID(id).Valid() {
			blocks++
		}
	}
	if chunks != 200*200 || blocks != 100*100 {
		t.Errorf("%d chunks and %d blocks are valid", chunks, blocks)
	}
	for _, id := range []ChunkID{200, 200 << 8, 1<<16 - 1} {
		if id.Valid() {
			t.Errorf("chunk %d is valid", id)
		}
	}
	for _, id := range []BlockID{100, 100 << 8, 1<<16 - 1} {
		if id.Valid() {
			t.Errorf("block %d is valid", id)
		}
	}
}

func TestChunkGridIsWhatMeetsTheBoard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{Width: rapid.IntRange(1, SideMax).Draw(t, "width"), Height: rapid.IntRange(1, SideMax).Draw(t, "height")}
		cols, rows := ChunkGrid(s.Width, s.Height)
		p := drawPoint(t)
		c := p.Chunk()
		if want := c.Col() < cols && c.Row() < rows; s.HasChunk(c) != want {
			t.Fatalf("chunk %d,%d of a grid of %dx%d: HasChunk %v", c.Col(), c.Row(), cols, rows, !want)
		}
		if s.Bounds().Contains(p) && (!s.HasChunk(c) || !s.HasBlock(p.Block())) {
			t.Fatalf("%v is on the board, its chunk or block is not", p)
		}
		for _, inner := range p.Block().Chunks() {
			if s.HasChunk(inner) && !s.HasBlock(p.Block()) {
				t.Fatalf("chunk %d meets the board, its block does not", inner)
			}
		}
	})
}

func TestRectsMeet(t *testing.T) {
	draw := func(t *rapid.T, name string) Rect {
		side := rapid.IntRange(0, 6)
		return Rect{side.Draw(t, name+" x"), side.Draw(t, name+" y"), side.Draw(t, name+" width"), side.Draw(t, name+" height")}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		common := 0
		for y := range 13 {
			for x := range 13 {
				if a.Contains(Point{x, y}) && b.Contains(Point{x, y}) {
					common++
				}
			}
		}
		if a.Meets(b) != (common > 0) || b.Meets(a) != (common > 0) {
			t.Fatalf("%v and %v share %d tiles; Meets says %v and %v", a, b, common, a.Meets(b), b.Meets(a))
		}
	})
}

func TestKeysAsText(t *testing.T) {
	if got := NewBlockID(6, 14).Region(200).String(); got != "200/3/7" {
		t.Errorf("region %q", got)
	}
	if got := (Point{-1, 1000}).String(); got != "(-1,1000)" {
		t.Errorf("point %q", got)
	}
}
