//go:build unix

package system_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

// Times of a drain.
const (
	drainWithin = 10 * time.Second
	drainSlack  = 2 * time.Second // of a busy machine, for the end of the process
	// inFlightGrace is how shortly before the end of a connection a message may have been sent to cross with it.
	inFlightGrace = 500 * time.Millisecond
	watchPause    = 10 * time.Millisecond // between an answer and the next placement
)

// TestTermInAStorm is SIGTERM while many place: the node ends by itself with code 0, everything that was under way has been
// answered or honestly called unknown, and all sessions go on with the next process without fetching the board anew
// (I2, I8, I9).
func TestTermInAStorm(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--width", "300", "--height", "250", "--cooldown", "100ms")
	s := startStorm(t, n, stormy())
	w := startWatch(t, s)
	s.everyone()
	for range 2 {
		s.more(100)
		held := holdRequest(t, n)
		began := time.Now()
		n.signal(syscall.SIGTERM)
		held.finish()
		code := n.awaitEnd(drainWithin + drainSlack)
		t.Logf("ended %v after SIGTERM", time.Since(began).Round(time.Millisecond))
		if code != 0 {
			t.Errorf("code %d after SIGTERM", code)
		}
		n.start()
		w.away(began)
		s.everyone()
		s.back()
	}
	w.stop()
	if w.sockets == 0 || w.requests == 0 {
		t.Errorf("%d answers on sockets and %d over HTTP were watched", w.sockets, w.requests)
	}
	s.keptBoards()
	s.judge()
}

// heldRequest is a placement by POST whose body is on its way while the node is told to end.
type heldRequest struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

const heldBody = `{"x":1,"y":1,"colour":3}`

// holdRequest sends the head of a placement and waits until the node asks for its body.
func holdRequest(t *testing.T, n *node) *heldRequest {
	t.Helper()
	api := n.api()
	signedIn, err := api.Login(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", hostOf(n.url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(drainWithin + drainSlack))
	_, err = fmt.Fprintf(conn, "POST /api/v1/placements HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nIdempotency-Key: held\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", hostOf(n.url), signedIn.Token, len(heldBody))
	if err != nil {
		t.Fatal(err)
	}
	h := &heldRequest{t: t, conn: conn, reader: bufio.NewReader(conn)}
	if line, err := h.reader.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("the node does not ask for the body: %q, %v", line, err)
	}
	if _, err := h.reader.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return h
}

