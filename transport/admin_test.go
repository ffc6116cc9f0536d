package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
)

const asAdmin = "Authorization: Bearer " + testToken

func (h *harness) admin(method, path, body string, header ...string) response {
	h.t.Helper()
	return h.do(method, h.adm+path, body, append([]string{asAdmin, "Content-Type: application/json"}, header...)...)
}

// TestAdminToken asks for every operators' route without the right token; nothing is told or done.
func TestAdminToken(t *testing.T) {
	h := start(t, nil)
	paths := []string{
		"GET /admin/v1/settings", "GET /admin/v1/settings/history", "PUT /admin/v1/settings", "GET /admin/v1/bans", "POST /admin/v1/bans", "DELETE /admin/v1/bans/ann",
		"POST /admin/v1/clear", "GET /admin/v1/jobs", "POST /admin/v1/backup", "POST /admin/v1/reset", "GET /admin/v1/status", "GET /admin/v1/export", "POST /admin/v1/verify", "GET /metrics", "GET /debug/pprof/",
		"GET /debug/pprof/heap", "POST /debug/free-memory", "GET /nothing",
	}
	denied, limited := 0, 0
	for _, path := range paths {
		method, path, _ := strings.Cut(path, " ")
		for _, header := range []string{
			"X: y", "Authorization: Bearer " + testToken + "x", "Authorization: Bearer " + testToken[:len(testToken)-1] + "x",
			"Authorization: Bearer", "Authorization: Basic " + testToken,
			"Authorization: Bearer " + h.token("ann"), "Cookie: " + CookieName + "=" + testToken,
		} {
			res := h.do(method, h.adm+path, `{"user":"ann"}`, header, "Content-Type: application/json")
			switch res.StatusCode {
			case 401:
				denied++
				wantProblem(t, path, res, 401, problemAdminToken)
			case 429:
				limited++
				wantProblem(t, path, res, 429, "rate")
			default:
				t.Errorf("%s %s with %s: %d", method, path, header, res.StatusCode)
			}
		}
	}
	if denied < adminFailuresPerMinute || denied > adminFailuresPerMinute+1 || denied+limited != 7*len(paths) {
		t.Errorf("%d denied, %d limited of %d", denied, limited, 7*len(paths))
	}
	if n := h.count("placed_admin_requests_total", "result", adminDenied); n != float64(denied+limited) {
		t.Errorf("%v counted", n)
	}
	if n := strings.Count(h.logs.String(), "without the right token"); n != denied {
		t.Errorf("%d log lines for %d answers", n, denied)
	}
	if res := h.admin("GET", "/admin/v1/status", ""); res.StatusCode != 200 {
		t.Errorf("somebody else's failures lock the operator out: %d", res.StatusCode)
	}
	if len(h.fake.bans)+len(h.fake.jobs) != 0 || h.fake.settings.Version != 1 {
		t.Error("something was done")
	}
	if strings.Contains(h.logs.String(), testToken) {
		t.Error("the token is logged")
	}
	wantProblem(t, "the public listener", h.do("GET", "/admin/v1/status", "", asAdmin), 404, problemNotFound)
}

