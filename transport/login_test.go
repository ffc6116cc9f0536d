package transport

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
)

// sign returns the answer and the cookie of signing in.
func sign(t *testing.T, res response) (signedIn, *http.Cookie) {
	t.Helper()
	var got signedIn
	if err := json.Unmarshal(res.body, &got); err != nil || res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, res.body)
	}
	cookies := slices.DeleteFunc(res.Cookies(), func(c *http.Cookie) bool { return c.Name == cookie2017 && c.Value == got.Token })
	if len(cookies) != 1 {
		t.Fatalf("cookies %v", cookies)
	}
	return got, cookies[0]
}

func (h *harness) me(header ...string) (me, int) {
	h.t.Helper()
	var got me
	res := h.do("GET", "/api/v1/me", "", header...)
	json.Unmarshal(res.body, &got)
	if res.Header.Get("Cache-Control") != "no-store" {
		h.t.Errorf("me may be cached: %q", res.Header.Get("Cache-Control"))
	}
	return got, res.StatusCode
}

// TestLogin signs in by name and is that user by cookie and by token.
func TestLogin(t *testing.T) {
	h := start(t, nil)
	got, cookie := sign(t, h.do("POST", "/api/login/"+url.PathEscape("Zoë Ω/1"), ""))
	if got.User != "Zoë Ω/1" || got.Anonymous || got.Token == "" || got.ExpiresMs < time.Now().UnixMilli() {
		t.Errorf("%+v", got)
	}
	if cookie.Name != CookieName || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Secure || cookie.Path != "/" || cookie.MaxAge != 0 || cookie.Value != got.Token {
		t.Errorf("cookie %+v", cookie)
	}
	for _, header := range []string{"Cookie: " + CookieName + "=" + cookie.Value, "Authorization: Bearer " + got.Token, "Authorization: bearer " + got.Token} {
		if m, status := h.me(header); status != 200 || m.User != "Zoë Ω/1" || m.Turn != 3 || m.WaitMs != 1234 || m.Anonymous {
			t.Errorf("%d %+v", status, m)
		}
	}
	if m, status := h.me(); status != 200 || m.User != "" {
		t.Errorf("nobody: %d %+v", status, m)
	}
	if m, _ := h.me("Cookie: "+CookieName+"="+cookie.Value, "Authorization: Bearer "+h.token("ann")); m.User != "ann" {
		t.Errorf("a bearer token does not go before the cookie: %+v", m)
	}
	res := h.do("POST", "/api/logout", "")
	if c := res.Cookies(); res.StatusCode != 204 || len(c) != 1 || c[0].MaxAge >= 0 || c[0].Value != "" {
		t.Errorf("logout: %d %v", res.StatusCode, c)
	}
}

func TestLoginRefused(t *testing.T) {
	h := start(t, nil)
	for _, c := range []struct {
		path, code string
	}{
		{"/api/login/" + strings.Repeat("x", 49), problemUserName},
		{"/api/login/%20ann", problemUserName},
		{"/api/login/a%0Ab", problemUserName},
		{"/api/login/%ff", problemUserName},
		{"/api/login/anon-abc", problemReserved},
		{"/api/login/ANON-abc", problemReserved},
		{"/api/login/anon-", problemReserved},
	} {
		wantProblem(t, c.path, h.do("POST", c.path, ""), 422, c.code)
	}
	wantProblem(t, "no name", h.do("POST", "/api/login/", ""), 404, problemNotFound)
	for _, kind := range []string{signInAnon, signInNamed} {
		if n := h.count("placed_sign_ins_total", "kind", kind); n != 0 {
			t.Errorf("%v %s identities handed out", n, kind)
		}
	}
}

