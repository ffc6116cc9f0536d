package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Bounds of waiting for the server.
const (
	readyTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
)

// server is one placed process after another on the same addresses and data.
type server struct {
	program string
	args    []string
	url     string
	admin   string
	data    string
	mu      sync.Mutex // guards cmd and log
	cmd     *exec.Cmd
	log     *lockedBuffer
}

// lockedBuffer keeps what processes print.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startServer builds cmd/placed and runs it on loopback with an empty board and the given cooldown, until the test ends.
func startServer(t *testing.T, cooldown time.Duration) *server {
	t.Helper()
	return startServerOn(t, cooldown, nil)
}

// startServerOn does the same on a board that prepare makes of an empty data folder, with the built program at hand; nil for an
// empty board.
func startServerOn(t *testing.T, cooldown time.Duration, prepare func(program, data string)) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{program: filepath.Join(dir, "placed"), data: filepath.Join(dir, "data"), log: &lockedBuffer{}}
	if runtime.GOOS == "windows" {
		s.program += ".exe"
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", s.program, "./cmd/placed")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build cmd/placed: %v\n%s", err, out)
	}
	if prepare != nil {
		prepare(s.program, s.data)
	}
	listen, admin := freeAddress(t), freeAddress(t)
	s.url, s.admin = "http://"+listen, "http://"+admin
	s.args = []string{"--listen", listen, "--admin-listen", admin, "--data-dir", s.data, "--cooldown", cooldown.String()}
	if err := s.start(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	t.Cleanup(func() {
		if err := s.stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the server said:\n%s", s.log)
		}
	})
	return s
}

// freeAddress returns a loopback address that nobody listens on at the moment.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start runs the server and waits until it is ready.
func (s *server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = exec.Command(s.program, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.ready(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server was not ready within %v", readyTimeout)
		case <-tick.C:
		}
	}
}

// readyClient takes any certificate: it asks nothing that matters.
var readyClient = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

func (s *server) ready(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := readyClient.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// stop ends the process with a signal and waits for its end.
func (s *server) stop(signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	cmd := s.cmd
	s.cmd = nil
	if err := cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if signal == syscall.SIGTERM && err != nil {
			return fmt.Errorf("the server ended badly: %w", err)
		}
		return nil
	case <-time.After(stopTimeout):
		cmd.Process.Kill()
		<-ended
		return fmt.Errorf("the server did not stop within %v", stopTimeout)
	}
}

// adminToken returns the operators' token that the server made at its first start.
func (s *server) adminToken(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.data, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// control lets the script stop and start the server: POST /stop, /kill and /start answer when it is done.
func (s *server) control(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(do func(context.Context) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := do(r.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}
	}
	mux.HandleFunc("POST /stop", answer(func(context.Context) error { return s.stop(syscall.SIGTERM) }))
	mux.HandleFunc("POST /kill", answer(func(context.Context) error { return s.stop(syscall.SIGKILL) }))
	mux.HandleFunc("POST /start", answer(s.start))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go h.Serve(l)
	t.Cleanup(func() { h.Close() })
	return "http://" + l.Addr().String()
}
