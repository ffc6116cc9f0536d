package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

var place = wire.AppendClient(nil, &wire.Place{Turn: 1, Nonce: 2, X: 3, Y: 4, Colour: 5})

// TestSession has a client say everything once, and the answers' bytes come back over the same connection.
func TestSession(t *testing.T) {
	h := start(t, nil)
	ws := h.dial("Authorization: Bearer " + h.token("ann"))
	if got := ws.Subprotocol(); got != Subprotocol {
		t.Errorf("subprotocol %q", got)
	}
	if _, ok := next(t, ws).(*wire.Hello); !ok {
		t.Fatal("the first message is no hello")
	}
	messages := []wire.ClientMessage{
		&wire.Subscribe{Whole: true},
		&wire.Place{Turn: 1, Nonce: 77, X: -1, Y: 1000, Colour: 300}, // the shard's to refuse
		&wire.Repair{Chunks: []wire.ChunkAt{{Chunk: 3, Sequence: 4}}},
		&wire.GetHashes{Chunks: wire.ChunkRect{Cols: 2, Rows: 2}},
	}
	for _, m := range messages {
		send(t, ws, m)
	}
	eventually(t, "all messages are received", func() bool { n, _ := h.fake.state(); return n == len(messages) })
	for i, m := range h.fake.received {
		if !bytes.Equal(wire.AppendClient(nil, m), wire.AppendClient(nil, messages[i])) {
			t.Errorf("message %d arrived as %+v", i, m)
		}
	}
	h.fake.mu.Lock()
	user, conn := h.fake.users[1], h.fake.conns[1]
	h.fake.mu.Unlock()
	if user != "ann" {
		t.Errorf("the session is %q's", user)
	}
	if status := conn.Send(wire.SealServer(&wire.Move{WithinMs: 5})); status != wire.WriteDone {
		t.Errorf("send: %d", status)
	}
	if m, ok := next(t, ws).(*wire.Move); !ok || m.WithinMs != 5 {
		t.Errorf("got %+v", m)
	}
	for _, kind := range []string{"subscribe", "place", "repair", "get_hashes"} {
		if n := h.count("placed_ws_messages_total", "kind", kind); n != 1 {
			t.Errorf("%v messages of kind %s counted", n, kind)
		}
	}
	ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
	if code := closeCode(t, ws); code != websocket.CloseNormalClosure {
		t.Errorf("closed with %d", code)
	}
	eventually(t, "the session is over", func() bool { return h.sessionCount() == 0 })
	if n := h.count("placed_ws_closes_total", "code", "1000"); n != 1 {
		t.Errorf("%v closes counted", n)
	}
	if len(h.fake.disconnected) != 1 {
		t.Errorf("disconnected %v", h.fake.disconnected)
	}
}

