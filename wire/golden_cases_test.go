package wire

import (
	"strings"

	"github.com/placed-board/placed/board"
)

// Directions of golden messages.
const (
	fromClient = "client"
	fromNode   = "node"
	overHTTP   = "http"
)

type goldenCase struct {
	name      string
	direction string
	message   any // ClientMessage, ServerMessage or *BoardBody
}

// counterMax is the largest counter of the golden messages, and the largest that a browser's number holds exactly.
const counterMax = 1<<53 - 1

// goldenImage returns an image in which every tile has a colour of its own place.
func goldenImage(w board.Width) []byte {
	var t board.Tiles
	for i := range t {
		t[i] = board.Colour(i*7+i/board.ChunkSize) & 15
		if w == board.Width8 {
			t[i] = board.Colour(i*7 + i/board.ChunkSize)
		}
	}
	return t.AppendImage(nil, w)
}

func goldenTiles(n int, w board.Width) []Tile {
	tiles := make([]Tile, n)
	for i := range tiles {
		tiles[i] = Tile{uint16(i * 79 % board.ChunkTiles), board.Colour(i % 16)}
		if w == board.Width8 {
			tiles[i].Colour = board.Colour(255 - i)
		}
	}
	return tiles
}

func goldenSettings() board.Settings {
	s := board.DefaultSettings()
	s.Version, s.Width, s.Height, s.CooldownMs = 7, 1000, 750, 1500
	s.Palette[3].Closed = true
	s.Protected = []board.Rect{{X: 10, Y: 20, Width: 30, Height: 40}}
	s.Announcement = "Grüße — 你好 <&> \"quoted\"\n"
	s.Frozen = true
	return s
}

func clientCases() []goldenCase {
	var repair Repair
	for i := range RepairChunksMax {
		repair.Chunks = append(repair.Chunks, ChunkAt{board.NewChunkID(i, 2*i), counterMax - uint64(i)})
	}
	return []goldenCase{
		{"subscribe to the whole board", fromClient, &Subscribe{Whole: true}},
		{"subscribe to the whole board and resume", fromClient, &Subscribe{
			Whole: true, Resume: &Resume{Epoch: 0xfedcba9876543210, Incarnation: 1, Tick: 300},
		}},
		{"subscribe to the most chunks", fromClient, &Subscribe{Chunks: ChunkRect{160, 160, 40, 40}}},
		{"subscribe to nothing", fromClient, &Subscribe{}},
		{"subscribe to one chunk and resume at the largest tick", fromClient, &Subscribe{
			Chunks: ChunkRect{199, 0, 1, 1}, Resume: &Resume{Epoch: 1<<64 - 1, Incarnation: 1 << 63, Tick: counterMax},
		}},
		{"place", fromClient, &Place{Turn: 12, Nonce: 0x0123456789abcdef, X: 999, Y: 0, Colour: 15}},
		{"place without a turn, off the board to the left", fromClient, &Place{Nonce: 1<<64 - 1, X: -1, Y: -64, Colour: 255}},
		{"place off the board to the right, unknown colour", fromClient, &Place{Turn: counterMax, X: 1000, Y: 1 << 31, Colour: 256}},
		{"place the largest colour", fromClient, &Place{Turn: 1, Nonce: 1, X: 64, Y: 63, Colour: 1<<31 - 1}},
		{"repair nothing", fromClient, &Repair{}},
		{"repair two chunks", fromClient, &Repair{Chunks: []ChunkAt{{0, 0}, {board.NewChunkID(19, 19), 129}}}},
		{"repair the most chunks", fromClient, &repair},
		{"get no hashes", fromClient, &GetHashes{}},
		{"get the most hashes", fromClient, &GetHashes{ChunkRect{0, 0, 20, 20}}},
		{"get the hash of the last chunk", fromClient, &GetHashes{ChunkRect{199, 199, 1, 1}}},
	}
}

