package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
)

// verifyBoard is a small right board: two users, three placements in two blocks, cooldown 1000 ms cut to 500 in version 2.
type verifyBoard struct {
	placements []board.Placement
	rows       map[board.UserID]store.UserRow
	settings   []board.SettingsRecord
	served     map[board.ChunkID]board.Tiles
	sequences  map[board.ChunkID]uint64
}

func newVerifyBoard() *verifyBoard {
	b := &verifyBoard{
		rows: map[board.UserID]store.UserRow{}, served: map[board.ChunkID]board.Tiles{}, sequences: map[board.ChunkID]uint64{},
	}
	for version, ms := range []int64{1000, 500} {
		s := board.DefaultSettings()
		s.Version, s.CooldownMs = uint64(version+1), ms
		b.settings = append(b.settings, board.SettingsRecord{Settings: s})
	}
	b.add("alice", 1, board.Point{X: 3, Y: 4}, 5, 10_000, 1)
	b.add("alice", 2, board.Point{X: 3, Y: 4}, 6, 10_500, 2) // the cut lets her place after 500 ms
	b.add("bob", 1, board.Point{X: 130, Y: 4}, 7, 10_000, 1)
	return b
}

func (b *verifyBoard) add(user board.UserID, turn uint64, at board.Point, colour board.Colour, atMs int64, version uint64) {
	chunk := at.Chunk()
	previous := uint64(0)
	for i, p := range b.placements {
		if p.Point() == at {
			previous = b.version(i)
		}
	}
	b.sequences[chunk]++
	b.placements = append(b.placements, board.Placement{
		Chunk: chunk, Sequence: b.sequences[chunk], Tile: uint16(at.Tile()), Colour: colour, User: user, Turn: turn, Nonce: turn * 7,
		AtMs: atMs, SettingsVersion: version, Ticket: board.Ticket{Shard: uint8(user.Shard()), Commit: uint64(len(b.placements) + 1)},
		PreviousVersion: previous, UserPrevious: b.rows[user].Newest,
	})
	tiles := b.served[chunk]
	tiles[at.Tile()] = colour
	b.served[chunk] = tiles
	b.rows[user] = store.UserRow{
		Turn: turn, Nonce: turn * 7, At: at, Colour: colour, AtMs: atMs, SettingsVersion: version, Sequence: b.sequences[chunk],
		Newest: board.Entry{Block: chunk.Block(), Version: b.version(len(b.placements) - 1)},
	}
}

// version returns the block commit that holds placement i: each placement is a commit of its own.
func (b *verifyBoard) version(i int) uint64 {
	n := uint64(0)
	for _, p := range b.placements[:i+1] {
		if p.Chunk.Block() == b.placements[i].Chunk.Block() {
			n++
		}
	}
	return n
}

