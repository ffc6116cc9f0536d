// Package web holds the page of the board: TypeScript in src, built into dist by esbuild. dist is committed, so that the
// program builds without Node.js or esbuild; its test fails when dist does not belong to the sources.
package web

import (
	"embed"
	"io/fs"
)

//go:generate go run ./build

//go:embed dist
var files embed.FS

// FS returns the files of the built page: index.html, and under assets/ what it names by relative addresses
// ("assets/app.js"). A server may rewrite those to addresses that change with the content. SOURCE_HASH belongs to the build.
func FS() fs.FS {
	dist, err := fs.Sub(files, "dist")
	if err != nil {
		panic("web: " + err.Error()) // the name is a valid one
	}
	return dist
}
