//go:build unix

package system_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/internal/testcert"
	"github.com/placed-board/placed/wire"
)

const proxyWithin = 30 * time.Second

// proxy is an nginx that runs docs/proxy/nginx.conf in front of a node.
type proxy struct {
	t       *testing.T
	node    *node
	address string
	trust   *tls.Config
	http    *http.Client
}

// startProxy runs nginx with a certificate of its own; signsIn turns the lines on by which it says who people are.
func startProxy(t *testing.T, n *node, signsIn bool) *proxy {
	t.Helper()
	p := &proxy{t: t, node: n, address: freeAddress(t)}
	dir := t.TempDir()
	pair := testcert.Written(t, dir)
	p.trust = pair.Trust()
	p.http = &http.Client{Timeout: proxyWithin, Transport: &http.Transport{TLSClientConfig: p.trust}}
	t.Cleanup(p.http.CloseIdleConnections)
	users := filepath.Join(dir, "users")
	if err := os.WriteFile(users, []byte("ada:{PLAIN}lovelace\nbob:{PLAIN}builder\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{
		cacheNodeInConfig: hostOf(n.url), "listen 443 ssl;": "listen " + p.address + " ssl;",
		"/etc/ssl/placed/fullchain.pem": pair.CertFile, "/etc/ssl/placed/privkey.pem": pair.KeyFile, "/etc/nginx/placed.users": users,
	}
	if signsIn {
		replace["#auth: "] = ""
	}
	ended, log := startProgram(t, program(t, "nginx"), nginxArgs(t, dir, configuration(t, "../proxy/nginx.conf", replace))...)
	eventually(t, cacheReadyWithin, "nginx to pass requests on", func() bool {
		select {
		case <-ended:
			t.Fatalf("nginx ended:\n%s", log)
		default:
		}
		res, err := p.http.Get(p.url() + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK || res.StatusCode == http.StatusUnauthorized
	})
	return p
}

func (p *proxy) url() string { return "https://" + p.address }

// ask sends a request with header lines as "Name: value" and returns status, header and body.
func (p *proxy) ask(hc *http.Client, method, url, body string, lines ...string) *answer {
	p.t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Add(name, value)
	}
	response, err := hc.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return &answer{response.StatusCode, response.Header, content}
}

// dial opens a session through nginx with header lines, and returns its hello.
func (p *proxy) dial(lines ...string) (*wire.Hello, int, error) {
	p.t.Helper()
	header := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		header.Add(name, value)
	}
	d := websocket.Dialer{TLSClientConfig: p.trust, Subprotocols: []string{"placed.v1"}, HandshakeTimeout: proxyWithin}
	ws, res, err := d.Dial("wss://"+p.address+"/api/v1/ws", header)
	if err != nil {
		status := 0
		if res != nil {
			status = res.StatusCode
		}
		return nil, status, err
	}
	defer ws.Close()
	_ = ws.SetReadDeadline(time.Now().Add(proxyWithin))
	_, b, err := ws.ReadMessage()
	if err != nil {
		p.t.Fatal(err)
	}
	m, err := wire.DecodeServer(b)
	hello, ok := m.(*wire.Hello)
	if err != nil || !ok {
		p.t.Fatalf("%T %v", m, err)
	}
	return hello, http.StatusSwitchingProtocols, nil
}

