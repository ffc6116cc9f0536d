package place2017_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/actors"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client/web"
	"github.com/placed-board/placed/internal/apidoc"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/transport"
	"github.com/placed-board/placed/transport/place2017"
)

const operatorsToken = "operators-test-token-0123456789"

// node is a whole node on a memory store, over real sockets.
type node struct {
	t      *testing.T
	system *actors.System
	server *transport.Server
	reg    *prometheus.Registry
	url    string
	adm    string
}

func startNode(t *testing.T, change func(*board.Settings)) *node {
	t.Helper()
	reg, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	c := actors.DefaultConfig()
	c.Node = actors.Node{ID: 1, Address: "alone", Incarnation: 7}
	c.Store, c.Metrics, c.Logger = mem.New(), reg, log
	c.Board.CooldownMs = 300_000
	if change != nil {
		change(&c.Board)
	}
	system, err := actors.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	cfg := transport.DefaultConfig()
	cfg.Listen, cfg.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.AdminToken, cfg.SessionKey, cfg.Web = operatorsToken, []byte("a-session-key-for-tests-of-32-by"), web.FS()
	cfg.DrainNotice, cfg.DrainMove, cfg.Linger = 500*time.Millisecond, 100*time.Millisecond, 500*time.Millisecond
	server, err := transport.New(cfg, transport.Deps{
		Sessions: system, Placer: system, Board: system, Admin: system, History: system, Past: struct{ transport.Past }{}, Keeper: struct{ transport.Keeper }{}, Log: log, Registry: reg,
		Face: func(host *transport.FaceHost) (transport.Face, error) {
			face := place2017.DefaultConfig()
			face.Key = cfg.SessionKey
			return place2017.New(face, place2017.Deps{Host: host, Board: system, Placer: system, Clearer: system, Watcher: system, Registry: reg})
		},
	})
	if err == nil {
		err = server.Listen()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Run(context.Background()) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		system.Stop(context.Background())
	})
	n := &node{t: t, system: system, server: server, reg: reg, url: "http://" + server.Addr().String(), adm: "http://" + server.AdminAddr().String()}
	n.until("ready", func() bool { return system.Readiness().Ready })
	return n
}

// until waits for a condition, a minute at most.
func (n *node) until(what string, ok func() bool) {
	n.t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			n.t.Fatalf("not within a minute: %s", what)
		}
		<-tick.C
	}
}

// count returns a counter of the face by its label.
func (n *node) count(name, label string) float64 {
	n.t.Helper()
	families, err := n.reg.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	n.t.Fatalf("no counter %s of %q", name, label)
	return 0
}

// change makes a new version of the settings.
func (n *node) change(change func(*board.Settings)) {
	n.t.Helper()
	s := n.system.Settings().Settings
	base := s.Version
	change(&s)
	s.Version++
	if _, err := n.system.ChangeSettings(n.t.Context(), base, s, "test", ""); err != nil {
		n.t.Fatal(err)
	}
}

// answer is a response with its body read.
type answer struct {
	*http.Response
	body []byte
}

// fields decodes a JSON object.
func (a answer) fields(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(a.body, &m); err != nil {
		t.Fatalf("%d %s: %v", a.StatusCode, a.body, err)
	}
	return m
}

// bot is a program of 2017: a cookie jar, a modhash, forms.
type bot struct {
	*node
	client  *http.Client
	name    string
	modhash string
}

