package transport

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Behind a cache or proxy every connection has the proxy's address. Config.TrustedProxies names the addresses whose word is
// taken for whom they speak; what anybody else says in X-Forwarded-For is ignored and counted.

// forwardedHopsMax is how many proxies in a row are followed. A longer chain is taken for malformed.
const forwardedHopsMax = 16

// Headers by which a proxy tells whom it speaks for.
const (
	forwardedFor   = "X-Forwarded-For"
	forwardedProto = "X-Forwarded-Proto"
)

// seen returns the request with the address it really comes from, when a trusted proxy tells one: peerOf then returns that.
func (s *Server) seen(r *http.Request) *http.Request {
	values := r.Header[forwardedFor]
	peer := s.peerOf(r)
	if !contains(s.cfg.TrustedProxies, peer.addr) {
		if len(values) > 0 {
			s.metrics.forwarded[forwardedUntrusted].Inc()
			s.warnOfProxy(peer)
		}
		return r
	}
	addr, result := clientOf(peer.addr, values, s.cfg.TrustedProxies)
	s.metrics.forwarded[result].Inc()
	behind := &peerConn{
		Conn: peer.Conn, limits: s.limits, addr: addr, unlimited: s.limits.exempt(addr), carrier: peer,
		https: strings.EqualFold(r.Header.Get(forwardedProto), "https"),
	}
	return r.WithContext(context.WithValue(r.Context(), peerConnKey{}, behind))
}

// warnOfProxy points out, once, a limited address that forwards for others while no proxy is trusted.
func (s *Server) warnOfProxy(peer *peerConn) {
	if peer.unlimited || len(s.cfg.TrustedProxies) > 0 {
		return
	}
	s.forwardOnce.Do(func() {
		s.log.Warn("a limited address forwards for others, so all of them share its limits: if it is a proxy of yours, name it in --trusted-proxies",
			"address", peer.addr, "connections_per_address", s.cfg.ConnectionsPerAddress, "requests_per_second", s.cfg.RequestsPerSecond)
	})
}

// clientOf reads X-Forwarded-For from the right: each proxy appends the address that it was asked from, so the first one that
// is no trusted proxy is the client. What stands further left the client may have made up. An entry that is no address ends
// the reading: then the proxy that passed it on stands for the client.
func clientOf(proxy netip.Addr, values []string, trusted []netip.Prefix) (client netip.Addr, result string) {
	if len(values) == 0 {
		return proxy, forwardedNone
	}
	client, rest := proxy, strings.Join(values, ",")
	for range forwardedHopsMax {
		comma := strings.LastIndexByte(rest, ',')
		addr, ok := parseHop(rest[comma+1:])
		switch {
		case !ok:
			return client, forwardedMalformed
		case comma < 0:
			return addr, forwardedUsed
		case !contains(trusted, addr):
			return addr, forwardedClaimed
		}
		client, rest = addr, rest[:comma]
	}
	return client, forwardedMalformed
}

// parseHop parses one entry: an address, with or without a port.
func parseHop(entry string) (netip.Addr, bool) {
	entry = strings.TrimSpace(entry)
	if addr, err := netip.ParseAddr(entry); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if ap, err := netip.ParseAddrPort(entry); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	if host := strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]"); len(host) == len(entry)-2 {
		if addr, err := netip.ParseAddr(host); err == nil {
			return addr.WithZone(""), true
		}
	}
	return netip.Addr{}, false
}

// contains reports whether one of the prefixes holds the address; IPv4 in IPv6 counts as IPv4.
func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// admit counts a session that comes through a proxy among the connections of its true address, which the listener could not
// know; ok is false when there are too many. The caller gives the place to the connection (carry) or back (leave).
func (s *Server) admit(from *peerConn) (place *peer, ok bool) {
	if from.carrier == nil || from.unlimited {
		return nil, true
	}
	now := time.Now()
	place, open := s.limits.addresses.connect(prefixOf(from.addr, addressBits4, addressBits6), now)
	if open > s.cfg.ConnectionsPerAddress {
		s.limits.addresses.release(place, now)
		return nil, false
	}
	return place, true
}

// leave gives back a place that no connection took.
func (s *Server) leave(place *peer) {
	if place != nil {
		s.limits.addresses.release(place, time.Now())
	}
}

// carry has the proxy's connection, which is one session's from now on, give the place back when it closes.
func (c *peerConn) carry(place *peer) {
	if c.carrier == nil || place == nil {
		return
	}
	c.carrier.place.Store(place)
	if c.carrier.closed.Load() {
		c.carrier.giveBack()
	}
}
