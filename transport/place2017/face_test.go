package place2017_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
)

// Bodies that are the same for many requests.
const (
	userRequired = `{"json":{"errors":[["USER_REQUIRED","Please log in to do that.",null]]}}`
	badX         = `["BAD_NUMBER","that number isn't in the right range (0 to 1000)","x"]`
	badY         = `["BAD_NUMBER","that number isn't in the right range (0 to 1000)","y"]`
	badColor     = `["BAD_COLOR","invalid color","color"]`
	noErrors     = `{"json":{"errors":[]}}`
	forbidden    = `{"error":403,"message":"Forbidden"}`
)

func errorsOf(entries ...string) string {
	return `{"json":{"errors":[` + strings.Join(entries, ",") + `]}}`
}

// form names the fields of a draw.
func form(x, y, color string) url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"x": x, "y": y, "color": color} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// Every refusal and every answer without a time in it is as it was in 2017, byte by byte, and none of the refused placements is
// charged.
func TestAnswers(t *testing.T) {
	n := startNode(t, nil)
	nobody, ann := n.bot(), n.login("ann")
	other := *ann
	other.modhash = n.login("zoe").modhash
	none := *ann
	none.modhash = ""
	const draw, rect = "/api/place/draw.json", "/api/place/drawrect.json"
	for name, c := range map[string]struct {
		got    answer
		status int
		body   string
	}{
		"draw, logged out":            {nobody.draw("1", "1", "1"), 200, userRequired},
		"draw, logged out, no form":   {nobody.do("POST", draw, nil), 200, userRequired},
		"draw, forged cookie":         {nobody.post(draw, form("1", "1", "1"), "Cookie: reddit_session=AQAA"), 200, userRequired},
		"draw, no modhash":            {none.draw("1", "1", "1"), 403, forbidden},
		"draw, modhash of another":    {other.draw("1", "1", "1"), 403, forbidden},
		"draw, bad modhash, bad form": {none.draw("x", "", ""), 403, forbidden},
		"draw, x is the size":         {ann.draw("1000", "1", "1"), 200, errorsOf(badX)},
		"draw, y is the size":         {ann.draw("1", "1000", "1"), 200, errorsOf(badY)},
		"draw, x below 0":             {ann.draw("-1", "1", "1"), 200, errorsOf(badX)},
		"draw, x enormous":            {ann.draw("99999999999999999999999", "1", "1"), 200, errorsOf(badX)},
		"draw, x a fraction":          {ann.draw("1.5", "1", "1"), 200, errorsOf(badX)},
		"draw, x not there":           {ann.post(draw, form("", "1", "1")), 200, errorsOf(badX)},
		"draw, nothing there":         {ann.post(draw, nil), 200, errorsOf(badX, badY, badColor)},
		"draw, no color":              {ann.post(draw, form("1", "1", "")), 200, errorsOf(badColor)},
		"draw, color a word":          {ann.draw("1", "1", "red"), 200, errorsOf(badColor)},
		"draw, JSON":                  {ann.do("POST", draw, strings.NewReader(`{"x":1,"y":1,"color":1}`), "Content-Type: application/json", "X-Modhash: "+ann.modhash), 200, errorsOf(badX, badY, badColor)},
		"draw, too long":              {ann.post(draw, url.Values{"x": {strings.Repeat("1", 9000)}}), 413, `{"error":413,"message":"That request is too large."}`},
		"draw, broken escapes":        {ann.do("POST", draw, strings.NewReader("x=%zz&y=1&color=1"), "Content-Type: application/x-www-form-urlencoded", "X-Modhash: "+ann.modhash), 200, errorsOf(badX)},
		"draw, broken multipart":      {ann.do("POST", draw, strings.NewReader("--a\r\nnonsense"), "Content-Type: multipart/form-data; boundary=a", "X-Modhash: "+ann.modhash), 200, errorsOf(badX, badY, badColor)},
		"time, logged out":            {nobody.get("/api/place/time.json"), 200, userRequired},
		"time":                        {ann.get("/api/place/time.json"), 200, `{"wait_seconds":0.0}`},
		"pixel, untouched":            {nobody.get("/api/place/pixel.json?x=3&y=3"), 200, noErrors},
		"pixel, bad":                  {nobody.get("/api/place/pixel.json?x=1000&y=-1"), 200, errorsOf(badX, badY)},
		"pixel, nothing":              {nobody.get("/api/place/pixel.json"), 200, errorsOf(badX, badY)},
		"drawrect, logged out":        {nobody.post(rect, form("1", "1", "")), 200, userRequired},
		"drawrect, user":              {ann.post(rect, form("1", "1", "")), 403, forbidden},
		"drawrect, wrong token":       {nobody.post(rect, form("1", "1", ""), "Authorization: Bearer wrong"), 200, userRequired},
		"drawrect, bad":               {nobody.post(rect, form("1000", "", ""), "Authorization: Bearer "+operatorsToken), 200, errorsOf(badX, badY)},
		"me, logged out":              {nobody.get("/api/me.json"), 200, `{}`},
		"me":                          {ann.get("/api/me.json"), 200, `{"kind":"t2","data":{"name":"ann","modhash":"` + ann.modhash + `"}}`},
	} {
		if c.got.StatusCode != c.status || strings.TrimSpace(string(c.got.body)) != c.body {
			t.Errorf("%s: %d %s\nwant %d %s", name, c.got.StatusCode, c.got.body, c.status, c.body)
		}
		if kind := c.got.Header.Get("Content-Type"); kind != "application/json; charset=UTF-8" {
			t.Errorf("%s: %s", name, kind)
		}
	}
	for _, path := range []string{"draw", "time", "pixel", "drawrect", "state.json", "board-bitmap.json", "board-bitmap/cached"} {
		for _, method := range []string{"GET", "POST"} {
			if a := ann.do(method, "/api/place/"+path, nil); a.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s: %d", method, path, a.StatusCode)
			}
		}
	}
	if a := ann.draw("1", "1", "1"); a.StatusCode != 200 || string(a.body) != `{"wait_seconds":300}` {
		t.Errorf("refusals were charged: %d %s", a.StatusCode, a.body)
	}
	for reason, want := range map[string]float64{"modhash": 3, "user_required": 6, "bad_color": 5, "not_operator": 1, "body": 1} {
		if got := n.count("placed_2017_refusals_total", reason); got != want {
			t.Errorf("counted %v of %s, want %v", got, reason, want)
		}
	}
}

