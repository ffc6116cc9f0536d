package transport

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// TestBoard checks every header and byte of the board's answers.
func TestBoard(t *testing.T) {
	h := start(t, nil)
	plain := h.do("GET", "/api/v1/board", "")
	if plain.StatusCode != 200 || !bytes.Equal(plain.body, h.fake.body) {
		t.Fatalf("status %d, %d bytes", plain.StatusCode, len(plain.body))
	}
	zipped := h.do("GET", "/api/v1/board", "", "Accept-Encoding: br, gzip;q=0.5")
	if zipped.Header.Get("Content-Encoding") != "gzip" || !bytes.Equal(gunzip(t, zipped.body), h.fake.body) {
		t.Errorf("gzip: encoding %q", zipped.Header.Get("Content-Encoding"))
	}
	for name, res := range map[string]response{"plain": plain, "gzip": zipped} {
		for header, want := range map[string]string{
			"Content-Type": "application/octet-stream", "Cache-Control": "public, max-age=1, stale-while-revalidate=30",
			"Vary": "Accept-Encoding", "Set-Cookie": "", "X-Content-Type-Options": "nosniff",
		} {
			if got := strings.Join(res.Header.Values(header), "|"); got != want {
				t.Errorf("%s: %s %q, want %q", name, header, got, want)
			}
		}
		if res.ContentLength != int64(len(res.body)) {
			t.Errorf("%s: content length %d of %d", name, res.ContentLength, len(res.body))
		}
	}
	tag, tagGzip := plain.Header.Get("ETag"), zipped.Header.Get("ETag")
	if !strings.HasPrefix(tag, `"`) || !strings.HasPrefix(tagGzip, `"`) || tag == tagGzip {
		t.Errorf("tags %s and %s are not two strong ones", tag, tagGzip)
	}
	for _, c := range []struct {
		name, accept, match string
		status              int
	}{
		{"the plain one", "", tag, 304},
		{"the plain one of a list", "", `"x", W/` + tag + `, "y"`, 304},
		{"any", "", "*", 304},
		{"the gzip one for a client without gzip", "", tagGzip, 200},
		{"the gzip one", "gzip", tagGzip, 304},
		{"the plain one for a client with gzip", "gzip", tag, 200},
		{"gzip refused", "gzip;q=0, identity", tag, 304},
		{"gzip by a star", "*", tagGzip, 304},
		{"gzip refused, star allowed", "*;q=0.1, gzip;q=0.0", tag, 304},
		{"another", "", `"other"`, 200},
		{"one that only begins so", "", strings.TrimSuffix(tag, `"`), 200},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			res := h.do(method, "/api/v1/board?nocache=1", "", "Accept-Encoding: "+c.accept, "If-None-Match: "+c.match, "Cookie: "+CookieName+"=forged")
			if res.StatusCode != c.status {
				t.Errorf("%s %s: status %d, want %d", method, c.name, res.StatusCode, c.status)
			}
			if res.StatusCode == 304 && (len(res.body) != 0 || res.Header.Get("Content-Encoding") != "" || res.Header.Get("Content-Type") != "") {
				t.Errorf("%s %s: a 304 with a body's headers: %v", method, c.name, res.Header)
			}
			if res.Header.Get("ETag") == "" || res.Header.Get("Cache-Control") != cacheBoard || res.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s %s: headers %v", method, c.name, res.Header)
			}
		}
	}
	head := h.do("HEAD", "/api/v1/board", "", "Accept-Encoding: gzip")
	if len(head.body) != 0 || head.Header.Get("Content-Length") != zipped.Header.Get("Content-Length") || head.Header.Get("ETag") != tagGzip {
		t.Errorf("HEAD: %v", head.Header)
	}

	h.fake.publish(2)
	if res := h.do("GET", "/api/v1/board", "", "If-None-Match: "+tag); res.StatusCode != 200 || res.Header.Get("ETag") == tag || !bytes.Equal(res.body, h.fake.body) {
		t.Errorf("a changed board: status %d, tag %s", res.StatusCode, res.Header.Get("ETag"))
	}
}

