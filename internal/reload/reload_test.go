package reload

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// due has the next Get look at the files.
func due[T any](k *Kept[T]) { k.next.Store(0) }

func write(t *testing.T, path, content string) {
	t.Helper()
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		t.Fatal(err)
	}
}

// TestReload changes, breaks, removes and mends files; a value that cannot be made leaves the one before, and is told once.
func TestReload(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	write(t, a, "one")
	write(t, b, "1")
	loads := 0
	load := func() (string, error) {
		loads++
		first, err := os.ReadFile(a)
		if err != nil {
			return "", err
		}
		second, err := os.ReadFile(b)
		if strings.Contains(string(first), "half") {
			return "", errors.New("half written")
		}
		return string(first) + string(second), err
	}
	var told []error
	k, err := Open(load, func(err error) { told = append(told, err) }, a, b)
	if err != nil || k.Get() != "one1" {
		t.Fatal(k.Get(), err)
	}
	for range 3 {
		due(k)
		k.Get()
	}
	if loads != 1 || len(told) != 0 {
		t.Fatalf("%d loads of files that nobody touched", loads)
	}
	write(t, b, "2")
	if k.Get() != "one1" {
		t.Error("it looks before it is due")
	}
	due(k)
	if got := k.Get(); got != "one2" || len(told) != 1 || told[0] != nil {
		t.Errorf("%s %v", got, told)
	}
	write(t, a, "half")
	for range 3 {
		due(k)
		if got := k.Get(); got != "one2" {
			t.Errorf("half a file gives %s", got)
		}
	}
	if len(told) != 2 || told[1] == nil {
		t.Errorf("told %v", told)
	}
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	due(k)
	if got := k.Get(); got != "one2" || len(told) != 3 || !errors.Is(told[2], os.ErrNotExist) {
		t.Errorf("%s %v", got, told)
	}
	write(t, a, "two")
	due(k)
	if got := k.Get(); got != "two2" || len(told) != 4 || told[3] != nil {
		t.Errorf("%s %v", got, told)
	}
}

func TestOpenFails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := Open(func() (int, error) { return 1, nil }, nil, missing); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v", err)
	}
	write(t, missing, "")
	fault := errors.New("no key in it")
	if _, err := Open(func() (int, error) { return 1, fault }, nil, missing); !errors.Is(err, fault) {
		t.Errorf("%v", err)
	}
}

// TestManyReaders has many goroutines read while the file changes.
func TestManyReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "0")
	k, err := Open(func() (string, error) { b, err := os.ReadFile(path); return string(b), err }, func(error) {}, path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				due(k)
				if k.Get() == "" {
					t.Error("nothing")
				}
			}
		})
	}
	for _, content := range []string{"1", "2", "3"} {
		write(t, path, content)
	}
	wg.Wait()
	due(k)
	if got := k.Get(); got != "3" {
		t.Errorf("at last %s", got)
	}
}
