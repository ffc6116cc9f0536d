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
	case s.o.Invite != "":
		_, err = s.api.UseInvite(ctx, s.o.Invite, s.o.Name)
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
		if websocket.IsCloseError(err, wire.CloseText, wire.CloseTooBig, wire.CloseMalformed) {
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
			if err := wait(s.ctx, max(after, s.o.Backoff.delay(*attempt))); err != nil {
				return nil, ErrClosed
			}
			*attempt++
		}
		now, after = false, 0
		s.setState(StateConnecting)
		conn, hello, err := s.connect(s.ctx)
		if err == nil {
			s.begin(conn, hello)
			if s.ctx.Err() != nil {
				_ = conn.Close() // Close came between, and saw no connection
			}
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

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
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
