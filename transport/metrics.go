package transport

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/counters"
	outside "github.com/placed-board/placed/internal/identity"
	"github.com/placed-board/placed/wire"
)

// metrics are the counters of the outer face. All labels are closed lists, and every series exists from the start so that
// zero shows.
type metrics struct {
	refusals map[string]prometheus.Counter // by problem code
	requests *prometheus.CounterVec        // by route
	// boardRequests is the one of requests that counts the board's.
	boardRequests prometheus.Counter
	connects      map[string]prometheus.Counter // websocket upgrades by result
	closes        map[int]prometheus.Counter    // ended sessions by close code
	closesOther   prometheus.Counter
	messages      map[string]prometheus.Counter // from clients, by kind
	bad           map[string]prometheus.Counter // from clients and not acted on, by reason
	sent          prometheus.Counter
	sentBytes     prometheus.Counter
	slow          prometheus.Counter
	kept          prometheus.Counter
	pings         prometheus.Counter
	signIns       map[string]prometheus.Counter // by kind
	tokens        map[string]prometheus.Counter // bad tokens by reason
	forwarded     map[string]prometheus.Counter // requests by what X-Forwarded-For was worth
	reloads       map[string]prometheus.Counter // files read anew, by what they hold
	reloadsFailed map[string]prometheus.Counter
	snapshots     map[string]prometheus.Counter // board answers by cache result
	adminCalls    map[string]prometheus.Counter // by result
}

// Reasons for which a client's message was not acted on.
const (
	badRate       = "rate"       // above the session's rate
	badFlood      = "flood"      // far above it: the session is closed
	badMalformed  = "malformed"  // undecodable
	badText       = "text"       // a text message
	badTooBig     = "too_big"    // above wire.ClientMessageBytesMax
	badWebsocket  = "websocket"  // against RFC 6455: unmasked, reserved bits, unknown opcodes, stray continuations
	badSilent     = "silent"     // nothing came for DeadAfter: no message, but as final as one
	badDraining   = "draining"   // a placement while the node drains
	badSpectator  = "spectator"  // a placement of somebody who has not signed in
	badSignedOut  = "signed_out" // a placement of somebody whose sign-in is over
	connectOK     = "ok"         // results of upgrades
	connectFailed = "handshake"  // the upgrade itself went wrong
	signInAnon    = "anonymous"  // kinds of identities handed out
	signInNamed   = "named"      //
	signInToken   = "token"      // a token of the identity provider became a cookie
	signInInvite  = "invite"
	tokenForged   = "forged"    // not signed by us, or malformed
	tokenExpired  = "expired"   // signed by us once
	tokenGivenUp  = "given_up"  // of an anonymous identity whose owner chose a name instead
	tokenRevoked  = "revoked"   // of an invite that is no more
	tokenStranger = "untrusted" // a header that names a user, not from a trusted proxy or not once

	reloadCertificate = "certificate" // of TLS
	reloadKeys        = "jwt_keys"    // of who signs people in

	forwardedUsed      = "used"      // a trusted proxy named the client
	forwardedClaimed   = "claimed"   // so, and the client had written further addresses before its own
	forwardedMalformed = "malformed" // a trusted proxy passed on what is no address
	forwardedNone      = "none"      // a trusted proxy asked for itself
	forwardedUntrusted = "untrusted" // the header came from somebody else and is ignored

	snapshotHit  = "hit"        // ready bytes
	snapshotMiss = "miss"       // rendered for this request
	snapshot304  = "304"        // the client has it
	snapshotWait = "not_loaded" // no board yet
	adminOK      = "ok"
	adminDenied  = "denied"
)

// closeCodes are the close codes with a series of their own; 1005 is a close without a code and 1006 a lost connection.
var closeCodes = []int{
	wire.CloseNormal, 1001, wire.CloseProtocol, wire.CloseText, 1005, 1006, 1008, wire.CloseTooBig, wire.CloseInternal,
	wire.CloseRestart, wire.CloseTryLater, wire.CloseFlood, wire.CloseSilent, wire.CloseMalformed, wire.CloseSignedOut,
}