// TestSettingsChange changes settings in both ways and meets a conflict.
func TestSettingsChange(t *testing.T) {
	h := start(t, nil)
	res := h.admin("PUT", "/admin/v1/settings", `{"base":1,"patch":{"cooldown_ms":1000,"palette":`+paletteJSON(20)+`},"by":"zoe","why":"storm"}`)
	var record board.SettingsRecord
	json.Unmarshal(res.body, &record)
	want := board.DefaultSettings()
	if res.StatusCode != 200 || record.Version != 2 || record.CooldownMs != 1000 || len(record.Palette) != 20 || record.Palette[3] != (board.PaletteEntry{Name: "c3"}) ||
		record.Width != want.Width || record.RegionSize != want.RegionSize || record.By != "zoe" || record.Why != "storm" {
		t.Fatalf("%d %s", res.StatusCode, res.body)
	}
	p := wantProblem(t, "an old base", h.admin("PUT", "/admin/v1/settings", `{"base":1,"patch":{"frozen":true}}`), 409, problemConflict)
	if p.Newest == nil || p.Newest.Version != 2 || p.Newest.By != "zoe" {
		t.Errorf("the newest settings are not told: %+v", p)
	}
	h.fake.change = func(uint64, board.Settings) error { return fmt.Errorf("commit: %w", board.ErrConflict) }
	wantProblem(t, "another was faster", h.admin("PUT", "/admin/v1/settings", `{"base":2,"patch":{"frozen":true}}`), 409, problemConflict)
	h.fake.change = func(uint64, board.Settings) error { return errors.New("the store is away") }
	wantProblem(t, "the store is away", h.admin("PUT", "/admin/v1/settings", `{"base":2,"patch":{"frozen":true}}`), 503, "store")
	h.fake.change = nil

	whole := h.fake.settings.Settings
	whole.Width, whole.Announcement, whole.Version = 2000, "hello", 77
	b, _ := json.Marshal(whole)
	res = h.admin("PUT", "/admin/v1/settings", `{"base":2,"settings":`+string(b)+`}`, "Placed-Operator: max")
	json.Unmarshal(res.body, &record)
	if res.StatusCode != 200 || record.Version != 3 || record.Width != 2000 || record.Announcement != "hello" || record.By != "max" {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	if got := h.admin("GET", "/admin/v1/settings", ""); !bytes.Equal(got.body, res.body) {
		t.Errorf("GET says %s", got.body)
	}
	if got := h.admin("GET", "/admin/v1/settings/history", ""); !strings.HasPrefix(string(got.body), "[") {
		t.Errorf("history %s", got.body)
	}
}

func paletteJSON(n int) string {
	var entries []string
	for i := range n {
		entries = append(entries, fmt.Sprintf(`{"name":"c%d","rgb":0}`, i))
	}
	return "[" + strings.Join(entries, ",") + "]"
}

// TestImpossibleSettings sends settings that cannot be; each fault is named and nothing changes.
func TestImpossibleSettings(t *testing.T) {
	h := start(t, nil)
	soon := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	for _, c := range []struct {
		change string
		status int
		says   string
	}{
		{`"base":1,"patch":{"width":0}`, 422, "width"},
		{`"base":1,"patch":{"height":10001}`, 422, "height"},
		{`"base":1,"patch":{"cooldown_ms":31536000000}`, 422, "cooldown"},
		{`"base":1,"patch":{"cooldown_ms":-1}`, 422, "cooldown"},
		{`"base":1,"patch":{"palette":` + paletteJSON(1) + `}`, 422, "palette"},
		{`"base":1,"patch":{"palette":` + paletteJSON(300) + `}`, 422, "palette"},
		{`"base":1,"patch":{"palette":` + paletteJSON(15) + `}`, 422, "shrinks"},
		{`"base":1,"patch":{"region_size":150}`, 422, "region"},
		{`"base":1,"patch":{"protected":[{"x":-1,"y":0,"width":1,"height":1}]}`, 422, "protected"},
		{`"base":1,"patch":{"announcement":"` + strings.Repeat("x", 501) + `"}`, 422, "announcement"},
		{`"base":1,"settings":{}`, 422, "width"},
		{`"base":1,"patch":{"colour":3}`, 400, "colour"},
		{`"base":1,"patch":{"version":3}`, 400, "version"},
		{`"base":1,"patch":{"state":"loading"}`, 400, "state"},
		{`"base":1,"patch":{"frozen":null}`, 400, "frozen"},
		{`"base":1,"patch":{"frozen":"yes"}`, 400, "frozen"},
		{`"base":1,"patch":{"width":1.5}`, 400, "width"},
		{`"base":1,"patch":[]`, 400, ""},
		{`"base":1,"patch":{"palette":[{"name":"a","rgb":1,"alpha":2}]}`, 400, "alpha"},
		{`"base":1`, 400, "settings or patch"},
		{`"base":1,"patch":{},"settings":{}`, 400, "settings or patch"},
		{`"patch":{"frozen":true}`, 400, "base"},
		{`"base":1,"patch":{"announcement_until_ms":99999999999999}`, 422, "announcement"},
		{`"base":1,"patch":{"announcement":"x","announcement_until_ms":5}`, 422, "in the past"},
		{`"base":1,"plan_add":[{"at_ms":5,"patch":{"frozen":true}}]`, 422, "in the past"},
		{`"base":1,"plan_add":[{"at_ms":9e15,"patch":{"frozen":true}}]`, 400, "at_ms"},
		{`"base":1,"plan_add":[{"at_ms":9000000000000000,"patch":{"frozen":true}}]`, 422, "a year ahead"},
		{`"base":1,"plan_add":[{"at_ms":` + soon + `,"patch":{"width":0}}]`, 422, "impossible by then"},
		{`"base":1,"plan_add":[{"at_ms":` + soon + `,"patch":{}}]`, 422, "changes nothing"},
		{`"base":1,"plan_add":[{"at_ms":` + soon + `,"patch":{"frozen":null}}]`, 400, "frozen"},
		{`"base":1,"plan_add":[{"at_ms":` + soon + `,"patch":{"plan":[]}}]`, 400, "plan"},
		{`"base":1,"plan_add":[{"at_ms":` + soon + `}]`, 400, ""},
		{`"base":1,"plan_add":[` + strings.Repeat(`{"at_ms":`+soon+`,"patch":{"width":5}},`, 64) + `{"at_ms":` + soon + `,"patch":{"width":5}}]`, 422, "more than 64"},
		{`"base":1,"plan_remove":["7"]`, 400, "7"},
		{`"base":1,"settings":{"plan":[{"id":"x"}]}`, 400, "plan_add"},
		{`"base":1,"patch":{"frozen":true},"by":" x"`, 400, "by"},
		{`"base":1,"patch":{"frozen":true},"why":"` + strings.Repeat("x", 301) + `"`, 400, "why"},
		{`"base":1,"patch":{"frozen":true},"why":"a\u0007b"`, 400, "why"},
		{`"base":1,"patch":{"frozen":true},"reason":"x"`, 400, "reason"},
	} {
		code := problemBadRequest
		if c.status == 422 {
			code = problemSettings
		}
		p := wantProblem(t, c.change, h.admin("PUT", "/admin/v1/settings", "{"+c.change+"}"), c.status, code)
		if !strings.Contains(p.Detail, c.says) || (c.status == 422 && len(p.Faults) == 0) {
			t.Errorf("%.80s: %q does not speak of %q", c.change, p.Detail, c.says)
		}
	}
	p := wantProblem(t, "two faults", h.admin("PUT", "/admin/v1/settings", `{"base":1,"patch":{"width":0,"region_size":7}}`), 422, problemSettings)
	if len(p.Faults) != 2 {
		t.Errorf("faults %q", p.Faults)
	}
	wantProblem(t, "a form", h.do("PUT", h.adm+"/admin/v1/settings", "width=1", asAdmin, "Content-Type: application/x-www-form-urlencoded"), 415, problemMediaType)
	wantProblem(t, "too large", h.admin("PUT", "/admin/v1/settings", `{"why":"`+strings.Repeat("x", adminBodyBytesMax)+`"}`), 413, problemTooLarge)
	wantProblem(t, "another method", h.admin("POST", "/admin/v1/settings", "{}"), 405, problemMethod)
	if h.fake.settings.Version != 1 {
		t.Errorf("the settings are at version %d", h.fake.settings.Version)
	}
}

func TestBans(t *testing.T) {
	h := start(t, nil)
	until := time.Now().Add(time.Hour).UnixMilli()
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/admin/v1/bans", `{"user":"ann","why":"spam","by":"zoe"}`},
		{"POST", "/admin/v1/bans", fmt.Sprintf(`{"user":"anon-abc","until_ms":%d}`, until)},
		{"DELETE", "/admin/v1/bans/a%2Fb?by=zoe&why=sorry", ""},
	} {
		if res := h.admin(c.method, c.path, c.body); res.StatusCode != 200 {
			t.Errorf("%s %s: %d %s", c.method, c.path, res.StatusCode, res.body)
		}
	}
	want := []string{fmt.Sprintf("ann %d zoe spam", board.BannedForever), fmt.Sprintf("anon-abc %d admin ", until), "a/b 0 zoe sorry"}
	if strings.Join(h.fake.bans, "|") != strings.Join(want, "|") {
		t.Errorf("bans %q, want %q", h.fake.bans, want)
	}
	for body, c := range map[string]struct {
		status int
		code   string
	}{
		`{"user":""}`:                    {422, problemUserName},
		`{"user":"ann","until_ms":0}`:    {400, problemBadRequest},
		`{"user":"ann","until_ms":1}`:    {400, problemBadRequest},
		`{"user":"ann","until_ms":1e17}`: {400, problemBadRequest},
		`{"user":"ann","until":1}`:       {400, problemBadRequest},
		`{"user":"ann","by":"\u0000"}`:   {400, problemBadRequest},
	} {
		wantProblem(t, body, h.admin("POST", "/admin/v1/bans", body), c.status, c.code)
	}
	if len(h.fake.bans) != len(want) {
		t.Errorf("bans %q", h.fake.bans)
	}
}

