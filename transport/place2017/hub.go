package place2017

// In:  placements from the feed, once a frame (told); sessions that join and leave.
// Out: text frames, encoded once for all sessions, in one write to each: every user's placement as a "place" of its own, because
//      most programs of 2017 know no other; what operators do as "batch-place".
// A session whose socket is full misses what comes; when it takes bytes again it is told to load its page anew ("refresh").
// Nothing waits for a session: the feed leaves its placements here and goes on, the writes do not block.

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// Bounds of a hub.
const (
	// pendingMax is how many placements may wait to be encoded; beyond: all sessions are told to refresh.
	pendingMax = 65_536
	// writeBytesMax is how much goes out in one write.
	writeBytesMax = 64 * 1024
	// roundEvery is how often full sockets are tried again and times are looked at.
	roundEvery = 50 * time.Millisecond
)

// hub fans frames out to the sessions. Its goroutine lives while there are sessions.
type hub struct {
	cfg     *Config
	board   Board
	metrics *metrics
	joined  atomic.Int64  // sessions, for those who hold no lock
	wake    chan struct{} // something is pending

	pendingMu sync.Mutex // guards the fields below; held for moments only
	pending   []board.PlacedTile
	lost      bool

	mu       sync.Mutex // guards the fields below; held during a round of writes
	members  map[wire.Conn]*member
	lagging  map[*member]struct{} // with bytes unsent or frames missed
	wipes    wipes
	running  bool
	width    int       // of the board that the sessions know
	height   int       //
	activeAt time.Time // when "activity" was told last
}

// member is a session.
type member struct {
	conn   wire.Conn
	missed bool      // a frame: it needs a refresh
	since  time.Time // since when its socket takes nothing
}

func newHub(cfg *Config, b Board, m *metrics) *hub {
	return &hub{
		cfg: cfg, board: b, metrics: m, wake: make(chan struct{}, 1),
		members: map[wire.Conn]*member{}, lagging: map[*member]struct{}{},
	}
}

// count returns the number of sessions.
func (h *hub) count() int { return int(h.joined.Load()) }

// told takes placements from the feed.
func (h *hub) told(placed []board.PlacedTile, lost bool) {
	if h.count() == 0 {
		return // who joins from now on reads the board from now on
	}
	h.pendingMu.Lock()
	if len(h.pending)+len(placed) > pendingMax {
		h.pending, placed, lost = nil, nil, true
	}
	h.pending = append(h.pending, placed...)
	h.lost = h.lost || lost
	h.pendingMu.Unlock()
	h.awake()
}

func (h *hub) awake() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// join makes a connection a session and sends the answer to its upgrade: whatever is told afterwards reaches it.
func (h *hub) join(conn wire.Conn, answer wire.Sealed) {
	h.joined.Add(1) // first: the board may show the next placement before the answer is out
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members[conn] = &member{conn: conn}
	if !h.running {
		h.running = true
		s := h.board.Settings()
		h.width, h.height, h.activeAt = s.Width, s.Height, time.Now()
		go h.run()
	}
	conn.Send(answer)
}

func (h *hub) leave(conn wire.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m, ok := h.members[conn]; ok {
		h.forgetLocked(m)
	}
}

func (h *hub) forgetLocked(m *member) {
	delete(h.members, m.conn)
	delete(h.lagging, m)
	h.joined.Add(-1)
}

// dropLocked parts from a session.
func (h *hub) dropLocked(m *member, cause string, code int, reason string) {
	h.metrics.closed[cause].Inc()
	h.forgetLocked(m)
	m.conn.Close(code, reason)
}

// wipe says that a rectangle is about to be cleared.
func (h *hub) wipe(rect board.Rect) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wipes.begin(rect, time.Now())
}

// wiped says that nothing more is waited for.
func (h *hub) wiped(rect board.Rect) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wipes.end(rect, time.Now())
	if !h.running {
		h.wipes = wipes{}
	}
}

// refresh has every session told to load its page anew.
func (h *hub) refresh() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refreshLocked(causeOperator)
}

func (h *hub) run() {
	ticker := time.NewTicker(roundEvery)
	defer ticker.Stop()
	for h.round(time.Now()) {
		select {
		case <-h.wake:
		case <-ticker.C:
		}
	}
}

