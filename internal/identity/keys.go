package identity

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"runtime"
)

// key is one key of the provider: []byte for HS256, *rsa.PublicKey, or ed25519.PublicKey.
type key struct {
	id    string // "" when it has none
	value any
}

// loadKeys reads the configured keys; there is at least one, and each fits the algorithm.
func (c *Config) loadKeys() ([]key, error) {
	var keys []key
	var err error
	var path string
	switch {
	case c.JWKSFile != "":
		path = c.JWKSFile
		keys, err = c.loadSet()
	case c.KeyFile != "":
		path = c.KeyFile
		keys, err = c.loadKey()
	default:
		return []key{{value: c.Secret}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("identity: keys of %s in %s: %w", c.Algorithm, path, err)
	}
	return keys, nil
}

// loadKey reads the file of one key.
func (c *Config) loadKey() ([]key, error) {
	content, err := readSmall(c.KeyFile)
	if err != nil {
		return nil, err
	}
	if c.Algorithm == HS256 {
		secret := bytes.TrimSpace(content)
		if bytes.HasPrefix(secret, []byte("-----BEGIN")) {
			return nil, errors.New("a PEM file is no secret: whoever knows the public key could sign")
		}
		if len(secret) < SecretBytesMin {
			return nil, fmt.Errorf("a secret of %d bytes, at least %d are needed", len(secret), SecretBytesMin)
		}
		return []key{{value: secret}}, unreadableByOthers(c.KeyFile)
	}
	public, err := parsePublic(content)
	if err != nil {
		return nil, err
	}
	if err := c.fits(public); err != nil {
		return nil, err
	}
	return []key{{value: public}}, nil
}

// readSmall reads a file of at most keyFileBytesMax bytes.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, keyFileBytesMax+1))
	if err == nil && len(content) > keyFileBytesMax {
		err = fmt.Errorf("larger than %d bytes", keyFileBytesMax)
	}
	return content, err
}

func unreadableByOthers(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o007 != 0 {
		return fmt.Errorf("it holds a secret and may be read by everybody (mode %#o): chmod o= it, or better make a new one", mode)
	}
	return nil
}

// parsePublic reads a public key, or that of a certificate.
func parsePublic(content []byte) (crypto.PublicKey, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY":
		return nil, errors.New("a private key: give its public half, and keep this one with the provider")
	}
	return nil, fmt.Errorf("a PEM block of type %q, want PUBLIC KEY or CERTIFICATE", block.Type)
}

// fits checks the kind and the strength of a key.
func (c *Config) fits(public any) error {
	switch k := public.(type) {
	case *rsa.PublicKey:
		if c.Algorithm == RS256 && k.N.BitLen() >= rsaBitsMin {
			return nil
		}
		if c.Algorithm == RS256 {
			return fmt.Errorf("an RSA key of %d bits, at least %d are needed", k.N.BitLen(), rsaBitsMin)
		}
	case ed25519.PublicKey:
		if c.Algorithm == EdDSA {
			return nil
		}
	case []byte:
		if c.Algorithm == HS256 && len(k) >= SecretBytesMin {
			return nil
		}
		if c.Algorithm == HS256 {
			return fmt.Errorf("a secret of %d bytes, at least %d are needed", len(k), SecretBytesMin)
		}
	}
	return fmt.Errorf("a key of type %T is not for %s", public, c.Algorithm)
}

// jwk is one entry of a JSON Web Key Set.
type jwk struct {
	Kty string `json:"kty"`
	Kid string `json:"kid"`
	Use string `json:"use"`
	Alg string `json:"alg"`
	Crv string `json:"crv"`
	N   string `json:"n"`
	E   string `json:"e"`
	X   string `json:"x"`
	K   string `json:"k"`
	D   string `json:"d"` // private: must not be there
}

// ktyOf is the type of key that an algorithm takes.
var ktyOf = map[string]string{HS256: "oct", RS256: "RSA", EdDSA: "OKP"}

// loadSet reads a JSON Web Key Set. Keys for other purposes and of other algorithms are passed over; one that ought to fit and
// does not is an error.
func (c *Config) loadSet() ([]key, error) {
	content, err := readSmall(c.JWKSFile)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(content, &set); err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	if len(set.Keys) > keysMax {
		return nil, fmt.Errorf("%d keys, at most %d", len(set.Keys), keysMax)
	}
	var keys []key
	for i := range set.Keys {
		k := &set.Keys[i]
		if k.Kty != ktyOf[c.Algorithm] || (k.Use != "" && k.Use != "sig") || (k.Alg != "" && k.Alg != c.Algorithm) || (k.Kty == "OKP" && k.Crv != "Ed25519") {
			continue
		}
		value, err := k.value()
		if err == nil {
			err = c.fits(value)
		}
		if err != nil {
			return nil, fmt.Errorf("key %d (kid %q): %w", i+1, k.Kid, err)
		}
		keys = append(keys, key{k.Kid, value})
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("none of its %d keys is for %s signatures", len(set.Keys), c.Algorithm)
	}
	if c.Algorithm == HS256 {
		return keys, unreadableByOthers(c.JWKSFile)
	}
	return keys, nil
}

// value decodes the key.
func (k *jwk) value() (any, error) {
	if k.D != "" {
		return nil, errors.New("a private key: give its public half, and keep this one with the provider")
	}
	decode := func(name, text string) ([]byte, error) {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || len(b) == 0 {
			return nil, fmt.Errorf("%s is missing or not base64url", name)
		}
		return b, nil
	}
	switch k.Kty {
	case "oct":
		return decode("k", k.K)
	case "OKP":
		x, err := decode("x", k.X)
		if err == nil && len(x) != ed25519.PublicKeySize {
			err = fmt.Errorf("x has %d bytes, want %d", len(x), ed25519.PublicKeySize)
		}
		return ed25519.PublicKey(x), err
	}
	n, err := decode("n", k.N)
	if err != nil {
		return nil, err
	}
	e, err := decode("e", k.E)
	if err != nil || len(e) > 4 {
		return nil, errors.New("e is missing or no exponent")
	}
	exponent := int(new(big.Int).SetBytes(e).Int64())
	if exponent < 3 || exponent%2 == 0 {
		return nil, fmt.Errorf("exponent %d", exponent)
	}
	return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: exponent}, nil
}
