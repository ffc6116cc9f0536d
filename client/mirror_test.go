package client

import (
	"slices"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

var tinySettings = func() board.Settings {
	s := board.DefaultSettings()
	s.Width, s.Height = 150, 100 // 3x2 chunks
	return s
}()

// tinyMirror is a mirror whose frames stand at base.
func tinyMirror(base ...wire.ChunkAt) *Mirror {
	m := NewMirror(1, &tinySettings)
	m.ApplyBase(&wire.Base{Tick: 10, Chunks: base})
	return m
}

func runOf(id board.ChunkID, colours ...board.Colour) wire.Section {
	s := wire.Section{Chunk: id, Kind: wire.SectionRun, Width: board.Width4}
	for i, c := range colours {
		s.Tiles = append(s.Tiles, wire.Tile{Index: uint16(i), Colour: c})
	}
	return s
}

func patchOf(id board.ChunkID, advance uint64, colours ...board.Colour) wire.Section {
	s := runOf(id, colours...)
	s.Kind, s.Advance = wire.SectionPatch, advance
	return s
}

func setOf(id board.ChunkID, sequence uint64, colours ...board.Colour) wire.Section {
	var t board.Tiles
	copy(t[:], colours)
	return wire.Section{Chunk: id, Kind: wire.SectionSet, Width: board.Width4, Sequence: sequence, Image: t.AppendImage(nil, board.Width4)}
}

func from(sequence uint64, s wire.Section) wire.Section { s.Sequence = sequence; return s }

func bodyOf(epoch uint64, sections ...wire.Section) *wire.BoardBody {
	b := &wire.BoardBody{Epoch: epoch, Width: 150, Height: 100, ColourWidth: board.Width4}
	for _, s := range sections {
		b.Chunks = append(b.Chunks, wire.BodyChunk{Chunk: s.Chunk, Sequence: s.Sequence, Image: s.Image})
	}
	return b
}

// TestMirrorSections holds what each kind of section does to a chunk at held 0 or more.
func TestMirrorSections(t *testing.T) {
	type step struct {
		tick    uint64 // 0: a repair of tick 10
		section wire.Section
	}
	body := func(s wire.Section) *wire.BoardBody { return bodyOf(1, s) }
	for _, c := range []struct {
		name    string
		base    uint64
		body    *wire.BoardBody
		steps   []step
		held    uint64
		sent    uint64
		colours []board.Colour // of the first tiles
	}{
		{"run", 0, nil, []step{{11, runOf(0, 1, 2)}}, 2, 2, []board.Colour{1, 2}},
		{"runs", 0, nil, []step{{11, runOf(0, 1, 2)}, {12, runOf(0, 3)}}, 3, 3, []board.Colour{3, 2}},
		{"repeated run", 0, nil, []step{{11, runOf(0, 1, 2)}, {11, runOf(0, 1, 2)}}, 2, 2, []board.Colour{1, 2}},
		{"run of the base's tick", 0, nil, []step{{10, runOf(0, 1, 2)}}, 0, 0, []board.Colour{0, 0}},
		{"gap", 5, nil, []step{{11, runOf(0, 1, 2)}}, 0, 7, []board.Colour{0, 0}},
		{"body as the base", 5, body(setOf(0, 5, 9, 9)), []step{{11, runOf(0, 1)}}, 6, 6, []board.Colour{1, 9}},
		{"body behind the base", 5, body(setOf(0, 4, 9, 9)), []step{{11, runOf(0, 1)}}, 4, 6, []board.Colour{9, 9}},
		{"body ahead of the run", 5, body(setOf(0, 9, 9, 9)), []step{{11, runOf(0, 1, 2)}}, 9, 7, []board.Colour{9, 9}},
		{"body within the run", 5, body(setOf(0, 6, 9, 9)), []step{{11, runOf(0, 1, 2, 3)}}, 8, 8, []board.Colour{9, 2, 3}},
		{"body within the patch", 5, body(setOf(0, 6, 9, 9)), []step{{11, patchOf(0, 4, 1, 2)}}, 9, 9, []board.Colour{1, 2}},
		{"patch", 0, nil, []step{{11, patchOf(0, 7, 1, 2)}}, 7, 7, []board.Colour{1, 2}},
		{"patch behind", 5, nil, []step{{11, patchOf(0, 7, 1, 2)}}, 0, 12, []board.Colour{0, 0}},
		{"set", 5, nil, []step{{11, setOf(0, 8, 4)}}, 8, 8, []board.Colour{4, 0}},
		{"set older than the body", 5, body(setOf(0, 9, 9)), []step{{11, setOf(0, 8, 4)}}, 9, 8, []board.Colour{9, 0}},
		{"unasked repair", 5, body(setOf(0, 5, 9)), []step{{0, from(5, runOf(0, 1, 2))}}, 7, 7, []board.Colour{1, 2}},
		{"repair, then frames", 5, nil, []step{{0, from(0, runOf(0, 1, 2, 3, 4, 5))}, {11, runOf(0, 6)}}, 6, 6, []board.Colour{6, 2}},
		{"repair beyond", 5, nil, []step{{0, from(4, runOf(0, 1, 2))}}, 0, 6, []board.Colour{0, 0}},
		{"repair of what is held", 5, body(setOf(0, 5, 9)), []step{{0, from(2, runOf(0, 1, 2, 3))}}, 5, 5, []board.Colour{9, 0}},
		{"repair by an older image", 5, body(setOf(0, 5, 9)), []step{{11, runOf(0, 1)}, {0, setOf(0, 5, 4)}}, 6, 6, []board.Colour{1, 0}},
		{"frame that a repair made up for", 5, body(setOf(0, 5, 9)), []step{{0, from(5, runOf(0, 1))}, {10, runOf(0, 1)}}, 6, 6, []board.Colour{1, 0}},
		{"another chunk", 0, nil, []step{{11, runOf(1, 1, 2)}}, 0, 0, []board.Colour{0, 0}},
		{"no chunk of the board", 0, nil, []step{{11, runOf(board.NewChunkID(3, 0), 1, 2)}}, 0, 0, []board.Colour{0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := tinyMirror(wire.ChunkAt{Chunk: 0, Sequence: c.base})
			if c.body != nil {
				if err := m.ApplyBody(c.body); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range c.steps {
				f := &wire.Frame{Tick: s.tick, Sections: []wire.Section{s.section}}
				if s.tick == 0 {
					f.Tick, f.Repair = 10, true
				}
				if err := m.Apply(wire.AppendServer(nil, f)); err != nil {
					t.Fatal(err)
				}
			}
			if k := m.at(0); k.held != c.held || k.sent != c.sent {
				t.Errorf("held %d, sent %d; want %d, %d", k.held, k.sent, c.held, c.sent)
			}
			for x, want := range c.colours {
				if have, ok := m.Tile(board.Point{X: x}); !ok || have != want {
					t.Errorf("tile (%d,0) is %d, want %d", x, have, want)
				}
			}
			checkHashes(t, m)
			if want := c.held == c.sent; m.Settled() != want {
				t.Errorf("settled %t, want %t", m.Settled(), want)
			}
		})
	}
}

// checkHashes compares the hashes kept with ones computed anew.
func checkHashes(t *testing.T, m *Mirror) {
	t.Helper()
	have := m.Hashes()
	m.rehash()
	if have != m.hashes {
		t.Errorf("hashes %x, computed anew %x", have, m.hashes)
	}
}

// TestMirrorWrongTiles: a chunk with wrong tiles is asked for from 0, and a run from there begins on a blank chunk.
func TestMirrorWrongTiles(t *testing.T) {
	m := tinyMirror()
	m.ApplyFrame(&wire.Frame{Tick: 11, Sections: []wire.Section{runOf(0, 1, 2)}})
	right := new(board.Tiles)
	right[0] = 1
	if n := m.ApplyHashes(wire.ChunkRect{Cols: 3, Rows: 2}, &wire.ChunkHashes{Tick: 11, Chunks: []wire.ChunkHash{{Chunk: 0, Sequence: 2, Tiles: right.Hash(0)}}}); n != 1 {
		t.Fatalf("%d chunks differ, want 1", n)
	}
	if list := m.Behind(10); !slices.Equal(list, []wire.ChunkAt{{Chunk: 0, Sequence: 0}}) {
		t.Fatalf("asked for %v", list)
	}
	if list := m.Behind(10); len(list) > 0 {
		t.Fatalf("asked twice: %v", list)
	}
	repair := runOf(0, 1)
	repair.Tiles = append(repair.Tiles, wire.Tile{Index: 0, Colour: 1})
	m.ApplyFrame(&wire.Frame{Tick: 11, Repair: true, Sections: []wire.Section{repair}})
	if c, _ := m.Tile(board.Point{X: 1}); c != 0 || !m.Settled() {
		t.Fatalf("tile (1,0) is %d after the repair, settled %t", c, m.Settled())
	}
	checkHashes(t, m)
}

// TestMirrorHashesShowLostRuns: a chunk whose frames were miscounted is not trusted even if its hash could be right later.
func TestMirrorHashesShowLostRuns(t *testing.T) {
	m := tinyMirror()
	m.ApplyFrame(&wire.Frame{Tick: 11, Sections: []wire.Section{runOf(0, 1, 2)}})
	m.ApplyHashes(wire.ChunkRect{Cols: 1, Rows: 1}, &wire.ChunkHashes{Tick: 12, Chunks: []wire.ChunkHash{{Chunk: 0, Sequence: 5, Tiles: 7}}})
	if list := m.Behind(10); !slices.Equal(list, []wire.ChunkAt{{Chunk: 0, Sequence: 0}}) {
		t.Fatalf("asked for %v, want all of it: what came after the lost run was put on the wrong sequence", list)
	}
}

// TestMirrorHashesOfNewChunks: what hashes say of a chunk's position holds from their tick on.
func TestMirrorHashesOfNewChunks(t *testing.T) {
	m := NewMirror(1, &tinySettings)
	if len(m.Unknown(wire.HashesChunksMax)) != 1 {
		t.Fatal("positions are known before a base")
	}
	m.ApplyHashes(wire.ChunkRect{Cols: 3, Rows: 2}, &wire.ChunkHashes{Tick: 12, Chunks: []wire.ChunkHash{{Chunk: 0, Sequence: 5}}})
	m.ApplyFrame(&wire.Frame{Tick: 12, Sections: []wire.Section{runOf(0, 1)}}) // of a resumed connection
	if c := m.at(0); c.sent != 5 {
		t.Fatalf("sent %d, want 5", c.sent)
	}
}

func TestMirrorResumeTick(t *testing.T) {
	m := tinyMirror()
	want := func(tick uint64) {
		t.Helper()
		if m.ResumeTick() != tick {
			t.Fatalf("resumes from %d, want %d", m.ResumeTick(), tick)
		}
	}
	want(10)
	m.ApplyFrame(&wire.Frame{Tick: 14, Sections: []wire.Section{runOf(0, 1)}})
	want(10) // another part of tick 14 may be missing
	m.ApplyFrame(&wire.Frame{Tick: 14, Sections: []wire.Section{runOf(1, 1)}})
	want(10)
	m.ApplyFrame(&wire.Frame{Tick: 15, Sections: []wire.Section{runOf(1, 1)}})
	want(14)
	m.ApplyFrame(&wire.Frame{Tick: 20, Repair: true, Sections: []wire.Section{from(0, runOf(2, 1))}})
	want(14)
	m.Reached(15)
	want(15)
}

// TestMirrorResize: chunks that leave take their hashes along, chunks that come are blank and of unknown position.
func TestMirrorResize(t *testing.T) {
	m := tinyMirror()
	m.ApplyFrame(&wire.Frame{Tick: 11, Sections: []wire.Section{runOf(0, 1, 2), runOf(1, 3), runOf(board.NewChunkID(2, 1), 4)}})
	small := tinySettings
	small.Version, small.Width = 2, 60
	m.ApplySettings(&small)
	checkHashes(t, m)
	if c, ok := m.Tile(board.Point{X: 50}); !ok || c != 3 {
		t.Errorf("tile (50,0) is %d, %t", c, ok)
	}
	if _, ok := m.Tile(board.Point{X: 60}); ok {
		t.Error("a tile outside the board")
	}
	if chunks, unsettled, _ := m.Counts(); chunks != 4 || unsettled != 0 {
		t.Errorf("%d chunks, %d not settled", chunks, unsettled)
	}
	large := tinySettings
	large.Version = 3
	m.ApplySettings(&large)
	checkHashes(t, m)
	if got := m.Unknown(wire.HashesChunksMax); !slices.Equal(got, []wire.ChunkRect{{Col: 2, Row: 0, Cols: 1, Rows: 2}}) {
		t.Errorf("unknown %v", got)
	}
	id := board.NewChunkID(2, 1)
	m.ApplyFrame(&wire.Frame{Tick: 12, Sections: []wire.Section{runOf(id, 5)}}) // begins nobody knows where
	if c, _ := m.Tile(id.Point(0)); c != 0 {
		t.Errorf("a run of unknown position was applied: %d", c)
	}
	m.ApplyFrame(&wire.Frame{Tick: 13, Sections: []wire.Section{setOf(id, 2, 6), runOf(1, 7)}})
	if c, _ := m.Tile(id.Point(0)); c != 6 {
		t.Errorf("tile is %d after the image", c)
	}
}

func TestMirrorBody(t *testing.T) {
	m := tinyMirror(wire.ChunkAt{Chunk: 0, Sequence: 2}, wire.ChunkAt{Chunk: 1, Sequence: 3})
	if err := m.ApplyBody(bodyOf(2, setOf(0, 2, 1))); err != ErrEpoch {
		t.Fatalf("another epoch: %v", err)
	}
	body := bodyOf(1, setOf(0, 2, 1), setOf(1, 3, 2))
	if err := m.ApplyBody(body); err != nil || !m.Settled() {
		t.Fatalf("%v, settled %t", err, m.Settled())
	}
	if d := m.Diff(body); len(d) > 0 {
		t.Fatalf("differs from what it was made of: %v", d)
	}
	if d := m.Diff(m.Body()); len(d) > 0 {
		t.Fatalf("differs from itself: %v", d)
	}
	if err := m.ApplyBody(bodyOf(1, setOf(0, 1, 9), setOf(1, 3, 2))); err != nil {
		t.Fatal(err)
	}
	if c, _ := m.Tile(board.Point{}); c != 1 {
		t.Fatalf("an older body put %d", c)
	}
	if d := m.Diff(bodyOf(1, setOf(0, 2, 9), setOf(1, 4, 2))); !slices.Equal(d, []board.ChunkID{0, 1}) {
		t.Fatalf("differs in %v, want both", d)
	}
	if d := m.Diff(bodyOf(1)); !slices.Equal(d, []board.ChunkID{0, 1}) {
		t.Fatalf("differs from an empty board in %v, want both", d)
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		rect wire.ChunkRect
		most int
		want []wire.ChunkRect
	}{
		{wire.ChunkRect{Cols: 20, Rows: 20}, 400, []wire.ChunkRect{{Cols: 20, Rows: 20}}},
		{wire.ChunkRect{Col: 1, Row: 2, Cols: 40, Rows: 25}, 400, []wire.ChunkRect{
			{Col: 1, Row: 2, Cols: 40, Rows: 10}, {Col: 1, Row: 12, Cols: 40, Rows: 10}, {Col: 1, Row: 22, Cols: 40, Rows: 5},
		}},
		{wire.ChunkRect{}, 400, nil},
	} {
		if got := split(c.rect, c.most); !slices.Equal(got, c.want) {
			t.Errorf("split(%v): %v, want %v", c.rect, got, c.want)
		}
	}
}

func BenchmarkMirrorFrame(b *testing.B) {
	m := tinyMirror()
	f := &wire.Frame{}
	for i := range 6 {
		f.Sections = append(f.Sections, runOf(board.NewChunkID(i%3, i/3), 1, 2, 3, 4, 5, 6))
	}
	b.ReportAllocs()
	for i := range b.N {
		f.Tick = uint64(11 + i)
		m.ApplyFrame(f)
	}
}
