package place2017_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/placed-board/placed/board"
)

// upgradeStatus returns the status of an upgrade that is refused.
func upgradeStatus(t *testing.T, address string) int {
	t.Helper()
	ws, res, err := websocket.DefaultDialer.DialContext(t.Context(), address, nil)
	if err == nil {
		ws.Close()
		return http.StatusSwitchingProtocols
	}
	if res == nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// wantClose reads until the session is closed with the code.
func (l *listener) wantClose(code int) {
	l.t.Helper()
	l.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		if _, _, err := l.ReadMessage(); err != nil {
			if !websocket.IsCloseError(err, code) {
				l.t.Errorf("ended with %v, want %d", err, code)
			}
			return
		}
	}
}

// A program of 2017, whole: it signs in, reads the page, listens, looks for a tile that differs from its picture, draws it,
// hears of it, waits as it is told and draws the next.
func TestBot(t *testing.T) {
	n := startNode(t, func(s *board.Settings) { s.CooldownMs = 250 })
	picture := map[board.Point]int{{X: 10, Y: 20}: 5, {X: 11, Y: 20}: 0, {X: 11, Y: 21}: 13}
	watcher := n.bot().listen()
	b := n.login("artist")
	drawn := 0
	for {
		bitmap := b.get("/api/place/board-bitmap?nocache").body[4:]
		var wrong []board.Point
		for p, color := range picture {
			at := p.Y*1000 + p.X
			if got := int(bitmap[at/2] >> (4 * (1 - at%2)) & 15); got != color {
				wrong = append(wrong, p)
			}
		}
		if len(wrong) == 0 {
			break
		}
		p := wrong[0]
		wait, _ := b.get("/api/place/time.json").fields(t)["wait_seconds"].(float64)
		<-time.After(time.Duration(wait * float64(time.Second))) // as the program does
		a := b.draw(fmt.Sprint(p.X), fmt.Sprint(p.Y), fmt.Sprint(picture[p]))
		if a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		drawn++
		if got, want := watcher.place(), (tile{"artist", p.X, p.Y, picture[p]}); got != want {
			t.Fatalf("heard of %+v, want %+v", got, want)
		}
	}
	if drawn != 2 {
		t.Errorf("%d placements for two tiles that differ", drawn)
	}
}

