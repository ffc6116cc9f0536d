package actors

import (
	"slices"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// feedRig is a feed core with the time and the rules of its messages. The board is 120x120: chunks 0..2 by 0..2.
type feedRig struct {
	t     *testing.T
	feed  *Feed
	nowMs int64
	rules *Rules
}

func newFeedRig(t *testing.T) *feedRig {
	rules := testRules(nil, func(s *board.Settings) { s.Width, s.Height = 120, 120 })
	return &feedRig{t: t, feed: NewFeed(77, 88, 0, rules), nowMs: testStartMs, rules: rules}
}

func (r *feedRig) send(m FeedMessage) []FeedEffect { return slices.Clone(r.feed.Receive(r.nowMs, m)) }

// applied tells of placements of one chunk from a sequence on.
func (r *feedRig) applied(chunk board.ChunkID, sequence uint64, tiles ...wire.Tile) []FeedEffect {
	m := TilesApplied{Block: chunk.Block()}
	for i, x := range tiles {
		m.Tiles = append(m.Tiles, AppliedTile{Chunk: chunk, Tile: x.Index, Colour: x.Colour, Sequence: sequence + uint64(i)})
	}
	return r.send(m)
}

func (r *feedRig) image(chunk board.ChunkID, sequence uint64, tiles ...wire.Tile) []FeedEffect {
	var image board.Tiles
	for _, x := range tiles {
		image[x.Index] = x.Colour
	}
	return r.send(BlockImages{Block: chunk.Block(), Chunks: []ChunkImage{{Chunk: chunk, Sequence: sequence, Tiles: &image}}})
}

// tick makes a frame and returns its sections; nil when there is none.
func (r *feedRig) tick() []wire.Section {
	r.nowMs += FeedTickMs
	for _, e := range only[ToSubscribers](r.send(FeedTick{})) {
		if m, ok := e.Message.(FrameMade); ok {
			f := opened[*wire.Frame](r.t, m.Whole)
			if f.Tick != m.Tick || len(m.Marks) != len(f.Sections) {
				r.t.Fatalf("frame %d has %d sections, its message says %d and %d", f.Tick, len(f.Sections), m.Tick, len(m.Marks))
			}
			return f.Sections
		}
	}
	return nil
}

// opened decodes a sealed message.
func opened[T wire.ServerMessage](t *testing.T, m wire.Sealed) T {
	t.Helper()
	decoded, err := wire.DecodeServer(m[headerBytes(m):])
	if err != nil {
		t.Fatal(err)
	}
	x, ok := decoded.(T)
	if !ok {
		t.Fatalf("want %T, got %+v", *new(T), decoded)
	}
	return x
}

func (r *feedRig) repair(chunks ...wire.ChunkAt) []wire.Section {
	m := one[ToSubscriber](r.t, r.send(GetRepair{Session: 5, Ask: 6, Chunks: chunks})).Message.(RepairMade)
	if m.Session != 5 || m.Ask != 6 {
		r.t.Fatalf("answer %+v", m)
	}
	if m.Sealed == nil {
		return nil
	}
	f := opened[*wire.Frame](r.t, m.Sealed)
	if !f.Repair {
		r.t.Fatal("no repairing frame")
	}
	return f.Sections
}

func (r *feedRig) resume(tick uint64) ResumeMade {
	return one[ToSubscriber](r.t, r.send(GetResume{Session: 5, Tick: tick})).Message.(ResumeMade)
}

// adopt brings new settings into force and returns what the subscribers hear.
func (r *feedRig) adopt(change func(*board.Settings)) SettingsTold {
	r.rules = testRules(r.rules, change)
	r.send(FeedSettings{r.rules})
	r.nowMs += FeedTickMs
	return r.send(FeedTick{})[0].(ToSubscribers).Message.(SettingsTold)
}

var (
	chunk0 = board.NewChunkID(0, 0)
	chunk1 = board.NewChunkID(1, 0)
	far    = board.NewChunkID(2, 2)
)

func t3(index int, colour board.Colour) wire.Tile {
	return wire.Tile{Index: uint16(index), Colour: colour}
}

func sameSection(a wire.Section, b wire.Section) bool {
	return a.Chunk == b.Chunk && a.Kind == b.Kind && a.Width == b.Width && a.Advance == b.Advance && a.Sequence == b.Sequence &&
		slices.Equal(a.Tiles, b.Tiles) && slices.Equal(a.Image, b.Image)
}

// A chunk with a gap is held back until its image comes; the others flow.
func TestFeedHoldsBackAGap(t *testing.T) {
	r := newFeedRig(t)
	r.applied(chunk0, 1, t3(5, 1))
	if e := r.applied(chunk0, 3, t3(6, 1)); one[AskBlock](t, e).Block != 0 {
		t.Fatal("asked for another block")
	}
	none[AskBlock](t, r.applied(chunk0, 4, t3(7, 1))) // asked already
	r.applied(chunk1, 1, t3(8, 2))
	sections := r.tick()
	if len(sections) != 2 || len(sections[0].Tiles) != 1 || sections[1].Chunk != chunk1 {
		t.Fatalf("sections %+v", sections)
	}
	r.nowMs += AskBlockMs
	one[AskBlock](t, r.send(FeedTick{})) // nobody answers: asked again, without a new placement
	r.image(chunk0, 3, t3(5, 1), t3(9, 1), t3(6, 1))
	r.nowMs += AskBlockMs
	one[AskBlock](t, r.send(FeedTick{})) // the image was older than the gap
	r.image(chunk0, 4, t3(5, 1), t3(9, 1), t3(6, 1), t3(7, 1))
	r.applied(chunk0, 5, t3(5, 15))
	sections = r.tick()
	if len(sections) != 1 || sections[0].Kind != wire.SectionSet || sections[0].Sequence != 5 {
		t.Fatalf("sections %+v", sections)
	}
	r.nowMs += AskBlockMs
	none[AskBlock](t, r.send(FeedTick{}))
	r.applied(chunk0, 2, t3(9, 9)) // old news
	r.image(chunk0, 3)
	if sections = r.tick(); sections != nil {
		t.Fatalf("old news makes a frame: %+v", sections)
	}
}

func TestFeedChoosesTheSection(t *testing.T) {
	var many, same []wire.Tile
	for i := range 700 {
		many = append(many, t3(i, 3))
	}
	for i := range 10 {
		same = append(same, t3(4, board.Colour(i)))
	}
	for _, c := range []struct {
		name    string
		tiles   []wire.Tile
		kind    wire.SectionKind
		width   board.Width
		count   int
		advance uint64
	}{
		{"one", []wire.Tile{t3(1, 1)}, wire.SectionRun, board.Width4, 1, 0},
		{"some", []wire.Tile{t3(1, 1), t3(2, 2), t3(1, 3)}, wire.SectionRun, board.Width4, 3, 0},
		{"a tile again and again", same, wire.SectionPatch, board.Width4, 1, 10},
		{"a colour above 15", []wire.Tile{t3(1, 16)}, wire.SectionRun, board.Width8, 1, 0},
		{"a quarter of the chunk", many, wire.SectionSet, board.Width4, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFeedRig(t)
			r.applied(chunk0, 1, c.tiles...)
			s := r.tick()[0]
			if s.Kind != c.kind || s.Width != c.width || len(s.Tiles) != c.count || s.Advance != c.advance {
				t.Fatalf("section %+v", s)
			}
			if s.Kind == wire.SectionSet && s.Sequence != uint64(len(c.tiles)) {
				t.Errorf("image of sequence %d", s.Sequence)
			}
		})
	}
	r := newFeedRig(t)
	if r.tick() != nil || r.feed.Tick() != 0 {
		t.Error("a tick without changes takes a number")
	}
}

