package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/wire"
)

// connPair returns a conn over TCP with a small send buffer, and the other end.
func connPair(t testing.TB) (*conn, *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	peer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close(); nc.Close() })
	return newConn(t, nc), peer.(*net.TCPConn)
}

func newConn(t testing.TB, nc net.Conn) *conn {
	t.Helper()
	cfg := testConfig()
	cfg.SendBufferBytes = 4096
	m, err := newMetrics(prometheus.NewRegistry(), &Server{})
	if err != nil {
		t.Fatal(err)
	}
	return &conn{nc: nc, in: nc, out: newSender(nc, &cfg), metrics: m, cfg: &cfg}
}

// message returns a sealed message of n bytes of payload that tells its number in every 4 bytes.
func message(number uint32, n int) wire.Sealed {
	b := make([]byte, wire.SealRoom+n)
	for i := wire.SealRoom; i+4 <= len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], number)
	}
	return wire.Seal(b)
}

// TestSlowReader has a peer that reads nothing: the connection keeps the tail of one message and takes no other, never blocks,
// and after the peer reads on, exactly the messages that were taken have arrived, whole and in order.
func TestSlowReader(t *testing.T) {
	for _, size := range []int{1000, 300_000} { // the larger ones are cut in the middle
		t.Run(fmt.Sprint(size), func(t *testing.T) { testSlowReader(t, size) })
	}
}

func testSlowReader(t *testing.T, size int) {
	c, peer := connPair(t)
	var want bytes.Buffer
	var status wire.WriteStatus
	var sent uint32
	for status == wire.WriteDone {
		m := message(sent, size)
		if status = c.Send(m); status == wire.WriteDone || status == wire.WriteKept {
			want.Write(m)
		}
		if sent++; sent > 100_000 {
			t.Fatal("100,000 messages fitted into the socket of a peer that reads nothing")
		}
	}
	if status != wire.WriteKept {
		t.Fatalf("the first message that did not fit: status %d, want WriteKept", status)
	}
	for range 3 {
		if status := c.Send(message(1<<30, size)); status != wire.WriteBusy {
			t.Fatalf("a message behind a kept tail: status %d, want WriteBusy", status)
		}
		if status := c.control(pingFrame); status != wire.WriteBusy {
			t.Fatalf("a ping behind a kept tail: status %d, want WriteBusy", status)
		}
		if status := c.Flush(); status != wire.WriteKept {
			t.Fatalf("flush to a full socket: status %d, want WriteKept", status)
		}
	}
	last := message(sent, size)
	got, total := make(chan []byte), want.Len()+len(last)
	go func() {
		b := make([]byte, total)
		io.ReadFull(peer, b)
		got <- b
	}()
	eventually(t, "the tail is out", func() bool { return c.Flush() == wire.WriteDone })
	if status := c.Send(last); status != wire.WriteDone && status != wire.WriteKept {
		t.Fatalf("a message after the tail: status %d", status)
	}
	want.Write(last)
	eventually(t, "the last is out", func() bool { return c.Flush() == wire.WriteDone })
	if !bytes.Equal(<-got, want.Bytes()) {
		t.Fatal("the bytes that arrived are not those of the messages taken")
	}
}

// TestSlowReaderQueued is the same contract over a connection that has no bare socket.
func TestSlowReaderQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, peer := net.Pipe()
		defer peer.Close()
		c := newConn(t, server)
		defer c.shut()
		var want bytes.Buffer
		for i := range 1 + queueMessages + 1 { // one being written, the queue, one kept
			m, status := message(uint32(i), 100), wire.WriteDone
			if i == 1+queueMessages {
				status = wire.WriteKept
			}
			if got := c.Send(m); got != status {
				t.Fatalf("message %d: status %d, want %d", i, got, status)
			}
			want.Write(m)
			synctest.Wait()
		}
		if status := c.Send(message(9, 100)); status != wire.WriteBusy {
			t.Fatalf("a message behind a kept tail: status %d, want WriteBusy", status)
		}
		if status := c.Flush(); status != wire.WriteKept {
			t.Fatalf("flush: status %d, want WriteKept", status)
		}
		got := make([]byte, want.Len())
		half := len(got) / 2
		if _, err := io.ReadFull(peer, got[:half]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if status := c.Flush(); status != wire.WriteDone {
			t.Fatalf("flush after the peer read on: status %d, want WriteDone", status)
		}
		if _, err := io.ReadFull(peer, got[half:]); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Fatal("the bytes that arrived are not those of the messages taken")
		}
		peer.Close()
		synctest.Wait()
		c.Send(message(10, 100)) // the writer learns of it
		synctest.Wait()
		if status := c.Send(message(11, 100)); status != wire.WriteClosed {
			t.Fatalf("a message to a peer that is gone: status %d, want WriteClosed", status)
		}
	})
}