// TestMalformedFrames sends what no client should: each gets its close code, is counted, and reaches nobody.
func TestMalformedFrames(t *testing.T) {
	large := bytes.Repeat([]byte{1}, wire.ClientMessageBytesMax+1)
	unmasked := append([]byte{0x82, byte(len(place))}, place...)
	endless := append(frame(0x02, nil), bytes.Repeat(frame(0x00, nil), 100_000)...)
	for _, c := range []struct {
		name   string
		bytes  []byte
		code   int
		reason string
	}{
		{"text", frame(0x81, []byte("hello")), wire.CloseText, badText},
		{"a message of 1,025 bytes", frame(0x82, large), wire.CloseTooBig, badTooBig},
		{"a message announced as 1 GB", []byte{0x82, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0}, wire.CloseTooBig, badTooBig},
		{"a message announced as 2^63 bytes", []byte{0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, wire.CloseTooBig, badTooBig},
		{"fragments beyond 1,024 bytes", append(frame(0x02, large[:1000]), frame(0x80, large[:1000])...), wire.CloseTooBig, badTooBig},
		{"an unmasked message", unmasked, wire.CloseProtocol, badWebsocket},
		{"a compressed message", frame(0xc2, place), wire.CloseProtocol, badWebsocket},
		{"a reserved bit", frame(0xa2, place), wire.CloseProtocol, badWebsocket},
		{"an unknown opcode", frame(0x83, place), wire.CloseProtocol, badWebsocket},
		{"an unknown control frame", frame(0x8b, nil), wire.CloseProtocol, badWebsocket},
		{"a stray continuation", frame(0x80, place), wire.CloseProtocol, badWebsocket},
		{"a message within a message", append(frame(0x02, place[:1]), frame(0x82, place)...), wire.CloseProtocol, badWebsocket},
		{"a ping of 126 bytes", frame(0x89, large[:126]), wire.CloseProtocol, badWebsocket},
		{"a ping in fragments", frame(0x09, nil), wire.CloseProtocol, badWebsocket},
		{"a close with an impossible code", frame(0x88, []byte{0x03, 0xed}), wire.CloseProtocol, badWebsocket},
		{"a close with a reason that is not UTF-8", frame(0x88, []byte{0x03, 0xe8, 0xff}), wire.CloseProtocol, badWebsocket},
		{"a close with a code of one byte", frame(0x88, []byte{0x03}), 0, ""},
		{"endless empty fragments", endless, wire.CloseFlood, badFlood},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := start(t, limited)
			r := h.rawDial("Authorization: Bearer " + h.token("ann"))
			go r.Write(c.bytes)
			if code := r.closeCode(); code != c.code {
				t.Errorf("closed with %d, want %d", code, c.code)
			}
			if op, _, err := r.readFrame(); err == nil {
				t.Errorf("a frame %x follows the close", op)
			}
			r.Close()
			eventually(t, "the session is over", func() bool { return h.sessionCount() == 0 })
			if c.reason != "" {
				if n := h.count("placed_ws_bad_messages_total", "reason", c.reason); n != 1 {
					t.Errorf("counted %v times as %s", n, c.reason)
				}
			}
			if received, _ := h.fake.state(); received != 0 {
				t.Errorf("%d messages reached the board", received)
			}
			if len(h.fake.disconnected) != 1 {
				t.Errorf("disconnected %d times", len(h.fake.disconnected))
			}
		})
	}
}

// TestFragments checks that a message in fragments with a ping between them is one message.
func TestFragments(t *testing.T) {
	h := start(t, nil)
	r := h.rawDial()
	r.Write(frame(0x02, []byte{1}))
	r.Write(frame(0x89, []byte("p")))
	r.Write(frame(0x80, []byte{1}))
	for {
		op, payload, err := r.readFrame()
		if err != nil {
			t.Fatal(err)
		}
		if op == opPong {
			if string(payload) != "p" {
				t.Errorf("pong %q", payload)
			}
			break
		}
	}
	eventually(t, "the message is received", func() bool { n, _ := h.fake.state(); return n == 1 })
	if m, ok := h.fake.received[0].(*wire.Subscribe); !ok || !m.Whole {
		t.Errorf("got %+v", h.fake.received[0])
	}
}

// TestLargestMessage checks that exactly 1,024 bytes are a message, whole and in fragments.
func TestLargestMessage(t *testing.T) {
	h := start(t, nil)
	r := h.rawDial()
	b := make([]byte, wire.ClientMessageBytesMax)
	b[0] = 0xee
	r.Write(frame(0x82, b))
	r.Write(append(frame(0x02, b[:1000]), frame(0x80, b[1000:])...))
	for range 2 {
		if code := nextNotice(t, r); code != board.CodeBadMessage {
			t.Errorf("notice %v", code)
		}
	}
	if n := h.count("placed_ws_bad_messages_total", "reason", badTooBig); n != 0 {
		t.Errorf("%v counted as too big", n)
	}
}