func gunzip(t *testing.T, b []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBoardCompressedLazily checks in virtual time that the gzip form is made for the first who asks, at most once a second.
func TestBoardCompressedLazily(t *testing.T) {
	bubble(t, nil, func(t *testing.T, b *bubbleServer) {
		get := func() []byte {
			t.Helper()
			nc := b.connect(t, "127.0.0.1")
			defer nc.Close()
			go io.WriteString(nc, "GET /api/v1/board HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n")
			answer, err := io.ReadAll(nc)
			if err != nil {
				t.Fatal(err)
			}
			_, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
			return gunzip(t, body)
		}
		misses := func() float64 { return count(t, b.reg, "placed_snapshot_requests_total", "cache", snapshotMiss) }
		first := bytes.Clone(b.fake.body)
		if misses() != 0 {
			t.Error("compressed before anybody asked")
		}
		for range 3 {
			if !bytes.Equal(get(), first) {
				t.Error("not the board")
			}
		}
		if misses() != 1 {
			t.Errorf("compressed %v times for one board", misses())
		}
		b.fake.publish(2)
		if !bytes.Equal(get(), first) || misses() != 1 {
			t.Error("compressed anew within the second")
		}
		<-time.After(time.Second)
		if !bytes.Equal(get(), b.fake.body) || misses() != 2 {
			t.Error("not compressed anew after a second")
		}
		<-time.After(time.Minute)
		if !bytes.Equal(get(), b.fake.body) || misses() != 2 {
			t.Error("compressed anew though nothing changed")
		}
	})
}

func TestBoardPNG(t *testing.T) {
	h := start(t, nil)
	res := h.do("GET", "/api/v1/board.png", "")
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "image/png" || res.Header.Get("Cache-Control") != cacheBoard {
		t.Fatalf("status %d, %v", res.StatusCode, res.Header)
	}
	img, err := png.Decode(bytes.NewReader(res.body))
	if err != nil {
		t.Fatal(err)
	}
	if img.Bounds() != image.Rect(0, 0, 1000, 1000) {
		t.Errorf("bounds %v", img.Bounds())
	}
	palette := board.DefaultPalette()
	for _, c := range []struct {
		x, y   int
		colour int
	}{{50, 0, 1}, {51, 0, 2}, {50, 1, (50 + 1) % 16}, {0, 0, 0}, {100, 0, 0}} {
		rgb := palette[c.colour].RGB
		want := color.RGBA{uint8(rgb >> 16), uint8(rgb >> 8), uint8(rgb), 255}
		if got := color.RGBAModel.Convert(img.At(c.x, c.y)); got != want {
			t.Errorf("(%d,%d) is %v, want %v", c.x, c.y, got, want)
		}
	}
	if again := h.do("GET", "/api/v1/board.png", "", "If-None-Match: "+res.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("asked again: %d", again.StatusCode)
	}
	h.fake.mu.Lock()
	h.fake.settings.Width, h.fake.settings.Height = 10_000, 10_000
	h.fake.mu.Unlock()
	wantProblem(t, "a board that is not sent whole", h.do("GET", "/api/v1/board.png", ""), 422, problemBoardLarge)
}

func TestChunk(t *testing.T) {
	h := start(t, nil)
	res := h.do("GET", "/api/v1/chunks/19/0", "")
	if res.StatusCode != 200 || len(res.body) != board.Width4.ImageBytes() || res.Header.Get("Placed-Sequence") != "9" ||
		res.Header.Get("Placed-Width") != "4" || res.Header.Get("Placed-Epoch") != "0123456789abcdef" {
		t.Errorf("status %d, %d bytes, %v", res.StatusCode, len(res.body), res.Header)
	}
	if again := h.do("GET", "/api/v1/chunks/19/0", "", "If-None-Match: "+res.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("asked again: %d", again.StatusCode)
	}
}

// TestAddressesOutside asks for tiles and chunks that are not there.
func TestAddressesOutside(t *testing.T) {
	h := start(t, nil)
	for path, want := range map[string]struct {
		status int
		code   string
	}{
		"/api/v1/tiles/1000/0": {422, "bounds"}, "/api/v1/tiles/0/1000": {422, "bounds"}, "/api/v1/tiles/-1/0": {422, "bounds"},
		"/api/v1/tiles/4294967296/0": {422, "bounds"}, "/api/v1/tiles/18446744073709551616/0": {400, problemBadRequest},
		"/api/v1/tiles/a/0": {400, problemBadRequest}, "/api/v1/tiles/1.5/0": {400, problemBadRequest}, "/api/v1/tiles/01/0": {400, problemBadRequest},
		"/api/v1/tiles/+1/0": {400, problemBadRequest}, "/api/v1/tiles/1": {404, problemNotFound}, "/api/v1/tiles/1/2/3": {404, problemNotFound},
		"/api/v1/chunks/20/0": {422, "bounds"}, "/api/v1/chunks/0/20": {422, "bounds"}, "/api/v1/chunks/-1/0": {422, "bounds"},
		"/api/v1/chunks/256/0": {422, "bounds"}, "/api/v1/chunks/0/65536": {422, "bounds"}, "/api/v1/chunks/x/0": {400, problemBadRequest},
	} {
		wantProblem(t, path, h.do("GET", path, ""), want.status, want.code)
	}
}

func TestTile(t *testing.T) {
	h := start(t, nil)
	res := h.do("GET", "/api/v1/tiles/999/998", "")
	var got board.TileDetails
	json.Unmarshal(res.body, &got)
	if res.StatusCode != 200 || got.X != 999 || got.Y != 998 || got.User != "ann" || got.AtMs != 99 {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	h.fake.tileErr = errors.New("store away: secret-host:9042")
	p := wantProblem(t, "the store is away", h.do("GET", "/api/v1/tiles/1/1", ""), 503, "store")
	if p.RetryAfterMs == 0 || strings.Contains(p.Detail, "secret") {
		t.Errorf("%+v", p)
	}
}

func TestConfig(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.Version = "v9" })
	res := h.do("GET", "/api/v1/config", "", "Authorization: Bearer "+h.token("zoe-7"))
	var got config
	if p := strictJSON(res.body, &got); p != nil {
		t.Fatal(p.Detail)
	}
	if got.Epoch != "0123456789abcdef" || got.Settings.Width != 1000 || len(got.Settings.Palette) != 16 || got.Version != "v9" ||
		got.Protocol != wire.Protocol || got.Subprotocol != "placed.v1" || !got.Whole || got.Online != 17 || got.Auth != "open" {
		t.Errorf("%s", res.body)
	}
	if strings.Contains(string(res.body), "zoe") || res.Header.Get("Cache-Control") != "public, max-age=1" || res.Header.Get("Set-Cookie") != "" {
		t.Errorf("a public answer tells of its reader: %v %s", res.Header, res.body)
	}
}

