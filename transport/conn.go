package transport

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/placed-board/placed/wire"
)

// sender puts bytes on their way without ever blocking. n < len(b) without an error says that there is no room for more now.
// A sender may keep b until it is sent: nobody changes it.
type sender interface {
	trySend(b []byte) (n int, err error)
	// finish ends the sending half after everything that was taken, without blocking.
	finish()
	// stop frees what the sender holds; the socket is about to be closed. Either may be called more than once.
	stop()
}

// conn is the socket of one session: wire.Conn for the subscriber, and through readHalf a net.Conn for gorilla, which after
// the upgrade only reads. All writes are non-blocking tries under one mutex; what did not fit of ONE message is kept and goes
// out before anything else. Nothing is queued behind it.
//
// The descriptor is used bare (conn_linux.go). That is safe because every send holds mu, the socket is closed only by shut,
// and shut first makes the state connShut under mu: no send can start or be under way when the descriptor is given back.
type conn struct {
	nc      net.Conn
	out     sender
	metrics *metrics

	mu    sync.Mutex // guards the fields below
	tail  []byte     // the unsent part of the last message taken
	state connState

	closeCode int // what ended the session, for the counter; 0 while nothing has

	// Only the reading goroutine uses the fields below.
	in          net.Conn // nc without our own wrapper around it
	upgraded    bool
	cfg         *Config
	heardAt     time.Time // when bytes came last
	bytesBucket bucket
	flooded     bool // BytesPerSecond was exceeded
	silent      bool // nothing came for DeadAfter
}

type connState uint8

const (
	connOpen    connState = iota
	connClosing           // our close frame is out: nothing more is sent, what comes is discarded until Linger has passed
	connShut              // the socket is closed or about to be
)

// Send implements wire.Conn.
func (c *conn) Send(m wire.Sealed) wire.WriteStatus {
	c.mu.Lock()
	status := c.sendLocked(m)
	c.mu.Unlock()
	switch status {
	case wire.WriteDone:
		c.metrics.sent.Inc()
		c.metrics.sentBytes.Add(float64(len(m)))
	case wire.WriteKept:
		c.metrics.sent.Inc()
		c.metrics.sentBytes.Add(float64(len(m)))
		c.metrics.kept.Inc()
	case wire.WriteBusy:
		c.metrics.slow.Inc()
	case wire.WriteClosed:
	}
	return status
}

func (c *conn) sendLocked(b []byte) wire.WriteStatus {
	switch c.flushLocked() {
	case wire.WriteKept:
		return wire.WriteBusy
	case wire.WriteClosed:
		return wire.WriteClosed
	case wire.WriteDone, wire.WriteBusy:
	}
	return c.tryLocked(b)
}

// tryLocked sends b, of which nothing has gone out yet or the rest of which was kept, and keeps what does not fit.
func (c *conn) tryLocked(b []byte) wire.WriteStatus {
	n, err := c.out.trySend(b)
	switch {
	case err != nil:
		c.failLocked()
		return wire.WriteClosed
	case n < len(b):
		c.tail = b[n:]
		return wire.WriteKept
	}
	c.tail = nil
	return wire.WriteDone
}

// failLocked gives the socket up after an error: the reader wakes, and shuts it.
func (c *conn) failLocked() {
	c.tail = nil
	c.state = connShut
	c.nc.SetReadDeadline(longAgo)
}

var longAgo = time.Unix(1, 0)

// Flush implements wire.Conn.
func (c *conn) Flush() wire.WriteStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flushLocked()
}

func (c *conn) flushLocked() wire.WriteStatus {
	if c.state != connOpen {
		return wire.WriteClosed
	}
	if len(c.tail) == 0 {
		return wire.WriteDone
	}
	return c.tryLocked(c.tail)
}

// Opcodes of the control frames, with the bit that says that the frame is whole.
const (
	opClose = 0x88
	opPing  = 0x89
	opPong  = 0x8a
)

// controlBytesMax is the largest payload of a control frame (RFC 6455, 5.5).
const controlBytesMax = 125

var pingFrame = []byte{opPing, 0}

// control sends a control frame; where there is no room for all of it now, none of it is sent unless a part has gone out.
func (c *conn) control(frame []byte) wire.WriteStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sendLocked(frame)
}

func (c *conn) pong(payload string) {
	frame := make([]byte, 0, 2+len(payload))
	frame = append(frame, opPong, byte(len(payload)))
	c.control(append(frame, payload...))
}

// Close implements wire.Conn: the close frame goes out if there is room for it, then nothing more does. The reader discards
// what still comes until the peer has closed too or Linger has passed, because a socket closed over unread bytes loses what was
// sent last.
func (c *conn) Close(code int, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != connOpen {
		return
	}
	c.closeCode = code
	if c.sendLocked(closeFrame(code, reason)) != wire.WriteDone {
		// A reader who took nothing up to here will not take this either.
		c.failLocked()
		return
	}
	c.state = connClosing
	c.nc.SetReadDeadline(time.Now().Add(c.cfg.Linger))
	c.out.finish()
}

// closeFrame returns the frame that closes with the code; 1005 stands for none.
func closeFrame(code int, reason string) []byte {
	if code == codeNone {
		return []byte{opClose, 0}
	}
	if len(reason) > controlBytesMax-2 {
		n := controlBytesMax - 2
		for n > 0 && !utf8.RuneStart(reason[n]) {
			n--
		}
		reason = reason[:n]
	}
	frame := []byte{opClose, byte(2 + len(reason)), 0, 0}
	binary.BigEndian.PutUint16(frame[2:], uint16(code))
	return append(frame, reason...)
}

