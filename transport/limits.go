package transport

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// bucket is a token bucket in 8 bytes: the time (Unix ns) at which it would be full again. The zero value is full.
type bucket int64

// take takes cost tokens, each of which takes interval to come back, if no more than burst tokens are then out. It returns how
// long to wait when they are not there.
func (b *bucket) take(now time.Time, cost int, interval time.Duration, burst int) (wait time.Duration, ok bool) {
	at := now.UnixNano()
	full := max(int64(*b), at) + int64(cost)*int64(interval)
	if over := full - at - int64(burst)*int64(interval); over > 0 {
		return time.Duration(over), false
	}
	*b = bucket(full)
	return 0, true
}

func (b bucket) full(now time.Time) bool { return int64(b) <= now.UnixNano() }

// peer is what one address (or prefix) has used up. Guarded by the table's mutex.
type peer struct {
	key    netip.Prefix
	conns  int
	tokens bucket
}

// peerTable is a bounded table of peers. A peer without connections whose bucket is full again is as good as none, and makes
// room. When all are busy, newcomers share one entry: the bound holds, and nobody is unlimited.
type peerTable struct {
	mu       sync.Mutex
	peersMax int
	peers    map[netip.Prefix]*peer
	overflow peer
}

// sweepMax is how many entries one newcomer to a full table may look at to find room.
const sweepMax = 64

func newPeerTable(peersMax int) *peerTable {
	return &peerTable{peersMax: peersMax, peers: map[netip.Prefix]*peer{}}
}

// get returns the entry of key. The caller holds mu.
func (t *peerTable) get(key netip.Prefix, now time.Time) *peer {
	if p, ok := t.peers[key]; ok {
		return p
	}
	if len(t.peers) >= t.peersMax {
		looked := 0
		for k, p := range t.peers { // in random order
			if p.conns == 0 && p.tokens.full(now) {
				delete(t.peers, k)
			}
			if looked++; looked == sweepMax {
				break
			}
		}
		if len(t.peers) >= t.peersMax {
			return &t.overflow
		}
	}
	p := &peer{key: key}
	t.peers[key] = p
	return p
}

func (t *peerTable) take(key netip.Prefix, now time.Time, interval time.Duration, burst int) (time.Duration, bool) {
	return t.takeMore(key, now, 1, interval, burst)
}

func (t *peerTable) takeMore(key netip.Prefix, now time.Time, cost int, interval time.Duration, burst int) (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.get(key, now).tokens.take(now, cost, interval, burst)
}

// connect counts a connection and returns the entry to release and how many connections it has now.
func (t *peerTable) connect(key netip.Prefix, now time.Time) (*peer, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.get(key, now)
	p.conns++
	return p, p.conns
}

func (t *peerTable) release(p *peer, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.conns--
	if p != &t.overflow && p.conns == 0 && p.tokens.full(now) && t.peers[p.key] == p {
		delete(t.peers, p.key)
	}
}

// limits are the bounds per address.
type limits struct {
	cfg       *Config
	metrics   *metrics
	addresses *peerTable // by IPv4 address or IPv6 /64: connections and requests
	signIns   *peerTable // by IPv4 /24 or IPv6 /48: identities
	failures  *peerTable // by address: wrong admin tokens
}

func newLimits(cfg *Config, m *metrics) *limits {
	return &limits{
		cfg: cfg, metrics: m,
		addresses: newPeerTable(cfg.AddressesMax), signIns: newPeerTable(cfg.AddressesMax), failures: newPeerTable(cfg.AddressesMax),
	}
}

// Prefixes that share a limit. Half of an IPv6 address belongs to whoever is given the other half.
const (
	addressBits4, addressBits6 = 32, 64
	signInBits4, signInBits6   = 24, 48
)

// prefixOf returns the address's prefix of bits4 or bits6 bits; IPv4 in IPv6 counts as IPv4.
func prefixOf(addr netip.Addr, bits4, bits6 int) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := bits6
	if addr.Is4() {
		bits = bits4
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address at all: all such peers share one entry
	}
	return p
}

func (l *limits) exempt(addr netip.Addr) bool {
	return contains(l.cfg.Unlimited, addr)
}

// request takes one request of the address; it returns how long to wait when there were too many.
func (l *limits) request(addr netip.Addr, now time.Time) (time.Duration, bool) {
	return l.requests(addr, now, 1)
}

