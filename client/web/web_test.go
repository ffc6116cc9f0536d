package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client/web/internal/source"
)

// The page's weight, as it travels.
const (
	scriptGzipBytesMax = 60_000
	styleGzipBytesMax  = 10_000
)

func TestDistIsBuiltFromTheSources(t *testing.T) {
	want, err := source.Hash(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	got, err := fs.ReadFile(FS(), source.HashName)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(got)) != want {
		t.Error("client/web/dist is stale: run `make web` and commit dist")
	}
}

func TestHashSeesEveryChangeOfTheSources(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"src", "lang"} {
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
	}
	names, err := source.Files(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]string{}
	note := func(what string) {
		t.Helper()
		hash, err := source.Hash(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[hash]; ok {
			t.Errorf("%s: the same hash as %s", what, other)
		}
		seen[hash] = what
	}
	note("the sources as they are")
	for _, name := range []string{"src/main.ts", "style.css", "index.html", "icon.svg", "manifest.webmanifest", "lang/en.json"} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("\n"); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		note(name + " changed")
	}
	if err := os.Rename(filepath.Join(dir, "src/main.ts"), filepath.Join(dir, "src/other.ts")); err != nil {
		t.Fatal(err)
	}
	note("main.ts renamed")
}

// keys matches where the sources name a text: t("key") in scripts, data-t="key" in the page.
var keys = regexp.MustCompile(`(?:\bt\(|data-t="|data-t-label=")"?([a-zA-Z]+\.[a-zA-Z.]+)"`)

// TestTextsExist checks that every text that is named literally has its English words.
func TestTextsExist(t *testing.T) {
	body, err := os.ReadFile("lang/en.json")
	if err != nil {
		t.Fatal(err)
	}
	english := map[string]string{}
	if err := json.Unmarshal(body, &english); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("src/*.ts")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range append(names, "index.html") {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range keys.FindAllSubmatch(source, -1) {
			found++
			key := string(m[1])
			if english[key] == "" && english[key+".other"] == "" {
				t.Errorf("%s names the text %q, which lang/en.json lacks", name, key)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d texts are named: the check does not see them", found)
	}
}

var addresses = regexp.MustCompile(`\b(?:src|href)="([^"]*)"`)

func TestIndexNamesFilesThatExist(t *testing.T) {
	index, err := fs.ReadFile(FS(), "index.html")
	if err != nil {
		t.Fatal(err)
	}
	found := addresses.FindAllSubmatch(index, -1)
	if len(found) < 3 {
		t.Fatalf("index.html names %d files, want its script, style and icon", len(found))
	}
	for _, m := range found {
		name := string(m[1])
		if !strings.HasPrefix(name, "assets/") {
			t.Errorf("index.html names %q: every address is relative and below assets/", name)
		}
		if _, err := fs.Stat(FS(), name); err != nil {
			t.Errorf("index.html names %q: %v", name, err)
		}
	}
}

// inline matches what a strict Content-Security-Policy forbids, and elsewhere what would reach a third party.
var (
	inline     = regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|javascript:|<script(?:\s[^>]*)?>\s*[^<\s]`)
	thirdParty = regexp.MustCompile(`(?i)(?:https?:)?//[a-z0-9-]+\.[a-z]`)
	xmlns      = regexp.MustCompile(`http://www\.w3\.org/(?:1999/xhtml|2000/svg)`)
)

func TestPageKeepsToAStrictPolicy(t *testing.T) {
	err := fs.WalkDir(FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(FS(), name)
		if err != nil {
			return err
		}
		if m := inline.Find(body); filepath.Ext(name) == ".html" && m != nil {
			t.Errorf("%s: inline code or style: %q", name, m)
		}
		if m := thirdParty.Find(xmlns.ReplaceAll(body, nil)); m != nil {
			t.Errorf("%s: an address elsewhere: %q", name, m)
		}
		if filepath.Ext(name) == ".js" {
			for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"} {
				if bytes.Contains(body, []byte(forbidden)) {
					t.Errorf("%s: %s", name, forbidden)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`<p style="a">`, `<b onclick="x()">`, `<script>x()</script>`} {
		if !inline.MatchString(bad) {
			t.Errorf("the check for inline code does not see %q", bad)
		}
	}
}

func TestPageIsLight(t *testing.T) {
	for name, most := range map[string]int{"assets/app.js": scriptGzipBytesMax, "assets/app.css": styleGzipBytesMax} {
		body, err := fs.ReadFile(FS(), name)
		if err != nil {
			t.Fatal(err)
		}
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes, %d gzip", name, len(body), packed.Len())
		if packed.Len() > most {
			t.Errorf("%s: %d bytes gzip, more than %d", name, packed.Len(), most)
		}
	}
}

// refusalsJSON is board's table as the TypeScript tests read it.
func refusalsJSON(t *testing.T) string {
	type refusal struct {
		Code  board.Code `json:"code"`
		Label string     `json:"label"`
	}
	var list []refusal
	for _, r := range board.Refusals {
		list = append(list, refusal{r.Code, r.Label})
	}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestUnitTypeScript bundles the unit tests with esbuild and runs them with node's own test runner.
func TestUnitTypeScript(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("Node.js is needed for the page's unit tests and was not found (%v): install it, or run `make deps`", err)
	}
	tests, err := filepath.Glob("test/*.test.ts")
	if err != nil || len(tests) == 0 {
		t.Fatalf("no tests in test/: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out := t.TempDir()
	args := append([]string{"tool", "-modfile=../../tools.mod", "esbuild"}, tests...)
	args = append(args, "--bundle", "--platform=node", "--format=esm", "--out-extension:.js=.mjs", "--outdir="+out, "--log-level=warning")
	if b, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("esbuild: %v\n%s", err, b)
	}
	testdata, err := filepath.Abs("../../wire/testdata")
	if err != nil {
		t.Fatal(err)
	}
	run := []string{"--test", "--test-reporter=spec"}
	for _, name := range tests {
		run = append(run, filepath.Join(out, strings.TrimSuffix(filepath.Base(name), ".ts")+".mjs"))
	}
	cmd := exec.CommandContext(ctx, node, run...)
	cmd.Env = append(os.Environ(), "PLACED_WIRE_TESTDATA="+testdata, "PLACED_REFUSALS="+refusalsJSON(t))
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("node --test: %v\n%s", err, b)
	}
	if !regexp.MustCompile(`(?m)^. pass [1-9]\d*$`).Match(b) {
		t.Fatalf("node ran no test:\n%s", b)
	}
	t.Logf("%s", b[max(0, len(b)-400):])
}