func (n *node) bot() *bot {
	jar, err := cookiejar.New(nil)
	if err != nil {
		n.t.Fatal(err)
	}
	return &bot{node: n, client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// login signs in as programs of 2017 did.
func (n *node) login(name string) *bot {
	n.t.Helper()
	b := n.bot()
	a := b.post("/api/login/"+url.PathEscape(name), url.Values{"user": {name}, "passwd": {"hunter2"}, "api_type": {"json"}})
	data, ok := a.fields(n.t)["json"].(map[string]any)["data"].(map[string]any)
	if !ok || a.StatusCode != http.StatusOK {
		n.t.Fatalf("login: %d %s", a.StatusCode, a.body)
	}
	b.name, b.modhash = name, data["modhash"].(string)
	return b
}

func (b *bot) do(method, path string, body io.Reader, header ...string) answer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	b.checkDocumented(r, res, got)
	return answer{res, got}
}

// checkDocumented holds an answer of the face against docs/openapi.yaml.
func (b *bot) checkDocumented(r *http.Request, res *http.Response, body []byte) {
	b.t.Helper()
	doc, err := apidoc.Load("../../docs/openapi.yaml")
	if err != nil {
		b.t.Fatal(err)
	}
	operation := doc.Operation(r.Method + " " + r.URL.Path)
	if operation == nil || !slices.Contains(operation.Tags, "2017") {
		return // another method, or a route that is not the face's
	}
	if err := apidoc.CheckAnswer(operation, res, body); err != nil {
		b.t.Errorf("%s %s: the answer is not as docs/openapi.yaml says: %v\n%d %.300s", r.Method, r.URL, err, res.StatusCode, body)
	}
}

// TestOpenAPIHasEveryRoute holds the document and the face's routes against each other.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	doc, err := apidoc.Load("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	routes := (*place2017.Face)(nil).Routes()
	for pattern := range routes {
		if doc.Operation(pattern) == nil {
			t.Errorf("%q is served and not in docs/openapi.yaml", pattern)
		}
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			if !slices.Contains(operation.Tags, "2017") {
				continue
			}
			_, plain := routes[method+" "+path]
			if _, slash := routes[method+" "+path+"{$}"]; !plain && !slash {
				t.Errorf("%s %s is in docs/openapi.yaml and not served", method, path)
			}
		}
	}
}

func (b *bot) get(path string, header ...string) answer {
	b.t.Helper()
	return b.do("GET", path, nil, header...)
}

func (b *bot) post(path string, form url.Values, header ...string) answer {
	b.t.Helper()
	header = append(header, "Content-Type: application/x-www-form-urlencoded")
	if b.modhash != "" {
		header = append(header, "X-Modhash: "+b.modhash)
	}
	return b.do("POST", path, strings.NewReader(form.Encode()), header...)
}

func (b *bot) draw(x, y, color string) answer {
	b.t.Helper()
	return b.post("/api/place/draw.json", url.Values{"x": {x}, "y": {y}, "color": {color}})
}

var configScript = regexp.MustCompile(`(?s)<script id="config">r\.setup\((\{.*?\})\)</script>`)

// config scrapes the page's configuration.
func (b *bot) config(query string, header ...string) map[string]any {
	b.t.Helper()
	a := b.get("/place"+query, header...)
	found := configScript.FindSubmatch(a.body)
	if a.StatusCode != http.StatusOK || found == nil {
		b.t.Fatalf("no configuration in the page: %d %.300s", a.StatusCode, a.body)
	}
	return answer{a.Response, found[1]}.fields(b.t)
}

// message is a frame of the websocket.
type message struct {
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

// tile is one tile of a message.
type tile struct {
	Author string `json:"author"`
	X      int    `json:"x"`
	Y      int    `json:"y"`
	Color  int    `json:"color"`
}

// listener is a websocket as the page's configuration names it.
type listener struct {
	*websocket.Conn
	t *testing.T
}

func (b *bot) listen() *listener {
	b.t.Helper()
	ws, res, err := websocket.DefaultDialer.DialContext(b.t.Context(), b.config("")["place_websocket_url"].(string), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	res.Body.Close()
	b.t.Cleanup(func() { ws.Close() })
	return &listener{ws, b.t}
}

// next returns the next message that is no "activity".
func (l *listener) next() message {
	l.t.Helper()
	for {
		l.SetReadDeadline(time.Now().Add(time.Minute))
		kind, b, err := l.ReadMessage()
		if err != nil {
			l.t.Fatal(err)
		}
		var m message
		if err := json.Unmarshal(b, &m); err != nil || kind != websocket.TextMessage {
			l.t.Fatalf("kind %d, %s: %v", kind, b, err)
		}
		if m.Type != "activity" {
			return m
		}
	}
}

func (l *listener) place() tile {
	l.t.Helper()
	m := l.next()
	var p tile
	if err := json.Unmarshal(m.Payload, &p); err != nil || m.Type != "place" {
		l.t.Fatalf("%s %s: %v", m.Type, m.Payload, err)
	}
	return p
}