// nextNotice returns the code of the next notice.
func nextNotice(t *testing.T, r *rawConn) board.Code {
	t.Helper()
	for {
		_, payload, err := r.readFrame()
		if err != nil {
			t.Fatal(err)
		}
		m, err := wire.DecodeServer(payload)
		if err != nil {
			t.Fatal(err)
		}
		if notice, ok := m.(*wire.Notice); ok {
			return notice.Code
		}
	}
}

// TestUndecodable sends messages that are not of the protocol: a notice each, and the tenth ends the session.
func TestUndecodable(t *testing.T) {
	h := start(t, nil)
	r := h.rawDial()
	bad := [][]byte{
		{},
		{0x00},
		{0xff},
		place[:len(place)-1], append(bytes.Clone(place), 0),
		{0x01},
		{0x01, 0xff},
		{0x03, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		{0x04, 0xff, 0x03, 0, 1, 1},
		{0x80},
	}
	if len(bad) != h.cfg.BadMessagesMax {
		t.Fatal("the list has to have as many as end a session")
	}
	for i, b := range bad {
		r.Write(frame(0x82, b))
		if code := nextNotice(t, r); code != board.CodeBadMessage {
			t.Errorf("message %d: notice %v", i, code)
		}
	}
	if code := r.closeCode(); code != wire.CloseMalformed {
		t.Errorf("closed with %d", code)
	}
	if n := h.count("placed_ws_bad_messages_total", "reason", badMalformed); n != float64(len(bad)) {
		t.Errorf("%v counted", n)
	}
	if received, _ := h.fake.state(); received != 0 {
		t.Errorf("%d reached the board", received)
	}
}

// TestRate sends more than the session may: what is above is refused and reaches nobody, placements by an answer that names
// them, and the session lives on.
func TestRate(t *testing.T) {
	bubble(t, func(cfg *Config) { cfg.Unlimited = nil; cfg.MessagesPerSecond = 5 }, func(t *testing.T, b *bubbleServer) {
		r := b.dial(t, "Authorization: Bearer "+b.signer.seal("ann", false, time.Now().Add(time.Hour)))
		refused, notices := 0, 0
		go func() {
			for {
				_, payload, err := r.readFrame()
				if err != nil {
					return
				}
				switch m, _ := wire.DecodeServer(payload); m := m.(type) {
				case *wire.Placed:
					if m.Verdict != board.VerdictRefused || m.Code != board.CodeRate || m.Nonce != 2 || m.At != (board.Point{X: 3, Y: 4}) || m.WaitMs <= 0 {
						t.Errorf("answer %+v", m)
					}
					refused++
				case *wire.Notice:
					if m.Code != board.CodeRate || m.RetryMs <= 0 {
						t.Errorf("notice %+v", m)
					}
					notices++
				}
			}
		}()
		for range 8 {
			r.Write(frame(0x82, place))
		}
		for range 2 {
			r.Write(frame(0x82, []byte{1, 1}))
		}
		synctest.Wait()
		if received, _ := b.fake.state(); received != 5 || refused != 3 || notices != 2 {
			t.Errorf("%d received, %d refused, %d notices; want 5, 3, 2", received, refused, notices)
		}
		<-time.After(200 * time.Millisecond) // virtual: one message's worth
		for range 2 {
			r.Write(frame(0x82, place))
		}
		synctest.Wait()
		if received, _ := b.fake.state(); received != 6 || refused != 4 {
			t.Errorf("200 ms later: %d received, %d refused", received, refused)
		}
		if n := count(t, b.reg, "placed_ws_bad_messages_total", "reason", badRate); n != 6 {
			t.Errorf("%v counted", n)
		}
	})
}

// TestFlood keeps sending at far above the rate; the session is closed with its own code. Pings count as well.
func TestFlood(t *testing.T) {
	for name, b := range map[string][]byte{"messages": frame(0x82, place), "pings": frame(0x89, []byte("x"))} {
		t.Run(name, func(t *testing.T) {
			h := start(t, limited)
			r := h.rawDial("Authorization: Bearer " + h.token("ann"))
			go r.Write(bytes.Repeat(b, 1000))
			if code := r.closeCode(); code != wire.CloseFlood {
				t.Errorf("closed with %d", code)
			}
			r.Close()
			eventually(t, "the session is over", func() bool { return h.sessionCount() == 0 })
			if n := h.count("placed_ws_bad_messages_total", "reason", badFlood); n != 1 {
				t.Errorf("%v counted", n)
			}
			if received, _ := h.fake.state(); received > h.cfg.MessagesPerSecond+5 {
				t.Errorf("%d reached the board", received)
			}
		})
	}
}

// TestUnlimitedAddress sends from an exempt address what would end any other session.
func TestUnlimitedAddress(t *testing.T) {
	h := start(t, nil)
	r := h.rawDial("Authorization: Bearer " + h.token("ann"))
	r.Write(bytes.Repeat(frame(0x82, place), 1000))
	eventually(t, "all are received", func() bool { n, _ := h.fake.state(); return n == 1000 })
}

// TestSpectatorPlaces checks that nobody places without signing in.
func TestSpectatorPlaces(t *testing.T) {
	h := start(t, nil)
	ws := h.dial()
	next(t, ws)
	send(t, ws, &wire.Place{Nonce: 9, X: 1, Y: 2, Colour: 3})
	m, ok := next(t, ws).(*wire.Placed)
	if !ok || m.Verdict != board.VerdictRefused || m.Code != board.CodeSignIn || m.Nonce != 9 {
		t.Errorf("answer %+v", m)
	}
	if received, _ := h.fake.state(); received != 0 {
		t.Error("it reached the board")
	}
	if n := h.count("placed_ws_bad_messages_total", "reason", badSpectator); n != 1 {
		t.Errorf("%v counted", n)
	}
}

// bubbleServer is a server in a bubble of virtual time, over pipes.
type bubbleServer struct {
	*harness
	ln *pipeListener
}

type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// addressedConn is a pipe whose other end has an address.
type addressedConn struct {
	net.Conn
	addr netip.Addr
}

func (c *addressedConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.addr, 4711))
}