// finish waits until the node drains, sends the body and sees that the answer says so.
func (h *heldRequest) finish() {
	h.t.Helper()
	eventually(h.t, drainWithin, "new connections to be refused", func() bool {
		conn, err := net.Dial("tcp", h.conn.RemoteAddr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	if _, err := io.WriteString(h.conn, heldBody); err != nil {
		h.t.Error(err)
	}
	response, err := http.ReadResponse(h.reader, nil)
	if err != nil {
		h.t.Errorf("no answer to a placement that was on its way: %v", err)
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	a := answer{response.StatusCode, response.Header, body}
	if err != nil || a.status != http.StatusServiceUnavailable || a.problem() != board.CodeDraining.String() {
		h.t.Errorf("a placement that was on its way: %d %s, %v", a.status, a.body, err)
	}
}

// watch places one tile after the other by hand, over a socket and over HTTP, and notes what gets no answer.
type watch struct {
	t       *testing.T
	ledger  *ledger
	session *client.Session
	api     *client.API
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	open     map[uint64]time.Time
	lost     []time.Duration // how long before the end of the connection those were sent that got no answer
	failed   []failedRequest
	sockets  int // answers
	requests int
	answered chan struct{}
}

type failedRequest struct {
	began time.Time
	err   error
}

const (
	socketWatcher  = "watcher of sockets"
	requestWatcher = "watcher of requests"
)

func startWatch(t *testing.T, s *storm) *watch {
	t.Helper()
	w := &watch{t: t, ledger: s.ledger, open: map[uint64]time.Time{}, answered: make(chan struct{}, 1), api: s.node.api()}
	if _, err := w.api.Login(t.Context(), requestWatcher); err != nil {
		t.Fatal(err)
	}
	w.session = s.dial(client.Options{Name: socketWatcher, Hooks: client.Hooks{
		OnPlaced: func(o board.PlaceOutcome) {
			s.ledger.heard(socketWatcher, o, o.Colour, time.Time{})
			w.heard(o.Nonce, true)
		},
		OnState: func(state client.State) {
			if state != client.StateLive {
				w.connectionEnded()
			}
		},
	}})
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	t.Cleanup(w.stop)
	w.done.Go(func() { w.overSocket(ctx) })
	w.done.Go(func() { w.overHTTP(ctx) })
	return w
}

func (w *watch) stop() {
	w.cancel()
	w.done.Wait()
}

func (w *watch) overSocket(ctx context.Context) {
	for ctx.Err() == nil {
		nonce, at, colour := w.placement(socketWatcher)
		w.mu.Lock()
		w.open[nonce] = time.Now()
		w.mu.Unlock()
		if w.session.PlaceAs(0, nonce, at, colour) != nil {
			w.heard(nonce, false) // it has not left
		}
		select {
		case <-w.answered:
			pause(ctx, watchPause)
		case <-time.After(retryAfter):
		case <-ctx.Done():
		}
	}
}

func (w *watch) placement(user board.UserID) (nonce uint64, at board.Point, colour board.Colour) {
	nonce, at, colour = rand.Uint64(), board.Point{X: rand.IntN(300), Y: rand.IntN(250)}, board.Colour(rand.IntN(16))
	w.ledger.sent(user, 0, nonce, at, colour)
	return nonce, at, colour
}

func (w *watch) heard(nonce uint64, answered bool) {
	w.mu.Lock()
	delete(w.open, nonce)
	if answered {
		w.sockets++
	}
	w.mu.Unlock()
	select {
	case w.answered <- struct{}{}:
	default:
	}
}

// connectionEnded takes what is open for lost.
func (w *watch) connectionEnded() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.open {
		w.lost = append(w.lost, time.Since(at))
	}
	clear(w.open)
}

func (w *watch) overHTTP(ctx context.Context) {
	for ctx.Err() == nil {
		nonce, at, colour := w.placement(requestWatcher)
		began := time.Now()
		o, err := w.api.PostPlacement(context.Background(), fmt.Sprintf("%016x", nonce), client.PostRequest{X: at.X, Y: at.Y, Colour: int(colour)})
		w.requestDone(began, nonce, at, colour, o, err)
		pause(ctx, watchPause)
	}
}

func (w *watch) requestDone(began time.Time, nonce uint64, at board.Point, colour board.Colour, o client.PostOutcome, err error) {
	outcome := board.PlaceOutcome{
		Verdict: board.VerdictAccepted, Nonce: nonce, At: at, Colour: colour, Chunk: at.Chunk(), Turn: o.Turn, Sequence: o.Sequence,
	}
	problem, isProblem := errors.AsType[*client.Problem](err)
	switch {
	case isProblem && problem.Code == "unknown":
		outcome.Verdict = board.VerdictUnknown
	case isProblem:
		code, known := problem.Refusal()
		if !known {
			w.t.Errorf("a placement by POST was answered %v", problem)
		}
		outcome.Verdict, outcome.Code = board.VerdictRefused, code
	case err != nil:
		w.mu.Lock()
		w.failed = append(w.failed, failedRequest{began, err})
		w.mu.Unlock()
		return
	case o.Verdict == "charged":
		outcome.Verdict = board.VerdictCharged
	}
	w.ledger.heard(requestWatcher, outcome, colour, began)
	w.mu.Lock()
	w.requests++
	w.mu.Unlock()
}

// away judges what got no answer while the node was told to end at a time, was away and came back: on the socket only what
// crossed with the end of the connection, over HTTP only what was not under way before.
func (w *watch) away(told time.Time) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, before := range w.lost {
		if before > inFlightGrace {
			w.t.Errorf("a placement that was sent %v before the end of its connection got no answer", before)
		}
	}
	for _, f := range w.failed {
		if f.began.Before(told.Add(-watchPause)) {
			w.t.Errorf("a request that began %v before SIGTERM got no answer: %v", told.Sub(f.began), f.err)
		}
	}
	w.lost, w.failed = nil, nil
}
