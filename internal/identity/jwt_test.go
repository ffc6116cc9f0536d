package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	issuer   = "https://login.example.org"
	audience = "placed"
)

var (
	testNow    = time.Unix(2_000_000_000, 0)
	testSecret = []byte("a secret of the provider, 32 bytes or more")
	rsaKey     = sync.OnceValue(func() *rsa.PrivateKey {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		return k
	})
	edKey = sync.OnceValue(func() ed25519.PrivateKey {
		_, k, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			panic(err)
		}
		return k
	})
)

func good() jwt.MapClaims {
	return jwt.MapClaims{
		"iss": issuer, "aud": audience, "sub": "Zoë", "exp": testNow.Add(time.Hour).Unix(), "iat": testNow.Add(-time.Minute).Unix(), "email": "z@example.org",
	}
}

func with(changes jwt.MapClaims) jwt.MapClaims {
	c := good()
	maps.Copy(c, changes)
	for name, value := range c {
		if value == nil {
			delete(c, name)
		}
	}
	return c
}

func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.MapClaims, header ...string) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	for i := 0; i < len(header); i += 2 {
		token.Header[header[i]] = header[i+1]
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func file(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func publicPEM(t testing.TB, public any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func config(algorithm string) Config {
	cfg := DefaultConfig()
	cfg.Algorithm, cfg.Issuer, cfg.Audience = algorithm, issuer, audience
	return cfg
}

func verifier(t testing.TB, cfg Config) *JWT {
	t.Helper()
	v, err := NewJWT(cfg, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func withSecret() Config {
	cfg := config(HS256)
	cfg.Secret = testSecret
	return cfg
}

func withRSA(t testing.TB) Config {
	cfg := config(RS256)
	cfg.KeyFile = file(t, "rsa.pem", publicPEM(t, &rsaKey().PublicKey))
	return cfg
}

func withEd(t testing.TB) Config {
	cfg := config(EdDSA)
	cfg.KeyFile = file(t, "ed.pem", publicPEM(t, edKey().Public()))
	return cfg
}

func reasonOf(err error) Reason {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal.Reason
	}
	return ""
}

// TestGoodTokens takes tokens of every algorithm, from keys of every form.
func TestGoodTokens(t *testing.T) {
	byClaim := withSecret()
	byClaim.Claim = "email"
	for name, c := range map[string]struct {
		cfg    Config
		token  string
		user   string
		expiry time.Duration
	}{
		"HS256":         {withSecret(), sign(t, jwt.SigningMethodHS256, testSecret, good()), "Zoë", time.Hour},
		"RS256":         {withRSA(t), sign(t, jwt.SigningMethodRS256, rsaKey(), good()), "Zoë", time.Hour},
		"EdDSA":         {withEd(t), sign(t, jwt.SigningMethodEdDSA, edKey(), good()), "Zoë", time.Hour},
		"another claim": {byClaim, sign(t, jwt.SigningMethodHS256, testSecret, good()), "z@example.org", time.Hour},
		"one of many audiences": {
			withSecret(), sign(t, jwt.SigningMethodHS256, testSecret, with(jwt.MapClaims{"aud": []string{"other", audience}})), "Zoë", time.Hour,
		},
		"within the leeway": {
			withSecret(), sign(t, jwt.SigningMethodHS256, testSecret, with(jwt.MapClaims{"exp": testNow.Add(-20 * time.Second).Unix()})), "Zoë", -20 * time.Second,
		},
		"a key id that a plain key has not": {withEd(t), sign(t, jwt.SigningMethodEdDSA, edKey(), good(), "kid", "7"), "Zoë", time.Hour},
	} {
		person, err := verifier(t, c.cfg).Verify(c.token, testNow)
		if err != nil || string(person.User) != c.user || !person.Expires.Equal(testNow.Add(c.expiry+c.cfg.Leeway)) {
			t.Errorf("%s: %+v %v", name, person, err)
		}
	}
}

// unsigned returns a token that says alg.
func unsigned(t testing.TB, alg string) string {
	t.Helper()
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return part(map[string]string{"alg": alg, "typ": "JWT"}) + "." + part(good()) + "."
}

// TestBadTokens refuses each kind of bad token, says why, and tells nothing that it should not.
func TestBadTokens(t *testing.T) {
	withHS, withRS, withEdDSA := withSecret(), withRSA(t), withEd(t)
	publicKey, err := os.ReadFile(withRS.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	hs := func(changes jwt.MapClaims) string {
		return sign(t, jwt.SigningMethodHS256, testSecret, with(changes))
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed := hs(nil)
	for name, c := range map[string]struct {
		cfg    Config
		token  string
		reason Reason
	}{
		"empty":                     {withHS, "", ReasonMalformed},
		"garbage":                   {withHS, "a.b.c", ReasonMalformed},
		"two parts":                 {withHS, "a.b", ReasonMalformed},
		"four parts":                {withHS, signed + ".x", ReasonMalformed},
		"not strict base64":         {withHS, signed + "=", ReasonMalformed},
		"huge":                      {withHS, hs(jwt.MapClaims{"x": strings.Repeat("x", TokenBytesMax)}), ReasonLong},
		"none":                      {withHS, unsigned(t, "none"), ReasonUnsigned},
		"None":                      {withRS, unsigned(t, "None"), ReasonUnsigned},
		"NONE":                      {withEdDSA, unsigned(t, "NONE"), ReasonUnsigned},
		"nOnE":                      {withEdDSA, unsigned(t, "nOnE"), ReasonAlgorithm},
		"no algorithm":              {withHS, unsigned(t, ""), ReasonUnsigned},
		"signature cut off":         {withHS, signed[:strings.LastIndexByte(signed, '.')+1], ReasonForged},
		"the public key as secret":  {withRS, sign(t, jwt.SigningMethodHS256, publicKey, good()), ReasonAlgorithm},
		"another HMAC":              {withHS, sign(t, jwt.SigningMethodHS512, testSecret, good()), ReasonAlgorithm},
		"another RSA":               {withRS, sign(t, jwt.SigningMethodPS256, rsaKey(), good()), ReasonAlgorithm},
		"an elliptic curve":         {withEdDSA, sign(t, jwt.SigningMethodES256, ec, good()), ReasonAlgorithm},
		"another key":               {withRS, sign(t, jwt.SigningMethodRS256, other, good()), ReasonForged},
		"another secret":            {withHS, sign(t, jwt.SigningMethodHS256, []byte(strings.Repeat("y", 32)), good()), ReasonForged},
		"critical extension":        {withHS, sign(t, jwt.SigningMethodHS256, testSecret, good(), "crit", "b64"), ReasonForged},
		"expired":                   {withHS, hs(jwt.MapClaims{"exp": testNow.Add(-time.Minute).Unix()}), ReasonExpired},
		"no expiry":                 {withHS, hs(jwt.MapClaims{"exp": nil}), ReasonClaims},
		"expiry as text":            {withHS, hs(jwt.MapClaims{"exp": "2100-01-01"}), ReasonClaims},
		"not yet":                   {withHS, hs(jwt.MapClaims{"nbf": testNow.Add(time.Minute).Unix()}), ReasonEarly},
		"issued in the future":      {withHS, hs(jwt.MapClaims{"iat": testNow.Add(time.Minute).Unix()}), ReasonEarly},
		"another issuer":            {withHS, hs(jwt.MapClaims{"iss": issuer + "/"}), ReasonIssuer},
		"no issuer":                 {withHS, hs(jwt.MapClaims{"iss": nil}), ReasonClaims},
		"another audience":          {withHS, hs(jwt.MapClaims{"aud": "shop"}), ReasonAudience},
		"no audience":               {withHS, hs(jwt.MapClaims{"aud": nil}), ReasonClaims},
		"an empty list of them":     {withHS, hs(jwt.MapClaims{"aud": []string{}}), ReasonClaims},
		"no name":                   {withHS, hs(jwt.MapClaims{"sub": nil}), ReasonClaims},
		"a number for a name":       {withHS, hs(jwt.MapClaims{"sub": 7}), ReasonClaims},
		"an empty name":             {withHS, hs(jwt.MapClaims{"sub": ""}), ReasonUser},
		"a name too long":           {withHS, hs(jwt.MapClaims{"sub": strings.Repeat("x", 49)}), ReasonUser},
		"a name with a line break":  {withHS, hs(jwt.MapClaims{"sub": "a\nb"}), ReasonUser},
		"forged and expired":        {withHS, sign(t, jwt.SigningMethodHS256, []byte(strings.Repeat("y", 32)), with(jwt.MapClaims{"exp": 1})), ReasonForged},
		"an expiry of zero":         {withHS, hs(jwt.MapClaims{"exp": 0}), ReasonClaims},
		"an expiry beyond all time": {withHS, hs(jwt.MapClaims{"exp": -1e300}), ReasonExpired},
	} {
		person, err := verifier(t, c.cfg).Verify(c.token, testNow)
		if reasonOf(err) != c.reason || person != (Person{}) {
			t.Errorf("%s: %+v, %v (%s), want %s", name, person, err, reasonOf(err), c.reason)
		}
		if err != nil && (err.Error() == "" || strings.Contains(err.Error(), string(testSecret)) || (c.token != "" && strings.Contains(err.Error(), c.token))) {
			t.Errorf("%s: the error says %q", name, err)
		}
	}
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func rsaJWK(k *rsa.PublicKey, id string) map[string]string {
	return map[string]string{"kty": "RSA", "kid": id, "n": b64(k.N.Bytes()), "e": b64(big.NewInt(int64(k.E)).Bytes())}
}

func edJWK(k ed25519.PublicKey, id string) map[string]string {
	return map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": id, "x": b64(k)}
}

func set(t testing.TB, keys ...map[string]string) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestKeySet takes keys by their ids, passes over those for other things, and takes a rotated set without a restart; half a
// file changes nothing.
func TestKeySet(t *testing.T) {
	second, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	encryption := rsaJWK(&second.PublicKey, "enc")
	encryption["use"] = "enc"
	cfg := config(RS256)
	cfg.JWKSFile = file(t, "jwks.json", set(t, rsaJWK(&rsaKey().PublicKey, "one"), edJWK(edKey().Public().(ed25519.PublicKey), "ed"), encryption))
	told := make(chan error, 8)
	v, err := NewJWT(cfg, func(err error) { told <- err })
	if err != nil {
		t.Fatal(err)
	}
	first := func(header ...string) string {
		return sign(t, jwt.SigningMethodRS256, rsaKey(), good(), header...)
	}
	rotated := sign(t, jwt.SigningMethodRS256, second, good(), "kid", "two")
	check := func(what, token string, want Reason) {
		t.Helper()
		if _, err := v.Verify(token, testNow); reasonOf(err) != want {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	check("by id", first("kid", "one"), "")
	check("without an id", first(), "")
	check("by a wrong id", first("kid", "ed"), ReasonForged)
	check("by the key for encryption", sign(t, jwt.SigningMethodRS256, second, good(), "kid", "enc"), ReasonForged)
	check("before the rotation", rotated, ReasonForged)

	whole := set(t, rsaJWK(&second.PublicKey, "two"))
	replace := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(cfg.JWKSFile, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(failed bool) {
		t.Helper()
		deadline := time.NewTimer(10 * time.Second)
		defer deadline.Stop()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			_, _ = v.Verify(rotated, testNow) // looking is what it does when it is asked
			select {
			case err := <-told:
				if (err != nil) != failed {
					t.Fatalf("told %v", err)
				}
				return
			case <-tick.C:
			case <-deadline.C:
				t.Fatal("the change was not seen")
			}
		}
	}
	replace(whole[:len(whole)/2])
	hear(true)
	check("after half a file", first("kid", "one"), "")
	replace(whole)
	hear(false)
	check("after the rotation", rotated, "")
	check("the old key", first("kid", "one"), ReasonForged)
}

// TestImpossibleKeys refuses to start with keys that are none, too weak, private, or of another kind.
func TestImpossibleKeys(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip("this Go makes no RSA keys so small")
	}
	private, err := x509.MarshalPKCS8PrivateKey(edKey())
	if err != nil {
		t.Fatal(err)
	}
	pub := publicPEM(t, &rsaKey().PublicKey)
	leaked := edJWK(edKey().Public().(ed25519.PublicKey), "x")
	leaked["d"] = "AA"
	for name, c := range map[string]struct {
		algorithm, set string
		content        []byte
		says           string
	}{
		"not PEM":            {RS256, "", []byte("hello"), "PEM"},
		"empty":              {EdDSA, "", nil, "PEM"},
		"small RSA":          {RS256, "", publicPEM(t, &small.PublicKey), "1024 bits"},
		"an RSA key":         {EdDSA, "", pub, "EdDSA"},
		"a private key":      {EdDSA, "", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), "private"},
		"a public secret":    {HS256, "", pub, "PEM"},
		"a short secret":     {HS256, "", []byte("secret\n"), "at least 32"},
		"large":              {RS256, "", make([]byte, keyFileBytesMax+1), "larger"},
		"no JSON":            {RS256, "set", []byte("{"), "Key Set"},
		"no keys":            {RS256, "set", []byte("{}"), "none of its 0 keys"},
		"keys of others":     {RS256, "set", set(t, edJWK(edKey().Public().(ed25519.PublicKey), "x")), "none of its 1 keys"},
		"a leaked key":       {EdDSA, "set", set(t, leaked), "private"},
		"a cut key":          {EdDSA, "set", set(t, edJWK(edKey().Public().(ed25519.PublicKey)[:31], "x")), "31 bytes"},
		"an even exponent":   {RS256, "set", set(t, map[string]string{"kty": "RSA", "n": b64(rsaKey().N.Bytes()), "e": "Ag"}), "exponent 2"},
		"small RSA of a set": {RS256, "set", set(t, rsaJWK(&small.PublicKey, "s")), "1024 bits"},
		"a short oct":        {HS256, "set", set(t, map[string]string{"kty": "oct", "k": b64([]byte("short"))}), "at least 32"},
	} {
		cfg := config(c.algorithm)
		path := file(t, "keys", c.content)
		if c.set != "" {
			cfg.JWKSFile = path
		} else {
			cfg.KeyFile = path
		}
		if _, err := NewJWT(cfg, nil); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q and the path", name, err, c.says)
		}
	}
	open := config(HS256)
	open.KeyFile = file(t, "secret", testSecret)
	if err := os.Chmod(open.KeyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := NewJWT(open, nil); err == nil || !strings.Contains(err.Error(), "read by everybody") {
		t.Errorf("a secret that everybody may read: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"algorithm": func(c *Config) { c.Algorithm = "" },
		"none of":   func(c *Config) { c.Algorithm = "none" },
		"exactly":   func(c *Config) { c.KeyFile = "x" },
		"not 0":     func(c *Config) { c.Secret = nil },
		"at least":  func(c *Config) { c.Secret = []byte("short") },
		"is for":    func(c *Config) { c.Algorithm = RS256 },
		"issuer":    func(c *Config) { c.Issuer = "" },
		"audience":  func(c *Config) { c.Audience = "" },
		"claim":     func(c *Config) { c.Claim = "" },
		"leeway":    func(c *Config) { c.Leeway = -1 },
	} {
		cfg := withSecret()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), string(testSecret)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	v := verifier(f, withSecret())
	f.Add(sign(f, jwt.SigningMethodHS256, testSecret, good()))
	f.Add("a.b.c")
	good := sign(f, jwt.SigningMethodHS256, testSecret, good())
	f.Fuzz(func(t *testing.T, token string) {
		if person, err := v.Verify(token, testNow); err == nil && token != good {
			t.Fatalf("a token of nobody's making is %+v", person)
		} else if err != nil && reasonOf(err) == "" {
			t.Fatalf("an error that is no refusal: %v", err)
		}
	})
}
