package transport

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/placed-board/placed/wire"
)

// TestCacheBusting asks for the board in every way that is meant to make it dear: the answers are whole and right, no form is
// made twice, and nothing is read more often than the board.
func TestCacheBusting(t *testing.T) {
	h := start(t, nil)
	plain := h.do("GET", boardPath, "")
	zipped := h.do("GET", boardPath, "", "Accept-Encoding: gzip")
	tag, tagGzip := plain.Header.Get("ETag"), zipped.Header.Get("ETag")
	many := strings.Repeat(`"none", `, 400)
	for i, c := range []struct {
		header string
		status int
		gzip   bool
	}{
		{"Range: bytes=0-99", 200, false},
		{"Range: bytes=-1", 200, false},
		{"Range: bytes=5-2", 200, false},
		{"Range: bytes=0-0,2-2,4-4", 200, false},
		{"Range: bytes=99999999999999999999-", 200, false},
		{"Range: lines=1-2", 200, false},
		{"If-Range: " + tag, 200, false},
		{"If-None-Match: " + many + tag, 304, false},
		{"If-None-Match: " + many + tagGzip, 200, false},
		{"If-None-Match: " + many + `""`, 200, false},
		{"If-None-Match: ,,,", 200, false},
		{"If-None-Match: " + strings.Trim(tag, `"`), 200, false},
		{"If-Modified-Since: Sat, 29 Oct 2044 19:43:31 GMT", 200, false},
		{"If-Match: *", 200, false},
		{"Accept-Encoding: GZIP", 200, true},
		{"Accept-Encoding: gzip;q=1.000", 200, true},
		{"Accept-Encoding: br;q=1, gzip;level=9;q=0.5", 200, true},
		{"Accept-Encoding: gzip;level=9;q=0", 200, false},
		{"Accept-Encoding: gzip ; Q = 0.000", 200, false},
		{"Accept-Encoding: identity;q=0", 200, false},
		{"Accept-Encoding: *;q=0", 200, false},
		{"Accept-Encoding: gzipped, x-gzip;q=0, deflate", 200, false},
		{"Accept-Encoding: " + strings.Repeat("br, ", 1000), 200, false},
		{"Cache-Control: no-cache, no-store, max-age=0", 200, false},
		{"Pragma: no-cache", 200, false},
		{"Accept: text/html", 200, false},
	} {
		res := h.do("GET", fmt.Sprintf("%s?%d&board=../../etc/passwd&_=%s", boardPath, i, strings.Repeat("x", i*100)), "", c.header)
		name, _, _ := strings.Cut(c.header, strings.Repeat("br, ", 9))
		if res.StatusCode != c.status {
			t.Errorf("%.90s: status %d, want %d", name, res.StatusCode, c.status)
			continue
		}
		want := h.fake.body
		if c.gzip {
			want = zipped.body
		}
		if c.status == 304 {
			want = nil
		}
		if !bytes.Equal(res.body, want) || (res.Header.Get("Content-Encoding") == "gzip") != c.gzip {
			t.Errorf("%.90s: %d bytes, encoding %q", name, len(res.body), res.Header.Get("Content-Encoding"))
		}
		for header, want := range map[string]string{"Vary": "Accept-Encoding", "Cache-Control": cacheBoard, "Set-Cookie": "", "Content-Range": ""} {
			if got := strings.Join(res.Header.Values(header), "|"); got != want {
				t.Errorf("%.90s: %s %q", name, header, got)
			}
		}
	}
	if n := h.count("placed_snapshot_requests_total", "cache", snapshotMiss); n != 1 {
		t.Errorf("%v forms were made", n)
	}
}

