package identity

import (
	"errors"
	"fmt"
	"time"
)

// Algorithms by which tokens may be signed. A node takes one of them.
const (
	HS256 = "HS256" // a secret that the provider and the board share
	RS256 = "RS256" // RSA with 2,048 bits or more
	EdDSA = "EdDSA" // Ed25519
)

// Bounds of what is read.
const (
	// TokenBytesMax is the longest token that is looked at.
	TokenBytesMax = 6 * 1024
	// SecretBytesMin is the shortest secret of HS256; a shorter one can be guessed from any token.
	SecretBytesMin = 32
	// keyFileBytesMax is the largest file of keys; keysMax the most keys in it.
	keyFileBytesMax = 256 * 1024
	keysMax         = 100
	rsaBitsMin      = 2048
)

// Config says which tokens are good. One of KeyFile, JWKSFile and Secret is needed.
type Config struct {
	Algorithm string // HS256, RS256 or EdDSA
	KeyFile   string // a public key or certificate as PEM; with HS256 the secret itself
	JWKSFile  string // a JSON Web Key Set (RFC 7517)
	Secret    []byte // of HS256, from the environment. It is never logged
	Issuer    string // what the token's iss must be
	Audience  string // what its aud must be or hold
	Claim     string // whose text is the user's name: sub, preferred_username, ...
	// Leeway is how far the provider's clock may differ.
	Leeway time.Duration
}

// DefaultConfig takes the name from sub, with 30 s between the clocks.
func DefaultConfig() Config { return Config{Claim: "sub", Leeway: 30 * time.Second} }

// Validate returns everything that is missing or impossible, joined into one error.
func (c *Config) Validate() error {
	var errs []error
	fail := func(format string, a ...any) { errs = append(errs, fmt.Errorf("identity: "+format, a...)) }
	switch c.Algorithm {
	case HS256, RS256, EdDSA:
	case "":
		fail("an algorithm is needed: %s, %s or %s", HS256, RS256, EdDSA)
	default:
		fail("algorithm %q is none of %s, %s, %s", c.Algorithm, HS256, RS256, EdDSA)
	}
	sources := 0
	for _, given := range []bool{c.KeyFile != "", c.JWKSFile != "", len(c.Secret) > 0} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		fail("exactly one of key file, JWKS file and secret is needed, not %d", sources)
	}
	if len(c.Secret) > 0 && c.Algorithm != HS256 {
		fail("a secret is for %s, not for %s: give the public key", HS256, c.Algorithm)
	}
	if n := len(c.Secret); n > 0 && n < SecretBytesMin {
		fail("the secret has %d bytes, at least %d are needed", n, SecretBytesMin)
	}
	if c.Issuer == "" {
		fail("the issuer is needed: a token of another provider must not be good here")
	}
	if c.Audience == "" {
		fail("the audience is needed: a token meant for another service must not be good here")
	}
	if c.Claim == "" {
		fail("the claim with the user's name is needed")
	}
	if c.Leeway < 0 || c.Leeway > time.Hour {
		fail("leeway %v is not within 0 to 1h", c.Leeway)
	}
	return errors.Join(errs...)
}