func (b *verifyBoard) run(t *testing.T, snapshot *store.Snapshot) board.VerifyReport {
	t.Helper()
	core := mem.NewCore()
	attempt := uint64(0)
	commit := func(p store.Partition, row store.Row) {
		attempt++
		c := store.Commit{Partition: p, Rows: []store.Row{row}}
		c.Head = store.Head{Version: core.Head(p).Version + 1, Attempt: attempt, Owner: store.Owner{Address: "n", Incarnation: 1}}
		if !core.Commit(&c).Applied {
			t.Fatalf("commit of %v was not applied", p)
		}
	}
	for i := range b.placements {
		p := &b.placements[i]
		one := store.BlockCommit{Placements: []board.Placement{*p}}
		commit(store.Block(p.Chunk.Block()), store.Row{Value: one.AppendTo(nil)})
	}
	for user, row := range b.rows {
		commit(store.Shard(user.Shard()), store.Row{Key: string(user), Value: row.AppendTo(nil)})
	}
	if snapshot != nil {
		core.PutSnapshot(0, *snapshot)
	}
	report, err := store.Verify(t.Context(), mem.Open(core), store.VerifyOptions{
		Settings: func(context.Context) ([]board.SettingsRecord, error) { return b.settings, nil },
		Served: func(c board.ChunkID) (uint64, *board.Tiles, bool) {
			tiles := b.served[c]
			return b.sequences[c], &tiles, true
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestVerifyPassesARightBoard(t *testing.T) {
	report := newVerifyBoard().run(t, nil)
	if report.Count != 0 || report.Placements != 3 || report.Users != 2 || report.Blocks != 2 || report.Commits != 3 {
		t.Errorf("report %+v", report)
	}
}

func TestVerifyFindsEveryViolation(t *testing.T) {
	for name, c := range map[string]struct {
		want     string // invariant and a part of the sentence
		damage   func(*verifyBoard)
		snapshot func() *store.Snapshot
	}{
		"early":              {want: "I1 alice", damage: func(b *verifyBoard) { b.placements[1].AtMs--; b.rows["alice"] = alicesRow(b) }},
		"raise is no excuse": {want: "I1 alice", damage: func(b *verifyBoard) { b.settings[1].CooldownMs = 700 }},
		"version goes back":  {want: "I1 alice", damage: func(b *verifyBoard) { b.placements[0].SettingsVersion = 2; b.placements[1].SettingsVersion = 1 }},
		"missing turn":       {want: "I2 alice", damage: func(b *verifyBoard) { b.placements[1].Turn = 3; b.rows["alice"] = alicesRow(b) }},
		"turn twice":         {want: "I3 alice", damage: func(b *verifyBoard) { b.placements[1].Turn = 1 }},
		"ticket twice":       {want: "I3 ticket", damage: func(b *verifyBoard) { b.placements[1].Ticket = b.placements[0].Ticket }},
		"sequence gap":       {want: "I4 sequence", damage: func(b *verifyBoard) { b.placements[1].Sequence = 3 }},
		"served differs":     {want: "I5 served", damage: func(b *verifyBoard) { b.served[0] = board.Tiles{} }},
		"served ahead":       {want: "I5 served", damage: func(b *verifyBoard) { b.sequences[0] = 9 }},
		"history chain":      {want: "I6 previous", damage: func(b *verifyBoard) { b.placements[1].PreviousVersion = 0 }},
		"user's chain":       {want: "I6 the user's placement before", damage: func(b *verifyBoard) { b.placements[1].UserPrevious.Version = 7 }},
		"chain begins":       {want: "I6 walk back", damage: func(b *verifyBoard) { b.placements[0].UserPrevious = b.rows["bob"].Newest }},
		"row's chain":        {want: "I6 walk back", damage: func(b *verifyBoard) { r := b.rows["alice"]; r.Newest.Version = 1; b.rows["alice"] = r }},
		"open row's chain":   {want: "I6 placement before turn", damage: func(b *verifyBoard) { r := b.rows["alice"]; r.Sequence = 0; b.rows["alice"] = r }},
		"clear in a chain":   {want: "I6 kind clear", damage: func(b *verifyBoard) { b.placements[1].Kind = board.KindClear }},
		"row behind":         {want: "I6 row", damage: func(b *verifyBoard) { r := b.rows["alice"]; r.Turn = 1; b.rows["alice"] = r }},
		"row differs":        {want: "I6 row", damage: func(b *verifyBoard) { r := b.rows["bob"]; r.Nonce++; b.rows["bob"] = r }},
		"row missing":        {want: "I6 no row", damage: func(b *verifyBoard) { delete(b.rows, "bob") }},
		"snapshot differs":   {want: "I6 snapshot", snapshot: wrongSnapshot},
		"snapshot undecoded": {want: "I6 does not decode", snapshot: func() *store.Snapshot { return &store.Snapshot{Version: 1, Data: []byte{9}} }},
		"snapshot ahead":     {want: "I6 ahead", snapshot: func() *store.Snapshot { return aheadSnapshot(9) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newVerifyBoard()
			if c.damage != nil {
				c.damage(b)
			}
			var snapshot *store.Snapshot
			if c.snapshot != nil {
				snapshot = c.snapshot()
			}
			report := b.run(t, snapshot)
			invariant, part, _ := strings.Cut(c.want, " ")
			for _, v := range report.Violations {
				if v.Invariant == invariant && strings.Contains(v.What, part) {
					return
				}
			}
			t.Errorf("no %s with %q among %+v", invariant, part, report.Violations)
		})
	}
}

// importInto empties the board and imports a history, then alice places a tile.
func importInto(b *verifyBoard) {
	b.placements, b.rows = nil, map[board.UserID]store.UserRow{}
	b.served, b.sequences = map[board.ChunkID]board.Tiles{}, map[board.ChunkID]uint64{}
	for i, at := range []board.Point{{X: 3, Y: 4}, {X: 130, Y: 4}, {X: 130, Y: 4}, {X: 3, Y: 4}} {
		b.add([]board.UserID{"alice", "bob", "alice", "alice"}[i], 1, at, board.Colour(i+1), int64(i), 1)
	}
	for i := range b.placements {
		p := &b.placements[i]
		p.Kind, p.Turn, p.Nonce, p.Ticket = board.KindImport, 0, 0, board.Ticket{}
	}
	for user, row := range b.rows {
		b.rows[user] = store.UserRow{Newest: row.Newest}
	}
	b.add("alice", 1, board.Point{X: 4, Y: 4}, 5, 10_000, 1)
}

func TestVerifyFollowsImports(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*verifyBoard)
		wrong  int
	}{
		"with a chain": {func(*verifyBoard) {}, 0},
		"without": {func(b *verifyBoard) {
			for i := range b.placements {
				b.placements[i].UserPrevious = board.Entry{}
			}
			delete(b.rows, "bob")
		}, 0},
		"one is lost":  {func(b *verifyBoard) { b.placements[2].UserPrevious = board.Entry{} }, 1},
		"wrong newest": {func(b *verifyBoard) { b.rows["bob"] = store.UserRow{Newest: board.Entry{Version: 1}} }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newVerifyBoard()
			importInto(b)
			c.change(b)
			if r := b.run(t, nil); r.Count != c.wrong || r.Users != 2 {
				t.Errorf("%d violations of %d users: %+v", r.Count, r.Users, r.Violations)
			}
		})
	}
}

func alicesRow(b *verifyBoard) store.UserRow {
	p := &b.placements[1]
	return store.UserRow{Turn: p.Turn, Nonce: p.Nonce, At: p.Point(), Colour: p.Colour, AtMs: p.AtMs, SettingsVersion: p.SettingsVersion}
}

func wrongSnapshot() *store.Snapshot { return aheadSnapshot(1) }

// aheadSnapshot is a snapshot of an empty block that says that it stands at a version.
func aheadSnapshot(version uint64) *store.Snapshot {
	state := store.NewBlockState()
	state.Version = version
	return &store.Snapshot{Version: version, Data: state.AppendTo(nil)}
}

func TestVerifyKeepsItsReportShort(t *testing.T) {
	b := newVerifyBoard()
	for i := range 300 {
		b.add(board.UserID(fmt.Sprintf("user-%d", i)), 2, board.Point{X: i, Y: 9}, 1, 20_000, 2)
	}
	report := b.run(t, nil)
	if len(report.Violations) != store.ViolationsMax || report.Count != 300 {
		t.Errorf("%d violations listed of %d, want %d of 300", len(report.Violations), report.Count, store.ViolationsMax)
	}
}

// TestVerifyFindsCircles: a user's placements here, elsewhere and here again must not stand in one commit: a walk backwards would
// come to that commit for ever, while the sums of the chain are right.
func TestVerifyFindsCircles(t *testing.T) {
	here, there := board.Point{X: 1, Y: 1}, board.Point{X: 501, Y: 1}
	place := func(at board.Point, sequence uint64, previous board.Entry) board.Placement {
		return board.Placement{
			Chunk: at.Chunk(), Tile: uint16(at.Tile() + int(sequence)), Sequence: sequence, User: "ada", AtMs: int64(sequence),
			SettingsVersion: 1, Kind: board.KindImport, UserPrevious: previous,
		}
	}
	first, second := board.Entry{Block: here.Block(), Version: 1}, board.Entry{Block: there.Block(), Version: 1}
	st := mem.New()
	commit := func(p store.Partition, key string, value []byte) {
		t.Helper()
		c := &store.Commit{Partition: p, Head: store.Head{Version: 1, Attempt: 1}, Rows: []store.Row{{Key: key, Value: value}}}
		if r, err := st.Commit(t.Context(), c); err != nil || !r.Applied {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	commit(store.Block(here.Block()), "", (&store.BlockCommit{Placements: []board.Placement{place(here, 1, board.Entry{}), place(here, 2, second)}}).AppendTo(nil))
	commit(store.Block(there.Block()), "", (&store.BlockCommit{Placements: []board.Placement{place(there, 1, first)}}).AppendTo(nil))
	commit(store.Shard(board.UserID("ada").Shard()), "ada", (&store.UserRow{Newest: first}).AppendTo(nil))
	report, err := store.Verify(t.Context(), st, store.VerifyOptions{Settings: func(context.Context) ([]board.SettingsRecord, error) {
		return []board.SettingsRecord{{Settings: board.DefaultSettings()}}, nil
	}})
	if err != nil || report.Count != 1 || !strings.Contains(report.Violations[0].What, "between them") {
		t.Fatalf("%+v, %v", report, err)
	}
}
