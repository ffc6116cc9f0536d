//go:build unix

package system_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/wire"
)

// badBoard is a node that bad input must not change, with a user who has placed once and has a day to wait.
type badBoard struct {
	t       *testing.T
	node    *node
	token   string
	first   board.PlaceOutcome // the user's only placement
	etag    string
	version uint64
	witness *client.Session // a session that behaves: nothing may disturb it
}

const badUser = "bad"

func newBadBoard(t *testing.T, flags ...string) *badBoard {
	t.Helper()
	return newBadBoardWith(t, nil, flags...)
}

func newBadBoardWith(t *testing.T, env []string, flags ...string) *badBoard {
	t.Helper()
	n := newNode(t, append([]string{"--cooldown", "24h"}, flags...)...)
	n.env = env
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), dialWithin)
	defer cancel()
	b := &badBoard{t: t, node: n}
	session, err := client.Dial(ctx, n.url, client.Options{Name: badUser})
	if err != nil {
		t.Fatal(err)
	}
	if b.first, err = session.Place(ctx, board.Point{X: 10, Y: 10}, 5); err != nil || b.first.Verdict != board.VerdictAccepted {
		t.Fatalf("the first placement: %+v, %v", b.first, err)
	}
	_ = session.Close()
	signedIn, err := n.api().Login(ctx, badUser)
	if err != nil {
		t.Fatal(err)
	}
	b.token = signedIn.Token
	if b.witness, err = client.Dial(ctx, n.url, client.Options{Name: "witness", Whole: true, Mirror: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.witness.Close() })
	eventually(t, moreWithin, "the placement to be shown", func() bool {
		c, _ := b.witness.Tile(b.first.At)
		return c == b.first.Colour
	})
	b.etag, b.version = b.look()
	return b
}

// bearer is the header line of the bad user.
func (b *badBoard) bearer() string { return "Authorization: Bearer " + b.token }

// look returns the board's ETag and the version of the settings.
func (b *badBoard) look() (etag string, version uint64) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodHead, b.node.url+"/api/v1/board", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Accept-Encoding", "identity")
	var a *answer
	eventually(b.t, rawWithin, "the board to be served", func() bool { // it may have been asked for too often
		a = do(b.t, request)
		return a.status == http.StatusOK
	})
	settings, err := b.node.admin().Settings(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return a.header.Get("ETag"), settings.Version
}

// try runs one piece of bad input: the named counters must rise by at least one, and nothing else may change.
func (b *badBoard) try(name string, counters []string, input func(t *testing.T)) {
	b.t.Run(name, func(t *testing.T) {
		before := b.node.metrics()
		input(t)
		why := awaitThat(rawWithin, func() string {
			after := b.node.metrics()
			for _, c := range counters {
				was, known := before[c]
				if !known {
					return fmt.Sprintf("there is no series %s", c)
				}
				if after[c] <= was {
					return fmt.Sprintf("%s stays at %v", c, was)
				}
			}
			return ""
		})
		if why != "" {
			t.Error(why)
		}
		if etag, version := b.look(); etag != b.etag || version != b.version {
			t.Errorf("the board was %s under settings %d, and is %s under settings %d", b.etag, b.version, etag, version)
		}
	})
}

// end sees that the witness noticed nothing and can place, and that the node is sound.
func (b *badBoard) end() {
	b.t.Helper()
	if stats := b.witness.Stats(); stats.Losses > 0 || stats.Undecodable > 0 {
		b.t.Errorf("the witness was disturbed: %+v", stats)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), moreWithin)
	defer cancel()
	o, err := b.witness.Place(ctx, board.Point{X: 20, Y: 20}, 7)
	if err != nil || o.Verdict != board.VerdictAccepted {
		b.t.Errorf("the witness cannot place: %+v, %v", o, err)
	}
	if report := b.node.verify(); report.Placements != 2 {
		b.t.Errorf("%d placements, want the bad user's first and the witness's", report.Placements)
	}
	_ = b.witness.Close()
	b.node.stop()
}

func badMessages(reason string) string {
	return fmt.Sprintf("placed_ws_bad_messages_total{reason=%q}", reason)
}

