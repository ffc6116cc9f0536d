package transport

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
)

// TestOneGuestOneRation has guests open the page and then choose a name: as many get in as the ration says, and no identity is
// given up twice or good afterwards.
func TestOneGuestOneRation(t *testing.T) {
	const guests = 10
	h := start(t, func(cfg *Config) { cfg.Unlimited = nil; cfg.SignInsPerHour = guests; cfg.RequestsPerSecond = 10_000 })
	var cookies []*http.Cookie
	for i := range guests {
		page := h.do("GET", "/", "", "Sec-Fetch-Dest: document")
		if len(page.Cookies()) != 1 {
			t.Fatalf("guest %d gets no identity with the page", i)
		}
		cookie := page.Cookies()[0]
		cookies = append(cookies, cookie)
		got, _ := sign(t, h.do("POST", fmt.Sprintf("/api/login/guest-%d", i), "", "Cookie: "+CookieName+"="+cookie.Value))
		if got.User != board.UserID(fmt.Sprintf("guest-%d", i)) || got.Anonymous {
			t.Fatalf("guest %d is %+v", i, got)
		}
	}
	for _, cookie := range cookies {
		old := "Cookie: " + CookieName + "=" + cookie.Value
		p := wantProblem(t, "a second name for one identity", h.do("POST", "/api/login/more", "", old), 429, problemRation)
		if !strings.Contains(p.Detail, "10 new guests an hour") || p.RetryAfterMs < 1000 {
			t.Errorf("the refusal does not say how many and when: %+v", p)
		}
		wantProblem(t, "an identity that was given up", h.do("GET", "/api/v1/me", "", old), 401, problemToken)
	}
	if n := h.count("placed_bad_tokens_total", "reason", tokenGivenUp); n != 2*guests {
		t.Errorf("%v counted", n)
	}
}

// TestGivenUpBounded gives up more identities than are remembered.
func TestGivenUpBounded(t *testing.T) {
	g := newGivenUp()
	for i := range 3 * givenUpMax {
		if !g.add(board.UserID(fmt.Sprint(i))) {
			t.Fatalf("%d was given up before", i)
		}
		if len(g.recent)+len(g.older) > 2*givenUpMax {
			t.Fatalf("%d are remembered", len(g.recent)+len(g.older))
		}
	}
	for i := 2 * givenUpMax; i < 3*givenUpMax; i++ {
		if !g.has(board.UserID(fmt.Sprint(i))) || g.add(board.UserID(fmt.Sprint(i))) {
			t.Fatalf("%d of the last is forgotten", i)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		time.Millisecond: "1s", 36 * time.Second: "36s", 35*time.Second + 1: "36s", 119 * time.Second: "1m59s", 121 * time.Second: "3m0s", time.Hour: "1h0m0s",
	} {
		if got := roundUp(wait).String(); got != want {
			t.Errorf("%v: %s, want %s", wait, got, want)
		}
	}
}
