package wire

import (
	"testing"

	"github.com/placed-board/placed/board"
)

// hashVector is one vector of hashes.json: of a tile, or of a chunk at a sequence.
type hashVector struct {
	Of       string `json:"of"` // tile, sequence, chunk
	X        int    `json:"x,omitempty"`
	Y        int    `json:"y,omitempty"`
	Colour   int    `json:"colour,omitempty"`
	Chunk    int    `json:"chunk,omitempty"`
	Sequence string `json:"sequence,omitempty"`
	Width    int    `json:"width,omitempty"` // of a chunk: the hash of the golden image of this width
	Hi       uint32 `json:"hi"`
	Lo       uint32 `json:"lo"`
}

func hashVectors() []hashVector {
	var list []hashVector
	add := func(v hashVector, hash uint64) {
		v.Hi, v.Lo = uint32(hash>>32), uint32(hash)
		list = append(list, v)
	}
	for _, p := range []board.Point{{X: 0, Y: 0}, {X: 1, Y: 0}, {X: 0, Y: 1}, {X: 49, Y: 50}, {X: 999, Y: 999}, {X: 9999, Y: 0}, {X: 0, Y: 9999}, {X: 9999, Y: 9999}} {
		for _, c := range []board.Colour{0, 1, 2, 15, 16, 255} {
			add(hashVector{Of: "tile", X: p.X, Y: p.Y, Colour: int(c)}, board.TileHash(p, c))
		}
	}
	for _, c := range []board.ChunkID{0, 1, board.NewChunkID(0, 1), board.NewChunkID(19, 19), board.NewChunkID(199, 199)} {
		for _, s := range []uint64{0, 1, 2, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 1, 5 << 32, counterMax} {
			add(hashVector{Of: "sequence", Chunk: int(c), Sequence: u64(s)}, board.SequenceHash(c, s))
		}
	}
	for _, w := range []board.Width{board.Width4, board.Width8} {
		var t board.Tiles
		if err := t.SetImage(goldenImage(w), w); err != nil {
			panic(err)
		}
		c := board.NewChunkID(7, 3)
		add(hashVector{Of: "chunk", Chunk: int(c), Width: int(w)}, t.Hash(c))
	}
	return list
}

func TestGoldenHashes(t *testing.T) { golden(t, "hashes.json", hashVectors()) }

// cooldownVector is one history of cooldowns and what it says of charges.
type cooldownVector struct {
	CooldownsMs []string     `json:"cooldownsMs"` // of the settings versions 1, 2, ...
	Charges     []chargeCase `json:"charges"`
}

type chargeCase struct {
	Version uint64 `json:"version"`
	AtMs    string `json:"atMs"`
	MinMs   string `json:"minMs"`
	ReadyMs string `json:"readyMs"`
}

func TestGoldenCooldowns(t *testing.T) {
	const at = 1_790_000_000_000
	var list []cooldownVector
	for _, cooldowns := range [][]int64{
		{300_000},
		{300_000, 60_000, 600_000},       // a cut shortens running charges, a raise lengthens none
		{300_000, 600_000, 60_000},       // a raise followed by a cut
		{0, 300_000},                     // none at first
		{300_000, 0},                     // given up
		{50, 50, 50},                     // unchanged
		{1, 2, 3, 4, 3, 2, 1, 2},         // up and down
		{board.CooldownMsMax, 1, 86_399}, // the largest
	} {
		var c board.Cooldowns
		var v cooldownVector
		for i, ms := range cooldowns {
			c.Add(uint64(i+1), ms)
			v.CooldownsMs = append(v.CooldownsMs, i64(ms))
		}
		for version := uint64(1); version <= uint64(len(cooldowns))+1; version++ {
			v.Charges = append(v.Charges, chargeCase{version, i64(at), i64(c.MinSince(version)), i64(c.ReadyAtMs(at, version))})
		}
		list = append(list, v)
	}
	golden(t, "cooldowns.json", list)
}
