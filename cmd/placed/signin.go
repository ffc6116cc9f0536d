package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"

	"github.com/placed-board/placed/actors"
	"github.com/placed-board/placed/internal/identity"
	"github.com/placed-board/placed/invites"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/transport"
)

// faceFlags are about who people are and how they reach the node.
type faceFlags struct {
	Auth        string `default:"open" enum:"open,invite,jwt,proxy" help:"How people sign in. open: everybody takes a name or stays anonymous; invite: by a link of their own (placed ctl invite); jwt: by tokens of an identity provider; proxy: a proxy in front names them."`
	JWTAlg      string `default:"" enum:"HS256,RS256,EdDSA," help:"The one algorithm of the tokens: HS256, RS256 or EdDSA."`
	JWTKeyFile  string `type:"path" help:"Public key or certificate of the provider, PEM; of HS256 the secret, which PLACED_JWT_SECRET may hold instead. Read anew when it changes."`
	JWKSFile    string `type:"path" help:"JSON Web Key Set of the provider. Read anew when it changes."`
	JWTIssuer   string `help:"What the tokens' iss must be."`
	JWTAudience string `help:"What their aud must be or hold."`
	JWTClaim    string `default:"sub" help:"The claim with the user's name."`
	JWTCookie   string `help:"A cookie of the provider on this site that holds the token."`
	AuthHeader  string `default:"X-Forwarded-User" help:"The header in which a trusted proxy names the user."`
	PublicURL   string `name:"public-url" help:"Where people find the page, as https://board.example.org: for the links of invites."`
	SignInURL   string `name:"sign-in-url" help:"Where people sign in, with jwt and proxy: the page sends them there."`

	TLSCert        string      `type:"path" help:"Certificate of the public listener with its chain, PEM; read anew when it changes."`
	TLSKey         string      `type:"path" help:"Its key, PEM."`
	TrustedProxies []addresses `placeholder:"ADDRESS,..." help:"Addresses of caches and proxies in front, whose X-Forwarded-For tells the true address of a client."`
}

// apply puts the flags into the outer face's settings. Files are looked at now, before anything is written.
func (f *faceFlags) apply(config *transport.Config) error {
	config.Auth, config.AuthHeader, config.JWTCookie = transport.Auth(f.Auth), f.AuthHeader, f.JWTCookie
	config.SignInURL, config.PublicURL = f.SignInURL, f.PublicURL
	config.CertFile, config.KeyFile = f.TLSCert, f.TLSKey
	config.TrustedProxies = prefixes(f.TrustedProxies)
	if err := f.applyJWT(config); err != nil {
		return err
	}
	if f.TLSCert == "" || f.TLSKey == "" {
		return nil // Validate tells of one without the other
	}
	if _, err := tls.LoadX509KeyPair(f.TLSCert, f.TLSKey); err != nil {
		return fmt.Errorf("--tls-cert %s with --tls-key %s: %w", f.TLSCert, f.TLSKey, err)
	}
	return nil
}

// applyJWT puts the flags of an identity provider into the outer face's settings.
func (f *faceFlags) applyJWT(config *transport.Config) error {
	if config.Auth != transport.AuthJWT {
		if f.JWTAlg+f.JWTKeyFile+f.JWKSFile+f.JWTIssuer+f.JWTAudience+f.JWTCookie != "" {
			return usageError{fmt.Errorf("the flags --jwt-... are for --auth=jwt, and this is --auth=%s", f.Auth)}
		}
		return nil
	}
	config.JWT = identity.DefaultConfig()
	config.JWT.Algorithm, config.JWT.KeyFile, config.JWT.JWKSFile = f.JWTAlg, f.JWTKeyFile, f.JWKSFile
	config.JWT.Issuer, config.JWT.Audience, config.JWT.Claim = f.JWTIssuer, f.JWTAudience, f.JWTClaim
	config.JWT.Secret = []byte(os.Getenv("PLACED_JWT_SECRET"))
	if err := config.JWT.Validate(); err != nil {
		return usageError{fmt.Errorf("--auth=jwt with --jwt-alg, --jwt-key-file or --jwks-file, --jwt-issuer, --jwt-audience: %w", err)}
	}
	if _, err := identity.NewJWT(config.JWT, nil); err != nil {
		return fmt.Errorf("--auth=jwt: %w", err)
	}
	return nil
}

// openInvites gives the outer face the invites of the board, with --auth=invite; it returns what closes them.
func (f *faceFlags) openInvites(ctx context.Context, st store.Store, node actors.Node, deps *transport.Deps) (func(), error) {
	if f.Auth != string(transport.AuthInvite) {
		return func() {}, nil
	}
	keeper, err := invites.Open(ctx, invites.Config{Store: st, Owner: store.Owner{Address: node.Address, Incarnation: node.Incarnation}, Log: deps.Log})
	if err != nil {
		return func() {}, err
	}
	deps.Invites = keeper
	return keeper.Close, nil
}

// scheme returns how the public listener's addresses begin.
func (f *faceFlags) scheme() string {
	if f.TLSCert != "" {
		return "https://"
	}
	return "http://"
}
