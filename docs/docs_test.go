// Package docs holds what is written about placed, and tests that keep it true: every path, identifier, flag and target in
// backticks exists, links lead somewhere, the table of bounds names every bound with its value, and the bot of the README
// compiles.
package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the repository, seen from this package.
const root = ".."

// Longest documents, in lines.
const (
	architectureLinesMax = 250
	adrLinesMax          = 60
)

// checked are the documents whose names are checked: those that newcomers find their way by.
var checked = []string{
	"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/life-of-a-placement.md", "docs/operations.md", "docs/host-an-event.md", "docs/adr/*.md",
}

// documents returns the paths of the documents that the patterns name; each pattern names at least one.
func documents(t *testing.T, patterns ...string) []string {
	t.Helper()
	var paths []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no such document (%v)", pattern, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	fences  = regexp.MustCompile("(?ms)^```.*?^```$")
	inlines = regexp.MustCompile("`([^`\n]+)`")
	links   = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
)

// prose returns a document without its fenced blocks, line by line.
func prose(text string) []string {
	blank := fences.ReplaceAllStringFunc(text, func(block string) string { return strings.Repeat("\n", strings.Count(block, "\n")) })
	return strings.Split(blank, "\n")
}

// TestNamesExist looks up everything that stands in backticks.
func TestNamesExist(t *testing.T) {
	tree := readTree(t)
	names := 0
	for _, path := range documents(t, checked...) {
		for i, line := range prose(read(t, path)) {
			for _, found := range inlines.FindAllStringSubmatch(line, -1) {
				names++
				if why := tree.unknown(found[1]); why != "" {
					t.Errorf("%s:%d: `%s`: %s", filepath.ToSlash(path[len(root)+1:]), i+1, found[1], why)
				}
			}
		}
	}
	if names < 300 {
		t.Errorf("only %d names were found in backticks: is the pattern right?", names)
	}
}

// TestNamesThatDoNotExist checks the check.
func TestNamesThatDoNotExist(t *testing.T) {
	tree := readTree(t)
	for _, name := range []string{
		"actors/nobody.go", "actors/*_nothing.go", "Nobody", "Shard.Nobody", "actors.Nobody", "board.ShardOpenMax", "Feed.FeedTickMs",
		"--nobody", "make nobody", "go run ./cmd/nobody", "GET /api/v1/nobody", "/nobody", "PLACED_NOBODY", "github.com/nobody/nothing",
		"placed nobody", "pebble.Nobody", "placed ctl settings set --nobody 1m",
	} {
		if tree.unknown(name) == "" {
			t.Errorf("`%s` is taken for something that exists", name)
		}
	}
}

// TestLinksLeadSomewhere follows every relative link.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, path := range documents(t, "*.md", "*/*.md", "docs/adr/*.md") {
		for i, line := range prose(read(t, path)) {
			for _, found := range links.FindAllStringSubmatch(line, -1) {
				target := found[1]
				if strings.Contains(target, "://") {
					continue
				}
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), target)); err != nil {
					t.Errorf("%s:%d: the link to %s: %v", path, i+1, target, err)
				}
			}
		}
	}
}

// TestDocumentsStayShort holds the lengths that make them worth reading.
func TestDocumentsStayShort(t *testing.T) {
	short := func(path string, most int) {
		if n := strings.Count(read(t, path), "\n"); n > most {
			t.Errorf("%s has %d lines, at most %d", path, n, most)
		}
	}
	short(filepath.Join(root, "ARCHITECTURE.md"), architectureLinesMax)
	for _, path := range documents(t, "docs/adr/*.md") {
		short(path, adrLinesMax)
	}
}

// TestDecisionsAreListed finds every ADR in ARCHITECTURE.md.
func TestDecisionsAreListed(t *testing.T) {
	text := read(t, filepath.Join(root, "ARCHITECTURE.md"))
	for _, path := range documents(t, "docs/adr/*.md") {
		if name := filepath.Base(path); !strings.Contains(text, "(docs/adr/"+name+")") {
			t.Errorf("ARCHITECTURE.md has no link to docs/adr/%s", name)
		}
	}
}

// TestBotOfTheReadmeCompiles builds the program that README.md shows.
func TestBotOfTheReadmeCompiles(t *testing.T) {
	text := read(t, filepath.Join(root, "README.md"))
	_, rest, ok := strings.Cut(text, "```go\n")
	program, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("README.md shows no Go program")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "bot.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "bot"), file)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("the bot of README.md does not compile: %v\n%s", err, bytes.TrimSpace(out))
	}
}
