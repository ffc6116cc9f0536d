//go:build unix

package system_test

import (
	"net/http"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// limited makes a node's limits hold on loopback too.
var limited = []string{"--unlimited", "192.0.2.0/24", "--messages-per-second", "20", "--requests-per-second", "100", "--connections-per-address", "40"}

// TestFloods sends too much of what is right: from an address with limits, because loopback has none by default.
func TestFloods(t *testing.T) {
	t.Parallel()
	b := newBadBoard(t, limited...)
	hashes := &wire.GetHashes{Chunks: wire.ChunkRect{Cols: 1, Rows: 1}}
	b.try("messages above the rate", []string{badMessages("rate"), `placed_ws_messages_total{kind="get_hashes"}`}, func(t *testing.T) {
		r := dialRaw(t, b.node, b.bearer())
		defer r.conn.Close()
		for range 40 {
			r.send(hashes)
		}
		if m := awaitMessage[*wire.Notice](r); m.Code != board.CodeRate || m.RetryMs <= 0 {
			t.Errorf("answered %+v", m)
		}
		r.send(&wire.Place{Turn: 2, Nonce: 1, X: 5, Y: 5})
		o := awaitMessage[*wire.Placed](r)
		if o.Verdict != board.VerdictRefused || o.Code != board.CodeRate || o.WaitMs <= 0 {
			t.Errorf("answered %+v", o)
		}
	})
	b.try("messages far above the rate", []string{badMessages("flood"), closes(wire.CloseFlood)}, func(t *testing.T) {
		r := dialRaw(t, b.node, b.bearer())
		go func() {
			for range 1000 {
				r.send(hashes)
			}
		}()
		if code := r.closed(); code != wire.CloseFlood {
			t.Errorf("closed with %d", code)
		}
	})
	b.try("pings far above the rate", []string{badMessages("flood"), closes(wire.CloseFlood)}, func(t *testing.T) {
		r := dialRaw(t, b.node, b.bearer())
		go func() {
			for range 1000 {
				r.frame(final|opPing, []byte("x"))
			}
		}()
		if code := r.closed(); code != wire.CloseFlood {
			t.Errorf("closed with %d", code)
		}
	})
	b.connections()
	b.requests()
	b.end()
}

// connections above the limit are told so, and others closed.
func (b *badBoard) connections() {
	b.try("too many connections", []string{`placed_http_refusals_total{code="connections"}`}, func(t *testing.T) {
		var open []*raw
		defer func() {
			for _, r := range open {
				_ = r.conn.Close()
			}
		}()
		for range 60 {
			r, response := upgradeRaw(t, b.node, b.bearer())
			open = append(open, r)
			if response.StatusCode == http.StatusTooManyRequests {
				if response.Header.Get("Retry-After") == "" {
					t.Error("nobody says when to try again")
				}
				return
			}
		}
		t.Errorf("%d connections of one address are open", len(open))
	})
	eventually(b.t, rawWithin, "only the witness to be left", func() bool { return b.node.metrics()["placed_ws_connections"] == 1 })
}

// requests above the limit are told when to try again, and then served.
func (b *badBoard) requests() {
	b.try("too many requests", []string{`placed_http_refusals_total{code="rate"}`}, func(t *testing.T) {
		ask := func() *answer {
			return do(t, b.request(b.node.url, &badRequest{method: http.MethodGet, path: "/api/v1/config"}))
		}
		eventually(t, rawWithin, "a request to be refused", func() bool {
			a := ask()
			return a.status == http.StatusTooManyRequests && a.problem() == "rate" && a.header.Get("Retry-After") != ""
		})
		if a := do(t, b.request(b.node.url, &badRequest{method: http.MethodGet, path: "/readyz"})); a.status != http.StatusOK {
			t.Errorf("a probe is limited: %d", a.status)
		}
		eventually(t, rawWithin, "a request to be served again", func() bool { return ask().status == http.StatusOK })
	})
}
