package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/internal/testcert"
)

// TestTLSFromEndToEnd plays over TLS: the Go client signs in, mirrors the board and places a tile, which another one sees.
func TestTLSFromEndToEnd(t *testing.T) {
	pair := testcert.Written(t, t.TempDir())
	s := serve(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--width", "100", "--height", "100", "--tls-cert", pair.CertFile, "--tls-key", pair.KeyFile)
	ctx, cancel := context.WithTimeout(t.Context(), askWithin)
	defer cancel()
	dial := func(name string) *client.Session {
		t.Helper()
		session, err := client.Dial(ctx, s.board, client.Options{Name: name, Whole: true, Mirror: true, TLS: pair.Trust()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
		return session
	}
	ann, bob := dial("ann"), dial("bob")
	at := board.Point{X: 3, Y: 4}
	if outcome, err := ann.Place(ctx, at, 5); err != nil || outcome.Verdict == board.VerdictRefused {
		t.Fatalf("%+v %v", outcome, err)
	}
	await(t, "the other one to see it", func() bool { colour, known := bob.Tile(at); return known && colour == 5 })
	if _, err := client.Dial(ctx, s.board, client.Options{}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("one who does not trust the certificate: %v", err)
	}
}

// TestTLSFilesAreChecked: half of a pair, or files that are none, are told before anything is written.
func TestTLSFilesAreChecked(t *testing.T) {
	dir := t.TempDir()
	pair := testcert.Written(t, dir)
	cert, key := pair.CertFile, pair.KeyFile
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--tls-cert", cert}, 2, "both a certificate and a key"},
		{[]string{"--tls-key", key}, 2, "both a certificate and a key"},
		{[]string{"--tls-cert", key, "--tls-key", cert}, 1, "cert.pem"},
		{[]string{"--tls-cert", filepath.Join(dir, "none.pem"), "--tls-key", key}, 1, "none.pem"},
	} {
		r := callLine(t.Context(), append([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data")}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%v: code %d, %s", c.args, r.code, r.stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("something was written")
	}
}

// TestJWTFlags: half of what an identity provider needs, secrets in the wrong place and keys that are none are told in one line.
func TestJWTFlags(t *testing.T) {
	dir := t.TempDir()
	pair := testcert.Written(t, dir)
	cert, key := pair.CertFile, pair.KeyFile
	whole := []string{"--auth", "jwt", "--jwt-issuer", "i", "--jwt-audience", "a"}
	for _, c := range []struct {
		args   []string
		secret string
		code   int
		says   string
	}{
		{[]string{"--auth", "jwt"}, "", 2, "issuer"},
		{[]string{"--auth", "magic"}, "", 2, "--auth"},
		{append([]string{"--jwt-alg", "none"}, whole...), "", 2, "--jwt-alg"},
		{append([]string{"--jwt-alg", "HS256"}, whole...), "", 2, "exactly one of"},
		{append([]string{"--jwt-alg", "HS256"}, whole...), "short", 2, "at least 32"},
		{append([]string{"--jwt-alg", "RS256"}, whole...), "a secret of at least thirty-two bytes", 2, "public key"},
		{append([]string{"--jwt-alg", "EdDSA", "--jwt-key-file", filepath.Join(dir, "none.pem")}, whole...), "", 1, "none.pem"},
		{append([]string{"--jwt-alg", "EdDSA", "--jwt-key-file", key}, whole...), "", 1, "private"},
		{append([]string{"--jwt-alg", "RS256", "--jwt-key-file", cert}, whole...), "", 1, "RS256"},
		{[]string{"--jwt-issuer", "i"}, "", 2, "--auth=jwt"},
		{[]string{"--auth", "proxy"}, "", 2, "--trusted-proxies"},
		{[]string{"--auth", "proxy", "--trusted-proxies", "10.0.0.1", "--auth-header", "a b"}, "", 2, "header"},
	} {
		t.Setenv("PLACED_JWT_SECRET", c.secret)
		r := callLine(t.Context(), append([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data")}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.says) || !oneLineOnly(r.stderr) || (c.secret != "" && strings.Contains(r.stderr, c.secret)) {
			t.Errorf("%v: code %d, %s", c.args, r.code, r.stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("something was written")
	}
}

// TestJWTFromEndToEnd signs in with a token of a provider, by the Go client, and places; another key's token gets nowhere.
func TestJWTFromEndToEnd(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(t.TempDir(), "provider.pem")
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--width", "100", "--height", "100", "--store", "mem", "--auth", "jwt",
		"--jwt-alg", "EdDSA", "--jwt-key-file", keyFile, "--jwt-issuer", "https://login.example.org", "--jwt-audience", "placed", "--jwt-claim", "preferred_username")
	token := func(key ed25519.PrivateKey) string {
		text, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
			"iss": "https://login.example.org", "aud": []string{"placed"}, "preferred_username": "ada", "exp": time.Now().Add(time.Hour).Unix(),
		}).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	ctx, cancel := context.WithTimeout(t.Context(), askWithin)
	defer cancel()
	session, err := client.Dial(ctx, s.board, client.Options{Token: token(private), Whole: true, Mirror: true})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if outcome, err := session.Place(ctx, board.Point{X: 1, Y: 2}, 3); err != nil || outcome.Verdict == board.VerdictRefused || session.User() != "ada" {
		t.Errorf("%q: %+v %v", session.User(), outcome, err)
	}
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Dial(ctx, s.board, client.Options{Token: token(stranger)}); err == nil || !strings.Contains(err.Error(), "identity provider") {
		t.Errorf("a stranger's token: %v", err)
	}
}
