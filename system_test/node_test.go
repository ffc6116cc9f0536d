//go:build unix

package system_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

// Bounds of a node's life on a busy machine.
const (
	readyWithin = 30 * time.Second
	stopWithin  = 15 * time.Second
	ctlWithin   = 30 * time.Second
)

// node is one placed process after another on the same data directory and the same ports.
type node struct {
	t      testing.TB
	binary string
	dir    string // data directory
	flags  []string
	env    []string

	url, adminURL string
	cmd           *exec.Cmd
	ended         chan struct{} // closed when the process is gone
	stdout        *output
	stderr        *output
	readyAfter    time.Duration
}

// output collects what a process prints.
type output struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// newNode returns a node that is not running yet. flags are those of placed serve, beyond addresses and data directory.
func newNode(t testing.TB, flags ...string) *node {
	t.Helper()
	n := &node{t: t, binary: placed(), dir: filepath.Join(t.TempDir(), "data"), flags: flags}
	n.url, n.adminURL = "http://"+freeAddress(t), "http://"+freeAddress(t)
	t.Cleanup(func() {
		if n.running() {
			n.kill()
		}
		if t.Failed() && n.stderr != nil {
			t.Logf("the last words of the node:\n%s", tail(n.stderr.String(), 4000))
		}
	})
	return n
}

// startNode returns a node that serves.
func startNode(t testing.TB, flags ...string) *node {
	t.Helper()
	n := newNode(t, flags...)
	n.start()
	return n
}

// freeAddress returns a loopback address below the ports that the kernel gives to clients, so that it stays free while
// its node is down.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20_000+rand.IntN(12_000)))
		l, err := net.Listen("tcp", address)
		if err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

func hostOf(url string) string { return strings.TrimPrefix(url, "http://") }

// launch starts the process and returns at once.
func (n *node) launch() {
	n.t.Helper()
	args := append([]string{"serve", "--listen", hostOf(n.url), "--admin-listen", hostOf(n.adminURL), "--data-dir", n.dir}, n.flags...)
	n.cmd = exec.Command(n.binary, args...)
	n.cmd.Env = append(os.Environ(), n.env...)
	n.cmd.SysProcAttr = childAttributes()
	n.stdout, n.stderr = &output{}, &output{}
	n.cmd.Stdout, n.cmd.Stderr = n.stdout, n.stderr
	if err := n.cmd.Start(); err != nil {
		n.t.Fatalf("start placed: %v", err)
	}
	ended := make(chan struct{})
	n.ended = ended
	go func() {
		_ = n.cmd.Wait() // the state is asked for where it matters
		close(ended)
	}()
}

// start starts the process and returns when it is ready.
func (n *node) start() {
	n.t.Helper()
	begin := time.Now()
	n.launch()
	n.awaitReady()
	n.readyAfter = time.Since(begin)
}

func (n *node) awaitReady() {
	n.t.Helper()
	eventually(n.t, readyWithin, "the node to be ready", func() bool {
		if !n.running() {
			n.t.Fatalf("placed ended (%v) before it was ready:\n%s", n.cmd.ProcessState, n.stderr.String())
		}
		return n.isReady()
	})
}