func TestBoardNotLoaded(t *testing.T) {
	h := start(t, nil)
	h.fake.body = nil
	for _, path := range []string{"/api/v1/board", "/api/v1/board.png"} {
		wantProblem(t, path, h.do("GET", path, ""), 503, "loading")
	}
	if n := h.count("placed_snapshot_requests_total", "cache", snapshotWait); n != 2 {
		t.Errorf("%v counted", n)
	}
}

func TestReadyz(t *testing.T) {
	h := start(t, nil)
	if res := h.do("GET", "/readyz", ""); res.StatusCode != 200 || string(res.body) != `{"ready":true,"reasons":[]}`+"\n" {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	h.fake.ready = board.Readiness{Reasons: []string{"the store does not answer"}}
	if res := h.do("GET", "/readyz?verbose", ""); res.StatusCode != 503 || !strings.Contains(string(res.body), "the store does not answer") {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	if res := h.do("GET", "/livez", ""); res.StatusCode != 200 {
		t.Errorf("livez depends on the store: %d", res.StatusCode)
	}
}

// TestUnrouted asks for what there is not, in every way.
func TestUnrouted(t *testing.T) {
	h := start(t, nil)
	for _, c := range []struct {
		method, path string
		status       int
		code         string
		allow        string
	}{
		{"GET", "/nothing", 404, problemNotFound, ""},
		{"POST", "/nothing", 404, problemNotFound, ""},
		{"GET", "/api/v1/", 404, problemNotFound, ""},
		{"GET", "/metrics", 404, problemNotFound, ""},
		{"GET", "/debug/pprof/", 404, problemNotFound, ""},
		{"GET", "/admin/v1/settings", 404, problemNotFound, ""},
		{"POST", "/api/v1/board", 405, problemMethod, "GET, HEAD"},
		{"GET", "/api/v1/placements", 405, problemMethod, "POST"},
		{"DELETE", "/", 405, problemMethod, "GET, HEAD"},
		{"OPTIONS", "/api/login/ann", 405, problemMethod, "POST"},
	} {
		res := h.do(c.method, c.path, "")
		wantProblem(t, c.method+" "+c.path, res, c.status, c.code)
		if got := res.Header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: allow %q, want %q", c.method, c.path, got, c.allow)
		}
	}
	if n := h.count("placed_http_refusals_total", "code", problemMethod); n != 4 {
		t.Errorf("%v counted", n)
	}
}

// TestPlacement places over HTTP and checks what reaches the board and what comes back.
func TestPlacement(t *testing.T) {
	h := start(t, nil)
	post := func(body, key string) response {
		return h.do("POST", "/api/v1/placements", body, "Content-Type: application/json; charset=utf-8", "Idempotency-Key: "+key,
			"Authorization: Bearer "+h.token("ann"))
	}
	res := post(`{"x":999,"y":-1,"colour":15,"turn":4}`, "00000000000000fF")
	want := `{"verdict":"accepted","x":999,"y":-1,"colour":15,"turn":4,"nonce":"00000000000000ff","col":19,"row":0,"sequence":7,"wait_ms":300000,"next_turn":5}`
	if res.StatusCode != 200 || strings.TrimSpace(string(res.body)) != want || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	if got := h.fake.placed[0]; got != (board.PlaceRequest{User: "ann", Turn: 4, Nonce: 255, At: board.Point{X: 999, Y: -1}, Colour: 15}) {
		t.Errorf("the board was asked for %+v", got)
	}
	post(`{"x":1,"y":1,"colour":1}`, "my-key")
	post(`{"x":1,"y":1,"colour":1}`, "my-key")
	post(`{"x":1,"y":1,"colour":1}`, "my-keyz")
	a, b, c := h.fake.placed[1], h.fake.placed[2], h.fake.placed[3]
	if a.Nonce != b.Nonce || a.Nonce == c.Nonce || a.Turn != 0 {
		t.Errorf("nonces %x, %x, %x", a.Nonce, b.Nonce, c.Nonce)
	}

	outcomes := func(o board.PlaceOutcome) {
		h.fake.outcome = func(context.Context, board.PlaceRequest) board.PlaceOutcome { return o }
	}
	outcomes(board.PlaceOutcome{Verdict: board.VerdictCharged, Turn: 4, WaitMs: 9, NextTurn: 5})
	if res := post(`{"x":1,"y":1,"colour":1}`, "k"); res.StatusCode != 202 || !strings.Contains(string(res.body), `"charged"`) {
		t.Errorf("charged: %d %s", res.StatusCode, res.body)
	}
	outcomes(board.PlaceOutcome{Verdict: board.VerdictUnknown})
	if p := wantProblem(t, "unknown", post(`{"x":1,"y":1,"colour":1}`, "k"), 503, problemUnknown); p.RetryAfterMs == 0 {
		t.Error("unknown without a time to try again")
	}
	for _, r := range board.Refusals[1:] {
		outcomes(board.PlaceOutcome{Verdict: board.VerdictRefused, Code: r.Code, WaitMs: 1500, NextTurn: 8, Colour: 3, TrueColour: true})
		p := wantProblem(t, r.Label, post(`{"x":1,"y":1,"colour":1}`, "k"), r.Status, r.Label)
		if p.Title != r.Sentence || p.RetryAfterMs != 1500 || p.NextTurn != 8 || p.TrueColour == nil || *p.TrueColour != 3 {
			t.Errorf("%s: %+v", r.Label, p)
		}
		if n := h.count("placed_http_refusals_total", "code", r.Label); n != 1 {
			t.Errorf("%s: counted %v", r.Label, n)
		}
	}
}

// TestPlacementTimesOut has the board answer nothing until the request's time is up: the answer is honest.
func TestPlacementTimesOut(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.PlaceTimeout = 50 * time.Millisecond })
	h.fake.outcome = func(ctx context.Context, r board.PlaceRequest) board.PlaceOutcome {
		<-ctx.Done()
		return board.PlaceOutcome{Verdict: board.VerdictUnknown, Nonce: r.Nonce}
	}
	wantProblem(t, "timed out", h.do("POST", "/api/v1/placements", `{"x":1,"y":1,"colour":1}`, "Content-Type: application/json",
		"Idempotency-Key: k", "Authorization: Bearer "+h.token("ann")), 503, problemUnknown)
}

