package transport

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	outside "github.com/placed-board/placed/internal/identity"
)

// Config is what a node's outer face is told at start. Sizes are in bytes, rates in events per second unless the name says
// otherwise.
type Config struct {
	Listen      string // address of the public listener, as "localhost:8080"; port 0 takes a free one
	AdminListen string // address of the operators' listener; "" for none

	// AdminToken is the bearer token of the operators' listener, at least AdminTokenBytesMin bytes. It is never logged.
	AdminToken string
	// SessionKey signs the tokens of signed-in users, at least SessionKeyBytes bytes. All nodes of a board share it. It is never
	// logged.
	SessionKey []byte
	// Auth is how people sign in.
	Auth Auth
	// AuthHeader is the header in which a trusted proxy names the user, with AuthProxy.
	AuthHeader string
	// JWT says which tokens are good, with AuthJWT. Its secret is never logged.
	JWT outside.Config
	// JWTCookie is a cookie of the identity provider that holds its token, with AuthJWT; "" for none.
	JWTCookie string
	// SignInURL is where people sign in with AuthJWT and AuthProxy, for the page to send them there; "" for nowhere.
	SignInURL string
	// PublicURL is where people find the page, for the links of invites; "" for this machine's own address.
	PublicURL string
	// CertFile and KeyFile hold the certificate (with its chain) and the key of the public listener, as PEM; both "" for plain
	// HTTP. They are read anew when they change.
	CertFile, KeyFile string
	// SecureCookies marks all cookies as fit for TLS only; those asked for over TLS, here or at a trusted proxy, are in any case.
	SecureCookies bool
	// AllowedOrigins may open sessions and post besides the own host: "https://example.org", exact, without a path.
	AllowedOrigins []string
	// BasePath is the path below which everything public is served, as "/board"; "" for none.
	BasePath string
	// EmbedOrigins are pages that may show this one in a frame, of the form of AllowedOrigins. With cookies fit for TLS only, the
	// framed page has identities of its own.
	EmbedOrigins []string
	// Web holds the page: index.html and its assets. nil serves a short plain text instead.
	Web fs.FS
	// Version of the program, shown in /api/v1/config.
	Version string
	// PublicMetrics serves /metrics on the public listener too.
	PublicMetrics bool

	// TrustedProxies are the addresses of caches and proxies in front: X-Forwarded-For and X-Forwarded-Proto of these, and of
	// nobody else, tell the true address of a client and whether it came by TLS. Their connections are not counted.
	TrustedProxies []netip.Prefix
	// Unlimited addresses are exempt from the limits on connections, requests, sign-ins and a session's message rate.
	Unlimited []netip.Prefix
	// ConnectionsPerAddress bounds the open connections of one IPv4 address or IPv6 /64. Up to twice as many are told so over
	// HTTP, more are closed unheard.
	ConnectionsPerAddress int
	// RequestsPerSecond bounds the HTTP requests of one address, with a burst of one second's worth.
	RequestsPerSecond int
	// SignInsPerHour bounds the identities handed out to one IPv4 /24 or IPv6 /48, with a burst of one hour's worth.
	SignInsPerHour int
	// AddressesMax bounds the table of addresses; when it is full of busy ones, the others share one more entry.
	AddressesMax int
	// SessionsMax bounds the websocket sessions of the node.
	SessionsMax int

	// MessagesPerSecond bounds what one session may send, pings included, with a burst of one second's worth. A message above
	// it is refused; a session that stays above FloodFactor times it is closed.
	MessagesPerSecond int
	FloodFactor       int
	// BytesPerSecond bounds what one session may send in all, so that endless empty fragments end too; with a burst of four
	// seconds' worth.
	BytesPerSecond int
	// BadMessagesMax is how many messages of a session may be undecodable before it is closed.
	BadMessagesMax int
	// PingAfter is how long a session may be silent before it is pinged; after DeadAfter it is taken for dead.
	PingAfter, DeadAfter time.Duration
	// Linger is how long a closed session may take to answer the close before its socket is closed hard.
	Linger time.Duration
	// SendBufferBytes is the kernel's send buffer of a session; Linux doubles it.
	SendBufferBytes int

	HandshakeTimeout time.Duration // of the websocket upgrade
	HeaderTimeout    time.Duration // to read a request's header
	RequestTimeout   time.Duration // to read a whole request
	ResponseTimeout  time.Duration // to write a whole response
	IdleTimeout      time.Duration // of a kept-alive connection between requests
	HeaderBytesMax   int
	PlaceTimeout     time.Duration // of a placement by POST; then the answer is "unknown"
	ReadTimeout      time.Duration // of a question to the board: a tile, a user's status

	// RenderEvery is how often the gzip and PNG forms of the board are made anew, at most.
	RenderEvery time.Duration
	// DrainNotice is how long a draining node still accepts connections while readyz fails, for balancers to notice.
	DrainNotice time.Duration
	// DrainMove is how long sessions may stay after they were asked to move.
	DrainMove time.Duration
}

// Lower bounds of the secrets in bytes.
const (
	AdminTokenBytesMin = 16
	SessionKeyBytes    = 32
)

// countMax bounds every count of Config; rates stay well within what nanoseconds can tell apart.
const countMax = 1_000_000_000

