package transport

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRequestRate sends more requests than an address may, and one from another.
func TestRequestRate(t *testing.T) {
	bubble(t, func(cfg *Config) { cfg.RequestsPerSecond = 10 }, func(t *testing.T, b *bubbleServer) {
		get := func(addr, path string) int {
			t.Helper()
			nc := b.connect(t, addr)
			defer nc.Close()
			go io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			res, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode == 429 {
				wantProblem(t, addr, response{res, body}, 429, "rate")
			}
			return res.StatusCode
		}
		many := func(n int, addr, path string) (ok int) {
			for range n {
				if get(addr, path) == 200 {
					ok++
				}
			}
			return ok
		}
		if ok := many(15, "192.0.2.1", "/api/v1/config"); ok != 10 {
			t.Errorf("%d of 15 requests at once, want 10", ok)
		}
		if ok := many(3, "192.0.2.1", "/livez"); ok != 3 {
			t.Errorf("%d of 3 probes", ok)
		}
		if ok := many(5, "::ffff:192.0.2.1", "/api/v1/config"); ok != 0 {
			t.Errorf("%d of 5 from the same address written as IPv6", ok)
		}
		if ok := many(5, "192.0.2.2", "/api/v1/config"); ok != 5 {
			t.Errorf("%d of 5 from another address", ok)
		}
		if ok := many(8, "2001:db8:1:2::1", "/api/v1/config") + many(8, "2001:db8:1:2:ffff::2", "/api/v1/config"); ok != 10 {
			t.Errorf("%d of 16 from one IPv6 /64", ok)
		}
		if ok := many(5, "2001:db8:1:3::1", "/api/v1/config"); ok != 5 {
			t.Errorf("%d of 5 from the next /64", ok)
		}
		if ok := many(50, "127.0.0.5", "/api/v1/config"); ok != 50 {
			t.Errorf("%d of 50 from an unlimited address", ok)
		}
		<-time.After(500 * time.Millisecond)
		if ok := many(15, "192.0.2.1", "/api/v1/config"); ok != 5 {
			t.Errorf("%d of 15 half a second later, want 5", ok)
		}
		if n := count(t, b.reg, "placed_http_refusals_total", "code", "rate"); n != 5+5+6+10 {
			t.Errorf("%v counted", n)
		}
	})
}

// TestConnectionsPerAddress opens more connections than an address may: the first ones too many are told so, later ones are
// closed, others are let in, and places are given back.
func TestConnectionsPerAddress(t *testing.T) {
	bubble(t, func(cfg *Config) { cfg.ConnectionsPerAddress = 2 }, func(t *testing.T, b *bubbleServer) {
		ask := func(nc net.Conn) string {
			t.Helper()
			go io.WriteString(nc, "GET /api/v1/config HTTP/1.1\r\nHost: x\r\n\r\n")
			res, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil {
				return "closed"
			}
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode == 429 {
				wantProblem(t, "too many", response{res, body}, 429, problemConnections)
				if !res.Close {
					t.Error("the connection stays open")
				}
			}
			return fmt.Sprint(res.StatusCode)
		}
		const addr = "192.0.2.1"
		first := b.connect(t, addr)
		second := b.dial(t) // a session counts like any other
		if got := ask(first); got != "200" {
			t.Errorf("the first: %s", got)
		}
		third, fourth := b.connect(t, addr), b.connect(t, addr)
		fifth := b.connect(t, addr)
		for name, c := range map[string]struct {
			nc   net.Conn
			want string
		}{"third": {third, "429"}, "fourth": {fourth, "429"}, "fifth": {fifth, "closed"}} {
			if got := ask(c.nc); got != c.want {
				t.Errorf("the %s: %s, want %s", name, got, c.want)
			}
		}
		if got := ask(b.connect(t, "192.0.2.9")); got != "200" {
			t.Errorf("another address: %s", got)
		}
		for range 10 {
			if got := ask(b.connect(t, "127.0.0.1")); got != "200" {
				t.Errorf("an unlimited address: %s", got)
			}
		}
		if n := count(t, b.reg, "placed_http_refusals_total", "code", problemConnections); n != 3 {
			t.Errorf("%v counted", n)
		}
		second.Close()
		third.Close()
		fourth.Close()
		synctest.Wait()
		if got := ask(b.connect(t, addr)); got != "200" {
			t.Errorf("after places were given back: %s", got)
		}
	})
}

