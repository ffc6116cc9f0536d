package transport

import (
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"net/http"
	"sync"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

const pastPath = "/api/v1/past/0123456789abcdef/board"

func TestPastBoard(t *testing.T) {
	h := start(t, nil)
	res := h.do("GET", pastPath+"?at_ms=5000", "")
	body, err := wire.DecodeBoard(res.body)
	if res.StatusCode != 200 || err != nil || body.Epoch != testEpoch || len(body.Chunks) != 1 || body.Chunks[0].Sequence != 7 ||
		res.Header.Get("Cache-Control") != cacheForEver || res.Header.Get("Content-Type") != wire.BoardType {
		t.Fatalf("%d %v %v %v", res.StatusCode, res.Header, body, err)
	}
	if again := h.do("GET", pastPath+"?at_ms=5000", "", "If-None-Match: "+res.Header.Get("ETag")); again.StatusCode != 304 || len(again.body) != 0 {
		t.Errorf("again: %d", again.StatusCode)
	}
	res = h.do("GET", pastPath+".png?at_ms=5000", "")
	img, err := png.Decode(bytes.NewReader(res.body))
	if err != nil || img.Bounds().Dx() != 1000 {
		t.Fatalf("%d %v", res.StatusCode, err)
	}
	r, g, b, _ := img.At(3, 0).RGBA()
	if want := board.DefaultSettings().Palette[5].RGB; r>>8<<16|g>>8<<8|b>>8 != uint32(want) {
		t.Errorf("the tile is drawn as %x %x %x, want %06x", r>>8, g>>8, b>>8, want)
	}
	if head := h.do("HEAD", pastPath+"?at_ms=5000", ""); head.StatusCode != 200 || len(head.body) != 0 {
		t.Errorf("HEAD: %d, %d bytes", head.StatusCode, len(head.body))
	}
	res = h.do("GET", pastPath+"?at_ms=1700000000000", "")
	if res.StatusCode != 200 || res.Header.Get("Cache-Control") != "public, max-age=10" || res.Header.Get("ETag") != "" {
		t.Errorf("one that may change: %d %v", res.StatusCode, res.Header)
	}
	if h.fake.pasts != 3 {
		t.Errorf("%d boards were made for three addresses", h.fake.pasts)
	}
}

func TestHeat(t *testing.T) {
	h := start(t, nil)
	res := h.do("GET", "/api/v1/heat.png?minutes=4", "")
	img, err := png.Decode(bytes.NewReader(res.body))
	if res.StatusCode != 200 || err != nil || img.Bounds().Dx() != 3 || res.Header.Get("Cache-Control") != "public, max-age=10" {
		t.Fatalf("%d %v %v", res.StatusCode, res.Header, err)
	}
	_, _, _, none := img.At(0, 0).RGBA()
	one, _, _, _ := img.At(1, 0).RGBA()
	four, _, _, _ := img.At(2, 0).RGBA()
	if none != 0 || one == 0 || four <= one {
		t.Errorf("alpha of no placement %d; red of one %d, of four %d", none, one, four)
	}
}

func TestPastBadQuestions(t *testing.T) {
	h := start(t, nil)
	for path, want := range map[string]struct {
		status int
		code   string
	}{
		pastPath: {400, problemBadRequest}, pastPath + "?at_ms=": {400, problemBadRequest}, pastPath + "?at_ms=5001": {400, problemBadRequest},
		pastPath + "?at_ms=-1000": {400, problemBadRequest}, pastPath + "?at_ms=05000": {400, problemBadRequest}, pastPath + "?at_ms=5e3": {400, problemBadRequest},
		pastPath + "?at_ms=99999999999999000": {400, problemBadRequest}, pastPath + "?at_ms=99999999999999999999": {400, problemBadRequest},
		pastPath + "?at_ms=5000&at_ms=5000": {400, problemBadRequest}, pastPath + "?at_ms=5000&bust=1": {400, problemBadRequest},
		pastPath + ".png?at=5000": {400, problemBadRequest}, "/api/v1/past/0123456789abcdee/board?at_ms=5000": {404, problemNotFound},
		"/api/v1/past/x/board.png?at_ms=5000": {404, problemNotFound}, "/api/v1/heat.png?minutes=0": {400, problemBadRequest},
		"/api/v1/heat.png?minutes=1441": {400, problemBadRequest}, "/api/v1/heat.png?hours=1": {400, problemBadRequest},
	} {
		wantProblem(t, path, h.do("GET", path, ""), want.status, want.code)
	}
	if h.fake.pasts != 0 {
		t.Errorf("%d boards were made", h.fake.pasts)
	}
	h.fake.tileErr = errors.New("store away")
	wantProblem(t, "the store is away", h.do("GET", pastPath+"?at_ms=5000", ""), 503, "store")
	h.fake.tileErr = nil
	if res := h.do("GET", pastPath+"?at_ms=5000", ""); res.StatusCode != 200 {
		t.Errorf("when the store is back: %d", res.StatusCode)
	}
	h.fake.mu.Lock()
	h.fake.settings.Width, h.fake.settings.Height = 10_000, 10_000
	h.fake.mu.Unlock()
	wantProblem(t, "a large board", h.do("GET", pastPath+"?at_ms=7000", ""), 422, problemBoardLarge)
	wantProblem(t, "a large board's heat", h.do("GET", "/api/v1/heat.png", ""), 422, problemBoardLarge)
}

// TestPastIsBounded: whatever is asked for, one answer is made at a time; who asks for another one is told to come again, who
// asks for the same waits for it.
func TestPastIsBounded(t *testing.T) {
	h := start(t, nil)
	h.fake.pastBlock = make(chan struct{})
	var wait sync.WaitGroup
	for range 5 {
		wait.Go(func() {
			if res, err := http.Get(h.url + pastPath + "?at_ms=5000"); err != nil || res.StatusCode != 200 {
				t.Errorf("one who waits: %v", err)
			}
		})
	}
	eventually(t, "the first is being made", func() bool {
		h.fake.mu.Lock()
		defer h.fake.mu.Unlock()
		return h.fake.pasts == 1
	})
	for at := 6; at < 10; at++ {
		res := h.do("GET", fmt.Sprintf("%s?at_ms=%d000", pastPath, at), "")
		if p := wantProblem(t, "another one", res, 503, "busy"); p.RetryAfterMs != pastRetryMs || res.Header.Get("Retry-After") != "2" {
			t.Errorf("%+v", p)
		}
	}
	close(h.fake.pastBlock)
	wait.Wait()
	for at := range 2 * pastKept {
		if res := h.do("GET", fmt.Sprintf("%s?at_ms=%d000", pastPath, 100+at), ""); res.StatusCode != 200 {
			t.Fatalf("then: %d", res.StatusCode)
		}
	}
	if n := len(h.past.answers); n != pastKept || h.fake.pasts != 1+2*pastKept {
		t.Errorf("%d answers are kept, %d were made", n, h.fake.pasts)
	}
}
