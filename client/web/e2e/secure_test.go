package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPageOverTLS runs secure.test.mjs against a server that speaks TLS itself.
func TestPageOverTLS(t *testing.T) {
	node := program(t, "Node.js", "node")
	chromium := os.Getenv("PLACED_CHROMIUM")
	if chromium == "" {
		chromium = program(t, "Chromium", "chromium", "chromium-browser", "google-chrome")
	}
	s := startServer(t, 0)
	if err := s.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	cert, key := certificate(t)
	s.args = append(s.args, "--tls-cert", cert, "--tls-key", key)
	s.url = "https" + strings.TrimPrefix(s.url, "http")
	if err := s.start(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "--test", "--test-reporter=spec", "secure.test.mjs")
	cmd.Env = append(os.Environ(), "PLACED_URL="+s.url, "PLACED_CHROMIUM="+chromium)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the page failed: %v\n%s", err, out)
	}
	if !regexp.MustCompile(`(?m)^. pass [1-9]\d*$`).Match(out) || !regexp.MustCompile(`(?m)^. skipped 0$`).Match(out) {
		t.Fatalf("not every check ran:\n%s", out)
	}
}

// certificate writes a self-signed certificate of 127.0.0.1.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
