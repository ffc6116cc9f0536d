package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
)

// recorded is one request as it arrived.
type recorded struct {
	line, auth, body, key string
}

// answers serves fixed answers, by method and path, and records what arrives.
func answers(t *testing.T, byLine map[string]string) (*httptest.Server, func() recorded) {
	var last recorded
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		last = recorded{r.Method + " " + r.URL.RequestURI(), r.Header.Get("Authorization"), string(body), r.Header.Get("Idempotency-Key")}
		answer, ok := byLine[last.line]
		if len(body) > 0 && r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: a body of type %q", last.line, r.Header.Get("Content-Type"))
		}
		status, text, problem := strings.Cut(answer, " problem ")
		switch {
		case !ok:
			t.Errorf("unexpected %s", last.line)
		case problem:
			w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
			var code int
			_, _ = fmt.Sscan(status, &code)
			w.WriteHeader(code)
			answer = text
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s, func() recorded { return last }
}

func TestAPI(t *testing.T) {
	s, last := answers(t, map[string]string{
		"POST /api/login/ada%20l%2F": `{"user":"ada l/","token":"T1","expires_ms":5}`,
		"POST /api/v1/anonymous":     `{"user":"anon-x","anonymous":true,"token":"T2"}`,
		"GET /api/v1/me":             `{"user":"ada","turn":7,"wait_ms":20,"banned_until_ms":3}`,
		"GET /api/v1/config":         `{"epoch":"00000000000000ff","online":4,"settings":{"width":640,"palette":[{"name":"white","rgb":16777215}]}}`,
		"GET /api/v1/tiles/3/4":      `{"x":3,"y":4,"colour":5,"placed":true,"user":"bob","at_ms":9,"kind":"user","sequence":2}`,
		"POST /api/v1/placements":    `{"verdict":"accepted","x":1,"y":2,"colour":3,"turn":7,"nonce":"00000000000000aa","sequence":8,"next_turn":8,"wait_ms":300}`,
	})
	ctx, api := context.Background(), &API{URL: s.URL + "/"}
	in, err := api.Login(ctx, "ada l/")
	if err != nil || in.User != "ada l/" || api.Token() != "T1" || last().auth != "" {
		t.Errorf("login: %+v, %v, token %q, %+v", in, err, api.Token(), last())
	}
	me, err := api.Me(ctx)
	if err != nil || me != (User{User: "ada", Turn: 7, WaitMs: 20, BannedUntilMs: 3}) || last().auth != "Bearer T1" {
		t.Errorf("me: %+v, %v, %+v", me, err, last())
	}
	c, err := api.Config(ctx)
	if err != nil || c.Epoch != "00000000000000ff" || c.Settings.Width != 640 || len(c.Settings.Palette) != 1 || c.Online != 4 {
		t.Errorf("config: %+v, %v", c, err)
	}
	d, err := api.Tile(ctx, 3, 4)
	if err != nil || d != (board.TileDetails{X: 3, Y: 4, Colour: 5, Placed: true, User: "bob", AtMs: 9, Kind: "user", Sequence: 2}) {
		t.Errorf("tile: %+v, %v", d, err)
	}
	o, err := api.PostPlacement(ctx, "k1", PostRequest{X: 1, Y: 0, Colour: 3})
	if err != nil || o.Verdict != "accepted" || o.Sequence != 8 || o.NextTurn != 8 || o.WaitMs != 300 || o.Nonce != "00000000000000aa" {
		t.Errorf("placement: %+v, %v", o, err)
	}
	if got := last(); got.key != "k1" || got.body != `{"x":1,"y":0,"colour":3}` || got.auth != "Bearer T1" {
		t.Errorf("placement sent as %+v", got)
	}
	if in, err = api.Anonymous(ctx); err != nil || !in.Anonymous || api.Token() != "T2" || last().auth != "" {
		t.Errorf("anonymous: %+v, %v, token %q, %+v", in, err, api.Token(), last())
	}
}

