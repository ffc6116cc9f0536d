package board

import (
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestHashFollowsEveryChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawPoint(t).Chunk()
		tiles := drawTiles(t, 256)
		hash := tiles.Hash(c)
		for range rapid.IntRange(0, 30).Draw(t, "placements") {
			i := rapid.IntRange(0, ChunkTiles-1).Draw(t, "tile")
			colour := Colour(rapid.IntRange(0, 255).Draw(t, "colour"))
			hash ^= TileHash(c.Point(i), tiles[i]) ^ TileHash(c.Point(i), colour)
			tiles[i] = colour
		}
		if full := tiles.Hash(c); full != hash {
			t.Fatalf("step by step %x, at once %x", hash, full)
		}
	})
}

func TestNothingHashesToZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPoint(t)
		if TileHash(p, 0) != 0 || SequenceHash(p.Chunk(), 0) != 0 {
			t.Fatalf("%v untouched has a hash", p)
		}
		if TileHash(p, Colour(rapid.IntRange(1, 255).Draw(t, "colour"))) == 0 {
			t.Fatalf("%v painted has no hash", p)
		}
	})
	if new(Tiles).Hash(NewChunkID(3, 4)) != 0 {
		t.Error("an untouched chunk has a hash")
	}
}

// distinct reports whether no value comes twice.
func distinct(t *testing.T, what string, hashes []uint64) {
	t.Helper()
	slices.Sort(hashes)
	for i := 1; i < len(hashes); i++ {
		if hashes[i] == hashes[i-1] {
			t.Fatalf("%s: two of %d hashes are %x", what, len(hashes), hashes[i])
		}
	}
}

func TestHashesDiffer(t *testing.T) {
	var tiles, swaps, sequences []uint64
	for y := range 250 {
		for x := range 250 {
			p := Point{x, y}
			if x%2 == 0 {
				p = Point{9998 - 20*x, 9999 - 20*y}
			}
			for _, c := range []Colour{1, 2, 15, 255} {
				tiles = append(tiles, TileHash(p, c))
			}
			// Two neighbours that change colours: a board's hash must notice.
			q := Point{p.X + 1, p.Y}
			swaps = append(swaps, TileHash(p, 1)^TileHash(q, 2), TileHash(p, 2)^TileHash(q, 1))
		}
	}
	for chunk := range 200 {
		for s := range uint64(200) {
			sequences = append(sequences, SequenceHash(NewChunkID(chunk, chunk), s+1), SequenceHash(NewChunkID(chunk, 0), (s+1)<<32))
		}
	}
	sequences = append(sequences, tiles...)
	distinct(t, "tiles", tiles)
	distinct(t, "swapped neighbours", swaps)
	distinct(t, "sequences and tiles", sequences)
}

// TestHashBitsSpread changes a tile and a sequence by as little as possible: about half of all bits of the hash must turn.
func TestHashBitsSpread(t *testing.T) {
	const runs = 5000
	for name, change := range map[string]func(i int) uint64{
		"x":        func(i int) uint64 { return TileHash(Point{i, 7}, 3) ^ TileHash(Point{i ^ 1, 7}, 3) },
		"y":        func(i int) uint64 { return TileHash(Point{7, i}, 3) ^ TileHash(Point{7, i ^ 1}, 3) },
		"colour":   func(i int) uint64 { return TileHash(Point{i, i}, 2) ^ TileHash(Point{i, i}, 3) },
		"sequence": func(i int) uint64 { return SequenceHash(5, uint64(i)+2) ^ SequenceHash(5, uint64(i)+3) },
		"high":     func(i int) uint64 { return SequenceHash(5, uint64(i+1)<<32) ^ SequenceHash(5, uint64(i+2)<<32) },
	} {
		turned := 0
		for i := range runs {
			turned += bits.OnesCount64(change(i))
		}
		if mean := float64(turned) / runs; mean < 31 || mean > 33 {
			t.Errorf("%s: %.2f of 64 bits turn, want 32", name, mean)
		}
	}
}
