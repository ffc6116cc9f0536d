package transport

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// TestClientOf reads chains of proxies, true and made up.
func TestClientOf(t *testing.T) {
	proxy := netip.MustParseAddr("10.0.0.1")
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct {
		header string // lines between "|"
		want   string
		result string
	}{
		{"192.0.2.1", "192.0.2.1", forwardedUsed},
		{" 192.0.2.1 ", "192.0.2.1", forwardedUsed},
		{"192.0.2.1:4711", "192.0.2.1", forwardedUsed},
		{"2001:db8::1", "2001:db8::1", forwardedUsed},
		{"[2001:db8::1]", "2001:db8::1", forwardedUsed},
		{"[2001:db8::1]:4711", "2001:db8::1", forwardedUsed},
		{"::ffff:192.0.2.1", "192.0.2.1", forwardedUsed},
		{"192.0.2.1, 10.0.0.2", "192.0.2.1", forwardedUsed},
		{"192.0.2.1|10.0.0.2", "192.0.2.1", forwardedUsed},
		{"192.0.2.1, fd00::2, 10.0.0.2", "192.0.2.1", forwardedUsed},
		{"10.0.0.3, 10.0.0.2", "10.0.0.3", forwardedUsed},
		{"127.0.0.1, 192.0.2.1", "192.0.2.1", forwardedClaimed},
		{"10.0.0.9, 192.0.2.1", "192.0.2.1", forwardedClaimed},
		{"127.0.0.1|192.0.2.1", "192.0.2.1", forwardedClaimed},
		{"rubbish, 192.0.2.1, 10.0.0.2", "192.0.2.1", forwardedClaimed},
		{"rubbish", "10.0.0.1", forwardedMalformed},
		{"", "10.0.0.1", forwardedMalformed},
		{"192.0.2.1, ", "10.0.0.1", forwardedMalformed},
		{"192.0.2.1, unknown, 10.0.0.2", "10.0.0.2", forwardedMalformed},
		{"127.0.0.1\x00", "10.0.0.1", forwardedMalformed},
		{strings.Repeat("10.0.0.2, ", 30) + "10.0.0.2", "10.0.0.2", forwardedMalformed},
	} {
		got, result := clientOf(proxy, strings.Split(c.header, "|"), trusted)
		if got.String() != c.want || result != c.result {
			t.Errorf("%q: %v %s, want %s %s", c.header, got, result, c.want, c.result)
		}
	}
	if got, result := clientOf(proxy, nil, trusted); got != proxy || result != forwardedNone {
		t.Errorf("no header: %v %s", got, result)
	}
}

func FuzzClientOf(f *testing.F) {
	f.Add("192.0.2.1, 10.0.0.2", "10.0.0.3")
	proxy := netip.MustParseAddr("10.0.0.1")
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, first, second string) {
		got, result := clientOf(proxy, []string{first, second}, trusted)
		if !got.IsValid() || result == forwardedNone || got.Zone() != "" {
			t.Fatalf("%v %s", got, result)
		}
		// Whatever the client wrote, what the proxy appends decides.
		if got, _ := clientOf(proxy, []string{first, second, "192.0.2.1"}, trusted); got != netip.MustParseAddr("192.0.2.1") {
			t.Fatalf("the client chose its own address: %v", got)
		}
	})
}

