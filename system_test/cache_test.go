//go:build unix

package system_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/wire"
)

// Sizes of the tests with a cache in front.
const (
	cacheClients      = 200
	cacheStorm        = 4 * time.Second
	cacheRequestsMax  = 2 // a second, at the node
	cacheReadyWithin  = 30 * time.Second
	cacheFreshWithin  = 20 * time.Second // until a placement shows; a second on a quiet machine
	cacheStaleFor     = 5 * time.Second  // longer than max-age and than the probe of varnish.vcl takes to give a node up
	cacheClientsWait  = 60 * time.Second
	cacheNodeInConfig = "127.0.0.1:8080"
)

// TestNginxInFront and TestVarnishInFront run the configurations of docs/cache, with ports filled in, in front of a node.
func TestNginxInFront(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--cooldown=0s", "--trusted-proxies=127.0.0.1/32")
	dir, address := t.TempDir(), freeAddress(t)
	site := configuration(t, "nginx.conf", map[string]string{
		cacheNodeInConfig: hostOf(n.url), "listen 80;": "listen " + address + ";", "/var/cache/nginx/placed": filepath.Join(dir, "cache"),
	})
	c := startCache(t, n, address, program(t, "nginx"), nginxArgs(t, dir, site)...)
	c.test()
}

// nginxArgs writes what stands around a site's configuration, and returns the arguments of an nginx that serves it.
func nginxArgs(t *testing.T, dir, site string) []string {
	t.Helper()
	user := ""
	if os.Getuid() == 0 {
		user = "user root;\n" // the folders of a test are not for everybody
	}
	var main strings.Builder
	fmt.Fprintf(&main, "%sdaemon off;\npid %[2]s/pid;\nerror_log stderr warn;\nevents { worker_connections 2048; }\nhttp {\naccess_log off;\n", user, dir)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&main, "%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(main.String()+site+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-p", dir, "-e", "stderr", "-c", path}
}

func TestVarnishInFront(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--cooldown=0s", "--trusted-proxies=127.0.0.1/32")
	dir, address := t.TempDir(), freeAddress(t)
	host, port, err := net.SplitHostPort(hostOf(n.url))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "placed.vcl")
	vcl := configuration(t, "varnish.vcl", map[string]string{`.host = "127.0.0.1"`: `.host = "` + host + `"`, `.port = "8080"`: `.port = "` + port + `"`})
	if err := os.WriteFile(path, []byte(vcl), 0o600); err != nil {
		t.Fatal(err)
	}
	// No jail and no console: both want more of the machine than a test may take.
	c := startCache(t, n, address, program(t, "varnishd"), "-F", "-j", "none", "-T", "none", "-n", filepath.Join(dir, "work"), "-s", "malloc,64m", "-a", address, "-f", path)
	c.test()
}

// configuration returns a file of docs/cache with some of its words replaced, each of which must be there.
func configuration(t *testing.T, name string, replace map[string]string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "docs", "cache", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for old, value := range replace {
		if !strings.Contains(text, old) {
			t.Fatalf("docs/cache/%s has no %q", name, old)
		}
		text = strings.ReplaceAll(text, old, value)
	}
	return text
}

// program returns the path of a server of the system.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Fatalf("%s is needed and not installed: run `make deps`", name)
	return ""
}

// cache is a cache in front of a node.
type cache struct {
	t    *testing.T
	node *node
	url  string
	http *http.Client
}

func startCache(t *testing.T, n *node, address, binary string, args ...string) *cache {
	t.Helper()
	ended, log := startProgram(t, binary, args...)
	c := &cache{t: t, node: n, url: "http://" + address}
	c.http = &http.Client{Timeout: cacheClientsWait, Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: cacheClients}}
	t.Cleanup(c.http.CloseIdleConnections)
	eventually(t, cacheReadyWithin, "the cache to pass a board on", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s ended:\n%s", binary, log)
		default:
		}
		res, err := c.http.Get(c.url + "/api/v1/board")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return err == nil && res.StatusCode == http.StatusOK
	})
	return c
}

// startProgram runs a server of the system until the test ends.
func startProgram(t *testing.T, binary string, args ...string) (ended <-chan struct{}, log *output) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.SysProcAttr = childAttributes()
	log = &output{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-gone:
		case <-time.After(stopWithin):
			_ = cmd.Process.Kill()
			<-gone
			t.Errorf("%s did not end", binary)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", binary, tail(log.String(), 4000))
		}
	})
	return gone, log
}

