//go:build unix

package system_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
)

// badRequest is one request that must be refused.
type badRequest struct {
	name    string
	method  string
	path    string
	headers string // "Name: value" lines; "as bad" signs in as the bad user, "admin" as an operator
	body    string
	status  int
	code    string // of the problem
	counter string // besides that of the code
}

func (b *badBoard) request(url string, c *badRequest) *http.Request {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), c.method, url+c.path, strings.NewReader(c.body))
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.SplitSeq(c.headers, "\n") {
		switch name, value, ok := strings.Cut(line, ": "); {
		case line == "as bad":
			request.Header.Set("Authorization", "Bearer "+b.token)
		case line == "admin":
			request.Header.Set("Authorization", "Bearer "+b.node.token())
		case line == "json":
			request.Header.Set("Content-Type", "application/json")
		case line == "key":
			request.Header.Set("Idempotency-Key", rand.Text())
		case ok:
			request.Header.Add(name, value)
		}
	}
	return request
}

// refused makes a request and sees that the answer is the problem that it should be, that it is counted, and that nothing
// has changed.
func (b *badBoard) refused(url string, c badRequest) {
	b.t.Helper()
	counters := []string{fmt.Sprintf("placed_http_refusals_total{code=%q}", c.code)}
	if c.counter != "" {
		counters = append(counters, c.counter)
	}
	b.try(c.name, counters, func(t *testing.T) {
		a := do(t, b.request(url, &c))
		if a.status != c.status || a.problem() != c.code {
			t.Errorf("%s %s: %d %s, want %d with code %q", c.method, c.path, a.status, a.body, c.status, c.code)
		}
		var p struct {
			Title string `json:"title"`
		}
		if err := json.Unmarshal(a.body, &p); err != nil || p.Title == "" {
			t.Errorf("the answer has no sentence for people: %s", a.body)
		}
	})
}

// key is the session key of the node in this test, so that it can forge what only the node can make.
var key = sha256.Sum256([]byte("a key that everybody knows"))

// sign makes a session token as the node does: version, flags, expiry in Unix seconds, 8 random bytes and the name, then
// the HMAC-SHA256 over a fixed text and these.
func sign(key []byte, user string, expires time.Time) string {
	b := binary.BigEndian.AppendUint64([]byte{1, 0}, uint64(expires.Unix()))
	b = append(append(b, 1, 2, 3, 4, 5, 6, 7, 8), user...)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("placed session token v1\n"))
	mac.Write(b)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(b))
}

// TestBadInputOverHTTP sends everything that is not right over HTTP, to the public listener and to the operators'.
func TestBadInputOverHTTP(t *testing.T) {
	t.Parallel()
	b := newBadBoardWith(t, []string{"PLACED_SESSION_KEY=" + hex.EncodeToString(key[:])})
	good := do(t, b.request(b.node.url, &badRequest{
		method: "GET", path: "/api/v1/me", headers: "Authorization: Bearer " + sign(key[:], badUser, time.Now().Add(time.Hour)),
	}))
	if good.status != http.StatusOK || !strings.Contains(string(good.body), badUser) {
		t.Fatalf("the test cannot sign tokens: %d %s", good.status, good.body)
	}
	b.identities()
	for _, c := range badPlacements() {
		c.method, c.path = http.MethodPost, "/api/v1/placements"
		b.refused(b.node.url, c)
	}
	for _, c := range badQuestions() {
		b.refused(b.node.url, c)
	}
	for _, c := range badSettings() {
		if c.method == "" {
			c.method, c.path = http.MethodPut, "/admin/v1/settings"
		}
		c.headers = "admin\n" + c.headers
		if !strings.Contains(c.headers, "Content-Type") {
			c.headers += "\njson"
		}
		b.refused(b.node.adminURL, c)
	}
	b.operatorsDoor()
	b.end()
}

