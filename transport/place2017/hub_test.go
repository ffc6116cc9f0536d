package place2017

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// fakeBoard has only settings.
type fakeBoard struct {
	Board
	mu       sync.Mutex // guards settings
	settings board.Settings
}

func (b *fakeBoard) Settings() board.SettingsRecord {
	b.mu.Lock()
	defer b.mu.Unlock()
	return board.SettingsRecord{Settings: b.settings}
}

func (b *fakeBoard) change(how func(*board.Settings)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	how(&b.settings)
}

func (b *fakeBoard) Online() int { return 3 }

// fakeConn is a socket with room for some bytes.
type fakeConn struct {
	mu     sync.Mutex // guards what follows
	room   int
	got    []byte
	tail   []byte
	closed int
	writes int
}

func (c *fakeConn) Send(m wire.Sealed) wire.WriteStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flush() != wire.WriteDone {
		return wire.WriteBusy
	}
	c.writes++
	c.tail = m
	return c.flush()
}

func (c *fakeConn) Flush() wire.WriteStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flush()
}

func (c *fakeConn) flush() wire.WriteStatus {
	n := min(c.room, len(c.tail))
	c.got, c.tail, c.room = append(c.got, c.tail[:n]...), c.tail[n:], c.room-n
	if len(c.tail) > 0 {
		return wire.WriteKept
	}
	return wire.WriteDone
}

func (c *fakeConn) Close(code int, _ string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = code
}

// closedWith returns the code that the socket was closed with, 0 while it is open.
func (c *fakeConn) closedWith() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// written returns how many writes began.
func (c *fakeConn) written() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// drain makes room for what comes.
func (c *fakeConn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room = roomy
}

// frames takes what has come apart: the text of every frame.
func (c *fakeConn) frames(t *testing.T) []string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for b := c.got; len(b) > 0; {
		n, header := int(b[1]), 2
		switch n {
		case 126:
			n, header = int(binary.BigEndian.Uint16(b[2:])), 4
		case 127:
			n, header = int(binary.BigEndian.Uint64(b[2:])), 10
		}
		if b[0] != opText || len(b) < header+n {
			t.Fatalf("a frame that begins with % x, of %d bytes", b[:2], len(b))
		}
		out, b = append(out, string(b[header:header+n])), b[header+n:]
	}
	c.got = nil
	return out
}

// rig is a hub with fake sockets, in virtual time.
type rig struct {
	*hub
	t   *testing.T
	b   *fakeBoard
	reg *prometheus.Registry
}

// inBubble runs a test with a hub in virtual time.
func inBubble(t *testing.T, do func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, reg, cfg := &fakeBoard{settings: board.DefaultSettings()}, prometheus.NewRegistry(), DefaultConfig()
		m, err := newMetrics(reg, &Face{})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{hub: newHub(&cfg, b, m), t: t, b: b, reg: reg}
		do(r)
		for len(r.members) > 0 {
			for conn := range r.members {
				r.leave(conn)
				break
			}
		}
		r.pass(time.Second) // its goroutine ends
	})
}

func (r *rig) joined(room int) *fakeConn {
	r.t.Helper()
	c := &fakeConn{room: room}
	r.join(c, wire.Sealed{})
	synctest.Wait()
	return c
}

// settle lets everything pending be told.
func (r *rig) settle() { r.pass(2 * roundEvery) }

// pass lets time pass, and waits until everybody rests.
func (r *rig) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (r *rig) refreshed(cause string) float64 { return value(r.t, r.metrics.refreshes[cause]) }

func value(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func at(x, y int, colour board.Colour, user board.UserID) board.PlacedTile {
	return board.PlacedTile{At: board.Point{X: x, Y: y}, Colour: colour, User: user}
}

func cleared(x, y int) board.PlacedTile {
	return board.PlacedTile{At: board.Point{X: x, Y: y}, Kind: board.KindClear, User: "admin"}
}

const roomy = 1 << 30

// All placements of a round go out in one write to each session; those off the board, and colours that it does not know, do not.
func TestRound(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.joined(roomy)
		r.told([]board.PlacedTile{at(1, 2, 3, `a"<`), at(1000, 0, 3, "b"), at(4, 5, 16, "b"), at(4, 5, 15, "b")}, false)
		r.settle()
		want := []string{
			`{"type":"place","payload":{"author":"a\"\u003c","x":1,"y":2,"color":3}}`,
			`{"type":"place","payload":{"author":"b","x":4,"y":5,"color":15}}`,
		}
		if got := c.frames(t); !slices.Equal(got, want) || c.written() != 2 { // the answer to the upgrade is one
			t.Errorf("%d writes: %s", c.written(), got)
		}
	})
}

