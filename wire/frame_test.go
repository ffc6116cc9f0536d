package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"pgregory.net/rapid"
)

func TestFrameBytes(t *testing.T) {
	for _, c := range []struct {
		name  string
		frame Frame
		want  string
	}{
		{"a single tile takes three bytes", Frame{Tick: 5, Sections: []Section{
			{Chunk: 3, Width: board.Width4, Tiles: []Tile{{2499, 15}}},
		}}, "82 05 06 3f9c"},
		{"the next chunk is counted from the last", Frame{Tick: 300, Sections: []Section{
			{Chunk: 3, Width: board.Width4, Tiles: []Tile{{1, 2}}}, {Chunk: 259, Width: board.Width4, Tiles: []Tile{{0, 1}}},
		}}, "82 ac02 06 1200 8004 0100"},
		{"a run of two", Frame{Sections: []Section{
			{Chunk: 1, Width: board.Width4, Tiles: []Tile{{1, 2}, {1, 3}}},
		}}, "82 00 03 10 1200 1300"},
		{"a wide tile", Frame{Sections: []Section{
			{Chunk: 1, Width: board.Width8, Tiles: []Tile{{258, 200}}},
		}}, "82 00 03 0c 0201c8"},
		{"a patch", Frame{Repair: true, Sections: []Section{
			{Kind: SectionPatch, Width: board.Width4, Tiles: []Tile{{1, 2}}, Advance: 128, Sequence: 5},
		}}, "83 00 01 09 8001 05 1200"},
		{"a single tile of a repair", Frame{Repair: true, Sections: []Section{
			{Chunk: 2, Width: board.Width4, Tiles: []Tile{{1, 2}}, Sequence: 300},
		}}, "83 00 05 08 ac02 1200"},
	} {
		if got := AppendServer(nil, &c.frame); !bytes.Equal(got, raw(c.want)) {
			t.Errorf("%s: %x, want %s", c.name, got, c.want)
		}
	}
}

func TestEncoderSortsACopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sorted := genFrame(t)
		mixed := *sorted
		mixed.Sections = rapid.Permutation(sorted.Sections).Draw(t, "order")
		kept := slices.Clone(mixed.Sections)
		if got := AppendServer(nil, &mixed); !bytes.Equal(got, AppendServer(nil, sorted)) {
			t.Fatalf("another order of sections gives %x", got)
		}
		if !reflect.DeepEqual(mixed.Sections, kept) {
			t.Fatalf("the caller's sections were moved")
		}
	})
}

func TestEncoderPanicsOnWhatCannotBeSaid(t *testing.T) {
	tile := []Tile{{1, 1}}
	one := func(s Section) *Frame { return &Frame{Sections: []Section{s}} }
	for name, encode := range map[string]func(){
		"an invalid chunk":     func() { AppendServer(nil, one(Section{Chunk: 200, Width: board.Width4, Tiles: tile})) },
		"no width":             func() { AppendServer(nil, one(Section{Tiles: tile})) },
		"an unknown kind":      func() { AppendServer(nil, one(Section{Kind: 3, Width: board.Width4, Tiles: tile})) },
		"no tiles":             func() { AppendServer(nil, one(Section{Width: board.Width4})) },
		"tile 2500":            func() { AppendServer(nil, one(Section{Width: board.Width4, Tiles: []Tile{{2500, 1}}})) },
		"colour 16 at width 4": func() { AppendServer(nil, one(Section{Width: board.Width4, Tiles: []Tile{{1, 16}}})) },
		"a short image": func() {
			AppendServer(nil, one(Section{Kind: SectionSet, Width: board.Width8, Image: make([]byte, 1250)}))
		},
		"a patch short of steps": func() { AppendServer(nil, one(Section{Kind: SectionPatch, Width: board.Width4, Tiles: tile})) },
		"a chunk twice in a frame": func() {
			s := Section{Width: board.Width4, Tiles: tile}
			AppendServer(nil, &Frame{Sections: []Section{s, s}})
		},
		"a chunk twice in a base":   func() { AppendServer(nil, &Base{Chunks: []ChunkAt{{4, 1}, {3, 1}, {4, 2}}}) },
		"a chunk twice in a repair": func() { AppendClient(nil, &Repair{Chunks: []ChunkAt{{4, 1}, {4, 1}}}) },
		"a body without width":      func() { AppendBoard(nil, &BoardBody{Width: 1, Height: 1}) },
		"a body with a short image": func() {
			AppendBoard(nil, &BoardBody{Width: 1, Height: 1, ColourWidth: board.Width4, Chunks: []BodyChunk{{0, 1, nil}}})
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			encode()
		}()
	}
}

func TestVisitorsErrorEndsTheFrame(t *testing.T) {
	b := AppendServer(nil, &Frame{Tick: 9, Sections: []Section{
		{Chunk: 1, Width: board.Width4, Tiles: []Tile{{1, 1}}}, {Chunk: 2, Width: board.Width4, Tiles: []Tile{{1, 1}}},
	}})
	stop := errors.New("stop")
	visits := 0
	tick, _, err := DecodeFrame(b, func(*Section) error { visits++; return stop })
	if visits != 1 || err != stop || tick != 9 {
		t.Errorf("%d visits, tick %d, error %v; want 1, 9, the visitor's", visits, tick, err)
	}
}

