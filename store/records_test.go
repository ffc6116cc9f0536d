package store_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

func drawPoint(t *rapid.T) board.Point {
	side := rapid.IntRange(0, board.SideMax-1)
	return board.Point{X: side.Draw(t, "x"), Y: side.Draw(t, "y")}
}

func drawUser(t *rapid.T) board.UserID {
	return board.UserID(rapid.StringN(-1, -1, board.UserBytesMax).Draw(t, "user"))
}

func drawEntry(t *rapid.T) board.Entry {
	if rapid.Bool().Draw(t, "no entry") {
		return board.Entry{}
	}
	grid := rapid.IntRange(0, board.SideMax/board.BlockSize-1)
	return board.Entry{Block: board.NewBlockID(grid.Draw(t, "col"), grid.Draw(t, "row")), Version: rapid.Uint64Min(1).Draw(t, "version")}
}

func drawUserRow(t *rapid.T) store.UserRow {
	return store.UserRow{
		Turn: rapid.Uint64().Draw(t, "turn"), Nonce: rapid.Uint64().Draw(t, "nonce"), At: drawPoint(t),
		Colour: board.Colour(rapid.Byte().Draw(t, "colour")), AtMs: rapid.Int64().Draw(t, "at"),
		SettingsVersion: rapid.Uint64().Draw(t, "settings"), Node: rapid.Uint64().Draw(t, "node"),
		Sequence: rapid.Uint64().Draw(t, "sequence"), Newest: drawEntry(t), Ban: drawBan(t),
	}
}

func drawBan(t *rapid.T) store.Ban {
	ban := store.Ban{BannedUntilMs: rapid.Int64().Draw(t, "banned")}
	if rapid.Bool().Draw(t, "noted") {
		ban.BanNote = &store.BanNote{By: drawUser(t), Why: rapid.StringN(-1, -1, board.WhyBytesMax).Draw(t, "why"), AtMs: rapid.Int64().Draw(t, "banned at")}
	}
	return ban
}

func drawCharge(t *rapid.T, shard int) store.Charge {
	return store.Charge{
		Ticket: board.Ticket{Shard: uint8(shard), Commit: rapid.Uint64().Draw(t, "commit"), Index: rapid.Uint16().Draw(t, "index")},
		User:   drawUser(t), Turn: rapid.Uint64().Draw(t, "turn"), Nonce: rapid.Uint64().Draw(t, "nonce"), At: drawPoint(t),
		Colour: board.Colour(rapid.Byte().Draw(t, "colour")), Kind: board.Kind(rapid.Uint8Range(0, uint8(board.KindImport)).Draw(t, "kind")),
		AtMs: rapid.Int64().Draw(t, "at"), SettingsVersion: rapid.Uint64().Draw(t, "settings"), Node: rapid.Uint64().Draw(t, "node"),
		UserPrevious: drawEntry(t),
	}
}

func drawChunk(t *rapid.T) board.ChunkID {
	grid := rapid.IntRange(0, board.SideMax/board.ChunkSize-1)
	return board.NewChunkID(grid.Draw(t, "col"), grid.Draw(t, "row"))
}

func drawPlacement(t *rapid.T) board.Placement {
	return board.Placement{
		Chunk: drawChunk(t), Sequence: rapid.Uint64().Draw(t, "sequence"), Tile: rapid.Uint16Range(0, board.ChunkTiles-1).Draw(t, "tile"),
		Colour: board.Colour(rapid.Byte().Draw(t, "colour")), Kind: board.Kind(rapid.Uint8Range(0, uint8(board.KindImport)).Draw(t, "kind")),
		User: drawUser(t), Turn: rapid.Uint64().Draw(t, "turn"), Nonce: rapid.Uint64().Draw(t, "nonce"), AtMs: rapid.Int64().Draw(t, "at"),
		SettingsVersion: rapid.Uint64().Draw(t, "settings"), Node: rapid.SampledFrom([]uint64{0, 1, math.MaxUint64}).Draw(t, "node"),
		Ticket: board.Ticket{
			Shard: rapid.Uint8Range(0, board.Shards-1).Draw(t, "shard"), Commit: rapid.Uint64().Draw(t, "commit"), Index: rapid.Uint16().Draw(t, "index"),
		},
		PreviousVersion: rapid.Uint64().Draw(t, "previous"), UserPrevious: drawEntry(t),
	}
}

