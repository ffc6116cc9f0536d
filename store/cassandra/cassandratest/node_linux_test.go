package cassandratest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"
)

// TestNodeSurvivesKill takes one node through all that a store's tests do to it: a conditional insert outlives a crash,
// a pause stops answers without closing anything, a second node on the same folder is refused, an orderly stop ends
// the very process, and a restart brings everything back at the same address.
func TestNodeSurvivesKill(t *testing.T) {
	ctx := t.Context()
	node, err := Start(ctx, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Stop(); err != nil {
			t.Error(err)
		}
	})
	addr := node.Addr()

	session := open(t, addr)
	for _, stmt := range []string{
		`CREATE KEYSPACE t WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
		`CREATE TABLE t.kv (k text PRIMARY KEY, v int)`,
	} {
		if err := session.Query(stmt).WithContext(ctx).Exec(); err != nil {
			t.Fatal(err)
		}
	}
	if !insertOnce(t, session, "a", 41) {
		t.Fatal("the first conditional insert was not applied")
	}
	if insertOnce(t, session, "a", 42) {
		t.Fatal("a second insert of the same key was applied")
	}
	session.Close()

	if _, err := Start(ctx, Options{Dir: node.opts.Dir}); err == nil || !strings.Contains(err.Error(), "another node runs in") {
		t.Fatalf("a second node in the same folder: %v, want a refusal", err)
	}

	killed := node.PID()
	if err := node.Kill(); err != nil {
		t.Fatal(err)
	}
	mustBeGone(t, killed)
	if err := probe(ctx, addr); err == nil {
		t.Fatal("a killed node answers")
	}
	if err := node.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if node.Addr() != addr || node.PID() == killed {
		t.Fatalf("after the restart: address %s, pid %d; want %s and another pid than %d", node.Addr(), node.PID(), addr, killed)
	}
	session = open(t, addr)
	if v := readSerial(t, session, "a"); v != 41 {
		t.Fatalf("after kill -9 the key reads %d, want 41", v)
	}
	session.Close()

	pauseAndResume(t, node)

	stopped := node.PID()
	if err := node.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := node.Stop(); err != nil { // a paused node too
		t.Fatal(err)
	}
	mustBeGone(t, stopped)
	if node.PID() != 0 {
		t.Fatalf("a stopped node has pid %d", node.PID())
	}
}

// pauseAndResume checks that a paused node accepts connections (the kernel does) but answers nothing.
func pauseAndResume(t *testing.T, node *Node) {
	t.Helper()
	if err := node.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := probe(ctx, node.Addr())
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("probe of a paused node: %v, want a timeout", err)
	}
	if err := node.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := probe(t.Context(), node.Addr()); err != nil {
		t.Fatalf("probe of a resumed node: %v", err)
	}
}

func open(t *testing.T, addr string) *gocql.Session {
	t.Helper()
	cluster := gocql.NewCluster(addr)
	cluster.ProtoVersion = 4
	cluster.DisableInitialHostLookup = true
	cluster.Timeout = 20 * time.Second
	cluster.ConnectTimeout = 20 * time.Second
	session, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func insertOnce(t *testing.T, session *gocql.Session, k string, v int) (applied bool) {
	t.Helper()
	q := session.Query(`INSERT INTO t.kv (k, v) VALUES (?, ?) IF NOT EXISTS`, k, v).WithContext(t.Context())
	applied, err := q.MapScanCAS(map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

func readSerial(t *testing.T, session *gocql.Session, k string) (v int) {
	t.Helper()
	q := session.Query(`SELECT v FROM t.kv WHERE k = ?`, k).WithContext(t.Context())
	if err := q.Consistency(gocql.Consistency(gocql.Serial)).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// mustBeGone checks that there is no such process any more, not even one that waits to be reaped.
func mustBeGone(t *testing.T, pid int) {
	t.Helper()
	if state, err := processState(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("process %d is still there: state %q, %v", pid, state, err)
	}
}

// What is missing or wrong on a machine has to be said in words that help.
func TestStartSaysWhatIsWrong(t *testing.T) {
	busy, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, c := range []struct {
		name string
		opts Options
		want string
	}{
		{"no folder", Options{}, "Options.Dir is empty"},
		{"port in use", Options{Dir: t.TempDir(), CQLPort: busy.Addr().(*net.TCPAddr).Port}, "address already in use"},
		{"not an address of this machine", Options{Dir: t.TempDir(), ListenAddress: "192.0.2.1"}, "cannot assign requested address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			node, err := Start(t.Context(), c.opts)
			if err == nil {
				_ = node.Kill()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %q, want %q in it", err, c.want)
			}
		})
	}
}

// A JVM that ends by itself is reported at once, with the end of its log: here the data folder is a file.
func TestStartShowsTheLog(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "commitlog"), []byte("not a folder"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "the process ended by itself") || !strings.Contains(err.Error(), "commitlog") {
		t.Fatalf("error %v, want the end of the process and its log", err)
	}
}

// A start that is given up leaves no process and frees the folder.
func TestStartGivenUp(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		defer cancel(errors.New("given up"))
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			if info, err := os.Stat(filepath.Join(dir, "cassandra.log")); err == nil && info.Size() > 0 {
				return
			}
		}
	}()
	if _, err := Start(ctx, Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "given up") {
		t.Fatalf("error %v, want the cause of the cancellation", err)
	}
	if n := javaProcesses(t, dir); n != 0 {
		t.Fatalf("%d processes run in %s", n, dir)
	}
	unlock, ok, err := tryLock(filepath.Join(dir, "lock"))
	if err != nil || !ok {
		t.Fatalf("the folder is still locked: %v", err)
	}
	unlock()
}

// javaProcesses counts the processes whose command line names dir.
func javaProcesses(t *testing.T, dir string) (n int) {
	t.Helper()
	cmdlines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(cmdlines) == 0 {
		t.Fatalf("no processes to look at: %v", err)
	}
	for _, path := range cmdlines {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), dir) {
			n++
		}
	}
	return n
}

func TestFindJava(t *testing.T) {
	fake := func(version string) string {
		path := filepath.Join(t.TempDir(), "java")
		script := fmt.Sprintf("#!/bin/sh\necho 'openjdk version \"%s\" 2025-01-01' >&2\n", version)
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old, right, young := fake("1.8.0_402"), fake("17.0.15"), fake("25")
	got, err := findJava(t.Context(), []string{"/nonexistent/java", old, young, right})
	if err != nil || got != right {
		t.Fatalf("found %q, %v; want %q", got, err, right)
	}
	_, err = findJava(t.Context(), []string{old, young})
	if err == nil || !strings.Contains(err.Error(), "make deps") || !strings.Contains(err.Error(), "is version 25") {
		t.Fatalf("error %v, want the way to get a JDK and what was seen", err)
	}
	if _, err := findJava(t.Context(), nil); err == nil {
		t.Fatal("a JDK was found nowhere")
	}
}
