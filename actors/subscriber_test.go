package actors

import (
	"slices"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// testConn is a socket that takes everything, or nothing more than one message.
type testConn struct {
	sent    []wire.Sealed
	tail    wire.Sealed
	stalled bool
	closed  int
}

func (c *testConn) Send(m wire.Sealed) wire.WriteStatus {
	switch {
	case c.closed != 0:
		return wire.WriteClosed
	case c.Flush() != wire.WriteDone:
		return wire.WriteBusy
	case c.stalled:
		c.tail = m
		return wire.WriteKept
	}
	c.sent = append(c.sent, m)
	return wire.WriteDone
}

func (c *testConn) Flush() wire.WriteStatus {
	if c.tail != nil && c.stalled {
		return wire.WriteKept
	}
	if c.tail != nil {
		c.sent = append(c.sent, c.tail)
		c.tail = nil
	}
	return wire.WriteDone
}

func (c *testConn) Close(code int, _ string) { c.closed = code }

// take returns what came since, decoded.
func (c *testConn) take(t *testing.T) []wire.ServerMessage {
	t.Helper()
	var out []wire.ServerMessage
	for _, m := range c.sent {
		decoded, err := wire.DecodeServer(m[headerBytes(m):])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, decoded)
	}
	c.sent = nil
	return out
}

// subscriberRig is a subscriber core beside a real feed core: what the subscriber asks, the feed answers at once.
type subscriberRig struct {
	feedRig
	sub  *Subscriber
	mute bool // the feed does not answer
}

func newSubscriberRig(t *testing.T) *subscriberRig {
	r := &subscriberRig{feedRig: *newFeedRig(t)}
	r.sub = NewSubscriber(0, nodeA, NodeHello{Epoch: 77, Incarnation: 88}, r.rules, 0)
	r.ask(GetTable{})
	return r
}

// tell gives the subscriber a message and carries its questions to the feed; it returns what goes to shards.
func (r *subscriberRig) tell(m SubscriberMessage) []ToShard {
	effects := slices.Clone(r.sub.Receive(r.nowMs, m))
	for _, e := range only[ToFeed](effects) {
		if !r.mute {
			r.ask(e.Message)
		}
	}
	return only[ToShard](effects)
}

// ask gives the feed a message and carries what it makes to the subscriber.
func (r *subscriberRig) ask(m FeedMessage) {
	for _, e := range r.feedRig.send(m) {
		switch e := e.(type) {
		case ToSubscribers:
			r.tell(e.Message)
		case ToSubscriber:
			r.tell(e.Message)
		case AskBlock, TellWatchers:
		}
	}
}

func (r *subscriberRig) frame(chunk board.ChunkID, sequence uint64, tiles ...wire.Tile) {
	r.applied(chunk, sequence, tiles...)
	r.nowMs += FeedTickMs
	r.ask(FeedTick{})
}

func (r *subscriberRig) open(id wire.SessionID, user board.UserID) *testConn {
	c := &testConn{}
	r.tell(SessionOpened{Session: id, Conn: c, User: user})
	return c
}

// live opens a session of the whole board and forgets what it has heard.
func (r *subscriberRig) live(id wire.SessionID) *testConn {
	c := r.open(id, "")
	r.tell(SessionSent{Session: id, Message: &wire.Subscribe{Whole: true}})
	c.sent = nil
	return c
}

func (r *subscriberRig) change(change func(*board.Settings)) {
	r.rules = testRules(r.rules, change)
	r.ask(FeedSettings{r.rules})
	r.ask(FeedTick{})
}

// only1 returns the only message, which is of the wanted type.
func only1[T wire.ServerMessage](t *testing.T, messages []wire.ServerMessage) T {
	t.Helper()
	if len(messages) == 1 {
		if m, ok := messages[0].(T); ok {
			return m
		}
	}
	t.Fatalf("want one %T, got %+v", *new(T), messages)
	return *new(T)
}