// TestBadPlacements sends placements that none can be made of; nothing reaches the board.
func TestBadPlacements(t *testing.T) {
	h := start(t, nil)
	const good = `{"x":1,"y":1,"colour":1}`
	type c struct {
		name, body, kind, key, auth string
		status                      int
		code                        string
	}
	bearer, js := "Bearer "+h.token("ann"), "application/json"
	for _, c := range []c{
		{"no content type", good, "", "k", bearer, 415, problemMediaType},
		{"a form", "x=1&y=1&colour=1", "application/x-www-form-urlencoded", "k", bearer, 415, problemMediaType},
		{"text", good, "text/plain", "k", bearer, 415, problemMediaType},
		{"a broken content type", good, "application/json; charset", "k", bearer, 415, problemMediaType},
		{"no key", good, js, "", bearer, 400, problemKey},
		{"a long key", good, js, strings.Repeat("k", 129), bearer, 400, problemKey},
		{"a key that is not ASCII", good, js, "schlüssel", bearer, 400, problemKey},
		{"nobody", good, js, "k", "", 401, "sign_in"},
		{"a forged token", good, js, "k", "Bearer " + strings.Repeat("A", 100), 401, problemToken},
		{"another scheme", good, js, "k", "Basic YW5uOmFubg==", 401, problemToken},
		{"no JSON", "x", js, "k", bearer, 400, problemBadRequest},
		{"no body", "", js, "k", bearer, 400, problemBadRequest},
		{"null", "null", js, "k", bearer, 400, problemBadRequest},
		{"a list", "[]", js, "k", bearer, 400, problemBadRequest},
		{"half of it", `{"x":1,"y":1,"col`, js, "k", bearer, 400, problemBadRequest},
		{"two of it", good + good, js, "k", bearer, 400, problemBadRequest},
		{"an unknown field", `{"x":1,"y":1,"colour":1,"user":"bob"}`, js, "k", bearer, 400, problemBadRequest},
		{"a field twice", `{"x":1,"x":2,"y":1,"colour":1}`, js, "k", bearer, 400, problemBadRequest},
		{"a field in another case", `{"X":1,"y":1,"colour":1}`, js, "k", bearer, 400, problemBadRequest},
		{"a field in two cases", `{"x":1,"X":2,"y":1,"colour":1}`, js, "k", bearer, 400, problemBadRequest},
		{"no x", `{"y":1,"colour":1}`, js, "k", bearer, 400, problemBadRequest},
		{"no colour", `{"x":1,"y":1}`, js, "k", bearer, 400, problemBadRequest},
		{"x null", `{"x":null,"y":1,"colour":1}`, js, "k", bearer, 400, problemBadRequest},
		{"x a text", `{"x":"1","y":1,"colour":1}`, js, "k", bearer, 400, problemBadRequest},
		{"x a fraction", `{"x":1.5,"y":1,"colour":1}`, js, "k", bearer, 400, problemBadRequest},
		{"x NaN", `{"x":NaN,"y":1,"colour":1}`, js, "k", bearer, 400, problemBadRequest},
		{"x beyond 64 bits", `{"x":18446744073709551616,"y":1,"colour":1}`, js, "k", bearer, 400, problemBadRequest},
		{"a turn below 0", `{"x":1,"y":1,"colour":1,"turn":-1}`, js, "k", bearer, 400, problemBadRequest},
		{"colour 256", `{"x":1,"y":1,"colour":256}`, js, "k", bearer, 422, "colour"},
		{"colour -1", `{"x":1,"y":1,"colour":-1}`, js, "k", bearer, 422, "colour"},
		{"too large", `{"x":1,"y":1,"colour":1` + strings.Repeat(" ", 1024) + "}", js, "k", bearer, 413, problemTooLarge},
	} {
		var header []string
		for name, value := range map[string]string{"Content-Type": c.kind, "Idempotency-Key": c.key, "Authorization": c.auth} {
			if value != "" {
				header = append(header, name+": "+value)
			}
		}
		before := h.count("placed_http_refusals_total", "code", c.code)
		wantProblem(t, c.name, h.do("POST", "/api/v1/placements", c.body, header...), c.status, c.code)
		if h.count("placed_http_refusals_total", "code", c.code) != before+1 {
			t.Errorf("%s: not counted", c.name)
		}
	}
	wantProblem(t, "two keys", h.do("POST", "/api/v1/placements", good, "Content-Type: "+js, "Authorization: "+bearer,
		"Idempotency-Key: a", "Idempotency-Key: b"), 400, problemKey)
	if _, placed := h.fake.state(); placed != 0 {
		t.Errorf("%d placements reached the board", placed)
	}
}