func TestFramesInsideAVisit(t *testing.T) {
	b := AppendServer(nil, &Frame{Sections: []Section{{Chunk: 1, Width: board.Width4, Tiles: []Tile{{1, 1}, {2, 2}}}}})
	other := AppendServer(nil, &Frame{Sections: []Section{{Chunk: 2, Width: board.Width4, Tiles: []Tile{{3, 3}, {4, 4}}}}})
	_, _, err := DecodeFrame(b, func(s *Section) error {
		if _, _, err := DecodeFrame(other, func(*Section) error { return nil }); err != nil {
			return err
		}
		if s.Chunk != 1 || !slices.Equal(s.Tiles, []Tile{{1, 1}, {2, 2}}) {
			t.Errorf("the outer section became %v", *s)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDecodedMessagesOwnTheirMemory(t *testing.T) {
	for _, c := range goldenCases() {
		if c.direction == overHTTP {
			continue
		}
		b := encodeAny(c.message)
		m, err := decodeAny(c.direction, b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			b[i] = 0xaa
		}
		if !reflect.DeepEqual(m, c.message) {
			t.Errorf("%s: changed with the bytes that it came from", c.name)
		}
	}
}

func TestSeal(t *testing.T) {
	for n, header := range map[int]string{
		0: "8200", 1: "8201", 125: "827d", 126: "827e007e", 127: "827e007f", 65_535: "827effff",
		65_536: "827f0000000000010000", 1 << 20: "827f0000000000100000",
	} {
		b := make([]byte, SealRoom+n)
		for i := range b {
			b[i] = byte(i)
		}
		message := slices.Clone(b[SealRoom:])
		sealed := Seal(b)
		if want := raw(header, message); !bytes.Equal(sealed, want) {
			t.Errorf("%d bytes are sealed with %x, want %s", n, sealed[:len(sealed)-n], header)
		}
	}
	frame := &Frame{Tick: 7}
	if got := SealServer(frame); !bytes.Equal(got, raw("8202 82 07")) {
		t.Errorf("sealed frame %x", got)
	}
}

func TestListsInSettingsAreNeverNull(t *testing.T) {
	b := AppendServer(nil, &SettingsChanged{Settings: board.Settings{Width: 1}})
	if bytes.Contains(b, []byte("null")) {
		t.Errorf("%s", b)
	}
}

func TestBodyLeavesOutWhatIsNotThere(t *testing.T) {
	image := make([]byte, board.Width4.ImageBytes())
	b, err := DecodeBoard(AppendBoard(nil, &BoardBody{Width: 100, Height: 50, ColourWidth: board.Width4, Chunks: []BodyChunk{
		{2, 9, image}, {1, 5, image}, {0, 0, nil}, {board.NewChunkID(0, 1), 3, image},
	}}))
	if err != nil || len(b.Chunks) != 1 || b.Chunks[0].Chunk != 1 || b.Chunks[0].Sequence != 5 {
		t.Errorf("%+v, %v; want chunk 1 alone", b, err)
	}
}

func TestDetailIsCutAtARune(t *testing.T) {
	m, err := DecodeServer(AppendServer(nil, &Notice{Detail: "x" + strings.Repeat("é", 150) + "\xff"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.(*Notice).Detail; got != "x"+strings.Repeat("é", 99) {
		t.Errorf("detail of %d bytes: %s", len(got), hex.EncodeToString([]byte(got)))
	}
}

func TestNegativeTimesBecomeZero(t *testing.T) {
	m, err := DecodeServer(AppendServer(nil, &Me{Turn: 1, WaitMs: -5, BannedUntilMs: -1}))
	if err != nil || !reflect.DeepEqual(m, &Me{Turn: 1}) {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestLargestClientMessages keeps the limits of lists within the limit of a message.
func TestLargestClientMessages(t *testing.T) {
	// The worst deltas: 200 rows are at most 51,143 ids apart in all, so few of a hundred deltas take three bytes.
	var m Repair
	for i := range RepairChunksMax {
		m.Chunks = append(m.Chunks, ChunkAt{board.NewChunkID(199*(i%2), 2*i), counterMax})
	}
	if n := len(AppendClient(nil, &m)); n > ClientMessageBytesMax {
		t.Errorf("%d chunks make %d bytes", RepairChunksMax, n)
	}
}

func TestFramesDoNotAllocate(t *testing.T) {
	frame := &Frame{Tick: 1 << 40}
	for _, c := range frameCases() {
		if f := c.message.(*Frame); len(f.Sections) > len(frame.Sections) {
			frame = f
		}
	}
	var heartbeat ServerMessage = &Heartbeat{Tick: 1, ServerTimeMs: 1 << 40, Online: 5}
	buf := make([]byte, 0, 1<<16)
	if n := testing.AllocsPerRun(1000, func() { buf = AppendServer(buf[:0], frame) }); n != 0 {
		t.Errorf("encoding a frame into a used buffer allocates %v times", n)
	}
	b := slices.Clone(buf)
	if n := testing.AllocsPerRun(1000, func() { buf = AppendServer(buf[:0], heartbeat) }); n != 0 {
		t.Errorf("encoding a heartbeat into a used buffer allocates %v times", n)
	}
	if raceEnabled {
		return // sync.Pool drops values at random under the race detector
	}
	tiles := 0
	visit := func(s *Section) error { tiles += len(s.Tiles); return nil }
	if n := testing.AllocsPerRun(1000, func() { _, _, _ = DecodeFrame(b, visit) }); n != 0 {
		t.Errorf("decoding a frame allocates %v times", n)
	}
	if tiles == 0 {
		t.Error("no tile was seen")
	}
}