func drawFloor(t *rapid.T) store.Floor {
	return store.Floor{Shard: rapid.Uint8Range(0, board.Shards-1).Draw(t, "shard"), Commit: rapid.Uint64().Draw(t, "commit")}
}

// drawSlice is nil when it is empty, as decoded slices are.
func drawSlice[T any](t *rapid.T, most int, one func(*rapid.T) T) []T {
	var out []T
	for range rapid.IntRange(0, most).Draw(t, "length") {
		out = append(out, one(t))
	}
	return out
}

func TestRecordsSurviveTheirEncoding(t *testing.T) {
	t.Run("UserRow", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			want := drawUserRow(t)
			if got, err := store.DecodeUserRow(want.AppendTo(nil)); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v became %+v, %v", want, got, err)
			}
		})
	})
	t.Run("ShardState", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			shard := rapid.IntRange(0, board.Shards-1).Draw(t, "shard")
			want := store.ShardState{LastAtMs: rapid.Int64().Draw(t, "last"), Open: drawSlice(t, 8, func(t *rapid.T) store.Charge { return drawCharge(t, shard) })}
			if got, err := store.DecodeShardState(shard, want.AppendTo(nil)); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v became %+v, %v", want, got, err)
			}
		})
	})
	t.Run("BlockCommit", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			want := store.BlockCommit{Floors: drawSlice(t, 4, drawFloor), Placements: drawSlice(t, 8, drawPlacement)}
			if got, err := store.DecodeBlockCommit(want.AppendTo(nil)); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v became %+v, %v", want, got, err)
			}
		})
	})
}

func TestAppendToAppends(t *testing.T) {
	before := []byte("before")
	for name, got := range map[string][]byte{
		"UserRow":     (&store.UserRow{}).AppendTo(before),
		"ShardState":  (&store.ShardState{}).AppendTo(before),
		"BlockCommit": (&store.BlockCommit{}).AppendTo(before),
		"BlockState":  store.NewBlockState().AppendTo(before),
	} {
		if !strings.HasPrefix(string(got), "before") || len(got) <= len(before) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// records are encoded examples with what decodes them.
func records() map[string]struct {
	encoded []byte
	decode  func([]byte) error
} {
	row := store.UserRow{Turn: 300, Nonce: 7, At: board.Point{X: 999, Y: 1}, Colour: 5, AtMs: 1_700_000_000_000, SettingsVersion: 3, Node: 9, Sequence: 44, Newest: board.Entry{Block: 7, Version: 300}, Ban: store.Ban{BannedUntilMs: 1}}
	banned := row
	banned.BanNote = &store.BanNote{By: "operator", Why: "spam", AtMs: 1_700_000_000_001}
	state := store.ShardState{LastAtMs: 1_700_000_000_000, Open: []store.Charge{{
		Ticket: board.Ticket{Shard: 3, Commit: 70_000, Index: 300}, User: "ada", Turn: 2, Nonce: 8, At: board.Point{X: 5, Y: 6}, Colour: 1, AtMs: 1_699_999_999_000, Node: 1,
		UserPrevious: board.Entry{Block: 300, Version: 3},
	}}}
	commit := store.BlockCommit{Floors: []store.Floor{{Shard: 3, Commit: 69_000}}, Placements: []board.Placement{
		{Chunk: 0, Sequence: 1, Tile: 2499, Colour: 3, User: "ada", Turn: 1, Nonce: 1, AtMs: 1_700_000_000_000, SettingsVersion: 1, Node: 1, Ticket: board.Ticket{Shard: 3, Commit: 70_000}},
		{Chunk: 1, Sequence: 1, Tile: 0, Colour: 200, User: "bob", Turn: 9, AtMs: 1_700_000_000_100, SettingsVersion: 1, Node: 1, Ticket: board.Ticket{Shard: 64, Commit: 1}},
	}}
	block := store.NewBlockState()
	if err := block.Apply(1, &commit); err != nil {
		panic(err)
	}
	return map[string]struct {
		encoded []byte
		decode  func([]byte) error
	}{
		"UserRow":     {row.AppendTo(nil), func(b []byte) error { _, err := store.DecodeUserRow(b); return err }},
		"banned":      {banned.AppendTo(nil), func(b []byte) error { _, err := store.DecodeUserRow(b); return err }},
		"ShardState":  {state.AppendTo(nil), func(b []byte) error { _, err := store.DecodeShardState(3, b); return err }},
		"BlockCommit": {commit.AppendTo(nil), func(b []byte) error { _, err := store.DecodeBlockCommit(b); return err }},
		"BlockState":  {block.AppendTo(nil), func(b []byte) error { _, err := store.DecodeBlockState(b); return err }},
	}
}

// TestDamagedRecords cuts, lengthens and renumbers records: each gets ErrCorrupt.
func TestDamagedRecords(t *testing.T) {
	for name, r := range records() {
		if err := r.decode(r.encoded); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		from := 0
		if name == "ShardState" {
			from = 1 // no bytes are the state of a shard without commits
		}
		for n := from; n < len(r.encoded); n++ {
			if err := r.decode(r.encoded[:n]); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s: %d of %d bytes: %v, want ErrCorrupt", name, n, len(r.encoded), err)
			}
		}
		if err := r.decode(append(r.encoded[:len(r.encoded):len(r.encoded)], 0)); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: a byte too many: %v, want ErrCorrupt", name, err)
		}
		other := append([]byte{1}, r.encoded[1:]...)
		if err := r.decode(other); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "version 1") {
			t.Errorf("%s: another record version: %v, want ErrCorrupt", name, err)
		}
	}
}