// TestCloseRace closes connections while others send on them, and opens new ones all the time, so that the kernel gives the
// same descriptors out again. No connection may ever get a byte that was meant for another.
func TestCloseRace(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	const rounds, atOnce = 400, 8
	var wg sync.WaitGroup
	errs := make(chan error, 3*rounds)
	slots := make(chan struct{}, atOnce)
	for round := range rounds {
		slots <- struct{}{}
		peer, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		nc, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c, m := newConn(t, nc), message(uint32(round), 400)
		wg.Add(4)
		go func() { // reads what comes and checks that it is its own
			defer wg.Done()
			defer func() { <-slots }()
			defer peer.Close()
			got, _ := io.ReadAll(peer)
			for i := 0; i+len(m) <= len(got); i += len(m) {
				if !bytes.Equal(got[i:i+len(m)], m) {
					errs <- fmt.Errorf("connection %d got %x", round, got[i+4:i+8])
					return
				}
			}
		}()
		started := make(chan struct{})
		var once sync.Once
		for range 2 {
			go func() { // sends until the connection is gone
				defer wg.Done()
				for c.Send(m) != wire.WriteClosed {
					once.Do(func() { close(started) })
					runtime.Gosched()
				}
				for range 20 {
					if c.Send(m) != wire.WriteClosed {
						errs <- fmt.Errorf("connection %d took a message after its end", round)
						return
					}
				}
			}()
		}
		go func() {
			defer wg.Done()
			<-started
			switch round % 3 {
			case 0:
				c.shut()
			case 1:
				c.Close(wire.CloseRestart, "race")
				c.shut()
			default:
				(*readHalf)(c).Close()
				c.Flush()
			}
		}()
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

// watchedSocket is a socket and its sender that know whether a send ever runs on a closed descriptor.
type watchedSocket struct {
	net.Conn
	closed atomic.Bool
	late   atomic.Int64
}

func (w *watchedSocket) look() {
	if w.closed.Load() {
		w.late.Add(1)
	}
}

func (w *watchedSocket) trySend(b []byte) (int, error) {
	w.look()
	runtime.Gosched() // a system call takes its time
	w.look()
	return len(b), nil
}

func (w *watchedSocket) finish() {}
func (w *watchedSocket) stop()   {}

func (w *watchedSocket) SetReadDeadline(time.Time) error { return nil }

func (w *watchedSocket) Close() error {
	w.closed.Store(true)
	runtime.Gosched()
	return nil
}

// TestNoSendOnClosedDescriptor races every way to send against every way to close, and looks at the one thing that matters:
// no send may start, or still run, once the descriptor is given back.
func TestNoSendOnClosedDescriptor(t *testing.T) {
	base := newConn(t, &net.TCPConn{})
	for round := range 300 {
		w := &watchedSocket{}
		c := &conn{nc: w, in: w, out: w, metrics: base.metrics, cfg: base.cfg}
		m := message(1, 8)
		var wg sync.WaitGroup
		for _, use := range []func() wire.WriteStatus{func() wire.WriteStatus { return c.Send(m) }, func() wire.WriteStatus { return c.control(pingFrame) }, c.Flush} {
			wg.Go(func() {
				for use() != wire.WriteClosed {
					runtime.Gosched()
				}
			})
		}
		wg.Go(func() {
			if round%2 == 0 {
				c.Close(wire.CloseRestart, "race")
			}
			c.shut()
		})
		wg.Wait()
		if n := w.late.Load(); n > 0 {
			t.Fatalf("round %d: %d sends on a closed descriptor", round, n)
		}
	}
}

// TestCloseArrives checks that a close frame reaches a peer that still sends.
func TestCloseArrives(t *testing.T) {
	c, peer := connPair(t)
	c.Send(message(1, 8))
	peer.Write([]byte("unread bytes that would make a hard close a reset"))
	c.Close(wire.CloseFlood, "reason")
	c.Close(wire.CloseNormal, "the first code counts")
	if status := c.Send(message(2, 8)); status != wire.WriteClosed {
		t.Fatalf("a message after the close: status %d", status)
	}
	peer.SetReadDeadline(time.Now().Add(10 * time.Second))
	got, err := io.ReadAll(peer)
	if err != nil {
		t.Fatal(err)
	}
	want := append(bytes.Clone(message(1, 8)), 0x88, 8, 0x0f, 0xa0)
	want = append(want, "reason"...)
	if !bytes.Equal(got, want) {
		t.Fatalf("got %x, want %x", got, want)
	}
}

func TestCloseFrame(t *testing.T) {
	long := closeFrame(1000, string(bytes.Repeat([]byte("é"), 100)))
	if len(long) > 2+controlBytesMax || int(long[1]) != len(long)-2 {
		t.Errorf("a long reason makes a frame of %d bytes that says %d", len(long), long[1])
	}
	if last := long[len(long)-2:]; string(last) != "é" {
		t.Errorf("the reason is cut within a character: %x", last)
	}
	if got := closeFrame(codeNone, ""); !bytes.Equal(got, []byte{0x88, 0}) {
		t.Errorf("no code: %x", got)
	}
}

func TestBucket(t *testing.T) {
	var b bucket
	now := time.Unix(1000, 0)
	const interval, burst = 50 * time.Millisecond, 20
	for i := range burst {
		if _, ok := b.take(now, 1, interval, burst); !ok {
			t.Fatalf("token %d of a full bucket of %d refused", i+1, burst)
		}
	}
	wait, ok := b.take(now, 1, interval, burst)
	if ok || wait != interval {
		t.Fatalf("an empty bucket: ok %v, wait %v, want %v", ok, wait, interval)
	}
	if _, ok := b.take(now.Add(wait-1), 1, interval, burst); ok {
		t.Fatal("a token a nanosecond early")
	}
	if _, ok := b.take(now.Add(wait), 1, interval, burst); !ok {
		t.Fatal("no token after the wait that was told")
	}
	later := now.Add(time.Hour)
	for i := range burst {
		if _, ok := b.take(later, 1, interval, burst); !ok {
			t.Fatalf("token %d after an hour refused", i+1)
		}
	}
	if _, ok := b.take(later, 1, interval, burst); ok {
		t.Fatal("an hour of rest gave more than the burst")
	}
}
