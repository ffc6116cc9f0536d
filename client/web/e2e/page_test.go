package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

const (
	cooldown      = 6 * time.Second
	scriptTimeout = 3 * time.Minute
)

// TestPageInChromium runs people.test.mjs and page.test.mjs, one after the other: see there for what they check.
func TestPageInChromium(t *testing.T) {
	s := startServer(t, cooldown)
	for _, script := range []string{"people.test.mjs", "page.test.mjs"} {
		runScript(t, s, script, t.ArtifactDir())
	}
}

// TestInvitesInChromium runs invite.test.mjs against a server that people need an invite for.
func TestInvitesInChromium(t *testing.T) {
	s := startServer(t, cooldown)
	if err := s.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.args = append(s.args, "--auth", "invite")
	if err := s.start(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	runScript(t, s, "invite.test.mjs", t.ArtifactDir())
}

// runScript has node run one of the scripts, which steers Chromium against the server; every check in it must run and pass.
// Screenshots go to the folder artifacts.
func runScript(t *testing.T, s *server, script, artifacts string) {
	t.Helper()
	node := program(t, "Node.js", "node")
	chromium := os.Getenv("PLACED_CHROMIUM")
	if chromium == "" {
		chromium = program(t, "Chromium", "chromium", "chromium-browser", "google-chrome")
	}
	if _, err := os.Stat(filepath.Join("..", "node_modules", "playwright-core", "package.json")); err != nil {
		t.Fatalf("playwright-core is needed and not installed (%v): run `make deps`, or `npm ci` in client/web", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "--test", "--test-reporter=spec", script)
	cmd.Env = append(os.Environ(),
		"PLACED_URL="+s.url, "PLACED_ADMIN_URL="+s.admin, "PLACED_ADMIN_TOKEN="+s.adminToken(t), "PLACED_CONTROL_URL="+s.control(t),
		"PLACED_CHROMIUM="+chromium, "PLACED_ARTIFACTS="+artifacts, "PLACED_COOLDOWN_MS="+"6000")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s failed: %v\n%s", script, err, out)
	}
	if !regexp.MustCompile(`(?m)^. pass [1-9]\d*$`).Match(out) || !regexp.MustCompile(`(?m)^. skipped 0$`).Match(out) {
		t.Fatalf("not every check ran:\n%s", out)
	}
	t.Logf("%s", out)
}

// program returns the path of the first of names that is installed.
func program(t *testing.T, what string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("%s is needed and not installed: run `make deps`", what)
	return ""
}
