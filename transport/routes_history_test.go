package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/placed-board/placed/board"
)

func getHistory(t *testing.T, h *harness, path, cache string) historyPage {
	t.Helper()
	res := h.do("GET", path, "")
	var page historyPage
	if res.StatusCode != 200 || json.Unmarshal(res.body, &page) != nil || res.Header.Get("Cache-Control") != cache || res.Header.Get("Set-Cookie") != "" {
		t.Fatalf("%s: %d %v %s", path, res.StatusCode, res.Header, res.body)
	}
	return page
}

func TestHistoryPages(t *testing.T) {
	h := start(t, nil)
	for _, path := range []string{"/api/v1/tiles/3/4/history", "/api/v1/users/ann/history"} {
		page := getHistory(t, h, path, "public, max-age=1")
		if len(page.Items) != 5 || page.Next != "" || page.Items[0].Sequence != 5 || page.Items[0].User != "ann" {
			t.Errorf("%s: %+v", path, page)
		}
		var got []uint64
		page = getHistory(t, h, path+"?limit=2", "public, max-age=1")
		for {
			for _, item := range page.Items {
				got = append(got, item.Sequence)
			}
			if page.Next == "" {
				break
			}
			page = getHistory(t, h, path+"?limit=2&page="+page.Next, cacheForEver)
		}
		if fmt.Sprint(got) != "[5 4 3 2 1]" {
			t.Errorf("%s: pages of two: %v", path, got)
		}
	}
}

// TestHistoryBadQuestions makes up tokens, limits and parameters: each is refused and counted.
func TestHistoryBadQuestions(t *testing.T) {
	h := start(t, nil)
	const path = "/api/v1/tiles/3/4/history"
	page := getHistory(t, h, path+"?limit=1", "public, max-age=1").Next
	ofAnother := getHistory(t, h, "/api/v1/tiles/3/5/history?limit=1", "public, max-age=1").Next
	changed := "B" + page[1:]
	forged := writePage(board.NewestIn(board.Entry{Version: 6}), testEpoch, "tile 3 4")
	otherEpoch := writePage(board.NewestIn(board.Entry{Version: 3}), testEpoch+1, "tile 3 4")
	for query, want := range map[string]string{
		"page=" + ofAnother: problemPage, "page=" + changed: problemPage, "page=" + forged: problemPage, "page=" + otherEpoch: problemPage,
		"page=": problemPage, "page=%00": problemPage, "page=" + page + "=": problemPage, "page=" + page + page: problemPage,
		"page=" + strings.Repeat("A", 4000): problemPage, "page=..%2F..%2Fetc": problemPage,
		"limit=0": problemBadRequest, "limit=101": problemBadRequest, "limit=-1": problemBadRequest, "limit=07": problemBadRequest,
		"limit=1e2": problemBadRequest, "limit=": problemBadRequest, "limit=99999999999999999999": problemBadRequest,
		"limit=1&limit=1": problemBadRequest, "bust=7": problemBadRequest, "Limit=5": problemBadRequest, "limit=%zz": problemBadRequest, "a;b": problemBadRequest,
		"page=" + page + "&page=" + page: problemBadRequest,
	} {
		if p := wantProblem(t, query, h.do("GET", path+"?"+query, ""), 400, want); p.Title == "" {
			t.Errorf("%s: no sentence", query)
		}
	}
	if n := count(t, h.reg, "placed_http_refusals_total", "code", problemPage); n != 10 {
		t.Errorf("%v refusals of pages are counted, want 10", n)
	}
	for path, want := range map[string]struct {
		status int
		code   string
	}{
		"/api/v1/tiles/1000/0/history": {422, "bounds"}, "/api/v1/tiles/a/0/history": {400, problemBadRequest},
		"/api/v1/tiles/01/0/history": {400, problemBadRequest}, "/api/v1/users/%00/history": {422, problemUserName},
		"/api/v1/users/" + strings.Repeat("u", 49) + "/history": {422, problemUserName}, "/api/v1/users//history": {404, problemNotFound},
	} {
		if res := h.do("GET", path, ""); res.StatusCode != 307 && res.StatusCode != 301 {
			wantProblem(t, path, res, want.status, want.code)
		}
	}
	h.fake.tileErr = errors.New("store away")
	wantProblem(t, "the store is away", h.do("GET", path, ""), 503, "store")
}

// TestHistoryIsRationed asks for more pages than an address may have in a second.
func TestHistoryIsRationed(t *testing.T) {
	h := start(t, func(cfg *Config) {
		limited(cfg)
		cfg.RequestsPerSecond = 2 * historyCost
	})
	codes := map[int]int{}
	for range 8 {
		codes[h.do("GET", "/api/v1/tiles/1/1/history", "").StatusCode]++
	}
	if codes[200] < 2 || codes[429] < 1 || codes[200]+codes[429] != 8 {
		t.Errorf("answers by status: %v", codes)
	}
}

func TestPageTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		grid := rapid.IntRange(0, board.SideMax/board.BlockSize-1)
		c := board.HistoryCursor{
			Entry: board.Entry{Block: board.NewBlockID(grid.Draw(t, "col"), grid.Draw(t, "row")), Version: rapid.Uint64Min(1).Draw(t, "version")},
			Index: rapid.Uint16().Draw(t, "index"),
		}
		of := rapid.String().Draw(t, "of")
		token := writePage(c, 7, of)
		if got, ok := readPage(token, 7, of); !ok || got != c {
			t.Fatalf("%+v became %+v, %v", c, got, ok)
		}
		if _, ok := readPage(token, 8, of); ok {
			t.Fatal("another board takes the token")
		}
		if _, ok := readPage(token, 7, of+"x"); ok {
			t.Fatal("another history takes the token")
		}
	})
}

func FuzzReadPage(f *testing.F) {
	f.Add(writePage(board.NewestIn(board.Entry{Block: 3, Version: 300}), 7, "tile 1 2"))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := readPage(text, 7, "tile 1 2")
		if ok && (c.End() || writePage(c, 7, "tile 1 2") != text) {
			t.Fatalf("%q is taken as %+v", text, c)
		}
	})
}
