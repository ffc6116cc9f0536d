// Package deploy holds what placed is run with: container, compose and unit files, alert rules and a dashboard. Its tests hold
// them against the program: every metric, flag and variable that they name exists, every alert has a page.
package deploy

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/cluster"
)

// Bounds of the process that is asked.
const (
	programWithin = 2 * time.Minute // to build it, on a busy machine
	readyWithin   = 30 * time.Second
	token         = "0123456789abcdef0123456789abcdef"
)

// scratch is where the program is built.
var scratch string

// program builds placed once for all tests.
var program = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), programWithin)
	defer cancel()
	path := filepath.Join(scratch, "placed")
	command := exec.CommandContext(ctx, "go", "build", "-o", path, "../cmd/placed")
	command.Stderr = os.Stderr
	return path, command.Run()
})

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "placed-deploy"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

func built(t *testing.T) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var printedURL = regexp.MustCompile(`operators\s+(http://\S+)`)

// metricsOfANode returns the names of all metrics on a real node's /metrics, and of a member of a cluster.
func metricsOfANode(t *testing.T) map[string]bool {
	t.Helper()
	command := exec.Command(built(t), "serve", "--store", "mem", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", t.TempDir())
	command.Env = append(os.Environ(), "PLACED_ADMIN_TOKEN="+token)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(readyWithin, func() { _ = command.Process.Kill() }) // then the reads below end
	defer func() {
		limit.Stop()
		_ = command.Process.Kill()
		_ = command.Wait()
	}()
	var printed string
	for buffer := make([]byte, 4096); !printedURL.MatchString(printed); {
		n, err := output.Read(buffer)
		if printed += string(buffer[:n]); err != nil {
			t.Fatalf("placed did not print its addresses: %v\n%s", err, printed)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, printedURL.FindStringSubmatch(printed)[1]+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: %s, %v", response.Status, err)
	}
	names := map[string]bool{"up": true, "ALERTS": true} // Prometheus makes these itself
	for _, line := range regexp.MustCompile(`(?m)^([a-z0-9_]+)[{ ]`).FindAllStringSubmatch(string(text), -1) {
		names[line[1]] = true
	}
	clusterMetrics(t, names)
	return names
}

// clusterMetrics adds the metrics of a member: a board in memory joins nobody, so its node has none of them.
func clusterMetrics(t *testing.T, names map[string]bool) {
	t.Helper()
	registry := prometheus.NewRegistry()
	config := cluster.DefaultConfig()
	config.GossipListen, config.RemoteListen, config.Board, config.Incarnation = "127.0.0.1:0", "127.0.0.1:0", "deploy", 1
	config.Protocol, config.Logger = 1, slog.New(slog.DiscardHandler)
	config.Metrics, config.Receive = registry, func(string, []byte) {}
	c, err := cluster.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Leave()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		names[f.GetName()] = true
	}
}

var (
	metricName = regexp.MustCompile(`\b(?:placed|process|go)_[a-z0-9_]+\b`)
	quoted     = regexp.MustCompile(`"[^"]*"`)
)

// TestMetricsExist: a node has every metric that rules and dashboard ask for.
func TestMetricsExist(t *testing.T) {
	have := metricsOfANode(t)
	seen := 0
	for what, expressions := range map[string][]string{"alerts": ruleExpressions(t), "dashboard": dashboardExpressions(t)} {
		for _, e := range expressions {
			for _, name := range metricName.FindAllString(quoted.ReplaceAllString(e, ""), -1) {
				seen++
				if !have[name] {
					t.Errorf("%s: a node has no metric %s: %s", what, name, e)
				}
			}
		}
	}
	if seen < 60 || have["placed_nobody"] {
		t.Errorf("only %d metrics were looked up", seen)
	}
}

// help is what placed serve says of its flags and variables.
func help(t *testing.T) string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), built(t), "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return string(text)
}

// fromEnvironment are the secrets, which no flag gives.
var fromEnvironment = []string{"PLACED_SESSION_KEY", "PLACED_ADMIN_TOKEN", "PLACED_JWT_SECRET"}

// TestFlagsExist: placed serve knows every flag and variable of the container, compose and unit files.
func TestFlagsExist(t *testing.T) {
	text := help(t)
	flag := regexp.MustCompile(`--[a-z0-9-]+`)
	known := flag.FindAllString(text, -1)
	variables := append(regexp.MustCompile(`PLACED_[A-Z0-9_]+`).FindAllString(text, -1), fromEnvironment...)
	serving := regexp.MustCompile(`(?m)(?:\[serve|placed serve)[^\]\n]*`)
	seen := 0
	for _, path := range []string{"../Dockerfile", "compose.yaml", "systemd/placed.service", "secrets"} {
		file := read(t, path)
		for _, line := range serving.FindAllString(file, -1) {
			for _, f := range flag.FindAllString(line, -1) {
				seen++
				if !slices.Contains(known, f) {
					t.Errorf("%s: placed serve has no flag %s", path, f)
				}
			}
		}
		for _, v := range regexp.MustCompile(`\bPLACED_[A-Z0-9_]+`).FindAllString(file, -1) {
			seen++
			if !slices.Contains(variables, v) {
				t.Errorf("%s: placed reads no variable %s", path, v)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d flags and variables were looked up", seen)
	}
}

// TestContainer: the binary is static, runs under another user than root, and is asked at /livez.
func TestContainer(t *testing.T) {
	file := read(t, "../Dockerfile")
	for _, words := range []string{"CGO_ENABLED=0", "\nUSER 10001", "HEALTHCHECK", "/livez", "./cmd/placed"} {
		if !strings.Contains(file, words) {
			t.Errorf("the Dockerfile lacks %q", words)
		}
	}
	stages := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(file, -1)
	if len(stages) != 2 {
		t.Errorf("%d stages", len(stages))
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))[1]
	if stages[0][1] != "golang:"+version+"-alpine" {
		t.Errorf("built by %s, go.mod wants %s", stages[0][1], version)
	}
}
