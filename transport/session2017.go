package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"github.com/placed-board/placed/wire"
)

// textSession is a websocket of the face of 2017: it only listens. What its client sends is read and dropped, so that pongs, a
// close and floods are noticed.
type textSession struct {
	session
	leave func(conn wire.Conn)
}

// Of a text session's silence: programs of 2017 may never answer a ping, so none ends for it; a dead peer's socket fills up.
const (
	textPingAfter = 40 * time.Second // 2017 sent one after 45 s at most
	textDeadAfter = 100 * 365 * 24 * time.Hour
)

func textConfig(cfg Config) *Config {
	cfg.PingAfter, cfg.DeadAfter = min(cfg.PingAfter, textPingAfter), textDeadAfter
	return &cfg
}

// Upgrade makes a request a websocket from which nothing is wanted, or answers why not. It calls join at the moment at which the
// answer to the upgrade may go out, and leave when the connection is gone.
func (h *FaceHost) Upgrade(w http.ResponseWriter, r *http.Request, join func(conn wire.Conn, answer wire.Sealed), leave func(conn wire.Conn)) {
	s := h.s
	if p := s.checkRoom(); p != nil {
		s.failFace(w, p)
		return
	}
	from := s.peerOf(r)
	place, ok := s.admit(from)
	if !ok {
		p := newProblem(problemConnections, "")
		p.RetryAfterMs = retryMsDefault
		s.failFace(w, p)
		return
	}
	session := &textSession{session: session{server: s, isText: true, unlimited: from.unlimited}, leave: leave}
	upgrader := websocket.Upgrader{
		HandshakeTimeout: s.cfg.HandshakeTimeout,
		WriteBufferSize:  writeBufferBytes,
		WriteBufferPool:  &writeBuffers,
		CheckOrigin:      func(*http.Request) bool { return true }, // the signature lets anybody listen
		Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
			s.metrics.refuse(problemUpgrade)
			s.face.WriteFailure(w, status, 0, reason.Error())
		},
	}
	joins := &joinHijacker{hijacker: hijacker{ResponseWriter: w, session: &session.session}, join: join}
	ws, err := upgrader.Upgrade(joins, r, nil)
	if err != nil {
		s.metrics.connects[connectFailed].Inc()
		s.leave(place)
		if session.nc != nil {
			session.shut()
			leave(&session.conn)
		}
		return
	}
	s.metrics.connects[connectOK].Inc()
	from.carry(place)
	session.start(ws)
}

// joinHijacker gives gorilla a connection whose first write, the answer to the upgrade, goes out as the session joins.
type joinHijacker struct {
	hijacker
	join func(wire.Conn, wire.Sealed)
}

// Hijack implements http.Hijacker.
func (h *joinHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, brw, err := h.hijacker.Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.session.cfg = h.session.server.textCfg
	return &joiningConn{Conn: nc, session: h.session, join: h.join}, brw, nil
}

type joiningConn struct {
	net.Conn
	session *session
	join    func(wire.Conn, wire.Sealed)
}

// Write joins with the first bytes and swallows all others, as readHalf does after an upgrade. The socket is empty, so they are
// sent at once or never.
func (c *joiningConn) Write(p []byte) (int, error) {
	if c.join != nil {
		c.join(&c.session.conn, bytes.Clone(p))
		c.join = nil
	}
	return len(p), nil
}

// start makes the upgraded connection a session.
func (s *textSession) start(ws *websocket.Conn) {
	s.attach(ws)
	switch {
	case !s.server.addSession(&s.session):
		s.Close(wire.CloseTryLater, "too many sessions")
	case s.server.draining.Load(): // since the face looked: Drain may have missed us
		s.Close(wire.CloseRestart, "this server is going down")
	}
	go s.read()
}

// read waits for what is to be dropped until the session ends. As in session.read, a fresh goroutine goes on after anything that
// has grown the stack.
func (s *textSession) read() {
	for {
		pong, err := s.wait()
		if err == nil && !pong {
			if err = s.drop(); err == nil {
				go s.read()
				return
			}
		}
		if err != nil {
			s.end(err)
			return
		}
	}
}

// drop reads one message to its end.
func (s *textSession) drop() error {
	_, r, err := s.ws.NextReader()
	if err != nil {
		return err
	}
	buf := readBuffers.Get().(*[wire.ClientMessageBytesMax]byte)
	defer readBuffers.Put(buf)
	for {
		if _, err := r.Read(buf[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// end closes what reading failed on, and says so to everybody.
func (s *textSession) end(err error) {
	code := s.readFailed(err)
	s.shut()
	s.server.metrics.closed(s.endedWith(code))
	s.leave(&s.conn)
	s.server.removeSession(&s.session)
}
