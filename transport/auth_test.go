package transport

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/placed-board/placed/board"
	outside "github.com/placed-board/placed/internal/identity"
	"github.com/placed-board/placed/wire"
)

var providerSecret = []byte("the provider's secret, which has 32 bytes")

// provide returns a token of the identity provider.
func provide(t testing.TB, user string, life time.Duration) string {
	t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": "provider", "aud": "board", "sub": user, "exp": time.Now().Add(life).Unix(),
	}).SignedString(providerSecret)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// startJWT is start with an identity provider.
func startJWT(t *testing.T, change func(*Config)) *harness {
	t.Helper()
	cfg := outside.DefaultConfig()
	cfg.Algorithm, cfg.Secret, cfg.Issuer, cfg.Audience, cfg.Leeway = outside.HS256, providerSecret, "provider", "board", 0
	return start(t, func(c *Config) {
		c.Auth, c.JWT = AuthJWT, cfg
		if change != nil {
			change(c)
		}
	})
}

// TestTokensOfAProvider signs in by bearer token, turns it into a cookie, and places with both.
func TestTokensOfAProvider(t *testing.T) {
	h := startJWT(t, func(cfg *Config) { cfg.SignInURL = "https://login.example.org/" })
	bearer := "Authorization: Bearer " + provide(t, "Zoë", time.Hour)
	if m, status := h.me(bearer); status != 200 || m.User != "Zoë" || m.Anonymous {
		t.Errorf("%d %+v", status, m)
	}
	got, cookie := sign(t, h.do("POST", "/api/v1/session", "", bearer))
	if got.User != "Zoë" || cookie.MaxAge < 3500 || cookie.MaxAge > 3600 {
		t.Errorf("%+v %+v", got, cookie)
	}
	ours := "Cookie: " + CookieName + "=" + cookie.Value
	if m, _ := h.me(ours); m.User != "Zoë" {
		t.Errorf("by cookie: %+v", m)
	}
	ws := h.dial(ours, "Origin: "+h.url)
	next(t, ws)
	send(t, ws, &wire.Place{Turn: 1, Nonce: 2, X: 3, Y: 4, Colour: 5})
	eventually(t, "the placement arrives", func() bool { received, _ := h.fake.state(); return received == 1 })
	res := h.do("POST", "/api/v1/placements", `{"x":1,"y":2,"colour":3}`, bearer, "Idempotency-Key: a", "Content-Type: application/json")
	if _, placed := h.fake.state(); res.StatusCode != 200 || placed != 1 {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	if body := string(h.do("GET", "/api/v1/config", "").body); !strings.Contains(body, `"auth":"jwt","sign_in_url":"https://login.example.org/"`) {
		t.Errorf("config %s", body)
	}
	for _, path := range []string{"/api/v1/anonymous", "/api/login/ann", "/api/v1/invite"} {
		wantProblem(t, path, h.do("POST", path, ""), 403, problemAuth)
	}
	if res := h.do("GET", "/", "", "Sec-Fetch-Dest: document"); len(res.Cookies()) != 0 {
		t.Error("the page hands out an identity")
	}
	if n := h.count("placed_sign_ins_total", "kind", signInToken); n != 1 {
		t.Errorf("%v sign-ins", n)
	}
}

// TestBadTokensOfAProvider sends bad tokens by every way; each is answered and counted, and nothing reaches the board.
func TestBadTokensOfAProvider(t *testing.T) {
	h := startJWT(t, func(cfg *Config) { cfg.JWTCookie = "provider_token" })
	// A token of the same board when everybody could take a name.
	open := newSigner(testKey, AuthOpen).seal("Zoë", false, time.Now().Add(time.Hour))
	invited := newSigner(testKey, AuthInvite).seal("Zoë", false, time.Now().Add(time.Hour))
	for name, c := range map[string]struct{ token, reason string }{
		"expired":         {provide(t, "Zoë", -time.Minute), tokenExpired},
		"cut":             {provide(t, "Zoë", time.Hour)[:60], string(outside.ReasonMalformed)},
		"forged":          {provide(t, "Zoë", time.Hour) + "A", tokenForged},
		"huge":            {strings.Repeat("a.", outside.TokenBytesMax/2+1), string(outside.ReasonLong)},
		"a name for none": {provide(t, "anon-x", time.Hour), string(outside.ReasonUser)},
		"of open times":   {open, tokenForged},
		"of an invite":    {invited, tokenForged},
	} {
		before := h.count("placed_bad_tokens_total", "reason", c.reason)
		auth := "Authorization: Bearer " + c.token
		wantProblem(t, name, h.do("GET", "/api/v1/me", "", auth), 401, problemToken)
		wantProblem(t, name, h.do("POST", "/api/v1/placements", `{"x":1,"y":2,"colour":3}`, auth, "Idempotency-Key: a", "Content-Type: application/json"), 401, problemToken)
		if _, res, err := h.tryDial(auth); err == nil || res == nil || res.StatusCode != 401 {
			t.Errorf("%s: a session: %v", name, err)
		}
		if n := h.count("placed_bad_tokens_total", "reason", c.reason); n != before+3 {
			t.Errorf("%s: %v counted as %s", name, n-before, c.reason)
		}
		if c.token == open || c.token == invited {
			continue
		}
		wantProblem(t, name, h.do("POST", "/api/v1/session", "", auth), 401, problemToken)
		if m, status := h.me("Cookie: provider_token=" + c.token); status != 200 || m.User != "" {
			t.Errorf("%s, in the provider's cookie: %d %+v", name, status, m)
		}
	}
	wantProblem(t, "no token", h.do("POST", "/api/v1/session", ""), 401, problemToken)
	if m, _ := h.me("Cookie: provider_token=" + provide(t, "Zoë", time.Hour)); m.User != "Zoë" {
		t.Errorf("the provider's cookie: %+v", m)
	}
	if received, placed := h.fake.state(); received+placed != 0 {
		t.Error("something reached the board")
	}
	if strings.Contains(h.logs.String(), "eyJ") {
		t.Error("a token is logged")
	}
}

// TestSessionOutlivesItsToken places on a session whose token has ended.
func TestSessionOutlivesItsToken(t *testing.T) {
	h := startJWT(t, nil)
	ws := h.dial("Authorization: Bearer " + provide(t, "Zoë", 2*time.Second))
	next(t, ws)
	eventually(t, "a placement is refused", func() bool {
		send(t, ws, &wire.Place{Turn: 1, Nonce: 2, X: 3, Y: 4, Colour: 5})
		return h.count("placed_ws_bad_messages_total", "reason", badSignedOut) > 0
	})
	// What came while the token was good went to the board, which answers nothing here; notices of the rate may stand before.
	for {
		if answer, ok := next(t, ws).(*wire.Placed); ok && answer.Code == board.CodeSignIn {
			return
		}
	}
}

// TestProxyNamesTheUser takes the user from a header of a trusted proxy, and of nobody else.
func TestProxyNamesTheUser(t *testing.T) {
	trusted := func(prefix string) func(*Config) {
		return func(cfg *Config) {
			cfg.Auth, cfg.AuthHeader = AuthProxy, "Remote-User"
			cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(prefix)}
		}
	}
	h := start(t, trusted("127.0.0.0/8"))
	if m, status := h.me("Remote-User: Zoë"); status != 200 || m.User != "Zoë" {
		t.Errorf("%d %+v", status, m)
	}
	if m, status := h.me("Remote-User: Zoë", "X-Forwarded-For: 192.0.2.1"); status != 200 || m.User != "Zoë" {
		t.Errorf("with an address: %d %+v", status, m)
	}
	for _, none := range [][]string{nil, {"Remote-User: "}, {"Cookie: " + CookieName + "=" + h.token("ann")}} {
		if m, status := h.me(none...); status != 200 || m.User != "" {
			t.Errorf("%q: %d %+v", none, status, m)
		}
	}
	ws := h.dial("Remote-User: Zoë", "Origin: "+h.url)
	next(t, ws)
	send(t, ws, &wire.Place{Turn: 1, Nonce: 2, X: 3, Y: 4, Colour: 5})
	eventually(t, "the placement arrives", func() bool { received, _ := h.fake.state(); return received == 1 })
	wantProblem(t, "twice", h.do("GET", "/api/v1/me", "", "Remote-User: ann", "Remote-User: bob"), 403, problemProxy)
	wantProblem(t, "no name", h.do("GET", "/api/v1/me", "", "Remote-User: "+strings.Repeat("x", 49)), 422, problemUserName)
	wantProblem(t, "nobody's name", h.do("GET", "/api/v1/me", "", "Remote-User: anon-x"), 422, problemUserName)
	if _, res, err := h.tryDial("Remote-User: Zoë", "Origin: https://evil.example"); err == nil || res.StatusCode != 403 {
		t.Errorf("a foreign page opens a session of the proxy's user: %v", err)
	}

	stranger := start(t, trusted("10.0.0.0/8"))
	for _, header := range [][]string{{"Remote-User: Zoë"}, {"Remote-User: Zoë", "X-Forwarded-For: 10.0.0.1"}, {"remote-user: Zoë"}} {
		wantProblem(t, "a stranger", stranger.do("GET", "/api/v1/me", "", header...), 403, problemProxy)
	}
	if _, res, err := stranger.tryDial("Remote-User: Zoë"); err == nil || res.StatusCode != 403 {
		t.Errorf("a stranger's session: %v", err)
	}
	if n := stranger.count("placed_bad_tokens_total", "reason", tokenStranger); n != 4 {
		t.Errorf("%v counted", n)
	}
	if m, status := stranger.me(); status != 200 || m.User != "" {
		t.Errorf("a spectator: %d %+v", status, m)
	}
}

// TestImpossibleAuth starts with half of what a way to sign in needs.
func TestImpossibleAuth(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"no way to sign in":   func(c *Config) { c.Auth = "magic" },
		"no proxy is trusted": func(c *Config) { c.Auth, c.AuthHeader = AuthProxy, "Remote-User" },
		"is no name of a":     func(c *Config) { c.Auth, c.AuthHeader = AuthProxy, "Remote User" },
		"the sign-in URL":     func(c *Config) { c.SignInURL = "javascript:alert(1)" },
		"the public URL":      func(c *Config) { c.PublicURL = "board.example.org" },
		"an algorithm":        func(c *Config) { c.Auth = AuthJWT },
		"invites are for":     func(c *Config) { c.Auth = AuthInvite },
	} {
		cfg := testConfig()
		change(&cfg)
		if err := tryNew(cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
