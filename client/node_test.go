package client

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// fakeNode is a node in the test's process: HTTP and websockets over net.Pipe, the real codec, a modelBoard behind it, and
// faults on demand. It lives in a synctest bubble, so its time is virtual.
type fakeNode struct {
	t      *testing.T
	server *http.Server
	conns  chan net.Conn // dialled, not accepted yet
	closed chan struct{}

	mu           sync.Mutex // guards what follows
	b            *modelBoard
	sessions     map[*fakeSession]bool
	users        map[board.UserID]*fakeUser
	down         bool          // nobody can connect
	refuse       int           // HTTP status of handshakes, 0: let in
	body         []byte        // served instead of the board, as a cache would
	bodies       int           // how often the board was asked for
	slowBody     time.Duration // how long an answer takes
	badBody      int           // how many answers to that are 503
	wrong        bool          // heartbeats carry wrong hashes
	quiet        bool          // no heartbeats
	dials        int
	instant      bool // publish every placement at once
	hold         bool // placements are carried out and not answered
	lose         bool // the next placement is lost on its way inside the node, and carried out 10 s later
	drop         int  // placements answered by a notice only
	unknownTurns bool // hellos do not tell the turn
	shaky        bool // a placement is carried out, and then the connection breaks in the middle of the answer
	placed       int  // placements carried out
	places       int  // messages
	script       func(*wire.Place) (board.PlaceOutcome, bool)
}

type fakeUser struct {
	turn    uint64
	nonce   uint64
	outcome board.PlaceOutcome // of the turn before
}

// fakeSession is one websocket. Its writer never holds up the node.
type fakeSession struct {
	modelSession
	n     *fakeNode
	ws    *websocket.Conn
	queue chan []byte // nil: close
	half  bool        // write half of the next message, then break
}

const fakeHeartbeat = 10 * time.Second

// withNode runs a test in a bubble with a node of its own.
func withNode(t *testing.T, test func(t *testing.T, n *fakeNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.server = &http.Server{Handler: n.handler()}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = n.server.Serve(n)
		}()
		test(t, n)
		n.kick()
		_ = n.server.Close()
		<-served
		synctest.Wait()
	})
}

func newFakeNode(t *testing.T) *fakeNode {
	return &fakeNode{
		t: t, conns: make(chan net.Conn, 64), closed: make(chan struct{}), b: newModelBoard(7, 1, 500, 500),
		sessions: map[*fakeSession]bool{}, users: map[board.UserID]*fakeUser{},
	}
}

func (n *fakeNode) handler() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/login/{name}", n.login)
	mux.HandleFunc("POST /api/v1/anonymous", n.login)
	mux.HandleFunc("GET /api/v1/board", n.board)
	mux.HandleFunc("GET /api/v1/ws", n.serveWS)
	return mux
}

// Accept, Close and Addr make the node a net.Listener.
func (n *fakeNode) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *fakeNode) Close() error   { close(n.closed); return nil }
func (n *fakeNode) Addr() net.Addr { return &net.UnixAddr{Name: "node"} }

func (n *fakeNode) dial(context.Context, string, string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials++
	if n.down {
		return nil, errors.New("refused: the node is down")
	}
	here, there := net.Pipe()
	n.conns <- there
	return here, nil
}