// identities are forged, expired, and used from where they must not be.
func (b *badBoard) identities() {
	const forged, expired = `placed_bad_tokens_total{reason="forged"}`, `placed_bad_tokens_total{reason="expired"}`
	later := time.Now().Add(time.Hour)
	own := sign(key[:], badUser, later)
	other := sign(make([]byte, 32), badUser, later)
	old := sign(key[:], badUser, time.Now().Add(-time.Second))
	upgrade := "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n"
	placing := badRequest{method: http.MethodPost, path: "/api/v1/placements", body: `{"x":5,"y":5,"colour":3}`, status: 401, code: "token"}
	session := badRequest{method: http.MethodGet, path: "/api/v1/ws", status: 401, code: "token"}
	asking := badRequest{method: http.MethodGet, path: "/api/v1/me", status: 401, code: "token"}
	with := func(c badRequest, name, headers, counter string) badRequest {
		c.name, c.headers, c.counter = name, headers, counter
		return c
	}
	list := []badRequest{
		with(placing, "a cookie of another key", "json\nkey\nCookie: placed_session="+other, forged),
		with(placing, "an expired cookie", "json\nkey\nCookie: placed_session="+old, expired),
		with(placing, "a cookie of letters", "json\nkey\nCookie: placed_session=abcdef", forged),
		with(placing, "a cookie cut short", "json\nkey\nCookie: placed_session="+own[:len(own)-2], forged),
		with(placing, "a cookie of 4,000 characters", "json\nkey\nCookie: placed_session="+strings.Repeat("A", 4000), forged),
		with(asking, "a bearer token of another key", "Authorization: Bearer "+other, forged),
		with(asking, "an expired bearer token", "Authorization: Bearer "+old, expired),
		with(asking, "a password", "Authorization: Basic YTpi", forged),
		with(session, "a session with a forged token", upgrade+"Authorization: Bearer "+other, forged),
		with(session, "a session with an expired cookie", upgrade+"Cookie: placed_session="+old, expired),
	}
	foreign := with(session, "a session from a foreign page", upgrade+"Origin: https://evil.example\nCookie: placed_session="+own, "")
	foreign.status, foreign.code = 403, "origin"
	nowhere := with(session, "a session with a cookie from nowhere", upgrade+"Cookie: placed_session="+own, "")
	nowhere.status, nowhere.code = 403, "origin"
	posted := with(placing, "a placement from a foreign page", "json\nkey\nOrigin: https://evil.example\nSec-Fetch-Site: cross-site\nCookie: placed_session="+own, "")
	posted.status, posted.code = 403, "origin"
	for _, c := range append(list, foreign, nowhere, posted) {
		b.refused(b.node.url, c)
	}
}

func badPlacements() []badRequest {
	const as = "as bad\njson\nkey"
	refused := func(name, body string, code board.Code) badRequest {
		return badRequest{name: name, headers: as, body: body, status: code.Refusal().Status, code: code.String()}
	}
	return []badRequest{
		refused("x is the width", `{"x":1000,"y":5,"colour":3}`, board.CodeBounds),
		refused("x is -1", `{"x":-1,"y":5,"colour":3}`, board.CodeBounds),
		refused("y is huge", `{"x":5,"y":9007199254740993,"colour":3}`, board.CodeBounds),
		refused("colour 16 of 16", `{"x":5,"y":5,"colour":16}`, board.CodeColour),
		refused("colour 256", `{"x":5,"y":5,"colour":256}`, board.CodeColour),
		refused("colour -1", `{"x":5,"y":5,"colour":-1}`, board.CodeColour),
		refused("too soon", `{"x":5,"y":5,"colour":3}`, board.CodeCooldown),
		refused("an old turn", `{"x":5,"y":5,"colour":3,"turn":1}`, board.CodeSuperseded),
		refused("a turn too high", `{"x":5,"y":5,"colour":3,"turn":7}`, board.CodeTurn),
		{name: "nobody", headers: "json\nkey", body: `{"x":5,"y":5,"colour":3}`, status: 401, code: "sign_in"},
		{name: "text", headers: "as bad\nkey\nContent-Type: text/plain", body: `{"x":5,"y":5,"colour":3}`, status: 415, code: "media_type"},
		{name: "a form", headers: "as bad\nkey\nContent-Type: application/x-www-form-urlencoded", body: `x=5&y=5&colour=3`, status: 415, code: "media_type"},
		{name: "no type", headers: "as bad\nkey", body: `{"x":5,"y":5,"colour":3}`, status: 415, code: "media_type"},
		{name: "packed", headers: as + "\nContent-Encoding: gzip", body: `{"x":5,"y":5,"colour":3}`, status: 415, code: "media_type"},
		{name: "no key", headers: "as bad\njson", body: `{"x":5,"y":5,"colour":3}`, status: 400, code: "idempotency_key"},
		{name: "two keys", headers: as + "\nIdempotency-Key: b", body: `{"x":5,"y":5,"colour":3}`, status: 400, code: "idempotency_key"},
		{name: "a key of 129 characters", headers: "as bad\njson\nIdempotency-Key: " + strings.Repeat("k", 129), body: `{"x":5,"y":5,"colour":3}`, status: 400, code: "idempotency_key"},
		{name: "an empty body", headers: as, body: ``, status: 400, code: "bad_request"},
		{name: "half a body", headers: as, body: `{"x":5,"y":`, status: 400, code: "bad_request"},
		{name: "a list", headers: as, body: `[5,5,3]`, status: 400, code: "bad_request"},
		{name: "words for numbers", headers: as, body: `{"x":"five","y":5,"colour":3}`, status: 400, code: "bad_request"},
		{name: "half a tile", headers: as, body: `{"x":5.5,"y":5,"colour":3}`, status: 400, code: "bad_request"},
		{name: "a number beyond all", headers: as, body: `{"x":1e99,"y":5,"colour":3}`, status: 400, code: "bad_request"},
		{name: "no colour", headers: as, body: `{"x":5,"y":5}`, status: 400, code: "bad_request"},
		{name: "somebody else's name", headers: as, body: `{"x":5,"y":5,"colour":3,"user":"witness"}`, status: 400, code: "bad_request"},
		{name: "two at once", headers: as, body: `{"x":5,"y":5,"colour":3}{"x":6,"y":6,"colour":3}`, status: 400, code: "bad_request"},
		{name: "too long", headers: as, body: `{"x":5,"y":5,"colour":3` + strings.Repeat(" ", 2000) + `}`, status: 413, code: "too_large"},
	}
}

