//go:build unix

package system_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

// Sizes of the test of slow readers.
const (
	readers     = 200
	slowReaders = 2 // 1%
	slowFor     = 3 * time.Second
	slowWithin  = 30 * time.Second // until the node notices full sockets
)

// gate stops the reading of connections, as a sleeping phone or a choked network does.
type gate struct {
	mu   sync.Mutex // guards open
	open chan struct{}
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// dial opens a connection that reads through the gate, with little room of its own.
func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(16 << 10)
	}
	return &gatedConn{Conn: c, gate: g}, nil
}

type gatedConn struct {
	net.Conn
	gate *gate
}

func (c *gatedConn) Read(p []byte) (int, error) {
	c.gate.mu.Lock()
	open := c.gate.open
	c.gate.mu.Unlock()
	<-open
	return c.Conn.Read(p)
}

// fillSockets changes large settings, which every session is sent, until the sockets of those who do not read are full.
func fillSockets(t *testing.T, n *node) {
	t.Helper()
	admin, settings := n.admin(), n.settings()
	palette := settings.Palette
	for i := len(palette); i < board.PaletteMax; i++ {
		palette = append(palette, board.PaletteEntry{Name: fmt.Sprintf("colour with a rather long name %d", i)[:board.PaletteNameBytesMax], RGB: uint32(i)})
	}
	eventually(t, slowWithin, "the slow readers' sockets to be full", func() bool {
		record, err := admin.ChangeSettings(t.Context(), settings.Version, client.SettingsPatch{Palette: palette}, "fill sockets")
		if err != nil {
			t.Fatal(err)
		}
		settings = record
		return n.metrics()["placed_ws_lagging_sessions"] >= slowReaders
	})
}

// TestSlowReaders stops 1% of the readers until the node finds their sockets full, and then for some seconds more: nobody is
// disconnected, the others are served, and in the end all boards are equal (I5, I7).
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--width", "200", "--height", "200", "--cooldown", "0s")
	s := startStorm(t, n, load{users: 24, mirrors: readers - slowReaders, area: board.Rect{Width: 200, Height: 200}, colours: 16})
	slow := newGate()
	healthy := s.mirrors[0]
	for range slowReaders {
		session := s.dial(client.Options{Mirror: true, Whole: true, Dial: slow.dial})
		if err := session.Live(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.mirrors = append(s.mirrors, session)
	}
	t.Cleanup(slow.reopen) // before the sessions are closed
	s.everyone()
	slow.shut()
	fillSockets(t, n)
	frames, accepted := healthy.Stats().Frames, s.ledger.acceptances()
	pause(t.Context(), slowFor) // the fault itself takes this long
	frames, accepted = healthy.Stats().Frames-frames, s.ledger.acceptances()-accepted
	if least := uint64(slowFor / time.Second); frames < least || accepted < len(s.users) {
		t.Errorf("while some did not read, the others got %d frames and %d acceptances in %v", frames, accepted, slowFor)
	}
	slow.reopen()
	s.everyone()
	s.stop()
	for _, session := range s.sessions() {
		if stats := session.Stats(); stats.Losses > 0 || stats.Connects != 1 {
			t.Errorf("a session of %q was disconnected %d times", session.User(), stats.Losses)
		}
	}
	t.Logf("%d frames and %d placements in %v beside full sockets", frames, accepted, slowFor)
	s.judge()
}