func TestAdmin(t *testing.T) {
	s, last := answers(t, map[string]string{
		"GET /admin/v1/settings":                       `{"version":3,"width":640,"by":"eve","at_ms":5}`,
		"GET /admin/v1/settings/history":               `[{"version":1},{"version":2,"why":"more room"}]`,
		"PUT /admin/v1/settings":                       `{"version":4,"width":700,"by":"ada"}`,
		"GET /admin/v1/bans":                           `[{"user":"bob","until_ms":99,"by":"ada","why":"spam","at_ms":7}]`,
		"POST /admin/v1/bans":                          `{"user":"bob","until_ms":99}`,
		"DELETE /admin/v1/bans/b%2Fb?by=ada&why=mercy": `{}`,
		"POST /admin/v1/clear":                         `{"id":"j1","rect":{"x":1,"y":2,"width":3,"height":4}}`,
		"GET /admin/v1/jobs":                           `[{"id":"j1","done":true}]`,
		"GET /admin/v1/status":                         `{"version":"v1","sessions":9,"counters":{"a":1}}`,
	})
	ctx, admin := context.Background(), &Admin{URL: s.URL, Token: "secret", By: "ada"}
	check := func(what string, ok bool, err error, got any) {
		t.Helper()
		if !ok || err != nil {
			t.Errorf("%s: %+v, %v, sent %+v", what, got, err, last())
		}
		if last().auth != "Bearer secret" {
			t.Errorf("%s: sent without the token", what)
		}
	}
	now, err := admin.Settings(ctx)
	check("settings", now.Version == 3 && now.Width == 640 && now.By == "eve" && now.AtMs == 5, err, now)
	history, err := admin.SettingsHistory(ctx)
	check("history", len(history) == 2 && history[1].Why == "more room", err, history)
	width, frozen := 700, false
	next, err := admin.ChangeSettings(ctx, 3, SettingsPatch{Width: &width, Frozen: &frozen, Protected: &[]board.Rect{}}, "room")
	check("change", next.Version == 4 && next.Width == 700, err, next)
	if want := `{"base":3,"patch":{"width":700,"frozen":false,"protected":[]},"by":"ada","why":"room"}`; last().body != want {
		t.Errorf("change sent as %s, want %s", last().body, want)
	}
	bans, err := admin.Bans(ctx)
	if want := (board.Ban{User: "bob", UntilMs: 99, By: "ada", Why: "spam", AtMs: 7}); err != nil || len(bans) != 1 || bans[0] != want {
		t.Errorf("bans: %+v, %v", bans, err)
	}
	banned, err := admin.Ban(ctx, "bob", 99, "spam")
	check("ban", banned == "bob" && last().body == `{"user":"bob","until_ms":99,"by":"ada","why":"spam"}`, err, nil)
	_, err = admin.BanUnseen(ctx, "eve", 99, "known elsewhere")
	check("ban unseen", last().body == `{"user":"eve","until_ms":99,"by":"ada","why":"known elsewhere","unseen":true}`, err, nil)
	_, err = admin.Unban(ctx, "b/b", "mercy")
	check("unban", true, err, nil)
	job, err := admin.Clear(ctx, board.Rect{X: 1, Y: 2, Width: 3, Height: 4}, "rude")
	check("clear", job.ID == "j1" && last().body == `{"rect":{"x":1,"y":2,"width":3,"height":4},"by":"ada","why":"rude"}`, err, job)
	jobs, err := admin.Jobs(ctx)
	check("jobs", len(jobs) == 1 && jobs[0].Done, err, jobs)
	status, err := admin.Status(ctx)
	check("status", status.Sessions == 9 && status.Counters["a"] == 1, err, status)
}

