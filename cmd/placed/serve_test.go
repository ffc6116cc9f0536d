package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
)

// Bounds of a node in this process.
const (
	serveWithin = 30 * time.Second
	askWithin   = 10 * time.Second
)

// lockedBuffer is what a command prints, read while it runs.
type lockedBuffer struct {
	mu sync.Mutex // guards b
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

// serving is placed serve in this process.
type serving struct {
	t              *testing.T
	dir            string
	stdout, stderr lockedBuffer
	cancel         context.CancelFunc
	code           chan int
	board, admin   string // URLs, as printed
}

var printedURL = regexp.MustCompile(`https?://[^\s]+`)

// serve starts placed with the arguments and returns when it has printed its addresses and is ready.
func serve(t *testing.T, args ...string) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &serving{t: t, dir: filepath.Join(t.TempDir(), "data"), cancel: cancel, code: make(chan int, 1)}
	if dir := os.Getenv("PLACED_DATA_DIR"); dir != "" {
		s.dir = dir
	} else {
		args = append(args, "--data-dir", s.dir)
	}
	go func() { s.code <- run(ctx, args, &s.stdout, &s.stderr) }()
	t.Cleanup(func() { s.stop() })
	await(t, "placed to be ready", func() bool {
		select {
		case code := <-s.code:
			s.code <- code
			t.Fatalf("placed ended with code %d: %s", code, s.stderr.String())
		default:
		}
		urls := printedURL.FindAllString(s.stdout.String(), -1)
		if len(urls) < 2 {
			return false
		}
		s.board, s.admin = urls[0], urls[len(urls)-1]
		return status(s.board+"/readyz") == http.StatusOK
	})
	return s
}

// stop ends placed as a signal does, and returns its exit code.
func (s *serving) stop() int {
	s.t.Helper()
	s.cancel()
	select {
	case code := <-s.code:
		s.code <- code
		return code
	case <-time.After(serveWithin):
		s.t.Fatalf("placed did not stop within %v: %s", serveWithin, s.stderr.String())
		return -1
	}
}

// ctl runs placed ctl against it.
func (s *serving) ctl(args ...string) result {
	return callLine(s.t.Context(), append([]string{"ctl", "--admin", s.admin, "--data-dir", s.dir}, args...)...)
}

// statusClient takes any certificate: it asks nothing that matters.
var statusClient = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

func status(url string) int {
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	response, err := statusClient.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(serveWithin)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", serveWithin, what)
		}
		<-tick.C
	}
}

// TestServeOnLoopback: a start prints where to go, all of which works, and how to let others in; its secrets are nobody
// else's to read; a stop ends it with code 0.
func TestServeOnLoopback(t *testing.T) {
	s := serve(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--width", "300", "--cooldown", "90s")
	out := s.stdout.String()
	for _, words := range []string{"300x1000", "1m30s", s.dir, "admin-token", "--listen :"} {
		if !strings.Contains(out, words) {
			t.Errorf("the start does not speak of %q:\n%s", words, out)
		}
	}
	if strings.Contains(s.stderr.String(), "WARN") {
		t.Errorf("a board on loopback warns: %s", s.stderr.String())
	}
	for _, url := range printedURL.FindAllString(out, -1) {
		if code := status(url); code != http.StatusOK && !(url == s.admin && code == http.StatusUnauthorized) {
			t.Errorf("%s was printed and answers %d", url, code)
		}
	}
	for _, file := range []string{adminTokenFile, sessionKeyFile} {
		info, err := os.Stat(filepath.Join(s.dir, file))
		if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("code %d after the stop", code)
	}
}

// TestServeToOthers: off loopback a start prints the addresses for others, and warns of what --auth=open means there.
func TestServeToOthers(t *testing.T) {
	s := serve(t, "serve", "--listen", ":0", "--admin-listen", "127.0.0.1:0", "--store", "mem")
	if said := s.stderr.String(); !strings.Contains(said, "WARNING") || !strings.Contains(said, "--auth=open") {
		t.Errorf("no warning: %q", said)
	}
	for _, url := range printedURL.FindAllString(s.stdout.String(), -1) {
		if code := status(url); code != http.StatusOK && !(url == s.admin && code == http.StatusUnauthorized) {
			t.Errorf("%s was printed and answers %d", url, code)
		}
	}
	if !strings.Contains(s.stdout.String(), "lost at the end") {
		t.Errorf("a board in memory does not say so: %s", s.stdout.String())
	}
}

// TestServeByEnvironment: every flag comes from the environment too, and a flag goes before it.
func TestServeByEnvironment(t *testing.T) {
	t.Setenv("PLACED_LISTEN", "127.0.0.1:0")
	t.Setenv("PLACED_ADMIN_LISTEN", "127.0.0.1:0")
	t.Setenv("PLACED_DATA_DIR", filepath.Join(t.TempDir(), "elsewhere"))
	t.Setenv("PLACED_WIDTH", "200")
	t.Setenv("PLACED_HEIGHT", "200")
	t.Setenv("PLACED_COOLDOWN", "7s")
	t.Setenv("PLACED_ADMIN_TOKEN", strings.Repeat("t", 32))
	s := serve(t, "--height", "400")
	var record board.SettingsRecord
	decode(t, s.ctl("-o", "json", "settings", "get"), &record)
	if record.Width != 200 || record.Height != 400 || record.CooldownMs != 7000 {
		t.Errorf("the board is %+v", record)
	}
	if _, err := os.Stat(filepath.Join(s.dir, adminTokenFile)); !os.IsNotExist(err) {
		t.Errorf("a token was written though the environment gives one: %v", err)
	}
	// What a server's environment says about a new board is no business of an operator's change.
	decode(t, s.ctl("-o", "json", "settings", "set", "--frozen"), &record)
	if record.Width != 200 || record.Height != 400 || record.CooldownMs != 7000 || !record.Frozen {
		t.Errorf("freezing made the board %+v", record)
	}
	if r := s.ctl("settings", "set"); r.code != 2 {
		t.Errorf("a change of nothing: %+v", r)
	}
}

func decode(t *testing.T, r result, into any) {
	t.Helper()
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("code %d, stderr %q", r.code, r.stderr)
	}
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%v in %q", err, r.stdout)
	}
}

