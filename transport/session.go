package transport

// In:   a websocket upgrade, then binary messages of one client: Place, Subscribe, Repair, GetHashes (wire/messages.go).
// Here: who is it (login.go), is it within its limits, is it a message at all; what is not gets its answer from here.
// Out:  Connect, Receive and Disconnect of Sessions; and, called by the session's subscriber, bytes to the socket (conn.go).
// Next: actors/system.go, which finds the user's shard, on this node or another.
// Back: actors/feed.go and the session's subscriber send frames and answers through wire.Conn, which is the conn in here.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// Subprotocol is the websocket subprotocol that clients offer. One that offers none at all is taken for this one.
const Subprotocol = "placed.v1"

// session is one websocket connection. It has one goroutine, which reads, and no queue. An idle one has to stay within a few
// KiB all told, so there is no buffer in here: messages are read into pooled ones.
type session struct {
	conn
	server *Server
	ws     *websocket.Conn
	br     *bufio.Reader // gorilla's
	id     wire.SessionID
	user   board.UserID // "" for a spectator
	isText bool         // of the face of 2017 (session2017.go)

	anonymous bool
	expires   int64 // when the user's sign-in ends, Unix seconds; 0: not known

	// Only the reading goroutine uses the fields below.
	unlimited bool
	grown     bool      // the stack may be larger than it has to be
	malformed int       // undecodable messages so far
	messageAt time.Time // when the last message came
	rate      bucket    // MessagesPerSecond
	flood     bucket    // FloodFactor times that
}

// Buffers of the upgrade. gorilla takes a reader of ours from above 256 bytes; smaller is not worth having, larger is not
// worth its memory. Nothing is written through its write buffer after the upgrade.
const (
	readBufferBytes  = 288
	writeBufferBytes = 1024
)

var (
	writeBuffers sync.Pool
	readBuffers  = sync.Pool{New: func() any { return new([wire.ClientMessageBytesMax]byte) }}
)

// serveWS answers GET /api/v1/ws.
func (s *Server) serveWS(w http.ResponseWriter, r *http.Request) {
	if p := s.checkUpgrade(r); p != nil {
		s.fail(w, p)
		return
	}
	who, p := s.identify(r)
	if p == nil {
		p = s.checkOrigin(r, who)
	}
	if p != nil {
		s.dropBadCookie(w, r, p)
		s.fail(w, p)
		return
	}
	from := s.peerOf(r)
	place, ok := s.admit(from)
	if !ok {
		s.fail(w, newProblem(problemConnections, ""))
		return
	}
	session := &session{server: s, user: who.user, anonymous: who.anonymous, unlimited: from.unlimited}
	if !who.expires.IsZero() {
		session.expires = who.expires.Unix()
	}
	upgrader := websocket.Upgrader{
		HandshakeTimeout: s.cfg.HandshakeTimeout,
		ReadBufferSize:   0, // the reader comes from hijacker
		WriteBufferSize:  writeBufferBytes,
		WriteBufferPool:  &writeBuffers,
		Subprotocols:     []string{Subprotocol},
		CheckOrigin:      func(*http.Request) bool { return true }, // checked above
		Error: func(w http.ResponseWriter, _ *http.Request, _ int, reason error) {
			s.fail(w, newProblem(problemUpgrade, reason.Error()))
		},
	}
	ws, err := upgrader.Upgrade(&hijacker{ResponseWriter: w, session: session}, r, nil)
	if err != nil {
		s.metrics.connects[connectFailed].Inc()
		s.leave(place)
		if session.nc != nil {
			session.shut()
		}
		return
	}
	s.metrics.connects[connectOK].Inc()
	from.carry(place)
	session.start(ws)
	// The handler returns and a fresh goroutine reads: this one has a grown stack and the buffers of net/http.
}

// checkUpgrade refuses what cannot become a session whoever asks.
func (s *Server) checkUpgrade(r *http.Request) *problem {
	if !websocket.IsWebSocketUpgrade(r) {
		return newProblem(problemUpgrade, "")
	}
	if offered := websocket.Subprotocols(r); len(offered) > 0 && !slices.Contains(offered, Subprotocol) {
		return newProblem(problemSubprotocol, "offered: "+strings.Join(offered, ", "))
	}
	if s.draining.Load() {
		return refusalProblem(board.CodeDraining, 0)
	}
	return s.checkRoom()
}

// checkRoom refuses sessions of either face while there is no board or no room.
func (s *Server) checkRoom() *problem {
	if !s.deps.Board.Loaded() {
		return refusalProblem(board.CodeLoading, 0)
	}
	if s.sessionCount() >= s.cfg.SessionsMax { // addSession looks again
		return refusalProblem(board.CodeBusy, 0)
	}
	return nil
}

