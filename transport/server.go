package transport

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/board"
	outside "github.com/placed-board/placed/internal/identity"
	"github.com/placed-board/placed/internal/reload"
	"github.com/placed-board/placed/wire"
)

// Sessions is told of websocket sessions and of what their clients say. No method blocks.
type Sessions interface {
	// Connect takes over the write half of a new session; user "" is a spectator. The session's Hello is sent at once.
	Connect(conn wire.Conn, user board.UserID) wire.SessionID
	// Receive hands over one decoded message that is within the session's rate.
	Receive(id wire.SessionID, m wire.ClientMessage)
	// Disconnect says that the session is over. It is called exactly once for every Connect.
	Disconnect(id wire.SessionID)
}

// Placer decides placements that come over HTTP, and knows where users stand.
type Placer interface {
	// Place waits for the outcome: accepted or refused, charged when that takes over a second, unknown when ctx ends first.
	Place(ctx context.Context, r board.PlaceRequest) board.PlaceOutcome
	// UserStatus tells a user's turn and wait.
	UserStatus(ctx context.Context, user board.UserID) (board.UserStatus, error)
}

// BoardReader answers questions about the board. Only Tile may take longer than a memory access.
type BoardReader interface {
	// BoardBody returns the encoded board (wire.BoardBody) and its tick; nil until the board is loaded. Nobody changes the
	// bytes after they were returned; a changed board comes in another slice.
	BoardBody() (body []byte, tick uint64)
	// Loaded tells whether the board is loaded, for those who do not want its body: that would have to be encoded.
	Loaded() bool
	// ChunkImage returns a packed image of one chunk; ok is false while the board is not loaded and for chunks outside it.
	ChunkImage(c board.ChunkID) (sequence uint64, width board.Width, image []byte, ok bool)
	// Tile tells who placed a tile and when.
	Tile(ctx context.Context, p board.Point) (board.TileDetails, error)
	// Settings returns the newest settings that the node knows.
	Settings() board.SettingsRecord
	// Epoch returns the board's epoch.
	Epoch() uint64
	// Online returns the number of people online.
	Online() int
	// Readiness tells whether the node serves placements, and if not why.
	Readiness() board.Readiness
}

// Admin carries out what operators ask for.
type Admin interface {
	SettingsHistory(ctx context.Context) ([]board.SettingsRecord, error)
	// ChangeSettings makes next the successor of the version base; board.ErrConflict when base is not the newest.
	ChangeSettings(ctx context.Context, base uint64, next board.Settings, by, why string) (board.SettingsRecord, error)
	// Ban bans a user until untilMs (Unix milliseconds); 0 lifts the ban. By and why are kept.
	Ban(ctx context.Context, user board.UserID, untilMs int64, by, why string) error
	// Bans returns the newest ban of each user, lifted and ended ones included, the newest first.
	Bans(ctx context.Context) ([]board.Ban, error)
	// KnownUser reports whether the board has ever seen a user; FindUsers returns at most limit known ones that match.
	KnownUser(ctx context.Context, user board.UserID) (bool, error)
	FindUsers(ctx context.Context, match func(board.UserID) bool, limit int) ([]board.UserID, error)
	Clear(ctx context.Context, rect board.Rect, by, why string) (board.Job, error)
	// Rollback starts a job that takes placements back (see board.Job); PlanRollback tells what it would do.
	Rollback(ctx context.Context, j board.Job) (board.Job, error)
	PlanRollback(ctx context.Context, j board.Job) (board.RollbackPlan, error)
	Jobs(ctx context.Context) ([]board.Job, error)
	Status(ctx context.Context) board.Status
	// Verify replays all journals; progress is called now and then from one goroutine.
	Verify(ctx context.Context, progress func(done, total int)) (board.VerifyReport, error)
}

// Fleet is the nodes of the board.
type Fleet interface {
	Cluster(ctx context.Context) board.ClusterReport
	// Regions returns all regions, row by row; nil when they are not known now.
	Regions(ctx context.Context) []board.RegionReport
	// OthersServe reports whether other nodes place what this one gives up while it drains.
	OthersServe() bool
}

// Deps are the collaborators of a Server. All are needed but Invites, the Exporter, without which nothing is exported, and Face.
type Deps struct {
	Sessions Sessions
	Placer   Placer
	Board    BoardReader
	Admin    Admin
	Fleet    Fleet
	Drain    func() // asks for a drain and the end of the process; must not block; nil: not served
	History  Historian
	Past     Past
	Invites  Invites // with AuthInvite
	Keeper   Keeper
	Exporter Exporter
	Log      *slog.Logger
	Registry *prometheus.Registry
	// Face builds the face of 2017; nil for none.
	Face func(host *FaceHost) (Face, error)
}