// CloseWrite does nothing: a pipe has no halves.
func (c *addressedConn) CloseWrite() error { return nil }

func bubble(t *testing.T, change func(*Config), run func(t *testing.T, b *bubbleServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, fake, reg, logs := newServer(t, change)
		b := &bubbleServer{
			harness: &harness{Server: s, t: t, fake: fake, reg: reg, logs: logs},
			ln:      &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})},
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(b.ln) }()
		run(t, b)
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := s.sessionCount(); n != 0 {
			t.Errorf("%d sessions outlived the server", n)
		}
	})
}

func (b *bubbleServer) connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { client.Close() })
	b.ln.conns <- &addressedConn{server, netip.MustParseAddr(addr)}
	return client
}

func (b *bubbleServer) dial(t *testing.T, header ...string) *rawConn {
	t.Helper()
	return rawSession(t, b.connect(t, "192.0.2.1"), header...)
}

// TestSilence watches a session over virtual minutes: it is pinged after 30 s of silence, every answer counts, and 75 s after
// the last sign of life it is closed.
func TestSilence(t *testing.T) {
	bubble(t, nil, func(t *testing.T, b *bubbleServer) {
		r := b.dial(t)
		r.readFrame() // hello
		began := time.Now()
		for i := range 4 { // as long as it answers it lives
			op, _, err := r.readPing()
			if err != nil || op != opPing {
				t.Fatalf("ping %d: %x, %v", i, op, err)
			}
			if at := time.Since(began); at != time.Duration(i+1)*30*time.Second {
				t.Errorf("ping %d after %v", i, at)
			}
			r.Write(frame(0x8a, nil))
		}
		synctest.Wait()
		last := time.Now()
		for i := range 2 { // pings without an answer
			if op, _, _ := r.readPing(); op != opPing {
				t.Fatalf("unanswered ping %d: %x", i, op)
			}
		}
		op, payload, err := r.readPing()
		if err != nil || op != opClose || int(binary.BigEndian.Uint16(payload)) != wire.CloseSilent {
			t.Fatalf("got %x %x, %v; want a close", op, payload, err)
		}
		if at := time.Since(last); at != 75*time.Second {
			t.Errorf("taken for dead after %v", at)
		}
		r.Close()
		synctest.Wait()
		if n := count(t, b.reg, "placed_ws_bad_messages_total", "reason", badSilent); n != 1 {
			t.Errorf("%v counted", n)
		}
		if n := count(t, b.reg, "placed_ws_closes_total", "code", "4001"); n != 1 {
			t.Errorf("%v closes counted", n)
		}
		if n := count(t, b.reg, "placed_ws_pings_total"); n != 6 {
			t.Errorf("%v pings counted", n)
		}
	})
}

