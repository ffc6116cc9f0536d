package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// Session is one user's (or spectator's) connection to the board, kept up across lost connections and restarts until Close.
// Its methods may be called from any goroutine.
type Session struct {
	o      Options
	api    API
	wsURL  string
	dialer websocket.Dialer
	log    *slog.Logger
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{}
	placer chan struct{} // holds one token: one Place at a time

	writing sync.Mutex // held while a message is written to conn

	mu      sync.Mutex      // guards what follows
	conn    *websocket.Conn // nil while not connected
	connID  uint64
	connEnd context.CancelFunc // ends what was begun for this connection
	state   State
	changed chan struct{} // closed when state, conn or turn change; nil while nobody waits for it
	err     error
	hello   wire.Hello
	helloed bool
	current board.Settings
	online  uint64
	turn    turnState
	pending *pendingPlace
	sync    *syncer // nil without a mirror
	moveAt  time.Time
	stats   Stats
}

// Dial signs in when asked to, connects, and returns once the node has said hello; it tries once. From then on the session
// keeps itself connected until Close. The context bounds Dial only. base is the node's address as http, https, ws or wss URL,
// with a path when the node is served below one.
func Dial(ctx context.Context, base string, o Options) (*Session, error) {
	s, err := newSession(base, o)
	if err != nil {
		return nil, err
	}
	if err := s.identify(ctx); err != nil {
		s.cancel()
		return nil, fmt.Errorf("client: sign in: %w", err)
	}
	conn, hello, err := s.connect(ctx)
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("client: connect: %w", err)
	}
	s.begin(conn, hello)
	go s.run(conn)
	return s, nil
}

func newSession(base string, o Options) (*Session, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	ws := *u
	switch u.Scheme {
	case "http", "ws":
		u.Scheme, ws.Scheme = "http", "ws"
	case "https", "wss":
		u.Scheme, ws.Scheme = "https", "wss"
	default:
		return nil, fmt.Errorf("client: %q is no http, https, ws or wss URL", base)
	}
	if o.Backoff == (Backoff{}) {
		o.Backoff = DefaultBackoff
	}
	if o.RetryAfter == 0 {
		o.RetryAfter = retryAfterDefault
	}
	if o.ReadBufferBytes == 0 {
		o.ReadBufferBytes = 1024
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Session{
		o: o, log: o.Logger, wsURL: ws.JoinPath("/api/v1/ws").String(),
		api:  API{URL: u.String(), HTTPClient: o.HTTPClient},
		done: make(chan struct{}), placer: make(chan struct{}, 1),
	}
	if o.TLS != nil && o.HTTPClient == nil {
		s.api.HTTPClient = httpOver(o.TLS)
	}
	s.api.SetToken(o.Token)
	s.dialer = websocket.Dialer{
		NetDialContext: o.Dial, TLSClientConfig: o.TLS, Proxy: http.ProxyFromEnvironment, HandshakeTimeout: handshakeTimeout,
		Subprotocols: []string{Subprotocol}, ReadBufferSize: o.ReadBufferBytes, WriteBufferSize: 1024, WriteBufferPool: &writeBuffers,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if o.Mirror {
		s.sync = &syncer{whole: o.Whole, rect: o.Chunks}
	}
	return s, nil
}

// httpOver returns a client for the session's few requests that trusts whom its websocket trusts.
func httpOver(config *tls.Config) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig, t.MaxIdleConnsPerHost, t.IdleConnTimeout = config.Clone(), 1, requestIdle
	return &http.Client{Transport: t, Timeout: 2 * time.Minute}
}

// requestIdle is how long such a client keeps a connection for the next request.
const requestIdle = 5 * time.Second

// writeBuffers lends write buffers: an idle session holds none.
var writeBuffers sync.Pool

// Subprotocol is the websocket subprotocol of this package.
const Subprotocol = "placed.v1"

// Close ends the session: the connection is closed, every call that waits returns ErrClosed. It waits until the last hook
// has returned; a hook must not call it.
func (s *Session) Close() error {
	s.cancel()
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
		_ = conn.Close()
	}
	<-s.done
	return nil
}

// Done is closed when the session has ended: by Close, or because the node refuses it for good (Err).
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended; nil while it lasts.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// HTTP returns the node's HTTP API with this session's identity.
func (s *Session) HTTP() *API { return &s.api }

// Token returns the session's identity, for Options.Token of a later one.
func (s *Session) Token() string { return s.api.Token() }

// State returns where the session stands.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Hello returns the newest hello: epoch, incarnation, settings and user as they were when the connection began.
func (s *Session) Hello() wire.Hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hello
}

// User returns who the session is; "" for a spectator.
func (s *Session) User() board.UserID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hello.User
}

// Settings returns the newest settings that the node has told. Its lists must not be changed.
func (s *Session) Settings() board.Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Online returns how many people are online, as of the last heartbeat.
func (s *Session) Online() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.online
}

// Stats returns what the session has been through.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	if y := s.sync; y != nil {
		out.Resumes, out.Fetches, out.Repairs, out.Divergences = y.resumes, y.fetches, y.repairs, y.divergences
		if y.mirror != nil {
			out.Repeats = y.mirror.repeats
		}
	}
	return out
}

// Live waits until everything subscribed is up to date. A session without a subscription is live after the hello, one
// without a mirror after the base.
func (s *Session) Live(ctx context.Context) error {
	return s.await(ctx, func() bool { return s.state == StateLive })
}

// await waits until ok, which is called with mu held, or the context or session ends.
func (s *Session) await(ctx context.Context, ok func() bool) error {
	for {
		s.mu.Lock()
		fine, changed := ok(), s.changing()
		s.mu.Unlock()
		if fine {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
			return s.ended()
		}
	}
}

// changing returns the channel that is closed at the next change; mu is held.
func (s *Session) changing() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// announce wakes who awaits a change; mu is held.
func (s *Session) announce() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *Session) ended() error {
	if err := s.Err(); err != nil {
		return err
	}
	return ErrClosed
}

// Subscribe changes what the session is sent: the whole board, or a rectangle of chunks.
func (s *Session) Subscribe(whole bool, chunks wire.ChunkRect) error {
	s.mu.Lock()
	s.o.Whole, s.o.Chunks = whole, chunks
	if s.sync == nil {
		conn := s.conn
		s.mu.Unlock()
		if conn == nil {
			return nil // the next connection subscribes
		}
		return s.send(&wire.Subscribe{Whole: whole, Chunks: chunks})
	}
	s.mu.Unlock()
	s.synchronise(func(y *syncer) { y.watch(whole, chunks) })
	return nil
}

// View calls f with the session's mirror, guarded: f must neither keep it nor call methods of the session. It returns
// ErrNotMirrored when there is none (yet).
func (s *Session) View(f func(*Mirror)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sync == nil || s.sync.mirror == nil {
		return ErrNotMirrored
	}
	f(s.sync.mirror)
	return nil
}

// Tile returns the colour of a tile as mirrored; false when it is not.
func (s *Session) Tile(p board.Point) (c board.Colour, ok bool) {
	_ = s.View(func(m *Mirror) { c, ok = m.Tile(p) })
	return c, ok
}

// Hashes returns the mirror's hashes and tick, and whether they are the board's.
func (s *Session) Hashes() (h board.Hashes, tick uint64, settled bool) {
	_ = s.View(func(m *Mirror) { h, tick, settled = m.Hashes(), m.Tick(), m.Settled() })
	return h, tick, settled
}

// Drop closes the connection as if it had been lost, so that the session connects anew; for tests and storms.
func (s *Session) Drop() {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}