// TestOperatorsHearTheTruth has the board refuse, not know, and not answer.
func TestOperatorsHearTheTruth(t *testing.T) {
	for code, err := range map[string]error{
		problemRefused: fmt.Errorf("ban: %w: too many at once", board.ErrRefused), problemOutcome: fmt.Errorf("ban: %w", board.ErrUnknown),
		board.CodeStore.String(): errors.New("no row"),
	} {
		t.Run(code, func(t *testing.T) {
			h := start(t, nil)
			h.fake.adminErr = err
			status := 503
			if code == problemRefused {
				status = 409
			}
			wantProblem(t, "a ban", h.admin("POST", "/admin/v1/bans", `{"user":"ann"}`), status, code)
		})
	}
}

func TestClear(t *testing.T) {
	h := start(t, nil)
	res := h.admin("POST", "/admin/v1/clear", `{"rect":{"x":1,"y":2,"width":3,"height":4},"by":"zoe","why":"vandalism"}`)
	var job board.Job
	json.Unmarshal(res.body, &job)
	if res.StatusCode != 202 || job.ID != "1" || job.Rect != (board.Rect{X: 1, Y: 2, Width: 3, Height: 4}) || job.By != "zoe" {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	if res := h.admin("GET", "/admin/v1/jobs", ""); res.StatusCode != 200 || !strings.Contains(string(res.body), "vandalism") {
		t.Errorf("jobs: %d %s", res.StatusCode, res.body)
	}
	for _, body := range []string{
		`{}`, `{"rect":{"x":0,"y":0,"width":0,"height":1}}`, `{"rect":{"x":-1,"y":0,"width":1,"height":1}}`, `{"rect":{"x":9999,"y":0,"width":2,"height":1}}`,
		`{"rect":{"x":9223372036854775807,"y":0,"width":1,"height":1}}`, `{"rect":{"x":1,"y":0,"width":9223372036854775807,"height":1}}`, `{"rect":{"x":0,"y":0,"w":1}}`,
	} {
		wantProblem(t, body, h.admin("POST", "/admin/v1/clear", body), 400, problemBadRequest)
	}
	if len(h.fake.jobs) != 1 {
		t.Errorf("%d jobs", len(h.fake.jobs))
	}
}

func TestRollback(t *testing.T) {
	h := start(t, nil)
	res := h.admin("POST", "/admin/v1/rollback", `{"user":"ann","since_ms":7,"dry_run":true}`)
	var plan rollbackPlan
	json.Unmarshal(res.body, &plan)
	if res.StatusCode != 200 || plan.Tiles != 3 || plan.Placements != 4 || plan.Job.User != "ann" || plan.Job.Rect.Width != 1000 || plan.Job.SinceMs != 7 {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	if img, err := png.Decode(bytes.NewReader(plan.PNG)); err != nil || img.Bounds() != image.Rect(0, 0, 2, 1) {
		t.Errorf("the picture: %v", err)
	}
	res = h.admin("POST", "/admin/v1/rollback", `{"rect":{"x":1,"y":2,"width":3,"height":4},"since_ms":7,"dry_run":false,"by":"zoe","why":"vandalism"}`)
	var job board.Job
	json.Unmarshal(res.body, &job)
	if res.StatusCode != 202 || job.ID != "2" || job.Rect != (board.Rect{X: 1, Y: 2, Width: 3, Height: 4}) || job.By != "zoe" || job.User != "" {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	if res = h.admin("POST", "/admin/v1/rollback", `{"undo":"2","dry_run":false}`); res.StatusCode != 202 || h.fake.jobs[1].Undoes != "2" {
		t.Errorf("undo: %d %s", res.StatusCode, res.body)
	}
	for _, body := range []string{
		`{}`, `{"user":"ann","since_ms":7}`, `{"user":"ann","dry_run":true}`, `{"since_ms":7,"dry_run":true}`, `{"undo":"2","user":"ann","dry_run":true}`,
		`{"undo":"2","since_ms":7,"dry_run":true}`, `{"user":"ann","since_ms":-7,"dry_run":true}`, `{"user":"ann","since_ms":7,"dry_run":null}`,
		`{"rect":{"x":0,"y":0,"width":0,"height":1},"since_ms":7,"dry_run":true}`, `{"user":"ann","since":"30m","dry_run":true}`,
	} {
		wantProblem(t, body, h.admin("POST", "/admin/v1/rollback", body), 400, problemBadRequest)
	}
	wantProblem(t, "a bad name", h.admin("POST", "/admin/v1/rollback", `{"user":" ","since_ms":7,"dry_run":false}`), 422, problemUserName)
	if len(h.fake.jobs) != 2 {
		t.Errorf("%d jobs", len(h.fake.jobs))
	}
	h.fake.adminErr = fmt.Errorf("%w: no such job", board.ErrRefused)
	wantProblem(t, "refused", h.admin("POST", "/admin/v1/rollback", `{"undo":"9","dry_run":true}`), 409, problemRefused)
}

func TestStatus(t *testing.T) {
	h := start(t, nil)
	h.dial()
	eventually(t, "the session counts", func() bool { return h.sessionCount() == 1 })
	var status board.Status
	json.Unmarshal(h.admin("GET", "/admin/v1/status", "").body, &status)
	if status.Version != "test" || status.Sessions != 1 || !status.Readiness.Ready {
		t.Errorf("%+v", status)
	}
	if res := h.admin("GET", "/metrics", ""); res.StatusCode != 200 || !strings.Contains(string(res.body), "placed_ws_connections 1\n") {
		t.Errorf("metrics: %d", res.StatusCode)
	}
	if res := h.admin("POST", "/debug/free-memory", ""); res.StatusCode != 204 {
		t.Errorf("free memory: %d", res.StatusCode)
	}
	if res := h.admin("GET", "/debug/pprof/goroutine?debug=1", ""); res.StatusCode != 200 || !strings.Contains(string(res.body), "goroutine profile") {
		t.Errorf("pprof: %d", res.StatusCode)
	}
}

// TestVerify runs a verify that takes longer than a request may take to be read, and streams how far it is.
func TestVerify(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.RequestTimeout = 20 * time.Millisecond })
	begun, proceed := make(chan struct{}), make(chan struct{})
	h.fake.verify = func(ctx context.Context, progress func(done, total int)) (board.VerifyReport, error) {
		progress(1, 3)
		progress(2, 3) // too soon to be told
		close(begun)
		<-proceed
		wait := time.NewTimer(100 * time.Millisecond) // over the request's time
		defer wait.Stop()
		select {
		case <-ctx.Done():
			return board.VerifyReport{}, ctx.Err()
		case <-wait.C:
		}
		progress(3, 3)
		return board.VerifyReport{Blocks: 3, Violations: []board.Violation{}}, nil
	}
	done := make(chan response)
	go func() { done <- h.admin("POST", "/admin/v1/verify", "") }()
	<-begun
	wantProblem(t, "a second one", h.admin("POST", "/admin/v1/verify", ""), 409, problemRunning)
	close(proceed)
	res := <-done
	lines := strings.Split(strings.TrimSpace(string(res.body)), "\n")
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/x-ndjson" || len(lines) != 3 || lines[0] != `{"done":1,"total":3}` ||
		lines[1] != `{"done":3,"total":3}` || !strings.HasPrefix(lines[2], `{"report":{"blocks":3,`) {
		t.Errorf("%d %q", res.StatusCode, lines)
	}

	h.fake.verify = func(context.Context, func(done, total int)) (board.VerifyReport, error) {
		return board.VerifyReport{}, errors.New("block 7 cannot be read")
	}
	res = h.admin("POST", "/admin/v1/verify", "")
	var line verifyLine
	if p := strictJSON(res.body, &line); p != nil || line.Report != nil || !strings.Contains(line.Error, "block 7") {
		t.Errorf("%s", res.body)
	}
}

// TestVerifyEndsWithItsClient has the client leave in the middle, and the server close.
func TestVerifyEndsWithItsClient(t *testing.T) {
	for name, leave := range map[string]func(h *harness, cancel func()){
		"the client leaves": func(_ *harness, cancel func()) { cancel() },
		"the server closes": func(h *harness, _ func()) { h.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, nil)
			ended := make(chan struct{})
			h.fake.verify = func(ctx context.Context, progress func(done, total int)) (board.VerifyReport, error) {
				progress(1, 2)
				<-ctx.Done()
				close(ended)
				return board.VerifyReport{}, ctx.Err()
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, "POST", h.adm+"/admin/v1/verify", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+testToken)
			res, err := testClient.Do(req)
			if err != nil || res.StatusCode != 200 {
				t.Fatal(res, err)
			}
			defer res.Body.Close()
			leave(h, cancel)
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatal("it goes on for nobody")
			}
		})
	}
}