// A placement is on the board, in the details of its tile and in the cooldown when its answer comes; the next one is too early
// by a number of seconds.
func TestDraw(t *testing.T) {
	n := startNode(t, nil)
	ann := n.login("ann")
	before := time.Now()
	if a := ann.draw(" 999", "+7", "99"); a.StatusCode != 200 || string(a.body) != `{"wait_seconds":300}` {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	pixel := ann.get("/api/place/pixel.json?x=999&y=7").fields(t)
	at, _ := pixel["timestamp"].(float64)
	if pixel["user_name"] != "ann" || pixel["color"] != 15.0 || pixel["x"] != 999.0 || pixel["y"] != 7.0 ||
		at < float64(before.Unix())-1 || at > float64(time.Now().Unix())+1 {
		t.Errorf("pixel %v", pixel)
	}
	wait, _ := ann.get("/api/place/time.json").fields(t)["wait_seconds"].(float64)
	if wait <= 290 || wait > 300 {
		t.Errorf("waits %v s", wait)
	}
	a := ann.draw("1", "1", "1")
	early := a.fields(t)
	if a.StatusCode != 429 || early["error"] != 429.0 || early["wait_seconds"].(float64) <= 290 || a.Header.Get("Retry-After") == "" || len(early) != 2 {
		t.Errorf("too early: %d %s", a.StatusCode, a.body)
	}
	zoe := n.login("zoe")
	zoe.draw("3", "3", "-3")
	if got := zoe.get("/api/place/pixel.json?x=3&y=3").fields(t); got["color"] != 0.0 || got["user_name"] != "zoe" {
		t.Errorf("pixel %v", got)
	}
}

// Every way to send a draw that programs of 2017 had works.
func TestWaysToDraw(t *testing.T) {
	n := startNode(t, nil)
	const draw, plain = "/api/place/draw.json", "Content-Type: application/x-www-form-urlencoded"
	for i, send := range []func(b *bot) answer{
		func(b *bot) answer { // the modhash as a field
			modhash := b.modhash
			b.modhash = ""
			return b.post(draw, url.Values{"x": {"1"}, "y": {"1"}, "color": {"4"}, "uh": {modhash}})
		},
		func(b *bot) answer { // multipart
			var body bytes.Buffer
			w := multipart.NewWriter(&body)
			for name, value := range map[string]string{"x": "1", "y": "1", "color": "4"} {
				w.WriteField(name, value)
			}
			w.Close()
			return b.do("POST", draw, &body, "Content-Type: "+w.FormDataContentType(), "X-Modhash: "+b.modhash)
		},
		func(b *bot) answer { // no media type
			return b.do("POST", draw, io.MultiReader(strings.NewReader("x=1&y=1&color=4")), "X-Modhash: "+b.modhash)
		},
		func(b *bot) answer { // all in the query
			return b.do("POST", draw+"?x=1&y=1&color=4", nil, "X-Modhash: "+b.modhash)
		},
		func(b *bot) answer { // a bearer token instead of a cookie needs no modhash
			cookie := b.client.Jar.Cookies(must(url.Parse(b.url)))[0].Value
			return b.node.bot().do("POST", draw, strings.NewReader("x=1&y=1&color=4"), plain, "Authorization: bearer "+cookie)
		},
		func(b *bot) answer { // the cookie of the answer, set by hand, and a foreign Origin with it
			a := b.post("/api/login/"+b.name, url.Values{"user": {b.name}})
			data := a.fields(b.t)["json"].(map[string]any)["data"].(map[string]any)
			return b.node.bot().do("POST", draw, strings.NewReader("x=1&y=1&color=4"), plain, "Origin: https://www.reddit.com",
				"Cookie: reddit_session="+data["cookie"].(string), "X-Modhash: "+data["modhash"].(string))
		},
	} {
		b := n.login(fmt.Sprint("user", i))
		if a := send(b); a.StatusCode != 200 || string(a.body) != `{"wait_seconds":300}` {
			t.Errorf("way %d: %d %s", i, a.StatusCode, a.body)
		}
		if got := b.get("/api/place/pixel.json?x=1&y=1").fields(t)["user_name"]; got != b.name {
			t.Errorf("way %d: placed by %v", i, got)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Signing in answers in the words of 2017, and sets the cookie of that time.
func TestLogin(t *testing.T) {
	n := startNode(t, nil)
	b := n.bot()
	a := b.post("/api/login/bob", url.Values{"user": {"bob"}, "passwd": {"x"}})
	data := a.fields(t)["json"].(map[string]any)["data"].(map[string]any)
	if want := fmt.Sprintf(`{"json":{"errors":[],"data":{"modhash":%q,"cookie":%q}}}`, data["modhash"], data["cookie"]); strings.TrimSpace(string(a.body)) != want {
		t.Errorf("%s", a.body)
	}
	if got := b.client.Jar.Cookies(must(url.Parse(n.url))); len(got) != 2 || got[1].Name != "reddit_session" || got[1].Value != data["cookie"] {
		t.Errorf("cookies %v", got)
	}
	both := n.bot().do("POST", "/api/login/bob", nil).fields(t) // both faces' words to who sends no form
	if both["user"] != "bob" || both["json"].(map[string]any)["data"].(map[string]any)["modhash"] != data["modhash"] {
		t.Errorf("%v", both)
	}
	for _, path := range []string{"/api/login", "/post/login", "/api/login?user=cat"} {
		form := url.Values{"op": {"login-main"}, "user": {"cat"}, "passwd": {"x"}}
		if strings.Contains(path, "?") {
			form = nil
		}
		c := n.bot()
		if a := c.post(path, form); a.StatusCode != 200 || !strings.Contains(string(a.body), `"errors":[]`) {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
		if got := c.get("/api/me.json").fields(t)["data"].(map[string]any)["name"]; got != "cat" {
			t.Errorf("%s: signed in as %v", path, got)
		}
	}
	for _, bad := range []url.Values{nil, {"user": {""}}, {"user": {strings.Repeat("x", 2000)}}} {
		if a := n.bot().post("/api/login", bad); a.StatusCode != 200 || !strings.Contains(string(a.body), `"BAD_USERNAME"`) || len(a.Cookies()) > 0 {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
	}
	if a := b.post("/api/login/anon-1", nil); a.StatusCode != 200 || !strings.Contains(string(a.body), `"BAD_USERNAME"`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// The bitmap begins with the time, then holds the tiles row by row, two to a byte, whatever the width; never a cookie.
func TestBitmap(t *testing.T) {
	for _, width := range []int{120, 75} {
		n := startNode(t, func(s *board.Settings) { s.Width, s.Height, s.CooldownMs = width, 77, 0 })
		ann := n.login("ann")
		want := make([]byte, (width*77+1)/2)
		if got := ann.get("/api/place/board-bitmap").body; !bytes.Equal(got[4:], want) || binary.LittleEndian.Uint32(got) == 0 {
			t.Fatalf("%d bytes of an empty board %d wide", len(got), width)
		}
		for i, p := range []board.Point{{X: 0, Y: 0}, {X: 1, Y: 0}, {X: width - 1, Y: 0}, {X: width - 1, Y: 76}, {X: 51, Y: 50}, {X: 2, Y: 1}} {
			colour := i + 3
			if a := ann.draw(fmt.Sprint(p.X), fmt.Sprint(p.Y), fmt.Sprint(colour)); a.StatusCode != 200 || string(a.body) != `{"wait_seconds":0}` {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
			at := p.Y*width + p.X
			want[at/2] |= byte(colour) << (4 * (1 - at%2))
		}
		n.until("all placed", func() bool { return bytes.Equal(ann.get("/api/place/board-bitmap?nocache").body[4:], want) })
		a := ann.get("/api/place/board-bitmap")
		if age := time.Now().Unix() - int64(binary.LittleEndian.Uint32(a.body)); age < 0 || age > 60 {
			t.Errorf("%d s old", age)
		}
	}
}

// The headers of the bitmap are those of 2017.
func TestBitmapHeaders(t *testing.T) {
	n := startNode(t, nil)
	own := n.url
	for query, c := range map[string]struct{ origin, cache, allowed string }{
		"":                       {"", "max-age=1, stale-while-revalidate=1", ""},
		"?nostalecache":          {"", "max-age=1, stale-while-revalidate=1", ""},
		"?nocache":               {own, "private", own},
		"?nocache=1&%zz":         {"https://elsewhere.example", "private", own},
		"?a=b&nocache&x":         {"null", "private", own},
		"?nocach=1;nocache=true": {"", "max-age=1, stale-while-revalidate=1", ""},
	} {
		var header []string
		if c.origin != "" {
			header = append(header, "Origin: "+c.origin)
		}
		a := n.bot().get("/api/place/board-bitmap"+query, header...)
		h := a.Header
		if len(a.body) != 500_004 || h.Get("Cache-Control") != c.cache || h.Get("Access-Control-Allow-Origin") != c.allowed || h["Set-Cookie"] != nil {
			t.Errorf("%q: %d bytes, %v", query, len(a.body), h)
		}
		if cors := h.Get("Vary") + h.Get("Access-Control-Allow-Methods") + h.Get("Access-Control-Allow-Credentials"); cors != map[bool]string{true: "OriginGETtrue"}[c.origin != ""] {
			t.Errorf("%q: %v", query, h)
		}
	}
	if a := n.bot().do("HEAD", "/api/place/board-bitmap", nil); a.StatusCode != 200 || a.ContentLength != 500_004 {
		t.Errorf("HEAD: %d, %d bytes", a.StatusCode, a.ContentLength)
	}
}

// With more than 16 colours the face says so on every endpoint that shows or sets one, and its sessions end.
func TestTooManyColours(t *testing.T) {
	n := startNode(t, nil)
	ann := n.login("ann")
	l := ann.listen()
	socket := ann.config("")["place_websocket_url"].(string)
	n.change(func(s *board.Settings) {
		s.Palette = append(s.Palette, board.PaletteEntry{Name: "gold", RGB: 0xffd700})
	})
	for _, path := range []string{"board-bitmap", "time.json", "pixel.json?x=1&y=1"} {
		if a := ann.get("/api/place/" + path); a.StatusCode != 409 || a.fields(t)["error"] != 409.0 {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	if a := ann.draw("1", "1", "1"); a.StatusCode != 409 {
		t.Errorf("draw: %d", a.StatusCode)
	}
	if a := ann.post("/api/place/drawrect.json", form("1", "1", ""), "Authorization: Bearer "+operatorsToken); a.StatusCode != 409 {
		t.Errorf("drawrect: %d", a.StatusCode)
	}
	if status := upgradeStatus(t, socket); status != 409 {
		t.Errorf("websocket: %d", status)
	}
	l.wantClose(1013)
}

// What an operator has set so that nobody may place is forbidden; what passes says when.
func TestRefusalsOfTheBoard(t *testing.T) {
	n := startNode(t, nil)
	ann := n.login("ann")
	n.change(func(s *board.Settings) {
		s.Protected, s.Palette[3].Closed = []board.Rect{{X: 5, Y: 5, Width: 1, Height: 1}}, true
	})
	n.until("in force", func() bool { return n.system.Status(t.Context()).InForce })
	if a := ann.draw("5", "5", "1"); a.StatusCode != 403 || string(a.body) != `{"error":403,"message":"That area is protected."}` {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := ann.draw("6", "5", "3"); a.StatusCode != 200 || string(a.body) != errorsOf(badColor) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	n.change(func(s *board.Settings) { s.Frozen = true })
	n.until("in force", func() bool { return n.system.Status(t.Context()).InForce })
	if a := ann.draw("6", "5", "1"); a.StatusCode != 403 || string(a.body) != `{"error":403,"message":"The board is frozen."}` {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	n.system.Drain(t.Context())
	a := ann.draw("6", "5", "1")
	if got := a.fields(t); a.StatusCode != 503 || got["wait_seconds"].(float64) <= 0 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