// get asks through the cache, with header lines as "Name: value".
func (c *cache) get(path string, header ...string) (*answer, error) {
	request, err := http.NewRequest(http.MethodGet, c.url+path, nil)
	if err != nil {
		return nil, err
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return &answer{response.StatusCode, response.Header, body}, err
}

// board asks for the board and decodes the answer.
func (c *cache) board(query string, header ...string) (*wire.BoardBody, error) {
	a, err := c.get("/api/v1/board"+query, header...)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, fmt.Errorf("status %d: %.200s", a.status, a.body)
	}
	if cookies := a.header.Values("Set-Cookie"); len(cookies) > 0 {
		return nil, fmt.Errorf("cookies %q", cookies)
	}
	if got := a.header.Get("Cache-Control"); got != "public, max-age=1, stale-while-revalidate=30" {
		return nil, fmt.Errorf("cache control %q", got)
	}
	if got := strings.Join(a.header.Values("Vary"), "|"); got != "Accept-Encoding" {
		return nil, fmt.Errorf("vary %q", got)
	}
	body := a.body
	if a.header.Get("Content-Encoding") == "gzip" {
		zipped, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if body, err = io.ReadAll(zipped); err != nil {
			return nil, err
		}
	}
	return wire.DecodeBoard(body)
}

// requests is how often the node was asked for its board so far, by all.
func (c *cache) requests() float64 {
	return c.node.metrics()[`placed_http_requests_total{route="GET /api/v1/board"}`]
}

func (c *cache) test() {
	c.crowd()
	c.fresh()
	c.revalidation()
	c.sessions()
	c.stopped()
}

// crowd has 200 clients ask at the same moment again and again, each in its own odd way, while the board changes.
func (c *cache) crowd() {
	t := c.t
	kinds := [][]string{
		{"Accept-Encoding: gzip, deflate, br, zstd"},
		{"Accept-Encoding: br;q=1.0, gzip;q=0.8"},
		{"Accept-Encoding: identity"},
		{"Accept-Encoding: *;q=0"},
		{"Accept-Encoding: gzip;q=0"},
		{"Cookie: placed_session=x; theme=dark"},
		{"Authorization: Bearer x"},
		{"Range: bytes=0-9"},
		{"If-None-Match: \"a\", W/\"b\""},
		{"Cache-Control: no-cache", "Pragma: no-cache"},
		{"Accept-Language: de"},
		{"User-Agent: another"},
	}
	placing := make(chan struct{})
	placed := make(chan int)
	go func() { placed <- c.paint(placing) }()
	before, began := c.requests(), time.Now()
	gate := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex // guards asked and faults
	asked, faults := 0, []string{}
	for i := range cacheClients {
		clients.Go(func() {
			<-gate
			for round := 0; round < 3 || time.Since(began) < cacheStorm; round++ {
				_, err := c.board(fmt.Sprintf("?nocache=%d-%d", i, round), kinds[i%len(kinds)]...)
				mu.Lock()
				asked++
				if err != nil && len(faults) < 5 {
					faults = append(faults, fmt.Sprintf("%v: %v", kinds[i%len(kinds)], err))
				}
				mu.Unlock()
			}
		})
	}
	close(gate)
	clients.Wait()
	took, requests := time.Since(began), c.requests()-before
	close(placing)
	t.Logf("%d answers to %d clients in %v, %v placements: the node was asked %v times", asked, cacheClients, took.Round(time.Millisecond), <-placed, requests)
	for _, fault := range faults {
		t.Error(fault)
	}
	if most := cacheRequestsMax * math.Ceil(took.Seconds()); requests > most || requests < 1 {
		t.Errorf("the node was asked %v times in %v, and %v are allowed", requests, took, most)
	}
}

// paint places tiles until stop closes, and returns how many.
func (c *cache) paint(stop chan struct{}) int {
	api := c.node.api()
	if _, err := api.Login(c.t.Context(), "painter"); err != nil {
		c.t.Error(err)
		return 0
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return n
		case <-tick.C:
		}
		colour := 1 + n%15
		if _, err := api.PostPlacement(c.t.Context(), fmt.Sprint("paint-", n), client.PostRequest{X: n % 1000, Y: n / 1000, Colour: colour}); err != nil {
			c.t.Errorf("placement %d: %v", n, err)
			return n
		}
	}
}