// readPing reads one frame without a deadline of its own, which would be virtual too.
func (r *rawConn) readPing() (byte, []byte, error) {
	var head [2]byte
	if _, err := r.br.Read(head[:1]); err != nil {
		return 0, nil, err
	}
	if _, err := r.br.Read(head[1:]); err != nil {
		return 0, nil, err
	}
	payload := make([]byte, head[1])
	for n := 0; n < len(payload); {
		m, err := r.br.Read(payload[n:])
		if err != nil {
			return 0, nil, err
		}
		n += m
	}
	return head[0], payload, nil
}

// TestHalfOpen has a peer vanish without a word: no reads, no writes, no close. The session ends by itself.
func TestHalfOpen(t *testing.T) {
	bubble(t, nil, func(t *testing.T, b *bubbleServer) {
		b.fake.greeting = nil
		b.dial(t)
		synctest.Wait()
		if n := b.sessionCount(); n != 1 {
			t.Fatalf("%d sessions", n)
		}
		<-time.After(74 * time.Second)
		if n := b.sessionCount(); n != 1 {
			t.Errorf("%d sessions after 74 s", n)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if n := b.sessionCount(); n != 0 || len(b.fake.disconnected) != 1 {
			t.Errorf("%d sessions after 76 s, %d disconnected", n, len(b.fake.disconnected))
		}
	})
}

// TestLinger has a peer that does not answer a close: its connection is cut after Linger.
func TestLinger(t *testing.T) {
	bubble(t, nil, func(t *testing.T, b *bubbleServer) {
		r := b.dial(t)
		r.readFrame()
		began := time.Now()
		b.fake.conns[1].Close(wire.CloseRestart, "")
		r.readPing() // the close
		if _, _, err := r.readPing(); err == nil {
			t.Error("something followed the close")
		}
		if took := time.Since(began); took != b.cfg.Linger {
			t.Errorf("cut after %v", took)
		}
	})
}

// TestOrigin opens sessions from everywhere.
func TestOrigin(t *testing.T) {
	h := start(t, func(cfg *Config) {
		cfg.AllowedOrigins = []string{"https://friend.example", "http://friend.example:444"}
	})
	host := h.Addr().String()
	cookie := "Cookie: " + CookieName + "=" + h.token("ann")
	bearer := "Authorization: Bearer " + h.token("ann")
	for _, c := range []struct {
		name   string
		ok     bool
		header []string
	}{
		{"none, nobody", true, nil},
		{"none, bearer token", true, []string{bearer}},
		{"none, cookie", false, []string{cookie}},
		{"none, cookie and bearer token", true, []string{cookie, bearer}},
		{"own host", true, []string{cookie, "Origin: http://" + host}},
		{"own host behind TLS", true, []string{cookie, "Origin: https://" + host}},
		{"allowed", true, []string{cookie, "Origin: https://friend.example"}},
		{"allowed, other scheme", false, []string{cookie, "Origin: http://friend.example"}},
		{"allowed, with its port", true, []string{cookie, "Origin: http://friend.example:444"}},
		{"allowed, other port", false, []string{cookie, "Origin: https://friend.example:444"}},
		{"allowed as a prefix", false, []string{cookie, "Origin: https://friend.example.evil.example"}},
		{"allowed as a suffix", false, []string{cookie, "Origin: https://evilfriend.example"}},
		{"own host as a user", false, []string{cookie, "Origin: http://" + host + "@evil.example"}},
		{"own host as a path", false, []string{cookie, "Origin: http://evil.example/" + host}},
		{"own host, other port", false, []string{cookie, "Origin: http://127.0.0.1:1"}},
		{"own host, with a path", false, []string{cookie, "Origin: http://" + host + "/"}},
		{"own host, other scheme", false, []string{cookie, "Origin: ftp://" + host}},
		{"another", false, []string{cookie, "Origin: https://evil.example"}},
		{"another, nobody", false, []string{"Origin: https://evil.example"}},
		{"another, bearer token", false, []string{bearer, "Origin: https://evil.example"}},
		{"null", false, []string{cookie, "Origin: null"}},
		{"empty", false, []string{cookie, "Origin: "}},
		{"two", false, []string{cookie, "Origin: http://" + host, "Origin: https://evil.example"}},
	} {
		before := h.count("placed_http_refusals_total", "code", problemOrigin)
		ws, res, err := h.tryDial(c.header...)
		if (err == nil) != c.ok {
			t.Errorf("%s: let in %v, want %v (%v)", c.name, err == nil, c.ok, err)
		}
		if ws != nil {
			ws.Close()
		}
		if err != nil {
			if res == nil || res.StatusCode != http.StatusForbidden {
				t.Errorf("%s: no status 403", c.name)
			}
			if after := h.count("placed_http_refusals_total", "code", problemOrigin); after != before+1 {
				t.Errorf("%s: not counted", c.name)
			}
		}
	}
}

func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		origin, host string
		want         bool
	}{
		{"https://board.example", "board.example", true},
		{"https://board.example", "board.example:443", true},
		{"https://board.example:443", "board.example", true},
		{"http://board.example", "board.example:80", true},
		{"http://board.example", "board.example:443", false},
		{"http://BOARD.example", "board.EXAMPLE", true},
		{"http://[::1]:8080", "[::1]:8080", true},
		{"http://board.example", "", false},
		{"http://", "", false},
	} {
		if got := sameHost(c.origin, c.host); got != c.want {
			t.Errorf("origin %q, host %q: %v", c.origin, c.host, got)
		}
	}
}

