package client

import (
	"maps"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// modelBoard is a board as a node knows it: per chunk every placement that ever was, and the frames made of them.
type modelBoard struct {
	epoch, incarnation, tick uint64
	settings                 board.Settings
	log                      map[board.ChunkID][]wire.Tile // published
	waiting                  map[board.ChunkID][]wire.Tile // for the next tick
	ring                     []modelTick                   // every tick of this incarnation since the last change of settings
}

// modelTick is which placements a tick published: of each chunk those after from.
type modelTick struct {
	tick     uint64
	from, to map[board.ChunkID]uint64
}

func newModelBoard(epoch, incarnation uint64, width, height int) *modelBoard {
	s := board.DefaultSettings()
	s.Width, s.Height, s.CooldownMs = width, height, 0
	return &modelBoard{
		epoch: epoch, incarnation: incarnation, settings: s,
		log: map[board.ChunkID][]wire.Tile{}, waiting: map[board.ChunkID][]wire.Tile{},
	}
}

func (b *modelBoard) place(p board.Point, c board.Colour) {
	id := p.Chunk()
	b.waiting[id] = append(b.waiting[id], wire.Tile{Index: uint16(p.Tile()), Colour: c})
}

// publish makes the next tick; false when nothing waits.
func (b *modelBoard) publish() (modelTick, bool) {
	if len(b.waiting) == 0 {
		return modelTick{}, false
	}
	b.tick++
	t := modelTick{tick: b.tick, from: map[board.ChunkID]uint64{}, to: map[board.ChunkID]uint64{}}
	for id, tiles := range b.waiting {
		t.from[id] = b.sequence(id)
		b.log[id] = append(b.log[id], tiles...)
		t.to[id] = b.sequence(id)
	}
	clear(b.waiting)
	b.ring = append(b.ring, t)
	return t, true
}

// restart is a new process over the same journals: ticks begin anew.
func (b *modelBoard) restart(incarnation, tick uint64) {
	b.incarnation, b.tick, b.ring = incarnation, tick, nil
}

func (b *modelBoard) resize(width, height int) wire.SettingsChanged {
	b.settings.Version++
	b.settings.Width, b.settings.Height, b.ring = width, height, nil
	return wire.SettingsChanged{Tick: b.tick, Settings: b.settings}
}

func (b *modelBoard) sequence(id board.ChunkID) uint64 { return uint64(len(b.log[id])) }

// tiles replays a chunk up to a sequence.
func (b *modelBoard) tiles(id board.ChunkID, sequence uint64) *board.Tiles {
	t := new(board.Tiles)
	for _, p := range b.log[id][:sequence] {
		t[p.Index] = p.Colour
	}
	return t
}

func (b *modelBoard) chunks() []board.ChunkID {
	ids := slices.Sorted(maps.Keys(b.log))
	return slices.DeleteFunc(ids, func(id board.ChunkID) bool { return !b.settings.HasChunk(id) || b.sequence(id) == 0 })
}

func (b *modelBoard) body() *wire.BoardBody {
	out := &wire.BoardBody{
		Epoch: b.epoch, Incarnation: b.incarnation, Tick: b.tick,
		Width: b.settings.Width, Height: b.settings.Height, ColourWidth: b.settings.ColourWidth(),
	}
	for _, id := range b.chunks() {
		out.Chunks = append(out.Chunks, wire.BodyChunk{
			Chunk: id, Sequence: b.sequence(id), Image: b.tiles(id, b.sequence(id)).AppendImage(nil, out.ColourWidth),
		})
	}
	return out
}

func (b *modelBoard) hashes(sees func(board.ChunkID) bool) (h board.Hashes) {
	for _, id := range b.chunks() {
		if sees(id) {
			h.Tiles ^= b.tiles(id, b.sequence(id)).Hash(id)
			h.Sequences ^= board.SequenceHash(id, b.sequence(id))
		}
	}
	return h
}

// modelSession is a node's side of one session. Everything goes through the codec.
type modelSession struct {
	b          *modelBoard
	user       board.UserID
	whole      bool
	rect       wire.ChunkRect
	subscribed bool
	lagging    bool
	crossed    bool                     // something was answered during the lag
	stale      *wire.SettingsChanged    // not sent yet
	missed     map[board.ChunkID]uint64 // of a lagging session: where its frames stopped
	pick       func(n int) int          // a choice, 0..n-1
	out        [][]byte
	repairs    int // chunks repaired
	bases      int
	resumes    int
}

func (s *modelSession) sees(id board.ChunkID) bool {
	r := s.rect
	return s.whole || id.Col() >= r.Col && id.Row() >= r.Row && id.Col() < r.Col+r.Cols && id.Row() < r.Row+r.Rows
}

func (s *modelSession) send(m wire.ServerMessage) { s.out = append(s.out, wire.AppendServer(nil, m)) }

func (s *modelSession) hello() *wire.Hello {
	return &wire.Hello{
		Protocol: wire.Protocol, Epoch: s.b.epoch, Incarnation: s.b.incarnation, Tick: s.b.tick, HeartbeatMs: 10_000,
		Settings: s.b.settings, User: s.user, Known: s.user != "", Turn: 1,
	}
}

// section makes one of the sections that bring a chunk from one sequence to another.
func (s *modelSession) section(id board.ChunkID, from, to uint64, kind wire.SectionKind) wire.Section {
	run := s.b.log[id][from:to]
	if kind == wire.SectionPatch {
		last := map[uint16]board.Colour{}
		for _, t := range run {
			last[t.Index] = t.Colour
		}
		patch := wire.Section{Chunk: id, Kind: kind, Width: board.Width4, Advance: to - from}
		for _, index := range slices.Sorted(maps.Keys(last)) {
			patch.Tiles = append(patch.Tiles, wire.Tile{Index: index, Colour: last[index]})
		}
		return patch
	}
	if kind == wire.SectionSet {
		w := []board.Width{board.Width4, board.Width8}[s.pick(2)]
		return wire.Section{Chunk: id, Kind: kind, Width: w, Sequence: to, Image: s.b.tiles(id, to).AppendImage(nil, w)}
	}
	return wire.Section{Chunk: id, Kind: wire.SectionRun, Width: board.Width4, Tiles: run}
}

func (s *modelSession) kind() wire.SectionKind { return wire.SectionKind(s.pick(3)) }

func (s *modelSession) frame(t modelTick) *wire.Frame {
	f := &wire.Frame{Tick: t.tick}
	for _, id := range slices.Sorted(maps.Keys(t.from)) {
		if s.sees(id) && s.b.settings.HasChunk(id) {
			f.Sections = append(f.Sections, s.section(id, t.from[id], t.to[id], s.kind()))
		}
	}
	return f
}

// published hands a tick to the session.
func (s *modelSession) published(t modelTick) {
	switch {
	case !s.subscribed:
	case s.lagging: // what the settings do not show is missed too: it may be shown before the lag ends
		for id, from := range t.from {
			if _, ok := s.missed[id]; !ok {
				s.missed[id] = from
			}
		}
	default:
		if f := s.frame(t); len(f.Sections) > 0 {
			s.send(f)
		}
	}
}

func (s *modelSession) lag() {
	if s.subscribed && !s.lagging {
		s.lagging, s.missed = true, map[board.ChunkID]uint64{}
	}
}

// recover ends a lag: by frames of the newest tick, each with some of the chunks missed, or by repairs that nobody asked
// for. A repair that was asked for meanwhile may have crossed: then frames, which do not say where they begin, will not do.
func (s *modelSession) recover() {
	if !s.lagging {
		return
	}
	if s.stale != nil {
		s.send(s.stale)
	}
	repair := s.crossed || s.stale != nil || s.pick(2) == 0
	f := &wire.Frame{Tick: s.b.tick, Repair: repair}
	for _, id := range slices.Sorted(maps.Keys(s.missed)) {
		if to := s.b.sequence(id); s.sees(id) && s.b.settings.HasChunk(id) && s.missed[id] < to {
			f.Sections = append(f.Sections, s.section(id, s.missed[id], to, s.kind()))
			if section := &f.Sections[len(f.Sections)-1]; repair && section.Kind != wire.SectionSet {
				section.Sequence = s.missed[id]
			}
			if s.pick(3) == 0 {
				s.send(f)
				f = &wire.Frame{Tick: s.b.tick, Repair: repair}
			}
		}
	}
	if len(f.Sections) > 0 {
		s.send(f)
	}
	s.lagging, s.crossed, s.stale, s.missed = false, false, nil, nil
}

func (s *modelSession) heartbeat() {
	if s.subscribed && !s.lagging {
		s.send(&wire.Heartbeat{Tick: s.b.tick, Online: 1, Hashes: s.b.hashes(s.sees)})
	}
}

// resize tells of new settings. Chunks that a grown board shows again may be brought by a repair at once; a client that is
// left to itself asks for them.
func (s *modelSession) resize(c wire.SettingsChanged, before board.Settings) {
	if !s.lagging {
		s.send(&c)
	} else {
		s.stale = &c
	}
	if !s.subscribed || s.pick(2) == 0 {
		return
	}
	added := map[board.ChunkID]uint64{}
	for _, id := range s.b.chunks() {
		if !before.HasChunk(id) {
			added[id] = 0
		}
	}
	if s.lagging {
		maps.Copy(s.missed, added)
		return
	}
	s.lagging, s.crossed, s.missed = true, true, added
	if s.pick(2) == 0 {
		s.recover()
	}
}

// receive answers a client's message.
func (s *modelSession) receive(b []byte) {
	m, err := wire.DecodeClient(b)
	if err != nil {
		panic(err)
	}
	switch m := m.(type) {
	case *wire.Subscribe:
		s.whole, s.rect, s.subscribed = m.Whole, m.Chunks, true
		clear(s.missed)
		s.base(m.Resume)
	case *wire.Repair:
		s.crossed = s.crossed || s.lagging
		f := &wire.Frame{Tick: s.b.tick, Repair: true}
		for _, at := range m.Chunks {
			if to := s.b.sequence(at.Chunk); at.Sequence < to && s.sees(at.Chunk) && s.b.settings.HasChunk(at.Chunk) {
				s.repairs++
				section := s.section(at.Chunk, at.Sequence, to, s.kind())
				if section.Kind != wire.SectionSet {
					section.Sequence = at.Sequence
				}
				f.Sections = append(f.Sections, section)
			}
		}
		if len(f.Sections) > 0 {
			s.send(f)
		}
	case *wire.GetHashes:
		s.crossed = s.crossed || s.lagging
		h := &wire.ChunkHashes{Tick: s.b.tick}
		view := modelSession{rect: m.Chunks}
		for _, id := range s.b.chunks() {
			if view.sees(id) {
				h.Chunks = append(h.Chunks, wire.ChunkHash{Chunk: id, Sequence: s.b.sequence(id), Tiles: s.b.tiles(id, s.b.sequence(id)).Hash(id)})
			}
		}
		s.send(h)
	case *wire.Place:
		panic("no placements here")
	}
}

func (s *modelSession) base(r *wire.Resume) {
	ring := s.b.ring
	if r != nil && !s.lagging && r.Epoch == s.b.epoch && r.Incarnation == s.b.incarnation && r.Tick <= s.b.tick && s.b.tick-r.Tick <= uint64(len(ring)) {
		s.resumes++
		for _, t := range ring[len(ring)-int(s.b.tick-r.Tick):] {
			if f := s.frame(t); len(f.Sections) > 0 {
				s.send(f)
			}
		}
		s.send(&wire.Base{Tick: s.b.tick, Resumed: true})
		return
	}
	s.bases++
	base := &wire.Base{Tick: s.b.tick}
	for _, id := range s.b.chunks() {
		if s.sees(id) {
			base.Chunks = append(base.Chunks, wire.ChunkAt{Chunk: id, Sequence: s.b.sequence(id)})
		}
	}
	s.send(base)
}