// DefaultConfig returns the defaults. AdminToken and SessionKey have none: LoadSecret makes and keeps them.
func DefaultConfig() Config {
	return Config{
		Listen:      "localhost:8080",
		AdminListen: "localhost:8081",
		Auth:        AuthOpen,
		Unlimited:   []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},

		ConnectionsPerAddress: 64,
		RequestsPerSecond:     100,
		SignInsPerHour:        100,
		AddressesMax:          65_536,
		SessionsMax:           100_000,

		MessagesPerSecond: 20,
		FloodFactor:       10,
		BytesPerSecond:    64 * 1024,
		BadMessagesMax:    10,
		PingAfter:         30 * time.Second,
		DeadAfter:         75 * time.Second,
		Linger:            2 * time.Second,
		SendBufferBytes:   32 * 1024,

		HandshakeTimeout: 5 * time.Second,
		HeaderTimeout:    5 * time.Second,
		RequestTimeout:   10 * time.Second,
		ResponseTimeout:  60 * time.Second,
		IdleTimeout:      75 * time.Second,
		HeaderBytesMax:   8 * 1024,
		PlaceTimeout:     5 * time.Second,
		ReadTimeout:      5 * time.Second,

		RenderEvery: time.Second,
		DrainMove:   3 * time.Second,
	}
}

// Validate returns every impossible value, joined into one error.
func (c *Config) Validate() error {
	var errs []error
	fail := func(format string, a ...any) { errs = append(errs, fmt.Errorf("transport: "+format, a...)) }
	if c.Listen == "" {
		fail("no address to listen on")
	}
	if c.AdminListen != "" && len(c.AdminToken) < AdminTokenBytesMin {
		fail("the admin token is shorter than %d bytes", AdminTokenBytesMin)
	}
	if len(c.SessionKey) < SessionKeyBytes {
		fail("the session key is shorter than %d bytes", SessionKeyBytes)
	}
	c.validateAuth(fail)
	if (c.CertFile == "") != (c.KeyFile == "") {
		fail("TLS needs both a certificate and a key")
	}
	for what, origins := range map[string][]string{"allowed": c.AllowedOrigins, "embed": c.EmbedOrigins} {
		for _, o := range origins {
			u, err := url.Parse(o)
			if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Scheme+"://"+u.Host != o || strings.ContainsAny(o, " ;,'") {
				fail("%s origin %q is not of the form https://host[:port]", what, o)
			}
		}
	}
	if err := checkBasePath(c.BasePath); err != nil {
		errs = append(errs, err)
	}
	for _, p := range slices.Concat(c.Unlimited, c.TrustedProxies) {
		if !p.IsValid() {
			fail("an invalid prefix among the unlimited addresses or the trusted proxies")
		}
	}
	for _, v := range []struct {
		name string
		n    int
	}{
		{"connections per address", c.ConnectionsPerAddress},
		{"requests per second", c.RequestsPerSecond},
		{"sign-ins per hour", c.SignInsPerHour},
		{"addresses", c.AddressesMax},
		{"sessions", c.SessionsMax},
		{"messages per second", c.MessagesPerSecond},
		{"flood factor", c.FloodFactor},
		{"bytes per second", c.BytesPerSecond},
		{"bad messages", c.BadMessagesMax},
		{"send buffer bytes", c.SendBufferBytes},
		{"header bytes", c.HeaderBytesMax},
	} {
		if v.n < 1 || v.n > countMax {
			fail("%s: %d is not within 1..%d", v.name, v.n, countMax)
		}
	}
	for _, v := range []struct {
		name string
		d    time.Duration
	}{
		{"ping after", c.PingAfter},
		{"linger", c.Linger},
		{"handshake timeout", c.HandshakeTimeout},
		{"header timeout", c.HeaderTimeout},
		{"request timeout", c.RequestTimeout},
		{"response timeout", c.ResponseTimeout},
		{"idle timeout", c.IdleTimeout},
		{"place timeout", c.PlaceTimeout},
		{"read timeout", c.ReadTimeout},
		{"render every", c.RenderEvery},
	} {
		if v.d <= 0 {
			fail("%s: %v is not above 0", v.name, v.d)
		}
	}
	if c.DeadAfter <= c.PingAfter {
		fail("dead after %v is not above ping after %v", c.DeadAfter, c.PingAfter)
	}
	if c.DrainNotice < 0 || c.DrainMove < 0 {
		fail("a drain time is below 0")
	}
	return errors.Join(errs...)
}

var headerName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)

// validateAuth checks how people sign in.
func (c *Config) validateAuth(fail func(format string, a ...any)) {
	switch c.Auth {
	case AuthOpen, AuthInvite:
	case AuthJWT:
		if err := c.JWT.Validate(); err != nil {
			fail("%w", err)
		}
	case AuthProxy:
		if !headerName.MatchString(c.AuthHeader) {
			fail("the header that names the user, %q, is no name of a header", c.AuthHeader)
		}
		if len(c.TrustedProxies) == 0 {
			fail("a header names the user, but no proxy is trusted to set it: name them in --trusted-proxies")
		}
	default:
		fail("there is no way to sign in called %q", c.Auth)
	}
	for _, v := range []struct{ name, address string }{{"sign-in URL", c.SignInURL}, {"public URL", c.PublicURL}} {
		u, err := url.Parse(v.address)
		if v.address != "" && (err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Fragment != "") {
			fail("the %s %q is not of the form https://host/path", v.name, v.address)
		}
	}
}