func placements(result string) string {
	return fmt.Sprintf("placed_placements_total{result=%q}", result)
}

func closes(code int) string { return fmt.Sprintf("placed_ws_closes_total{code=\"%d\"}", code) }

// TestBadInputOnSockets sends everything that is not right over real websockets.
func TestBadInputOnSockets(t *testing.T) {
	t.Parallel()
	b := newBadBoard(t)
	b.placements()
	b.undecodable()
	b.brokenFrames()
	b.fragments()
	b.halfOpen()
	b.end()
}

// placements are well-formed, and impossible.
func (b *badBoard) placements() {
	corner := board.Point{X: 3, Y: 3}
	for _, c := range []struct {
		name      string
		spectator bool
		place     wire.Place
		want      board.Code
		counter   string
	}{
		{"x is the width", false, wire.Place{Turn: 2, Nonce: 1, X: 1000, Y: 5}, board.CodeBounds, ""},
		{"y is the height", false, wire.Place{Turn: 2, Nonce: 2, X: 5, Y: 1000}, board.CodeBounds, ""},
		{"x is -1", false, wire.Place{Turn: 2, Nonce: 3, X: -1, Y: 5}, board.CodeBounds, ""},
		{"y is -1", false, wire.Place{Turn: 2, Nonce: 4, X: 5, Y: -1}, board.CodeBounds, ""},
		{"huge", false, wire.Place{Turn: 2, Nonce: 5, X: math.MaxInt64, Y: math.MinInt64}, board.CodeBounds, ""},
		{"x wraps at 32 bits", false, wire.Place{Turn: 2, Nonce: 6, X: 1 << 32, Y: 0}, board.CodeBounds, ""},
		{"colour 16 of 16", false, wire.Place{Turn: 2, Nonce: 7, X: 5, Y: 5, Colour: 16}, board.CodeColour, ""},
		{"colour 256", false, wire.Place{Turn: 2, Nonce: 8, X: 5, Y: 5, Colour: 256}, board.CodeColour, ""},
		{"a huge colour", false, wire.Place{Turn: 2, Nonce: 9, X: 5, Y: 5, Colour: math.MaxInt32}, board.CodeColour, ""},
		{"too soon", false, wire.Place{Turn: 2, Nonce: 10, X: 5, Y: 5}, board.CodeCooldown, ""},
		{"too soon, whatever the turn", false, wire.Place{Turn: 0, Nonce: 11, X: 5, Y: 5}, board.CodeCooldown, ""},
		{"an old turn", false, wire.Place{Turn: 1, Nonce: 12, X: 5, Y: 5}, board.CodeSuperseded, ""},
		{"a turn too high", false, wire.Place{Turn: 3, Nonce: 13, X: 5, Y: 5}, board.CodeTurn, ""},
		{"the highest turn", false, wire.Place{Turn: math.MaxUint64, Nonce: 14, X: 5, Y: 5}, board.CodeTurn, ""},
		{"a spectator", true, wire.Place{Turn: 1, Nonce: 15, X: 5, Y: 5}, board.CodeSignIn, badMessages("spectator")},
	} {
		counter := c.counter
		if counter == "" {
			counter = placements(c.want.String())
		}
		b.try(c.name, []string{counter}, func(t *testing.T) {
			lines := []string{b.bearer()}
			if c.spectator {
				lines = nil
			}
			r := dialRaw(t, b.node, lines...)
			defer r.conn.Close()
			r.send(&c.place)
			o := awaitMessage[*wire.Placed](r)
			if o.Verdict != board.VerdictRefused || o.Code != c.want || o.Nonce != c.place.Nonce {
				t.Errorf("answered %+v, want the refusal %v", o, c.want)
			}
			if c.want == board.CodeTurn && o.NextTurn != 2 {
				t.Errorf("the right turn is 2, told was %d", o.NextTurn)
			}
		})
	}
	b.try("the last placement again", []string{placements("accepted")}, func(t *testing.T) {
		r := dialRaw(t, b.node, b.bearer())
		defer r.conn.Close()
		r.send(&wire.Place{Turn: 1, Nonce: b.first.Nonce, X: corner.X, Y: corner.Y, Colour: 1})
		if o := awaitMessage[*wire.Placed](r); o.Verdict != board.VerdictAccepted || o.Sequence != b.first.Sequence || o.At != b.first.At {
			t.Errorf("answered %+v, want the first answer %+v", o, b.first)
		}
	})
}

