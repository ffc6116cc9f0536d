package transport

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/placed-board/placed/board"
	outside "github.com/placed-board/placed/internal/identity"
	"github.com/placed-board/placed/wire"
)

// Auth is how people sign in to a board.
type Auth string

// The ways to sign in.
const (
	AuthOpen   Auth = "open"   // everybody takes a name or stays anonymous (login.go)
	AuthJWT    Auth = "jwt"    // an identity provider signs tokens
	AuthProxy  Auth = "proxy"  // a trusted proxy names the user in a header
	AuthInvite Auth = "invite" // everybody has a link of their own (invite.go)
)

// fromOutside checks a token of the identity provider.
func (s *Server) fromOutside(token string, by identifiedBy) (identity, *problem) {
	person, err := s.tokens.Verify(token, time.Now())
	if err != nil {
		reason, detail := outside.ReasonMalformed, "the token is not good"
		if refusal, ok := errors.AsType[*outside.Refusal](err); ok {
			reason, detail = refusal.Reason, refusal.Detail
		}
		s.metrics.tokens[string(reason)].Inc()
		return identity{by: by}, newProblem(problemToken, detail)
	}
	if reserved(person.User) {
		s.metrics.tokens[string(outside.ReasonUser)].Inc()
		return identity{by: by}, newProblem(problemToken, "names that begin with "+AnonymousPrefix+" are nobody's to take")
	}
	return identity{user: person.User, by: by, expires: person.Expires}, nil
}

// byProviderCookie looks for the provider's own cookie. A bad one counts as nobody: this board did not set it and cannot take
// it away, and the page has to work for those who only watch.
func (s *Server) byProviderCookie(r *http.Request) (identity, bool) {
	if s.cfg.JWTCookie == "" {
		return identity{}, false
	}
	cookie, err := r.Cookie(s.cfg.JWTCookie)
	if err != nil {
		return identity{}, false
	}
	who, p := s.fromOutside(cookie.Value, byCookie)
	return who, p == nil
}

// byProxyHeader takes the user that a trusted proxy names. The header of anybody else is refused, not passed over: somebody
// tries to be somebody, or a proxy is not among the trusted ones.
func (s *Server) byProxyHeader(r *http.Request) (identity, *problem) {
	values := r.Header.Values(s.cfg.AuthHeader)
	trusted := s.peerOf(r).carrier != nil
	switch {
	case len(values) == 0 || (len(values) == 1 && values[0] == "" && trusted):
		return identity{}, nil
	case !trusted:
		s.metrics.tokens[tokenStranger].Inc()
		return identity{}, newProblem(problemProxy, "the header "+s.cfg.AuthHeader+" is for the proxies in --trusted-proxies, and you are none")
	case len(values) > 1:
		s.metrics.tokens[tokenStranger].Inc()
		return identity{}, newProblem(problemProxy, "the header "+s.cfg.AuthHeader+" came more than once: the proxy must take away what clients send")
	}
	user, err := board.ParseUserID(values[0])
	if err == nil && reserved(user) {
		err = errors.New("it begins with " + AnonymousPrefix)
	}
	if err != nil {
		s.metrics.tokens[string(outside.ReasonUser)].Inc()
		return identity{}, newProblem(problemUserName, "of the header "+s.cfg.AuthHeader+": "+err.Error())
	}
	return identity{user: user, by: byProxy}, nil
}

// reserved reports whether nobody may choose the name.
func reserved(user board.UserID) bool {
	return len(user) >= len(AnonymousPrefix) && strings.EqualFold(string(user[:len(AnonymousPrefix)]), AnonymousPrefix)
}

// only returns the handler for boards on which people sign in that way; others answer how it is done there.
func (s *Server) only(auth Auth, handler http.HandlerFunc) http.HandlerFunc {
	if s.cfg.Auth == auth {
		return handler
	}
	detail := map[Auth]string{
		AuthOpen:   "everybody takes a name or stays anonymous",
		AuthJWT:    "send a token of the board's identity provider",
		AuthProxy:  "the proxy in front signs people in",
		AuthInvite: "everybody has a link of their own",
	}[s.cfg.Auth]
	return func(w http.ResponseWriter, _ *http.Request) { s.fail(w, newProblem(problemAuth, detail)) }
}

// postSession answers POST /api/v1/session: it turns a token of the identity provider into a cookie, because a browser's
// websocket can carry no other. The cookie ends with the token.
func (s *Server) postSession(w http.ResponseWriter, r *http.Request) {
	token, ok := cutBearer(r.Header.Get("Authorization"))
	if !ok {
		s.fail(w, newProblem(problemToken, "send the provider's token as Authorization: Bearer"))
		return
	}
	who, p := s.fromOutside(token, byBearer)
	if p != nil {
		s.fail(w, p)
		return
	}
	s.metrics.signIns[signInToken].Inc()
	writeJSON(w, http.StatusOK, "no-store", s.issue(w, r, who))
}

// signedOut reports whether the session's user may not place any more, although the session is still open: the token has
// expired, the anonymous identity was given up, or the invite was taken back.
func (s *session) signedOut(now time.Time) bool {
	switch {
	case s.expires != 0 && now.Unix() >= s.expires:
		return true
	case s.anonymous:
		return s.server.givenUp.has(s.user)
	case s.server.deps.Invites != nil:
		return s.server.deps.Invites.Revoked(s.user)
	}
	return false
}

// SignOut closes the sessions of the users, who are told to sign in anew, and returns how many there were.
func (s *Server) SignOut(users []board.UserID) int {
	gone := make(map[board.UserID]bool, len(users))
	for _, user := range users {
		gone[user] = user != ""
	}
	closed := 0
	for _, session := range s.sessionList() {
		if gone[session.user] {
			session.Close(wire.CloseSignedOut, "you are signed out")
			closed++
		}
	}
	return closed
}

// Invites keeps the invites of a board on which everybody has one.
type Invites interface {
	// CreateInvites makes them all or none.
	CreateInvites(ctx context.Context, r board.InviteRequest) ([]board.Invite, error)
	// UseInvite returns the invite with the name of who it is, which is the given one at its first use.
	UseInvite(ctx context.Context, id string, name board.UserID) (board.Invite, error)
	// RevokeInvites takes back the named ones, by id or by user, and returns those that were good until now.
	RevokeInvites(ctx context.Context, names []string, by, why string) ([]board.Invite, error)
	// ListInvites returns all, in the order in which they were made.
	ListInvites() []board.Invite
	// Revoked reports whether the user came by an invite that was taken back.
	Revoked(user board.UserID) bool
	// WatchRevoked has f called with the users of every invite that is taken back from now on, here or on another node.
	WatchRevoked(f func([]board.UserID))
}
