package transport

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/apidoc"
)

func openAPI(t testing.TB) *apidoc.Document {
	t.Helper()
	doc, err := apidoc.Load("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestOpenAPIHasEveryRoute holds the document and the routes of both listeners against each other.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	s, _, _, _ := newServer(t, func(cfg *Config) { cfg.PublicMetrics = true })
	doc := openAPI(t)
	patterns := append(slices.Clone(s.routes.patterns), s.ops.patterns...)
	for _, pattern := range patterns {
		if doc.Operation(pattern) == nil {
			t.Errorf("%q is served and not in docs/openapi.yaml: describe it there, and add a request to openAPIRequests", pattern)
		}
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			pattern := method + " " + path
			of2017 := slices.Contains(item.GetOperation(method).Tags, "2017") // held against that face by its own tests
			if !of2017 && !slices.Contains(patterns, pattern) && !slices.Contains(patterns, pattern+"{$}") {
				t.Errorf("%q is in docs/openapi.yaml and not served", pattern)
			}
			if own := strings.HasPrefix(path, "/admin/") || strings.HasPrefix(path, "/debug/"); own != (len(item.Servers) > 0) {
				t.Errorf("%q: only the operators' listener has a server of its own", pattern)
			}
		}
	}
	if len(patterns) < 25 {
		t.Errorf("%d routes are known", len(patterns))
	}
}

// TestOpenAPIKnowsEveryProblem holds the closed list of problem codes against the document's.
func TestOpenAPIKnowsEveryProblem(t *testing.T) {
	var documented []string
	for _, code := range openAPI(t).Components.Schemas["ProblemCode"].Value.Enum {
		documented = append(documented, code.(string))
	}
	codes := problemCodes()
	slices.Sort(codes)
	slices.Sort(documented)
	if !slices.Equal(codes, documented) {
		t.Errorf("the problem codes are\n[%s], docs/openapi.yaml has\n[%s]", strings.Join(codes, ", "), strings.Join(documented, ", "))
	}
}

// openAPIRequests are one good request for every operation, by pattern: path, body, and the status that is due.
var openAPIRequests = map[string]struct {
	path, body string
	status     int
}{
	"GET /api/v1/board":                  {"/api/v1/board", "", 200},
	"GET /api/v1/board.png":              {"/api/v1/board.png", "", 200},
	"GET /api/v1/overview.png":           {"/api/v1/overview.png", "", 200},
	"GET /api/v1/chunks/{col}/{row}":     {"/api/v1/chunks/1/0", "", 200},
	"GET /api/v1/tiles/{x}/{y}":          {"/api/v1/tiles/3/4", "", 200},
	"GET /api/v1/tiles/{x}/{y}/history":  {"/api/v1/tiles/3/4/history?limit=2", "", 200},
	"GET /api/v1/users/{user}/history":   {"/api/v1/users/ann/history", "", 200},
	"GET /api/v1/past/{epoch}/board":     {"/api/v1/past/0123456789abcdef/board?at_ms=5000", "", 200},
	"GET /api/v1/past/{epoch}/board.png": {"/api/v1/past/0123456789abcdef/board.png?at_ms=5000", "", 200},
	"GET /api/v1/heat.png":               {"/api/v1/heat.png?minutes=5", "", 200},
	"GET /api/v1/config":                 {"/api/v1/config", "", 200},
	"GET /api/v1/ws":                     {"/api/v1/ws", "", 426},
	"GET /api/v1/me":                     {"/api/v1/me", "", 200},
	"POST /api/v1/placements":            {"/api/v1/placements", `{"x":1,"y":2,"colour":3}`, 200},
	"POST /api/v1/anonymous":             {"/api/v1/anonymous", "", 200},
	"POST /api/login/{name}":             {"/api/login/zoe", "", 200},
	"POST /api/v1/session":               {"/api/v1/session", "", 403},
	"POST /api/v1/invite":                {"/api/v1/invite", "", 403},
	"GET /admin/v1/invites":              {"/admin/v1/invites", "", 409},
	"POST /admin/v1/invites":             {"/admin/v1/invites", `{"count":1}`, 409},
	"POST /admin/v1/invites/revoke":      {"/admin/v1/invites/revoke", `{"invites":["bob"]}`, 409},
	"POST /api/logout":                   {"/api/logout", "", 204},
	"GET /livez":                         {"/livez", "", 200},
	"GET /readyz":                        {"/readyz", "", 200},
	"GET /metrics":                       {"/metrics", "", 200},
	"GET /{$}":                           {"/", "", 200},
	"GET /admin/v1/settings":             {"/admin/v1/settings", "", 200},
	"PUT /admin/v1/settings":             {"/admin/v1/settings", `{"base":1,"patch":{"cooldown_ms":1000},"why":"a test"}`, 200},
	"GET /admin/v1/settings/history":     {"/admin/v1/settings/history", "", 200},
	"POST /admin/v1/backup":              {"/admin/v1/backup", "", 200},
	"POST /admin/v1/reset":               {"/admin/v1/reset", fmt.Sprintf(`{"epoch":"%016x"}`, uint64(testEpoch)), 202},
	"GET /admin/v1/bans":                 {"/admin/v1/bans", "", 200},
	"POST /admin/v1/bans":                {"/admin/v1/bans", `{"user":"bob","why":"spam"}`, 200},
	"DELETE /admin/v1/bans/{user}":       {"/admin/v1/bans/bob?why=sorry", "", 200},
	"POST /admin/v1/clear":               {"/admin/v1/clear", `{"rect":{"x":0,"y":0,"width":2,"height":2}}`, 202},
	"POST /admin/v1/rollback":            {"/admin/v1/rollback", `{"user":"bob","since_ms":7,"dry_run":true}`, 200},
	"GET /admin/v1/jobs":                 {"/admin/v1/jobs", "", 200},
	"POST /admin/v1/refresh":             {"/admin/v1/refresh", "", 204},
	"GET /admin/v1/status":               {"/admin/v1/status", "", 200},
	"GET /admin/v1/cluster":              {"/admin/v1/cluster", "", 200},
	"POST /admin/v1/cluster/drain":       {"/admin/v1/cluster/drain", "", 202},
	"GET /admin/v1/regions":              {"/admin/v1/regions", "", 200},
	"GET /admin/v1/export":               {"/admin/v1/export?from=5&to=9&rect=0,0,10,10&names=1", "", 200},
	"POST /admin/v1/verify":              {"/admin/v1/verify", "", 200},
	"GET /debug/pprof/":                  {"/debug/pprof/", "", 200},
	"GET /debug/pprof/cmdline":           {"/debug/pprof/cmdline", "", 200},
	"GET /debug/pprof/profile":           {"/debug/pprof/profile?seconds=1", "", 200},
	"GET /debug/pprof/symbol":            {"/debug/pprof/symbol", "", 200},
	"POST /debug/pprof/symbol":           {"/debug/pprof/symbol", "", 200},
	"GET /debug/pprof/trace":             {"/debug/pprof/trace?seconds=0.01", "", 200},
	"POST /debug/free-memory":            {"/debug/free-memory", "", 204},
}