func TestVerify(t *testing.T) {
	const report = `{"report":{"blocks":4,"placements":9,"violation_count":1,"violations":[{"invariant":"I4","what":"a gap"}]}}`
	for _, c := range []struct {
		name, answer string
		progress     []int
		fault        string // part of the error; "": the report
	}{
		{"report", "{\"done\":0,\"total\":4}\n\n{\"done\":4,\"total\":4}\n" + report + "\n", []int{0, 4}, ""},
		{"error", "{\"done\":1,\"total\":4}\n{\"error\":\"the store is away\"}\n", []int{1}, "the store is away"},
		{"cut off", "{\"done\":1,\"total\":4}\n", []int{1}, "without a report"},
		{"no JSON", "<html>\n", nil, "invalid character"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := answers(t, map[string]string{"POST /admin/v1/verify": c.answer})
			var progress []int
			got, err := (&Admin{URL: s.URL}).Verify(context.Background(), func(done, total int) { progress = append(progress, done) })
			if !slices.Equal(progress, c.progress) {
				t.Errorf("progress %v, want %v", progress, c.progress)
			}
			switch {
			case c.fault == "" && (err != nil || got.Count != 1 || got.Violations[0].Invariant != "I4"):
				t.Errorf("%+v, %v", got, err)
			case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
				t.Errorf("%v, want %q", err, c.fault)
			}
		})
	}
	s, _ := answers(t, map[string]string{"POST /admin/v1/verify": report})
	if _, err := (&Admin{URL: s.URL}).Verify(context.Background(), nil); err != nil {
		t.Error(err)
	}
}

func TestProblem(t *testing.T) {
	colour := board.Colour(0)
	for _, c := range []struct {
		name, kind, body, after string
		status                  int
		want                    Problem
		refusal                 board.Code
		text                    string
	}{
		{
			"refusal", "application/problem+json", `{"title":"Your next tile is not ready yet.","code":"cooldown","retry_after_ms":1500,"next_turn":3,"true_colour":0}`, "2", 429,
			Problem{Title: "Your next tile is not ready yet.", Code: "cooldown", RetryAfterMs: 1500, NextTurn: 3, TrueColour: &colour},
			board.CodeCooldown,
			"429 Your next tile is not ready yet. (cooldown)",
		},
		{
			"faults", "application/problem+json", `{"title":"Those settings are not possible.","code":"settings","faults":["width 0","height 0"]}`, "", 422,
			Problem{Title: "Those settings are not possible.", Code: "settings", Faults: []string{"width 0", "height 0"}},
			0,
			"422 Those settings are not possible. (settings): width 0; height 0",
		},
		{
			"a proxy's page", "text/html", "Bad gateway\n<p>", "7", 502,
			Problem{Title: "Bad Gateway", Detail: "Bad gateway", RetryAfterMs: 7000},
			0,
			"502 Bad Gateway: Bad gateway",
		},
		{"broken", "application/problem+json", `{"title":`, "soon", 500, Problem{Title: "Internal Server Error", Detail: `{"title":`}, 0, `500 Internal Server Error: {"title":`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer s.Close()
			_, err := (&API{URL: s.URL}).Me(context.Background())
			p, ok := errors.AsType[*Problem](err)
			if !ok {
				t.Fatalf("%v", err)
			}
			c.want.Status = c.status
			have, _ := json.Marshal(p)
			want, _ := json.Marshal(c.want)
			if string(have) != string(want) || p.Error() != c.text {
				t.Errorf("%s %q\nwant %s %q", have, p.Error(), want, c.text)
			}
			if code, ok := p.Refusal(); code != c.refusal || ok != (c.refusal != 0) {
				t.Errorf("refusal %s, %t", code, ok)
			}
			if p.RetryAfter() != time.Duration(c.want.RetryAfterMs)*time.Millisecond {
				t.Errorf("retry after %s", p.RetryAfter())
			}
		})
	}
}

func TestConflict(t *testing.T) {
	s, _ := answers(t, map[string]string{"PUT /admin/v1/settings": `409 problem {"code":"conflict","newest":{"version":8}}`})
	_, err := (&Admin{URL: s.URL}).ChangeSettings(context.Background(), 3, SettingsPatch{}, "")
	p, _ := errors.AsType[*Problem](err)
	if !errors.Is(err, board.ErrConflict) || p == nil || p.Newest.Version != 8 {
		t.Errorf("%v, %+v", err, p)
	}
	s, _ = answers(t, map[string]string{"PUT /admin/v1/settings": `422 problem {"code":"settings"}`})
	if _, err = (&Admin{URL: s.URL}).ChangeSettings(context.Background(), 3, SettingsPatch{}, ""); err == nil || errors.Is(err, board.ErrConflict) {
		t.Errorf("%v", err)
	}
}