// session dials with the options and closes the session at the end of the test.
func (n *fakeNode) session(o Options) *Session {
	n.t.Helper()
	s, err := n.try(o)
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

func (n *fakeNode) try(o Options) (*Session, error) {
	transport := &http.Transport{DialContext: n.dial, DisableKeepAlives: true}
	o.Dial, o.HTTPClient = n.dial, &http.Client{Transport: transport}
	s, err := Dial(context.Background(), "http://node", o)
	if err == nil {
		n.t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func (n *fakeNode) login(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name == "" {
		name = "anon-1"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(SignedIn{User: board.UserID(name), Token: "token of " + name})
}

func (n *fakeNode) board(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		n.t.Error("a token was sent for what is everybody's")
	}
	n.mu.Lock()
	slow := n.slowBody
	n.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-r.Context().Done():
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bodies++
	if n.badBody > 0 {
		n.badBody--
		w.Header().Set("Retry-After", "60")
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	b := n.body
	if b == nil || r.Header.Get("Cache-Control") == "no-cache" {
		b = wire.AppendBoard(nil, n.b.body())
	}
	_, _ = w.Write(b)
}

func (n *fakeNode) serveWS(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	refuse := n.refuse
	n.mu.Unlock()
	if refuse != 0 {
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "100")
		w.WriteHeader(refuse)
		_ = json.NewEncoder(w).Encode(Problem{Status: refuse, Code: "busy", Title: "no"})
		return
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{Subprotocol}}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		n.t.Errorf("upgrade: %v", err)
		return
	}
	s := &fakeSession{n: n, ws: ws, queue: make(chan []byte, 4096)}
	s.modelSession = modelSession{b: n.b, pick: func(int) int { return 0 }, user: board.UserID(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer token of "))}
	done := make(chan struct{})
	go s.write(done)
	n.mu.Lock()
	n.sessions[s] = true
	h := s.hello()
	h.HeartbeatMs = fakeHeartbeat.Milliseconds()
	if s.user != "" {
		h.Turn, h.Known = n.user(s.user).turn, !n.unknownTurns
	}
	s.send(h)
	s.flush()
	n.mu.Unlock()
	go s.beat(done)
	s.read()
	close(done)
	n.mu.Lock()
	delete(n.sessions, s)
	n.mu.Unlock()
}

func (n *fakeNode) user(id board.UserID) *fakeUser {
	if n.users[id] == nil {
		n.users[id] = &fakeUser{turn: 1}
	}
	return n.users[id]
}

func (s *fakeSession) read() {
	for {
		_, b, err := s.ws.ReadMessage()
		if err != nil {
			_ = s.ws.Close()
			return
		}
		s.n.mu.Lock()
		m, err := wire.DecodeClient(b)
		switch p, isPlace := m.(*wire.Place); {
		case err != nil:
			s.n.t.Errorf("from the client: %v", err)
		case isPlace:
			s.place(p)
		default:
			s.modelSession.receive(b)
		}
		s.flush()
		s.n.mu.Unlock()
	}
}

// flush hands over what the model wants sent; n.mu is held.
func (s *fakeSession) flush() {
	for _, b := range s.out {
		s.queue <- b
	}
	s.out = nil
}

func (s *fakeSession) write(done chan struct{}) {
	for {
		select {
		case <-done:
			return
		case b := <-s.queue:
			s.n.mu.Lock()
			half := s.half
			s.n.mu.Unlock()
			switch {
			case b == nil:
				_ = s.ws.Close()
				return
			case half:
				sealed := wire.Seal(append(make([]byte, wire.SealRoom), b...))
				_, _ = s.ws.NetConn().Write(sealed[:(len(sealed)+1)/2])
				_ = s.ws.Close()
				return
			}
			if s.ws.WriteMessage(websocket.BinaryMessage, b) != nil {
				return
			}
		}
	}
}

func (s *fakeSession) beat(done chan struct{}) {
	t := time.NewTicker(fakeHeartbeat)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			s.n.mu.Lock()
			if !s.n.quiet {
				s.heartbeat()
			}
			if s.n.wrong && len(s.out) > 0 {
				s.out = nil
				s.send(&wire.Heartbeat{Tick: s.n.b.tick, Hashes: board.Hashes{Tiles: 1}})
			}
			s.flush()
			s.n.mu.Unlock()
		}
	}
}

// place carries out a placement, once for a turn and nonce. n.mu is held.
func (s *fakeSession) place(m *wire.Place) {
	n := s.n
	n.places++
	if n.drop > 0 {
		n.drop--
		s.send(&wire.Notice{Code: board.CodeRate, RetryMs: 300})
		return
	}
	if n.lose {
		n.lose = false
		time.AfterFunc(10*time.Second, func() { n.do(func() { n.script = nil; s.place(m) }) })
		return
	}
	o := board.PlaceOutcome{Turn: m.Turn, Nonce: m.Nonce, At: board.Point{X: m.X, Y: m.Y}, Colour: board.Colour(m.Colour)}
	u := n.user(s.user)
	switch {
	case s.user == "":
		o.Verdict, o.Code = board.VerdictRefused, board.CodeSignIn
	case m.Turn == u.turn-1 && m.Nonce == u.nonce:
		o = u.outcome
	case m.Turn != u.turn:
		o.Verdict, o.Code, o.NextTurn = board.VerdictRefused, board.CodeSuperseded, u.turn
	default:
		if n.script != nil {
			if scripted, ok := n.script(m); ok {
				scripted.Turn, scripted.Nonce, scripted.At = o.Turn, o.Nonce, o.At
				o = scripted
				break
			}
		}
		n.b.place(o.At, o.Colour)
		n.placed++
		u.turn, u.nonce = u.turn+1, m.Nonce
		o.NextTurn, o.Chunk, o.Sequence = u.turn, o.At.Chunk(), n.b.sequence(o.At.Chunk())+uint64(len(n.b.waiting[o.At.Chunk()]))
		u.outcome = o
	}
	if n.hold {
		return
	}
	s.half = s.half || n.shaky
	s.send(&wire.Placed{PlaceOutcome: o})
	if !n.instant {
		return
	}
	if t, ok := n.b.publish(); ok {
		for other := range n.sessions {
			other.published(t)
			other.flush()
		}
	}
}

// do runs f with the node's lock, then sends what the sessions have to say.
func (n *fakeNode) do(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	for s := range n.sessions {
		s.flush()
	}
}

// tick places tiles and publishes them.
func (n *fakeNode) tick(colour board.Colour, points ...board.Point) {
	n.do(func() {
		for _, p := range points {
			n.b.place(p, colour)
		}
		if t, ok := n.b.publish(); ok {
			for s := range n.sessions {
				s.published(t)
			}
		}
	})
}

// everywhere is one tile of every chunk.
func (n *fakeNode) everywhere() (points []board.Point) {
	for y := 0; y < n.b.settings.Height; y += board.ChunkSize {
		for x := 0; x < n.b.settings.Width; x += board.ChunkSize {
			points = append(points, board.Point{X: x, Y: y})
		}
	}
	return points
}

// kick breaks every connection.
func (n *fakeNode) kick() {
	n.do(func() {
		for s := range n.sessions {
			s.queue <- nil
		}
	})
}

// pass lets virtual time pass until d is over and nothing moves any more.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// settle waits until the session is live and checks its mirror against the board, bit for bit.
func (n *fakeNode) settle(s *Session) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := s.Live(ctx); err != nil {
		n.t.Fatalf("not live: %v, %s, %+v", err, s.State(), s.Stats())
	}
	synctest.Wait()
	n.compare(s)
}

func (n *fakeNode) compare(s *Session) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	err := s.View(func(m *Mirror) {
		if d := m.Diff(n.b.body()); len(d) > 0 || !m.Settled() {
			n.t.Fatalf("settled %t, chunks differ: %v", m.Settled(), d)
		}
		if m.Hashes() != n.b.hashes(func(id board.ChunkID) bool { return m.at(id) != nil }) {
			n.t.Fatal("hashes differ")
		}
	})
	if err != nil {
		n.t.Fatal(err)
	}
}