// TestPlanByHTTP plans and takes back; the public sees nothing of it.
func TestPlanByHTTP(t *testing.T) {
	h := start(t, nil)
	at := time.Now().Add(time.Hour).UnixMilli()
	change := fmt.Sprintf(`{"base":1,"patch":{"cooldown_ms":5},"plan_add":[{"at_ms":%d,"patch":{"frozen":true}},{"at_ms":%d,"patch":{"width":5}}],"by":"zoe","why":"secret"}`, at+1, at)
	if res := h.admin("PUT", "/admin/v1/settings", change); res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, res.body)
	}
	h.fake.mu.Lock()
	s := h.fake.settings.Settings
	h.fake.mu.Unlock()
	if len(s.Plan) != 2 || s.Plan[0].ID != "2.2" || s.Plan[1].ID != "2.1" || s.Plan[0].By != "zoe" || s.Plan[0].Why != "secret" || s.Plan[0].MadeMs == 0 || s.CooldownMs != 5 {
		t.Errorf("planned is %+v", s.Plan)
	}
	if res := h.do("GET", h.url+"/api/v1/config", ""); res.StatusCode != 200 || strings.Contains(string(res.body), "secret") || strings.Contains(string(res.body), "plan") {
		t.Errorf("the public sees %s", res.body)
	}
	if res := h.admin("PUT", "/admin/v1/settings", `{"base":2,"plan_remove":["2.1"]}`); res.StatusCode != 200 {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	if plan := h.fake.settings.Plan; len(plan) != 1 || plan[0].ID != "2.2" {
		t.Errorf("left is %+v", plan)
	}
}

