package actors

import (
	"fmt"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/wire"
)

// simClient is one user: sessions on any node, and a placement that is tried until an answer is final.
type simClient struct {
	w        *world
	id       board.UserID
	turn     uint64 // as the user knows it
	sessions []*simSession
	now      *simRequest
	old      []*simRequest
	accepted int
	last     *simRequest // of the quiet phase
	triedMs  int64
}

// simRequest is a placement as its user knows it: retries keep the turn and the nonce.
type simRequest struct {
	user     board.UserID
	turn     uint64 // 0: whatever the turn is
	nonce    uint64
	at       board.Point
	colour   board.Colour
	accepted bool
}

// simHTTP marks sessions that stand for a waiting HTTP request: nobody hears the answer.
const simHTTP wire.SessionID = 1 << 40

// chooseShards picks the few shards that the users of this seed fall into.
func (w *world) chooseShards() {
	for range 1 + w.rand.IntN(3) {
		w.shards = append(w.shards, w.rand.IntN(board.UserShards))
	}
	slices.Sort(w.shards)
	w.shards = append(slices.Compact(w.shards), board.OpsShard)
}

func (w *world) makeClients() {
	for i := range w.odds.users {
		names := simNames[w.shards[i%(len(w.shards)-1)]]
		c := &simClient{w: w, id: names[i], turn: 1}
		w.clients = append(w.clients, c)
		for range w.rand.IntN(3) {
			c.connect()
		}
	}
}

func (c *simClient) connect() {
	s := &simSession{c: c, n: c.w.nodes[c.w.rand.IntN(len(c.w.nodes))]}
	if c.w.chance(0.3) {
		s.part = wire.ChunkRect{Col: c.w.rand.IntN(2), Row: c.w.rand.IntN(2), Cols: 2, Rows: 2}
	}
	s.open()
	c.sessions = append(c.sessions, s)
}

// clientsAct lets users do something.
func (w *world) clientsAct() {
	for _, c := range w.clients {
		if w.chance(0.25) {
			c.act()
		}
	}
}

func (c *simClient) act() {
	w := c.w
	switch {
	case c.now == nil:
		turn := c.turn
		if w.chance(0.1) {
			turn = 0
		} else if w.chance(0.03) {
			turn += uint64(w.between(1, 3))
		}
		c.now = c.request(turn)
		c.submit(c.now)
		if w.chance(0.3) {
			c.submit(c.now) // a double click, perhaps on another session
		}
		if w.chance(0.1) { // two placements of one turn at once
			other := c.request(c.now.turn)
			c.old = append(c.old, other)
			c.submit(other)
		}
	case w.chance(0.3):
		c.submit(c.now)
	case len(c.old) > 0 && w.chance(0.3):
		if r := c.old[w.rand.IntN(len(c.old))]; r.turn != 0 || w.chance(0.2) {
			c.submit(r)
		}
	case w.chance(0.02):
		c.giveUp()
	}
}

// request makes a new placement, often where others place too.
func (c *simClient) request(turn uint64) *simRequest {
	w := c.w
	r := &simRequest{user: c.id, turn: turn, nonce: w.rand.Uint64(), colour: board.Colour(w.rand.IntN(16))}
	switch {
	case w.chance(0.05):
		r.at = board.Point{X: w.rand.IntN(300) - 50, Y: w.rand.IntN(300) - 50}
	case w.chance(0.5):
		r.at = board.Point{X: 98 + w.rand.IntN(4), Y: 98 + w.rand.IntN(4)}
	default:
		r.at = board.Point{X: w.rand.IntN(simSide), Y: w.rand.IntN(simSide)}
	}
	if w.chance(0.02) {
		r.colour = 200
	}
	w.check.requests[r.nonce] = r
	return r
}

// submit sends a placement by one of the user's sessions, or over HTTP.
func (c *simClient) submit(r *simRequest) {
	w := c.w
	c.triedMs = w.nowMs
	to := SessionRef{Node: w.nodes[w.rand.IntN(len(w.nodes))].node.Address, Session: simHTTP}
	if len(c.sessions) > 0 && !w.chance(0.1) {
		s := c.sessions[w.rand.IntN(len(c.sessions))]
		to = SessionRef{Node: s.n.node.Address, Session: s.id}
	}
	m := PlaceTile{
		Request: board.PlaceRequest{User: c.id, Turn: r.turn, Nonce: r.nonce, At: r.at, Colour: r.colour}, ReplyTo: to,
	}
	w.send("place", func() { w.owner(store.Shard(c.id.Shard())).toUser(c.id, m) })
}

func (c *simClient) giveUp() {
	if c.now != nil {
		c.old = append(c.old, c.now)
		c.now = nil
	}
}

