package cassandratest

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fakeMaven puts a mvn of the given shell lines alone on the PATH.
func fakeMaven(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mvn"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

func TestFetchWithoutMaven(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := fetchInto(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "maven is missing") || !strings.Contains(err.Error(), "make deps") {
		t.Fatalf("error %v, want that maven is missing and how to get it", err)
	}
}

// A download that fails shows why and leaves nothing that the next one could take for a whole one.
func TestFetchFails(t *testing.T) {
	fakeMaven(t, "/bin/mkdir lib; echo half > lib/half.jar; echo 'the registry is away'; exit 3\n")
	cache := t.TempDir()
	_, err := fetchInto(t.Context(), cache, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "the registry is away") || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("error %v, want Maven's words and exit status", err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*", "*"))
	if err != nil || len(left) != 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
}

// Several processes that need the jars at once download them once and all get the whole folder.
func TestFetchOnce(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	fakeMaven(t, "echo run >> "+count+"; /bin/mkdir lib; echo 'Downloaded from x: a.jar (1 kB)'; echo whole > lib/a.jar\n")
	cache := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			lib, err := fetchInto(t.Context(), cache, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Error(err)
				return
			}
			if data, err := os.ReadFile(filepath.Join(lib, "a.jar")); err != nil || string(data) != "whole\n" {
				t.Errorf("a.jar holds %q, %v", data, err)
			}
		})
	}
	wg.Wait()
	if runs, err := os.ReadFile(count); err != nil || string(runs) != "run\n" {
		t.Fatalf("maven ran as %q, %v; want once", runs, err)
	}
}
