package place2017

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// Board answers questions about the board. Only Tile may take longer than a memory access.
type Board interface {
	// BoardBody returns the encoded board (wire.BoardBody) and its tick; nil until the board is loaded. Nobody changes the bytes.
	BoardBody() (body []byte, tick uint64)
	// Tile tells who placed a tile and when.
	Tile(ctx context.Context, p board.Point) (board.TileDetails, error)
	// Settings returns the newest settings that the node knows.
	Settings() board.SettingsRecord
	// Online returns the number of people online, those of this face not among them.
	Online() int
}

// Placer decides placements and knows where users stand.
type Placer interface {
	// Place waits for the outcome: accepted or refused, charged when that takes over a second, unknown when ctx ends first.
	Place(ctx context.Context, r board.PlaceRequest) board.PlaceOutcome
	// UserStatus tells a user's turn and wait.
	UserStatus(ctx context.Context, user board.UserID) (board.UserStatus, error)
}

// Clearer clears rectangles for operators.
type Clearer interface {
	Clear(ctx context.Context, rect board.Rect, by, why string) (board.Job, error)
	Jobs(ctx context.Context) ([]board.Job, error)
}

// Watcher tells of placements.
type Watcher interface {
	// WatchPlacements calls told after every frame with the placements in it, from now on. told does not block, and does not
	// keep placed; lost says that more has happened.
	WatchPlacements(told func(placed []board.PlacedTile, lost bool))
}

// Host is the server that the face is part of.
type Host interface {
	// Visitor tells who a request comes from, and whether by a token of its own, which no page of another site can make a browser
	// send. Whoever comes with a token that is not good is nobody.
	Visitor(r *http.Request) (user board.UserID, bearer bool)
	// Operator reports whether a request carries the operators' token, and who says to be acting; wait is above 0 when there were
	// too many wrong ones.
	Operator(r *http.Request) (by string, ok bool, wait time.Duration)
	// Secure reports whether the client came by TLS, here or at a proxy that is believed.
	Secure(r *http.Request) bool
	// AllowedOrigin reports whether pages of the origin may read what is here.
	AllowedOrigin(r *http.Request, origin string) bool
	// BasePath returns what stands before every path in the addresses that clients use, as "/board", or "".
	BasePath() string
	// Draining reports whether the node is going down.
	Draining() bool
	// ServePage answers with the page and scripts in its head, an id (or "") and a text each. They are made for the visitor, who may
	// have become somebody just now.
	ServePage(w http.ResponseWriter, r *http.Request, scripts func(user board.UserID) [][2]string)
	// Upgrade makes a request a websocket from which nothing is wanted, or answers why not. It calls join at the moment at which
	// the answer to the upgrade may go out, and leave when the connection is gone.
	Upgrade(w http.ResponseWriter, r *http.Request, join func(conn wire.Conn, answer wire.Sealed), leave func(conn wire.Conn))
}

// Config is what the face is told at start.
type Config struct {
	Key           []byte        // signs modhashes and websocket addresses, at least KeyBytesMin bytes; all nodes of a board share it
	PlaceTimeout  time.Duration // of a placement and of a rectangle
	ReadTimeout   time.Duration // of a question to the board
	ActivityEvery time.Duration // between "activity" messages
	StalledMax    time.Duration // a session whose socket takes nothing for so long is closed
}

// KeyBytesMin is the shortest key.
const KeyBytesMin = 32

// DefaultConfig returns the defaults; Key has none.
func DefaultConfig() Config {
	return Config{PlaceTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, ActivityEvery: 15 * time.Second, StalledMax: 5 * time.Minute}
}

// Validate returns every impossible value, joined into one error.
func (c *Config) Validate() error {
	var errs []error
	if len(c.Key) < KeyBytesMin {
		errs = append(errs, fmt.Errorf("place2017: the key is shorter than %d bytes", KeyBytesMin))
	}
	if c.PlaceTimeout <= 0 || c.ReadTimeout <= 0 || c.ActivityEvery <= 0 || c.StalledMax <= 0 {
		errs = append(errs, errors.New("place2017: a time is not above 0"))
	}
	return errors.Join(errs...)
}

// Deps are the collaborators of a Face. All are needed.
type Deps struct {
	Host     Host
	Board    Board
	Placer   Placer
	Clearer  Clearer
	Watcher  Watcher
	Registry prometheus.Registerer
}

// Face answers the requests of the API of 2017.
type Face struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	hub     *hub
	bitmap  bitmap
}

// New builds the face and begins to watch the board.
func New(cfg Config, deps Deps) (*Face, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := &Face{cfg: cfg, deps: deps}
	var err error
	if f.metrics, err = newMetrics(deps.Registry, f); err != nil {
		return nil, fmt.Errorf("place2017: register metrics: %w", err)
	}
	f.hub = newHub(&f.cfg, deps.Board, f.metrics)
	deps.Watcher.WatchPlacements(f.hub.told)
	return f, nil
}

// Routes returns the face's routes, as patterns of http.ServeMux. Those without ".json" do not exist, as in 2017.
func (f *Face) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /api/place/board-bitmap":   f.getBitmap,
		"POST /api/place/draw.json":     f.postDraw,
		"GET /api/place/time.json":      f.getTime,
		"GET /api/place/pixel.json":     f.getPixel,
		"POST /api/place/drawrect.json": f.postDrawRect,
		"GET /api/me.json":              f.getMe,
		"GET /place":                    f.getPlace,
		"GET /place/{$}":                f.toPlace,
		"GET /r/place":                  f.getSubreddit,
		"GET /r/place/{$}":              f.getSubreddit,
	}
}

// Refresh tells every page of this face to load itself anew.
func (f *Face) Refresh() { f.hub.refresh() }

// readContext bounds a question to the board.
func (f *Face) readContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), f.cfg.ReadTimeout)
}
