package actors

import (
	"fmt"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// simMirror is a board as one session sees it.
type simMirror struct {
	s           *simSession
	settings    board.Settings
	chunks      map[board.ChunkID]*simChunk
	tick        uint64
	complete    uint64 // no frame up to here is missing
	incarnation uint64
	based       bool // frames go on from the positions
	everBased   bool
	positioned  bool // the positions are those of the incarnation
	loading     bool
	asked       bool
	hashing     bool
	healed      int
}

type simChunk struct {
	tiles    board.Tiles
	held     uint64
	position uint64
	tick     uint64 // of the newest section: one of an older or the same tick is a repeat
	wrong    bool
}

func newSimMirror(s *simSession, settings board.Settings) *simMirror {
	return &simMirror{s: s, settings: settings, chunks: map[board.ChunkID]*simChunk{}}
}

// each visits the chunks that the session sees, ascending.
func (m *simMirror) each(visit func(board.ChunkID, *simChunk)) {
	cols, rows := board.ChunkGrid(m.settings.Width, m.settings.Height)
	for row := range rows {
		for col := range cols {
			id := board.NewChunkID(col, row)
			if !m.sees(id) {
				continue
			}
			if m.chunks[id] == nil {
				m.chunks[id] = new(simChunk)
			}
			visit(id, m.chunks[id])
		}
	}
}

func (m *simMirror) sees(id board.ChunkID) bool {
	r := m.s.part
	return m.settings.HasChunk(id) &&
		(r.Cols == 0 || id.Col() >= r.Col && id.Col() < r.Col+r.Cols && id.Row() >= r.Row && id.Row() < r.Row+r.Rows)
}

func (m *simMirror) lost() {
	m.loading, m.asked, m.hashing, m.based = false, false, false, false
}

func (m *simMirror) hello(h *wire.Hello) {
	m.adopt(h.Settings) // perhaps older ones than another node had: this session goes by them
	subscribe := &wire.Subscribe{Whole: m.s.part.Cols == 0, Chunks: m.s.part}
	m.positioned = m.positioned && m.incarnation == h.Incarnation
	if m.positioned {
		subscribe.Resume = &wire.Resume{Epoch: h.Epoch, Incarnation: h.Incarnation, Tick: m.complete}
		m.based = true // the frames that follow go on from where the last connection ended
	}
	m.incarnation = h.Incarnation
	m.s.say(subscribe)
}

// adopt takes new settings: chunks that leave the board are forgotten, new ones stand at 0.
func (m *simMirror) adopt(s board.Settings) {
	m.settings = s
	for id := range m.chunks {
		if !s.HasChunk(id) {
			delete(m.chunks, id)
		}
	}
}

func (m *simMirror) receive(message wire.ServerMessage) {
	switch x := message.(type) {
	case *wire.Base:
		m.base(x)
	case *wire.Frame:
		m.frame(x)
	case *wire.SettingsChanged:
		m.adopt(x.Settings) // in force for all that follows
	case *wire.ChunkHashes:
		m.hashes(x)
	case *wire.Heartbeat:
		m.heartbeat(x)
	}
	m.next()
}

func (m *simMirror) base(b *wire.Base) {
	if !b.Resumed {
		m.each(func(_ board.ChunkID, c *simChunk) { c.position = 0 })
	}
	m.each(func(_ board.ChunkID, c *simChunk) { c.tick = b.Tick })
	for _, at := range b.Chunks {
		if c := m.chunks[at.Chunk]; c != nil && m.sees(at.Chunk) {
			c.position = at.Sequence
		}
	}
	first := !m.everBased
	m.tick, m.complete, m.based, m.everBased, m.positioned = b.Tick, b.Tick, true, true, true
	if first && m.s.part.Cols == 0 && m.s.c.w.chance(0.7) {
		m.fetch()
	}
}

// fetch gets the whole board over HTTP, from the node's feed as it is then.
func (m *simMirror) fetch() {
	m.loading = true
	s, id := m.s, m.s.id
	s.n.feed.box.put(GetBody{Reply: func(b PublishedBody) {
		s.c.w.after(s.c.w.delay(), "board body", func() {
			if s.id == id && !s.conn.closed {
				s.box.put(simBody{b.Body})
			}
		})
	}})
}

func (m *simMirror) body(b []byte) {
	body, err := wire.DecodeBoard(b)
	if err != nil {
		m.s.c.w.fail("wire", "board body: %v", err)
	}
	if !m.loading {
		return
	}
	m.loading = false
	for _, from := range body.Chunks {
		c := m.chunks[from.Chunk]
		if c == nil || !m.sees(from.Chunk) || c.held >= from.Sequence {
			continue
		}
		if err := c.tiles.SetImage(from.Image, body.ColourWidth); err != nil {
			panic(err)
		}
		c.held = from.Sequence
	}
}

func (m *simMirror) frame(f *wire.Frame) {
	if !m.based {
		return
	}
	if f.Repair {
		m.asked = false
	}
	m.each(func(board.ChunkID, *simChunk) {})
	for i := range f.Sections {
		x := &f.Sections[i]
		if c := m.chunks[x.Chunk]; c != nil && m.sees(x.Chunk) {
			c.apply(f, x)
		}
	}
	if !f.Repair && f.Tick > m.tick {
		m.complete, m.tick = m.tick, f.Tick
	}
}

// apply follows the four rules of docs/protocol.md, section 8.
func (c *simChunk) apply(f *wire.Frame, x *wire.Section) {
	begin, end := c.position, c.position+uint64(len(x.Tiles))
	if f.Repair {
		begin, end = x.Sequence, x.Sequence+uint64(len(x.Tiles))
	} else if f.Tick <= c.tick {
		return
	}
	switch x.Kind {
	case wire.SectionPatch:
		end = begin + x.Advance
	case wire.SectionSet:
		end = x.Sequence
	case wire.SectionRun:
	}
	c.tick = max(c.tick, f.Tick)
	if !f.Repair || end > c.position {
		c.position = end
	}
	if x.Kind == wire.SectionSet {
		if end >= c.held || c.wrong {
			if err := c.tiles.SetImage(x.Image, x.Width); err != nil {
				panic(err)
			}
			c.held, c.wrong = end, false
		}
		return
	}
	if c.wrong && f.Repair && begin == 0 {
		c.tiles, c.held, c.wrong = board.Tiles{}, 0, false
	}
	if begin > c.held || c.held >= end {
		return
	}
	tiles := x.Tiles
	if x.Kind == wire.SectionRun {
		tiles = tiles[c.held-begin:]
	}
	for _, t := range tiles {
		c.tiles[t.Index] = t.Colour
	}
	c.held = end
}

// next asks for what is missing.
func (m *simMirror) next() {
	if !m.based || m.loading || m.asked {
		return
	}
	var behind []wire.ChunkAt
	m.each(func(id board.ChunkID, c *simChunk) {
		switch {
		case c.wrong:
			behind = append(behind, wire.ChunkAt{Chunk: id})
		case c.held < c.position:
			behind = append(behind, wire.ChunkAt{Chunk: id, Sequence: c.held})
		}
	})
	if len(behind) > 0 {
		m.asked = true
		m.s.say(&wire.Repair{Chunks: behind})
	}
}

// String says where the mirror stands.
func (m *simMirror) String() string {
	if m == nil {
		return "nothing heard"
	}
	text := fmt.Sprintf("based %v, loading %v, asked %v;", m.based, m.loading, m.asked)
	m.each(func(id board.ChunkID, c *simChunk) {
		if c.held != c.position || c.wrong {
			text += fmt.Sprintf(" chunk %v: held %d, position %d, wrong %v;", id, c.held, c.position, c.wrong)
		}
	})
	return text
}

// settled reports whether the mirror should equal the node's board.
func (m *simMirror) settled() bool {
	settled := m.based && !m.loading && !m.asked
	m.each(func(_ board.ChunkID, c *simChunk) { settled = settled && c.held == c.position && !c.wrong })
	return settled
}

func (m *simMirror) heartbeat(h *wire.Heartbeat) {
	if !m.based {
		return
	}
	m.tick, m.complete = max(m.tick, h.Tick), max(m.tick, h.Tick)
	if m.loading {
		m.fetch() // the answer was lost with the feed
		return
	}
	if m.asked {
		m.asked = false // the answer was lost with the node's notes, or is still under way
		return
	}
	if !m.settled() || m.hashing {
		return
	}
	var own board.Hashes
	m.each(func(id board.ChunkID, c *simChunk) {
		own.Tiles ^= c.tiles.Hash(id)
		own.Sequences ^= board.SequenceHash(id, c.held)
	})
	if own == h.Hashes {
		m.s.c.w.check.beats++
		return
	}
	m.s.c.w.check.diverged(m)
	m.healed++
	m.hashing = true
	cols, rows := board.ChunkGrid(m.settings.Width, m.settings.Height)
	m.s.say(&wire.GetHashes{Chunks: wire.ChunkRect{Cols: cols, Rows: rows}})
}

func (m *simMirror) hashes(h *wire.ChunkHashes) {
	m.hashing = false
	want := map[board.ChunkID]wire.ChunkHash{}
	for _, x := range h.Chunks {
		want[x.Chunk] = x
	}
	m.each(func(id board.ChunkID, c *simChunk) {
		x := want[id]
		if c.held != x.Sequence || c.tiles.Hash(id) != x.Tiles {
			c.wrong = true
		}
		c.position = x.Sequence
		if x.Sequence == 0 {
			c.tiles, c.held, c.wrong = board.Tiles{}, 0, false
		}
	})
}