// TestUpgradeRefused asks for sessions that there cannot be.
func TestUpgradeRefused(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.SessionsMax = 1 })
	upgrade := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="}
	try := func(name string, status int, code string, header ...string) {
		t.Helper()
		res := h.do("GET", "/api/v1/ws", "", header...)
		wantProblem(t, name, res, status, code)
	}
	try("no upgrade", 426, problemUpgrade)
	try("another subprotocol", 400, problemSubprotocol, append(upgrade, "Sec-WebSocket-Protocol: chat, placed.v2")...)
	try("another version", 426, problemUpgrade, append(upgrade[:2:2], "Sec-WebSocket-Version: 8", upgrade[3])...)
	try("no key", 426, problemUpgrade, upgrade[:3]...)
	try("a forged token", 401, problemToken, append(upgrade, "Authorization: Bearer nonsense")...)
	try("a forged cookie", 401, problemToken, append(upgrade, "Cookie: "+CookieName+"=nonsense")...)

	h.dial()
	eventually(t, "the session counts", func() bool { return h.sessionCount() == 1 })
	try("one session more than there may be", 503, "busy", upgrade...)
	h.fake.mu.Lock()
	h.fake.body = nil
	h.fake.mu.Unlock()
	try("the board is not loaded", 503, "loading", upgrade...)
	if n := h.count("placed_http_refusals_total", "code", "busy"); n != 1 {
		t.Errorf("%v counted as busy", n)
	}
}

