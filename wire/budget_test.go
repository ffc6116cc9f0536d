package wire

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/placed-board/placed/board"
)

// TestBytesPerPlacement is the byte budget of a session that watches the whole board of 1000x1000 tiles at 333 placements a
// second, ten ticks a second and a heartbeat every ten seconds, websocket headers included.
func TestBytesPerPlacement(t *testing.T) {
	const (
		seconds, ticksPerSecond, perSecond = 60, 10, 333
		heartbeatTicks                     = 10 * ticksPerSecond
		budget                             = 4.5
	)
	random := rand.New(rand.NewPCG(1, 2))
	tick := uint64(60 * 60 * 24 * 365 * ticksPerSecond) // of a node that has run for a year
	bytesSent, placements, seen := 0, 0, 0
	for step := range seconds * ticksPerSecond {
		tick++
		due := (step + 1) * perSecond / ticksPerSecond
		frame := &Frame{Tick: tick}
		for ; placements < due; placements++ {
			p := board.Point{X: random.IntN(1000), Y: random.IntN(1000)}
			frame.Sections = addTile(frame.Sections, p, board.Colour(random.IntN(16)))
		}
		slices.SortFunc(frame.Sections, func(a, b Section) int { return cmp.Compare(a.Chunk, b.Chunk) })
		sealed := SealServer(frame)
		bytesSent += len(sealed)
		if _, _, err := DecodeFrame(sealed[len(sealed)-len(AppendServer(nil, frame)):], func(s *Section) error {
			seen += len(s.Tiles)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if (step+1)%heartbeatTicks == 0 {
			bytesSent += len(SealServer(&Heartbeat{
				Tick: tick, ServerTimeMs: 1_790_000_000_000, Online: 100_000, Hashes: board.Hashes{Tiles: 1, Sequences: 1},
			}))
		}
	}
	if seen != placements || placements != seconds*perSecond {
		t.Fatalf("%d tiles came out of %d placements", seen, placements)
	}
	got := float64(bytesSent) / float64(placements)
	t.Logf("%d placements in %d bytes: %.3f bytes per placement", placements, bytesSent, got)
	if got > budget {
		t.Errorf("%.3f bytes per placement, at most %.1f are allowed", got, budget)
	}
}

func addTile(sections []Section, p board.Point, c board.Colour) []Section {
	tile := Tile{uint16(p.Tile()), c}
	for i := range sections {
		if sections[i].Chunk == p.Chunk() {
			sections[i].Tiles = append(sections[i].Tiles, tile)
			return sections
		}
	}
	return append(sections, Section{Chunk: p.Chunk(), Width: board.Width4, Tiles: []Tile{tile}})
}

func BenchmarkAppendFrame(b *testing.B) {
	frame := busyFrame()
	buf := make([]byte, 0, 1<<16)
	for b.Loop() {
		buf = AppendServer(buf[:0], frame)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkDecodeFrame(b *testing.B) {
	buf := AppendServer(nil, busyFrame())
	b.SetBytes(int64(len(buf)))
	visit := func(*Section) error { return nil }
	for b.Loop() {
		if _, _, err := DecodeFrame(buf, visit); err != nil {
			b.Fatal(err)
		}
	}
}

// busyFrame is a tenth of a second of 30,000 placements a second.
func busyFrame() *Frame {
	random := rand.New(rand.NewPCG(3, 4))
	frame := &Frame{Tick: 1 << 24}
	for range 3000 {
		p := board.Point{X: random.IntN(1000), Y: random.IntN(1000)}
		frame.Sections = addTile(frame.Sections, p, board.Colour(random.IntN(16)))
	}
	slices.SortFunc(frame.Sections, func(a, b Section) int { return cmp.Compare(a.Chunk, b.Chunk) })
	return frame
}
