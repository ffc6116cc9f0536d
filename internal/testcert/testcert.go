// Package testcert makes certificates for tests.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Pair is a self-signed certificate of 127.0.0.1 and localhost, good from an hour ago for a day to come, with its private key.
type Pair struct {
	CertFile, KeyFile string // paths of cert.pem and key.pem, see Write
	CertPEM, KeyPEM   []byte
}

// New makes a pair whose files belong into dir. Nothing is written.
func New(t testing.TB, dir string, serial int64) Pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "placed test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{
		CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
}

// Written makes a pair and writes its files into dir.
func Written(t testing.TB, dir string) Pair {
	t.Helper()
	p := New(t, dir, 1)
	for path, content := range map[string][]byte{p.CertFile: p.CertPEM, p.KeyFile: p.KeyPEM} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Trust is the configuration of a client that trusts the certificate, and no other.
func (p Pair) Trust() *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.CertPEM)
	return &tls.Config{RootCAs: pool}
}