// round tells what has come and looks after who lags; false ends the goroutine, because nobody listens any more.
func (h *hub) round(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pendingMu.Lock()
	placed, lost := h.pending, h.lost
	h.pending, h.lost = nil, false
	h.pendingMu.Unlock()
	if len(h.members) == 0 {
		h.running, h.wipes = false, wipes{}
		return false
	}
	h.lookAtSettings()
	h.lookAtLagging(now)
	frames := h.encode(placed, now)
	for _, write := range splitWrites(frames) {
		h.sendLocked(write, now)
	}
	if lost {
		h.refreshLocked(causeLost)
	}
	if now.Sub(h.activeAt) >= h.cfg.ActivityEvery {
		h.activeAt = now
		h.metrics.frames[frameActivity].Inc()
		h.sendLocked(activityFrame(h.board.Online()+len(h.members)), now)
	}
	return true
}

// lookAtSettings has pages load themselves anew for another size, and parts from everybody when tiles no longer fit four bits.
func (h *hub) lookAtSettings() {
	s := h.board.Settings()
	if len(s.Palette) > coloursMax {
		for _, m := range h.members {
			h.dropLocked(m, causeColours, wire.CloseTryLater, "the board has more colours than this protocol")
		}
	}
	if s.Width != h.width || s.Height != h.height {
		h.width, h.height = s.Width, s.Height
		h.refreshLocked(causeResized)
	}
}

// lookAtLagging tries again to write what is unsent, refreshes who has missed something, and gives up who takes nothing.
func (h *hub) lookAtLagging(now time.Time) {
	for m := range h.lagging {
		if m.conn.Flush() != wire.WriteDone {
			if now.Sub(m.since) >= h.cfg.StalledMax {
				h.dropLocked(m, causeStalled, wire.CloseSilent, "nothing was read for too long")
			}
			continue
		}
		delete(h.lagging, m)
		if m.missed {
			m.missed = false
			h.metrics.refreshes[causeSlow].Inc()
			h.note(m, m.conn.Send(refreshFrame), now)
		}
	}
}

// encode returns the frames of a round, one after the other; each begins at an offset of starts.
func (h *hub) encode(placed []board.PlacedTile, now time.Time) (frames encoded) {
	bounds := board.Rect{Width: h.width, Height: h.height}
	for i := range placed {
		p := &placed[i]
		switch {
		case !bounds.Contains(p.At) || p.Colour >= coloursMax:
		case p.User != "" && ofUser(p.Kind.String()):
			h.wipes.user(p.At)
			frames.add(func(dst []byte) []byte { return appendPlace(dst, p) })
			h.metrics.frames[framePlace].Inc()
		default:
			h.wipes.operator(*p, now)
		}
	}
	for _, tiles := range h.wipes.due(now) {
		frames.add(func(dst []byte) []byte { return appendBatch(dst, tiles) })
		h.metrics.frames[frameBatch].Inc()
	}
	return frames
}

// encoded is a sequence of frames.
type encoded struct {
	bytes []byte
	ends  []int
}

func (e *encoded) add(appendTo func([]byte) []byte) {
	e.bytes = appendTo(e.bytes)
	e.ends = append(e.ends, len(e.bytes))
}

// splitWrites cuts a round's frames into writes of at most writeBytesMax, between frames; a frame above that is a write of its
// own.
func splitWrites(e encoded) (writes []wire.Sealed) {
	start, end := 0, 0
	for _, next := range e.ends {
		if next-start > writeBytesMax && end > start {
			writes = append(writes, slices.Clip(wire.Sealed(e.bytes[start:end])))
			start = end
		}
		end = next
	}
	if end > start {
		writes = append(writes, slices.Clip(wire.Sealed(e.bytes[start:end])))
	}
	return writes
}

func (h *hub) sendLocked(frames wire.Sealed, now time.Time) {
	for _, m := range h.members {
		if m.missed {
			h.metrics.skipped.Inc()
			continue
		}
		h.note(m, m.conn.Send(frames), now)
	}
}

func (h *hub) refreshLocked(cause string) {
	h.metrics.frames[frameRefresh].Inc()
	now := time.Now()
	for _, m := range h.members {
		if m.missed {
			continue // will be told
		}
		h.metrics.refreshes[cause].Inc()
		h.note(m, m.conn.Send(refreshFrame), now)
	}
}

// note keeps account of what became of a write.
func (h *hub) note(m *member, status wire.WriteStatus, now time.Time) {
	switch status {
	case wire.WriteDone, wire.WriteClosed: // who is gone leaves
	case wire.WriteKept:
		h.lag(m, now)
	case wire.WriteBusy:
		m.missed = true
		h.metrics.skipped.Inc()
		h.lag(m, now)
	}
}

func (h *hub) lag(m *member, now time.Time) {
	if _, ok := h.lagging[m]; !ok {
		h.lagging[m] = struct{}{}
		m.since = now
	}
}
