package transport

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// routes is a mux that knows its patterns, for those who hold a list of them against it.
type routes struct {
	*http.ServeMux
	patterns []string
}

func newRoutes() *routes { return &routes{ServeMux: http.NewServeMux()} }

// Handle adds a route.
func (m *routes) Handle(pattern string, handler http.Handler) {
	m.patterns = append(m.patterns, pattern)
	m.ServeMux.Handle(pattern, handler)
}

// HandleFunc adds a route.
func (m *routes) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, http.HandlerFunc(handler))
}

// publicRoutes returns the routes of the public listener.
func (s *Server) publicRoutes() *routes {
	mux := newRoutes()
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET " + boardPath:                   s.getBoard,
		"GET /api/v1/board.png":              s.getBoardPNG,
		"GET /api/v1/overview.png":           s.getOverview,
		"GET /api/v1/chunks/{col}/{row}":     s.getChunk,
		"GET /api/v1/tiles/{x}/{y}":          s.getTile,
		"GET /api/v1/tiles/{x}/{y}/history":  s.getTileHistory,
		"GET /api/v1/users/{user}/history":   s.getUserHistory,
		"GET /api/v1/past/{epoch}/board":     s.getPastBoard,
		"GET /api/v1/past/{epoch}/board.png": s.getPastBoardPNG,
		"GET /api/v1/heat.png":               s.getHeat,
		"GET /api/v1/config":                 s.getConfig,
		"GET /api/v1/ws":                     s.serveWS,
		"GET /api/v1/me":                     s.getMe,
		"POST /api/v1/placements":            s.postPlacement,
		"POST /api/v1/anonymous":             s.only(AuthOpen, s.postAnonymous),
		"POST /api/login/{name}":             s.only(AuthOpen, s.postLogin),
		"POST /api/v1/session":               s.only(AuthJWT, s.postSession),
		"POST /api/v1/invite":                s.only(AuthInvite, s.postInvite),
		"POST /api/logout":                   s.postLogout,
		"GET " + livezPath:                   s.getLivez,
		"GET " + readyzPath:                  s.getReadyz,
		"GET /{$}":                           s.getIndex,
	} {
		mux.HandleFunc(pattern, handler)
		s.metrics.requests.WithLabelValues(pattern)
	}
	if s.face != nil {
		handlers := maps.Clone(s.face.Routes())
		handlers["POST /api/login"] = s.only(AuthOpen, s.postLoginForm)
		handlers["POST /post/login"] = handlers["POST /api/login"]
		for pattern, handler := range handlers {
			mux.ServeMux.HandleFunc(pattern, handler) // docs/api-2017.md describes them, not openapi.yaml
			s.metrics.requests.WithLabelValues(pattern)
		}
	}
	s.metrics.boardRequests = s.metrics.requests.WithLabelValues("GET " + boardPath)
	if s.cfg.PublicMetrics {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.deps.Registry, promhttp.HandlerOpts{}))
		s.metrics.requests.WithLabelValues("GET /metrics")
	}
	s.metrics.requests.WithLabelValues(routeFile)
	s.metrics.requests.WithLabelValues(routeNone)
	return mux
}

const (
	boardPath  = "/api/v1/board"
	livezPath  = "/livez"
	readyzPath = "/readyz"
	// routeFile is the label of requests for a file of the page, whose name may be any.
	routeFile = "GET /{name}"
	// routeNone is the label of requests that no route takes.
	routeNone = "none"
)

// ServeHTTP serves the public routes: first who asks and the limits of that address, then the route.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["X-Content-Type-Options"] = valueNosniff
	r, ok := s.withinBase(w, r)
	if !ok {
		return
	}
	r = s.seen(r)
	if p := s.checkLimits(w, r); p != nil {
		s.refuse(w, r, p)
		return
	}
	if err := s.cross.Check(r); err != nil {
		s.refuse(w, r, newProblem(problemOrigin, err.Error()))
		return
	}
	if r.URL.Path == boardPath && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		s.metrics.boardRequests.Inc() // the mux would say the same; a crowd that opens the page asks for nothing more often
		s.getBoard(w, r)
		return
	}
	handler, pattern := s.routes.Handler(r)
	if pattern == "" && s.getFile(w, r) {
		return
	}
	if pattern == "" {
		s.metrics.requests.WithLabelValues(routeNone).Inc()
		s.failUnrouted(w, r, handler)
		return
	}
	s.metrics.requests.WithLabelValues(pattern).Inc()
	s.routes.ServeHTTP(w, r)
}