// undecodable are messages that are none of this protocol: each gets a Notice, and ten end the session.
func (b *badBoard) undecodable() {
	whole := wire.AppendClient(nil, &wire.Place{Turn: 2, Nonce: 1, X: 5, Y: 5, Colour: 3})
	bad := map[string][]byte{
		"an empty message":      {},
		"type 0":                {0},
		"an unknown type":       {0x7f, 1, 2, 3},
		"a message of nodes":    {0x82, 1},
		"a truncated placement": whole[:len(whole)-1],
		"half a placement":      whole[:len(whole)/2],
		"a byte too many":       append(append([]byte{}, whole...), 0),
		"a padded number":       append([]byte{0x02, 0x82, 0x00}, whole[2:]...),
		"an unknown flag":       {0x01, 0xff},
		"too many chunks":       {0x03, 0xff, 0x7f},
	}
	for name, payload := range bad {
		b.try(name, []string{badMessages("malformed")}, func(t *testing.T) {
			r := dialRaw(t, b.node, b.bearer())
			defer r.conn.Close()
			r.frame(final|opBinary, payload)
			if m := awaitMessage[*wire.Notice](r); m.Code != board.CodeBadMessage || m.Detail == "" {
				t.Errorf("answered %+v", m)
			}
			r.send(&wire.GetHashes{Chunks: wire.ChunkRect{Cols: 1, Rows: 1}})
			awaitMessage[*wire.ChunkHashes](r) // one alone does not end the session
		})
	}
	b.try("ten in a row", []string{badMessages("malformed"), closes(wire.CloseMalformed)}, func(t *testing.T) {
		r := dialRaw(t, b.node, b.bearer())
		for range 10 {
			r.frame(final|opBinary, []byte{0x7f})
		}
		if code := r.closed(); code != wire.CloseMalformed {
			t.Errorf("closed with %d", code)
		}
	})
}

// brokenFrames break the rules of websockets.
func (b *badBoard) brokenFrames() {
	hashes := wire.AppendClient(nil, &wire.GetHashes{Chunks: wire.ChunkRect{Cols: 1, Rows: 1}})
	for _, c := range []struct {
		name    string
		send    func(r *raw)
		code    int
		counter string
	}{
		{"a text message", func(r *raw) { r.frame(final|opText, []byte("hello")) }, wire.CloseText, "text"},
		{"1025 bytes", func(r *raw) { r.frame(final|opBinary, make([]byte, wire.ClientMessageBytesMax+1)) }, wire.CloseTooBig, "too_big"},
		{"the length of a film", func(r *raw) { r.bytes(append(header(final|opBinary, 0x80, 1<<40), 1, 2, 3, 4)) }, wire.CloseTooBig, "too_big"},
		{"a negative length", func(r *raw) { r.bytes(append(header(final|opBinary, 0x80, 1<<63), 1, 2, 3, 4)) }, wire.CloseTooBig, "too_big"},
		{"an unmasked frame", func(r *raw) { r.unmasked(final|opBinary, hashes) }, wire.CloseProtocol, "websocket"},
		{"a reserved bit", func(r *raw) { r.frame(final|reservedBit|opBinary, hashes) }, wire.CloseProtocol, "websocket"},
		{"a reserved opcode", func(r *raw) { r.frame(final|opReserved, hashes) }, wire.CloseProtocol, "websocket"},
		{"a continuation of nothing", func(r *raw) { r.frame(final|opContinuation, hashes) }, wire.CloseProtocol, "websocket"},
		{"a fragmented ping", func(r *raw) { r.frame(opPing, nil) }, wire.CloseProtocol, "websocket"},
		{"a ping of 126 bytes", func(r *raw) { r.frame(final|opPing, make([]byte, 126)) }, wire.CloseProtocol, "websocket"},
	} {
		b.try(c.name, []string{badMessages(c.counter), closes(c.code)}, func(t *testing.T) {
			r := dialRaw(t, b.node, b.bearer())
			c.send(r)
			if code := r.closed(); code != c.code {
				t.Errorf("closed with %d, want %d", code, c.code)
			}
		})
	}
}