func TestFeedRepairs(t *testing.T) {
	r := newFeedRig(t)
	for i := range ChunkRecentMax + 10 {
		r.applied(chunk0, uint64(i+1), t3(i, 2))
	}
	r.applied(far, 1, t3(1, 1))
	r.tick()
	newest := uint64(ChunkRecentMax + 10)

	run := r.repair(wire.ChunkAt{Chunk: chunk0, Sequence: newest - 2})
	want := wire.Section{Chunk: chunk0, Kind: wire.SectionRun, Width: board.Width4, Sequence: newest - 2, Tiles: []wire.Tile{t3(264, 2), t3(265, 2)}}
	if len(run) != 1 || !sameSection(run[0], want) {
		t.Fatalf("run %+v", run)
	}
	for _, held := range []uint64{0, newest - ChunkRecentMax - 1, newest + 5} {
		if s := r.repair(wire.ChunkAt{Chunk: chunk0, Sequence: held}); len(s) != 1 || s[0].Kind != wire.SectionSet || s[0].Sequence != newest {
			t.Errorf("held %d: %+v", held, s)
		}
	}
	twice := r.repair(wire.ChunkAt{Chunk: far}, wire.ChunkAt{Chunk: chunk0}, wire.ChunkAt{Chunk: far})
	if len(twice) != 2 || twice[0].Chunk != chunk0 {
		t.Errorf("a chunk named twice: %+v", twice)
	}
	if s := r.repair(wire.ChunkAt{Chunk: chunk0, Sequence: newest}, wire.ChunkAt{Chunk: chunk1}, wire.ChunkAt{Chunk: board.NewChunkID(9, 9)}); s != nil {
		t.Errorf("nothing to repair: %+v", s)
	}
	r.applied(chunk0, newest+1, t3(3, 3))
	if s := r.repair(wire.ChunkAt{Chunk: chunk0, Sequence: newest}); s != nil {
		t.Errorf("what has no frame yet is repaired: %+v", s)
	}
}