func TestRecordsOutOfRange(t *testing.T) {
	placement := func(change func(*board.Placement)) []byte {
		p := board.Placement{Sequence: 1}
		change(&p)
		return (&store.BlockCommit{Placements: []board.Placement{p}}).AppendTo(nil)
	}
	for name, b := range map[string][]byte{
		"tile":        placement(func(p *board.Placement) { p.Tile = board.ChunkTiles }),
		"chunk":       placement(func(p *board.Placement) { p.Chunk = board.NewChunkID(200, 0) }),
		"shard":       placement(func(p *board.Placement) { p.Ticket.Shard = board.Shards }),
		"user":        placement(func(p *board.Placement) { p.User = board.UserID(strings.Repeat("u", board.UserBytesMax+1)) }),
		"floor":       (&store.BlockCommit{Floors: []store.Floor{{Shard: board.Shards}}}).AppendTo(nil),
		"many floors": (&store.BlockCommit{Floors: make([]store.Floor, board.Shards+1)}).AppendTo(nil),
	} {
		if c, err := store.DecodeBlockCommit(b); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %+v, %v, want ErrCorrupt", name, c, err)
		}
	}
	row := store.UserRow{Newest: board.Entry{Block: board.NewBlockID(100, 0), Version: 1}}
	if got, err := store.DecodeUserRow(row.AppendTo(nil)); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("an entry of a block beyond every board: %+v, %v, want ErrCorrupt", got, err)
	}
	row = store.UserRow{At: board.Point{X: board.SideMax}}
	if got, err := store.DecodeUserRow(row.AppendTo(nil)); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("x beyond every board: %+v, %v, want ErrCorrupt", got, err)
	}
}