// Of parallel draws of one user one is taken; all others are too early, with a number.
func TestParallelDraws(t *testing.T) {
	n := startNode(t, nil)
	b := n.login("greedy")
	var wg sync.WaitGroup
	answers := make([]answer, 20)
	for i := range answers {
		wg.Go(func() { answers[i] = b.draw(fmt.Sprint(i), "1", "1") })
	}
	wg.Wait()
	taken := 0
	for _, a := range answers {
		wait, ok := a.fields(t)["wait_seconds"].(float64)
		switch {
		case a.StatusCode == 200 && wait == 300:
			taken++
		case a.StatusCode != 429 || !ok || wait <= 0:
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
	}
	if taken != 1 {
		t.Errorf("%d of one user's draws were taken", taken)
	}
}

// The page's configuration has all keys that programs of 2017 read, and only what they can read.
func TestPage(t *testing.T) {
	n := startNode(t, func(s *board.Settings) { s.Width, s.Height, s.CooldownMs = 120, 77, 1500 })
	host := strings.TrimPrefix(n.url, "http://")
	got := n.bot().config("")
	socket := got["place_websocket_url"].(string)
	if !strings.HasPrefix(socket, "ws://"+host+"/place?m=") || strings.ContainsAny(socket, "&\\") {
		t.Errorf("websocket at %s", socket)
	}
	delete(got, "place_websocket_url")
	want := map[string]any{
		"place_canvas_width": 120.0, "place_canvas_height": 77.0, "place_cooldown": 1.5, "place_fullscreen": false, "place_hide_ui": false,
		"place_active_visitors": 0.0, "logged": false, "modhash": false, "currentOrigin": n.url,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	ann := n.login("</script><b>")
	ann.draw("1", "1", "1")
	got = ann.config("?webview=true&hide_palette=1", "X-Forwarded-Proto: https")
	if wait := got["place_wait_seconds"].(float64); wait <= 0 || wait > 1.5 {
		t.Errorf("waits %v", wait)
	}
	if got["logged"] != "</script><b>" || got["modhash"] != ann.modhash || got["place_fullscreen"] != true || got["place_hide_ui"] != true ||
		got["currentOrigin"] != "https://"+host || !strings.HasPrefix(got["place_websocket_url"].(string), "wss://"+host+"/place?m=") {
		t.Errorf("%v", got)
	}
	page := n.bot().get("/place")
	if policy := page.Header.Get("Content-Security-Policy"); !bytes.Contains(page.body, []byte(`<canvas id="board"`)) || strings.Count(policy, "'sha256-") != 2 {
		t.Errorf("not our page, or under the policy %q", policy)
	}
	if a := n.bot().get("/place/?webview=1"); a.StatusCode != 301 || a.Header.Get("Location") != "/place?webview=1" {
		t.Errorf("%d to %s", a.StatusCode, a.Header.Get("Location"))
	}
	browser := n.bot() // becomes somebody with the page, and draws with what it says
	config := browser.config("", "Sec-Fetch-Dest: document")
	browser.modhash, _ = config["modhash"].(string)
	if a := browser.draw("2", "2", "2"); a.StatusCode != 200 || string(a.body) != `{"wait_seconds":1.5}` {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// Only who was given an address listens, and only by a websocket.
func TestSignedAddress(t *testing.T) {
	n := startNode(t, nil)
	b := n.bot()
	good := b.config("")["place_websocket_url"].(string)
	address, m, _ := strings.Cut(good, "?m=")
	flipped := []byte(m)
	flipped[3] ^= 1
	for name, c := range map[string]struct {
		address string
		status  int
	}{
		"no signature": {address, 403}, "empty": {address + "?m=", 403}, "forged": {address + "?m=" + string(flipped), 403},
		"short": {address + "?m=" + m[:20], 403}, "not base64": {address + "?m=***", 403}, "good": {good, 101},
	} {
		if got := upgradeStatus(t, c.address); got != c.status {
			t.Errorf("%s: %d, want %d", name, got, c.status)
		}
	}
	if a := b.get("/place?m=" + m); a.StatusCode != 400 {
		t.Errorf("no websocket: %d", a.StatusCode)
	}
	if got := n.count("placed_2017_refusals_total", "signature"); got != 5 {
		t.Errorf("counted %v bad signatures", got)
	}
}

// What clients send is dropped; the connection stays, and hears of what comes.
func TestClientsAreNotHeard(t *testing.T) {
	n := startNode(t, nil)
	ann := n.login("ann")
	l := ann.listen()
	for _, kind := range []int{websocket.TextMessage, websocket.BinaryMessage} {
		for range 5 {
			if err := l.WriteMessage(kind, []byte(`{"type":"place","payload":{"x":1,"y":1,"color":1}}`)); err != nil {
				t.Fatal(err)
			}
		}
	}
	pongs := make(chan string, 1)
	l.SetPongHandler(func(text string) error { pongs <- text; return nil })
	if err := l.WriteControl(websocket.PingMessage, []byte("there?"), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	ann.draw("5", "6", "7")
	if got, want := l.place(), (tile{"ann", 5, 6, 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	select {
	case text := <-pongs:
		if text != "there?" {
			t.Errorf("pong %q", text)
		}
	default:
		t.Error("no pong before what came after it")
	}
	if got := n.count("placed_2017_sessions", ""); got != 1 {
		t.Errorf("%v sessions", got)
	}
	l.Close()
	n.until("gone", func() bool { return n.count("placed_2017_sessions", "") == 0 })
}

// A rectangle of an operator is told in one message with all its tiles, and shows no author.
func TestDrawRect(t *testing.T) {
	n := startNode(t, func(s *board.Settings) { s.CooldownMs = 0 })
	ann := n.login("ann")
	l := ann.listen()
	for i := range 8 {
		ann.draw(fmt.Sprint(990+i), "995", "5")
		l.place()
	}
	fields := url.Values{"x": {"992"}, "y": {"990"}, "width": {"99"}, "height": {"7"}}
	a := n.bot().post("/api/place/drawrect.json", fields, "Authorization: Bearer "+operatorsToken)
	if a.StatusCode != 200 || string(a.body) != noErrors {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	m := l.next()
	var tiles []tile
	if err := json.Unmarshal(m.Payload, &tiles); err != nil || m.Type != "batch-place" {
		t.Fatalf("%s %s: %v", m.Type, m.Payload, err)
	}
	var want []tile
	for x := 992; x < 1000; x++ {
		for y := 990; y < 997; y++ {
			want = append(want, tile{"", x, y, 0})
		}
	}
	if !slices.Equal(tiles, want) {
		t.Errorf("told %v", tiles)
	}
	if a := ann.get("/api/place/pixel.json?x=995&y=995"); string(a.body) != noErrors {
		t.Errorf("pixel %s", a.body)
	}
	if got := ann.get("/api/place/pixel.json?x=991&y=995").fields(t)["user_name"]; got != "ann" {
		t.Errorf("outside the rectangle: %v", got)
	}
	ann.draw("1", "1", "1") // nothing else was told
	if got, want := l.place(), (tile{"ann", 1, 1, 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A new size and an operator tell pages to load themselves anew; a stop closes them, and lets nobody in.
func TestRefreshAndDrain(t *testing.T) {
	n := startNode(t, nil)
	b := n.bot()
	address := b.config("")["place_websocket_url"].(string)
	l := b.listen()
	n.change(func(s *board.Settings) { s.Width = 1100 })
	if m := l.next(); m.Type != "refresh" {
		t.Errorf("%+v", m)
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", n.adm+"/admin/v1/refresh", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+operatorsToken)
	if res, err := http.DefaultClient.Do(r); err != nil || res.StatusCode != 204 {
		t.Fatalf("%v %v", res, err)
	}
	if m := l.next(); m.Type != "refresh" {
		t.Errorf("%+v", m)
	}
	drained := make(chan error, 1)
	go func() { drained <- n.server.Drain(t.Context()) }()
	n.until("nobody let in", func() bool { return upgradeStatus(t, address) == http.StatusGone })
	l.wantClose(1012)
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// Every way in which programs of 2017 find the address of the websocket finds it, on each page that they look at.
func TestScraping(t *testing.T) {
	n := startNode(t, nil)
	ann := n.login(`a "quoted", name: \`)
	for _, path := range []string{"/place", "/place?webview=true", "/r/place", "/r/place/"} {
		a := ann.get(path)
		text := string(a.body)
		var found []string
		for _, expression := range []string{`"place_websocket_url": "([^"]+)"`, `"place_websocket_url": "([\S]+)",`, `place_websocket_url":\s*"(.*?)"`} {
			if m := regexp.MustCompile(expression).FindStringSubmatch(text); m != nil {
				found = append(found, m[1])
			}
		}
		element := regexp.MustCompile(`(?s)id="config">(.*?)</script>`).FindStringSubmatch(text)
		if len(found) != 3 || element == nil {
			t.Fatalf("%s: found %q, element %q", path, found, element)
		}
		var config map[string]any // as programs cut it out: 8 characters in front, 1 behind
		if err := json.Unmarshal([]byte(element[1][8:len(element[1])-1]), &config); err != nil || config["place_websocket_url"] != found[0] || config["logged"] != ann.name {
			t.Errorf("%s: %v in %s", path, err, element[1])
		}
		if found[0] != found[1] || found[1] != found[2] || upgradeStatus(t, found[0]) != http.StatusSwitchingProtocols {
			t.Errorf("%s: %q", path, found)
		}
		if m := regexp.MustCompile(`"modhash": "(\w+)",`).FindStringSubmatch(text); m == nil || m[1] != ann.modhash {
			t.Errorf("%s: modhash %q", path, m)
		}
	}
}