func TestFeedResumes(t *testing.T) {
	r := newFeedRig(t)
	for i := range 5 {
		r.applied(chunk0, uint64(i+1), t3(i, 1))
		r.tick()
	}
	for _, c := range []struct {
		tick uint64
		want int
	}{{5, 0}, {3, 2}, {0, 5}} {
		m := r.resume(c.tick)
		if !m.OK || len(m.Messages) != c.want || m.Tick != 5 {
			t.Fatalf("resume from %d: %+v", c.tick, m)
		}
		for i, sealed := range m.Messages {
			if f := opened[*wire.Frame](t, sealed); f.Tick != c.tick+uint64(i)+1 {
				t.Errorf("frame %d", f.Tick)
			}
		}
	}
	if r.resume(6).OK {
		t.Error("resumed from a tick that is not there yet")
	}
	r.nowMs += FeedRingMs - 3*FeedTickMs
	r.tick()
	if r.resume(1).OK || !r.resume(3).OK {
		t.Error("frames older than the ring's time are kept, or younger ones are not")
	}
	r.adopt(nil)
	if r.resume(5).OK {
		t.Error("resumed across a change of settings")
	}
	r.applied(chunk0, 6, t3(9, 1))
	r.tick()
	if m := r.resume(6); !m.OK || len(m.Messages) != 0 {
		t.Errorf("resume after it: %+v", m)
	}

	r = newFeedRig(t)
	var image [board.ChunkTiles]wire.Tile
	for i := range image {
		image[i] = t3(i, board.Colour(1+i%15))
	}
	var sequence uint64
	for range 2 * FeedRingBytesMax / 1250 {
		sequence += board.ChunkTiles
		r.image(chunk0, sequence, image[:]...)
		r.nowMs -= FeedTickMs // at one moment
		r.tick()
	}
	r.send(FeedTick{})
	if r.feed.ringBytes > FeedRingBytesMax || len(r.feed.ring) < 1000 {
		t.Errorf("the ring keeps %d frames of %d bytes", len(r.feed.ring), r.feed.ringBytes)
	}
}

// A feed that is made anew in a running process does not count from where its clients stand.
func TestFeedRestarts(t *testing.T) {
	r := newFeedRig(t)
	r.feed = NewFeed(77, 88, 41, r.rules)
	r.applied(chunk0, 1, t3(5, 1))
	s := r.tick()
	if r.feed.Tick() != 42 || len(s) != 1 || s[0].Kind != wire.SectionSet || s[0].Sequence != 1 {
		t.Fatalf("tick %d, sections %+v", r.feed.Tick(), s)
	}
	if r.resume(41).OK || !r.resume(42).OK {
		t.Error("frames of the feed before are taken for its own")
	}
	r.applied(chunk0, 2, t3(6, 1))
	if s = r.tick(); s[0].Kind != wire.SectionRun {
		t.Errorf("sections %+v", s)
	}
}

// Hashes, frames, tables and bodies cover every chunk that meets the board, and no other; tiles out of sight are kept.
func TestFeedShrinksAndGrows(t *testing.T) {
	r := newFeedRig(t)
	r.applied(chunk0, 1, t3(1, 1))
	r.applied(far, 1, t3(2, 2))
	r.tick()
	whole := r.feed.hashes
	told := r.adopt(func(s *board.Settings) { s.Width = 100 })
	if len(told.Table) != 1 || told.Table[0].Chunk != chunk0 || told.Hashes == whole || told.Tick != 1 {
		t.Fatalf("shrunk: %+v", told)
	}
	if c := opened[*wire.SettingsChanged](t, told.Sealed); c.Settings.Width != 100 || c.Tick != 1 {
		t.Fatalf("sessions hear %+v", c)
	}
	r.applied(far, 2, t3(3, 3))
	if s := r.tick(); s != nil {
		t.Fatalf("a frame of what is out of sight: %+v", s)
	}
	if s := r.repair(wire.ChunkAt{Chunk: far}); s != nil {
		t.Fatalf("a repair of it: %+v", s)
	}
	if b := body(t, r); len(b.Chunks) != 1 || b.Width != 100 {
		t.Fatalf("body %+v", b)
	}
	told = r.adopt(func(s *board.Settings) { s.Width = 120 })
	if len(told.Table) != 2 || told.Table[1].Sequence != 2 || told.Table[1].Tiles != r.feed.chunks[far].tiles.Hash(far) {
		t.Fatalf("grown: %+v", told.Table)
	}
	if b := body(t, r); len(b.Chunks) != 2 || b.Chunks[1].Sequence != 2 || b.Epoch != 77 || b.Incarnation != 88 {
		t.Fatalf("body %+v", b)
	}
	m := one[ToSubscriber](t, r.send(GetTable{Subscriber: 3}))
	if table := m.Message.(TableMade); m.Subscriber != 3 || !slices.Equal(table.Table, told.Table) || table.Hashes != told.Hashes || table.Rules != r.rules {
		t.Errorf("table %+v", table)
	}
	older := testRules(nil, nil)
	if r.send(FeedSettings{older}); r.feed.next != nil {
		t.Error("older settings are taken")
	}
}