// shut closes the socket, at once and for good.
func (c *conn) shut() {
	c.mu.Lock()
	c.state, c.tail = connShut, nil
	c.out.stop()
	c.mu.Unlock()
	c.nc.Close()
}

// open reports whether messages are still wanted.
func (c *conn) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == connOpen
}

// endedWith returns the close code for the counter; code is the one to take when our side has not closed.
func (c *conn) endedWith(code int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closeCode != 0 {
		return c.closeCode
	}
	return code
}

// Close codes that are never sent (RFC 6455, 7.4.1).
const (
	codeNone = 1005 // the peer closed without a code
	codeLost = 1006 // the connection was lost
)

// errFlood and errSilent end a session's reading.
var (
	errFlood  = errors.New("transport: too many bytes a second")
	errSilent = errors.New("transport: nothing was heard for too long")
)

// readHalf is conn as the net.Conn that gorilla holds.
type readHalf conn

// Read reads from the socket. After the upgrade it also keeps watch: a silent peer is pinged, and one that stays silent is
// taken for dead. The deadline is moved when it has passed and not with each message, because moving it costs more than
// looking at the clock. Every idle session waits in here, so its frame is kept small.
func (h *readHalf) Read(p []byte) (int, error) {
	for {
		n, err := h.in.Read(p)
		if !h.upgraded {
			return n, err
		}
		if n, err, again := (*conn)(h).heard(n, err); !again {
			return n, err
		}
	}
}

// heard judges the result of a read. again says to read once more.
//
//go:noinline
func (c *conn) heard(n int, err error) (_ int, _ error, again bool) {
	if n > 0 {
		c.heardAt = time.Now()
		if _, ok := c.bytesBucket.take(c.heardAt, n, time.Second/time.Duration(c.cfg.BytesPerSecond), 4*c.cfg.BytesPerSecond); !ok {
			c.flooded = true
			return 0, errFlood, false
		}
		return n, nil, false
	}
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err, false
	}
	// On a goroutine of its own: sending a ping takes more stack than an idle session's reader has, and a reader's stack that
	// has grown stays so.
	judged := make(chan error, 1)
	go func() { judged <- c.silence() }()
	if err := <-judged; err != nil {
		return 0, err, false
	}
	return 0, nil, true
}

// silence decides what follows from a deadline that has passed: an error, or a ping and a later deadline.
func (c *conn) silence() error {
	now := time.Now()
	idle := now.Sub(c.heardAt)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state != connOpen:
		return os.ErrDeadlineExceeded
	case idle >= c.cfg.DeadAfter:
		c.silent = true
		return errSilent
	case idle >= c.cfg.PingAfter:
		if c.sendLocked(pingFrame) != wire.WriteClosed {
			c.metrics.pings.Inc()
		}
		c.nc.SetReadDeadline(earlier(now.Add(c.cfg.PingAfter), c.heardAt.Add(c.cfg.DeadAfter)))
	default:
		c.nc.SetReadDeadline(c.heardAt.Add(c.cfg.PingAfter))
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// startReading begins the session's watch. Only the reading goroutine's reads follow.
func (c *conn) startReading() {
	c.upgraded = true
	c.heardAt = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == connOpen {
		c.nc.SetReadDeadline(c.heardAt.Add(c.cfg.PingAfter))
	}
}

// Write writes the answer to the upgrade. What gorilla would say by itself afterwards is swallowed: the session answers.
func (h *readHalf) Write(p []byte) (int, error) {
	if h.upgraded {
		return len(p), nil
	}
	return h.nc.Write(p)
}

// Close shuts the socket.
func (h *readHalf) Close() error {
	(*conn)(h).shut()
	return nil
}

func (h *readHalf) LocalAddr() net.Addr  { return h.nc.LocalAddr() }
func (h *readHalf) RemoteAddr() net.Addr { return h.nc.RemoteAddr() }

// SetDeadline is for the time before the upgrade; afterwards the deadlines are the session's.
func (h *readHalf) SetDeadline(t time.Time) error {
	if h.upgraded {
		return nil
	}
	return h.nc.SetDeadline(t)
}

// SetReadDeadline is like SetDeadline.
func (h *readHalf) SetReadDeadline(t time.Time) error {
	if h.upgraded {
		return nil
	}
	return h.nc.SetReadDeadline(t)
}

// SetWriteDeadline is like SetDeadline.
func (h *readHalf) SetWriteDeadline(t time.Time) error {
	if h.upgraded {
		return nil
	}
	return h.nc.SetWriteDeadline(t)
}

// newSender returns the fastest sender for the connection: straight to the socket where that works, else through a writing
// goroutine (TLS, pipes, Windows).
func newSender(nc net.Conn, cfg *Config) sender {
	if tcp, ok := unwrap(nc).(*net.TCPConn); ok {
		tcp.SetWriteBuffer(cfg.SendBufferBytes)
		if s := newSocketSender(tcp); s != nil {
			return s
		}
	}
	return newQueueSender(nc, cfg.Linger)
}

// unwrap returns the connection that was accepted.
func unwrap(nc net.Conn) net.Conn {
	if p, ok := nc.(*peerConn); ok {
		return p.Conn
	}
	return nc
}
