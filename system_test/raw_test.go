//go:build unix

package system_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/wire"
)

// rawWithin bounds the wait for an answer to one message.
const rawWithin = 20 * time.Second

// Opcodes of RFC 6455.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opReserved     = 0x3
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xa
	final          = 0x80
	reservedBit    = 0x40
)

// raw is a websocket of a client that may break every rule.
type raw struct {
	t      testing.TB
	conn   net.Conn
	reader *bufio.Reader
}

// dialRaw opens a session with the given additional header lines and reads its hello.
func dialRaw(t testing.TB, n *node, lines ...string) *raw {
	t.Helper()
	r, response := upgradeRaw(t, n, lines...)
	if response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the upgrade was answered %s", response.Status)
	}
	if _, ok := r.message().(*wire.Hello); !ok {
		t.Fatal("the first message is no hello")
	}
	return r
}

// upgradeRaw asks for a session and returns the answer, whatever it is.
func upgradeRaw(t testing.TB, n *node, lines ...string) (*raw, *http.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", hostOf(n.url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r := &raw{t: t, conn: conn, reader: bufio.NewReader(conn)}
	_ = conn.SetDeadline(time.Now().Add(rawWithin))
	request := append([]string{
		"GET /api/v1/ws HTTP/1.1", "Host: " + hostOf(n.url), "Connection: Upgrade", "Upgrade: websocket",
		"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
	}, lines...)
	if _, err := io.WriteString(conn, strings.Join(request, "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(r.reader, nil)
	if err != nil {
		t.Fatalf("the upgrade got no answer: %v", err)
	}
	return r, response
}

// frame writes one frame: the first byte as given, masked.
func (r *raw) frame(first byte, payload []byte) {
	b := append(header(first, 0x80, uint64(len(payload))), 1, 2, 3, 4)
	for i, p := range payload {
		b = append(b, p^byte(i%4+1))
	}
	r.bytes(b)
}

// unmasked writes one frame as only a node may.
func (r *raw) unmasked(first byte, payload []byte) {
	r.bytes(append(header(first, 0, uint64(len(payload))), payload...))
}

// bytes writes bytes. That the node has closed already is not an error: its last words can still be read.
func (r *raw) bytes(b []byte) {
	_ = r.conn.SetDeadline(time.Now().Add(rawWithin))
	_, _ = r.conn.Write(b)
}

func header(first, mask byte, size uint64) []byte {
	switch {
	case size < 126:
		return []byte{first, mask | byte(size)}
	case size < 1<<16:
		return binary.BigEndian.AppendUint16([]byte{first, mask | 126}, uint16(size))
	}
	return binary.BigEndian.AppendUint64([]byte{first, mask | 127}, size)
}

// send writes one message as it should be.
func (r *raw) send(m wire.ClientMessage) { r.frame(final|opBinary, wire.AppendClient(nil, m)) }

// next reads one frame of the node.
func (r *raw) next() (opcode byte, payload []byte, err error) {
	var head [2]byte
	_ = r.conn.SetDeadline(time.Now().Add(rawWithin))
	if _, err := io.ReadFull(r.reader, head[:]); err != nil {
		return 0, nil, err
	}
	size := uint64(head[1] & 0x7f)
	if head[1]&0x80 != 0 || head[0]&final == 0 {
		return 0, nil, fmt.Errorf("a masked or fragmented frame: % x", head)
	}
	if extra := map[uint64]int{126: 2, 127: 8}[size]; extra > 0 {
		long := make([]byte, 8)
		if _, err := io.ReadFull(r.reader, long[8-extra:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(long)
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(r.reader, payload)
	return head[0] &^ final, payload, err
}

// message returns the next message of the node; it fails the test when there is none.
func (r *raw) message() wire.ServerMessage {
	r.t.Helper()
	for {
		opcode, payload, err := r.next()
		if err != nil {
			r.t.Fatalf("wait for a message: %v", err)
		}
		if opcode == opClose {
			r.t.Fatalf("closed with % x %q instead of an answer", payload[:min(2, len(payload))], payload[min(2, len(payload)):])
		}
		if opcode != opBinary {
			continue
		}
		m, err := wire.DecodeServer(payload)
		if err != nil {
			r.t.Fatalf("a message of the node does not decode: %v", err)
		}
		return m
	}
}

// awaitMessage returns the next message of a type.
func awaitMessage[M wire.ServerMessage](r *raw) M {
	r.t.Helper()
	for {
		if m, ok := r.message().(M); ok {
			return m
		}
	}
}

// closed reads on until the node closes and returns its code; 0 when the connection ended without a close frame.
func (r *raw) closed() int {
	for {
		opcode, payload, err := r.next()
		switch {
		case err != nil:
			return 0
		case opcode == opClose && len(payload) >= 2:
			code := int(binary.BigEndian.Uint16(payload))
			r.frame(final|opClose, payload[:2])
			_ = r.conn.Close()
			return code
		}
	}
}