// TestTrustedProxy has clients come through a proxy: each has the limits of its own address, and nobody's word but the
// proxy's counts.
func TestTrustedProxy(t *testing.T) {
	h := start(t, func(cfg *Config) {
		cfg.Unlimited = []netip.Prefix{netip.MustParsePrefix("192.0.2.99/32")}
		cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		cfg.RequestsPerSecond, cfg.SignInsPerHour = 3, 2
	})
	ask := func(forwarded string) (ok int) {
		for range 6 {
			if h.do("GET", "/api/v1/config", "", "X-Forwarded-For: "+forwarded).StatusCode == 200 {
				ok++
			}
		}
		return ok
	}
	for i := range 3 {
		if ok := ask(fmt.Sprintf("192.0.2.%d", i+1)); ok < 3 || ok > 4 {
			t.Errorf("client %d: %d of 6 requests", i, ok)
		}
	}
	if ok := ask("192.0.2.99, 192.0.2.4"); ok > 4 {
		t.Errorf("%d of 6 requests of one who claims an unlimited address", ok)
	}
	if ok := ask("192.0.2.99"); ok != 6 {
		t.Errorf("%d of 6 requests of an unlimited address behind the proxy", ok)
	}
	for result, atLeast := range map[string]float64{forwardedUsed: 18, forwardedClaimed: 6, forwardedUntrusted: 0} {
		if n := h.count("placed_forwarded_requests_total", "result", result); n < atLeast || atLeast == 0 && n != 0 {
			t.Errorf("%v %s", n, result)
		}
	}
	// The ration of identities goes by the true network too.
	for i, network := range []string{"198.51.100.1", "198.51.101.1"} {
		for range 2 {
			sign(t, h.do("POST", "/api/v1/anonymous", "", "X-Forwarded-For: "+network))
		}
		wantProblem(t, network, h.do("POST", "/api/v1/anonymous", "", "X-Forwarded-For: "+network), 429, problemRation)
		if n := h.count("placed_http_refusals_total", "code", problemRation); n != float64(i+1) {
			t.Errorf("%v counted", n)
		}
	}
	if strings.Contains(h.logs.String(), "forwards for others") {
		t.Error("a warning of a proxy that is trusted")
	}
}

// TestForwardedByStrangers: a header of an address that is no trusted proxy is counted and changes nothing.
func TestForwardedByStrangers(t *testing.T) {
	h := start(t, func(cfg *Config) {
		cfg.Unlimited, cfg.RequestsPerSecond = nil, 3
		cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	refused := 0
	for i := range 6 {
		if h.do("GET", "/api/v1/config", "", fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i), "X-Forwarded-Proto: https").StatusCode == 429 {
			refused++
		}
	}
	if n := h.count("placed_forwarded_requests_total", "result", forwardedUntrusted); refused < 2 || n != 6 {
		t.Errorf("%d of 6 refused, %v counted", refused, n)
	}
}

// TestSessionsBehindAProxy counts sessions by their true address, through one proxy, and gives their places back.
func TestSessionsBehindAProxy(t *testing.T) {
	h := start(t, func(cfg *Config) {
		cfg.Unlimited, cfg.ConnectionsPerAddress = nil, 2
		cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	const from, other = "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2"
	first := h.dial(from)
	h.dial(from)
	_, res, err := h.tryDial(from)
	if err == nil || res == nil || res.StatusCode != 429 {
		t.Fatalf("a third session: %v %v", res, err)
	}
	for range 2 {
		h.dial(other)
	}
	if n := h.count("placed_http_refusals_total", "code", problemConnections); n != 1 {
		t.Errorf("%v counted", n)
	}
	first.Close()
	eventually(t, "the place is free again", func() bool {
		ws, _, err := h.tryDial(from)
		if err == nil {
			t.Cleanup(func() { ws.Close() })
		}
		return err == nil
	})
}

// TestSecureCookies marks cookies as fit for TLS only when the page came by TLS to a trusted proxy.
func TestSecureCookies(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	for proto, secure := range map[string]bool{"https": true, "HTTPS": true, "http": false, "": false} {
		_, cookie := sign(t, h.do("POST", "/api/login/ann", "", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: "+proto))
		if cookie.Secure != secure {
			t.Errorf("%q: %v", proto, cookie.Secure)
		}
	}
	direct := start(t, nil)
	if _, cookie := sign(t, direct.do("POST", "/api/login/ann", "", "X-Forwarded-Proto: https")); cookie.Secure {
		t.Error("a stranger's header makes a cookie secure")
	}
}