func TestPlacementBytesMax(t *testing.T) {
	largest := board.Placement{
		Chunk: board.NewChunkID(199, 199), Sequence: math.MaxUint64, Tile: board.ChunkTiles - 1, Colour: 255, Kind: board.KindImport,
		User: board.UserID(strings.Repeat("u", board.UserBytesMax)), Turn: math.MaxUint64, Nonce: math.MaxUint64, AtMs: math.MinInt64,
		SettingsVersion: 1 << 63, Node: math.MaxUint64, Ticket: board.Ticket{Shard: board.OpsShard, Commit: math.MaxUint64, Index: math.MaxUint16},
		PreviousVersion: math.MaxUint64, UserPrevious: board.Entry{Block: board.NewBlockID(99, 99), Version: math.MaxUint64},
	}
	empty := len((&store.BlockCommit{}).AppendTo(nil))
	if got := len((&store.BlockCommit{Placements: []board.Placement{largest}}).AppendTo(nil)) - empty; got != store.PlacementBytesMax {
		t.Fatalf("the largest placement takes %d bytes, PlacementBytesMax is %d", got, store.PlacementBytesMax)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := []board.Placement{drawPlacement(t), drawPlacement(t)}
		one := len((&store.BlockCommit{Placements: p[:1]}).AppendTo(nil))
		if got := len((&store.BlockCommit{Placements: p}).AppendTo(nil)) - one; got > store.PlacementBytesMax {
			t.Fatalf("%+v takes %d bytes", p[1], got)
		}
	})
}

// TestShardStateFitsTheHead fills a shard with as many open charges as it may have, as large as a board gets in a thousand
// years: commits up to 2^42, turns up to 2^28, charges up to ten years old.
func TestShardStateFitsTheHead(t *testing.T) {
	const openMax, tenYearsMs = 512, 10 * 366 * 24 * 3600 * 1000
	s := store.ShardState{LastAtMs: 1 << 45}
	for range openMax {
		s.Open = append(s.Open, store.Charge{
			Ticket: board.Ticket{Shard: 64, Commit: 1<<42 - 1, Index: math.MaxUint16}, User: board.UserID(strings.Repeat("u", board.UserBytesMax)),
			Turn: 1<<28 - 1, Nonce: math.MaxUint64, At: board.Point{X: board.SideMax - 1, Y: board.SideMax - 1}, Colour: 255,
			Kind: board.KindImport, AtMs: s.LastAtMs - tenYearsMs, SettingsVersion: 1 << 28, Node: math.MaxUint64,
			UserPrevious: board.Entry{Block: board.NewBlockID(99, 99), Version: 1<<42 - 1},
		})
	}
	b := s.AppendTo(nil)
	if len(b) > store.HeadStateBytesMax {
		t.Fatalf("%d open charges take %d bytes, a head's state may have %d", openMax, len(b), store.HeadStateBytesMax)
	}
	if got, err := store.DecodeShardState(64, b); err != nil || len(got.Open) != openMax {
		t.Fatalf("%d charges, %v", len(got.Open), err)
	}
}

// fuzzRecord checks that a decoder never panics, calls what it refuses ErrCorrupt, and that what it accepts survives its own
// encoding.
func fuzzRecord[T any](f *testing.F, name string, decode func([]byte) (T, error), encode func(T) []byte) {
	f.Add(records()[name].encoded)
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decode(b)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			return
		}
		again, err := decode(encode(v))
		if err != nil || !reflect.DeepEqual(v, again) {
			t.Fatalf("%+v became %+v, %v", v, again, err)
		}
	})
}

func FuzzDecodeUserRow(f *testing.F) {
	fuzzRecord(f, "UserRow", store.DecodeUserRow, func(r store.UserRow) []byte { return r.AppendTo(nil) })
}

func FuzzDecodeShardState(f *testing.F) {
	decode := func(b []byte) (store.ShardState, error) { return store.DecodeShardState(3, b) }
	fuzzRecord(f, "ShardState", decode, func(s store.ShardState) []byte { return s.AppendTo(nil) })
}

func FuzzDecodeBlockCommit(f *testing.F) {
	fuzzRecord(f, "BlockCommit", store.DecodeBlockCommit, func(c store.BlockCommit) []byte { return c.AppendTo(nil) })
}

func FuzzDecodeBlockState(f *testing.F) {
	fuzzRecord(f, "BlockState", store.DecodeBlockState, func(s *store.BlockState) []byte { return s.AppendTo(nil) })
}