func TestSubscriberOpens(t *testing.T) {
	r := newSubscriberRig(t)
	r.frame(chunk0, 1, t3(1, 1))
	c := &testConn{}
	shard := r.tell(SessionOpened{Session: 3, Conn: c, User: alice})
	if m, ok := shard[0].Message.(RegisterSession); len(shard) != 1 || !ok || m.Session != (SessionRef{Node: nodeA.Address, Session: 3}) {
		t.Fatalf("registered %+v", shard)
	}
	h := only1[*wire.Hello](t, c.take(t))
	if h.Epoch != 77 || h.Incarnation != 88 || h.Tick != 1 || h.User != alice || h.Known || h.Settings.Width != 120 || h.HeartbeatMs != HeartbeatMs {
		t.Fatalf("hello %+v", h)
	}
	r.frame(chunk0, 2, t3(2, 1))
	if got := c.take(t); len(got) != 0 {
		t.Fatalf("frames before Subscribe: %+v", got)
	}
	r.tell(SessionSent{Session: 3, Message: &wire.Subscribe{Whole: true}})
	if b := only1[*wire.Base](t, c.take(t)); b.Tick != 2 || b.Resumed || !slices.Equal(b.Chunks, []wire.ChunkAt{{Chunk: chunk0, Sequence: 2}}) {
		t.Fatalf("base %+v", b)
	}
	r.frame(chunk1, 1, t3(2, 1))
	if f := only1[*wire.Frame](t, c.take(t)); f.Tick != 3 || f.Repair || f.Sections[0].Chunk != chunk1 {
		t.Fatalf("frame %+v", f)
	}
	r.tell(StatusChanged{Session: 3, Status: board.UserStatus{User: alice, Turn: 4, WaitMs: 5}})
	if m := only1[*wire.Me](t, c.take(t)); m.Turn != 4 || m.WaitMs != 5 {
		t.Fatalf("me %+v", m)
	}
	shard = r.tell(SessionClosed{Session: 3})
	if _, ok := shard[0].Message.(ForgetSession); !ok || r.sub.Sessions() != 0 {
		t.Errorf("closed: %+v", shard)
	}
	r.tell(SessionClosed{Session: 3})
	r.frame(chunk1, 2, t3(2, 2))
}

// A refusal comes with the colour that the tile has; the feed is asked once, whatever it knows.
func TestSubscriberAnswers(t *testing.T) {
	r := newSubscriberRig(t)
	r.frame(chunk0, 1, t3(1, 9))
	c := r.live(1)
	refused := board.PlaceOutcome{Verdict: board.VerdictRefused, Code: board.CodeFrozen, At: chunk0.Point(1)}
	r.tell(Answered{Session: 1, Outcome: refused})
	if p := only1[*wire.Placed](t, c.take(t)); !p.TrueColour || p.Colour != 9 {
		t.Fatalf("refused: %+v", p)
	}
	r.feed.rules = testRules(nil, func(s *board.Settings) { s.Width, s.Height = 1, 1 }) // the feed knows other settings already
	refused.At = chunk1.Point(1)
	r.tell(Answered{Session: 1, Outcome: refused})
	if p := only1[*wire.Placed](t, c.take(t)); p.TrueColour {
		t.Fatalf("refused: %+v", p)
	}
	r.tell(Answered{Session: 99, Outcome: refused}) // gone
}

