package load

import (
	"context"
	"net"
	"sync"
	"time"
)

// stallReadBuffer keeps the kernel from taking in megabytes for a reader that has stopped: it fills up soon.
const stallReadBuffer = 4096

// Stall makes connections whose reading can be stopped and resumed, all together.
type Stall struct {
	mu     sync.Mutex
	resume chan struct{} // guarded by mu; not nil while stopped
}

// Stop makes every later read of the connections wait.
func (s *Stall) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resume == nil {
		s.resume = make(chan struct{})
	}
}

// Resume lets the reads go on.
func (s *Stall) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resume != nil {
		close(s.resume)
		s.resume = nil
	}
}

// Dial opens a connection that Stop stops.
func (s *Stall) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(stallReadBuffer) // a larger one only makes the stop felt later
	}
	return &stallConn{Conn: conn, stall: s, closed: make(chan struct{})}, nil
}

type stallConn struct {
	net.Conn
	stall  *Stall
	once   sync.Once
	closed chan struct{}
}

func (c *stallConn) Read(p []byte) (int, error) {
	c.stall.mu.Lock()
	resume := c.stall.resume
	c.stall.mu.Unlock()
	if resume != nil {
		select {
		case <-resume:
		case <-c.closed:
		}
	}
	return c.Conn.Read(p)
}

// SetReadDeadline does nothing: a reader that is stopped on purpose must not give up by itself.
func (c *stallConn) SetReadDeadline(time.Time) error { return nil }

func (c *stallConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
