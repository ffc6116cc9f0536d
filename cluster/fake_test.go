package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// testNode is a node of a test with what it has received.
type testNode struct {
	*Cluster
	registry *prometheus.Registry

	mu       sync.Mutex // guards received
	received []string   // "from payload"
}

func testConfig() Config {
	c := DefaultConfig()
	c.GossipListen, c.RemoteListen, c.Board, c.Protocol = "127.0.0.1:0", "127.0.0.1:0", "board-1", 1
	c.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	c.RejoinEvery = 100 * time.Millisecond
	return c
}

// tryNode starts a node; change changes its settings first.
func tryNode(t testing.TB, change func(*Config)) (*testNode, error) {
	t.Helper()
	n := &testNode{registry: prometheus.NewRegistry()}
	c := testConfig()
	c.Incarnation, c.Metrics = uint64(time.Now().UnixNano()), n.registry
	c.Receive = func(from string, payload []byte) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.received = append(n.received, from+" "+string(payload))
	}
	if change != nil {
		change(&c)
	}
	var err error
	n.Cluster, err = Start(context.Background(), c)
	if err == nil {
		t.Cleanup(func() {
			if n.ctx.Err() == nil {
				n.close()
			}
		})
	}
	return n, err
}

// startNode starts a node that serves and joins the gossip addresses.
func startNode(t testing.TB, join ...string) *testNode {
	t.Helper()
	return startWith(t, func(c *Config) { c.Join = join })
}

func startWith(t testing.TB, change func(*Config)) *testNode {
	t.Helper()
	n, err := tryNode(t, change)
	if err != nil {
		t.Fatal(err)
	}
	n.SetState(context.Background(), Serving)
	return n
}

func (n *testNode) got(message string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.received, message)
}

// counted returns the value of a counter, or of one label value of it.
func (n *testNode) counted(t testing.TB, name, label string) float64 {
	t.Helper()
	families, err := n.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return value(m)
			}
		}
	}
	t.Fatalf("no metric %s %s", name, label)
	return 0
}

func value(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }

// eventually waits until something holds, for as long as a loaded machine may need.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-tick.C
	}
}

// see waits until every node sees exactly the nodes serve.
func see(t testing.TB, nodes ...*testNode) {
	t.Helper()
	eventually(t, "everybody to see everybody", func() bool {
		for _, n := range nodes {
			v := n.View()
			if len(v.Members) != len(nodes) {
				return false
			}
			for _, other := range nodes {
				if m := v.Member(other.Address()); m == nil || m.State != Serving {
					return false
				}
			}
		}
		return true
	})
}

// exchange waits until each node has got a message of each other one.
func exchange(t testing.TB, nodes ...*testNode) {
	t.Helper()
	for _, from := range nodes {
		for _, to := range nodes {
			if from == to {
				continue
			}
			eventually(t, "a message", func() bool {
				from.Send(to.Address(), []byte("hello"))
				return to.got(from.Address() + " hello")
			})
		}
	}
}

// authority signs certificates.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key = a.sign("ca", template, nil, nil)
	return a
}

func (a *authority) sign(file string, template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{file + ".pem": {Type: "CERTIFICATE", Bytes: der}, file + ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// load signs a certificate for a DNS name and loads it as a node would.
func (a *authority) load(name string) (*TLS, error) {
	a.sign(name, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	path := func(file string) string { return filepath.Join(a.dir, file) }
	return LoadTLS(path(name+".pem"), path(name+".key"), path("ca.pem"), "placed")
}