// A session whose socket is full keeps no queue: one repair brings it back to date, and nobody else waits for it.
func TestSubscriberLagging(t *testing.T) {
	r := newSubscriberRig(t)
	slow, quick := r.live(1), r.live(2)
	slow.stalled = true
	for i := range 5 {
		r.frame(chunk0, uint64(i+1), t3(i, 1))
	}
	r.frame(chunk1, 1, t3(1, 1))
	if got := quick.take(t); len(got) != 6 {
		t.Fatalf("the quick one got %d frames", len(got))
	}
	if len(slow.sent) != 0 || r.sub.Lagging() != 1 || r.sub.Counters().Lags != 1 {
		t.Fatalf("%d sent, %d lagging", len(slow.sent), r.sub.Lagging())
	}
	r.nowMs += HeartbeatMs
	r.tell(SubscriberTick{})
	slow.stalled = false
	r.tell(SubscriberTick{})
	got := slow.take(t)
	if len(got) != 2 {
		t.Fatalf("the slow one got %+v", got)
	}
	first, repair := got[0].(*wire.Frame), got[1].(*wire.Frame)
	if first.Tick != 1 || !repair.Repair || repair.Tick != 6 || len(repair.Sections) != 2 {
		t.Fatalf("kept %+v, then %+v", first, repair)
	}
	if s := repair.Sections[0]; s.Kind != wire.SectionRun || s.Sequence != 1 || len(s.Tiles) != 4 {
		t.Fatalf("what was missed: %+v", s)
	}
	if r.sub.Lagging() != 0 || r.sub.Counters().Recoveries != 1 {
		t.Errorf("%d lagging", r.sub.Lagging())
	}
	r.frame(chunk0, 6, t3(9, 1))
	if f := only1[*wire.Frame](t, slow.take(t)); f.Repair || f.Tick != 7 {
		t.Errorf("frame %+v", f)
	}
}

// What a client asks for while its session lags comes with the repair that ends the lag; an answer to a question of before
// does not end it.
func TestSubscriberTellsRepairsApart(t *testing.T) {
	r := newSubscriberRig(t)
	c := r.live(1)
	r.frame(chunk0, 1, t3(1, 1))
	c.stalled = true
	r.frame(chunk0, 2, t3(2, 1))
	r.frame(chunk0, 3, t3(3, 1))
	c.stalled, r.mute = false, true
	r.tell(SubscriberTick{}) // asks the feed, which is busy
	r.mute = false
	c.take(t)
	x := r.sub.sessions[1]
	ask := x.ask
	r.tell(SessionSent{Session: 1, Message: &wire.Repair{Chunks: []wire.ChunkAt{{Chunk: chunk0, Sequence: 1}, {Chunk: chunk1}}}})
	r.tell(RepairMade{Session: 1, Ask: ask + 1000, Chunks: []wire.ChunkAt{{Chunk: chunk0, Sequence: 2}}})
	if got := c.take(t); len(got) != 0 || !x.lagging || len(x.missed) != 2 || x.ask != ask {
		t.Fatalf("got %+v, lagging %v, missed %v", got, x.lagging, x.missed)
	}
	r.tell(SubscriberTick{})
	if got := c.take(t); len(got) != 0 {
		t.Fatalf("asked twice: %+v", got)
	}
	r.ask(GetRepair{Session: 1, Ask: ask, Chunks: []wire.ChunkAt{{Chunk: chunk0, Sequence: 2}}}) // the first question, late
	got := c.take(t)
	if len(got) != 2 || x.lagging {
		t.Fatalf("got %+v, lagging %v", got, x.lagging)
	}
	for i, begin := range []uint64{2, 1} {
		if f := got[i].(*wire.Frame); !f.Repair || len(f.Sections) != 1 || f.Sections[0].Sequence != begin || len(f.Sections[0].Tiles) != 3-int(begin) {
			t.Errorf("repair %+v", f)
		}
	}

	c.stalled = true
	r.frame(chunk0, 4, t3(2, 1))
	r.frame(chunk0, 5, t3(3, 1))
	c.stalled, r.mute = false, true
	r.tell(SubscriberTick{})
	c.take(t)
	r.mute = false
	r.nowMs += FeedAnswerMs
	r.tell(SubscriberTick{}) // the feed has lost the question
	if f := only1[*wire.Frame](t, c.take(t)); f.Sections[0].Sequence != 4 || x.lagging {
		t.Errorf("repair %+v", f)
	}

	c.stalled = true
	r.frame(chunk0, 6, t3(2, 1))
	r.frame(chunk0, 7, t3(3, 1))
	c.stalled, r.mute = false, true
	r.tell(SubscriberTick{})
	r.mute = false
	c.take(t)
	r.ask(GetRepair{Session: 1, Chunks: []wire.ChunkAt{{Chunk: chunk0, Sequence: 3}}}) // the client asked before the lag
	r.ask(GetRepair{Session: 1, Ask: x.ask, Chunks: []wire.ChunkAt{{Chunk: chunk0, Sequence: 6}}})
	if got := c.take(t); len(got) != 2 || got[1].(*wire.Frame).Sections[0].Sequence != 3 || x.lagging {
		t.Fatalf("got %+v", got)
	}

	c.stalled = true
	r.tell(StatusChanged{Session: 1}) // the socket keeps it
	r.ask(GetRepair{Session: 1, Chunks: []wire.ChunkAt{{Chunk: chunk0, Sequence: 2}}})
	c.stalled = false
	r.tell(SubscriberTick{})
	if got := c.take(t); len(got) != 2 || got[1].(*wire.Frame).Sections[0].Sequence != 2 {
		t.Errorf("an answer that found the socket full: %+v", got)
	}
}