func nodeCases() []goldenCase {
	bare := board.Settings{Version: counterMax, Width: 1, Height: 1, RegionSize: 100, State: board.StateLoading}
	bare.Palette, bare.Protected = []board.PaletteEntry{{Name: "a", RGB: 0}, {Name: "b", RGB: 0xffffff}}, []board.Rect{}
	return []goldenCase{
		{"hello of a spectator", fromNode, &Hello{
			Protocol: Protocol, Epoch: 0x8000000000000001, Incarnation: 0xffffffff00000000, Tick: 1,
			ServerTimeMs: 1_790_000_000_000, HeartbeatMs: 10_000, Settings: board.DefaultSettings(),
		}},
		{"hello of a user whose turn is known", fromNode, &Hello{
			Protocol: Protocol, Epoch: 1, Incarnation: 2, Tick: counterMax, ServerTimeMs: counterMax, HeartbeatMs: 1,
			Settings: goldenSettings(), User: "zoë", Known: true, Turn: 128, WaitMs: 299_999,
		}},
		{"hello of a user whose turn is not known yet", fromNode, &Hello{
			Protocol: Protocol, Settings: bare, User: board.UserID(strings.Repeat("u", board.UserBytesMax)),
		}},
		{"base of an untouched board", fromNode, &Base{Tick: 5}},
		{"base", fromNode, &Base{Tick: 1 << 21, Chunks: []ChunkAt{{0, 1}, {1, 127}, {board.NewChunkID(0, 1), 1 << 33}, {board.NewChunkID(199, 199), counterMax}}}},
		{"base after a resume", fromNode, &Base{Tick: 9, Resumed: true, Chunks: []ChunkAt{{board.NewChunkID(3, 7), 42}}}},
		{"heartbeat of an untouched board", fromNode, &Heartbeat{Tick: 1, ServerTimeMs: 1}},
		{"heartbeat", fromNode, &Heartbeat{
			Tick: 65_536, ServerTimeMs: 1_790_000_000_123, Online: 100_000,
			Hashes: board.Hashes{Tiles: 0x0123456789abcdef, Sequences: 0xfedcba9876543210},
		}},
		{"me", fromNode, &Me{Turn: 1}},
		{"me, banned for ever", fromNode, &Me{Turn: counterMax, WaitMs: board.CooldownMsMax, BannedUntilMs: board.BannedForever}},
		{"placed: accepted", fromNode, &Placed{board.PlaceOutcome{
			Verdict: board.VerdictAccepted, Turn: 3, Nonce: 0xffffffffffffffff, At: board.Point{X: 999, Y: 999}, Colour: 5,
			Chunk: board.NewChunkID(19, 19), Sequence: 1 << 32, WaitMs: 300_000, NextTurn: 4,
		}}},
		{"placed: charged", fromNode, &Placed{board.PlaceOutcome{
			Verdict: board.VerdictCharged, Turn: 1, Nonce: 1, At: board.Point{X: 0, Y: 0}, Colour: 255, WaitMs: 1, NextTurn: 2,
		}}},
		{"placed: unknown", fromNode, &Placed{board.PlaceOutcome{
			Verdict: board.VerdictUnknown, Turn: 9, Nonce: 0x8000000000000000, At: board.Point{X: 1, Y: 2}, Colour: 3, WaitMs: 2000,
		}}},
		{"placed: refused with the true colour", fromNode, &Placed{board.PlaceOutcome{
			Verdict: board.VerdictRefused, Code: board.CodeCooldown, Turn: 9, Nonce: 7, At: board.Point{X: 50, Y: 49}, Colour: 0,
			TrueColour: true, WaitMs: 123_456, NextTurn: 10,
		}}},
		{"placed: refused off the board", fromNode, &Placed{board.PlaceOutcome{
			Verdict: board.VerdictRefused, Code: board.CodeBounds, At: board.Point{X: -1, Y: 1000}, Colour: 2,
		}}},
		{"settings changed", fromNode, &SettingsChanged{Tick: 77, Settings: goldenSettings()}},
		{"chunk hashes of an untouched board", fromNode, &ChunkHashes{Tick: 3}},
		{"chunk hashes", fromNode, &ChunkHashes{Tick: 3, Chunks: []ChunkHash{
			{0, 1, 0x00000000ffffffff}, {board.NewChunkID(2, 3), counterMax, 0xffffffff00000000},
		}}},
		{"notice", fromNode, &Notice{Code: board.CodeRate, RetryMs: 50}},
		{"notice with the longest detail", fromNode, &Notice{Code: board.CodeBadMessage, Detail: strings.Repeat("é", NoticeDetailBytesMax/2)}},
		{"move", fromNode, &Move{WithinMs: 10_000}},
	}
}