// TestCrossOrigin posts from another site's page.
func TestCrossOrigin(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.AllowedOrigins = []string{"https://friend.example"} })
	cookie := "Cookie: " + CookieName + "=" + h.token("ann")
	post := func(header ...string) response {
		return h.do("POST", "/api/v1/placements", `{"x":1,"y":1,"colour":1}`, append(header, cookie, "Content-Type: application/json", "Idempotency-Key: k")...)
	}
	wantProblem(t, "another site", post("Sec-Fetch-Site: cross-site", "Origin: https://evil.example"), 403, problemOrigin)
	wantProblem(t, "another site, old browser", post("Origin: https://evil.example"), 403, problemOrigin)
	wantProblem(t, "a sandbox", post("Origin: null"), 403, problemOrigin)
	wantProblem(t, "signing in from another site", h.do("POST", "/api/login/eve", "", "Origin: https://evil.example"), 403, problemOrigin)
	if res := post("Sec-Fetch-Site: same-origin"); res.StatusCode != 200 {
		t.Errorf("the own page: %d", res.StatusCode)
	}
	if res := post("Sec-Fetch-Site: cross-site", "Origin: https://friend.example"); res.StatusCode != 200 {
		t.Errorf("an allowed page: %d", res.StatusCode)
	}
	if _, placed := h.fake.state(); placed != 2 {
		t.Errorf("%d placements", placed)
	}
}