// The base that a session waits for is not lost among its answers.
func TestSubscriberOwesTheBase(t *testing.T) {
	r := newSubscriberRig(t)
	r.frame(chunk0, 1, t3(1, 1))
	c := r.open(1, "")
	c.take(t)
	c.stalled = true
	for i := range SessionNotesMax + 5 {
		if i == 2 {
			r.tell(SessionSent{Session: 1, Message: &wire.Subscribe{Whole: true}})
		}
		r.tell(StatusChanged{Session: 1, Status: board.UserStatus{Turn: 1}})
	}
	r.frame(chunk0, 2, t3(1, 2))
	c.stalled = false
	r.tell(SubscriberTick{})
	got := c.take(t)
	if b, ok := got[1].(*wire.Base); !ok || b.Tick != 2 || b.Chunks[0].Sequence != 2 || len(got) != SessionNotesMax+2 {
		t.Fatalf("got %+v", got)
	}
	r.frame(chunk0, 3, t3(1, 3))
	if f := only1[*wire.Frame](t, c.take(t)); f.Repair || f.Tick != 3 {
		t.Errorf("frame %+v", f)
	}
}

func TestSubscriberKeepsFewNotes(t *testing.T) {
	r := newSubscriberRig(t)
	c := r.live(1)
	c.stalled = true
	for i := range SessionNotesMax + 3 {
		r.tell(Answered{Session: 1, Outcome: board.PlaceOutcome{Verdict: board.VerdictAccepted, Turn: uint64(i)}})
	}
	if n := len(r.sub.sessions[1].notes); n != SessionNotesMax || r.sub.Counters().NotesDropped != 2 { // one is in the socket
		t.Fatalf("%d notes, %d dropped", n, r.sub.Counters().NotesDropped)
	}
	c.stalled = false
	r.tell(SubscriberTick{})
	got := c.take(t)
	if last := got[len(got)-1].(*wire.Placed); len(got) != SessionNotesMax+1 || last.Turn != SessionNotesMax+2 {
		t.Errorf("%d answers, the last %+v", len(got), last)
	}
}

func TestSubscriberResumes(t *testing.T) {
	resume := func(tick uint64) *wire.Subscribe {
		return &wire.Subscribe{Whole: true, Resume: &wire.Resume{Epoch: 77, Incarnation: 88, Tick: tick}}
	}
	r := newSubscriberRig(t)
	for i := range 4 {
		r.frame(chunk0, uint64(i+1), t3(i, 1))
	}
	c := r.open(1, "")
	c.take(t)
	r.tell(SessionSent{Session: 1, Message: resume(2)})
	got := c.take(t)
	if b, ok := got[len(got)-1].(*wire.Base); !ok || len(got) != 3 || !b.Resumed || b.Tick != 4 || got[0].(*wire.Frame).Tick != 3 {
		t.Fatalf("resumed: %+v", got)
	}
	for name, m := range map[string]*wire.Subscribe{
		"another incarnation": {Whole: true, Resume: &wire.Resume{Epoch: 77, Incarnation: 89, Tick: 2}},
		"another epoch":       {Whole: true, Resume: &wire.Resume{Epoch: 78, Incarnation: 88, Tick: 2}},
		"a tick to come":      resume(9),
	} {
		r.tell(SessionSent{Session: 1, Message: m})
		if b := only1[*wire.Base](t, c.take(t)); b.Resumed {
			t.Errorf("%s: %+v", name, b)
		}
	}
	c.stalled = true // in the middle of what was missed
	r.tell(SessionSent{Session: 1, Message: resume(1)})
	c.stalled = false
	r.tell(SubscriberTick{})
	got = c.take(t)
	if b, ok := got[len(got)-1].(*wire.Base); !ok || len(got) != 2 || b.Resumed || b.Chunks[0].Sequence != 4 {
		t.Fatalf("the socket was full: %+v", got)
	}
	r.mute = true // the feed has lost the question
	r.tell(SessionSent{Session: 1, Message: resume(1)})
	r.nowMs += FeedAnswerMs
	r.tell(SubscriberTick{})
	if b := only1[*wire.Base](t, c.take(t)); b.Resumed {
		t.Errorf("base %+v", b)
	}
}