// TestSessionsMax has many come at once for the one place there is: one gets it, the others are told to try later.
func TestSessionsMax(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.SessionsMax = 1 })
	var wg sync.WaitGroup
	var in, later atomic.Int64
	for range 20 {
		wg.Go(func() {
			ws, res, err := h.tryDial()
			switch {
			case err == nil:
				defer ws.Close()
				ws.SetReadDeadline(time.Now().Add(10 * time.Second))
				if _, _, err := ws.ReadMessage(); err == nil {
					in.Add(1) // a hello
					for later.Load() < 19 && ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second)) == nil {
						runtime.Gosched() // stays until the others have been told
					}
				} else if websocket.IsCloseError(err, wire.CloseTryLater) {
					later.Add(1)
				}
			case res != nil && res.StatusCode == 503:
				later.Add(1)
			}
		})
	}
	wg.Wait()
	if in.Load() != 1 || later.Load() != 19 {
		t.Errorf("%d were let in, %d told to try later", in.Load(), later.Load())
	}
	if h.fake.connected != 1 {
		t.Errorf("%d connected", h.fake.connected)
	}
	eventually(t, "the place is free", func() bool { return h.sessionCount() == 0 })
	if !h.addSession(&session{}) || h.addSession(&session{}) {
		t.Error("the bound is not exact")
	}
	h.mu.Lock()
	clear(h.sessions)
	h.mu.Unlock()
}

// TestDrain parts from two sessions, of which one leaves when asked to, and from a placement that is under way.
func TestDrain(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.DrainMove = 400 * time.Millisecond; cfg.DrainNotice = 300 * time.Millisecond })
	polite, rude := h.dial("Authorization: Bearer "+h.token("ann")), h.dial("Authorization: Bearer "+h.token("bob"))
	next(t, polite)
	next(t, rude)
	release := make(chan struct{})
	accepted := h.fake.outcome
	h.fake.outcome = func(ctx context.Context, r board.PlaceRequest) board.PlaceOutcome {
		<-release
		return accepted(ctx, r)
	}
	underWay := make(chan response)
	go func() {
		underWay <- h.do("POST", "/api/v1/placements", `{"x":1,"y":2,"colour":3}`, "Content-Type: application/json",
			"Idempotency-Key: k", "Authorization: Bearer "+h.token("cid"))
	}()
	eventually(t, "the placement is under way", func() bool { _, n := h.fake.state(); return n == 1 })

	drained := make(chan error)
	go func() { drained <- h.Drain(t.Context()) }()
	eventually(t, "readyz fails while the listener still accepts", func() bool { return h.do("GET", "/readyz", "").StatusCode == 503 })
	if res := h.do("GET", "/livez", ""); res.StatusCode != 200 {
		t.Errorf("livez of a draining node: %d", res.StatusCode)
	}
	wantProblem(t, "a session of a draining node", h.do("GET", "/api/v1/ws", "", "Connection: Upgrade", "Upgrade: websocket"), 503, "draining")
	wantProblem(t, "a placement on a draining node", h.do("POST", "/api/v1/placements", `{"x":1,"y":2,"colour":3}`,
		"Content-Type: application/json", "Idempotency-Key: k", "Authorization: Bearer "+h.token("dan")), 503, "draining")

	for _, ws := range []*websocket.Conn{polite, rude} {
		if m, ok := next(t, ws).(*wire.Move); !ok || m.WithinMs != 400 {
			t.Errorf("got %+v, want a move", m)
		}
	}
	send(t, rude, &wire.Place{Nonce: 5})
	if m, ok := next(t, rude).(*wire.Placed); !ok || m.Code != board.CodeDraining || m.Verdict != board.VerdictRefused {
		t.Errorf("a placement after the move: %+v", m)
	}
	polite.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), time.Now().Add(time.Second))
	if code := closeCode(t, polite); code != 1000 {
		t.Errorf("the one that left: closed with %d", code)
	}
	if code := closeCode(t, rude); code != wire.CloseRestart {
		t.Errorf("the one that stayed: closed with %d", code)
	}
	close(release)
	if res := <-underWay; res.StatusCode != 200 {
		t.Errorf("the placement under way got %d", res.StatusCode)
	}
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
	if _, err := net.Dial("tcp", h.Addr().String()); err == nil {
		t.Error("a drained server accepts")
	}
	if len(h.fake.disconnected) != 2 {
		t.Errorf("%d disconnected", len(h.fake.disconnected))
	}
}