// fresh places one tile through the cache: it shows in the cached board before long.
func (c *cache) fresh() {
	api := &client.API{URL: c.url}
	if _, err := api.Login(c.t.Context(), "visitor"); err != nil {
		c.t.Fatal(err)
	}
	at := board.Point{X: 777, Y: 555}
	outcome, err := api.PostPlacement(c.t.Context(), "through", client.PostRequest{X: at.X, Y: at.Y, Colour: 7})
	if err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, cacheFreshWithin, "a placement to show in the cached board", func() bool {
		body, err := c.board("")
		if err != nil {
			c.t.Fatal(err)
		}
		for i := range body.Chunks {
			if body.Chunks[i].Chunk == at.Chunk() {
				return body.Chunks[i].Sequence >= outcome.Sequence
			}
		}
		return false
	})
}

// revalidation asks with tags, on both sides of the cache: neither costs a body.
func (c *cache) revalidation() {
	t := c.t
	for _, encoding := range []string{"gzip", "identity"} {
		first, err := c.get("/api/v1/board", "Accept-Encoding: "+encoding)
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.get("/api/v1/board?x", "Accept-Encoding: "+encoding, "If-None-Match: "+first.header.Get("ETag"))
		if err != nil {
			t.Fatal(err)
		}
		if again.status != http.StatusNotModified || len(again.body) != 0 {
			t.Errorf("%s: asked with its own tag %s: status %d, %d bytes", encoding, first.header.Get("ETag"), again.status, len(again.body))
		}
	}
	// Nothing is placed any more: whenever the cache looks whether its board is still right, a 304 is all it gets.
	count := func(result string) float64 {
		return c.node.metrics()[`placed_snapshot_requests_total{cache="`+result+`"}`]
	}
	known := count("304")
	eventually(t, cacheFreshWithin, "the cache to ask the node by tag", func() bool {
		if _, err := c.board(""); err != nil {
			t.Fatal(err)
		}
		return count("304") > known
	})
	bodies, before := count("hit")+count("miss"), count("304")
	eventually(t, cacheFreshWithin, "the cache to ask again", func() bool {
		if _, err := c.board(""); err != nil {
			t.Fatal(err)
		}
		return count("304") >= before+2
	})
	if after := count("hit") + count("miss"); after != bodies {
		t.Errorf("the node sent %v bodies of a board that had not changed", after-bodies)
	}
}

// sessions opens a session through the cache and sees a placement arrive.
func (c *cache) sessions() {
	session, err := client.Dial(c.t.Context(), c.url, client.Options{Name: "guest", Whole: true, Mirror: true})
	if err != nil {
		c.t.Fatal(err)
	}
	defer session.Close()
	if err := session.Live(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	at := board.Point{X: 3, Y: 999}
	if _, err := session.Place(c.t.Context(), at, 5); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, cacheFreshWithin, "a placement to arrive", func() bool {
		colour, ok := session.Tile(at)
		return ok && colour == 5
	})
}

// stopped stops the node: the last board stays visible, and the first of the next run takes its place.
func (c *cache) stopped() {
	t := c.t
	body, err := c.board("")
	if err != nil {
		t.Fatal(err)
	}
	c.node.stop()
	end := time.Now().Add(cacheStaleFor)
	asked := 0
	for tick := time.NewTicker(100 * time.Millisecond); time.Now().Before(end); <-tick.C {
		last, err := c.board(fmt.Sprint("?", asked), "Accept-Encoding: gzip")
		if err != nil {
			t.Fatalf("after the node's end: %v", err)
		}
		if last.Epoch != body.Epoch || last.Incarnation != body.Incarnation || len(last.Chunks) == 0 {
			t.Fatal("after the node's end: another board")
		}
		asked++
	}
	if a, err := c.get("/api/v1/me"); err != nil || a.status < http.StatusInternalServerError {
		t.Errorf("what is not cached: %v, error %v", a, err)
	}
	c.node.start()
	eventually(t, cacheReadyWithin, "the board of the node's next run", func() bool {
		next, err := c.board("")
		if err != nil {
			t.Fatal(err)
		}
		return next.Incarnation != body.Incarnation
	})
}