func (n *node) isReady() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+"/readyz", nil)
	if err != nil {
		n.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (n *node) running() bool {
	if n.ended == nil {
		return false
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal to the process.
func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.t.Errorf("signal %v: %v", s, err)
	}
}

// awaitEnd waits until the process is gone and returns its exit code, -1 when a signal ended it.
func (n *node) awaitEnd(within time.Duration) int {
	n.t.Helper()
	select {
	case <-n.ended:
	case <-time.After(within):
		n.signal(syscall.SIGQUIT) // prints where it hangs
		select {
		case <-n.ended:
		case <-time.After(5 * time.Second):
			n.signal(syscall.SIGKILL)
		}
		n.t.Fatalf("placed did not end within %v:\n%s", within, tail(n.stderr.String(), 20_000))
	}
	return n.cmd.ProcessState.ExitCode()
}

// kill is kill -9.
func (n *node) kill() {
	n.t.Helper()
	n.signal(syscall.SIGKILL)
	<-n.ended
}

// stop is SIGTERM; the process has to end by itself and in peace.
func (n *node) stop() {
	n.t.Helper()
	n.signal(syscall.SIGTERM)
	if code := n.awaitEnd(stopWithin); code != 0 {
		n.t.Errorf("placed ended with code %d after SIGTERM:\n%s", code, tail(n.stderr.String(), 4000))
	}
}

// token returns the operators' token.
func (n *node) token() string {
	n.t.Helper()
	b, err := os.ReadFile(filepath.Join(n.dir, "admin-token"))
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// tryCtl runs placed ctl and returns what it prints, and its exit code.
func (n *node) tryCtl(args ...string) (stdout, stderr string, code int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ctlWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.binary, append([]string{"ctl", "--admin", n.adminURL, "--data-dir", n.dir}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok && err != nil {
		n.t.Fatalf("placed ctl %s: %v", strings.Join(args, " "), err)
	} else if ok {
		code = exit.ExitCode()
	}
	return out.String(), errs.String(), code
}

// ctl runs placed ctl -o json, which has to succeed, and decodes its answer into answer unless that is nil.
func (n *node) ctl(answer any, args ...string) {
	n.t.Helper()
	stdout, stderr, code := n.tryCtl(append([]string{"-o", "json"}, args...)...)
	if code != 0 {
		n.t.Fatalf("placed ctl %s: code %d\n%s%s", strings.Join(args, " "), code, stderr, stdout)
	}
	if answer == nil {
		answer = new(any)
	}
	if err := json.Unmarshal([]byte(stdout), answer); err != nil {
		n.t.Fatalf("placed ctl %s: %v in %q", strings.Join(args, " "), err, stdout)
	}
}

// set changes settings by ctl and returns the new version.
func (n *node) set(args ...string) board.SettingsRecord {
	n.t.Helper()
	var record board.SettingsRecord
	n.ctl(&record, append([]string{"settings", "set", "--why", "system test"}, args...)...)
	return record
}

func (n *node) settings() board.SettingsRecord {
	n.t.Helper()
	var record board.SettingsRecord
	n.ctl(&record, "settings", "get")
	return record
}

func (n *node) status() board.Status {
	n.t.Helper()
	status, err := n.admin().Status(n.t.Context())
	if err != nil {
		n.t.Fatalf("status: %v", err)
	}
	return status
}

func (n *node) admin() *client.Admin {
	return &client.Admin{URL: n.adminURL, Token: n.token(), By: "system-test"}
}

func (n *node) api() *client.API { return &client.API{URL: n.url} }

// verify is placed ctl verify: it has to find nothing.
func (n *node) verify() board.VerifyReport {
	n.t.Helper()
	stdout, stderr, code := n.tryCtl("-o", "json", "verify")
	var report board.VerifyReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		n.t.Fatalf("ctl verify: %v, code %d\n%s%s", err, code, stderr, stdout)
	}
	if code != 0 || report.Count != 0 {
		n.t.Errorf("ctl verify: code %d, %d violations: %v", code, report.Count, report.Violations)
	}
	return report
}

// metrics returns every series of /metrics on the operators' listener, by name with labels.
func (n *node) metrics() map[string]float64 {
	n.t.Helper()
	series := map[string]float64{}
	for line := range strings.Lines(string(n.adminGet("/metrics"))) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		space := strings.LastIndexByte(line, ' ') // labels may have spaces
		v, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			n.t.Fatalf("metrics: %q: %v", line, err)
		}
		series[line[:space]] = v
	}
	return series
}

func (n *node) adminGet(path string) []byte {
	n.t.Helper()
	request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, n.adminURL+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+n.token())
	answer := do(n.t, request)
	if answer.status != http.StatusOK {
		n.t.Fatalf("GET %s: %d %s", path, answer.status, answer.body)
	}
	return answer.body
}

// answer is a whole HTTP answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// problem returns the code of a problem+json body, "" for something else.
func (a *answer) problem() string {
	var p struct {
		Code string `json:"code"`
	}
	if a.header.Get("Content-Type") != "application/problem+json" || json.Unmarshal(a.body, &p) != nil {
		return ""
	}
	return p.Code
}

func do(t testing.TB, request *http.Request) *answer {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	return &answer{response.StatusCode, response.Header, body.Bytes()}
}

// eventually waits for a condition, within a bound.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	if why := awaitThat(within, func() string {
		if ok() {
			return ""
		}
		return "not yet"
	}); why != "" {
		t.Fatalf("waited %v for %s", within, what)
	}
}

// awaitThat asks until there is no reason left to wait, and returns the last one when the time is over.
func awaitThat(within time.Duration, reason func() string) string {
	end := time.Now().Add(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		why := reason()
		if why == "" || time.Now().After(end) {
			return why
		}
		<-tick.C
	}
}

func tail(text string, n int) string {
	if len(text) > n {
		return fmt.Sprintf("... (%d bytes)\n%s", len(text)-n, text[len(text)-n:])
	}
	return text
}
