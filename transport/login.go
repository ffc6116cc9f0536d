package transport

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/placed-board/placed/board"
)

// Who a request comes from, and identity in open mode (the others: auth.go, invite.go): whoever asks gets one. An anonymous
// identity has a random name that begins with AnonymousPrefix; any other name can be chosen by anybody. Either way the browser
// gets a signed cookie, and a program the same token in the answer, to send as "Authorization: Bearer <token>".

// AnonymousPrefix begins the names of anonymous users. Nobody can choose one that begins so, in either case.
const AnonymousPrefix = "anon-"

// CookieName is the name of the session cookie.
const CookieName = "placed_session"

// identity is who a request says it comes from.
type identity struct {
	user      board.UserID // "" for nobody
	anonymous bool
	by        identifiedBy
	expires   time.Time // when it ends; zero: not known
}

type identifiedBy uint8

const (
	byNothing identifiedBy = iota
	byCookie
	byBearer
	byProxy
)

// identify finds out who the request comes from. A bearer token goes before the cookie. A token that is not good is never
// taken for nobody: the answer says so.
func (s *Server) identify(r *http.Request) (identity, *problem) {
	if s.cfg.Auth == AuthProxy {
		return s.byProxyHeader(r)
	}
	if header := r.Header.Get("Authorization"); header != "" {
		token, ok := cutBearer(header)
		if !ok {
			s.metrics.tokens[tokenForged].Inc()
			return identity{}, newProblem(problemToken, "Authorization is not a bearer token")
		}
		return s.openToken(token, byBearer)
	}
	if who, ok := s.byProviderCookie(r); ok {
		return who, nil
	}
	for _, name := range []string{CookieName, cookie2017} {
		if cookie, err := r.Cookie(name); err == nil {
			return s.openToken(cookie.Value, byCookie)
		}
	}
	return identity{}, nil
}

// openToken checks a token of ours, or on boards with an identity provider one of that: only theirs have dots.
func (s *Server) openToken(token string, by identifiedBy) (identity, *problem) {
	if s.cfg.Auth == AuthJWT && strings.Contains(token, ".") {
		return s.fromOutside(token, by)
	}
	found, err := s.signer.open(token, time.Now())
	reason, detail := "", ""
	switch {
	case errors.Is(err, errTokenExpired):
		reason, detail = tokenExpired, "the token has expired"
	case err != nil:
		reason, detail = tokenForged, "the token was not made by this board, or for another way to sign in"
	case found.anonymous && s.givenUp.has(found.user):
		reason, detail = tokenGivenUp, "that identity was given up for a name"
	case s.deps.Invites != nil && s.deps.Invites.Revoked(found.user):
		reason, detail = tokenRevoked, "the invite was taken back"
	default:
		return identity{user: found.user, anonymous: found.anonymous, by: by, expires: found.expires}, nil
	}
	s.metrics.tokens[reason].Inc()
	return identity{by: by}, newProblem(problemToken, detail)
}

// cutBearer returns the token of an Authorization header.
func cutBearer(header string) (string, bool) {
	scheme, token, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// dropBadCookie has the browser forget a cookie that is not good, so that the next request is nobody's instead of refused.
func (s *Server) dropBadCookie(w http.ResponseWriter, r *http.Request, p *problem) {
	if p.Code == problemToken {
		s.dropCookies(w, r)
	}
}

// dropCookies has the browser forget the cookies of both faces.
func (s *Server) dropCookies(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, s.cookie(r, "", -1))
	if _, err := r.Cookie(cookie2017); err == nil {
		other := s.cookie(r, "", -1)
		other.Name = cookie2017
		http.SetCookie(w, other)
	}
}