// TestDrainBounded drains with peers that answer nothing: it ends with its context.
func TestDrainBounded(t *testing.T) {
	const patience = time.Minute // far above what a slow machine makes of the context's time
	h := start(t, func(cfg *Config) { cfg.DrainMove, cfg.Linger = patience, patience })
	h.rawDial()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	h.Drain(ctx)
	if took := time.Since(began); took >= patience {
		t.Errorf("took %v", took)
	}
	eventually(t, "the session is cut", func() bool { return h.sessionCount() == 0 })
}

// TestIdleSessions measures 1,000 idle sessions that have said and heard something: goroutines and heap for both, and stacks.
func TestIdleSessions(t *testing.T) {
	const sessions = 1000
	h := start(t, nil)
	peers := make([]*rawConn, sessions)
	before := measure()
	for i := range peers {
		r := h.rawDial()
		r.br = nil // the peer's memory is not the point
		r.Write(frame(0x82, []byte{1, 1}))
		peers[i] = r
	}
	eventually(t, "all have said something", func() bool { n, _ := h.fake.state(); return n == sessions })
	eventually(t, "the upgrades' goroutines are gone", func() bool { return runtime.NumGoroutine() < before.goroutines+sessions+20 })
	after := measure()
	goroutines := float64(after.goroutines-before.goroutines) / sessions
	heap, stack := float64(after.heap)-float64(before.heap), float64(after.stack)-float64(before.stack)
	t.Logf("per session: %.2f goroutines, %.0f bytes of heap (both ends), %.0f of stack", goroutines, heap/sessions, stack/sessions)
	if goroutines > 1.05 {
		t.Errorf("%.2f goroutines per session", goroutines)
	}
	if raceEnabled {
		return // the detector's own memory is in the figures
	}
	if total := (heap + stack) / sessions; total > 6*1024 {
		t.Errorf("%.0f bytes of heap and stack per session", total)
	}
	runtime.KeepAlive(peers)
}

type memory struct {
	goroutines  int
	heap, stack uint64
}

func measure() memory {
	runtime.GC()
	runtime.GC() // stacks shrink in the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{runtime.NumGoroutine(), m.HeapAlloc, m.StackInuse}
}

// wantProblem checks an answer to be a whole problem.
func wantProblem(t *testing.T, name string, res response, status int, code string) problem {
	t.Helper()
	var p problem
	if res.StatusCode != status {
		t.Errorf("%s: status %d, want %d (%s)", name, res.StatusCode, status, res.body)
	}
	if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("%s: content type %q", name, got)
	}
	if got := res.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("%s: cache control %q", name, got)
	}
	if fault := strictJSON(res.body, &p); fault != nil {
		t.Errorf("%s: %s: %s", name, fault.Detail, res.body)
	}
	if p.Code != code || p.Status != res.StatusCode || p.Title == "" || !strings.HasSuffix(p.Type, ":"+p.Code) {
		t.Errorf("%s: %s, want code %s", name, res.body, code)
	}
	if retry := res.Header.Get("Retry-After"); p.RetryAfterMs > 0 && retry != fmt.Sprint((p.RetryAfterMs+999)/1000) {
		t.Errorf("%s: retry after %q, %d ms in the body", name, retry, p.RetryAfterMs)
	}
	return p
}
