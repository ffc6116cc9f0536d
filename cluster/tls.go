package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
)

// TLS says who belongs to the cluster: whoever has a certificate for Name from the authority. Both ends of a connection show
// theirs. The certificate's files are read at every handshake, so that replaced ones need no restart; the authority's once.
type TLS struct {
	CertFile, KeyFile, CAFile string
	Name                      string // a DNS name that every node's certificate is for

	pool *x509.CertPool
}

// LoadTLS reads the files once, so that what is wrong with them is said at start.
func LoadTLS(certFile, keyFile, caFile, name string) (*TLS, error) {
	t := &TLS{CertFile: certFile, KeyFile: keyFile, CAFile: caFile, Name: name, pool: x509.NewCertPool()}
	authority, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("cluster: certificate authority: %w", err)
	}
	if !t.pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("cluster: %s holds no certificate in PEM", caFile)
	}
	pair, err := t.certificate()
	if err != nil {
		return nil, fmt.Errorf("cluster: certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("cluster: %s: %w", certFile, err)
	}
	if err := t.check([]*x509.Certificate{leaf}); err != nil {
		return nil, fmt.Errorf("cluster: the node's own certificate would be refused by the others: %w", err)
	}
	return t, nil
}

func (t *TLS) certificate() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	return &pair, err
}

// check returns why a certificate does not belong to the cluster. The name is checked on both sides: the authority may have
// signed for others too.
func (t *TLS) check(chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		DNSName: t.Name, Roots: t.pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err
}

func (t *TLS) server() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: t.pool,
		GetCertificate:   func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.certificate() },
		VerifyConnection: func(s tls.ConnectionState) error { return t.check(s.PeerCertificates) },
	})
}

func (t *TLS) client() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: t.pool, ServerName: t.Name,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.certificate() },
	})
}

// countRefused counts handshakes that fail.
func (c *Cluster) countRefused(creds credentials.TransportCredentials) credentials.TransportCredentials {
	return &countedCredentials{creds, c}
}

type countedCredentials struct {
	credentials.TransportCredentials
	cluster *Cluster
}

// ServerHandshake implements credentials.TransportCredentials.
func (c *countedCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := c.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		c.cluster.stranger("handshake", fmt.Errorf("%v: %w", conn.RemoteAddr(), err))
	}
	return secured, info, err
}

// ClientHandshake implements credentials.TransportCredentials.
func (c *countedCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (c *countedCredentials) Clone() credentials.TransportCredentials {
	return &countedCredentials{c.TransportCredentials.Clone(), c.cluster}
}

// ReadKeys reads gossip keys from a file: one a line, in base64 or hexadecimal, the first for sending. Empty lines and those
// that begin with # are passed over.
func ReadKeys(file string) ([][]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cluster: gossip keys: %w", err)
	}
	var keys [][]byte
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := hex.DecodeString(line)
		if err != nil {
			key, err = base64.StdEncoding.DecodeString(line)
		}
		if err != nil || len(key) != 16 && len(key) != 24 && len(key) != 32 {
			return nil, fmt.Errorf("cluster: %s, line %d: not 16, 24 or 32 bytes in base64 or hexadecimal", file, i+1)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("cluster: %s holds no gossip key", file)
	}
	return keys, nil
}
