// Command build makes client/web/dist from the sources: one script, one style sheet, icons, the manifest, index.html, and the hash of the
// sources. It needs esbuild, which it runs as the Go tool that tools.mod pins, and nothing else.
//
// It is run in client/web, by `go generate ./client/web` or `make web`.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/placed-board/placed/client/web/internal/source"
)

func main() {
	if err := build("."); err != nil {
		fmt.Fprintln(os.Stderr, "build the page:", err)
		os.Exit(1)
	}
}

func build(dir string) error {
	dist := filepath.Join(dir, source.Dist)
	assets := filepath.Join(dist, "assets")
	if err := os.MkdirAll(assets, 0o755); err != nil {
		return err
	}
	common := []string{"--bundle", "--minify", "--target=es2022", "--log-level=warning", "--legal-comments=none"}
	bundles := [][]string{
		{filepath.Join(dir, "src", "main.ts"), "--format=esm", "--outfile=" + filepath.Join(assets, "app.js")},
		{filepath.Join(dir, "style.css"), "--outfile=" + filepath.Join(assets, "app.css")},
	}
	for _, b := range bundles {
		if err := esbuild(append(b, common...)); err != nil {
			return err
		}
	}
	if err := writeIcons(assets); err != nil {
		return err
	}
	for from, to := range map[string]string{"index.html": dist, "icon.svg": assets, "manifest.webmanifest": assets} {
		body, err := os.ReadFile(filepath.Join(dir, from))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, from), body, 0o644); err != nil {
			return err
		}
	}
	if err := copyTables(filepath.Join(dir, "lang"), filepath.Join(assets, "lang")); err != nil {
		return err
	}
	hash, err := source.Hash(os.DirFS(dir))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dist, source.HashName), []byte(hash+"\n"), 0o644); err != nil {
		return err
	}
	return report(filepath.Join(assets, "app.js"), filepath.Join(assets, "app.css"))
}

// copyTables copies the tables of texts, without their white space; English is in the script.
func copyTables(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(from, "*.json"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if filepath.Base(name) == "en.json" {
			continue
		}
		body, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var small bytes.Buffer
		if err := json.Compact(&small, body); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), small.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func esbuild(args []string) error {
	modfile, err := filepath.Abs(filepath.Join("..", "..", "tools.mod"))
	if err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"tool", "-modfile=" + modfile, "esbuild"}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("esbuild: %w", err)
	}
	return nil
}

// report prints the size of every file as it travels.
func report(names ...string) error {
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes, %d gzip\n", name, len(body), packed.Len())
	}
	return nil
}
