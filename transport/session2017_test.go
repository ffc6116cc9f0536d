package transport

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/placed-board/placed/board"
)

var signedSocket = regexp.MustCompile(`"place_websocket_url": "(ws://[^"]+)"`)

// address2017 returns the address of the websocket in the page.
func (h *harness) address2017() string {
	h.t.Helper()
	found := signedSocket.FindSubmatch(h.do("GET", "/place", "").body)
	if found == nil {
		h.t.Fatal("no websocket in the page")
	}
	return string(found[1])
}

// slow2017 opens a websocket with as small a buffer as there is, from which nobody reads.
func (h *harness) slow2017() *rawConn {
	h.t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { nc.Close() })
	nc.(*net.TCPConn).SetReadBuffer(4096)
	_, path, _ := strings.Cut(strings.TrimPrefix(h.address2017(), "ws://"), "/")
	fmt.Fprintf(nc, "GET /%s HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", path)
	r := &rawConn{Conn: nc, br: bufio.NewReader(nc)}
	res, err := http.ReadResponse(r.br, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		h.t.Fatal(res, err)
	}
	return r
}

// storm2017 tells of n placements, numbered from first on by their place on the board.
func (h *harness) storm2017(first, n int) {
	placed := make([]board.PlacedTile, n)
	for i := range placed {
		placed[i] = board.PlacedTile{At: board.Point{X: (first + i) % 1000, Y: (first + i) / 1000}, Colour: 5, User: "ann"}
	}
	h.fake.mu.Lock()
	told := h.fake.told
	h.fake.mu.Unlock()
	told(placed, false)
}

// message2017 is a message of the face of 2017.
type message2017 struct {
	Type    string
	Payload struct{ X, Y int }
}

// TestSlowReaders2017 has somebody read nothing while others hear of everything; when that one reads again it is told to
// refresh, and hears what comes after.
func TestSlowReaders2017(t *testing.T) {
	h := start(t, nil)
	late := h.slow2017()
	healthy, res, err := websocket.DefaultDialer.Dial(h.address2017(), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	defer healthy.Close()
	healthy.SetReadDeadline(time.Now().Add(time.Minute))

	const storm = 500 // about 40 KB
	sent := 0
	for count(t, h.reg, "placed_2017_skipped_total") == 0 {
		h.storm2017(sent, storm)
		for range storm {
			if m := next2017(t, healthy.ReadMessage); m.Type != "place" || m.Payload.X != sent%1000 || m.Payload.Y != sent/1000 {
				t.Fatalf("message %d is %+v", sent, m)
			}
			sent++
		}
		if sent > 1_000_000 {
			t.Fatal("the slow one's socket takes everything")
		}
	}
	slow := func() (int, []byte, error) {
		op, b, err := late.readFrame()
		return int(op), b, err
	}
	heard := 0
	for m := next2017(t, slow); m.Type != "refresh"; m = next2017(t, slow) {
		if m.Type != "place" || m.Payload.X != heard%1000 || m.Payload.Y != heard/1000 {
			t.Fatalf("message %d of the slow one is %+v", heard, m)
		}
		heard++
	}
	if heard == 0 || heard >= sent {
		t.Errorf("heard %d of %d before the refresh", heard, sent)
	}
	h.storm2017(sent, 1)
	if m := next2017(t, slow); m.Type != "place" || m.Payload.X != sent%1000 {
		t.Errorf("after the refresh %+v", m)
	}
	if n := count(t, h.reg, "placed_2017_refreshes_total", "cause", "slow"); n != 1 {
		t.Errorf("%v refreshes", n)
	}
}

// next2017 returns the next message that is not about how many are online.
func next2017(t *testing.T, read func() (int, []byte, error)) message2017 {
	t.Helper()
	for {
		_, b, err := read()
		if err != nil {
			t.Fatal(err)
		}
		var m message2017
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if m.Type != "activity" {
			return m
		}
	}
}

// TestSilentClients2017 never answers a ping, and is pinged and kept.
func TestSilentClients2017(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.PingAfter, cfg.DeadAfter = 10*time.Millisecond, 20*time.Millisecond })
	nc := h.slow2017()
	for i := range 5 {
		if op, b, err := nc.readFrame(); op != opPing || len(b) != 0 || err != nil {
			t.Fatalf("frame %d: %x %q %v", i, op, b, err)
		}
	}
	h.storm2017(7, 1)
	m := next2017(t, func() (op int, b []byte, err error) {
		for op = opPing; op == opPing && err == nil; {
			var bits byte
			bits, b, err = nc.readFrame()
			op = int(bits)
		}
		return op, b, err
	})
	if m.Payload.X != 7 {
		t.Errorf("%+v", m)
	}
}

// TestBadFrames2017 ends sessions whose clients break the websocket's own rules, and only those.
func TestBadFrames2017(t *testing.T) {
	h := start(t, nil)
	for name, c := range map[string]struct {
		send []byte
		code string
	}{
		"unmasked":      {[]byte{0x81, 1, 'x'}, "1002"},
		"reserved bits": {[]byte{0xf1, 0x80, 0, 0, 0, 0}, "1002"},
		"too long":      {append([]byte{0x82, 0xfe, 0x10, 0x00, 0, 0, 0, 0}, make([]byte, 4096)...), "1009"},
		"close":         {[]byte{0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8}, "1000"},
	} {
		before := count(t, h.reg, "placed_ws_closes_total", "code", c.code)
		h.slow2017().Write(c.send)
		eventually(t, name, func() bool { return count(t, h.reg, "placed_ws_closes_total", "code", c.code) == before+1 })
	}
	eventually(t, "all gone", func() bool {
		return count(t, h.reg, "placed_2017_sessions") == 0 && count(t, h.reg, "placed_ws_connections") == 0
	})
}

// TestLimits2017 answers requests above the limits so that programs of 2017 know how long to wait.
func TestLimits2017(t *testing.T) {
	h := start(t, func(cfg *Config) { limited(cfg); cfg.RequestsPerSecond = 1; cfg.SessionsMax = 1 })
	for {
		res := h.do("GET", "/api/place/time.json", "")
		if res.StatusCode == http.StatusOK {
			continue
		}
		var got struct {
			Error int
			Wait  float64 `json:"wait_seconds"`
		}
		if err := json.Unmarshal(res.body, &got); err != nil || res.StatusCode != 429 || got.Error != 429 || got.Wait <= 0 {
			t.Errorf("%d %s", res.StatusCode, res.body)
		}
		break
	}
}

// TestOperator2017 rations guesses of the operators' token.
func TestOperator2017(t *testing.T) {
	h := start(t, nil)
	statuses := map[int]int{}
	for range 3 * adminFailuresPerMinute {
		statuses[h.do("POST", "/api/place/drawrect.json", "x=1&y=1", "Content-Type: application/x-www-form-urlencoded", "Authorization: Bearer guess").StatusCode]++
	}
	if statuses[200] != adminFailuresPerMinute || statuses[429] != 2*adminFailuresPerMinute {
		t.Errorf("%v", statuses)
	}
}

// TestBasePath2017 names addresses below the base path.
func TestBasePath2017(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.BasePath = "/board" })
	h.url += "/board"
	ws, res, err := websocket.DefaultDialer.Dial(h.address2017(), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	defer ws.Close()
	if !strings.Contains(h.address2017(), "/board/place?m=") {
		t.Error(h.address2017())
	}
	if res := h.do("GET", "/place/", ""); res.Header.Get("Location") != "/board/place" {
		t.Errorf("%d to %q", res.StatusCode, res.Header.Get("Location"))
	}
}