// Server serves one node's public and admin listeners. New, then Listen (optional), Run, and from another goroutine Drain or
// Close.
type Server struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	metrics *metrics
	limits  *limits
	signer  *signer
	givenUp *givenUp
	tokens  outside.Verifier // with AuthJWT

	exporting sync.Mutex // held by the one export that runs

	certificate *reload.Kept[*tls.Certificate] // of the public listener; nil for plain HTTP

	routes  *routes
	ops     *routes // of the operators' listener
	cross   *http.CrossOriginProtection
	origins map[string]bool // allowed besides the own host, as "https://example.org:444"
	salt    string          // of ETags: another run of a process never repeats one
	board   boardCache
	past    pastCache
	page    *page
	policy  string  // Content-Security-Policy of the page
	face    Face    // of 2017; nil for none
	textCfg *Config // of the sessions of that face

	public      *http.Server
	admin       *http.Server
	stopAdmin   context.CancelFunc // ends streams on the admin listener
	draining    atomic.Bool
	forwardOnce sync.Once // the warning about X-Forwarded-For

	mu            sync.Mutex // guards the fields below
	publicLn      net.Listener
	adminLn       net.Listener
	sessions      map[*session]struct{}
	sessionsReady chan struct{} // closed when the last session ends; nil unless someone waits
	closed        bool
}

// New checks the configuration and builds a server that does not listen yet.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Sessions == nil || deps.Placer == nil || deps.Board == nil || deps.Admin == nil || deps.History == nil || deps.Past == nil || deps.Keeper == nil || deps.Log == nil || deps.Registry == nil {
		return nil, errors.New("transport: a dependency is missing")
	}
	if (cfg.Auth == AuthInvite) != (deps.Invites != nil) {
		return nil, errors.New("transport: invites are for AuthInvite, which needs them")
	}
	s := &Server{cfg: cfg, deps: deps, log: deps.Log, sessions: map[*session]struct{}{}, origins: map[string]bool{}}
	var err error
	if s.metrics, err = newMetrics(deps.Registry, s); err != nil {
		return nil, fmt.Errorf("transport: register metrics: %w", err)
	}
	var salt [6]byte
	rand.Read(salt[:])
	if cfg.Auth == AuthJWT {
		if s.tokens, err = outside.NewJWT(cfg.JWT, s.reloaded(reloadKeys)); err != nil {
			return nil, fmt.Errorf("transport: %w", err)
		}
	}
	if err := s.openCertificate(); err != nil {
		return nil, err
	}
	s.salt = hex.EncodeToString(salt[:])
	s.limits = newLimits(&s.cfg, s.metrics)
	s.signer = newSigner(cfg.SessionKey, cfg.Auth)
	s.givenUp = newGivenUp()
	s.cross = http.NewCrossOriginProtection()
	for _, o := range cfg.AllowedOrigins {
		if err := s.cross.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("transport: allowed origin: %w", err)
		}
		s.origins[o] = true
	}
	if s.page, err = newPage(cfg.Web); err != nil {
		return nil, fmt.Errorf("transport: page: %w", err)
	}
	s.policy = pagePolicy(cfg.EmbedOrigins)
	if err := s.openFace(); err != nil {
		return nil, err
	}
	s.routes, s.ops = s.publicRoutes(), s.adminRoutes()
	errorLog := slog.NewLogLogger(deps.Log.Handler(), slog.LevelDebug)
	if deps.Invites != nil {
		deps.Invites.WatchRevoked(func(users []board.UserID) { s.SignOut(users) })
	}
	s.public = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: cfg.HeaderTimeout,
		ReadTimeout:       cfg.RequestTimeout,
		WriteTimeout:      cfg.ResponseTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    cfg.HeaderBytesMax,
		ErrorLog:          errorLog,
		ConnContext:       withPeerConn,
	}
	adminCtx, stop := context.WithCancel(context.Background())
	s.stopAdmin = stop
	s.admin = &http.Server{
		Handler:           s.adminHandler(),
		ReadHeaderTimeout: cfg.HeaderTimeout,
		ReadTimeout:       cfg.RequestTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    cfg.HeaderBytesMax,
		ErrorLog:          errorLog,
		BaseContext:       func(net.Listener) context.Context { return adminCtx },
	}
	return s, nil
}