// A session that takes nothing gets no second write; when it takes bytes again it gets the rest of its frame, a refresh, and
// what comes then. Others miss nothing.
func TestSlowSession(t *testing.T) {
	inBubble(t, func(r *rig) {
		slow, quick := r.joined(10), r.joined(roomy)
		for i := range 5 {
			r.told([]board.PlacedTile{at(i, 0, 1, "ann")}, false)
			r.settle()
		}
		if got := quick.frames(t); len(got) != 5 {
			t.Errorf("the quick one got %d", len(got))
		}
		if value(t, r.metrics.skipped) != 4 || slow.written() != 2 {
			t.Errorf("%v skipped, %d writes", value(t, r.metrics.skipped), slow.written())
		}
		slow.drain()
		r.settle()
		r.told([]board.PlacedTile{at(7, 0, 1, "ann")}, false)
		r.settle()
		if got := slow.frames(t); len(got) != 3 || got[1] != `{"type":"refresh","payload":{}}` || !strings.Contains(got[2], `"x":7`) {
			t.Errorf("%q", got)
		}
		if r.refreshed(causeSlow) != 1 || len(r.lagging) != 0 {
			t.Error("refreshed again, or lagging still")
		}
	})
}

// A session whose socket was full for a moment misses nothing and is not refreshed.
func TestShortLag(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.joined(10)
		r.told([]board.PlacedTile{at(1, 0, 1, "ann")}, false)
		r.pass(roundEvery / 2)
		c.drain()
		r.settle()
		r.told([]board.PlacedTile{at(2, 0, 1, "ann")}, false)
		r.settle()
		if got := c.frames(t); len(got) != 2 || r.refreshed(causeSlow) != 0 {
			t.Errorf("%q", got)
		}
	})
}

// A session whose socket takes nothing for StalledMax is closed; one that only has nothing to hear is not.
func TestStalledSession(t *testing.T) {
	inBubble(t, func(r *rig) {
		stalled, quiet := r.joined(0), r.joined(roomy)
		r.told([]board.PlacedTile{at(1, 0, 1, "ann")}, false)
		r.pass(r.cfg.StalledMax - time.Second)
		if stalled.closedWith() != 0 || r.count() != 2 {
			t.Error("closed early")
		}
		r.pass(2 * time.Second)
		if stalled.closedWith() != wire.CloseSilent || quiet.closedWith() != 0 || r.count() != 1 || value(t, r.metrics.closed[causeStalled]) != 1 {
			t.Errorf("closed with %d, the quiet one with %d", stalled.closedWith(), quiet.closedWith())
		}
	})
}

// More than can wait, and what the feed itself has lost, becomes a refresh for everybody.
func TestLost(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.joined(roomy)
		r.mu.Lock() // a long round
		many := make([]board.PlacedTile, pendingMax/2+1)
		r.told(many, false)
		r.told(many, false)
		pending := len(r.pending)
		r.mu.Unlock()
		r.settle()
		if got := c.frames(t); len(got) != 1 || !strings.Contains(got[0], "refresh") || pending != 0 {
			t.Errorf("%d pending, %d frames", pending, len(got))
		}
		r.told([]board.PlacedTile{at(1, 0, 1, "ann")}, true)
		r.settle()
		if got := c.frames(t); len(got) != 2 || !strings.Contains(got[1], "refresh") || r.refreshed(causeLost) != 2 {
			t.Errorf("%q", got)
		}
	})
}

// Who nobody listens to holds nothing, and the count of people comes at its time.
func TestActivity(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.told(make([]board.PlacedTile, 100), false)
		if r.pending != nil {
			t.Error("kept for nobody")
		}
		c := r.joined(roomy)
		r.pass(2*r.cfg.ActivityEvery + time.Second)
		if got, want := c.frames(t), `{"type":"activity","payload":{"count":4}}`; !slices.Equal(got, []string{want, want}) {
			t.Errorf("%q", got)
		}
	})
}

// A new size is a refresh; a palette of more than 16 colours ends the sessions.
func TestSettingsOfTheBoard(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.joined(roomy)
		r.mu.Lock()
		r.b.change(func(s *board.Settings) { s.Height = 900 })
		r.mu.Unlock()
		r.settle()
		if got := c.frames(t); len(got) != 1 || !strings.Contains(got[0], "refresh") {
			t.Errorf("%q", got)
		}
		r.mu.Lock()
		r.b.change(func(s *board.Settings) { s.Palette = append(s.Palette, board.PaletteEntry{Name: "gold"}) })
		r.mu.Unlock()
		r.settle()
		if c.closedWith() != wire.CloseTryLater || r.count() != 0 || value(t, r.metrics.closed[causeColours]) != 1 {
			t.Errorf("closed with %d", c.closedWith())
		}
	})
}

// points decodes a "batch-place".
func points(t *testing.T, frame string) (out []board.Point) {
	t.Helper()
	var m struct {
		Type    string
		Payload []struct {
			Author      string
			X, Y, Color int
		}
	}
	if err := json.Unmarshal([]byte(frame), &m); err != nil || m.Type != frameBatch {
		t.Fatalf("%s: %v", frame, err)
	}
	for _, p := range m.Payload {
		if p.Author != "" || p.Color != 0 {
			t.Errorf("%+v", p)
		}
		out = append(out, board.Point{X: p.X, Y: p.Y})
	}
	return out
}

