// Package identity checks what an identity provider outside of the board says of a person: signed tokens (JWT, RFC 7519).
//
// What is checked, and with which algorithm, is fixed by the configuration of the node. Nothing that a token says of itself
// chooses how it is checked: a token of another algorithm is refused, whatever its signature.
package identity

import (
	"fmt"
	"time"

	"github.com/placed-board/placed/board"
)

// Verifier tells whose a token of an identity provider is.
type Verifier interface {
	// Verify checks the token at the time now. The error of a token that is not good is a *Refusal.
	Verify(token string, now time.Time) (Person, error)
}

// Person is who a good token names.
type Person struct {
	User    board.UserID
	Expires time.Time // the token, leeway included
}

// Reason is why a token was refused: a label for counters.
type Reason string

// The reasons.
const (
	ReasonLong      Reason = "too_long"  // above TokenBytesMax: not looked at
	ReasonMalformed Reason = "malformed" // not a JWT at all
	ReasonUnsigned  Reason = "unsigned"  // it says that it has no signature
	ReasonAlgorithm Reason = "algorithm" // of another algorithm than the configured one
	ReasonForged    Reason = "forged"    // not signed by a key of the provider
	ReasonExpired   Reason = "expired"
	ReasonEarly     Reason = "not_yet"  // of the future
	ReasonIssuer    Reason = "issuer"   // of another provider
	ReasonAudience  Reason = "audience" // meant for somebody else
	ReasonClaims    Reason = "claims"   // a claim is missing, or has another type
	ReasonUser      Reason = "user"     // the claim's text cannot be a name on the board
)

// Reasons are all of them.
var Reasons = []Reason{
	ReasonLong, ReasonMalformed, ReasonUnsigned, ReasonAlgorithm, ReasonForged, ReasonExpired, ReasonEarly, ReasonIssuer, ReasonAudience,
	ReasonClaims, ReasonUser,
}

// Refusal is the error of a token that is not good. Its text is for people and holds nothing of the token but the name that it
// claims.
type Refusal struct {
	Reason Reason
	Detail string
}

// Error returns the sentence for people.
func (r *Refusal) Error() string { return r.Detail }

func refuse(reason Reason, format string, a ...any) *Refusal {
	return &Refusal{Reason: reason, Detail: fmt.Sprintf(format, a...)}
}
