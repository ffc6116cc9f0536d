package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/placed-board/placed/wire"
)

// A session's one goroutine: read until the connection ends, back off, connect again. What arrives goes to the mirror
// (sync.go), to the waiting Place (place.go) and to the hooks.

// refusedError is a handshake that the node answered with an HTTP status.
type refusedError struct {
	status int
	after  time.Duration
	err    error
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// final reports whether trying again makes no sense.
func (e *refusedError) final() bool {
	return e.status >= 400 && e.status < 500 && e.status != http.StatusTooManyRequests && e.status != http.StatusRequestTimeout
}

// identify gets the session's identity.
func (s *Session) identify(ctx context.Context) error {
	var err error
	switch {
	case s.o.Token != "":
	case s.o.Name != "":
		_, err = s.api.Login(ctx, s.o.Name)
	case s.o.Anonymous:
		_, err = s.api.Anonymous(ctx)
	}
	return err
}

// connect dials, upgrades, and reads the hello.
func (s *Session) connect(ctx context.Context) (*websocket.Conn, *wire.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	header := http.Header{}
	s.api.authorise(header)
	conn, resp, err := s.dialer.DialContext(ctx, s.wsURL, header)
	if err != nil {
		if resp == nil {
			return nil, nil, err
		}
		p := readProblem(resp)
		return nil, nil, &refusedError{resp.StatusCode, p.RetryAfter(), p}
	}
	conn.SetReadLimit(messageBytesMax)
	_ = conn.SetReadDeadline(time.Now().Add(handshakeTimeout))
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	_, b, err := conn.ReadMessage()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("wait for the hello: %w", err)
	}
	m, err := wire.DecodeServer(b)
	hello, ok := m.(*wire.Hello)
	if err != nil || !ok {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("the first message is no hello (%T, %v)", m, err)
	}
	return conn, hello, nil
}

// begin adopts a new connection.
func (s *Session) begin(conn *websocket.Conn, hello *wire.Hello) {
	now := time.Now()
	conn.SetPingHandler(func(data string) error {
		_ = conn.SetReadDeadline(s.deadline(time.Now()))
		err := conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(writeTimeout))
		if errors.Is(err, websocket.ErrCloseSent) {
			return nil
		}
		return err
	})
	s.mu.Lock()
	replaced := s.helloed && s.hello.Epoch != hello.Epoch
	s.conn, s.connID, s.moveAt = conn, s.connID+1, time.Time{}
	s.hello, s.helloed, s.current = *hello, true, hello.Settings
	s.stats.Connects++
	s.turn.hello(hello, now)
	if s.pending != nil {
		s.pending.connected(replaced)
	}
	s.mu.Unlock()
	if f := s.o.Hooks.OnHello; f != nil {
		f(hello)
	}
	switch {
	case !s.subscribes():
		s.setState(StateLive)
	case s.sync != nil:
		s.synchronise(func(y *syncer) { y.hello(hello) })
	default:
		s.setState(StateSubscribing)
		whole, chunks := s.subscription()
		_ = s.send(&wire.Subscribe{Whole: whole, Chunks: chunks})
	}
}

func (s *Session) subscription() (whole bool, chunks wire.ChunkRect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.Whole, s.o.Chunks
}

func (s *Session) subscribes() bool {
	whole, chunks := s.subscription()
	return whole || chunks.Cols*chunks.Rows > 0
}

// run is the session's goroutine.
func (s *Session) run(conn *websocket.Conn) {
	defer close(s.done)
	for attempt := 0; ; {
		since := time.Now()
		err := s.read(conn)
		moved := s.end(conn)
		if s.ctx.Err() != nil {
			s.finish(ErrClosed)
			return
		}
		s.log.Debug("connection lost", "err", err)
		if websocket.IsCloseError(err, wire.CloseMalformed) {
			s.finish(fmt.Errorf("client: the node does not understand this client: %w", err))
			return
		}
		if time.Since(since) >= healthyAfter || moved || websocket.IsCloseError(err, wire.CloseRestart) {
			attempt = 0
		}
		if conn, err = s.reconnect(&attempt, moved); err != nil {
			s.finish(err)
			return
		}
	}
}

