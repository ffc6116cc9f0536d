package transport

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/placed-board/placed/board"
)

// Bounds of what operators send.
const (
	adminBodyBytesMax = 256 * 1024 // settings with 256 colours and 256 areas take about 40 KiB
	operatorHeader    = "Placed-Operator"
	operatorDefault   = "admin"
)

// adminRoutes returns the routes of the operators' listener.
func (s *Server) adminRoutes() *routes {
	mux := newRoutes()
	var verifying sync.Mutex
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET /admin/v1/settings":         s.adminSettings,
		"GET /admin/v1/settings/history": s.adminHistory,
		"PUT /admin/v1/settings":         s.adminChangeSettings,
		"GET /admin/v1/bans":             s.adminBans,
		"POST /admin/v1/bans":            s.adminBan,
		"DELETE /admin/v1/bans/{user}":   s.adminUnban,
		"POST /admin/v1/clear":           s.adminClear,
		"POST /admin/v1/rollback":        s.adminRollback,
		"GET /admin/v1/jobs":             s.adminJobs,
		"POST /admin/v1/refresh":         s.adminRefresh,
		"GET /admin/v1/status":           s.adminStatus,
		"GET /admin/v1/cluster":          s.adminCluster,
		"POST /admin/v1/cluster/drain":   s.adminDrain,
		"GET /admin/v1/regions":          s.adminRegions,
		"GET /admin/v1/export":           s.adminExport,
		"POST /admin/v1/invites":         s.withInvites(s.adminInvite),
		"GET /admin/v1/invites":          s.withInvites(s.adminInvites),
		"POST /admin/v1/invites/revoke":  s.withInvites(s.adminRevoke),
		"POST /admin/v1/backup":          s.adminBackup,
		"POST /admin/v1/reset":           s.adminReset,
		"POST /admin/v1/verify": func(w http.ResponseWriter, r *http.Request) {
			if !verifying.TryLock() {
				s.fail(w, newProblem(problemRunning, "verify"))
				return
			}
			defer verifying.Unlock()
			s.adminVerify(w, r)
		},
		"GET /debug/pprof/":        pprof.Index,
		"GET /debug/pprof/cmdline": pprof.Cmdline,
		"GET /debug/pprof/profile": pprof.Profile,
		"GET /debug/pprof/symbol":  pprof.Symbol,
		"POST /debug/pprof/symbol": pprof.Symbol,
		"GET /debug/pprof/trace":   pprof.Trace,
		"POST /debug/free-memory":  freeMemory,
		"GET " + livezPath:         s.getLivez,
		"GET " + readyzPath:        s.getReadyz,
	} {
		mux.HandleFunc(pattern, handler)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.deps.Registry, promhttp.HandlerOpts{}))
	return mux
}

// adminHandler serves the operators' listener: every route needs the bearer token.
func (s *Server) adminHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if p := s.checkAdmin(r); p != nil {
			s.metrics.adminCalls[adminDenied].Inc()
			s.fail(w, p)
			return
		}
		s.metrics.adminCalls[adminOK].Inc()
		handler, pattern := s.ops.Handler(r)
		if pattern == "" {
			s.failUnrouted(w, r, handler)
			return
		}
		s.ops.ServeHTTP(w, r)
	})
}

// checkAdmin checks the bearer token in constant time. Wrong ones are logged and answered with 401, and above a rate with 429
// and no log line; the right one always passes, so that nobody can lock an operator out.
func (s *Server) checkAdmin(r *http.Request) *problem {
	token, _ := cutBearer(r.Header.Get("Authorization"))
	// Hashes have equal lengths, so the time tells nothing of the token's either.
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.cfg.AdminToken))
	if subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
		return nil
	}
	var addr netip.Addr
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		addr = ap.Addr().Unmap()
	}
	if wait, ok := s.limits.adminFailure(addr, time.Now()); !ok {
		return rateProblem(wait)
	}
	s.log.Warn("a request to the operators' listener without the right token", "address", addr, "path", r.URL.Path)
	return newProblem(problemAdminToken, "")
}

// askFailed answers what an operator asked for and did not get: a refusal, an outcome that nobody knows, or a store that does
// not answer.
func (s *Server) askFailed(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, board.ErrRefused):
		s.fail(w, newProblem(problemRefused, err.Error()))
	case errors.Is(err, board.ErrUnknown):
		s.fail(w, newProblem(problemOutcome, err.Error()))
	default:
		s.storeFailed(w, r, err)
	}
}

// whoAndWhy checks who says to be acting, and why. The token proves that it is an operator, not which.
func whoAndWhy(r *http.Request, by, why string) (string, string, *problem) {
	if by == "" {
		by = r.Header.Get(operatorHeader)
	}
	if by == "" {
		by = operatorDefault
	}
	if _, err := board.ParseUserID(by); err != nil {
		return "", "", newProblem(problemBadRequest, "by: "+err.Error())
	}
	printable := !strings.ContainsFunc(why, func(r rune) bool { return !unicode.IsPrint(r) })
	if len(why) > board.WhyBytesMax || !utf8.ValidString(why) || !printable {
		return "", "", newProblem(problemBadRequest, fmt.Sprintf("why: at most %d bytes of printable text", board.WhyBytesMax))
	}
	return by, why, nil
}

// ban is the body of POST /admin/v1/bans.
type ban struct {
	User    string `json:"user"`
	UntilMs *int64 `json:"until_ms"` // Unix milliseconds; none: for ever
	By      string `json:"by"`
	Why     string `json:"why"`
	Unseen  bool   `json:"unseen"` // also a user that the board has never seen
}