// A session of some chunks gets its part of a frame, and hashes of its part.
func TestSubscriberSendsParts(t *testing.T) {
	r := newSubscriberRig(t)
	c := r.open(1, "")
	c.take(t)
	r.tell(SessionSent{Session: 1, Message: &wire.Subscribe{Chunks: wire.ChunkRect{Col: 1, Row: 0, Cols: 1, Rows: 3}}})
	only1[*wire.Base](t, c.take(t))
	r.frame(chunk0, 1, t3(1, 1))
	if got := c.take(t); len(got) != 0 {
		t.Fatalf("another chunk: %+v", got)
	}
	r.applied(chunk0, 2, t3(1, 2))
	r.frame(chunk1, 1, t3(1, 3))
	if f := only1[*wire.Frame](t, c.take(t)); len(f.Sections) != 1 || f.Sections[0].Chunk != chunk1 {
		t.Fatalf("frame %+v", f)
	}
	r.nowMs += HeartbeatMs
	r.tell(SubscriberTick{Online: 4})
	want := board.Hashes{Tiles: board.TileHash(chunk1.Point(1), 3), Sequences: board.SequenceHash(chunk1, 1)}
	if h := only1[*wire.Heartbeat](t, c.take(t)); h.Hashes != want || h.Online != 4 || h.Tick != 2 {
		t.Fatalf("heartbeat %+v, want %+v", h, want)
	}
	r.tell(SessionSent{Session: 1, Message: &wire.Repair{Chunks: []wire.ChunkAt{{Chunk: chunk0}, {Chunk: chunk1}}}})
	if f := only1[*wire.Frame](t, c.take(t)); !f.Repair || len(f.Sections) != 1 || f.Sections[0].Chunk != chunk1 {
		t.Fatalf("repair %+v", f)
	}
	r.tell(SessionSent{Session: 1, Message: &wire.GetHashes{Chunks: wire.ChunkRect{Cols: 3, Rows: 3}}})
	if h := only1[*wire.ChunkHashes](t, c.take(t)); len(h.Chunks) != 2 || h.Chunks[0].Chunk != chunk0 || h.Chunks[0].Sequence != 2 || h.Chunks[1].Tiles != want.Tiles {
		t.Fatalf("hashes %+v", h)
	}
	r.tell(SessionSent{Session: 1, Message: &wire.Subscribe{Chunks: wire.ChunkRect{Cols: 200, Rows: 200}}})
	if n := only1[*wire.Notice](t, c.take(t)); n.Code != board.CodeBadMessage {
		t.Errorf("notice %+v", n)
	}
}

func TestSubscriberHeartbeats(t *testing.T) {
	r := newSubscriberRig(t)
	a, b := r.live(1), r.live(2)
	r.frame(far, 1, t3(1, 3))
	r.nowMs += HeartbeatMs - 2*FeedTickMs
	r.tell(SubscriberTick{})
	if len(a.take(t)) != 1 {
		t.Fatal("too early")
	}
	b.take(t)
	b.stalled = true
	r.frame(far, 2, t3(1, 4))
	r.frame(far, 3, t3(1, 5))
	r.tell(SubscriberTick{})
	got := a.take(t)
	h, ok := got[len(got)-1].(*wire.Heartbeat)
	if want := (board.Hashes{Tiles: board.TileHash(far.Point(1), 5), Sequences: board.SequenceHash(far, 3)}); !ok || h.Hashes != want {
		t.Fatalf("heartbeat %+v", got)
	}
	b.stalled, r.mute = false, true // its socket takes bytes again; the feed has not answered yet
	r.nowMs += HeartbeatMs
	r.tell(SubscriberTick{})
	if f := only1[*wire.Frame](t, b.take(t)); f.Tick != 2 {
		t.Fatalf("a session that lags gets %+v", f)
	}
	a.take(t)
	r.nowMs -= 3_600_000 // the wall clock jumps back
	r.tell(SubscriberTick{})
	only1[*wire.Heartbeat](t, a.take(t))
}

