package transport

import (
	"net"
	"sync"
	"time"
)

// queueMessages is how many messages a queueSender holds besides the one being written.
const queueMessages = 16

// queueSender hands messages to a goroutine that may block; what comes while queueMessages wait is not taken. Used where
// there is no bare socket: TLS, pipes, Windows.
type queueSender struct {
	nc     net.Conn
	linger time.Duration
	next   chan []byte

	mu        sync.Mutex // guards the fields below
	err       error      // of the write that failed
	done      bool       // next is closed
	finishing bool       // by finish: what is in next is still due
}

func newQueueSender(nc net.Conn, linger time.Duration) *queueSender {
	q := &queueSender{nc: nc, linger: linger, next: make(chan []byte, queueMessages)}
	go q.run()
	return q
}

func (q *queueSender) run() {
	for b := range q.next {
		if _, err := q.nc.Write(b); err != nil {
			q.mu.Lock()
			q.err = err
			q.mu.Unlock()
			q.nc.SetReadDeadline(longAgo)
			return
		}
	}
	q.mu.Lock()
	finishing := q.finishing
	q.mu.Unlock()
	if !finishing {
		return
	}
	if half, ok := q.nc.(interface{ CloseWrite() error }); ok { // *tls.Conn, *peerConn
		half.CloseWrite()
	}
}

func (q *queueSender) trySend(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return 0, q.err
	case q.done:
		return 0, net.ErrClosed
	}
	select {
	case q.next <- b:
		return len(b), nil
	default:
		return 0, nil
	}
}

func (q *queueSender) finish() {
	q.nc.SetWriteDeadline(time.Now().Add(q.linger))
	q.mu.Lock()
	q.finishing = true
	q.mu.Unlock()
	q.stop()
}

func (q *queueSender) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.done {
		q.done = true
		close(q.next)
	}
}