// TestAnonymous gets an identity, keeps it, and gets a new one for a bad cookie.
func TestAnonymous(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.SecureCookies = true })
	got, cookie := sign(t, h.do("POST", "/api/v1/anonymous", ""))
	if !strings.HasPrefix(string(got.User), AnonymousPrefix) || len(got.User) != len(AnonymousPrefix)+16 || !got.Anonymous || !cookie.Secure || cookie.MaxAge < 86400 {
		t.Errorf("%+v %+v", got, cookie)
	}
	if m, _ := h.me("Authorization: Bearer " + got.Token); m.User != got.User || !m.Anonymous {
		t.Errorf("%+v", m)
	}
	again, _ := sign(t, h.do("POST", "/api/v1/anonymous", "", "Cookie: "+CookieName+"="+cookie.Value))
	if again.User != got.User || !again.Anonymous {
		t.Errorf("asked again it is %q", again.User)
	}
	other, _ := sign(t, h.do("POST", "/api/v1/anonymous", "", "Cookie: "+CookieName+"=bad"))
	if other.User == got.User {
		t.Error("two have the same name")
	}
	if n := h.count("placed_sign_ins_total", "kind", signInAnon); n != 2 {
		t.Errorf("%v handed out", n)
	}
}

// TestBadTokens tries to be somebody else.
func TestBadTokens(t *testing.T) {
	h := start(t, nil)
	good := h.token("ann")
	raw, _ := base64.RawURLEncoding.DecodeString(good)
	changed := func(change func(b []byte) []byte) string {
		return base64.RawURLEncoding.EncodeToString(change(append([]byte(nil), raw...)))
	}
	other := newSigner([]byte(strings.Repeat("another key ", 4)), AuthOpen)
	expired := h.signer.seal("ann", false, time.Now().Add(-time.Second))
	for name, c := range map[string]struct{ token, reason string }{
		"empty":              {"", tokenForged},
		"garbage":            {"%%%", tokenForged},
		"another key":        {other.seal("ann", false, time.Now().Add(time.Hour)), tokenForged},
		"another user":       {changed(func(b []byte) []byte { b[tokenHeaderBytes] = 'b'; return b }), tokenForged},
		"a longer life":      {changed(func(b []byte) []byte { b[5]++; return b }), tokenForged},
		"a flag":             {changed(func(b []byte) []byte { b[1] ^= tokenAnonymous; return b }), tokenForged},
		"a cut signature":    {changed(func(b []byte) []byte { return b[:len(b)-1] }), tokenForged},
		"no signature":       {changed(func(b []byte) []byte { return b[:len(b)-tokenMacBytes] }), tokenForged},
		"padded":             {good + "=", tokenForged},
		"a loose last bit":   {looseLastBit(t, good), tokenForged},
		"very long":          {strings.Repeat("A", 5000), tokenForged},
		"expired":            {expired, tokenExpired},
		"the operators' one": {testToken, tokenForged},
	} {
		before := h.count("placed_bad_tokens_total", "reason", c.reason)
		res := h.do("GET", "/api/v1/me", "", "Authorization: Bearer "+c.token)
		p := wantProblem(t, name, res, 401, problemToken)
		if res.Header.Get("WWW-Authenticate") != "Bearer" || strings.Contains(p.Detail, "ann") {
			t.Errorf("%s: %v %+v", name, res.Header, p)
		}
		if h.count("placed_bad_tokens_total", "reason", c.reason) != before+1 {
			t.Errorf("%s: not counted as %s", name, c.reason)
		}
	}
	res := h.do("GET", "/api/v1/me", "", "Cookie: "+CookieName+"="+expired)
	wantProblem(t, "an expired cookie", res, 401, problemToken)
	if c := res.Cookies(); len(c) != 1 || c[0].MaxAge >= 0 {
		t.Errorf("the browser keeps a cookie that is not good: %v", c)
	}
	if strings.Contains(h.logs.String(), good) {
		t.Error("a token is logged")
	}
}

// looseLastBit returns another text that a careless decoder takes for the same bytes.
func looseLastBit(t *testing.T, token string) string {
	t.Helper()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	if len(token)%4 == 0 {
		t.Fatal("the token has no loose bits: use a name of another length")
	}
	i := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + string(alphabet[i|1])
}