// What an operator clears bit by bit is told together once it is quiet, without the tiles that a user has placed since.
func TestClearedTilesAreGathered(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.joined(roomy)
		for i := range 4 {
			r.told([]board.PlacedTile{cleared(i, 0), cleared(i, 1)}, false)
			r.pass(gatherQuiet / 2)
		}
		r.told([]board.PlacedTile{at(2, 1, 7, "ann")}, false)
		r.pass(2 * gatherQuiet)
		got := c.frames(t)
		if len(got) != 2 || !strings.Contains(got[0], "ann") {
			t.Fatalf("%q", got)
		}
		tiles := points(t, got[1])
		slices.SortFunc(tiles, func(a, b board.Point) int { return 10*(a.Y-b.Y) + a.X - b.X })
		if want := "[(0,0) (1,0) (2,0) (3,0) (0,1) (1,1) (3,1)]"; fmt.Sprint(tiles) != want {
			t.Errorf("%v, want %s", tiles, want)
		}
	})
}

// Clearing without an end is told all the same, in messages of bounded size.
func TestGatheringEnds(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.joined(roomy)
		for i := range 30 {
			r.told([]board.PlacedTile{cleared(i, 0)}, false)
			r.pass(gatherAtMost / 20)
		}
		if got := c.frames(t); len(got) != 1 {
			t.Errorf("%d messages", len(got))
		}
		r.settle()
		r.pass(gatherAtMost)
		c.frames(t)
		var many []board.PlacedTile
		for i := range 2*gatherTilesMax + 1 {
			many = append(many, cleared(i%1000, i/1000))
		}
		r.told(many, false)
		r.settle()
		told := 0
		for _, frame := range c.frames(t) {
			told += len(points(t, frame))
		}
		if told != len(many) {
			t.Errorf("%d of %d tiles", told, len(many))
		}
	})
}

// A rectangle of drawrect is told whole, but for what users have placed since it was cleared.
func TestWipe(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.joined(roomy)
		rect := board.Rect{X: 10, Y: 10, Width: 2, Height: 2}
		r.wipe(rect)
		r.told([]board.PlacedTile{at(10, 10, 5, "ann"), cleared(10, 10), at(11, 11, 5, "ann")}, false)
		r.settle()
		if got := c.frames(t); len(got) != 2 {
			t.Errorf("%q", got)
		}
		r.wiped(rect)
		r.pass(2 * gatherQuiet)
		got := c.frames(t)
		if len(got) != 1 || fmt.Sprint(points(t, got[0])) != "[(10,10) (10,11) (11,10)]" {
			t.Errorf("%q", got)
		}
	})
}

// Frames of every size have the header that is due, and writes are cut between frames.
func TestFramesAndWrites(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 65_535, 65_536, 70_000} {
		text := strings.Repeat("x", n)
		c := &fakeConn{got: appendFrame([]byte{}, func(dst []byte) []byte { return append(dst, text...) })}
		if got := c.frames(t); len(got) != 1 || got[0] != text {
			t.Errorf("a frame of %d bytes", n)
		}
	}
	var e encoded
	sizes := []int{writeBytesMax / 2, writeBytesMax / 2, 1, 3 * writeBytesMax, 5, 6}
	for _, n := range sizes {
		e.add(func(dst []byte) []byte { return append(dst, make([]byte, n)...) })
	}
	var got []int
	for _, w := range splitWrites(e) {
		got = append(got, len(w))
	}
	if want := []int{writeBytesMax, 1, 3 * writeBytesMax, 11}; !slices.Equal(got, want) {
		t.Errorf("writes of %v, want %v", got, want)
	}
	if splitWrites(encoded{}) != nil {
		t.Error("a write of nothing")
	}
}

// A signature is good for an hour and for nothing else.
func TestSignature(t *testing.T) {
	f := &Face{cfg: Config{Key: make([]byte, KeyBytesMin)}}
	now := time.Unix(1_490_979_533, 0)
	m := f.signURL(now)
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{0, ""}, {urlLife - time.Second, ""}, {urlLife, reasonExpired}, {24 * time.Hour, reasonExpired}} {
		if got := f.checkURL(m, now.Add(c.after)); got != c.want {
			t.Errorf("after %v: %q, want %q", c.after, got, c.want)
		}
	}
	other := &Face{cfg: Config{Key: append(make([]byte, KeyBytesMin), 1)}}
	if other.checkURL(m, now) != reasonSignature || other.goodModhash("ann", f.Modhash("ann")) || !f.goodModhash("ann", f.Modhash("ann")) ||
		f.goodModhash("bob", f.Modhash("ann")) || f.goodModhash("ann", "") || len(f.Modhash("ann")) != 50 {
		t.Error("a signature of another kind, key or user is taken")
	}
}
