package wire

import (
	"math"
	"reflect"
	"testing"

	"github.com/placed-board/placed/board"
	"pgregory.net/rapid"
)

// Generators of every message, in the form that a decoder returns (nil for an empty list, cut or clamped values in range).

func genChunk(t *rapid.T) board.ChunkID {
	return board.NewChunkID(rapid.IntRange(0, chunkSide-1).Draw(t, "col"), rapid.IntRange(0, chunkSide-1).Draw(t, "row"))
}

// genChunks draws chunks that ascend, at most most of them, nil for none.
func genChunks(t *rapid.T, most int) []board.ChunkID {
	drawn := rapid.SliceOfNDistinct(rapid.Custom(genChunk), 0, most, rapid.ID).Draw(t, "chunks")
	if len(drawn) == 0 {
		return nil
	}
	return ascending(drawn, func(c *board.ChunkID) board.ChunkID { return *c })
}

func genChunksAt(t *rapid.T, most int) []ChunkAt {
	var list []ChunkAt
	for _, c := range genChunks(t, most) {
		list = append(list, ChunkAt{c, rapid.Uint64().Draw(t, "sequence")})
	}
	return list
}

func genRect(t *rapid.T, chunksMax int) ChunkRect {
	r := ChunkRect{Col: rapid.IntRange(0, chunkSide).Draw(t, "col"), Row: rapid.IntRange(0, chunkSide).Draw(t, "row")}
	r.Cols = rapid.IntRange(0, chunkSide-r.Col).Draw(t, "cols")
	rowsMax := chunkSide - r.Row
	if r.Cols > 0 {
		rowsMax = min(rowsMax, chunksMax/r.Cols)
	}
	r.Rows = rapid.IntRange(0, rowsMax).Draw(t, "rows")
	return r
}

func genWidth(t *rapid.T) board.Width {
	return rapid.SampledFrom([]board.Width{board.Width4, board.Width8}).Draw(t, "width")
}

func genTiles(t *rapid.T, w board.Width, most int) []Tile {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Tile {
		colours := 16
		if w == board.Width8 {
			colours = 256
		}
		return Tile{
			Index:  uint16(rapid.IntRange(0, board.ChunkTiles-1).Draw(t, "tile")),
			Colour: board.Colour(rapid.IntRange(0, colours-1).Draw(t, "colour")),
		}
	}), 1, most).Draw(t, "tiles")
}

func genImage(t *rapid.T, w board.Width) []byte {
	image := make([]byte, w.ImageBytes())
	for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(image)-1), 0, 8).Draw(t, "bytes of the image") {
		image[i] = rapid.Byte().Draw(t, "byte")
	}
	return image
}

func genSection(t *rapid.T, c board.ChunkID, repair bool) Section {
	s := Section{
		Chunk: c, Width: genWidth(t),
		Kind: rapid.SampledFrom([]SectionKind{SectionRun, SectionPatch, SectionSet}).Draw(t, "kind"),
	}
	if s.Kind == SectionSet {
		s.Sequence, s.Image = rapid.Uint64().Draw(t, "sequence"), genImage(t, s.Width)
		return s
	}
	s.Tiles = genTiles(t, s.Width, 70)
	if s.Kind == SectionPatch {
		s.Advance = rapid.Uint64Min(uint64(len(s.Tiles))).Draw(t, "advance")
	}
	if repair {
		s.Sequence = rapid.Uint64().Draw(t, "begins after")
	}
	return s
}

func genFrame(t *rapid.T) *Frame {
	f := &Frame{Tick: rapid.Uint64().Draw(t, "tick"), Repair: rapid.Bool().Draw(t, "repair")}
	for _, c := range genChunks(t, 6) {
		f.Sections = append(f.Sections, genSection(t, c, f.Repair))
	}
	return f
}

func genMs(t *rapid.T) int64 { return rapid.Int64Range(0, math.MaxInt64).Draw(t, "ms") }

func genSettings(t *rapid.T) board.Settings {
	s := board.DefaultSettings()
	s.Version = rapid.Uint64().Draw(t, "version")
	s.Announcement = rapid.StringN(0, 100, board.AnnouncementBytesMax).Draw(t, "announcement")
	s.Frozen = rapid.Bool().Draw(t, "frozen")
	s.CooldownMs = rapid.Int64Range(0, board.CooldownMsMax).Draw(t, "cooldown")
	if rapid.Bool().Draw(t, "protect") {
		s.Protected = []board.Rect{{X: 1, Y: 2, Width: 3, Height: 4}}
	}
	s.Palette[2].Closed = rapid.Bool().Draw(t, "closed")
	return s
}

func genClient(t *rapid.T) ClientMessage {
	switch rapid.IntRange(0, 3).Draw(t, "type") {
	case 0:
		m := &Subscribe{Whole: rapid.Bool().Draw(t, "whole")}
		if !m.Whole {
			m.Chunks = genRect(t, SubscribeChunksMax)
		}
		if rapid.Bool().Draw(t, "resume") {
			m.Resume = &Resume{rapid.Uint64().Draw(t, "epoch"), rapid.Uint64().Draw(t, "incarnation"), rapid.Uint64().Draw(t, "tick")}
		}
		return m
	case 1:
		return &Place{
			Turn: rapid.Uint64().Draw(t, "turn"), Nonce: rapid.Uint64().Draw(t, "nonce"),
			X: rapid.Int().Draw(t, "x"), Y: rapid.Int().Draw(t, "y"), Colour: rapid.IntRange(0, math.MaxInt32).Draw(t, "colour"),
		}
	case 2:
		list := genChunksAt(t, RepairChunksMax)
		for i := range list {
			list[i].Sequence %= 1 << 53
		}
		return &Repair{Chunks: list}
	}
	return &GetHashes{Chunks: genRect(t, HashesChunksMax)}
}