// TestOpenAPIAnswers asks for every operation; like every answer to a test's harness.do, these are held against the
// document: status, media type, headers and the shape of JSON.
func TestOpenAPIAnswers(t *testing.T) {
	h := start(t, nil)
	h.fake.jobs = []board.Job{{ID: "9", Kind: "clear", Done: true}}
	listeners := []struct {
		url, auth string
		patterns  []string
	}{{h.url, "Authorization: Bearer " + h.token("ann"), h.routes.patterns}, {h.adm, asAdmin, h.ops.patterns}}
	for _, listener := range listeners {
		for _, pattern := range listener.patterns {
			request, ok := openAPIRequests[pattern]
			if !ok {
				t.Errorf("openAPIRequests has no request for %q", pattern)
				continue
			}
			method, _, _ := strings.Cut(pattern, " ")
			header := []string{listener.auth, "Idempotency-Key: k"}
			if request.body != "" {
				header = append(header, "Content-Type: application/json")
			}
			res := h.do(method, listener.url+request.path, request.body, header...)
			if res.StatusCode != request.status {
				t.Errorf("%s: %d %s", pattern, res.StatusCode, res.body)
			}
		}
	}
}

// TestOpenAPINoticesDrift has answers that are not as the document says.
func TestOpenAPINoticesDrift(t *testing.T) {
	h := start(t, nil)
	good := h.do("GET", "/api/v1/tiles/1/2", "")
	operation := openAPI(t).Operation("GET /api/v1/tiles/{x}/{y}")
	for name, change := range map[string]func(res *http.Response) []byte{
		"another media type":     func(res *http.Response) []byte { res.Header.Set("Content-Type", "text/plain"); return good.body },
		"another cache control":  func(res *http.Response) []byte { res.Header.Set("Cache-Control", "no-store"); return good.body },
		"a field more":           func(*http.Response) []byte { return []byte(`{"x":1,"y":2,"colour":5,"placed":true,"alpha":1}`) },
		"a field less":           func(*http.Response) []byte { return []byte(`{"x":1,"y":2,"placed":true}`) },
		"a text for a number":    func(*http.Response) []byte { return []byte(`{"x":"1","y":2,"colour":5,"placed":true}`) },
		"a kind that is unknown": func(*http.Response) []byte { return []byte(`{"x":1,"y":2,"colour":5,"placed":true,"kind":"theft"}`) },
		"a problem as a success": func(res *http.Response) []byte { res.StatusCode = 404; return good.body },
	} {
		res := &http.Response{StatusCode: good.StatusCode, Header: good.Header.Clone()}
		if err := apidoc.CheckAnswer(operation, res, change(res)); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	if err := apidoc.CheckAnswer(operation, good.Response, good.body); err != nil {
		t.Error(err)
	}
}

// checkDocumented holds an answer against docs/openapi.yaml, and what was sent when it was taken. Requests that no route
// takes are not documented.
func (h *harness) checkDocumented(req *http.Request, sent string, res response) {
	h.t.Helper()
	mux := h.routes
	if strings.HasPrefix(req.URL.String(), h.adm) {
		mux = h.ops
	}
	if req.Method == http.MethodHead || res.Header.Get("X-Content-Type-Options") == "" {
		return // HEAD has a test of its own; what net/http refuses by itself is no answer of ours
	}
	_, pattern := mux.Handler(req)
	operation := openAPI(h.t).Operation(pattern)
	if operation == nil {
		return // told by TestOpenAPIHasEveryRoute
	}
	if err := apidoc.CheckAnswer(operation, res.Response, res.body); err != nil {
		h.t.Errorf("%s %s: the answer is not as docs/openapi.yaml says: %v\n%d %.500s", req.Method, req.URL, err, res.StatusCode, res.body)
	}
	if operation.RequestBody == nil || res.StatusCode >= 300 {
		return
	}
	if err := apidoc.CheckRequest(operation, []byte(sent)); err != nil {
		h.t.Errorf("%s %s: taken, and not as docs/openapi.yaml says: %v\n%s", req.Method, req.URL, err, sent)
	}
}