func body(t *testing.T, r *feedRig) *wire.BoardBody {
	t.Helper()
	var b *wire.BoardBody
	r.send(GetBody{Reply: func(p PublishedBody) {
		var err error
		if b, err = wire.DecodeBoard(p.Body); err != nil || b.Tick != p.Tick {
			t.Fatalf("tick %d, body %+v: %v", p.Tick, b, err)
		}
	}})
	return b
}

func TestFeedTellsTilesAndColours(t *testing.T) {
	r := newFeedRig(t)
	r.applied(chunk0, 1, t3(51, 1))
	r.tick()
	r.applied(chunk0, 2, t3(51, 7))
	var now, empty ChunkImage
	r.send(GetTiles{Chunk: chunk0, Reply: func(i ChunkImage) { now = i }})
	r.send(GetTiles{Chunk: far, Reply: func(i ChunkImage) { empty = i }})
	if now.Sequence != 2 || now.Tiles[51] != 7 || empty.Tiles != nil {
		t.Fatalf("tiles with everything received: %+v %+v", now.Sequence, empty)
	}
	colour := func(p board.Point) Answered {
		m := one[ToSubscriber](t, r.send(GetColour{Subscriber: 2, Answered: Answered{Session: 4, Outcome: board.PlaceOutcome{At: p}}}))
		return m.Message.(Answered)
	}
	if a := colour(board.Point{X: 1, Y: 1}); !a.Coloured || !a.Outcome.TrueColour || a.Outcome.Colour != 1 || a.Session != 4 {
		t.Errorf("colour as of the newest frame: %+v", a)
	}
	if a := colour(board.Point{X: 500, Y: 1}); !a.Coloured || a.Outcome.TrueColour {
		t.Errorf("colour off the board: %+v", a)
	}
}

// Those who watch hear every placement once, with its user, and of an image what it changes.
func TestFeedTellsWatchers(t *testing.T) {
	r := newFeedRig(t)
	r.applied(chunk0, 1, t3(5, 1))
	none[TellWatchers](t, r.frame())
	r.feed.Watch()
	tile := AppliedTile{Chunk: chunk0, Tile: 6, Colour: 2, Kind: board.KindClear, Sequence: 2, User: "ann"}
	r.send(TilesApplied{Tiles: []AppliedTile{tile, tile}}) // a repeat is none
	told := one[TellWatchers](t, r.frame())
	if want := []board.PlacedTile{{At: chunk0.Point(6), Colour: 2, Kind: board.KindClear, User: "ann"}}; !slices.Equal(told.Placed, want) || told.Lost {
		t.Fatalf("told %+v", told)
	}
	none[TellWatchers](t, r.frame())
	r.applied(chunk0, 3, t3(7, 3))
	r.image(chunk0, 9, t3(5, 1), t3(6, 4), t3(7, 3))
	told = one[TellWatchers](t, r.frame())
	if want := []board.PlacedTile{{At: chunk0.Point(7), Colour: 3}, {At: chunk0.Point(6), Colour: 4}}; !slices.Equal(told.Placed, want) || told.Lost {
		t.Fatalf("of an image %+v", told)
	}
}

// A feed that has started again does not know what those who watch know.
func TestFeedThatStartedAgainTellsOfALoss(t *testing.T) {
	r := newFeedRig(t)
	r.feed = NewFeed(77, 88, 4, r.rules)
	r.feed.Watch()
	r.image(chunk0, 9, t3(5, 1))
	if told := one[TellWatchers](t, r.frame()); !told.Lost {
		t.Fatalf("told %+v", told)
	}
}

// frame lets the next tick come and returns all its effects.
func (r *feedRig) frame() []FeedEffect {
	r.nowMs += FeedTickMs
	return r.send(FeedTick{})
}