func genPlaced(t *rapid.T) *Placed {
	m := &Placed{board.PlaceOutcome{
		Verdict: board.Verdict(rapid.IntRange(0, 3).Draw(t, "verdict")),
		Turn:    rapid.Uint64().Draw(t, "turn"), Nonce: rapid.Uint64().Draw(t, "nonce"),
		At:     board.Point{X: rapid.Int().Draw(t, "x"), Y: rapid.Int().Draw(t, "y")},
		Colour: board.Colour(rapid.Byte().Draw(t, "colour")), TrueColour: rapid.Bool().Draw(t, "true colour"),
		WaitMs: genMs(t), NextTurn: rapid.Uint64().Draw(t, "next turn"),
	}}
	switch m.Verdict {
	case board.VerdictAccepted:
		m.Chunk, m.Sequence = genChunk(t), rapid.Uint64().Draw(t, "sequence")
	case board.VerdictRefused:
		m.Code = board.Code(rapid.IntRange(0, len(board.Refusals)-1).Draw(t, "code"))
	}
	return m
}

func genHello(t *rapid.T) *Hello {
	m := &Hello{
		Protocol: Protocol, Epoch: rapid.Uint64().Draw(t, "epoch"), Incarnation: rapid.Uint64().Draw(t, "incarnation"),
		Tick: rapid.Uint64().Draw(t, "tick"), ServerTimeMs: genMs(t), HeartbeatMs: genMs(t), Settings: genSettings(t),
		User: board.UserID(rapid.StringN(0, 48, board.UserBytesMax).Draw(t, "user")), Known: rapid.Bool().Draw(t, "known"),
	}
	if m.Known {
		m.Turn, m.WaitMs = rapid.Uint64().Draw(t, "turn"), genMs(t)
	}
	return m
}

func genServer(t *rapid.T) ServerMessage {
	switch rapid.IntRange(0, 9).Draw(t, "type") {
	case 0:
		return genHello(t)
	case 1:
		return &Base{Tick: rapid.Uint64().Draw(t, "tick"), Resumed: rapid.Bool().Draw(t, "resumed"), Chunks: genChunksAt(t, 20)}
	case 2:
		return &Heartbeat{
			Tick: rapid.Uint64().Draw(t, "tick"), ServerTimeMs: genMs(t), Online: rapid.Uint64().Draw(t, "online"),
			Hashes: board.Hashes{Tiles: rapid.Uint64().Draw(t, "tiles"), Sequences: rapid.Uint64().Draw(t, "sequences")},
		}
	case 3:
		return &Me{Turn: rapid.Uint64().Draw(t, "turn"), WaitMs: genMs(t), BannedUntilMs: genMs(t)}
	case 4:
		return genPlaced(t)
	case 5:
		return &SettingsChanged{Tick: rapid.Uint64().Draw(t, "tick"), Settings: genSettings(t)}
	case 6:
		m := &ChunkHashes{Tick: rapid.Uint64().Draw(t, "tick")}
		for _, c := range genChunks(t, 20) {
			m.Chunks = append(m.Chunks, ChunkHash{c, rapid.Uint64().Draw(t, "sequence"), rapid.Uint64().Draw(t, "tiles")})
		}
		return m
	case 7:
		return &Notice{
			Code:    board.Code(rapid.IntRange(0, len(board.Refusals)-1).Draw(t, "code")),
			RetryMs: genMs(t), Detail: rapid.StringN(0, 50, NoticeDetailBytesMax).Draw(t, "detail"),
		}
	case 8:
		return &Move{WithinMs: genMs(t)}
	}
	return genFrame(t)
}

func genBody(t *rapid.T) *BoardBody {
	b := &BoardBody{
		Epoch: rapid.Uint64().Draw(t, "epoch"), Incarnation: rapid.Uint64().Draw(t, "incarnation"), Tick: rapid.Uint64().Draw(t, "tick"),
		Width: rapid.IntRange(1, board.SideMax).Draw(t, "width"), Height: rapid.IntRange(1, board.SideMax).Draw(t, "height"),
		ColourWidth: genWidth(t),
	}
	for _, c := range genChunks(t, 6) {
		if c.Rect().Meets(board.Rect{Width: b.Width, Height: b.Height}) {
			b.Chunks = append(b.Chunks, BodyChunk{c, rapid.Uint64Min(1).Draw(t, "sequence"), genImage(t, b.ColourWidth)})
		}
	}
	return b
}

func TestClientMessagesSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genClient(t)
		got, err := DecodeClient(AppendClient(nil, m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("sent %#v\ngot  %#v, %v", m, got, err)
		}
	})
}

func TestServerMessagesSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genServer(t)
		got, err := DecodeServer(AppendServer(nil, m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("sent %#v\ngot  %#v, %v", m, got, err)
		}
	})
}

func TestBoardsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genBody(t)
		b := AppendBoard(nil, m)
		if len(b) != BoardBytes(len(m.Chunks), m.ColourWidth) {
			t.Fatalf("%d bytes, BoardBytes says %d", len(b), BoardBytes(len(m.Chunks), m.ColourWidth))
		}
		got, err := DecodeBoard(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("sent %#v\ngot  %#v, %v", m, got, err)
		}
	})
}