// failsWith sees a command fail with one line.
func failsWith(t *testing.T, r result, words ...string) {
	t.Helper()
	if r.code != 1 || r.stdout != "" || !oneLineOnly(r.stderr) {
		t.Errorf("code %d, stdout %q, stderr %q; want code 1 and one line on stderr", r.code, r.stdout, r.stderr)
	}
	for _, word := range words {
		if !strings.Contains(r.stderr, word) {
			t.Errorf("%q does not speak of %q", r.stderr, word)
		}
	}
}

// TestStartsThatFail say why in one line.
func TestStartsThatFail(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	serveIn := func(dir string, args ...string) result {
		return callLine(t.Context(), append([]string{"serve", "--data-dir", dir, "--admin-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"}, args...)...)
	}
	failsWith(t, serveIn(filepath.Join(dir, "a"), "--listen", taken), taken, "in use", "with --listen")
	failsWith(t, serveIn(filepath.Join(dir, "b"), "--admin-listen", taken), taken, "in use", "with --admin-listen")
	failsWith(t, serveIn(filepath.Join(dir, "c"), "--listen", "no.such.host.invalid:80"), "no.such.host.invalid")
	failsWith(t, serveIn(file), file)
	if runtime.GOOS != "windows" {
		open := filepath.Join(dir, "open")
		if err := os.MkdirAll(open, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(open, adminTokenFile), []byte(strings.Repeat("t", 64)), 0o644); err != nil {
			t.Fatal(err)
		}
		failsWith(t, serveIn(open), adminTokenFile, "chmod 600")
	}
	t.Setenv("PLACED_SESSION_KEY", "not hexadecimal")
	failsWith(t, serveIn(filepath.Join(dir, "d")), "PLACED_SESSION_KEY")
	t.Setenv("PLACED_SESSION_KEY", "abcd")
	r := serveIn(filepath.Join(dir, "e"))
	if r.code == 0 || !oneLineOnly(r.stderr) || !strings.Contains(r.stderr, "session key") {
		t.Errorf("a short session key: %+v", r)
	}
}

// TestServeWarnsOfFlagsForANewBoard: a board that exists keeps its size, and the start says so.
func TestServeWarnsOfFlagsForANewBoard(t *testing.T) {
	is := board.DefaultSettings()
	is.Width, is.CooldownMs = 300, 90_000
	for _, c := range []struct {
		command serveCommand
		says    string
	}{
		{serveCommand{Width: 300, Height: 1000, Cooldown: 90 * time.Second, RegionSize: 100}, ""},
		{serveCommand{Width: 1000, Height: 1000, Cooldown: 5 * time.Minute, RegionSize: 100}, ""},
		{serveCommand{Width: 500, Height: 400, Cooldown: time.Second, RegionSize: 200}, "--width, --height, --cooldown, --region-size changed nothing"},
	} {
		var out strings.Builder
		c.command.warnOfBoard(&streams{err: &out}, is)
		if got := out.String(); c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%+v: %q", c.command, got)
		}
	}
}