// requests takes the cost of several requests at once, at most what an address may ask for in a second.
func (l *limits) requests(addr netip.Addr, now time.Time, cost int) (time.Duration, bool) {
	perSecond := l.cfg.RequestsPerSecond
	return l.addresses.takeMore(prefixOf(addr, addressBits4, addressBits6), now, min(cost, perSecond), time.Second/time.Duration(perSecond), perSecond)
}

// signIn takes one identity from the address's ration.
func (l *limits) signIn(addr netip.Addr, now time.Time) (time.Duration, bool) {
	if l.exempt(addr) {
		return 0, true
	}
	return l.signIns.take(prefixOf(addr, signInBits4, signInBits6), now, time.Hour/time.Duration(l.cfg.SignInsPerHour), l.cfg.SignInsPerHour)
}

// adminFailuresPerMinute bounds the answers to wrong admin tokens that are worth a log line.
const adminFailuresPerMinute = 10

// adminFailure takes one wrong admin token of the address. Exempt addresses are not exempt from this one.
func (l *limits) adminFailure(addr netip.Addr, now time.Time) (time.Duration, bool) {
	return l.failures.take(prefixOf(addr, addressBits4, addressBits6), now, time.Minute/adminFailuresPerMinute, adminFailuresPerMinute)
}

// peerListener counts connections by address. Those above the limit are let in, to be told so by the first answer; those
// above twice the limit are closed at once.
type peerListener struct {
	net.Listener
	limits *limits
}

// Accept returns the next connection as a *peerConn.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &peerConn{Conn: nc, limits: l.limits, addr: addressOf(nc.RemoteAddr())}
		if c.unlimited = l.limits.exempt(c.addr); c.unlimited || contains(l.limits.cfg.TrustedProxies, c.addr) {
			return c, nil // a proxy's connections are many people's: see forwarded.go
		}
		key := prefixOf(c.addr, addressBits4, addressBits6)
		place, open := l.limits.addresses.connect(key, time.Now())
		c.place.Store(place)
		c.over = open > l.limits.cfg.ConnectionsPerAddress
		if open <= 2*l.limits.cfg.ConnectionsPerAddress {
			return c, nil
		}
		l.limits.metrics.refuse(problemConnections)
		c.Close()
	}
}

func addressOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// peerConn is one accepted connection, with what is known of its address. Its embedded Conn is a *net.TCPConn unless a test
// or a wrapper listens.
type peerConn struct {
	net.Conn
	limits    *limits
	place     atomic.Pointer[peer] // nil when it is not counted
	addr      netip.Addr
	unlimited bool
	over      bool // above ConnectionsPerAddress when it came
	closed    atomic.Bool
	head      *heldHead // only the request's goroutine uses it: see writeWhole

	// Of a request that a trusted proxy passed on (forwarded.go): a stand-in for the connection, with the client's address.
	carrier *peerConn // the proxy's connection; nil for all others
	https   bool      // the proxy was asked over TLS
}

// Close closes the connection and gives its place back once.
func (c *peerConn) Close() error {
	c.closed.Store(true)
	c.giveBack()
	return c.Conn.Close()
}

func (c *peerConn) giveBack() {
	if place := c.place.Swap(nil); place != nil {
		c.limits.addresses.release(place, time.Now())
	}
}

// CloseWrite ends the sending half, or all of a connection that has no halves.
func (c *peerConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

type peerConnKey struct{}

// withPeerConn is the http.Server hook that lets handlers find the connection.
func withPeerConn(ctx context.Context, nc net.Conn) context.Context {
	for {
		switch c := nc.(type) {
		case *peerConn:
			return context.WithValue(ctx, peerConnKey{}, c)
		case interface{ NetConn() net.Conn }: // *tls.Conn
			nc = c.NetConn()
		default:
			return ctx
		}
	}
}

// peerOf returns what is known of the request's connection, or of the client for whom a trusted proxy asks; a connection that
// no peerListener accepted is limited like any other, but not counted.
func (s *Server) peerOf(r *http.Request) *peerConn {
	if c, ok := r.Context().Value(peerConnKey{}).(*peerConn); ok {
		return c
	}
	c := &peerConn{limits: s.limits}
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		c.addr = ap.Addr().Unmap()
	}
	c.unlimited = s.limits.exempt(c.addr)
	return c
}
