package client

import (
	"errors"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// ErrEpoch says that a board body is of another epoch than the mirror.
var ErrEpoch = errors.New("client: board of another epoch")

// Mirror is a copy of a board, or of a rectangle of its chunks, kept from what a node sends. It does no I/O and is not safe
// for concurrent use: a Session guards its own.
//
// Of every chunk it knows two numbers: held, the sequence up to which its tiles are applied, and sent, the sequence up to
// which the node has told the session. Frames do not say where a run begins: it begins at sent. A board body may be older or
// newer than the frames: held < sent is a chunk behind, which Behind names for a repair; held > sent is a chunk ahead, which
// skips what it has. The mirror equals the node's board at Tick exactly when all chunks have held == sent (Settled).
type Mirror struct {
	epoch      uint64
	settings   board.Settings
	watched    wire.ChunkRect // what was subscribed to, unless everything was
	everything bool
	area       wire.ChunkRect // watched chunks that meet the board
	chunks     []mirrorChunk  // of area, row by row
	tick       uint64
	complete   uint64 // every frame up to this tick has been applied; the newest may have come in part only
	loaded     bool
	hashes     board.Hashes // of what is held

	unsettled int // chunks with held != sent, of unknown position or dirty
	wanting   int // chunks to be named by Behind
	unknown   int // chunks of unknown position
	asked     int // chunks named by Behind and not answered yet
	repeats   uint64
}

type mirrorChunk struct {
	tiles   *board.Tiles // nil: blank
	held    uint64
	sent    uint64
	tick    uint64 // of the last section
	askedAt uint64 // the sequence named by Behind
	known   bool   // sent is known
	asked   bool
	dirty   bool // the tiles are wrong: only a repair from sequence 0 or an image helps
	resting bool // a repair brought it nowhere: not asked again before Retry
}

func (c *mirrorChunk) unsettled() bool { return !c.known || c.held != c.sent || c.dirty }

func (c *mirrorChunk) wanting() bool {
	return c.known && (c.held < c.sent || c.dirty) && !c.asked && !c.resting
}

// NewMirror returns a mirror of the whole board of an epoch under settings. Nothing is known of it yet.
func NewMirror(epoch uint64, s *board.Settings) *Mirror {
	m := &Mirror{everything: true}
	m.Reset(epoch, s)
	return m
}

// Reset forgets everything and starts again with another epoch.
func (m *Mirror) Reset(epoch uint64, s *board.Settings) {
	*m = Mirror{epoch: epoch, settings: *s, watched: m.watched, everything: m.everything, repeats: m.repeats}
	m.regrid()
}

// Watch changes what is mirrored: the whole board, or a rectangle of chunks. What is held of chunks that stay is kept.
func (m *Mirror) Watch(whole bool, rect wire.ChunkRect) {
	m.everything, m.watched = whole, rect
	m.regrid()
}

// ApplySettings adopts new settings: chunks that no longer meet the board are dropped, new ones are added; where the frames
// of the added ones stand is unknown until a base, an image or hashes say it (Unknown).
func (m *Mirror) ApplySettings(s *board.Settings) {
	m.settings = *s
	m.regrid()
}

// Settings returns the settings in force at Tick.
func (m *Mirror) Settings() board.Settings { return m.settings }

// Epoch returns the board's epoch.
func (m *Mirror) Epoch() uint64 { return m.epoch }

// Tick returns the tick of the newest frame or base.
func (m *Mirror) Tick() uint64 { return m.tick }

// ResumeTick returns the tick to resume from: of frames up to it nothing is missing. The newest frame itself is asked for
// again, for a node may send a tick in several frames; what has been applied is passed over.
func (m *Mirror) ResumeTick() uint64 { return m.complete }

func (m *Mirror) advance(tick uint64) {
	if tick > m.tick {
		m.complete, m.tick = m.tick, tick
	}
}

// Reached notes that everything up to a tick has been sent: a heartbeat says so.
func (m *Mirror) Reached(tick uint64) {
	m.tick = max(m.tick, tick)
	m.complete = m.tick
}

// Hashes returns the hashes of what is held. They are the board's at Tick when Settled.
func (m *Mirror) Hashes() board.Hashes { return m.hashes }

// Settled reports whether the mirror equals the node's board at Tick.
func (m *Mirror) Settled() bool { return m.unsettled == 0 }

// Counts returns how many chunks are mirrored, how many of them are not settled, and how many of these are behind and not
// asked for yet.
func (m *Mirror) Counts() (chunks, unsettled, behind int) {
	return len(m.chunks), m.unsettled, m.wanting
}

// Tile returns the colour of a tile; false when the tile is not mirrored or not on the board.
func (m *Mirror) Tile(p board.Point) (board.Colour, bool) {
	if p.X < 0 || p.Y < 0 || p.X >= m.settings.Width || p.Y >= m.settings.Height {
		return 0, false
	}
	c := m.at(p.Chunk())
	if c == nil {
		return 0, false
	}
	if c.tiles == nil {
		return 0, true
	}
	return c.tiles[p.Tile()], true
}

// Chunk copies a chunk's tiles into dst and returns the sequence held; false when the chunk is not mirrored.
func (m *Mirror) Chunk(id board.ChunkID, dst *board.Tiles) (sequence uint64, ok bool) {
	c := m.at(id)
	if c == nil {
		return 0, false
	}
	if c.tiles == nil {
		*dst = board.Tiles{}
	} else {
		*dst = *c.tiles
	}
	return c.held, true
}

// Apply applies an encoded frame. An error means that the bytes are no frame; whole sections before the fault are applied.
func (m *Mirror) Apply(frame []byte) error {
	tick, repair, err := frameTick(frame)
	if err != nil {
		return err
	}
	if _, _, err := wire.DecodeFrame(frame, func(s *wire.Section) error { m.ApplySection(tick, repair, s); return nil }); err != nil {
		return err
	}
	if !repair {
		m.advance(tick)
	}
	return nil
}

// ApplyFrame applies a decoded frame.
func (m *Mirror) ApplyFrame(f *wire.Frame) {
	for i := range f.Sections {
		m.ApplySection(f.Tick, f.Repair, &f.Sections[i])
	}
	if !f.Repair {
		m.advance(f.Tick)
	}
}

// ApplySection applies one section of a frame with the given tick; repair tells a frame that answers a repair. Chunks that
// are not mirrored are passed over, and so is a section of a tick that its chunk has seen.
func (m *Mirror) ApplySection(tick uint64, repair bool, s *wire.Section) {
	c := m.at(s.Chunk)
	if c == nil {
		return
	}
	if !repair && tick <= c.tick {
		m.repeats++
		return
	}
	m.count(c, -1)
	switch {
	case s.Kind == wire.SectionSet:
		m.set(s.Chunk, c, s, repair)
	case repair:
		m.repair(s.Chunk, c, s)
	case c.known:
		start := c.sent
		c.sent += length(s)
		m.extend(s.Chunk, c, start, s)
	}
	c.tick = max(c.tick, tick) // a repair's is that of the newest frame that it makes up for
	m.count(c, +1)
}

// ApplyBase adopts where the node's frames stand. Of a resumed base only the listed chunks are news.
func (m *Mirror) ApplyBase(b *wire.Base) {
	for i := range m.chunks {
		c := &m.chunks[i]
		m.count(c, -1)
		c.tick, c.asked, c.resting = b.Tick, false, false
		if !b.Resumed {
			c.known, c.sent = true, 0
		}
		m.count(c, +1)
	}
	for _, at := range b.Chunks {
		if c := m.at(at.Chunk); c != nil {
			m.count(c, -1)
			c.known, c.sent = true, at.Sequence
			m.count(c, +1)
		}
	}
	m.tick, m.complete = b.Tick, b.Tick
}

// ApplyBody adopts every chunk of a fetched board that is newer than what is held. It returns ErrEpoch for another board.
func (m *Mirror) ApplyBody(b *wire.BoardBody) error {
	if b.Epoch != m.epoch {
		return ErrEpoch
	}
	for i := range b.Chunks {
		from := &b.Chunks[i]
		c := m.at(from.Chunk)
		if c == nil || (c.held >= from.Sequence && !c.dirty) {
			continue
		}
		m.count(c, -1)
		if m.image(from.Chunk, c, from.Image, b.ColourWidth) {
			m.hold(from.Chunk, c, from.Sequence)
			c.dirty = false
		}
		m.count(c, +1)
	}
	m.loaded = true
	return nil
}

// ApplyHashes compares the chunks of rect with the answer to GetHashes for it: where the node's frames stand becomes known,
// chunks with other tiles become dirty and are named by Behind. It returns how many differed in their tiles.
func (m *Mirror) ApplyHashes(rect wire.ChunkRect, h *wire.ChunkHashes) (different int) {
	m.each(rect, func(id board.ChunkID, c *mirrorChunk) {
		var want wire.ChunkHash
		if i, ok := slices.BinarySearchFunc(h.Chunks, id, func(e wire.ChunkHash, id board.ChunkID) int { return int(e.Chunk) - int(id) }); ok {
			want = h.Chunks[i]
		}
		m.count(c, -1)
		if c.known && c.sent != want.Sequence {
			c.dirty = true // a run was missed: what is held is not what its sequence says
		}
		c.known, c.sent, c.tick = true, want.Sequence, max(c.tick, h.Tick)
		switch {
		case c.dirty:
			different++
		case c.held < want.Sequence:
		case c.held > want.Sequence, c.tileHash(id) != want.Tiles:
			different++
			c.dirty = true
		}
		if c.dirty && want.Sequence == 0 {
			m.blank(id, c)
			m.hold(id, c, 0)
			c.dirty = false
		}
		m.count(c, +1)
	})
	return different
}

// Behind names up to most chunks that are behind, with the sequences held (0 for wrong tiles), and remembers that they were
// asked for: the next repair of each is taken to begin there.
func (m *Mirror) Behind(most int) []wire.ChunkAt {
	if m.wanting == 0 {
		return nil
	}
	list := make([]wire.ChunkAt, 0, min(most, m.wanting))
	for i := 0; i < len(m.chunks) && len(list) < most; i++ {
		c := &m.chunks[i]
		if !c.wanting() {
			continue
		}
		m.count(c, -1)
		c.asked, c.askedAt = true, c.held
		if c.dirty {
			c.askedAt = 0
		}
		m.count(c, +1)
		list = append(list, wire.ChunkAt{Chunk: m.id(i), Sequence: c.askedAt})
	}
	return list
}

// Retry lets Behind name chunks again that a repair did not help.
func (m *Mirror) Retry() {
	for i := range m.chunks {
		m.count(&m.chunks[i], -1)
		m.chunks[i].resting = false
		m.count(&m.chunks[i], +1)
	}
}

// Unknown returns rectangles of at most most chunks that cover the chunks whose frames stand nobody knows where: GetHashes
// for them tells.
func (m *Mirror) Unknown(most int) []wire.ChunkRect {
	if m.unknown == 0 {
		return nil
	}
	first, last := wire.ChunkRect{Col: 1 << 16, Row: 1 << 16}, wire.ChunkRect{}
	for i := range m.chunks {
		if id := m.id(i); !m.chunks[i].known {
			first.Col, first.Row = min(first.Col, id.Col()), min(first.Row, id.Row())
			last.Col, last.Row = max(last.Col, id.Col()), max(last.Row, id.Row())
		}
	}
	return split(wire.ChunkRect{Col: first.Col, Row: first.Row, Cols: last.Col - first.Col + 1, Rows: last.Row - first.Row + 1}, most)
}

// Body returns what is held as a board body, for comparisons and dumps.
func (m *Mirror) Body() *wire.BoardBody {
	b := &wire.BoardBody{
		Epoch: m.epoch, Tick: m.tick, Width: m.settings.Width, Height: m.settings.Height, ColourWidth: m.settings.ColourWidth(),
	}
	for i := range m.chunks {
		c := &m.chunks[i]
		if c.held == 0 {
			continue
		}
		var tiles board.Tiles
		if c.tiles != nil {
			tiles = *c.tiles
		}
		b.Chunks = append(b.Chunks, wire.BodyChunk{Chunk: m.id(i), Sequence: c.held, Image: tiles.AppendImage(nil, b.ColourWidth)})
	}
	return b
}

// Diff returns the mirrored chunks whose sequence or tiles are not those of a board body.
func (m *Mirror) Diff(b *wire.BoardBody) []board.ChunkID {
	want := make(map[board.ChunkID]*wire.BodyChunk, len(b.Chunks))
	for i := range b.Chunks {
		want[b.Chunks[i].Chunk] = &b.Chunks[i]
	}
	var out []board.ChunkID
	for i := range m.chunks {
		id, have := m.id(i), board.Tiles{}
		sequence, _ := m.Chunk(id, &have)
		var tiles board.Tiles
		var at uint64
		if w := want[id]; w != nil {
			at = w.Sequence
			if tiles.SetImage(w.Image, b.ColourWidth) != nil {
				at = sequence + 1
			}
		}
		if at != sequence || tiles != have {
			out = append(out, id)
		}
	}
	return out
}