// hijacker gives gorilla the session's readHalf instead of the connection itself, and a small reader to read it through.
type hijacker struct {
	http.ResponseWriter
	session *session
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, brw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	s := h.session.server
	h.session.conn = conn{nc: nc, in: unwrap(nc), out: newSender(nc, &s.cfg), metrics: s.metrics, cfg: &s.cfg}
	half := (*readHalf)(&h.session.conn)
	if brw.Reader.Buffered() == 0 { // else gorilla refuses: nobody may talk before the upgrade is answered
		h.session.br = bufio.NewReaderSize(half, readBufferBytes)
		brw = bufio.NewReadWriter(h.session.br, brw.Writer)
	}
	return half, brw, nil
}

// attach takes the upgraded connection over.
func (s *session) attach(ws *websocket.Conn) {
	s.ws = ws
	ws.SetReadLimit(wire.ClientMessageBytesMax)
	ws.SetPingHandler(s.heardPing)
	ws.SetCloseHandler(s.heardClose)
	s.startReading()
}

// start makes the upgraded connection a session.
func (s *session) start(ws *websocket.Conn) {
	s.attach(ws)
	if !s.server.addSession(s) {
		s.Close(wire.CloseTryLater, "too many sessions")
		go func() {
			s.discard()
			s.shut()
			s.metrics.closed(wire.CloseTryLater)
		}()
		return
	}
	s.id = s.server.deps.Sessions.Connect(&s.conn, s.user)
	if s.server.draining.Load() { // since we looked: Drain may have missed us
		s.Close(wire.CloseRestart, "this server is going down")
	}
	go s.read()
}

// read handles messages until the session ends. It waits for them here and not within gorilla, which takes more stack: an
// idle session has to get along with the 2 KiB that a goroutine begins with. A stack that a message has grown never shrinks
// back to that, so a fresh goroutine reads on when the session seems to rest.
func (s *session) read() {
	for {
		pong, err := s.wait()
		if err == nil && !pong {
			err = s.readMessage()
		}
		if err != nil {
			s.end(err)
			return
		}
		if s.rests(pong) {
			go s.read()
			return
		}
	}
}

// restAfter is how far apart messages have to be for a fresh goroutine after each. Closer ones are a busy session, which gets
// it with the first pong after them.
const restAfter = time.Second

func (s *session) rests(pong bool) bool {
	if pong {
		grown := s.grown
		s.grown = false
		return grown
	}
	quiet := s.heardAt.Sub(s.messageAt) > restAfter
	s.messageAt, s.grown = s.heardAt, !quiet
	return quiet
}

// wait returns when a frame begins that gorilla has to look at, and after a pong, of which it is enough that it came.
func (s *session) wait() (pong bool, err error) {
	head, err := s.br.Peek(2)
	if err != nil {
		return false, err
	}
	masked, n := head[1]&0x80 != 0, int(head[1]&0x7f)
	if head[0] != opPong || !masked || n > controlBytesMax {
		return false, nil
	}
	_, err = s.br.Discard(2 + 4 + n)
	return true, err
}

// end closes what reading failed on, and says so to everybody.
func (s *session) end(err error) {
	code := s.readFailed(err)
	s.shut()
	s.server.metrics.closed(s.endedWith(code))
	s.server.deps.Sessions.Disconnect(s.id)
	s.server.removeSession(s)
}

