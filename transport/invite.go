package transport

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/placed-board/placed/board"
)

// An invite's link is the page's address with "#invite=" and a code: the invite's id and a signature of it by the session key.
// What follows the # stays in the browser, so no log and no proxy sees it, and a program that looks at links (a messenger's
// preview, say) uses nothing up. Who knows only the ids, of a list or of the store, cannot make a link.

const (
	inviteDomain   = "placed invite v1\n"
	inviteIDBytes  = 8
	inviteMacBytes = 16
	// inviteCodeBytes is the length of a code in characters.
	inviteCodeBytes = (inviteIDBytes + inviteMacBytes) / 3 * 4
	// inviteMark stands before the code in a link.
	inviteMark = "#invite="
	// inviteBodyBytesMax bounds the body of a use.
	inviteBodyBytesMax = 1024
)

// code returns the code of an invite's link; "" when the id is none.
func (s *signer) code(id string) string {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != inviteIDBytes {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(raw, s.inviteMac(raw)...))
}

// inviteOf returns the id of the invite whose code this is, or whose link.
func (s *signer) inviteOf(code string) (id string, ok bool) {
	if _, after, whole := strings.Cut(code, inviteMark); whole {
		code = after
	}
	if len(code) != inviteCodeBytes {
		return "", false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if err != nil || !hmac.Equal(raw[inviteIDBytes:], s.inviteMac(raw[:inviteIDBytes])) {
		return "", false
	}
	return hex.EncodeToString(raw[:inviteIDBytes]), true
}

func (s *signer) inviteMac(id []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(inviteDomain))
	h.Write(id)
	return h.Sum(nil)[:inviteMacBytes]
}

// inviteUse is the body of POST /api/v1/invite.
type inviteUse struct {
	Invite string `json:"invite"` // the code, or the whole link
	Name   string `json:"name"`   // at the first use of an invite without one; else it does not matter
}

// postInvite answers POST /api/v1/invite: the first use of a link makes it the chosen name's for ever, and every use signs that
// one in, on as many devices as the person has.
func (s *Server) postInvite(w http.ResponseWriter, r *http.Request) {
	var body inviteUse
	if p := readJSON(w, r, inviteBodyBytesMax, &body); p != nil {
		s.fail(w, p)
		return
	}
	id, ok := s.signer.inviteOf(body.Invite)
	if !ok {
		s.metrics.tokens[tokenForged].Inc()
		s.fail(w, newProblem(problemInvite, "it was not made by this board, or is not complete"))
		return
	}
	var name board.UserID
	if body.Name != "" {
		var err error
		if name, err = board.ParseUserID(body.Name); err != nil {
			s.fail(w, newProblem(problemUserName, err.Error()))
			return
		}
		if reserved(name) {
			s.fail(w, newProblem(problemReserved, AnonymousPrefix))
			return
		}
	}
	ctx, cancel := s.readContext(r)
	defer cancel()
	invite, err := s.deps.Invites.UseInvite(ctx, id, name)
	if err != nil {
		s.inviteFailed(w, r, err)
		return
	}
	s.metrics.signIns[signInInvite].Inc()
	who := identity{user: invite.Name}
	if invite.ExpiresMs != 0 {
		who.expires = time.UnixMilli(invite.ExpiresMs)
	}
	writeJSON(w, http.StatusOK, "no-store", s.issue(w, r, who))
}

// inviteFailed answers what became of an invite.
func (s *Server) inviteFailed(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, board.ErrInviteUnknown), errors.Is(err, board.ErrInviteRevoked), errors.Is(err, board.ErrInviteExpired):
		s.metrics.tokens[tokenRevoked].Inc()
		s.fail(w, newProblem(problemInvite, err.Error()))
	case errors.Is(err, board.ErrNameNeeded):
		s.fail(w, newProblem(problemInviteName, ""))
	case errors.Is(err, board.ErrNameTaken):
		s.fail(w, newProblem(problemNameTaken, ""))
	case errors.Is(err, board.ErrInvitesFull):
		s.fail(w, newProblem(problemRefused, err.Error()))
	default:
		s.askFailed(w, r, err)
	}
}

// invitation is an invite with its link, as operators get it.
type invitation struct {
	board.Invite
	State string `json:"state"`
	Link  string `json:"link,omitempty"` // of one that is good
}

func (s *Server) invitations(invites []board.Invite) []invitation {
	now := time.Now().UnixMilli()
	list := make([]invitation, 0, len(invites))
	for _, i := range invites {
		v := invitation{Invite: i, State: i.State(now)}
		if v.State == "open" || v.State == "used" {
			v.Link = s.publicURL() + "/" + inviteMark + s.signer.code(i.ID)
		}
		list = append(list, v)
	}
	return list
}

// publicURL returns where people find the page: as configured, else on this machine.
func (s *Server) publicURL() string {
	if s.cfg.PublicURL != "" {
		return strings.TrimRight(s.cfg.PublicURL, "/")
	}
	u := url.URL{Scheme: "http", Host: "localhost"}
	if s.certificate != nil {
		u.Scheme = "https"
	}
	if addr := s.Addr(); addr != nil {
		u.Host += addr.String()[strings.LastIndexByte(addr.String(), ':'):]
	}
	return u.String()
}
