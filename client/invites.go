package client

import (
	"context"
	"net/http"
	"strings"

	"github.com/placed-board/placed/board"
)

// Invitation is an invite as operators see it.
type Invitation struct {
	board.Invite
	State string `json:"state"`          // open, used, expired or revoked
	Link  string `json:"link,omitempty"` // of one that is good: a secret, whoever has it is that person
}

// InvitesAskedMax is how many invites a node makes or takes back at once.
const InvitesAskedMax = 250

// CreateInvites makes invites: one for each name, or count without. All are made or none.
func (a *Admin) CreateInvites(ctx context.Context, count int, names []string, expiresMs int64, why string) ([]Invitation, error) {
	var out []Invitation
	err := a.json(ctx, http.MethodPost, "/admin/v1/invites", struct {
		Count     int      `json:"count,omitempty"`
		Names     []string `json:"names,omitempty"`
		ExpiresMs int64    `json:"expires_ms,omitempty"`
		By        string   `json:"by,omitempty"`
		Why       string   `json:"why"`
	}{count, names, expiresMs, a.By, why}, &out)
	return out, err
}

// Invites returns all invites, in the order in which they were made.
func (a *Admin) Invites(ctx context.Context) ([]Invitation, error) {
	var out []Invitation
	err := a.json(ctx, http.MethodGet, "/admin/v1/invites", nil, &out)
	return out, err
}

// RevokeInvites takes invites back, named by id, by user or by link; all of them or none. It returns those that were good.
func (a *Admin) RevokeInvites(ctx context.Context, names []string, why string) ([]Invitation, error) {
	var out []Invitation
	err := a.json(ctx, http.MethodPost, "/admin/v1/invites/revoke", struct {
		Invites []string `json:"invites"`
		By      string   `json:"by,omitempty"`
		Why     string   `json:"why"`
	}{names, a.By, why}, &out)
	return out, err
}

// UseInvite signs in by an invite's link, or by the code in it; the token is kept and sent with later requests. The first use
// makes the invite name's for ever; later ones take no notice of name.
func (a *API) UseInvite(ctx context.Context, link, name string) (SignedIn, error) {
	if _, code, ok := strings.Cut(link, "#invite="); ok {
		link = code
	}
	a.SetToken("")
	var out SignedIn
	err := a.json(ctx, http.MethodPost, "/api/v1/invite", nil, struct {
		Invite string `json:"invite"`
		Name   string `json:"name,omitempty"`
	}{link, name}, &out)
	if err == nil {
		a.SetToken(out.Token)
	}
	return out, err
}