// TestPathsOutside asks for files by paths that try to leave the page: there is no file behind any of them.
func TestPathsOutside(t *testing.T) {
	h := start(t, nil)
	for _, path := range []string{
		"/../../etc/passwd", "/assets/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "/assets/..%5c..%5cwin.ini",
		"/assets//etc/passwd", "//etc/passwd", "/./etc/passwd", "/api/v1/board/../../../etc/passwd", "/api/v1/board/", "/api/v1/board%00", "/%00",
		"/api/v1/tiles/../../admin/v1/settings", "/api/v1//board/..", "/etc/passwd%3f", "/assets/0123456789abcdef/../../admin-token",
	} {
		nc, err := net.Dial("tcp", h.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
		answer, err := io.ReadAll(nc)
		nc.Close()
		if err != nil {
			t.Fatal(err)
		}
		status := string(answer[:min(len(answer), len("HTTP/1.1 404"))])
		if status != "HTTP/1.1 404" && status != "HTTP/1.1 400" && !(strings.HasPrefix(status, "HTTP/1.1 30") && bytes.Contains(answer, []byte("\r\nLocation: /"))) {
			t.Errorf("%s: %.200s", path, answer)
		}
		if bytes.Contains(answer, []byte("\r\nLocation: //")) {
			t.Errorf("%s: sent to another host: %.200s", path, answer)
		}
	}
}

// TestUpgradesReadNoBoard opens sessions: none has the board encoded.
func TestUpgradesReadNoBoard(t *testing.T) {
	h := start(t, nil)
	for range 20 {
		h.dial()
	}
	h.fake.mu.Lock()
	reads := h.fake.bodyReads
	h.fake.body = nil
	h.fake.mu.Unlock()
	if reads != 0 {
		t.Errorf("the board was read %d times", reads)
	}
	if _, res, err := h.tryDial(); err == nil || res == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a session on a board that is not loaded: %v", err)
	}
}

// TestBoardUnderChange has many read while the board changes all the time: every answer is one whole board, never older
// than the last one of the same reader, and its tag is not that of another.
func TestBoardUnderChange(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.RenderEvery = 1 })
	var readers sync.WaitGroup
	var mu sync.Mutex // guards bodies
	bodies := map[string][]byte{}
	stop := make(chan struct{})
	for reader := range 8 {
		readers.Go(func() {
			tick := uint64(0)
			for range 50 {
				r := httptest.NewRequest("GET", boardPath, nil)
				if reader%2 == 1 {
					r.Header.Set("Accept-Encoding", "gzip")
				}
				w := httptest.NewRecorder()
				h.getBoard(w, r)
				raw := w.Body.Bytes()
				if reader%2 == 1 {
					raw = gunzip(t, raw)
				}
				body, err := wire.DecodeBoard(raw)
				if err != nil || body.Tick < tick {
					t.Errorf("reader %d: tick %d after %d, error %v", reader, body.Tick, tick, err)
					return
				}
				tick = body.Tick
				tag := w.Header().Get("ETag")
				mu.Lock()
				if other, ok := bodies[tag]; ok && !bytes.Equal(other, w.Body.Bytes()) {
					t.Errorf("two bodies with the tag %s", tag)
				}
				bodies[tag] = w.Body.Bytes()
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sequence := uint64(2); ; sequence++ {
			select {
			case <-stop:
				return
			default:
				h.fake.publish(sequence)
			}
		}
	}()
	readers.Wait()
	close(stop)
	<-done
	if len(bodies) < 2 {
		t.Errorf("%d boards seen", len(bodies))
	}
}

// blankWriter is a ResponseWriter that costs nothing.
type blankWriter struct{ header http.Header }

func (w *blankWriter) Header() http.Header         { return w.header }
func (w *blankWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *blankWriter) WriteHeader(int)             {}

// TestBoardAllocatesNothing holds the answers from ready bytes to no allocation at all.
func TestBoardAllocatesNothing(t *testing.T) {
	s, _, _, _ := newServer(t, nil)
	w := &blankWriter{http.Header{}}
	plain := httptest.NewRequest("GET", boardPath, nil)
	zipped := httptest.NewRequest("GET", boardPath, nil)
	zipped.Header.Set("Accept-Encoding", "gzip, deflate, br")
	s.getBoard(w, zipped)
	known := zipped.Clone(t.Context())
	known.Header.Set("If-None-Match", w.header.Get("ETag"))
	for name, r := range map[string]*http.Request{"plain": plain, "gzip": zipped, "304": known} {
		if n := testing.AllocsPerRun(100, func() { s.getBoard(w, r) }); n != 0 {
			t.Errorf("%s: %v allocations an answer", name, n)
		}
	}
}