// TestOperatorsNameKnownUsers: a name that the board has never seen is refused with those that may be meant, and nothing is done.
func TestOperatorsNameKnownUsers(t *testing.T) {
	h := start(t, nil)
	h.fake.known = []board.UserID{"Guest1", "anon-xk67aaaa", "anon-yy22aaaa", "anon-yy22bbbb"}
	for name, says := range map[string]string{"guest1": `"Guest1"`, "anon yy22": `"anon-yy22aaaa" or "anon-yy22bbbb"`, "anon xk": "exact", "nobody": "exact"} {
		for what, res := range map[string]response{
			"ban":       h.admin("POST", "/admin/v1/bans", `{"user":"`+name+`","why":"x"}`),
			"unban":     h.admin("DELETE", "/admin/v1/bans/"+url.PathEscape(name), ""),
			"roll back": h.admin("POST", "/admin/v1/rollback", `{"user":"`+name+`","since_ms":7,"dry_run":false}`),
		} {
			if p := wantProblem(t, what+" "+name, res, 409, problemRefused); !strings.Contains(p.Detail, says) {
				t.Errorf("%s %s: %s", what, name, p.Detail)
			}
		}
	}
	if len(h.fake.bans)+len(h.fake.jobs) != 0 {
		t.Errorf("done: %v, %v", h.fake.bans, h.fake.jobs)
	}
	h.admin("POST", "/admin/v1/bans", `{"user":"anon xk67","until_ms":9000000000000}`)
	h.admin("POST", "/admin/v1/bans", `{"user":"eve","until_ms":9000000000000,"unseen":true}`)
	h.admin("POST", "/admin/v1/rollback", `{"user":"Anonym xk67","since_ms":7,"dry_run":false}`)
	if len(h.fake.bans) != 2 || !strings.HasPrefix(h.fake.bans[0], "anon-xk67aaaa ") || !strings.HasPrefix(h.fake.bans[1], "eve ") {
		t.Errorf("bans %v", h.fake.bans)
	}
	if len(h.fake.jobs) != 1 || h.fake.jobs[0].User != "anon-xk67aaaa" {
		t.Errorf("jobs %+v", h.fake.jobs)
	}
}