// readMessage reads one message to its end and has it handled. Of one that is not wanted the next NextReader skips the rest.
func (s *session) readMessage() error {
	kind, r, err := s.ws.NextReader()
	if err != nil {
		return err
	}
	if !s.open() {
		return nil // lingering
	}
	if kind != websocket.BinaryMessage {
		s.metrics.bad[badText].Inc()
		s.Close(wire.CloseText, "messages are binary")
		return nil
	}
	buf := readBuffers.Get().(*[wire.ClientMessageBytesMax]byte)
	defer readBuffers.Put(buf)
	n, err := io.ReadFull(r, buf[:])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	if err == nil {
		// The buffer is full; at the read limit that must be all. Asking again ends a fragmented message properly.
		if extra, err := r.Read(make([]byte, 1)); extra > 0 || (err != nil && err != io.EOF) {
			return cmpErr(err, websocket.ErrReadLimit)
		}
	}
	s.handle(buf[:n])
	return nil
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// handle answers one whole message, or has it answered. b is not kept.
func (s *session) handle(b []byte) {
	now := time.Now()
	within := s.withinRate(now)
	if !s.open() {
		return
	}
	m, err := wire.DecodeClient(b)
	if err != nil {
		s.heardMalformed(err)
		return
	}
	place, isPlace := m.(*wire.Place)
	switch {
	case !within:
		s.metrics.bad[badRate].Inc()
		wait := s.messageInterval().Milliseconds() + 1
		if isPlace {
			s.refuse(place, board.CodeRate, wait)
			return
		}
		s.Send(wire.SealServer(&wire.Notice{Code: board.CodeRate, RetryMs: wait}))
	case isPlace && s.server.refusesPlaces():
		s.metrics.bad[badDraining].Inc()
		s.refuse(place, board.CodeDraining, retryMsDefault)
	case isPlace && s.user == "":
		s.metrics.bad[badSpectator].Inc()
		s.refuse(place, board.CodeSignIn, 0)
	case isPlace && s.signedOut(now):
		s.metrics.bad[badSignedOut].Inc()
		s.refuse(place, board.CodeSignIn, 0)
	default:
		s.metrics.message(m)
		s.server.deps.Sessions.Receive(s.id, m)
	}
}

// refuse answers a placement that never reaches the user's shard. It binds this copy only (I3).
func (s *session) refuse(m *wire.Place, code board.Code, waitMs int64) {
	s.Send(wire.SealServer(&wire.Placed{PlaceOutcome: board.PlaceOutcome{
		Verdict: board.VerdictRefused, Code: code, Turn: m.Turn, Nonce: m.Nonce, At: board.Point{X: m.X, Y: m.Y}, WaitMs: waitMs,
	}}))
}

func (s *session) messageInterval() time.Duration {
	return time.Second / time.Duration(s.cfg.MessagesPerSecond)
}

// withinRate takes one message from the session's rate, and closes a session that stays far above it.
func (s *session) withinRate(now time.Time) bool {
	if s.unlimited {
		return true
	}
	perSecond := s.cfg.MessagesPerSecond
	_, within := s.rate.take(now, 1, s.messageInterval(), perSecond)
	many := perSecond * s.cfg.FloodFactor
	if _, ok := s.flood.take(now, 1, time.Second/time.Duration(many), many); !ok && s.open() {
		s.metrics.bad[badFlood].Inc()
		s.Close(wire.CloseFlood, "too many messages")
	}
	return within
}

func (s *session) heardMalformed(err error) {
	s.metrics.bad[badMalformed].Inc()
	s.malformed++
	s.Send(wire.SealServer(&wire.Notice{Code: board.CodeBadMessage, Detail: err.Error()}))
	if s.malformed >= s.cfg.BadMessagesMax {
		s.Close(wire.CloseMalformed, "too many messages that are not of this protocol")
	}
}

// heardPing answers a ping, or leaves it: pings count as messages, and one above the rate gets nothing.
func (s *session) heardPing(payload string) error {
	if s.withinRate(time.Now()) {
		s.pong(payload)
	}
	return nil
}

// heardClose answers the peer's close with the same code.
func (s *session) heardClose(code int, _ string) error {
	s.Close(code, "")
	return nil
}

// readFailed answers what ended the reading as far as the peer can still hear it, counts it, and returns the close code.
func (s *session) readFailed(err error) int {
	if s.flooded && s.open() {
		s.metrics.bad[badFlood].Inc()
		s.Close(wire.CloseFlood, "too many bytes")
		s.discard()
		return wire.CloseFlood
	}
	if s.silent {
		s.metrics.bad[badSilent].Inc()
		s.Close(wire.CloseSilent, "nothing was heard for too long")
		s.discard()
		return wire.CloseSilent
	}
	if closed, ok := errors.AsType[*websocket.CloseError](err); ok {
		if _, queued := s.out.(*queueSender); queued && closed.Code != codeLost {
			s.discard() // our own close may still wait there
		}
		return closed.Code
	}
	if !s.open() || isConnError(err) {
		return codeLost
	}
	if errors.Is(err, websocket.ErrReadLimit) {
		s.metrics.bad[badTooBig].Inc()
		s.Close(wire.CloseTooBig, fmt.Sprintf("messages have at most %d bytes", wire.ClientMessageBytesMax))
		s.discard()
		return wire.CloseTooBig
	}
	s.metrics.bad[badWebsocket].Inc()
	s.Close(wire.CloseProtocol, strings.TrimPrefix(err.Error(), "websocket: "))
	s.discard()
	return wire.CloseProtocol
}

// isConnError reports whether the connection itself failed, as opposed to what came over it.
func isConnError(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// discardBytesMax is how much is read and thrown away so that a close frame arrives.
const discardBytesMax = 256 * 1024

// discard reads on after gorilla gave up, until the peer has closed, Linger has passed, or it was enough.
func (s *session) discard() {
	buf := readBuffers.Get().(*[wire.ClientMessageBytesMax]byte)
	defer readBuffers.Put(buf)
	for left := discardBytesMax; left > 0; {
		n, err := s.nc.Read(buf[:])
		if err != nil {
			return
		}
		left -= n
	}
}