// TestNginxWithTLS plays through an nginx that ends TLS: the Go client over wss, a browser's cookie and origin, and made-up
// addresses.
func TestNginxWithTLS(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--cooldown=0s", "--width=200", "--height=200", "--trusted-proxies=127.0.0.1")
	p := startProxy(t, n, false)
	ctx, cancel := context.WithTimeout(t.Context(), proxyWithin)
	defer cancel()
	dial := func(name string) *client.Session {
		t.Helper()
		s, err := client.Dial(ctx, p.url(), client.Options{Name: name, Whole: true, Mirror: true, TLS: p.trust})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	ann, bob := dial("ann"), dial("bob")
	at := board.Point{X: 7, Y: 9}
	if outcome, err := ann.Place(ctx, at, 5); err != nil || outcome.Verdict == board.VerdictRefused {
		t.Fatalf("%+v %v", outcome, err)
	}
	eventually(t, proxyWithin, "the other one to see the tile", func() bool { colour, known := bob.Tile(at); return known && colour == 5 })

	page := p.ask(p.http, "GET", p.url()+"/", "", "Sec-Fetch-Dest: document", "X-Forwarded-For: 192.0.2.1")
	cookie := page.header.Get("Set-Cookie")
	if page.status != http.StatusOK || !strings.Contains(cookie, "; Secure") {
		t.Errorf("the page's cookie is not for TLS only: %d %q", page.status, cookie)
	}
	cookie, _, _ = strings.Cut(cookie, ";")
	if hello, _, err := p.dial("Origin: "+p.url(), "Cookie: "+cookie); err != nil || !strings.HasPrefix(string(hello.User), "anon-") {
		t.Errorf("a session of the page: %+v %v", hello, err)
	}
	if _, status, err := p.dial("Origin: https://evil.example", "Cookie: "+cookie); err == nil || status != http.StatusForbidden {
		t.Errorf("a session of another page: %d %v", status, err)
	}
	m := n.metrics()
	if used, claimed := m[`placed_forwarded_requests_total{result="used"}`], m[`placed_forwarded_requests_total{result="claimed"}`]; used < 5 || claimed != 0 {
		t.Errorf("%v requests with a true address, %v with a made-up one: nginx passes on what clients write", used, claimed)
	}
}

// TestNginxSignsIn has nginx ask for passwords and name the user: what a client writes into that header counts for nothing,
// through nginx and around it.
func TestNginxSignsIn(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--cooldown=0s", "--width=200", "--height=200", "--trusted-proxies=127.0.0.1", "--auth=proxy")
	p := startProxy(t, n, true)
	const ada = "Authorization: Basic YWRhOmxvdmVsYWNl" // ada:lovelace
	const eve = "X-Forwarded-User: eve"
	if a := p.ask(p.http, "GET", p.url()+"/api/v1/me", "", eve); a.status != http.StatusUnauthorized {
		t.Errorf("without a password: %d %s", a.status, a.body)
	}
	var me struct{ User string }
	a := p.ask(p.http, "GET", p.url()+"/api/v1/me", "", ada, eve)
	if err := json.Unmarshal(a.body, &me); err != nil || me.User != "ada" {
		t.Errorf("%d %s", a.status, a.body)
	}
	a = p.ask(p.http, "POST", p.url()+"/api/v1/placements", `{"x":1,"y":2,"colour":5}`, ada, eve, "Idempotency-Key: a", "Content-Type: application/json")
	if a.status != http.StatusOK && a.status != http.StatusAccepted {
		t.Errorf("a placement: %d %s", a.status, a.body)
	}
	if hello, _, err := p.dial(ada, eve, "Origin: "+p.url()); err != nil || hello.User != "ada" {
		t.Errorf("a session: %+v %v", hello, err)
	}
	if _, status, err := p.dial(ada, "Origin: https://evil.example"); err == nil || status != http.StatusForbidden {
		t.Errorf("a session of another page: %d %v", status, err)
	}
	eventually(t, proxyWithin, "the tile to be ada's", func() bool {
		a := p.ask(p.http, "GET", p.url()+"/api/v1/tiles/1/2", "", ada)
		return strings.Contains(string(a.body), `"user":"ada"`)
	})

	// Around the proxy, from an address that is not its.
	around := &http.Client{Timeout: proxyWithin, Transport: &http.Transport{
		DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext,
	}}
	t.Cleanup(around.CloseIdleConnections)
	for _, more := range []string{"X-Forwarded-For: 127.0.0.1", "Accept: */*"} {
		if a := p.ask(around, "GET", n.url+"/api/v1/me", "", eve, more); a.status != http.StatusForbidden || !strings.Contains(string(a.body), `"code":"proxy"`) {
			t.Errorf("around the proxy: %d %s", a.status, a.body)
		}
	}
	if counted := n.metrics()[`placed_bad_tokens_total{reason="untrusted"}`]; counted != 2 {
		t.Errorf("%v counted", counted)
	}
}
