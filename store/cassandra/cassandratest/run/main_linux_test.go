package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const waitMax = 150 * time.Second // a node's start on a busy machine

// start runs the command in a fresh folder and returns once it has printed a line that matches; the first group is
// returned.
func start(t *testing.T, match string) (cmd *exec.Cmd, dir, group string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "run")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	dir = t.TempDir()
	cmd = exec.Command(bin, "-dir", dir, "-port", "0")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); read.Close() })
	if err := read.SetReadDeadline(time.Now().Add(waitMax)); err != nil {
		t.Fatal(err)
	}
	re := regexp.MustCompile(match)
	var seen strings.Builder
	for lines := bufio.NewScanner(read); lines.Scan(); {
		fmt.Fprintln(&seen, lines.Text())
		if m := re.FindStringSubmatch(lines.Text()); m != nil {
			return cmd, dir, m[1]
		}
	}
	t.Fatalf("no line matches %q in:\n%s", match, &seen)
	return nil, "", ""
}

// waitGone waits until no process other than a zombie has dir on its command line.
func waitGone(t *testing.T, dir string) {
	t.Helper()
	deadline := time.Now().Add(waitMax)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		left := processesIn(t, dir)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes that name %s are still there: %v", dir, left)
		}
	}
}

// processesIn lists the processes that name dir on their command line; a zombie has none.
func processesIn(t *testing.T, dir string) (pids []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no processes to look at: %v", err)
	}
	for _, path := range paths {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), dir) {
			pids = append(pids, strings.Split(path, "/")[2])
		}
	}
	return pids
}

// Ctrl-C ends the node in good order and the command with success.
func TestInterruptStopsTheNode(t *testing.T) {
	cmd, dir, addr := start(t, `answers on (127\.0\.0\.1:\d+)`)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the command on %s ended with %v, want success", addr, err)
	}
	if left := processesIn(t, dir); len(left) != 0 {
		t.Fatalf("processes left: %v", left)
	}
	log, err := os.ReadFile(filepath.Join(dir, "cassandra.log"))
	if err != nil || !strings.Contains(string(log), "Drain") && !strings.Contains(string(log), "DRAIN") {
		t.Fatalf("the node's log does not tell of an orderly end (%v)", err)
	}
}

// A command that is killed takes the JVM with it.
func TestNodeDiesWithItsParent(t *testing.T) {
	cmd, dir, pid := start(t, `cassandra starts" pid=(\d+)`)
	if left := processesIn(t, dir); len(left) < 2 {
		t.Fatalf("processes %v, want the command and its JVM %s", left, pid)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it says "killed"
	waitGone(t, dir)
}
