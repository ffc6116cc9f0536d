package client

import (
	"errors"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// The mirror's inner half: one chunk at a time. Every function that changes held, sent or a flag runs between count(c, -1)
// and count(c, +1).

// count adds or takes away a chunk's share of the mirror's counts.
func (m *Mirror) count(c *mirrorChunk, by int) {
	if c.unsettled() {
		m.unsettled += by
	}
	if c.wanting() {
		m.wanting += by
	}
	if !c.known {
		m.unknown += by
	}
	if c.asked {
		m.asked += by
	}
}

// at returns the chunk, nil when it is not mirrored.
func (m *Mirror) at(id board.ChunkID) *mirrorChunk {
	col, row := id.Col()-m.area.Col, id.Row()-m.area.Row
	if col < 0 || row < 0 || col >= m.area.Cols || row >= m.area.Rows {
		return nil
	}
	return &m.chunks[row*m.area.Cols+col]
}

// id returns the id of the chunk at index i.
func (m *Mirror) id(i int) board.ChunkID {
	return board.NewChunkID(m.area.Col+i%m.area.Cols, m.area.Row+i/m.area.Cols)
}

func (m *Mirror) each(rect wire.ChunkRect, f func(board.ChunkID, *mirrorChunk)) {
	rect = meet(rect, m.area)
	for row := rect.Row; row < rect.Row+rect.Rows; row++ {
		for col := rect.Col; col < rect.Col+rect.Cols; col++ {
			id := board.NewChunkID(col, row)
			f(id, m.at(id))
		}
	}
}

// regrid makes the chunks those that are watched and meet the board, and keeps what is held of those that stay.
func (m *Mirror) regrid() {
	cols, rows := board.ChunkGrid(m.settings.Width, m.settings.Height)
	area := wire.ChunkRect{Cols: cols, Rows: rows}
	if !m.everything {
		area = meet(m.watched, area)
	}
	if area == m.area && m.chunks != nil {
		return
	}
	old := *m
	m.area, m.chunks = area, make([]mirrorChunk, area.Cols*area.Rows)
	m.hashes, m.unsettled, m.wanting, m.unknown, m.asked = board.Hashes{}, 0, 0, 0, 0
	for i := range m.chunks {
		c, id := &m.chunks[i], m.id(i)
		if was := old.at(id); was != nil {
			*c = *was
			m.hashes.Tiles ^= c.tileHash(id)
			m.hashes.Sequences ^= board.SequenceHash(id, c.held)
		}
		m.count(c, +1)
	}
}

// rehash computes the hashes anew.
func (m *Mirror) rehash() {
	m.hashes = board.Hashes{}
	for i := range m.chunks {
		id := m.id(i)
		m.hashes.Tiles ^= m.chunks[i].tileHash(id)
		m.hashes.Sequences ^= board.SequenceHash(id, m.chunks[i].held)
	}
}

func (c *mirrorChunk) tileHash(id board.ChunkID) uint64 {
	if c.tiles == nil {
		return 0
	}
	return c.tiles.Hash(id)
}

// length returns by how much a run or patch moves its chunk's sequence.
func length(s *wire.Section) uint64 {
	if s.Kind == wire.SectionPatch {
		return s.Advance
	}
	return uint64(len(s.Tiles))
}

// extend applies the tiles of a run or patch that begins after the sequence start, as far as they are news. A patch whose
// first part is held already is applied whole: it has the last colour of every tile that it touches.
func (m *Mirror) extend(id board.ChunkID, c *mirrorChunk, start uint64, s *wire.Section) {
	end := start + length(s)
	if c.held < start || c.held >= end {
		return
	}
	tiles := s.Tiles
	if s.Kind == wire.SectionRun {
		tiles = tiles[c.held-start:]
	}
	if c.tiles == nil {
		c.tiles = new(board.Tiles)
	}
	for _, t := range tiles {
		if old := c.tiles[t.Index]; old != t.Colour {
			p := id.Point(int(t.Index))
			m.hashes.Tiles ^= board.TileHash(p, old) ^ board.TileHash(p, t.Colour)
			c.tiles[t.Index] = t.Colour
		}
	}
	m.hold(id, c, end)
}

// set applies an image: the chunk stands there, and the next frames go on from there. An answer to a repair that follows is
// not needed any more. Repairs may cross, so one of them never moves a chunk back.
func (m *Mirror) set(id board.ChunkID, c *mirrorChunk, s *wire.Section, repair bool) {
	if !repair || !c.known || s.Sequence > c.sent {
		c.known, c.sent = true, s.Sequence
	}
	c.asked = false
	if c.held > s.Sequence && !c.dirty {
		return
	}
	if m.image(id, c, s.Image, s.Width) {
		m.hold(id, c, s.Sequence)
		c.dirty = false
	}
}

// repair applies a run or patch of a repair, which says where it begins. It may be the answer to Behind, or a node's own way
// to end a lag; both may cross, so a repair never moves a chunk back.
func (m *Mirror) repair(id board.ChunkID, c *mirrorChunk, s *wire.Section) {
	if c.asked && s.Sequence == c.askedAt {
		c.asked = false
	}
	if c.dirty && s.Sequence == 0 {
		m.blank(id, c)
		m.hold(id, c, 0)
		c.dirty = false
	}
	m.extend(id, c, s.Sequence, s)
	if end := s.Sequence + length(s); end > c.sent || !c.known {
		c.known, c.sent = true, end
	}
	c.resting = !c.asked && c.held < c.sent
}

// hold moves the sequence held.
func (m *Mirror) hold(id board.ChunkID, c *mirrorChunk, sequence uint64) {
	m.hashes.Sequences ^= board.SequenceHash(id, c.held) ^ board.SequenceHash(id, sequence)
	c.held = sequence
}

// image puts a packed image in the place of the tiles; false when it is none.
func (m *Mirror) image(id board.ChunkID, c *mirrorChunk, image []byte, w board.Width) bool {
	var tiles board.Tiles
	if tiles.SetImage(image, w) != nil {
		return false
	}
	if c.tiles == nil {
		c.tiles = new(board.Tiles)
	}
	for i, colour := range tiles {
		if old := c.tiles[i]; old != colour {
			p := id.Point(i)
			m.hashes.Tiles ^= board.TileHash(p, old) ^ board.TileHash(p, colour)
			c.tiles[i] = colour
		}
	}
	return true
}

func (m *Mirror) blank(id board.ChunkID, c *mirrorChunk) {
	m.hashes.Tiles ^= c.tileHash(id)
	c.tiles = nil
}

// meet returns the chunks that lie in both rectangles.
func meet(a, b wire.ChunkRect) wire.ChunkRect {
	col, row := max(a.Col, b.Col), max(a.Row, b.Row)
	cols := min(a.Col+a.Cols, b.Col+b.Cols) - col
	rows := min(a.Row+a.Rows, b.Row+b.Rows) - row
	if cols <= 0 || rows <= 0 {
		return wire.ChunkRect{}
	}
	return wire.ChunkRect{Col: col, Row: row, Cols: cols, Rows: rows}
}

// split cuts a rectangle into bands of whole rows with at most most chunks each; most is at least the longest row.
func split(r wire.ChunkRect, most int) []wire.ChunkRect {
	var out []wire.ChunkRect
	for rows := max(1, most/max(1, r.Cols)); r.Rows > 0; {
		band := r
		band.Rows = min(rows, r.Rows)
		out = append(out, band)
		r.Row, r.Rows = r.Row+band.Rows, r.Rows-band.Rows
	}
	return out
}

var errStop = errors.New("stop")

// frameTick reads the head of a frame.
func frameTick(b []byte) (tick uint64, repair bool, err error) {
	tick, repair, err = wire.DecodeFrame(b, func(*wire.Section) error { return errStop })
	if err == errStop {
		err = nil
	}
	return tick, repair, err
}