// TestTokenTime checks the expiry to the second.
func TestTokenTime(t *testing.T) {
	s := newSigner(testKey, AuthOpen)
	at := time.Unix(2_000_000_000, 0)
	token := s.seal("ann", true, at)
	if got, err := s.open(token, at.Add(-time.Second)); got != (pass{"ann", true, at}) || err != nil {
		t.Errorf("a second before: %+v %v", got, err)
	}
	if _, err := s.open(token, at); err != errTokenExpired {
		t.Errorf("at its end: %v", err)
	}
	long := board.UserID(strings.Repeat("ä", board.UserBytesMax/2))
	if got, err := s.open(s.seal(long, false, at), at.Add(-time.Hour)); got.user != long || err != nil {
		t.Errorf("the longest name: %+v %v", got, err)
	}
}

func FuzzToken(f *testing.F) {
	s := newSigner(testKey, AuthOpen)
	at := time.Unix(2_000_000_000, 0)
	f.Add(s.seal("ann", true, at))
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		if got, err := s.open(token, at.Add(-time.Hour)); err == nil && got != (pass{"ann", true, at}) {
			t.Fatalf("a token of nobody's making is %+v", got)
		}
	})
}

// TestLoadSecret makes a secret, keeps it, and refuses those that are none.
func TestLoadSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	secret, err := LoadSecret(path)
	if err != nil || len(secret) != 64 {
		t.Fatalf("%q, %v", secret, err)
	}
	if again, err := LoadSecret(path); again != secret || err != nil {
		t.Errorf("read again: %v", err)
	}
	if other, _ := LoadSecret(filepath.Join(t.TempDir(), "secret")); other == secret {
		t.Error("two secrets are the same")
	}
	if runtime.GOOS != "windows" {
		if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v", info.Mode())
		}
		os.Chmod(path, 0o640)
		if _, err := LoadSecret(path); err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a secret that others may read: %v", err)
		}
	}
	short := filepath.Join(t.TempDir(), "short")
	os.WriteFile(short, []byte("abc\n"), 0o600)
	if _, err := LoadSecret(short); err == nil {
		t.Error("a secret of three characters")
	}
	if _, err := LoadSecret(filepath.Join(t.TempDir(), "no", "where")); err == nil {
		t.Error("a secret in no directory")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".secret-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestSignInRation asks for more identities than one address range gets, by every way there is.
func TestSignInRation(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.Unlimited = nil; cfg.SignInsPerHour = 3; cfg.RequestsPerSecond = 10_000 })
	sign(t, h.do("POST", "/api/v1/anonymous", ""))
	sign(t, h.do("POST", "/api/login/ann", ""))
	if res := h.do("GET", "/", "", "Sec-Fetch-Dest: document"); len(res.Cookies()) != 1 {
		t.Error("the page comes without an identity")
	}
	p := wantProblem(t, "anonymous", h.do("POST", "/api/v1/anonymous", ""), 429, problemRation)
	if p.RetryAfterMs < 19*60*1000 || p.RetryAfterMs > 20*60*1000 {
		t.Errorf("try again in %d ms", p.RetryAfterMs)
	}
	wantProblem(t, "named", h.do("POST", "/api/login/bob", ""), 429, problemRation)
	if res := h.do("GET", "/", "", "Sec-Fetch-Dest: document"); res.StatusCode != 200 || len(res.Cookies()) != 0 {
		t.Errorf("the page: %d, %v", res.StatusCode, res.Cookies())
	}
	if _, cookie := sign(t, h.do("POST", "/api/v1/anonymous", "", "Authorization: Bearer "+h.token("ann"))); cookie.Value == "" {
		t.Error("who has an identity needs no other")
	}
	now := time.Now()
	if _, ok := h.limits.signIn(netip.MustParseAddr("127.0.0.200"), now); ok {
		t.Error("another address of the range is not rationed")
	}
	if _, ok := h.limits.signIn(netip.MustParseAddr("127.0.1.1"), now); !ok {
		t.Error("another range is rationed")
	}
}