func (s *Server) adminBans(w http.ResponseWriter, r *http.Request) {
	bans, err := s.deps.Admin.Bans(r.Context())
	if err != nil {
		s.askFailed(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, "no-store", append([]board.Ban{}, bans...))
}

func (s *Server) adminBan(w http.ResponseWriter, r *http.Request) {
	var body ban
	if p := readJSON(w, r, adminBodyBytesMax, &body); p != nil {
		s.fail(w, p)
		return
	}
	until := board.BannedForever
	if body.UntilMs != nil {
		until = *body.UntilMs
	}
	if until <= time.Now().UnixMilli() || until > board.BannedForever {
		s.fail(w, newProblem(problemBadRequest, "until_ms is not in the future; leave it out to ban for ever, delete the ban to lift it"))
		return
	}
	s.setBan(w, r, body, until)
}

// adminUnban takes who and why from the query, because a DELETE has no body.
func (s *Server) adminUnban(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	s.setBan(w, r, ban{User: r.PathValue("user"), By: query.Get("by"), Why: query.Get("why")}, 0)
}

func (s *Server) setBan(w http.ResponseWriter, r *http.Request, b ban, untilMs int64) {
	by, why, p := whoAndWhy(r, b.By, b.Why)
	if p != nil {
		s.fail(w, p)
		return
	}
	user, err := board.ParseUserID(b.User)
	if err != nil {
		s.fail(w, newProblem(problemUserName, err.Error()))
		return
	}
	if !b.Unseen {
		user, err = s.knownUser(r.Context(), user)
	}
	if err == nil {
		err = s.deps.Admin.Ban(r.Context(), user, untilMs, by, why)
	}
	if err != nil {
		s.askFailed(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, "no-store", map[string]any{"user": user, "until_ms": untilMs})
}

// clearing is the body of POST /admin/v1/clear.
type clearing struct {
	Rect *board.Rect `json:"rect"`
	By   string      `json:"by"`
	Why  string      `json:"why"`
}

// adminClear starts a job that clears a rectangle, and answers 202 with it.
func (s *Server) adminClear(w http.ResponseWriter, r *http.Request) {
	var body clearing
	if p := readJSON(w, r, adminBodyBytesMax, &body); p != nil {
		s.fail(w, p)
		return
	}
	by, why, p := whoAndWhy(r, body.By, body.Why)
	if p == nil && !validRect(body.Rect) {
		p = newProblem(problemBadRequest, fmt.Sprintf("rect must have a width and height of at least 1 and lie within 0..%d", board.SideMax-1))
	}
	if p != nil {
		s.fail(w, p)
		return
	}
	job, err := s.deps.Admin.Clear(r.Context(), *body.Rect, by, why)
	if err != nil {
		s.askFailed(w, r, err)
		return
	}
	s.log.Info("clearing", "job", job.ID, "rect", *body.Rect, "by", by, "why", why)
	writeJSON(w, http.StatusAccepted, "no-store", job)
}

func validRect(r *board.Rect) bool {
	return r != nil && r.X >= 0 && r.Y >= 0 && r.Width >= 1 && r.Height >= 1 && r.X < board.SideMax && r.Y < board.SideMax &&
		r.Width <= board.SideMax-r.X && r.Height <= board.SideMax-r.Y
}

func (s *Server) adminJobs(w http.ResponseWriter, r *http.Request) {
	jobs, err := s.deps.Admin.Jobs(r.Context())
	if err != nil {
		s.askFailed(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, "no-store", append([]board.Job{}, jobs...))
}

func (s *Server) adminStatus(w http.ResponseWriter, r *http.Request) {
	status := s.deps.Admin.Status(r.Context())
	status.Sessions = s.sessionCount()
	if s.draining.Load() {
		status.Readiness.Ready = false
		status.Readiness.Reasons = append(append([]string{}, status.Readiness.Reasons...), "draining")
	}
	writeJSON(w, http.StatusOK, "no-store", status)
}

// verifyLine is one line of the answer to POST /admin/v1/verify, application/x-ndjson: any number of progress lines, then
// one with the report, or with the error that ended it.
type verifyLine struct {
	Done   *int                `json:"done,omitempty"` // progress: blocks replayed
	Total  *int                `json:"total,omitempty"`
	Report *board.VerifyReport `json:"report,omitempty"`
	Error  string              `json:"error,omitempty"`
}

// progressEvery bounds how often verify says how far it is.
const progressEvery = 200 * time.Millisecond

// adminVerify replays all journals while the client listens; a client that leaves ends it.
func (s *Server) adminVerify(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	write := func(line verifyLine) {
		control.SetWriteDeadline(time.Now().Add(s.cfg.ResponseTimeout))
		if err := json.NewEncoder(w).Encode(line); err != nil || control.Flush() != nil {
			cancel()
		}
	}
	var last time.Time
	report, err := s.deps.Admin.Verify(ctx, func(done, total int) {
		if now := time.Now(); done == total || now.Sub(last) >= progressEvery {
			last = now
			write(verifyLine{Done: &done, Total: &total})
		}
	})
	if err != nil {
		s.log.Warn("verify failed", "err", err)
		s.metrics.refuse(board.CodeStore.String())
		write(verifyLine{Error: "the journals could not be read to their end: " + err.Error()})
		return
	}
	s.log.Info("verified", "placements", report.Placements, "violations", report.Count, "ms", report.ElapsedMs)
	write(verifyLine{Report: &report})
}

// freeMemory collects garbage and gives free memory back to the system at once, as the runtime does by itself over minutes.
// It is for measuring what the node really holds.
func freeMemory(w http.ResponseWriter, _ *http.Request) {
	debug.FreeOSMemory()
	w.WriteHeader(http.StatusNoContent)
}
