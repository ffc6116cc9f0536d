package board

import (
	"errors"
	"strings"
)

// Invite is a link for one person. The link itself is a secret made from the id; it is kept nowhere.
type Invite struct {
	ID        string `json:"id"`                   // 16 hexadecimal digits
	Name      UserID `json:"name,omitempty"`       // who it is: given with the invite, else chosen at its first use
	AtMs      int64  `json:"at_ms"`                // when it was made; all times are Unix milliseconds
	By        string `json:"by"`                   // who made it
	Why       string `json:"why,omitempty"`        //
	ExpiresMs int64  `json:"expires_ms,omitempty"` // 0: never
	UsedMs    int64  `json:"used_ms,omitempty"`    // its first use; 0: not used
	RevokedMs int64  `json:"revoked_ms,omitempty"` // 0: not revoked
}

// State says in a word where an invite stands at a time: "revoked", "expired", "used" or "open".
func (i *Invite) State(nowMs int64) string {
	switch {
	case i.RevokedMs != 0:
		return "revoked"
	case i.Expired(nowMs):
		return "expired"
	case i.UsedMs != 0:
		return "used"
	}
	return "open"
}

// Expired reports whether the invite is over by its time.
func (i *Invite) Expired(nowMs int64) bool { return i.ExpiresMs != 0 && nowMs >= i.ExpiresMs }

// InviteRequest asks for new invites: one for each name, or Count without names.
type InviteRequest struct {
	Count     int
	Names     []UserID
	ExpiresMs int64 // Unix milliseconds; 0: never
	By, Why   string
}

// FoldName returns what two names have in common that people cannot tell apart by upper and lower case.
func (u UserID) FoldName() string { return strings.ToLower(string(u)) }

// Errors of invites. Nothing has changed.
var (
	// ErrInviteUnknown says that there is no such invite.
	ErrInviteUnknown = errors.New("there is no such invite")
	// ErrInviteRevoked says that the invite was taken back.
	ErrInviteRevoked = errors.New("the invite was taken back")
	// ErrInviteExpired says that the invite's time is over.
	ErrInviteExpired = errors.New("the invite's time is over")
	// ErrNameNeeded says that the invite has no name yet and none was chosen.
	ErrNameNeeded = errors.New("the invite has no name yet: choose one")
	// ErrNameTaken says that another invite has that name.
	ErrNameTaken = errors.New("somebody else has that name")
	// ErrInvitesFull says that no more invites can be kept.
	ErrInvitesFull = errors.New("there are too many invites")
)
