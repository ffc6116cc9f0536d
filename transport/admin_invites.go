package transport

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/placed-board/placed/board"
)

// invitesAskedMax bounds the invites of one request, to be made or taken back; they are one commit.
const invitesAskedMax = 250

// inviteOrder is the body of POST /admin/v1/invites: names, or how many without.
type inviteOrder struct {
	Count     int      `json:"count"`
	Names     []string `json:"names"`
	ExpiresMs int64    `json:"expires_ms"` // Unix milliseconds; 0 or none: never
	By        string   `json:"by"`
	Why       string   `json:"why"`
}

// withInvites returns the handler for boards that have invites.
func (s *Server) withInvites(handler http.HandlerFunc) http.HandlerFunc {
	if s.deps.Invites != nil {
		return handler
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		s.fail(w, newProblem(problemRefused, "this board has no invites: start placed with --auth=invite"))
	}
}

// adminInvite answers POST /admin/v1/invites: 201 with all of the new invites and their links, or none was made.
func (s *Server) adminInvite(w http.ResponseWriter, r *http.Request) {
	var body inviteOrder
	if p := readJSON(w, r, adminBodyBytesMax, &body); p != nil {
		s.fail(w, p)
		return
	}
	request, p := body.request(r)
	if p != nil {
		s.fail(w, p)
		return
	}
	made, err := s.deps.Invites.CreateInvites(r.Context(), request)
	if err != nil {
		s.inviteFailed(w, r, err)
		return
	}
	s.log.Info("invites made", "count", len(made), "by", request.By, "why", request.Why)
	writeJSON(w, http.StatusCreated, "no-store", s.invitations(made))
}

func (o *inviteOrder) request(r *http.Request) (board.InviteRequest, *problem) {
	q := board.InviteRequest{Count: o.Count, ExpiresMs: o.ExpiresMs}
	var p *problem
	if q.By, q.Why, p = whoAndWhy(r, o.By, o.Why); p != nil {
		return q, p
	}
	for _, name := range o.Names {
		user, err := board.ParseUserID(name)
		if err == nil && reserved(user) {
			err = errors.New("it begins with " + AnonymousPrefix)
		}
		if err != nil {
			return q, newProblem(problemUserName, fmt.Sprintf("%.60q: %v", name, err))
		}
		q.Names = append(q.Names, user)
	}
	if len(o.Names) > 0 && o.Count != 0 && o.Count != len(o.Names) {
		return q, newProblem(problemBadRequest, "count and names do not agree: give one of them")
	}
	if len(o.Names) > 0 {
		q.Count = len(o.Names)
	}
	if q.Count < 1 || q.Count > invitesAskedMax {
		return q, newProblem(problemBadRequest, fmt.Sprintf("1 to %d invites can be made at once", invitesAskedMax))
	}
	if o.ExpiresMs != 0 && (o.ExpiresMs <= time.Now().UnixMilli() || o.ExpiresMs > board.BannedForever) {
		return q, newProblem(problemBadRequest, "expires_ms is not in the future; leave it out for invites without end")
	}
	return q, nil
}

func (s *Server) adminInvites(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, "no-store", s.invitations(s.deps.Invites.ListInvites()))
}

// inviteRevoke is the body of POST /admin/v1/invites/revoke.
type inviteRevoke struct {
	Invites []string `json:"invites"` // ids, names or links
	By      string   `json:"by"`
	Why     string   `json:"why"`
}

// adminRevoke answers POST /admin/v1/invites/revoke with the invites that are revoked now; all of the named ones, or none when
// one does not exist. The sessions of their users are closed, here at once and on other nodes within a second.
func (s *Server) adminRevoke(w http.ResponseWriter, r *http.Request) {
	var body inviteRevoke
	if p := readJSON(w, r, adminBodyBytesMax, &body); p != nil {
		s.fail(w, p)
		return
	}
	by, why, p := whoAndWhy(r, body.By, body.Why)
	if p == nil && (len(body.Invites) < 1 || len(body.Invites) > invitesAskedMax) {
		p = newProblem(problemBadRequest, fmt.Sprintf("name 1 to %d invites, by id, by the user's name or by link", invitesAskedMax))
	}
	if p != nil {
		s.fail(w, p)
		return
	}
	for i, name := range body.Invites {
		if id, ok := s.signer.inviteOf(name); ok {
			body.Invites[i] = id
		}
	}
	revoked, err := s.deps.Invites.RevokeInvites(r.Context(), body.Invites, by, why)
	if errors.Is(err, board.ErrInviteUnknown) {
		s.fail(w, newProblem(problemNotFound, err.Error()))
		return
	}
	if err != nil {
		s.inviteFailed(w, r, err)
		return
	}
	s.log.Info("invites revoked", "count", len(revoked), "by", by, "why", why)
	writeJSON(w, http.StatusOK, "no-store", s.invitations(revoked))
}
