// Package source names the files that the page is built from and hashes them, for the builder and for the test that dist is
// not stale.
package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// Dist is the folder of the built page, relative to client/web.
const Dist = "dist"

// HashName is the file in dist that holds the hash of the sources that it was built from.
const HashName = "SOURCE_HASH"

// Files returns the slash-separated names of the sources below dir (the folder client/web), sorted: everything in src, and
// the page's texts, markup, style, icon and manifest.
func Files(dir fs.FS) ([]string, error) {
	names := []string{"icon.svg", "index.html", "manifest.webmanifest", "style.css"}
	for folder, ext := range map[string]string{"src": ".ts", "lang": ".json"} {
		err := fs.WalkDir(dir, folder, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && path.Ext(name) == ext {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list the page's sources: %w", err)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Hash returns the SHA-256 over the names and contents of all sources, in hexadecimal.
func Hash(dir fs.FS) (string, error) {
	names, err := Files(dir)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range names {
		body, err := fs.ReadFile(dir, name)
		if err != nil {
			return "", fmt.Errorf("read the page's sources: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(body))
		sum.Write(body)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
