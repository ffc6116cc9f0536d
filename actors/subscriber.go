package actors

// In:  FrameMade from the feed, once a tick; a user's answers; what clients ask.
// Out: one write a session and tick on its connection; nothing waits for a slow socket.
// A subscriber owns a slice of its node's sessions. A session whose socket is full is lagging: it keeps no queue, only the
// set of chunks that it misses, and gets one repair when its socket takes bytes again.

import (
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// Bounds of a session.
const (
	// HeartbeatMs is the time between heartbeats of a session.
	HeartbeatMs = 10_000
	// SessionNotesMax is how many answers wait for a full socket; the oldest is dropped and counted beyond (the client asks
	// again with the same turn and nonce).
	SessionNotesMax = 16
	// FeedAnswerMs is how long a session waits for the feed before it asks again, or goes on without: a feed that fails in the
	// middle of a question does not answer it.
	FeedAnswerMs = 1000
)

// NodeHello is what every session of a node hears of it.
type NodeHello struct {
	Epoch       uint64
	Incarnation uint64
}

// Subscriber is the core of a subscriber actor. It calls wire.Conn, which never blocks.
type Subscriber struct {
	index    int
	node     Node
	hello    NodeHello
	rules    *Rules
	ready    bool  // the feed has told where every chunk stands
	tableMs  int64 // when it was asked again
	tick     uint64
	hashes   board.Hashes
	table    map[board.ChunkID]ChunkMark // every chunk that meets the board and has placements
	sessions map[wire.SessionID]*session
	order    []*session // writes start at a rotating place, so that nobody is always last
	turn     int
	online   int
	asks     uint64 // numbers the questions to the feed
	counters SubscriberCounters
	out      []SubscriberEffect
}

// SubscriberCounters counts what a subscriber did since it was made.
type SubscriberCounters struct {
	Sends, SendBytes, Lags, Recoveries, NotesDropped, Repairs, Resumes int64
	lagging                                                            int64 // at the moment
}

// NewSubscriber returns the core of the subscriber with the given index on its node. It answers nobody's Subscribe before
// TableMade, or new settings, have told where every chunk stands: whoever makes it asks the feed (GetTable).
func NewSubscriber(index int, node Node, hello NodeHello, rules *Rules, tick uint64) *Subscriber {
	return &Subscriber{
		index: index, node: node, hello: hello, rules: rules, tick: tick,
		table: map[board.ChunkID]ChunkMark{}, sessions: map[wire.SessionID]*session{},
	}
}

// Counters returns what the subscriber did so far.
func (s *Subscriber) Counters() SubscriberCounters { return s.counters }

// Sessions returns how many sessions the subscriber owns.
func (s *Subscriber) Sessions() int { return len(s.order) }

// Lagging returns how many sessions wait for their sockets.
func (s *Subscriber) Lagging() int {
	n := 0
	for _, x := range s.order {
		if x.lagging {
			n++
		}
	}
	return n
}

// Receive handles one message at wall time wallMs (Unix milliseconds) and returns what to do. The result is valid until the
// next call.
func (s *Subscriber) Receive(wallMs int64, message SubscriberMessage) []SubscriberEffect {
	s.out = s.out[:0]
	switch m := message.(type) {
	case SessionOpened:
		s.open(wallMs, m)
	case SessionClosed:
		s.closed(m.Session)
	case SessionSent:
		if x := s.sessions[m.Session]; x != nil {
			s.sent(wallMs, x, m.Message)
		}
	case FrameMade:
		s.frame(wallMs, m)
	case SettingsTold:
		s.settings(wallMs, m)
	case TableMade:
		s.start(wallMs, m)
	case RepairMade:
		s.repaired(wallMs, m)
	case ResumeMade:
		s.resumed(m)
	case Answered:
		if x := s.sessions[m.Session]; x != nil {
			s.answered(x, m)
		}
	case StatusChanged:
		if x := s.sessions[m.Session]; x != nil {
			s.note(x, wire.SealServer(&wire.Me{Turn: m.Status.Turn, WaitMs: m.Status.WaitMs, BannedUntilMs: m.Status.BannedUntil}))
		}
	case RegisterAgain:
		for _, x := range s.order {
			if x.user != "" && x.user.Shard() == m.Shard {
				s.emit(ToShard{User: x.user, Message: RegisterSession{User: x.user, Session: s.ref(x)}})
			}
		}
	case SubscriberTick:
		s.online = m.Online
		s.pass(wallMs)
	}
	return s.out
}

func (s *Subscriber) emit(e SubscriberEffect) { s.out = append(s.out, e) }

// start takes where every chunk stands, and gives the sessions that wait their base.
func (s *Subscriber) start(wallMs int64, m TableMade) {
	s.ready, s.tick, s.rules, s.hashes = true, m.Tick, m.Rules, m.Hashes
	s.table = make(map[board.ChunkID]ChunkMark, len(m.Table))
	for _, mark := range m.Table {
		s.table[mark.Chunk] = mark
	}
	s.each(func(x *session) {
		if x.lagging {
			s.recover(wallMs, x)
		}
	})
}

func (s *Subscriber) open(wallMs int64, m SessionOpened) {
	x := &session{id: m.Session, conn: m.Conn, user: m.User, beatMs: wallMs, place: len(s.order)}
	s.sessions[m.Session] = x
	s.order = append(s.order, x)
	s.note(x, wire.SealServer(&wire.Hello{
		Protocol: wire.Protocol, Epoch: s.hello.Epoch, Incarnation: s.hello.Incarnation, Tick: s.tick, ServerTimeMs: wallMs,
		HeartbeatMs: HeartbeatMs, Settings: s.rules.Record.Settings, User: m.User,
	}))
	if m.User != "" {
		s.emit(ToShard{User: m.User, Message: RegisterSession{User: m.User, Session: s.ref(x)}})
	}
}

// answered passes an answer on; a refusal fetches the tile's true colour first.
func (s *Subscriber) answered(x *session, m Answered) {
	o := &m.Outcome
	if o.Verdict == board.VerdictRefused && !m.Coloured && s.rules.Settings().Bounds().Contains(o.At) {
		s.emit(ToFeed{GetColour{Subscriber: s.index, Answered: m}})
		return
	}
	s.note(x, wire.SealServer(&wire.Placed{PlaceOutcome: *o}))
}

func (s *Subscriber) ref(x *session) SessionRef {
	return SessionRef{Node: s.node.Address, Session: x.id}
}

func (s *Subscriber) closed(id wire.SessionID) {
	x := s.sessions[id]
	if x == nil {
		return
	}
	delete(s.sessions, id)
	last := s.order[len(s.order)-1]
	s.order[x.place], last.place = last, x.place
	s.order[len(s.order)-1] = nil
	s.order = s.order[:len(s.order)-1]
	if x.user != "" {
		s.emit(ToShard{User: x.user, Message: ForgetSession{User: x.user, Session: s.ref(x)}})
	}
}

// sent acts on a client's message.
func (s *Subscriber) sent(wallMs int64, x *session, message wire.ClientMessage) {
	switch m := message.(type) {
	case *wire.Subscribe:
		s.subscribe(wallMs, x, m)
	case *wire.Repair:
		s.counters.Repairs++
		if chunks := s.within(x, m.Chunks); x.lagging {
			x.want(chunks)
		} else {
			s.emit(ToFeed{GetRepair{Subscriber: s.index, Session: x.id, Chunks: chunks}})
		}
	case *wire.GetHashes:
		s.note(x, wire.SealServer(s.chunkHashes(m.Chunks)))
	case *wire.Place: // goes to the shard, never here
	}
}

// within leaves the chunks that the session subscribes to.
func (s *Subscriber) within(x *session, chunks []wire.ChunkAt) []wire.ChunkAt {
	return slices.DeleteFunc(slices.Clone(chunks), func(c wire.ChunkAt) bool { return !x.sees(c.Chunk) })
}

func (s *Subscriber) subscribe(wallMs int64, x *session, m *wire.Subscribe) {
	switch {
	case m.Whole && !s.rules.Settings().Whole():
		s.note(x, wire.SealServer(&wire.Notice{Code: board.CodeBadMessage, Detail: "the board is too large to be sent whole: subscribe to chunks"}))
		return
	case !m.Whole && m.Chunks.Cols*m.Chunks.Rows > wire.SubscribeChunksMax:
		s.note(x, wire.SealServer(&wire.Notice{Code: board.CodeBadMessage, Detail: "too many chunks in one subscription"}))
		return
	}
	x.whole, x.chunks, x.unbased = m.Whole, m.Chunks, false
	x.missed, x.ask = nil, 0
	r := m.Resume
	if m.Whole && r != nil && r.Epoch == s.hello.Epoch && r.Incarnation == s.hello.Incarnation && r.Tick <= s.tick {
		s.counters.Resumes++
		x.state, x.askMs = sessionResuming, wallMs
		s.emit(ToFeed{GetResume{Subscriber: s.index, Session: x.id, Tick: r.Tick}})
		return
	}
	s.base(x)
}

// base starts frames after the newest tick, now or as soon as the socket takes bytes.
func (s *Subscriber) base(x *session) {
	x.state, x.unbased = sessionLive, true
	x.missed, x.ask = nil, 0
	if !s.ready {
		s.lag(x)
		return
	}
	b := wire.Base{Tick: s.tick}
	for id, mark := range s.table {
		if x.sees(id) {
			b.Chunks = append(b.Chunks, wire.ChunkAt{Chunk: id, Sequence: mark.Sequence})
		}
	}
	slices.SortFunc(b.Chunks, func(p, q wire.ChunkAt) int { return int(p.Chunk) - int(q.Chunk) })
	x.unbased = s.write(x, wire.SealServer(&b)) == wire.WriteBusy
}

// resumed sends the frames that a returning client has missed; without them it gets a base like a new one.
func (s *Subscriber) resumed(m ResumeMade) {
	x := s.sessions[m.Session]
	if x == nil || x.state != sessionResuming {
		return
	}
	if !m.OK {
		s.base(x)
		return
	}
	x.state = sessionLive
	for _, sealed := range m.Messages {
		if x.lagging || s.write(x, sealed) == wire.WriteBusy {
			s.base(x) // the socket is full in the middle: the client compares the rest with a base
			return
		}
	}
	if s.write(x, wire.SealServer(&wire.Base{Tick: m.Tick, Resumed: true})) == wire.WriteBusy {
		s.base(x)
	}
}

func (s *Subscriber) chunkHashes(r wire.ChunkRect) *wire.ChunkHashes {
	h := &wire.ChunkHashes{Tick: s.tick}
	view := session{chunks: r}
	for id, mark := range s.table {
		if view.sees(id) && len(h.Chunks) < wire.HashesChunksMax {
			h.Chunks = append(h.Chunks, wire.ChunkHash{Chunk: id, Sequence: mark.Sequence, Tiles: mark.Tiles})
		}
	}
	slices.SortFunc(h.Chunks, func(p, q wire.ChunkHash) int { return int(p.Chunk) - int(q.Chunk) })
	return h
}

// frame writes a tick to every live session: the shared frame, or for sessions of some chunks their part of it.
func (s *Subscriber) frame(wallMs int64, m FrameMade) {
	s.tick, s.hashes = m.Tick, m.Hashes
	for _, mark := range m.Marks {
		s.table[mark.Chunk] = mark
	}
	s.each(func(x *session) {
		if x.state != sessionLive {
			return
		}
		if x.lagging {
			x.miss(m.Marks)
			s.recover(wallMs, x)
			return
		}
		sealed := m.Whole
		if !x.whole {
			sealed = x.part(m)
		}
		if sealed != nil && s.write(x, sealed) == wire.WriteBusy {
			x.miss(m.Marks)
		}
	})
}

// each visits the sessions, from a place that moves on.
func (s *Subscriber) each(visit func(*session)) {
	n := len(s.order)
	if n == 0 {
		return
	}
	s.turn = (s.turn + n/7 + 1) % n
	for i := range n {
		visit(s.order[(s.turn+i)%n])
	}
}

// settings puts new settings in force for the frames that follow.
func (s *Subscriber) settings(wallMs int64, m SettingsTold) {
	s.ready, s.tick, s.rules, s.hashes = true, m.Tick, m.Rules, m.Hashes
	old := s.table
	s.table = make(map[board.ChunkID]ChunkMark, len(m.Table))
	var added []ChunkMark
	for _, mark := range m.Table {
		s.table[mark.Chunk] = mark
		if _, ok := old[mark.Chunk]; !ok {
			added = append(added, mark)
		}
	}
	s.each(func(x *session) {
		if x.lagging || s.write(x, m.Sealed) == wire.WriteBusy {
			x.stale = true
		}
		if x.state == sessionLive && (!x.whole || s.rules.Settings().Whole()) {
			s.addChunks(wallMs, x, added)
		}
	})
}

// pass lets time pass: lagging sessions try again, others get their heartbeat. Pings are transport's.
func (s *Subscriber) pass(wallMs int64) {
	if !s.ready && !waits(wallMs, s.tableMs+FeedAnswerMs, FeedAnswerMs) {
		s.tableMs = wallMs
		s.emit(ToFeed{GetTable{Subscriber: s.index}})
	}
	var shared wire.Sealed
	s.each(func(x *session) {
		if x.lagging {
			s.recover(wallMs, x)
		}
		if x.state == sessionResuming && !waits(wallMs, x.askMs+FeedAnswerMs, FeedAnswerMs) {
			s.base(x)
		}
		if x.lagging || x.state != sessionLive || waits(wallMs, x.beatMs+HeartbeatMs, HeartbeatMs) {
			return
		}
		x.beatMs = wallMs
		if !x.whole {
			s.write(x, s.heartbeat(wallMs, s.partHashes(x)))
			return
		}
		if shared == nil {
			shared = s.heartbeat(wallMs, s.hashes)
		}
		s.write(x, shared)
	})
}

func (s *Subscriber) heartbeat(wallMs int64, h board.Hashes) wire.Sealed {
	return wire.SealServer(&wire.Heartbeat{Tick: s.tick, ServerTimeMs: wallMs, Online: uint64(s.online), Hashes: h})
}

func (s *Subscriber) partHashes(x *session) board.Hashes {
	var h board.Hashes
	for id, mark := range s.table {
		if x.sees(id) {
			h.Tiles ^= mark.Tiles
			h.Sequences ^= board.SequenceHash(id, mark.Sequence)
		}
	}
	return h
}