func frameCases() []goldenCase {
	last := board.NewChunkID(199, 199)
	one := func(c board.ChunkID, tile int, colour board.Colour) Section {
		return Section{Chunk: c, Width: board.Width4, Tiles: []Tile{{uint16(tile), colour}}}
	}
	run := func(c board.ChunkID, n int, w board.Width) Section {
		return Section{Chunk: c, Width: w, Tiles: goldenTiles(n, w)}
	}
	patch := func(c board.ChunkID, n int, w board.Width, advance uint64) Section {
		return Section{Chunk: c, Kind: SectionPatch, Width: w, Tiles: goldenTiles(n, w), Advance: advance}
	}
	set := func(c board.ChunkID, w board.Width, sequence uint64) Section {
		return Section{Chunk: c, Kind: SectionSet, Width: w, Sequence: sequence, Image: goldenImage(w)}
	}
	frame := func(name string, tick uint64, sections ...Section) goldenCase {
		return goldenCase{"frame: " + name, fromNode, &Frame{Tick: tick, Sections: sections}}
	}
	repair := func(name string, tick uint64, sections ...Section) goldenCase {
		return goldenCase{"repair frame: " + name, fromNode, &Frame{Tick: tick, Repair: true, Sections: sections}}
	}
	begin := func(s Section, sequence uint64) Section {
		s.Sequence = sequence
		return s
	}
	return []goldenCase{
		frame("no sections", 1),
		frame("single tiles at the corners", 127, one(0, 0, 0), one(63, 2499, 15), one(127, 1, 1), one(last, 2499, 15)),
		frame("the largest tick", counterMax, one(last, 0, 15)),
		frame("runs at width 4", 128, run(1, 2, board.Width4), run(2, 31, board.Width4), run(3, 32, board.Width4), run(4, 200, board.Width4)),
		frame("runs at width 8", 129, run(0, 1, board.Width8), run(256, 31, board.Width8), run(257, 130, board.Width8)),
		frame("the same tile twice in a run", 130, Section{Chunk: 5, Width: board.Width4, Tiles: []Tile{{7, 1}, {7, 2}}}),
		frame("patches at width 4", 1<<14, patch(9, 1, board.Width4, 1), patch(10, 31, board.Width4, 31), patch(11, 40, board.Width4, counterMax)),
		frame("patches at width 8", 1<<21, patch(9, 1, board.Width8, 5000), patch(513, 33, board.Width8, 33)),
		frame("images", 1<<28, set(0, board.Width4, 0), set(19, board.Width8, 1<<32+1), set(last, board.Width4, counterMax)),
		frame("every kind", 1<<35, one(0, 1250, 8), run(1, 3, board.Width8), patch(300, 2, board.Width4, 17), set(301, board.Width4, 99), one(302, 99, 9)),
		repair("a single tile", 12, begin(one(40, 7, 3), 128)),
		repair("runs and an image", 13, begin(run(40, 5, board.Width4), 0), set(41, board.Width4, 77), begin(run(42, 40, board.Width8), counterMax)),
		repair("patches", 14, begin(patch(1, 2, board.Width4, 9), 1<<32), begin(patch(2, 50, board.Width8, 50), 1)),
		repair("nothing to repair", 0),
	}
}

func bodyCases() []goldenCase {
	return []goldenCase{
		{"board without placements", overHTTP, &BoardBody{Epoch: 1, Incarnation: 1 << 63, Width: 1, Height: 10_000, ColourWidth: board.Width4}},
		{"board at width 4", overHTTP, &BoardBody{
			Epoch: 0xfedcba9876543210, Incarnation: 0x0123456789abcdef, Tick: 1 << 33, Width: 1000, Height: 1000, ColourWidth: board.Width4,
			Chunks: []BodyChunk{
				{board.NewChunkID(0, 0), 1, goldenImage(board.Width4)},
				{board.NewChunkID(19, 19), counterMax, goldenImage(board.Width4)},
			},
		}},
		{"board at width 8, of a size that cuts chunks", overHTTP, &BoardBody{
			Epoch: 5, Incarnation: 6, Tick: counterMax, Width: 101, Height: 51, ColourWidth: board.Width8,
			Chunks: []BodyChunk{{board.NewChunkID(2, 1), 1<<32 + 7, goldenImage(board.Width8)}},
		}},
	}
}

func goldenCases() []goldenCase {
	var all []goldenCase
	for _, part := range [][]goldenCase{clientCases(), nodeCases(), frameCases(), bodyCases()} {
		all = append(all, part...)
	}
	return all
}