func badQuestions() []badRequest {
	get := func(path string, status int, code string) badRequest {
		return badRequest{name: path, method: http.MethodGet, path: path, status: status, code: code}
	}
	post := func(path string, status int, code string) badRequest {
		return badRequest{name: "post " + path[:min(len(path), 30)], method: http.MethodPost, path: path, status: status, code: code}
	}
	subprotocol := get("/api/v1/ws", 400, "subprotocol")
	subprotocol.name = "another subprotocol"
	subprotocol.headers = "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\nSec-WebSocket-Protocol: chat"
	return []badRequest{
		get("/api/v1/tiles/1000/0", 422, "bounds"),
		get("/api/v1/tiles/0/-1", 422, "bounds"),
		get("/api/v1/tiles/99999999999999999999/0", 400, "bad_request"),
		get("/api/v1/tiles/a/b", 400, "bad_request"),
		get("/api/v1/tiles/01/1", 400, "bad_request"),
		get("/api/v1/chunks/20/0", 422, "bounds"),
		get("/api/v1/chunks/-1/0", 422, "bounds"),
		get("/api/v1/chunks/x/0", 400, "bad_request"),
		get("/api/v1/nothing", 404, "not_found"),
		get("/admin/v1/settings", 404, "not_found"),
		get("/api/v1/ws", 426, "upgrade"),
		subprotocol,
		post("/api/v1/board", 405, "method"),
		get("/api/v1/placements", 405, "method"),
		post("/api/login/"+strings.Repeat("n", 49), 422, "user_name"),
		post("/api/login/%07bell", 422, "user_name"),
		post("/api/login/%ff", 422, "user_name"),
		post("/api/login/anon-me", 422, "user_reserved"),
	}
}