// reconnect tries until there is a connection. It returns an error when the session is over.
func (s *Session) reconnect(attempt *int, now bool) (*websocket.Conn, error) {
	var after time.Duration
	for {
		if !now {
			s.setState(StateWaiting)
			if err := s.wait(max(after, s.o.Backoff.delay(*attempt))); err != nil {
				return nil, ErrClosed
			}
			*attempt++
		}
		now, after = false, 0
		s.setState(StateConnecting)
		conn, hello, err := s.connect(s.ctx)
		if err == nil {
			s.begin(conn, hello)
			return conn, nil
		}
		if s.ctx.Err() != nil {
			return nil, ErrClosed
		}
		s.log.Debug("cannot connect", "err", err)
		if refused, ok := errors.AsType[*refusedError](err); ok {
			after = refused.after
			if refused.status == http.StatusUnauthorized && s.o.Name != "" && s.o.Token == "" && s.identify(s.ctx) == nil {
				continue // the token had expired
			}
			if refused.final() {
				return nil, err
			}
		}
	}
}

// delay returns a random wait before attempt n, from 0.
func (b Backoff) delay(n int) time.Duration {
	most := b.Max
	if n < 30 && b.Base<<n < most {
		most = b.Base << n
	}
	return time.Duration(rand.Int64N(int64(max(most, 1))))
}

func (s *Session) wait(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// end leaves a connection and reports whether the node asked for it.
func (s *Session) end(conn *websocket.Conn) (moved bool) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	moved = !s.moveAt.IsZero() && !time.Now().Before(s.moveAt)
	s.conn = nil
	if s.connEnd != nil {
		s.connEnd()
		s.connEnd = nil
	}
	if s.sync != nil {
		s.sync.lost()
	}
	if s.ctx.Err() == nil {
		s.stats.Losses++
	}
	return moved
}

func (s *Session) finish(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.setState(StateClosed)
}

// setState changes the state and tells those who wait for it.
func (s *Session) setState(state State) {
	s.mu.Lock()
	was := s.state
	s.state = state
	s.announce()
	s.mu.Unlock()
	if f := s.o.Hooks.OnState; f != nil && was != state {
		f(state)
	}
}

// deadline returns until when the connection may be silent: two and a half heartbeats, or until the node wants it gone. A
// session that subscribes to nothing gets no heartbeats, only pings.
func (s *Session) deadline(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	patience := watchdogDefault
	if ms := s.hello.HeartbeatMs; ms > 0 && (s.o.Whole || s.o.Chunks.Cols*s.o.Chunks.Rows > 0) {
		patience = max(time.Duration(ms)*time.Millisecond*5/2, watchdogMin)
	}
	at := now.Add(patience)
	if !s.moveAt.IsZero() && s.moveAt.Before(at) {
		return s.moveAt
	}
	return at
}

// buffers lends memory for one message while it is taken in.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// bufferKeptBytesMax is the largest buffer that goes back into the pool.
const bufferKeptBytesMax = 1 << 20

// read takes in messages until the connection ends.
func (s *Session) read(conn *websocket.Conn) error {
	for {
		now := time.Now()
		if err := conn.SetReadDeadline(s.deadline(now)); err != nil {
			return err
		}
		kind, r, err := conn.NextReader()
		if err != nil {
			return err
		}
		if kind != websocket.BinaryMessage {
			return errors.New("client: a text message")
		}
		buffer := buffers.Get().(*[]byte)
		b, err := readAll(r, (*buffer)[:0])
		if err == nil {
			err = s.receive(b)
		}
		if *buffer = b; cap(b) <= bufferKeptBytesMax {
			buffers.Put(buffer)
		}
		if err != nil {
			return err
		}
	}
}

// readAll reads r to its end, behind b.
func readAll(r io.Reader, b []byte) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// receive takes in one message; b is used again afterwards. An error ends the connection.
func (s *Session) receive(b []byte) error {
	s.mu.Lock()
	s.stats.Messages++
	s.stats.Bytes += uint64(len(b))
	s.mu.Unlock()
	if wire.IsFrame(b) {
		return s.receiveFrame(b)
	}
	m, err := wire.DecodeServer(b)
	if err != nil {
		s.mu.Lock()
		s.stats.Undecodable++
		s.mu.Unlock()
		s.log.Warn("undecodable message", "err", err)
		return nil // a newer node may know messages that this client does not
	}
	switch m := m.(type) {
	case *wire.Hello:
		return errors.New("client: a second hello")
	case *wire.Base:
		if s.sync == nil {
			s.setState(StateLive)
			return nil
		}
		return s.synchronise(func(y *syncer) { y.base(m) })
	case *wire.Heartbeat:
		return s.receiveHeartbeat(m)
	case *wire.Me:
		s.receiveMe(m)
	case *wire.Placed:
		s.receivePlaced(m)
	case *wire.SettingsChanged:
		return s.receiveSettings(m)
	case *wire.ChunkHashes:
		if s.sync != nil {
			return s.synchronise(func(y *syncer) { y.hashes(m) })
		}
	case *wire.Notice:
		s.receiveNotice(m)
	case *wire.Move:
		s.mu.Lock()
		s.moveAt = time.Now().Add(time.Duration(rand.Int64N(max(m.WithinMs, 1))) * time.Millisecond)
		s.mu.Unlock()
	case *wire.Frame: // taken in above
	}
	return nil
}