// ErrAdminListen says that the operators' address cannot be listened on.
var ErrAdminListen = errors.New("transport: listen for operators")

// Listen binds both addresses, so that Addr and AdminAddr are known. Run calls it when nobody has. An empty AdminListen binds
// no admin listener.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return http.ErrServerClosed
	}
	if s.publicLn != nil {
		return nil
	}
	// The kernel's keep-alive probes are off: sessions have pings, requests have timeouts.
	lc := net.ListenConfig{KeepAlive: -1}
	ln, err := lc.Listen(context.Background(), "tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("transport: listen: %w", err)
	}
	if s.cfg.AdminListen != "" {
		admin, err := lc.Listen(context.Background(), "tcp", s.cfg.AdminListen)
		if err != nil {
			ln.Close()
			return fmt.Errorf("%w: %w", ErrAdminListen, err)
		}
		s.adminLn = admin
	}
	s.publicLn = ln
	return nil
}

// Addr returns the public listener's address, nil before Listen.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return addrOf(s.publicLn)
}

// AdminAddr returns the admin listener's address, nil before Listen and without one.
func (s *Server) AdminAddr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return addrOf(s.adminLn)
}

func addrOf(ln net.Listener) net.Addr {
	if ln == nil {
		return nil
	}
	return ln.Addr()
}

// Run serves until ctx ends, a listener fails, or Drain and Close have ended both listeners. A cancelled ctx cuts everything
// off at once: call Drain first to part in peace. It returns nil unless a listener failed.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	s.mu.Lock()
	ln, adminLn := s.publicLn, s.adminLn
	s.mu.Unlock()
	ended := make(chan error, 2)
	serving := 1
	go func() { ended <- s.Serve(ln) }()
	if adminLn != nil {
		serving++
		go func() { ended <- ignoreClosed(s.admin.Serve(adminLn)) }()
	}
	var failed error
	for serving > 0 {
		select {
		case <-ctx.Done():
			s.Close()
			ctx = context.Background()
		case err := <-ended:
			serving--
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("transport: serve: %w", err))
				s.Close()
			}
		}
	}
	return failed
}

// Serve serves the public routes on a listener of the caller's, over TLS with a certificate, until Drain or Close.
func (s *Server) Serve(ln net.Listener) error {
	return ignoreClosed(s.public.Serve(s.secured(&peerListener{Listener: ln, limits: s.limits})))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Drain parts from everybody within ctx, in this order: readyz fails and nothing new is begun; after DrainNotice the public
// listener accepts no more; every session is asked to move and gets DrainMove for the answers that are still due to it; those
// that stay are closed with wire.CloseRestart; requests under way finish; the admin listener ends. The error is ctx's when
// something had to be cut off.
func (s *Server) Drain(ctx context.Context) error {
	if s.draining.Swap(true) {
		return errors.New("transport: already draining")
	}
	s.log.Info("draining", "sessions", s.sessionCount())
	waitFor(ctx, s.cfg.DrainNotice, nil)
	shut := make(chan error, 1)
	go func() { shut <- s.public.Shutdown(ctx) }()

	gone := s.sessionsGone()
	move := wire.SealServer(&wire.Move{WithinMs: s.cfg.DrainMove.Milliseconds()})
	for _, session := range s.sessionList() {
		if !session.isText {
			session.Send(move)
		}
	}
	waitFor(ctx, s.cfg.DrainMove, gone)
	for _, session := range s.sessionList() {
		session.Close(wire.CloseRestart, "this server is going down")
	}
	waitFor(ctx, 2*s.cfg.Linger, gone)
	err := <-shut
	s.stopAdmin()
	err = errors.Join(err, s.admin.Shutdown(ctx))
	s.log.Info("drained", "sessions_left", s.sessionCount(), "err", err)
	return errors.Join(err, s.Close())
}

// waitFor returns after d, when done closes, or when ctx ends.
func waitFor(ctx context.Context, d time.Duration, done <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	case <-ctx.Done():
	}
}

// Close cuts everything off: listeners, requests and sessions. It may be called more than once.
func (s *Server) Close() error {
	s.draining.Store(true)
	s.stopAdmin()
	err := errors.Join(s.public.Close(), s.admin.Close())
	s.mu.Lock()
	s.closed = true
	for _, ln := range []net.Listener{s.publicLn, s.adminLn} {
		if ln != nil {
			ln.Close() // one that was never served; else closed already
		}
	}
	s.mu.Unlock()
	for _, session := range s.sessionList() {
		session.shut()
	}
	return err
}
