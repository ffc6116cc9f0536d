package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// API is a node's public HTTP API. Use it by pointer; its methods may be called from any goroutine. Errors of the node are
// *Problem, wrapped.
type API struct {
	URL        string       // of the node, as "http://localhost:8080"
	HTTPClient *http.Client // nil: one shared by the process
	token      atomic.Pointer[string]
}

// sharedHTTP keeps enough idle connections for a process of many sessions.
var sharedHTTP = func() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 64
	return &http.Client{Transport: t, Timeout: 2 * time.Minute}
}()

// Config is what is the same for everybody (GET /api/v1/config).
type Config struct {
	Epoch        string         `json:"epoch"`   // 16 hexadecimal digits
	Version      string         `json:"version"` // of the node
	Protocol     int            `json:"protocol"`
	Whole        bool           `json:"whole"` // the board is small enough to be sent whole
	Online       int            `json:"online"`
	ServerTimeMs int64          `json:"server_time_ms"` // Unix milliseconds
	Settings     board.Settings `json:"settings"`
	// Limits of a session.
	MessageBytesMax   int   `json:"message_bytes_max"`
	MessagesPerSecond int   `json:"messages_per_second"`
	PingAfterMs       int64 `json:"ping_after_ms"`
	DeadAfterMs       int64 `json:"dead_after_ms"`
}

// User is where a user stands (GET /api/v1/me).
type User struct {
	User          board.UserID `json:"user"`
	Anonymous     bool         `json:"anonymous"`
	Turn          uint64       `json:"turn"`
	WaitMs        int64        `json:"wait_ms"`
	BannedUntilMs int64        `json:"banned_until_ms"`
}

// PostRequest is a placement over HTTP.
type PostRequest struct {
	X      int    `json:"x"`
	Y      int    `json:"y"`
	Colour int    `json:"colour"`
	Turn   uint64 `json:"turn,omitempty"` // 0: whatever the user's turn is
}

// PostOutcome answers a placement over HTTP that was not refused.
type PostOutcome struct {
	Verdict  string       `json:"verdict"` // "accepted": on the board; "charged": durable, on the board in a moment
	X        int          `json:"x"`
	Y        int          `json:"y"`
	Colour   board.Colour `json:"colour"`
	Turn     uint64       `json:"turn"`
	Nonce    string       `json:"nonce"`    // 16 hexadecimal digits: the key, or its hash
	Sequence uint64       `json:"sequence"` // of an accepted placement in its chunk
	NextTurn uint64       `json:"next_turn"`
	WaitMs   int64        `json:"wait_ms"` // until the user's next placement may be accepted
}

// SignedIn answers a sign-in.
type SignedIn struct {
	User      board.UserID `json:"user"`
	Anonymous bool         `json:"anonymous"`
	Token     string       `json:"token"`
	ExpiresMs int64        `json:"expires_ms"` // Unix milliseconds
}

// Login signs in under a name; the token is kept and sent with later requests.
func (a *API) Login(ctx context.Context, name string) (SignedIn, error) {
	return a.signIn(ctx, "/api/login/"+url.PathEscape(name))
}

// Anonymous gets an identity with a name that nobody chose; the token is kept and sent with later requests. It is all there
// is of the user: whoever loses it is somebody else.
func (a *API) Anonymous(ctx context.Context) (SignedIn, error) {
	return a.signIn(ctx, "/api/v1/anonymous")
}

func (a *API) signIn(ctx context.Context, path string) (SignedIn, error) {
	a.SetToken("")
	var out SignedIn
	err := a.json(ctx, http.MethodPost, path, nil, nil, &out)
	if err == nil {
		a.SetToken(out.Token)
	}
	return out, err
}

// SetToken makes later requests those of a token's user; "": of nobody.
func (a *API) SetToken(token string) { a.token.Store(&token) }

// Token returns the token in use; "" when there is none.
func (a *API) Token() string {
	if t := a.token.Load(); t != nil {
		return *t
	}
	return ""
}

// authorise adds the token, if there is one.
func (a *API) authorise(header http.Header) {
	if t := a.Token(); t != "" {
		header.Set("Authorization", "Bearer "+t)
	}
}

// Me returns where the user stands; the zero User when nobody is signed in.
func (a *API) Me(ctx context.Context) (User, error) {
	var out User
	err := a.json(ctx, http.MethodGet, "/api/v1/me", nil, nil, &out)
	return out, err
}

// Config returns what is the same for everybody: epoch, settings, limits.
func (a *API) Config(ctx context.Context) (Config, error) {
	var out Config
	err := a.json(ctx, http.MethodGet, "/api/v1/config", nil, nil, &out)
	return out, err
}

// Tile returns who placed a tile and when.
func (a *API) Tile(ctx context.Context, x, y int) (board.TileDetails, error) {
	var out board.TileDetails
	err := a.json(ctx, http.MethodGet, fmt.Sprintf("/api/v1/tiles/%d/%d", x, y), nil, nil, &out)
	return out, err
}

// PostPlacement places a tile over HTTP. Requests with the same key (1 to 128 printable ASCII characters; 16 hexadecimal
// digits are the nonce itself) are one placement until the user's next; with a turn, for ever. A refusal is a *Problem; so
// is "unknown", after which the same request should be sent again.
func (a *API) PostPlacement(ctx context.Context, key string, r PostRequest) (PostOutcome, error) {
	var out PostOutcome
	err := a.json(ctx, http.MethodPost, "/api/v1/placements", http.Header{"Idempotency-Key": {key}}, r, &out)
	return out, err
}

// Board returns the whole board. It may be a second old, or older behind a cache.
func (a *API) Board(ctx context.Context) (*wire.BoardBody, error) {
	_, body, err := a.board(ctx, nil, false)
	return body, err
}

// board reads the board into room and returns the memory that body aliases.
func (a *API) board(ctx context.Context, room []byte, fresh bool) ([]byte, *wire.BoardBody, error) {
	header := http.Header{}
	if fresh {
		header.Set("Cache-Control", "no-cache")
	}
	resp, err := a.do(ctx, http.MethodGet, "/api/v1/board", header, nil) // without the token: the answer is everybody's
	if err != nil {
		return room, nil, err
	}
	defer resp.Body.Close()
	room, err = readAll(io.LimitReader(resp.Body, boardBytesMax), room)
	if err != nil {
		return room, nil, fmt.Errorf("client: read the board: %w", err)
	}
	body, err := wire.DecodeBoard(room)
	if err != nil {
		return room, nil, fmt.Errorf("client: %w", err)
	}
	return room, body, nil
}

// json makes a request with a JSON body (nil: none) and decodes the answer into out (nil: it is dropped).
func (a *API) json(ctx context.Context, method, path string, header http.Header, in, out any) error {
	if header == nil {
		header = http.Header{}
	}
	a.authorise(header)
	resp, err := a.do(ctx, method, path, header, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, problemBytesMax))
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("client: %s %s: %w", method, path, err)
	}
	return nil
}

// do makes a request; an answer with an error status is returned as a wrapped *Problem.
func (a *API) do(ctx context.Context, method, path string, header http.Header, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("client: %s %s: %w", method, path, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.URL, "/")+path, body)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	maps.Copy(req.Header, header)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	hc := a.HTTPClient
	if hc == nil {
		hc = sharedHTTP
	}
	resp, err := hc.Do(req)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		return nil, fmt.Errorf("client: %s %s: %w", method, path, readProblem(resp))
	}
	return resp, nil
}