func badSettings() []badRequest {
	impossible := func(patch string) badRequest {
		return badRequest{name: patch[:min(len(patch), 40)], body: `{"base":1,"patch":` + patch + `,"why":"test"}`, status: 422, code: "settings"}
	}
	colours := func(n int) string {
		return `{"palette":[` + strings.TrimSuffix(strings.Repeat(`{"name":"c","rgb":1},`, n), ",") + `]}`
	}
	areas := `{"protected":[` + strings.TrimSuffix(strings.Repeat(`{"x":1,"y":1,"width":1,"height":1},`, board.ProtectedMax+1), ",") + `]}`
	other := func(name, method, path, body string, status int, code string) badRequest {
		return badRequest{name: name, method: method, path: path, body: body, status: status, code: code}
	}
	put := func(name, body string, status int, code string) badRequest {
		return badRequest{name: name, body: body, status: status, code: code}
	}
	text := put("settings as text", `{"base":1,"patch":{"width":5}}`, 415, "media_type")
	text.headers = "Content-Type: text/plain"
	list := []badRequest{
		text,
		put("no base", `{"patch":{"width":500}}`, 400, "bad_request"),
		put("an old base", `{"base":0,"patch":{"width":500}}`, 409, "conflict"),
		put("a base to come", `{"base":2,"patch":{"width":500}}`, 409, "conflict"),
		put("no change", `{"base":1}`, 400, "bad_request"),
		put("an unknown setting", `{"base":1,"patch":{"depth":500}}`, 400, "bad_request"),
		put("the state", `{"base":1,"patch":{"state":"loading"}}`, 400, "bad_request"),
		put("null", `{"base":1,"patch":{"width":null}}`, 400, "bad_request"),
		put("words", `{"base":1,"patch":{"width":"wide"}}`, 400, "bad_request"),
		put("an unprintable reason", `{"base":1,"patch":{"width":500},"why":"\u0000"}`, 400, "bad_request"),
		put("a novel for a reason", `{"base":1,"patch":{"width":500},"why":"`+strings.Repeat("n", board.WhyBytesMax+1)+`"}`, 400, "bad_request"),
		put("a megabyte", `{"base":1,"patch":{"width":500},"why":"`+strings.Repeat("n", 1<<20)+`"}`, 413, "too_large"),
		other("a ban in the past", "POST", "/admin/v1/bans", `{"user":"bad","until_ms":1,"why":"test"}`, 400, "bad_request"),
		other("a ban of nobody", "POST", "/admin/v1/bans", `{"user":"","why":"test"}`, 422, "user_name"),
		other("a clearing of nothing", "POST", "/admin/v1/clear", `{"why":"test"}`, 400, "bad_request"),
		other("a clearing without width", "POST", "/admin/v1/clear", `{"rect":{"x":1,"y":1,"width":0,"height":5}}`, 400, "bad_request"),
		other("a clearing left of the board", "POST", "/admin/v1/clear", `{"rect":{"x":-1,"y":1,"width":5,"height":5}}`, 400, "bad_request"),
		other("a clearing of the world", "POST", "/admin/v1/clear", `{"rect":{"x":0,"y":0,"width":9223372036854775807,"height":5}}`, 400, "bad_request"),
		other("no such route", "POST", "/admin/v1/reboot", `{}`, 404, "not_found"),
		other("another method", "PATCH", "/admin/v1/settings", `{}`, 405, "method"),
	}
	for _, patch := range []string{
		`{"width":0}`, `{"width":-1}`, `{"width":10001}`, `{"height":0}`, `{"height":10001}`,
		`{"cooldown_ms":-1}`, `{"cooldown_ms":31536000000}`, `{"cooldown_ms":86400001}`,
		`{"region_size":0}`, `{"region_size":50}`, `{"region_size":150}`, `{"region_size":-100}`, `{"region_size":10100}`,
		colours(0), colours(1), colours(15), colours(300),
		`{"protected":[{"x":1,"y":1,"width":0,"height":1}]}`, `{"protected":[{"x":9999,"y":1,"width":2,"height":1}]}`, areas,
		`{"announcement":"` + strings.Repeat("a", board.AnnouncementBytesMax+1) + `"}`,
	} {
		list = append(list, impossible(patch))
	}
	return list
}

// operatorsDoor is shut to everybody without the token, and says so at most ten times a minute.
func (b *badBoard) operatorsDoor() {
	const denied = `placed_admin_requests_total{result="denied"}`
	for name, headers := range map[string]string{
		"no token": "", "a wrong token": "Authorization: Bearer " + strings.Repeat("0", 64), "a user's token": "as bad",
		"the token as a password": "Authorization: Basic " + b.node.token(),
	} {
		for _, path := range []string{"/admin/v1/settings", "/metrics"} {
			b.refused(b.node.adminURL, badRequest{
				name: name + " for " + path, method: http.MethodGet, path: path, headers: headers, status: 401, code: "admin_token", counter: denied,
			})
		}
	}
	b.try("guessing tokens", []string{denied, `placed_http_refusals_total{code="rate"}`}, func(t *testing.T) {
		eventually(t, rawWithin, "guesses to be slowed down", func() bool {
			a := do(t, b.request(b.node.adminURL, &badRequest{method: http.MethodGet, path: "/admin/v1/settings"}))
			return a.status == http.StatusTooManyRequests
		})
	})
}
