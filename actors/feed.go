package actors

// In:  TilesApplied from regions, one message a commit.
// Out: one frame a tick, encoded once, to the subscribers; repairs and the packed board on request.
// The feed holds the node's replica of the board as of the newest frame; what came since waits for the next tick. A chunk
// with a gap is held back until its region has sent its image; the others flow.
// Next: actors/subscriber.go.

import (
	"maps"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// Bounds of a feed.
const (
	// FeedTickMs is the time between frames; it grows to FeedTickMsMax when a round of writes takes over half of it.
	FeedTickMs    = 100
	FeedTickMsMax = 250
	// FeedRingMs and FeedRingBytesMax bound the recent frames kept for resuming clients.
	FeedRingMs       = 60_000
	FeedRingBytesMax = 4 << 20
	// ChunkRecentMax is how many placements of a chunk are kept for repairs.
	ChunkRecentMax = 256
	// AskBlockMs is how long the feed waits for BlockImages before it asks again.
	AskBlockMs = 500
)

// Feed is the core of a node's feed actor.
type Feed struct {
	epoch       uint64
	incarnation uint64
	rules       *Rules
	next        *Rules // in force with the next frame
	tick        uint64
	resumable   uint64 // the oldest tick that a client may resume from
	restarted   bool   // clients stand where an earlier feed brought them
	chunks      map[board.ChunkID]*feedChunk
	dirty       []*feedChunk // with placements or an image since the newest frame
	gaps        map[board.BlockID]int64
	hashes      board.Hashes // of the chunks that meet the board
	ring        []ringEntry
	ringBytes   int
	sections    []wire.Section
	watched     bool
	placed      []board.PlacedTile // since the newest frame, for those who watch
	lost        bool               // more than placed says
	out         []FeedEffect
}

type ringEntry struct {
	tick   uint64
	atMs   int64
	sealed wire.Sealed
}

// NewFeed returns the core of a feed without a board. tick is the number of the newest frame of an earlier feed of the same
// process.
func NewFeed(epoch, incarnation, tick uint64, rules *Rules) *Feed {
	f := &Feed{
		epoch: epoch, incarnation: incarnation, tick: tick, rules: rules, restarted: tick > 0,
		chunks: map[board.ChunkID]*feedChunk{}, gaps: map[board.BlockID]int64{},
	}
	if f.restarted {
		f.resumable = tick + 1
	}
	return f
}

// Tick returns the number of the newest frame.
func (f *Feed) Tick() uint64 { return f.tick }

// Chunks returns how many chunks the replica holds.
func (f *Feed) Chunks() int { return len(f.chunks) }

// Receive handles one message at wall time wallMs (Unix milliseconds) and returns what to do. The result is valid until the
// next call.
func (f *Feed) Receive(wallMs int64, message FeedMessage) []FeedEffect {
	f.out = f.out[:0]
	switch m := message.(type) {
	case TilesApplied:
		f.tilesApplied(wallMs, m)
	case BlockImages:
		f.blockImages(m)
	case FeedTick:
		f.makeFrame(wallMs)
	case FeedSettings:
		if m.Rules.Version() > max(f.rules.Version(), f.next.Version()) {
			f.next = m.Rules
		}
	case GetRepair:
		sealed := f.repair(m.Chunks)
		f.emit(ToSubscriber{m.Subscriber, RepairMade{Session: m.Session, Ask: m.Ask, Chunks: m.Chunks, Sealed: sealed}})
	case GetResume:
		f.emit(ToSubscriber{m.Subscriber, f.resume(m)})
	case GetTable:
		table, hashes := f.table()
		f.emit(ToSubscriber{m.Subscriber, TableMade{Tick: f.tick, Rules: f.rules, Table: table, Hashes: hashes}})
	case GetColour:
		f.emit(ToSubscriber{m.Subscriber, f.withColour(m.Answered)})
	case GetBody:
		m.Reply(f.body())
	case GetTiles:
		m.Reply(f.tilesNow(m.Chunk))
	case blocksCounted:
		f.compare(wallMs, m.blocks)
	case countBlocks:
		m.reply(f.counts())
	}
	return f.out
}

func (f *Feed) emit(e FeedEffect) { f.out = append(f.out, e) }

func (f *Feed) chunk(id board.ChunkID) *feedChunk {
	c := f.chunks[id]
	if c == nil {
		c = &feedChunk{id: id}
		f.chunks[id] = c
	}
	return c
}

func (f *Feed) touch(c *feedChunk) {
	if !c.isDirty {
		c.isDirty = true
		f.dirty = append(f.dirty, c)
	}
}

// tilesApplied lets placements wait for the next frame, and asks for the block's images at a gap.
func (f *Feed) tilesApplied(wallMs int64, m TilesApplied) {
	for i := range m.Tiles {
		t := &m.Tiles[i]
		c := f.chunk(t.Chunk)
		switch {
		case t.Sequence <= c.head:
		case t.Sequence == c.head+1:
			c.head++
			c.waiting = append(c.waiting, wire.Tile{Index: t.Tile, Colour: t.Colour})
			f.touch(c)
			if f.watched {
				f.placed = append(f.placed, board.PlacedTile{At: t.Chunk.Point(int(t.Tile)), Colour: t.Colour, Kind: t.Kind, User: t.User})
			}
		default:
			c.heard = max(c.heard, t.Sequence)
			f.gap(wallMs, m.Block)
		}
	}
}

func (f *Feed) gap(wallMs int64, b board.BlockID) {
	if asked, ok := f.gaps[b]; !ok || !waits(wallMs, asked+AskBlockMs, AskBlockMs) {
		f.gaps[b] = wallMs
		f.emit(AskBlock{Block: b})
	}
}

// askAgain asks again for the blocks whose gaps no answer has closed: it was lost, or older than the gap.
func (f *Feed) askAgain(wallMs int64) {
	for _, b := range slices.Sorted(maps.Keys(f.gaps)) {
		if f.hasGap(b) {
			f.gap(wallMs, b)
		} else {
			delete(f.gaps, b)
		}
	}
}

func (f *Feed) hasGap(b board.BlockID) bool {
	for _, id := range b.Chunks() {
		if c := f.chunks[id]; c != nil && c.heard > c.head {
			return true
		}
	}
	return false
}

// blockImages takes the chunks that are newer than what is here.
func (f *Feed) blockImages(m BlockImages) {
	for _, image := range m.Chunks {
		c := f.chunk(image.Chunk)
		if image.Sequence <= c.head {
			continue
		}
		f.watchImage(c, image.Tiles)
		c.head, c.set, c.setAt, c.waiting = image.Sequence, image.Tiles, image.Sequence, c.waiting[:0]
		f.touch(c)
	}
	if !f.hasGap(m.Block) {
		delete(f.gaps, m.Block)
	}
}

// makeFrame applies what waits and encodes it once for everybody.
func (f *Feed) makeFrame(wallMs int64) {
	f.trimRing(wallMs)
	f.askAgain(wallMs)
	if f.next != nil {
		f.takeSettings(wallMs)
	}
	if len(f.dirty) == 0 {
		return
	}
	defer f.tellWatchers()
	slices.SortFunc(f.dirty, func(a, b *feedChunk) int { return int(a.id) - int(b.id) })
	sections := make([]wire.Section, 0, len(f.dirty))
	marks := make([]ChunkMark, 0, len(f.dirty))
	for _, c := range f.dirty {
		before, hash := c.sequence, c.hash
		section := c.apply()
		if before == 0 && f.restarted {
			section = c.setSection() // its clients may stand further than 0
		}
		c.isDirty = false
		if !f.rules.Settings().HasChunk(c.id) {
			continue // kept, and shown when the board grows again
		}
		f.hashes.Tiles ^= hash ^ c.hash
		f.hashes.Sequences ^= board.SequenceHash(c.id, before) ^ board.SequenceHash(c.id, c.sequence)
		sections = append(sections, section)
		marks = append(marks, ChunkMark{Chunk: c.id, Before: before, Sequence: c.sequence, Tiles: c.hash})
	}
	f.dirty = f.dirty[:0]
	if len(sections) == 0 {
		return
	}
	f.tick++
	sealed := wire.SealServer(&wire.Frame{Tick: f.tick, Sections: sections})
	f.remember(ringEntry{tick: f.tick, atMs: wallMs, sealed: sealed})
	f.emit(ToSubscribers{FrameMade{Tick: f.tick, Whole: sealed, Sections: sections, Marks: marks, Hashes: f.hashes}})
}

// Watch has every placement told from now on, by TellWatchers.
func (f *Feed) Watch() { f.watched = true }

// watchImage tells those who watch how an image differs from what they know of the chunk; of a feed that has started again
// nobody knows what they know.
func (f *Feed) watchImage(c *feedChunk, image *board.Tiles) {
	switch {
	case !f.watched:
		return
	case f.restarted && c.head == 0:
		f.lost = true
		return
	}
	before := c.now()
	for i, colour := range image {
		if colour != before[i] {
			f.placed = append(f.placed, board.PlacedTile{At: c.id.Point(i), Colour: colour})
		}
	}
}

func (f *Feed) tellWatchers() {
	if len(f.placed) > 0 || f.lost {
		f.emit(TellWatchers{Placed: f.placed, Lost: f.lost})
	}
	f.placed, f.lost = f.placed[:0], false
}

// table returns where every chunk stands that meets the board and has placements, ascending, and the board's hashes.
func (f *Feed) table() ([]ChunkMark, board.Hashes) {
	var table []ChunkMark
	var hashes board.Hashes
	for id, c := range f.chunks {
		if c.sequence == 0 || !f.rules.Settings().HasChunk(id) {
			continue
		}
		hashes.Tiles ^= c.hash
		hashes.Sequences ^= board.SequenceHash(id, c.sequence)
		table = append(table, ChunkMark{Chunk: id, Before: c.sequence, Sequence: c.sequence, Tiles: c.hash})
	}
	slices.SortFunc(table, func(a, b ChunkMark) int { return int(a.Chunk) - int(b.Chunk) })
	return table, hashes
}

// takeSettings puts new settings in force for the frames after the newest.
func (f *Feed) takeSettings(wallMs int64) {
	f.rules, f.next = f.next, nil
	var table []ChunkMark
	table, f.hashes = f.table()
	sealed := wire.SealServer(&wire.SettingsChanged{Tick: f.tick, Settings: f.rules.Record.Settings})
	f.ring, f.ringBytes = nil, 0 // a client that missed the change compares its chunks with Base instead
	f.resumable = f.tick + 1
	f.emit(ToSubscribers{SettingsTold{Tick: f.tick, Rules: f.rules, Sealed: sealed, Table: table, Hashes: f.hashes}})
}

func (f *Feed) remember(e ringEntry) {
	f.ring = append(f.ring, e)
	f.ringBytes += len(e.sealed)
}

func (f *Feed) trimRing(wallMs int64) {
	drop := 0
	for drop < len(f.ring) && (f.ringBytes > FeedRingBytesMax || wallMs-f.ring[drop].atMs > FeedRingMs) {
		f.ringBytes -= len(f.ring[drop].sealed)
		drop++
	}
	if drop > 0 {
		f.ring = slices.Delete(f.ring, 0, drop)
	}
}

// resume returns the frames after a tick, if the ring still holds all of them.
func (f *Feed) resume(m GetResume) ResumeMade {
	r := ResumeMade{Session: m.Session, Tick: f.tick}
	missed := f.tick - m.Tick
	if m.Tick > f.tick || m.Tick < f.resumable || missed > uint64(len(f.ring)) {
		return r
	}
	r.OK = true
	for _, e := range f.ring[len(f.ring)-int(missed):] {
		r.Messages = append(r.Messages, e.sealed)
	}
	return r
}

// repair returns one repair frame that brings chunks from what a client holds to the newest frame: a run of what it missed
// where that is known and short, else the image.
func (f *Feed) repair(chunks []wire.ChunkAt) wire.Sealed {
	chunks = slices.Clone(chunks)
	slices.SortFunc(chunks, func(a, b wire.ChunkAt) int { return int(a.Chunk) - int(b.Chunk) })
	chunks = slices.CompactFunc(chunks, func(a, b wire.ChunkAt) bool { return a.Chunk == b.Chunk })
	sections := f.sections[:0]
	for _, at := range chunks {
		c := f.chunks[at.Chunk]
		if c == nil || c.sequence == at.Sequence || !f.rules.Settings().HasChunk(at.Chunk) {
			continue
		}
		missed := c.sequence - at.Sequence
		if at.Sequence < c.sequence && missed <= uint64(len(c.recent)) {
			tiles := slices.Clone(c.recent[len(c.recent)-int(missed):])
			sections = append(sections, wire.Section{
				Chunk: c.id, Kind: wire.SectionRun, Width: widthOf(tiles), Sequence: at.Sequence, Tiles: tiles,
			})
			continue
		}
		sections = append(sections, c.setSection())
	}
	f.sections = sections
	if len(sections) == 0 {
		return nil
	}
	return wire.SealServer(&wire.Frame{Tick: f.tick, Repair: true, Sections: sections})
}

// withColour fills in what the newest frame shows at the tile of a refusal.
func (f *Feed) withColour(a Answered) Answered {
	a.Coloured = true
	p := a.Outcome.At
	if !f.rules.Settings().Bounds().Contains(p) {
		return a
	}
	a.Outcome.TrueColour = true
	if c := f.chunks[p.Chunk()]; c != nil {
		a.Outcome.Colour = c.tiles[p.Tile()]
	}
	return a
}

// body packs the board as of the newest frame.
func (f *Feed) body() PublishedBody {
	s := f.rules.Settings()
	b := wire.BoardBody{
		Epoch: f.epoch, Incarnation: f.incarnation, Tick: f.tick, Width: s.Width, Height: s.Height, ColourWidth: s.ColourWidth(),
	}
	for id, c := range f.chunks {
		if c.sequence == 0 || !s.HasChunk(id) {
			continue
		}
		c.pack()
		image := c.image
		if c.width != b.ColourWidth {
			image = c.tiles.AppendImage(nil, b.ColourWidth)
		}
		b.Chunks = append(b.Chunks, wire.BodyChunk{Chunk: id, Sequence: c.sequence, Image: image})
	}
	slices.SortFunc(b.Chunks, func(x, y wire.BodyChunk) int { return int(x.Chunk) - int(y.Chunk) })
	return PublishedBody{Tick: f.tick, Body: wire.AppendBoard(nil, &b)}
}

// tilesNow returns a chunk with everything received, waiting placements included.
func (f *Feed) tilesNow(id board.ChunkID) ChunkImage {
	c := f.chunks[id]
	if c == nil || c.head == 0 {
		return ChunkImage{Chunk: id}
	}
	tiles := c.now()
	return ChunkImage{Chunk: id, Sequence: c.head, Tiles: &tiles}
}
