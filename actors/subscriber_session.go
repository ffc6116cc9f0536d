package actors

// One session as its subscriber sees it: what it subscribes to, what it misses while its socket is full, and the repair that
// brings it back to date. Who gets what at a tick is in actors/subscriber.go.

import (
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// session is one websocket connection.
type session struct {
	id      wire.SessionID
	conn    wire.Conn
	user    board.UserID
	place   int // in order
	state   sessionState
	chunks  wire.ChunkRect // when not whole
	whole   bool
	lagging bool                     // the socket kept a tail, or chunks are missed
	missed  map[board.ChunkID]uint64 // sequence that the client holds of each chunk that it misses
	ask     uint64                   // the question for the missed chunks that waits for the feed's answer; 0: none
	askMs   int64                    // when the feed was asked last
	stale   bool                     // the settings changed while the socket was full
	unbased bool                     // the answer to Subscribe waits for the socket
	notes   []wire.Sealed            // answers that wait for the socket
	beatMs  int64
}

type sessionState uint8

const (
	sessionIdle     sessionState = iota // has not subscribed
	sessionResuming                     // waits for ResumeMade
	sessionLive
)

func (x *session) sees(c board.ChunkID) bool {
	r := x.chunks
	return x.whole || c.Col() >= r.Col && c.Col() < r.Col+r.Cols && c.Row() >= r.Row && c.Row() < r.Row+r.Rows
}

// part encodes the sections that the session subscribes to; nil when there are none.
func (x *session) part(m FrameMade) wire.Sealed {
	var sections []wire.Section
	for i := range m.Sections {
		if x.sees(m.Sections[i].Chunk) {
			sections = append(sections, m.Sections[i])
		}
	}
	if len(sections) == 0 {
		return nil
	}
	return wire.SealServer(&wire.Frame{Tick: m.Tick, Sections: sections})
}

// miss adds the chunks of a frame to what the session misses, with the sequence that its client holds.
func (x *session) miss(marks []ChunkMark) {
	for _, mark := range marks {
		if !x.sees(mark.Chunk) {
			continue
		}
		if x.missed == nil {
			x.missed = map[board.ChunkID]uint64{}
		}
		if _, ok := x.missed[mark.Chunk]; !ok {
			x.missed[mark.Chunk] = mark.Before
		}
	}
}

// want adds what a client asks for to what its session misses: the repair that ends the lag brings it.
func (x *session) want(chunks []wire.ChunkAt) {
	for _, c := range chunks {
		if x.missed == nil {
			x.missed = map[board.ChunkID]uint64{}
		}
		if held, ok := x.missed[c.Chunk]; !ok || c.Sequence < held {
			x.missed[c.Chunk] = c.Sequence
		}
	}
}

// write sends a message and counts; it marks the session as lagging when the socket is full.
func (s *Subscriber) write(x *session, m wire.Sealed) wire.WriteStatus {
	status := x.conn.Send(m)
	switch status {
	case wire.WriteDone:
		s.counters.Sends++
		s.counters.SendBytes += int64(len(m))
	case wire.WriteKept:
		s.counters.Sends++
		s.counters.SendBytes += int64(len(m))
		s.lag(x)
	case wire.WriteBusy:
		s.lag(x)
	case wire.WriteClosed: // transport tells: SessionClosed
	}
	return status
}

func (s *Subscriber) lag(x *session) {
	if !x.lagging {
		x.lagging = true
		s.counters.Lags++
	}
}

// note sends an answer, or lets it wait for the socket.
func (s *Subscriber) note(x *session, m wire.Sealed) {
	if len(x.notes) == 0 && s.write(x, m) != wire.WriteBusy {
		return
	}
	if len(x.notes) >= SessionNotesMax {
		x.notes = slices.Delete(x.notes, 0, 1)
		s.counters.NotesDropped++
	}
	x.notes = append(x.notes, m)
}

// recover brings a lagging session back to date: the kept tail, waiting settings and answers, then one repair.
func (s *Subscriber) recover(wallMs int64, x *session) {
	if x.conn.Flush() != wire.WriteDone {
		return
	}
	if x.stale {
		if s.write(x, wire.SealServer(&wire.SettingsChanged{Tick: s.tick, Settings: s.rules.Record.Settings})) == wire.WriteBusy {
			return
		}
		x.stale = false
	}
	if x.unbased {
		if s.base(x); x.unbased {
			return
		}
	}
	for len(x.notes) > 0 {
		if s.write(x, x.notes[0]) == wire.WriteBusy {
			return
		}
		x.notes = x.notes[1:]
	}
	x.notes = nil
	if x.ask != 0 && waits(wallMs, x.askMs+FeedAnswerMs, FeedAnswerMs) || x.conn.Flush() != wire.WriteDone {
		return
	}
	if len(x.missed) == 0 {
		x.lagging = false
		s.counters.Recoveries++
		return
	}
	s.asks++
	x.ask, x.askMs = s.asks, wallMs
	ask := GetRepair{Subscriber: s.index, Session: x.id, Ask: x.ask}
	for id, sequence := range x.missed {
		ask.Chunks = append(ask.Chunks, wire.ChunkAt{Chunk: id, Sequence: sequence})
	}
	slices.SortFunc(ask.Chunks, func(p, q wire.ChunkAt) int { return int(p.Chunk) - int(q.Chunk) })
	s.emit(ToFeed{ask})
}

// repaired sends a repair: the answer to a client's request, or the end of a lag.
func (s *Subscriber) repaired(wallMs int64, m RepairMade) {
	x := s.sessions[m.Session]
	switch {
	case x == nil:
		return
	case m.Ask == 0: // the client's own
		if m.Sealed != nil && (x.lagging || s.write(x, m.Sealed) == wire.WriteBusy) {
			x.want(m.Chunks)
		}
		return
	case m.Ask != x.ask:
		return // of an earlier subscription, or late: another answer is on its way
	}
	if m.Sealed == nil || s.write(x, m.Sealed) != wire.WriteBusy {
		for _, c := range m.Chunks {
			if x.missed[c.Chunk] == c.Sequence { // otherwise the client has asked for more since
				delete(x.missed, c.Chunk)
			}
		}
	}
	x.ask = 0
	s.recover(wallMs, x)
}

// addChunks lets a session have chunks that a grown board shows (again): it misses them, so a repair brings them.
func (s *Subscriber) addChunks(wallMs int64, x *session, added []ChunkMark) {
	for _, mark := range added {
		if !x.sees(mark.Chunk) {
			continue
		}
		if x.missed == nil {
			x.missed = map[board.ChunkID]uint64{}
		}
		x.missed[mark.Chunk] = 0
	}
	if len(x.missed) > 0 {
		s.lag(x)
		s.recover(wallMs, x)
	}
}