// TestForwardedWarning checks that a proxy that is limited as if it were one person is pointed out, once, and that what it says
// of others changes nothing.
func TestForwardedWarning(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.Unlimited = nil; cfg.RequestsPerSecond = 3 })
	refused := 0
	for i := range 6 {
		if h.do("GET", "/api/v1/config", "", fmt.Sprintf("X-Forwarded-For: 10.0.0.%d", i)).StatusCode == 429 {
			refused++
		}
	}
	if refused < 2 {
		t.Errorf("%d of 6 refused: a header decides about limits", refused)
	}
	if n := strings.Count(h.logs.String(), "forwards for others"); n != 1 {
		t.Errorf("%d warnings", n)
	}
	exempt := start(t, nil)
	exempt.do("GET", "/api/v1/config", "", "X-Forwarded-For: 10.0.0.1")
	if strings.Contains(exempt.logs.String(), "forwards for others") {
		t.Error("a warning for an exempt address")
	}
}

// TestPeerTableBounded fills the table: it never grows beyond its bound, makes room for newcomers, and limits them when it
// cannot.
func TestPeerTableBounded(t *testing.T) {
	const peersMax, interval, burst = 100, time.Second, 2
	table := newPeerTable(peersMax)
	now := time.Unix(1000, 0)
	prefix := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
	}
	for i := range peersMax {
		if _, ok := table.take(prefix(i), now, interval, burst); !ok {
			t.Fatalf("newcomer %d refused", i)
		}
	}
	ok := 0
	for i := range 50 { // all entries are busy: these share one
		if _, taken := table.take(prefix(1000+i), now, interval, burst); taken {
			ok++
		}
	}
	if ok != burst {
		t.Errorf("%d of 50 beyond a full table, want %d", ok, burst)
	}
	if _, taken := table.take(prefix(0), now, interval, burst); !taken {
		t.Error("one who was there before suffers from newcomers")
	}
	now = now.Add(time.Minute) // all buckets are full again
	for i := range 10_000 {
		now = now.Add(time.Minute)
		if _, taken := table.take(prefix(2000+i), now, interval, burst); !taken {
			t.Fatalf("newcomer %d refused though entries are stale", i)
		}
		if len(table.peers) > peersMax {
			t.Fatalf("%d entries", len(table.peers))
		}
	}
	p, open := table.connect(prefix(99_999), now)
	if open != 1 {
		t.Errorf("%d connections", open)
	}
	for i := range 1000 {
		now = now.Add(time.Minute)
		table.take(prefix(200_000+i), now, interval, burst)
	}
	if table.peers[prefix(99_999)] != p {
		t.Error("an address with a connection was forgotten")
	}
	table.release(p, now)
	if _, there := table.peers[prefix(99_999)]; there {
		t.Error("an address without connections is kept for nothing")
	}
}

func TestPrefixOf(t *testing.T) {
	for _, c := range []struct{ addr, want string }{
		{"192.0.2.77", "192.0.2.77/32"},
		{"::ffff:192.0.2.77", "192.0.2.77/32"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{"fe80::1%eth0", "fe80::/64"},
	} {
		if got := prefixOf(netip.MustParseAddr(c.addr), addressBits4, addressBits6).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.addr, got, c.want)
		}
	}
	if prefixOf(netip.Addr{}, 32, 64).IsValid() {
		t.Error("no address has a prefix")
	}
}

func TestConfigValidate(t *testing.T) {
	good := testConfig()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"address":             func(c *Config) { c.Listen = "" },
		"admin token":         func(c *Config) { c.AdminToken = "short" },
		"session key":         func(c *Config) { c.SessionKey = nil },
		"origin":              func(c *Config) { c.AllowedOrigins = []string{"https://a.example/"} },
		"connections":         func(c *Config) { c.ConnectionsPerAddress = 0 },
		"messages per second": func(c *Config) { c.MessagesPerSecond = -1 },
		"ping after":          func(c *Config) { c.PingAfter = 0 },
		"dead after":          func(c *Config) { c.DeadAfter = c.PingAfter },
		"prefix":              func(c *Config) { c.Unlimited = []netip.Prefix{{}} },
		"drain":               func(c *Config) { c.DrainMove = -1 },
	} {
		cfg := testConfig()
		change(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), strings.Fields(name)[0]) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), testToken) || strings.Contains(err.Error(), string(testKey))) {
			t.Errorf("%s: a secret in the error", name)
		}
	}
	def := DefaultConfig()
	if err := def.Validate(); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("the defaults lack the two secrets and nothing else: %v", err)
	}
}
