package transport

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestWriteWhole sends bodies of every size around net/http's buffers over one connection: each arrives whole, in order, and
// what follows it too.
func TestWriteWhole(t *testing.T) {
	s, _, _, _ := newServer(t, nil)
	sizes := []int{0, 1, 100, 2047, 2048, 2049, 3800, 3900, 4000, 4095, 4096, 4097, 6000, 8192, 12_288, 100_000, 3_000_000}
	bodies := map[string][]byte{}
	for i, size := range sizes {
		bodies["/"+string(rune('a'+i))] = bytes.Repeat([]byte{byte('A' + i)}, size)
	}
	s.public.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := newRendition(bodies[r.URL.Path], `"x"`, "text/plain")
		s.serveRendition(w, r, out, true, nil)
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(ln)
	t.Cleanup(func() { s.Close() })
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}}
	for range 2 {
		for path, body := range bodies {
			res, err := client.Get("http://" + ln.Addr().String() + path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || !bytes.Equal(got, body) || res.ContentLength != int64(len(body)) {
				t.Fatalf("%d bytes of %d arrived, error %v", len(got), len(body), err)
			}
		}
	}
}