func newMetrics(reg *prometheus.Registry, s *Server) (*metrics, error) {
	set := counters.Set{Registry: reg}
	counter, vec, add := set.Counter, set.Vec, set.Add
	m := &metrics{
		refusals:      vec("placed_http_refusals_total", "Problems answered over HTTP, by code.", "code", problemCodes()...),
		connects:      vec("placed_ws_connects_total", "Websocket upgrades, by result.", "result", connectOK, connectFailed),
		messages:      vec("placed_ws_messages_total", "Messages acted on, by kind.", "kind", "subscribe", "place", "repair", "get_hashes"),
		bad:           vec("placed_ws_bad_messages_total", "Messages not acted on and sessions ended for them, by reason.", "reason", badRate, badFlood, badMalformed, badText, badTooBig, badWebsocket, badSilent, badDraining, badSpectator, badSignedOut),
		sent:          counter("placed_ws_sent_messages_total", "Messages handed to sockets."),
		sentBytes:     counter("placed_ws_sent_bytes_total", "Bytes of the messages handed to sockets."),
		slow:          counter("placed_ws_slow_client_drops_total", "Messages not taken because the socket was still full."),
		kept:          counter("placed_ws_partial_writes_total", "Messages of which a part had to wait for the socket."),
		pings:         counter("placed_ws_pings_total", "Pings sent to silent sessions."),
		signIns:       vec("placed_sign_ins_total", "Identities handed out, by kind.", "kind", signInAnon, signInNamed, signInToken, signInInvite),
		tokens:        vec("placed_bad_tokens_total", "Tokens, headers and invites that would say who somebody is and were refused, by reason.", "reason", badTokenReasons()...),
		reloads:       vec("placed_reloads_total", "Changed files read anew, by what they hold.", "what", reloadCertificate, reloadKeys),
		reloadsFailed: vec("placed_reloads_failed_total", "Changed files that cannot be used, by what they hold.", "what", reloadCertificate, reloadKeys),
		forwarded: vec("placed_forwarded_requests_total", "Requests of trusted proxies and requests with X-Forwarded-For, by what became of it.", "result",
			forwardedUsed, forwardedClaimed, forwardedMalformed, forwardedNone, forwardedUntrusted),
		snapshots: vec("placed_snapshot_requests_total", "Answers to requests for the board, by state of the cache.", "cache", snapshotHit, snapshotMiss, snapshot304, snapshotWait),
		adminCalls: vec("placed_admin_requests_total", "Requests on the operators' listener, by result.", "result",
			adminOK, adminDenied),
		closes: map[int]prometheus.Counter{},
	}
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "placed_http_requests_total", Help: "Requests on the public listener, by route."}, []string{"route"})
	add(m.requests)
	labels := make([]string, 0, len(closeCodes)+1)
	for _, code := range closeCodes {
		labels = append(labels, strconv.Itoa(code))
	}
	closes := vec("placed_ws_closes_total", "Ended sessions, by close code.", "code", append(labels, "other")...)
	for _, code := range closeCodes {
		m.closes[code] = closes[strconv.Itoa(code)]
	}
	m.closesOther = closes["other"]
	add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "placed_tls_certificate_end_seconds", Help: "When the certificate ends, in Unix seconds; 0 without one."},
		s.certificateEnd))
	add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "placed_ws_connections", Help: "Open websocket sessions."},
		func() float64 { return float64(s.sessionCount()) }))
	return m, set.Err()
}

// refuse counts a problem. An unknown code is a fault of ours and shows as a panic in tests.
func (m *metrics) refuse(code string) { m.refusals[code].Inc() }

func (m *metrics) closed(code int) {
	if c, ok := m.closes[code]; ok {
		c.Inc()
		return
	}
	m.closesOther.Inc()
}

func (m *metrics) message(kind wire.ClientMessage) {
	switch kind.(type) {
	case *wire.Subscribe:
		m.messages["subscribe"].Inc()
	case *wire.Place:
		m.messages["place"].Inc()
	case *wire.Repair:
		m.messages["repair"].Inc()
	case *wire.GetHashes:
		m.messages["get_hashes"].Inc()
	}
}

// badTokenReasons lists our own reasons and those of tokens of an identity provider.
func badTokenReasons() []string {
	reasons := []string{tokenForged, tokenExpired, tokenGivenUp, tokenRevoked, tokenStranger}
	for _, r := range outside.Reasons {
		if !slices.Contains(reasons, string(r)) {
			reasons = append(reasons, string(r))
		}
	}
	return reasons
}

// problemCodes lists every code that a problem may have: the board's refusals and our own.
func problemCodes() []string {
	var codes []string
	for _, r := range board.Refusals {
		if r.Code != board.CodeOK {
			codes = append(codes, r.Label)
		}
	}
	for code := range ownProblems {
		codes = append(codes, code)
	}
	return codes
}
