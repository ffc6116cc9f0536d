package e2e

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/placed-board/placed/internal/testcert"
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
	pair := testcert.Written(t, t.TempDir())
	s.args = append(s.args, "--tls-cert", pair.CertFile, "--tls-key", pair.KeyFile)
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
