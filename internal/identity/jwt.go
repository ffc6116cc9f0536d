package identity

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/reload"
)

// JWT checks tokens by its configuration. It reads its files of keys anew when they change.
type JWT struct {
	cfg  Config
	keys func() []key
}

// NewJWT reads the keys. told hears of every later reading of changed files, with nil or with why it failed; the keys from
// before then stay good.
func NewJWT(cfg Config, told func(error)) (*JWT, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	v := &JWT{cfg: cfg}
	path := cfg.KeyFile + cfg.JWKSFile // one of them is ""
	if path == "" {
		keys, err := cfg.loadKeys()
		v.keys = func() []key { return keys }
		return v, err
	}
	kept, err := reload.Open(cfg.loadKeys, told, path)
	if err != nil {
		return nil, err
	}
	v.keys = kept.Get
	return v, nil
}

// Verify implements Verifier.
func (v *JWT) Verify(token string, now time.Time) (Person, error) {
	if len(token) > TokenBytesMax {
		return Person{}, refuse(ReasonLong, "the token is longer than %d bytes", TokenBytesMax)
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{v.cfg.Algorithm}), jwt.WithIssuer(v.cfg.Issuer), jwt.WithAudience(v.cfg.Audience),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(v.cfg.Leeway), jwt.WithStrictDecoding(),
		jwt.WithTimeFunc(func() time.Time { return now }),
	)
	claims := jwt.MapClaims{}
	parsed, err := parser.ParseWithClaims(token, claims, v.keyFor)
	if err != nil {
		return Person{}, v.refusal(parsed, err)
	}
	user, refusal := v.user(claims)
	if refusal != nil {
		return Person{}, refusal
	}
	expires, err := claims.GetExpirationTime()
	if err != nil || expires == nil {
		return Person{}, refuse(ReasonClaims, "the token has no exp claim")
	}
	return Person{User: user, Expires: expires.Add(v.cfg.Leeway)}, nil
}

// keyFor returns the keys that may have signed the token: the one that it names, or all. The parser has made sure of the
// algorithm by then, and every key fits that.
func (v *JWT) keyFor(t *jwt.Token) (any, error) {
	if _, critical := t.Header["crit"]; critical {
		return nil, errors.New("the token asks for extensions (crit)")
	}
	id, named := t.Header["kid"].(string)
	set := jwt.VerificationKeySet{}
	for _, k := range v.keys() {
		if !named || k.id == "" || k.id == id {
			set.Keys = append(set.Keys, k.value)
		}
	}
	if len(set.Keys) == 0 {
		return nil, fmt.Errorf("no key has the id %.50q", id)
	}
	return set, nil
}

// user returns the name that the token gives its owner.
func (v *JWT) user(claims jwt.MapClaims) (board.UserID, *Refusal) {
	name, ok := claims[v.cfg.Claim].(string)
	if !ok {
		return "", refuse(ReasonClaims, "the token has no text in its claim %s", v.cfg.Claim)
	}
	user, err := board.ParseUserID(name)
	if err != nil {
		return "", refuse(ReasonUser, "the token's claim %s, %.100q, cannot be a name here: %v", v.cfg.Claim, name, err)
	}
	return user, nil
}

// refusal says why the parser did not take the token. parsed may be nil.
func (v *JWT) refusal(parsed *jwt.Token, err error) *Refusal {
	if parsed == nil || errors.Is(err, jwt.ErrTokenMalformed) {
		return refuse(ReasonMalformed, "the token is not a JWT")
	}
	switch algorithm, _ := parsed.Header["alg"].(string); algorithm {
	case v.cfg.Algorithm:
	case "", "none", "None", "NONE":
		return refuse(ReasonUnsigned, "the token is not signed")
	default:
		return refuse(ReasonAlgorithm, "the token is signed by another algorithm than %s", v.cfg.Algorithm)
	}
	for _, c := range []struct {
		is     error
		reason Reason
		detail string
	}{
		{jwt.ErrTokenSignatureInvalid, ReasonForged, "the token was not signed by this board's identity provider"},
		{jwt.ErrTokenUnverifiable, ReasonForged, "the token was not signed by a key that is known here"},
		{jwt.ErrTokenRequiredClaimMissing, ReasonClaims, "the token lacks a claim: iss, aud and exp are needed"},
		{jwt.ErrTokenExpired, ReasonExpired, "the token has expired"},
		{jwt.ErrTokenNotValidYet, ReasonEarly, "the token is not valid yet"},
		{jwt.ErrTokenUsedBeforeIssued, ReasonEarly, "the token is of the future"},
		{jwt.ErrTokenInvalidIssuer, ReasonIssuer, "the token is of another issuer"},
		{jwt.ErrTokenInvalidAudience, ReasonAudience, "the token is meant for somebody else"},
	} {
		if errors.Is(err, c.is) {
			return refuse(c.reason, "%s", c.detail)
		}
	}
	return refuse(ReasonClaims, "a claim of the token has the wrong type")
}
