package transport

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

func TestOverview(t *testing.T) {
	h := start(t, nil)
	res := h.do("GET", "/api/v1/overview.png", "")
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "image/png" || res.Header.Get("Cache-Control") != cacheBoard {
		t.Fatalf("status %d, %v", res.StatusCode, res.Header)
	}
	img, err := png.Decode(bytes.NewReader(res.body))
	if err != nil || img.Bounds() != image.Rect(0, 0, 1000, 1000) {
		t.Fatalf("%v, %v: a board of a million tiles is not reduced", img.Bounds(), err)
	}
	if again := h.do("GET", "/api/v1/overview.png", "", "If-None-Match: "+res.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("asked again: %d", again.StatusCode)
	}
}

// TestOverviewShowsTheCommonestColour reduces the largest board, of which few chunks are painted.
func TestOverviewShowsTheCommonestColour(t *testing.T) {
	var tiles board.Tiles
	for y := range 10 {
		for x := range 10 {
			tiles[(y+40)*board.ChunkSize+x+10] = 5 // the cell (1, 4) of its chunk
		}
	}
	tiles[0], tiles[1] = 3, 3 // two tiles of a hundred do not show
	body := wire.BoardBody{
		Width: 10_000, Height: 9_999, ColourWidth: board.Width4,
		Chunks: []wire.BodyChunk{{Chunk: board.NewChunkID(199, 199), Sequence: 1, Image: tiles.AppendImage(nil, board.Width4)}},
	}
	out, err := renderOverview(wire.AppendBoard(nil, &body), board.DefaultPalette())
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(out))
	if err != nil || img.Bounds() != image.Rect(0, 0, 1000, 1000) {
		t.Fatalf("%v, %v", img.Bounds(), err)
	}
	at := func(x, y int) uint32 {
		c := color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)
		return uint32(c.R)<<16 | uint32(c.G)<<8 | uint32(c.B)
	}
	palette := board.DefaultPalette()
	for _, c := range []struct{ x, y, colour int }{{996, 999, 5}, {995, 999, 0}, {995, 995, 0}, {0, 0, 0}} {
		if got, want := at(c.x, c.y), uint32(palette[c.colour].RGB); got != want {
			t.Errorf("(%d,%d) is %06x, want %06x", c.x, c.y, got, want)
		}
	}
	for _, c := range []struct{ width, height, scale int }{{1000, 1000, 1}, {2000, 2000, 2}, {2600, 2600, 5}, {10_000, 10_000, 10}, {1, 10_000, 1}} {
		if got := overviewScale(c.width, c.height); got != c.scale {
			t.Errorf("%dx%d is reduced by %d, want %d", c.width, c.height, got, c.scale)
		}
	}
}

func TestBasePath(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.BasePath, cfg.Web = "/play/board", testPage() })
	for path, want := range map[string]int{
		"/play/board/": 200, "/play/board": http.StatusPermanentRedirect, "/play/board/api/v1/config": 200, "/play/board/app.js": 200,
		"/": 404, "/api/v1/config": 404, "/play/boards/": 404, "/play/board/nothing": 404, "/livez": 200, "/play/board/livez": 200,
		"/play%2fboard/": 404,
	} {
		if res := h.do("GET", path, ""); res.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, res.StatusCode, want)
		}
	}
	if got := h.do("GET", "/play/board", "").Header.Get("Location"); got != "/play/board/" {
		t.Errorf("redirected to %q", got)
	}
	cookie := h.do("POST", "/play/board/api/login/ann", "").Header.Get("Set-Cookie")
	if !strings.Contains(cookie, "Path=/play/board/;") {
		t.Errorf("the cookie is %q", cookie)
	}
	for _, bad := range []string{"board", "/board/", "/", "//board", "/a b", "/a?b"} {
		if checkBasePath(bad) == nil {
			t.Errorf("base path %q is taken", bad)
		}
	}
}

func TestEmbedOrigins(t *testing.T) {
	h := start(t, func(cfg *Config) {
		cfg.EmbedOrigins, cfg.SecureCookies, cfg.Web = []string{"https://a.example", "https://b.example:444"}, true, testPage()
	})
	policy := h.do("GET", "/", "").Header.Get("Content-Security-Policy")
	if !strings.HasSuffix(policy, "frame-ancestors https://a.example https://b.example:444") || !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; ") {
		t.Errorf("policy %q", policy)
	}
	cookie := h.do("POST", "/api/login/ann", "").Header.Get("Set-Cookie")
	if !strings.Contains(cookie, "SameSite=None") || !strings.Contains(cookie, "Partitioned") || !strings.Contains(cookie, "Secure") {
		t.Errorf("the cookie of a framed page is %q", cookie)
	}
	for _, bad := range []string{"a.example", "https://a.example/", "*", "https://a.example 'self'"} {
		cfg := h.cfg
		cfg.EmbedOrigins = []string{bad}
		if cfg.Validate() == nil {
			t.Errorf("embed origin %q is taken", bad)
		}
	}
}