// answered takes an answer that came to one of the user's sessions.
func (c *simClient) answered(o *board.PlaceOutcome) {
	if o.NextTurn > c.turn {
		c.turn = o.NextTurn
	}
	if o.Verdict == board.VerdictAccepted {
		if r := c.w.check.requests[o.Nonce]; r != nil {
			r.accepted = true
		}
		c.accepted++
	}
	if c.now == nil || c.now.nonce != o.Nonce {
		return
	}
	switch o.Verdict {
	case board.VerdictAccepted:
		c.giveUp()
	case board.VerdictRefused:
		switch o.Code {
		case board.CodeBusy, board.CodeStore, board.CodeClock, board.CodeDraining:
		case board.CodeTurn, board.CodeSuperseded:
			c.turn = max(o.NextTurn, 1)
			c.giveUp()
		default:
			if c.w.chance(0.5) {
				c.giveUp()
			}
		}
	case board.VerdictCharged, board.VerdictUnknown:
	}
}

// simConn is the write half of a session's socket: it may stall.
type simConn struct {
	s       *simSession
	tail    wire.Sealed
	stalled bool
	closed  bool
}

func (c *simConn) Send(m wire.Sealed) wire.WriteStatus {
	switch {
	case c.closed:
		return wire.WriteClosed
	case c.Flush() != wire.WriteDone:
		return wire.WriteBusy
	case c.stalled:
		c.tail = m
		return wire.WriteKept
	}
	c.s.box.put(m)
	return wire.WriteDone
}

func (c *simConn) Flush() wire.WriteStatus {
	switch {
	case c.closed:
		return wire.WriteClosed
	case c.tail == nil:
	case c.stalled:
		return wire.WriteKept
	default:
		c.s.box.put(c.tail)
		c.tail = nil
	}
	return wire.WriteDone
}

func (c *simConn) Close(int, string) { c.closed = true }

// simSession is one connection of a user, with a mirror of the board kept as docs/protocol.md says.
type simSession struct {
	c      *simClient
	n      *simNode
	life   int
	id     wire.SessionID
	part   wire.ChunkRect // zero: the whole board
	conn   *simConn
	box    *box
	mirror *simMirror
}

type simBody struct{ body []byte }

func (s *simSession) open() {
	w := s.c.w
	s.life, s.id, s.conn = s.n.life, s.n.session(), &simConn{s: s}
	s.box = w.newBox(fmt.Sprintf("%s/session%d of %s", s.n.node.Address, s.id, s.c.id), s.receive)
	s.n.sub.box.put(SessionOpened{Session: s.id, Conn: s.conn, User: s.c.id})
}

// reconnect closes the connection and opens another, perhaps on another node, with the same mirror.
func (s *simSession) reconnect(n *simNode) {
	if s.life == s.n.life {
		s.n.sub.box.put(SessionClosed{Session: s.id})
	}
	s.conn.closed = true
	s.box.queue = nil
	s.n = n
	if s.mirror != nil {
		s.mirror.lost()
	}
	s.open()
}

// say sends a message to the node, through the codec.
func (s *simSession) say(m wire.ClientMessage) {
	decoded, err := wire.DecodeClient(wire.AppendClient(nil, m))
	if err != nil {
		s.c.w.fail("wire", "%T%+v: %v", m, m, err)
	}
	if !s.conn.closed {
		s.n.sub.box.put(SessionSent{Session: s.id, Message: decoded})
	}
}

func (s *simSession) receive(m any) {
	w := s.c.w
	if b, ok := m.(simBody); ok {
		s.mirror.body(b.body)
		s.mirror.next()
		return
	}
	sealed := m.(wire.Sealed)
	decoded, err := wire.DecodeServer(sealed[headerBytes(sealed):])
	if err != nil {
		w.fail("wire", "a session got %x: %v", []byte(sealed), err)
	}
	w.log("  = %T%+v", decoded, decoded)
	switch m := decoded.(type) {
	case *wire.Hello:
		if s.mirror == nil {
			s.mirror = newSimMirror(s, m.Settings)
		}
		s.mirror.hello(m)
	case *wire.Me:
		s.c.turn = max(s.c.turn, m.Turn)
	case *wire.Placed:
		s.c.answered(&m.PlaceOutcome)
	case *wire.Notice:
		w.fail("wire", "a session got a notice: %+v", m)
	case *wire.Move:
	default:
		s.mirror.receive(m)
	}
}

// headerBytes returns the size of the websocket header.
func headerBytes(m wire.Sealed) int {
	switch m[1] {
	case 126:
		return 4
	case 127:
		return 10
	}
	return 2
}
