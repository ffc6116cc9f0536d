package board

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestImportsAreOfTheStandardLibrary keeps this package at the bottom: its paths have no dot in their first element.
func TestImportsAreOfTheStandardLibrary(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range f.Imports {
			path := strings.Trim(imported.Path.Value, `"`)
			first, _, _ := strings.Cut(path, "/")
			if strings.Contains(first, ".") {
				t.Errorf("%s imports %s", file, path)
			}
			for _, clock := range []string{"time", "context", "log", "log/slog", "os", "math/rand", "math/rand/v2"} {
				if path == clock {
					t.Errorf("%s imports %s: this package is pure", file, path)
				}
			}
			checked++
		}
	}
	if checked == 0 {
		t.Error("no import was looked at")
	}
}