// TestSlowRequest writes a header that never ends; the connection is closed.
func TestSlowRequest(t *testing.T) {
	bubble(t, nil, func(t *testing.T, b *bubbleServer) {
		nc := b.connect(t, "192.0.2.1")
		io.WriteString(nc, "GET /api/v1/board HTTP/1.1\r\nX: ")
		began := time.Now()
		go func() {
			for {
				<-time.After(time.Second)
				if _, err := nc.Write([]byte("a")); err != nil {
					return
				}
			}
		}()
		io.ReadAll(nc)
		if took := time.Since(began); took > b.cfg.HeaderTimeout+time.Second {
			t.Errorf("closed after %v", took)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
	})
}

// TestHugeHeader sends a header beyond the limit.
func TestHugeHeader(t *testing.T) {
	h := start(t, nil)
	nc, err := net.Dial("tcp", h.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	go io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("a", 64*1024)+"\r\n\r\n")
	nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	line := make([]byte, 12)
	if _, err := io.ReadFull(nc, line); err != nil || string(line) != "HTTP/1.1 431" {
		t.Errorf("%q, %v", line, err)
	}
}

// TestZeroShows checks that every reason has its series before anything has happened.
func TestZeroShows(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.PublicMetrics = true })
	families, err := h.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			series++
			if v := metric.GetCounter().GetValue() + metric.GetGauge().GetValue(); v != 0 {
				t.Errorf("%s %v is %v at the start", family.GetName(), metric.GetLabel(), v)
			}
		}
	}
	if want := len(ownProblems) + len(board.Refusals) - 1 + len(closeCodes); series < want {
		t.Errorf("%d series, want at least %d", series, want)
	}
	text := string(h.do("GET", "/metrics", "").body)
	for _, name := range []string{
		`placed_http_refusals_total{code="cooldown"} 0`, `placed_http_refusals_total{code="origin"} 0`, `placed_ws_closes_total{code="4001"} 0`,
		`placed_ws_bad_messages_total{reason="flood"} 0`, "placed_ws_connections 0", "placed_ws_slow_client_drops_total 0",
		`placed_bad_tokens_total{reason="forged"} 0`, `placed_snapshot_requests_total{cache="304"} 0`,
	} {
		if !strings.Contains(text, name+"\n") {
			t.Errorf("no %s", name)
		}
	}
}

