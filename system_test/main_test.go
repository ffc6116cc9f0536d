//go:build unix

// Package system_test runs placed as people run it: real processes on loopback with real data directories, under load from
// the Go client, and does to them what happens to processes: kill -9, SIGTERM, SIGSTOP, a full disk, corrupt files, changed
// settings, bad input.
//
// Every scenario ends with the same judgement (judge_test.go): `placed ctl verify` finds nothing, all mirrors equal the
// board, and the journals, read from the stopped store, hold exactly the placements that were answered, no user faster than
// the cooldown.
package system_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// binaries is where the programs under test are.
var binaries string

// placed is the program as it is released.
func placed() string { return filepath.Join(binaries, "placed") }

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "placed-system-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries = dir
	if err := build(placed()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(path string, flags ...string) error {
	args := append([]string{"build", "-o", path}, flags...)
	out, err := exec.Command("go", append(args, "github.com/placed-board/placed/cmd/placed")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build placed: %w\n%s", err, out)
	}
	return nil
}

// crashing builds the program that dies at the crash point named by PLACED_CRASH_AT, once.
var crashing = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaries, "placed-crashing")
	return path, build(path, "-tags", "crashpoints")
})