func (s *Session) receiveFrame(b []byte) error {
	s.mu.Lock()
	s.stats.Frames++
	s.mu.Unlock()
	h := &s.o.Hooks
	if h.OnFrame != nil || h.OnSection != nil {
		f := FrameInfo{Bytes: len(b), At: time.Now()}
		var err error
		if f.Tick, f.Repair, err = frameTick(b); err == nil && h.OnFrame != nil {
			h.OnFrame(f)
		}
		if err == nil && h.OnSection != nil {
			_, _, _ = wire.DecodeFrame(b, func(section *wire.Section) error { h.OnSection(f, section); return nil })
		}
	}
	if s.sync == nil {
		return nil
	}
	return s.synchronise(func(y *syncer) { _ = y.frame(b) })
}

func (s *Session) receiveHeartbeat(m *wire.Heartbeat) error {
	if f := s.o.Hooks.OnHeartbeat; f != nil {
		f(*m)
	}
	s.mu.Lock()
	s.online = m.Online
	s.mu.Unlock()
	if s.sync == nil {
		return nil
	}
	diverged, have := false, m.Hashes
	err := s.synchronise(func(y *syncer) { have, diverged = y.heartbeat(m) })
	if diverged {
		s.log.Warn("the mirror differs from the node's board", "tick", m.Tick, "want", m.Hashes, "have", have)
		if f := s.o.Hooks.OnDivergence; f != nil {
			f(m.Hashes, have)
		}
	}
	return err
}

func (s *Session) receiveSettings(m *wire.SettingsChanged) error {
	s.mu.Lock()
	if m.Settings.Version > s.current.Version {
		s.current = m.Settings
	}
	s.mu.Unlock()
	var err error
	if s.sync != nil {
		err = s.synchronise(func(y *syncer) { y.settingsChanged(m) })
	}
	if f := s.o.Hooks.OnSettings; f != nil {
		f(m.Settings)
	}
	return err
}

// synchronise tells the mirror's core of an event and does what it asks for. An error ends the connection.
func (s *Session) synchronise(event func(*syncer)) error {
	s.mu.Lock()
	event(s.sync)
	a := s.sync.take()
	state, was := s.sync.state(), s.state
	if s.conn == nil {
		state = was
	}
	if state != was {
		s.state = state
		s.announce()
	}
	var ctx context.Context
	if a.fetch {
		ctx, s.connEnd = context.WithCancel(s.ctx)
	}
	id := s.connID
	s.mu.Unlock()
	for _, m := range a.send {
		_ = s.send(m)
	}
	if a.fetch {
		go s.fetch(ctx, id)
	}
	if f := s.o.Hooks.OnState; f != nil && state != was {
		f(state)
	}
	if a.fault != "" {
		return errors.New("client: " + a.fault)
	}
	return nil
}

// fetchAttemptsMax is how often the board is asked for before its chunks are repaired instead.
const fetchAttemptsMax = 4

// fetch gets the board over HTTP and hands it to the mirror, unless the connection that needed it has ended.
func (s *Session) fetch(ctx context.Context, id uint64) {
	for attempt := range fetchAttemptsMax {
		buffer := boards.Get().(*[]byte)
		b, body, err := s.api.board(ctx, (*buffer)[:0], attempt > 0)
		if err == nil {
			_ = s.synchronise(func(y *syncer) {
				if s.connID == id {
					err = y.body(body)
				}
			})
		}
		*buffer = b
		boards.Put(buffer)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.log.Debug("cannot fetch the board", "err", err)
		wait := s.o.Backoff.delay(attempt)
		if p, ok := errors.AsType[*Problem](err); ok {
			wait = max(wait, p.RetryAfter())
		}
		if s.wait(wait) != nil {
			return
		}
	}
	_ = s.synchronise(func(y *syncer) {
		if s.connID == id {
			y.noBody()
		}
	})
}

// boards lends memory for board bodies.
var boards = sync.Pool{New: func() any { return new([]byte) }}

// send writes one message.
func (s *Session) send(m wire.ClientMessage) error {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn == nil {
		return ErrNotConnected
	}
	var room [256]byte
	b := wire.AppendClient(room[:0], m)
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := conn.WriteMessage(websocket.BinaryMessage, b); err != nil {
		_ = conn.Close() // the reader notices
		return fmt.Errorf("client: send: %w", err)
	}
	return nil
}

// retryAfterHeader reads a Retry-After header in seconds.
func retryAfterHeader(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