// fragments of a message are fine as long as they are small together; endless ones are not.
func (b *badBoard) fragments() {
	hashes := wire.AppendClient(nil, &wire.GetHashes{Chunks: wire.ChunkRect{Cols: 1, Rows: 1}})
	b.try("a message in pieces, with a ping between", nil, func(t *testing.T) {
		r := dialRaw(t, b.node, b.bearer())
		defer r.conn.Close()
		r.frame(opBinary, hashes[:1])
		r.frame(opContinuation, hashes[1:3])
		r.frame(final|opPing, []byte("are you there"))
		r.frame(opContinuation, nil)
		r.frame(final|opContinuation, hashes[3:])
		awaitMessage[*wire.ChunkHashes](r)
	})
	b.try("too much in pieces", []string{badMessages("too_big"), closes(wire.CloseTooBig)}, func(t *testing.T) {
		r := dialRaw(t, b.node, b.bearer())
		r.frame(opBinary, make([]byte, 500))
		for range 10 {
			r.frame(opContinuation, make([]byte, 100))
		}
		if code := r.closed(); code != wire.CloseTooBig {
			t.Errorf("closed with %d", code)
		}
	})
	b.try("nothing in endless pieces", []string{badMessages("flood"), closes(wire.CloseFlood)}, func(t *testing.T) {
		r := dialRaw(t, b.node, b.bearer())
		r.frame(opBinary, nil)
		var many []byte
		for range 100 {
			many = append(append(many, header(opContinuation, 0x80, 0)...), 1, 2, 3, 4)
		}
		ended := make(chan int, 1)
		go func() { ended <- r.closed() }()
		for {
			select {
			case code := <-ended:
				if code != wire.CloseFlood {
					t.Errorf("closed with %d", code)
				}
				return
			default:
				r.bytes(many)
			}
		}
	})
	b.try("a new message inside of another", []string{badMessages("websocket"), closes(wire.CloseProtocol)}, func(t *testing.T) {
		r := dialRaw(t, b.node, b.bearer())
		r.frame(opBinary, hashes[:1])
		r.frame(final|opBinary, hashes)
		if code := r.closed(); code != wire.CloseProtocol {
			t.Errorf("closed with %d", code)
		}
	})
}

// halfOpen connections begin something and stop, or vanish.
func (b *badBoard) halfOpen() {
	b.try("connections that stop in the middle of a request", nil, func(t *testing.T) {
		var open sync.WaitGroup // each takes the node's patience with headers
		for _, text := range []string{"", "GET /api/v1/board HTTP/1.1\r\nHos", "GET /api/v1/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"} {
			open.Go(func() {
				if err := untilClosed(b.node, text); err != nil {
					t.Errorf("after %q: %v", text, err)
				}
			})
		}
		open.Wait()
	})
	b.try("a session that vanishes in the middle of a frame", []string{closes(1006)}, func(t *testing.T) {
		r := dialRaw(t, b.node, b.bearer())
		r.bytes(header(final|opBinary, 0x80, 100))
		_ = r.conn.(*net.TCPConn).SetLinger(0) // a reset, as from a machine that restarted
		_ = r.conn.Close()
	})
	eventually(b.t, rawWithin, "only the witness to be left", func() bool { return b.node.metrics()["placed_ws_connections"] == 1 })
}

// untilClosed sends text over a fresh connection and waits until the node closes it.
func untilClosed(n *node, text string) error {
	conn, err := net.Dial("tcp", hostOf(n.url))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(rawWithin))
	if _, err := conn.Write([]byte(text)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return fmt.Errorf("still open after %v", rawWithin)
	}
	return nil
}
