package transport

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/testcert"
	"github.com/placed-board/placed/wire"
)

func writeFile(t testing.TB, path string, content []byte) {
	t.Helper()
	tmp := path + ".new"
	if err := os.WriteFile(tmp, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		t.Fatal(err)
	}
}

// startTLS is start with a certificate.
func startTLS(t *testing.T) (*harness, testcert.Pair) {
	t.Helper()
	p := testcert.Written(t, t.TempDir())
	h := start(t, func(cfg *Config) { cfg.CertFile, cfg.KeyFile = p.CertFile, p.KeyFile })
	h.url = "https" + strings.TrimPrefix(h.url, "http")
	return h, p
}

// serial returns the serial number of the certificate that the server shows; 0 when the handshake fails.
func (h *harness) serial() int64 {
	nc, err := tls.Dial("tcp", h.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return 0
	}
	defer nc.Close()
	return nc.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// TestSessionOverTLS opens sessions over wss: origin, cookie, messages both ways, a large answer, a close.
func TestSessionOverTLS(t *testing.T) {
	h, p := startTLS(t)
	d := websocket.Dialer{HandshakeTimeout: 10 * time.Second, Subprotocols: []string{Subprotocol}, TLSClientConfig: p.Trust()}
	host := h.Addr().String()
	header := map[string][]string{"Origin": {"https://" + host}, "Cookie": {CookieName + "=" + h.token("ann")}}
	ws, _, err := d.Dial("wss://"+host+"/api/v1/ws", header)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	if _, ok := next(t, ws).(*wire.Hello); !ok {
		t.Fatal("no hello")
	}
	send(t, ws, &wire.Place{Turn: 1, Nonce: 2, X: 3, Y: 4, Colour: 5})
	eventually(t, "the placement arrives", func() bool { received, _ := h.fake.state(); return received == 1 })
	h.fake.mu.Lock()
	user, conn := h.fake.users[1], h.fake.conns[1]
	h.fake.mu.Unlock()
	if user != "ann" {
		t.Errorf("the session is %q's", user)
	}
	detail := strings.Repeat("x", wire.NoticeDetailBytesMax)
	for i := range 20 {
		for conn.Send(wire.SealServer(&wire.Notice{Code: board.CodeRate, RetryMs: int64(i), Detail: detail})) == wire.WriteBusy {
		}
		if m, ok := next(t, ws).(*wire.Notice); !ok || m.RetryMs != int64(i) {
			t.Fatalf("message %d is %+v", i, m)
		}
	}
	if _, res, err := d.Dial("wss://"+host+"/api/v1/ws", map[string][]string{"Origin": {"https://evil.example"}}); err == nil || res.StatusCode != 403 {
		t.Errorf("a foreign origin: %v", err)
	}
	conn.Close(wire.CloseRestart, "")
	if code := closeCode(t, ws); code != wire.CloseRestart {
		t.Errorf("closed with %d", code)
	}
	if n := h.count("placed_tls_certificate_end_seconds"); n < float64(time.Now().Unix()) {
		t.Errorf("the certificate ends at %v", n)
	}
}

// TestPlainTalkToTLS speaks plain HTTP to the TLS listener, and an old TLS.
func TestPlainTalkToTLS(t *testing.T) {
	h, p := startTLS(t)
	res := h.do("GET", "http://"+h.Addr().String()+"/", "")
	if res.StatusCode != 400 || !strings.Contains(string(res.body), "HTTPS") {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	old := p.Trust()
	old.MaxVersion = tls.VersionTLS11
	if nc, err := tls.Dial("tcp", h.Addr().String(), old); err == nil {
		nc.Close()
		t.Error("TLS 1.1 is spoken")
	}
}

// TestCertificateReload replaces the certificate as renewals do, in every order and half written: somebody is always served,
// with the old pair until the new one is whole.
func TestCertificateReload(t *testing.T) {
	h, old := startTLS(t)
	if got := h.serial(); got != 1 {
		t.Fatalf("serial %d", got)
	}
	renewed := testcert.New(t, filepath.Dir(old.CertFile), 2)
	failures := func() float64 { return h.count("placed_reloads_failed_total", "what", reloadCertificate) }
	writeFile(t, old.CertFile, renewed.CertPEM[:len(renewed.CertPEM)/2])
	eventually(t, "half a certificate is noticed", func() bool { return h.serial() == 1 && failures() >= 1 })
	writeFile(t, old.CertFile, renewed.CertPEM)
	seen := failures()
	eventually(t, "a certificate without its key is noticed", func() bool { return h.serial() == 1 && failures() > seen })
	writeFile(t, old.KeyFile, renewed.KeyPEM)
	eventually(t, "the new pair is served", func() bool { return h.serial() == 2 })
	if n := h.count("placed_reloads_total", "what", reloadCertificate); n != 1 {
		t.Errorf("%v reloads", n)
	}
	if strings.Contains(h.logs.String(), "PRIVATE KEY") {
		t.Error("the key is logged")
	}
}

// TestNoCertificate starts with files that are missing, swapped or of different pairs.
func TestNoCertificate(t *testing.T) {
	a, b := testcert.Written(t, t.TempDir()), testcert.Written(t, t.TempDir())
	for name, files := range map[string][2]string{
		"missing": {a.CertFile + "x", a.KeyFile}, "swapped": {a.KeyFile, a.CertFile}, "of two pairs": {a.CertFile, b.KeyFile}, "no key": {a.CertFile, ""}, "no certificate": {"", a.KeyFile},
	} {
		cfg := testConfig()
		cfg.CertFile, cfg.KeyFile = files[0], files[1]
		if err := tryNew(cfg); err == nil {
			t.Errorf("%s: it starts", name)
		} else if path := files[0]; path != "" && files[1] != "" && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: the error does not name the file: %v", name, err)
		}
	}
}
