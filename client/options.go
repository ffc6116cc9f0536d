package client

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// Options configure a Session. The zero value is a spectator who hears of settings and announcements and sees no tiles.
type Options struct {
	// Name signs in under a chosen name before the first connection (POST /api/login/{name}).
	Name string
	// Invite signs in by an invite's link (POST /api/v1/invite); Name is what its first use calls the user.
	Invite string
	// Anonymous asks for an anonymous identity first, so that a session without a name may place tiles.
	Anonymous bool
	// Token is the identity of an earlier session (Session.Token), or one of the board's identity provider (a JWT), instead of
	// Name or Anonymous.
	Token string

	// Whole subscribes to the whole board. Boards above board.WholeBoardTilesMax are not sent whole.
	Whole bool
	// Chunks subscribes to a rectangle of chunks when Whole is not set. Empty: no tiles are sent.
	Chunks wire.ChunkRect
	// Mirror keeps a copy of the subscribed chunks and keeps it right.
	Mirror bool

	// Hooks are called as messages arrive.
	Hooks Hooks

	// Dial opens the TCP connections of the websocket; nil: a plain net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS configures https and wss; nil: the defaults.
	TLS *tls.Config
	// HTTPClient makes the requests of the session; nil: one shared by the process, or with TLS one of its own. It should have
	// no cookie jar.
	HTTPClient *http.Client
	// Logger hears of lost connections and healed divergences (debug and warn); nil: silence.
	Logger *slog.Logger
	// Backoff spaces reconnects; the zero value is DefaultBackoff.
	Backoff Backoff
	// RetryAfter is how long Place waits for a final answer before it sends the same turn and nonce again; 0: 5 s.
	RetryAfter time.Duration
	// ReadBufferBytes is the socket's own read buffer, held while the session is idle; 0: 1,024. Larger messages are fine.
	ReadBufferBytes int
}

// Hooks are called on the session's reading goroutine, one at a time, in the order of arrival: while one runs nothing else of
// the session is read, so they must not block and must not wait for the session. They may call its methods that return at
// once (PlaceAs, Turn, Tile ...). Nil hooks cost nothing.
type Hooks struct {
	// OnState hears of every change of state. It alone may be called on another goroutine than the reading one.
	OnState func(State)
	// OnHello hears of every new connection.
	OnHello func(*wire.Hello)
	// OnFrame hears of every frame.
	OnFrame func(FrameInfo)
	// OnSection sees every section of every frame at arrival, before the mirror; the section is valid during the call only.
	OnSection func(f FrameInfo, s *wire.Section)
	// OnPlaced hears of every answer to a Place of this session, and of placements by the same user's other sessions.
	OnPlaced func(board.PlaceOutcome)
	// OnMe hears where the user stands.
	OnMe func(wire.Me)
	// OnHeartbeat hears of every heartbeat.
	OnHeartbeat func(wire.Heartbeat)
	// OnSettings hears of new settings.
	OnSettings func(board.Settings)
	// OnNotice hears that a message was not acted on.
	OnNotice func(wire.Notice)
	// OnDivergence hears that a heartbeat's hashes were not those of the mirror; the session heals it by itself.
	OnDivergence func(want, have board.Hashes)
}

// FrameInfo describes one frame as it arrives.
type FrameInfo struct {
	Tick   uint64
	Repair bool
	Bytes  int // of the message, without websocket and TCP headers
	At     time.Time
}

// Backoff spaces reconnects: before attempt n (from 0) a session waits a random time up to min(Max, Base<<n).
type Backoff struct {
	Base, Max time.Duration
}

// DefaultBackoff is 0.5 s doubling up to 30 s.
var DefaultBackoff = Backoff{Base: 500 * time.Millisecond, Max: 30 * time.Second}

// State is where a session stands.
type State uint8

// The states, in the order in which a session usually passes through them.
const (
	StateConnecting  State = iota // dialling, or waiting for the hello
	StateSubscribing              // waiting for the base
	StateLoading                  // the board is being fetched; frames are kept aside
	StateRepairing                // some chunks are behind
	StateLive                     // everything subscribed is up to date
	StateWaiting                  // waiting before the next attempt to connect
	StateClosed                   // for good
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case StateConnecting:
		return "connecting"
	case StateSubscribing:
		return "subscribing"
	case StateLoading:
		return "loading"
	case StateRepairing:
		return "repairing"
	case StateLive:
		return "live"
	case StateWaiting:
		return "waiting"
	case StateClosed:
		return "closed"
	}
	return "unknown"
}

// Stats counts what a session has been through.
type Stats struct {
	Messages     uint64
	Bytes        uint64 // of messages, without websocket and TCP headers
	Frames       uint64
	Connects     uint64 // hellos
	Losses       uint64 // connections that ended other than by Close
	Resumes      uint64 // connections that went on from the last frame
	Fetches      uint64 // boards fetched over HTTP
	Repairs      uint64 // chunks asked for
	Repeats      uint64 // sections dropped because they had been applied
	Divergences  uint64 // heartbeats whose hashes were not the mirror's
	Undecodable  uint64 // messages that were not of this protocol
	PlacesResent uint64 // sent again by Place
}

// Errors of sessions.
var (
	// ErrClosed says that the session was closed.
	ErrClosed = errors.New("client: session is closed")
	// ErrNotConnected says that there is no connection at the moment; the session is getting one.
	ErrNotConnected = errors.New("client: not connected")
	// ErrNotSignedIn says that a spectator cannot place tiles.
	ErrNotSignedIn = errors.New("client: not signed in")
	// ErrEpochChanged says that the board was replaced (restored, imported) while a placement was under way.
	ErrEpochChanged = errors.New("client: the board was replaced")
	// ErrNotMirrored says that the session keeps no mirror.
	ErrNotMirrored = errors.New("client: session without a mirror")
)

// Bounds of a session.
const (
	// loadBufferBytesMax bounds the frames kept aside while the board is fetched; beyond, frames are counted only and the
	// chunks that they touch repaired.
	loadBufferBytesMax = 4 << 20
	// messageBytesMax is the largest message that a session reads.
	messageBytesMax = 64 << 20
	// boardBytesMax is the largest board body that is read.
	boardBytesMax = 256 << 20
	// fetchInsteadChunksMin is how many chunks must be behind before the board is fetched instead of repaired.
	fetchInsteadChunksMin = 16
	// handshakeTimeout bounds dialling, upgrade and the wait for the hello.
	handshakeTimeout = 20 * time.Second
	// writeTimeout bounds one write; a socket that takes no bytes for so long is given up.
	writeTimeout = 10 * time.Second
	// watchdogDefault is how long silence is borne when the node states no heartbeat.
	watchdogDefault = 75 * time.Second
	// watchdogMin keeps very short heartbeats from cutting connections.
	watchdogMin = time.Second
	// healthyAfter is how long a connection must last for the backoff to begin anew.
	healthyAfter = 30 * time.Second
	// retryAfterDefault is how long Place waits for a final answer before it sends again.
	retryAfterDefault = 5 * time.Second
	// retryAfterMin is the shortest wait before a placement is sent again.
	retryAfterMin = 20 * time.Millisecond
)