// TestCtl: every command prints a table for people and JSON for programs, and says in one line what went wrong.
func TestCtl(t *testing.T) {
	s := serve(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--width", "200", "--height", "200", "--store", "mem")
	picture := filepath.Join(t.TempDir(), "rollback.png")
	for _, args := range [][]string{
		{"settings", "get"},
		{"settings", "set", "--cooldown", "3s", "--why", "test"},
		{"settings", "set", "--protect", "1,2,3,4", "--protect", "5,6,7,8"},
		{"settings", "set", "--no-protect"},
		{"settings", "history"},
		{"ban", "somebody", "--for", "1h", "--why", "test", "--unseen"},
		{"ban", "list"},
		{"unban", "somebody"},
		{"ban", "list", "--all"},
		{"clear", "0,0,10,10", "--wait", "--why", "test"},
		{"rollback", "--user", "somebody", "--since", "30m", "--png", picture},
		{"rollback", "--rect", "0,0,10,10", "--since", "1h", "--yes", "--wait", "--why", "test"},
		{"jobs"},
		{"status"},
		{"verify"},
	} {
		text := s.ctl(args...)
		if text.code != 0 || text.stderr != "" || text.stdout == "" {
			t.Errorf("ctl %v: %+v", args, text)
		}
		var anything any
		decode(t, s.ctl(append([]string{"-o", "json"}, args...)...), &anything)
	}
	var history []board.SettingsRecord
	decode(t, s.ctl("-o", "json", "settings", "history"), &history)
	if last := history[len(history)-1]; len(history) != 7 || last.Version != 7 || history[1].Why != "test" || history[1].By == "" || len(history[3].Protected) != 2 {
		t.Errorf("the history is %+v", history)
	}
	var bans []board.Ban
	decode(t, s.ctl("-o", "json", "ban", "list", "--all"), &bans)
	if len(bans) != 1 || bans[0].UntilMs != 0 || bans[0].By == "" || bans[0].AtMs == 0 {
		t.Errorf("bans are %+v", bans)
	}
	var report board.VerifyReport
	if decode(t, s.ctl("-o", "json", "verify"), &report); report.Count != 0 {
		t.Errorf("verify finds %+v", report)
	}
	if r := s.ctl("settings", "set", "--width", "0"); r.code != 2 || !oneLineOnly(r.stderr) || strings.Count(r.stderr, "width 0") != 1 {
		t.Errorf("impossible settings: %+v, want code 2 and one line that says so once", r)
	}
	failsWith(t, s.ctl("settings", "set", "--width", "500", "--base", "2"), "409")
	if r := s.ctl("settings", "set", "--width", "20"); r.code == 0 || !strings.Contains(r.stderr, "shrinks from 200x200 to 20x200") {
		t.Errorf("a board shrinks to a tenth unasked: %+v", r)
	}
	if r := s.ctl("settings", "set", "--width", "20", "--yes"); r.code != 0 {
		t.Errorf("a board that is to shrink: %+v", r)
	}
	failsWith(t, s.ctl("ban", "Somebody"), "nobody called", `"somebody"`)
	failsWith(t, s.ctl("unban", "nobody at all"), "nobody called")
	failsWith(t, s.ctl("rollback", "--user", "SOMEBODY", "--since", "30m"), `"somebody"`)
	failsWith(t, s.ctl("clear", "5000,5000,5,5"))
	failsWith(t, s.ctl("rollback", "--undo", "17", "--yes"), "no job")
	if png, err := os.ReadFile(picture); err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
		t.Errorf("the picture of a roll-back: %v", err)
	}
	failsWith(t, callLine(t.Context(), "ctl", "--admin", s.admin, "--data-dir", t.TempDir(), "status"), "no admin token", "PLACED_ADMIN_TOKEN")
	failsWith(t, callLine(t.Context(), "ctl", "--admin", "http://127.0.0.1:1", "--data-dir", s.dir, "status"), "127.0.0.1:1")
	t.Setenv("PLACED_ADMIN_TOKEN", "the wrong token")
	failsWith(t, s.ctl("status"), "401", "token")
	failsWith(t, s.ctl("verify"), "401", "token")
}