// cookie returns the session cookie; maxAge in seconds: 0 lasts until the browser closes, below 0 deletes it. One that is
// asked for over TLS, here or at a trusted proxy, never goes out without.
func (s *Server) cookie(r *http.Request, token string, maxAge int) *http.Cookie {
	secure := s.cfg.SecureCookies || r.TLS != nil || s.peerOf(r).https
	c := &http.Cookie{
		Name: CookieName, Value: token, Path: s.cfg.BasePath + "/", MaxAge: maxAge,
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
	if len(s.cfg.EmbedOrigins) > 0 && secure {
		c.SameSite, c.Partitioned = http.SameSiteNoneMode, true // frames of other sites get a cookie of their own
	}
	return c
}

// signedIn is the answer to signing in.
type signedIn struct {
	User      board.UserID `json:"user"`
	Anonymous bool         `json:"anonymous"`
	Token     string       `json:"token"`
	ExpiresMs int64        `json:"expires_ms"` // Unix milliseconds
}

// issue makes a token and sets its cookie. It ends with what it was given for. A cookie is kept by the browser, because losing
// an anonymous one is losing the user; but a name chosen in the open can be chosen again.
func (s *Server) issue(w http.ResponseWriter, r *http.Request, who identity) signedIn {
	now := time.Now()
	expires := now.Add(tokenLife)
	if !who.expires.IsZero() && who.expires.Before(expires) {
		expires = who.expires
	}
	token := s.signer.seal(who.user, who.anonymous, expires)
	maxAge := max(int(expires.Sub(now)/time.Second), 1)
	if s.cfg.Auth == AuthOpen && !who.anonymous {
		maxAge = 0
	}
	http.SetCookie(w, s.cookie(r, token, maxAge))
	return signedIn{User: who.user, Anonymous: who.anonymous, Token: token, ExpiresMs: expires.UnixMilli()}
}

// newAnonymousUser returns a name that nobody has: 80 random bits.
func newAnonymousUser() board.UserID {
	var b [10]byte
	rand.Read(b[:])
	return board.UserID(AnonymousPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(b[:])))
}

// postAnonymous answers POST /api/v1/anonymous. Somebody who is signed in already stays who they are.
func (s *Server) postAnonymous(w http.ResponseWriter, r *http.Request) {
	who, p := s.identify(r)
	if p == nil && who.user != "" {
		writeJSON(w, http.StatusOK, "no-store", s.issue(w, r, identity{user: who.user, anonymous: who.anonymous}))
		return
	}
	if p := s.takeIdentity(r); p != nil {
		s.fail(w, p)
		return
	}
	s.metrics.signIns[signInAnon].Inc()
	writeJSON(w, http.StatusOK, "no-store", s.issue(w, r, identity{user: newAnonymousUser(), anonymous: true}))
}

// postLogin answers POST /api/login/{name}.
func (s *Server) postLogin(w http.ResponseWriter, r *http.Request) {
	user, err := board.ParseUserID(r.PathValue("name"))
	if err != nil {
		s.failLogin(w, r, newProblem(problemUserName, err.Error()))
		return
	}
	if reserved(user) {
		s.failLogin(w, r, newProblem(problemReserved, AnonymousPrefix))
		return
	}
	if p := s.takeName(r); p != nil {
		s.failLogin(w, r, p)
		return
	}
	s.metrics.signIns[signInNamed].Inc()
	s.answerLogin(w, r, s.issue(w, r, identity{user: user}))
}

// postLogout answers POST /api/logout. Tokens are not remembered anywhere, so it is the browser that forgets.
func (s *Server) postLogout(w http.ResponseWriter, r *http.Request) {
	s.dropCookies(w, r)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// me is the answer to GET /api/v1/me.
type me struct {
	User          board.UserID `json:"user"` // "" when not signed in; then the rest is missing
	Anonymous     bool         `json:"anonymous"`
	Turn          uint64       `json:"turn,omitempty"`
	WaitMs        int64        `json:"wait_ms"`
	BannedUntilMs int64        `json:"banned_until_ms,omitempty"`
}

// getMe answers GET /api/v1/me.
func (s *Server) getMe(w http.ResponseWriter, r *http.Request) {
	who, p := s.identify(r)
	if p != nil {
		s.dropBadCookie(w, r, p)
		s.fail(w, p)
		return
	}
	if who.user == "" {
		writeJSON(w, http.StatusOK, "no-store", me{})
		return
	}
	ctx, cancel := s.readContext(r)
	defer cancel()
	status, err := s.deps.Placer.UserStatus(ctx, who.user)
	if err != nil {
		s.storeFailed(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, "no-store", me{
		User: who.user, Anonymous: who.anonymous, Turn: status.Turn, WaitMs: status.WaitMs, BannedUntilMs: status.BannedUntil,
	})
}