// checkLimits takes the request from its address's share. Probes of the node's health are free.
func (s *Server) checkLimits(w http.ResponseWriter, r *http.Request) *problem {
	peer := s.peerOf(r)
	if peer.unlimited || r.URL.Path == livezPath || r.URL.Path == readyzPath {
		return nil
	}
	if peer.over {
		w.Header().Set("Connection", "close")
		p := newProblem(problemConnections, "")
		p.RetryAfterMs = retryMsDefault
		return p
	}
	if wait, ok := s.limits.request(peer.addr, time.Now()); !ok {
		return rateProblem(wait)
	}
	return nil
}

// failUnrouted answers a request that no route takes. The mux knows whether the path or only the method is wrong; its answer
// is plain text, so only its status and headers are taken.
func (s *Server) failUnrouted(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	answer := &headOnly{header: http.Header{}}
	handler.ServeHTTP(answer, r)
	switch {
	case answer.status == http.StatusMethodNotAllowed:
		allow := answer.header.Get("Allow")
		w.Header().Set("Allow", allow)
		s.fail(w, newProblem(problemMethod, "allowed: "+allow))
	case answer.status >= 300 && answer.status < 400:
		w.Header().Set("Location", answer.header.Get("Location"))
		w.WriteHeader(answer.status)
	default:
		s.fail(w, newProblem(problemNotFound, ""))
	}
}

// headOnly is a ResponseWriter that keeps status and header.
type headOnly struct {
	header http.Header
	status int
}

func (h *headOnly) Header() http.Header { return h.header }

func (h *headOnly) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

func (h *headOnly) Write(p []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return len(p), nil
}

// readContext bounds a question to the board.
func (s *Server) readContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), s.cfg.ReadTimeout)
}

func (s *Server) getLivez(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, "no-store", map[string]bool{"live": true})
}

// getReadyz answers 200 while the node serves placements and is not draining, else 503; both say why.
func (s *Server) getReadyz(w http.ResponseWriter, _ *http.Request) {
	ready := s.deps.Board.Readiness()
	ready.Reasons = append([]string{}, ready.Reasons...)
	if s.draining.Load() {
		ready.Ready = false
		ready.Reasons = append(ready.Reasons, "draining")
	}
	status := http.StatusOK
	if !ready.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, "no-store", ready)
}

// acceptsGzip reports whether the client takes gzip (RFC 9110, 12.5.3).
func acceptsGzip(r *http.Request) bool {
	star := false
	for _, value := range r.Header.Values("Accept-Encoding") {
		for item := range strings.SplitSeq(value, ",") {
			coding, params, _ := strings.Cut(item, ";")
			refused := zeroQuality(params)
			switch strings.ToLower(strings.TrimSpace(coding)) {
			case "gzip", "x-gzip":
				return !refused
			case "*":
				star = !refused
			}
		}
	}
	return star
}

func zeroQuality(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			return strings.Trim(strings.TrimSpace(value), "0.") == ""
		}
	}
	return false
}

// matchesETag reports whether If-None-Match names the strong tag (by the weak comparison, as RFC 9110, 13.1.2 asks) or is "*".
func matchesETag(r *http.Request, tag string) bool {
	for _, value := range r.Header.Values("If-None-Match") {
		for item := range strings.SplitSeq(value, ",") {
			item = strings.TrimPrefix(strings.TrimSpace(item), "W/")
			if item == tag || item == "*" {
				return true
			}
		}
	}
	return false
}