// New settings reach every session once, in its place in the stream, and the chunks that come in are repaired.
func TestSubscriberSettings(t *testing.T) {
	r := newSubscriberRig(t)
	r.frame(chunk0, 1, t3(1, 1))
	r.frame(far, 1, t3(1, 1))
	c, slow := r.live(1), r.live(2)
	r.change(func(s *board.Settings) { s.Width = 50 })
	if m := only1[*wire.SettingsChanged](t, c.take(t)); m.Settings.Width != 50 || m.Tick != 2 {
		t.Fatalf("settings %+v", m)
	}
	slow.take(t)
	if len(r.sub.table) != 1 {
		t.Fatalf("table %+v", r.sub.table)
	}
	slow.stalled = true
	r.frame(chunk0, 2, t3(2, 1)) // the socket keeps it
	r.change(func(s *board.Settings) { s.Width = 120 })
	r.change(func(s *board.Settings) { s.Announcement = "hello" })
	got := c.take(t)
	if len(got) != 4 {
		t.Fatalf("got %+v", got)
	}
	if f := got[2].(*wire.Frame); !f.Repair || f.Sections[0].Chunk != far || f.Sections[0].Sequence != 0 {
		t.Fatalf("the chunk that came in: %+v", f)
	}
	slow.stalled = false
	r.tell(SubscriberTick{})
	got = slow.take(t)
	if len(got) != 3 {
		t.Fatalf("got %+v", got)
	}
	if s, ok := got[1].(*wire.SettingsChanged); !ok || s.Settings.Announcement != "hello" {
		t.Fatalf("settings %+v", got[1])
	}
	if f := got[2].(*wire.Frame); !f.Repair || len(f.Sections) != 1 || f.Sections[0].Chunk != far {
		t.Errorf("repair %+v", f)
	}
}

// A subscriber that starts late learns from the feed where every chunk stands.
func TestSubscriberStartsLate(t *testing.T) {
	r := newSubscriberRig(t)
	r.frame(chunk0, 1, t3(1, 1))
	r.change(func(s *board.Settings) { s.Announcement = "hello" })
	r.sub = NewSubscriber(0, nodeA, NodeHello{Epoch: 77, Incarnation: 88}, r.rules, 0)
	c := r.open(1, "")
	only1[*wire.Hello](t, c.take(t))
	r.mute = true
	r.tell(SessionSent{Session: 1, Message: &wire.Subscribe{Whole: true}})
	r.tell(SubscriberTick{})
	r.nowMs += FeedAnswerMs - 1
	r.tell(SubscriberTick{})
	if got := c.take(t); len(got) != 0 {
		t.Fatalf("before it knows: %+v", got)
	}
	r.mute = false
	r.nowMs++
	r.tell(SubscriberTick{}) // asks again
	if b := only1[*wire.Base](t, c.take(t)); len(b.Chunks) != 1 || b.Tick != 1 {
		t.Errorf("base %+v", b)
	}
	d := r.open(2, "")
	if h := only1[*wire.Hello](t, d.take(t)); h.Settings.Announcement != "hello" || h.Tick != 1 {
		t.Errorf("hello %+v", h)
	}
	r.nowMs += HeartbeatMs
	r.tell(SubscriberTick{})
	if h := only1[*wire.Heartbeat](t, c.take(t)); h.Hashes != r.feed.hashes {
		t.Errorf("heartbeat %+v", h)
	}
}