// TestFrozenNonce fixes how keys become nonces: a retry may come to a newer program.
func TestFrozenNonce(t *testing.T) {
	for key, want := range map[string]uint64{
		"0123456789abcdef": 0x0123456789abcdef, "0123456789ABCDEF": 0x0123456789abcdef,
		"0123456789abcdeg": 0xf95db7a3a36b44df, "k": 0x8254c329a92850f6,
	} {
		if got, ok := nonceOf([]string{key}); !ok || got != want {
			t.Errorf("%q: %#x", key, got)
		}
	}
}

// FuzzBoardPNG feeds the renderer boards that no feed would make.
func FuzzBoardPNG(f *testing.F) {
	f.Add(newFakeSystem().body, uint32(16))
	f.Add(binary.LittleEndian.AppendUint64([]byte("PLCD"), 1), uint32(2))
	f.Fuzz(func(t *testing.T, body []byte, colours uint32) {
		decoded, err := wire.DecodeBoard(body)
		if err == nil && decoded.Width*decoded.Height > 1_000_000 {
			return // larger than is ever drawn here
		}
		palette := make([]board.PaletteEntry, 1+colours%256)
		out, err2 := renderPNG(body, palette)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("decoded: %v, drawn: %v", err, err2)
		}
		if err2 == nil {
			if _, err := png.Decode(bytes.NewReader(out)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

var _ http.Handler = (*Server)(nil)
