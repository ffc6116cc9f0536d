package transport

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// page holds the page's files as they go out. Every file has two addresses: /name, to be asked for anew each time and answered
// with 304, and /assets/<hash>/name, to be kept for ever; hash stands for all files together. The index names its assets by
// the second, so that a new version is used as a whole or not at all; relative, so that a proxy may serve it all below a prefix.
type page struct {
	hash  string
	files map[string]*file // by name without a leading "assets/"
	index *file
}

// file is one file of the page.
type file struct {
	mediaType string
	etag      string
	body      []byte
	gzip      []byte // nil where compression gains nothing
}

const (
	indexName      = "index.html"
	pageHashDigits = 16
)

// plainIndex is what a node without a page shows.
const plainIndex = "placed: a collaborative pixel board. This program was built without its page.\n\n" +
	"GET  /api/v1/config       settings\nGET  /api/v1/board        the whole board\nGET  /api/v1/board.png    as an image\n" +
	"GET  /api/v1/tiles/X/Y    who placed a tile\nPOST /api/login/NAME      sign in\nPOST /api/v1/placements   place a tile\n"

// newPage reads all files of web; nil gives the plain page.
func newPage(web fs.FS) (*page, error) {
	p := &page{files: map[string]*file{}}
	if web == nil {
		p.index = newFile("index.txt", []byte(plainIndex))
		return p, nil
	}
	bodies := map[string][]byte{}
	all := sha256.New()
	err := fs.WalkDir(web, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(web, name)
		if err != nil {
			return err
		}
		bodies[strings.TrimPrefix(name, "assets/")] = body
		fmt.Fprintf(all, "%q %d ", name, len(body)) // in order: WalkDir sorts
		all.Write(body)
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.hash = hex.EncodeToString(all.Sum(nil)[:pageHashDigits/2])
	index, ok := bodies[indexName]
	if !ok {
		return nil, fmt.Errorf("no %s", indexName)
	}
	delete(bodies, indexName)
	for name, body := range bodies {
		p.files[name] = newFile(name, body)
		address := `"assets/` + p.hash + "/" + name + `"`
		for _, form := range []string{name, "/" + name, "./" + name, "assets/" + name, "/assets/" + name, "./assets/" + name} {
			index = bytes.ReplaceAll(index, []byte(`"`+form+`"`), []byte(address))
		}
	}
	p.index = newFile(indexName, index)
	return p, nil
}

// mediaTypes are those of the page's files. The system's own table differs from one machine to the next.
var mediaTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".ico": "image/x-icon", ".js": "text/javascript; charset=utf-8",
	".json": "application/json", ".map": "application/json", ".png": "image/png", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
	".wasm": "application/wasm", ".webmanifest": "application/manifest+json", ".woff2": "font/woff2",
}

func newFile(name string, body []byte) *file {
	sum := sha256.Sum256(body)
	f := &file{mediaType: mediaTypes[path.Ext(name)], etag: hex.EncodeToString(sum[:16]), body: body}
	if f.mediaType == "" {
		f.mediaType = "application/octet-stream"
	}
	if gz, err := compress(body); err == nil && len(gz) < len(body)*9/10 {
		f.gzip = gz
	}
	return f
}

// contentSecurityPolicy lets the page load what this server serves and talk to it, and nothing else.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; " +
	"manifest-src 'self'; worker-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Cache-Control of the page's two kinds of addresses.
const (
	cacheAsk     = "no-cache"
	cacheForever = "public, max-age=31536000, immutable"
)

// getIndex answers GET /. A browser that comes without a good cookie gets an anonymous identity, so that the page can place at
// once; when the address's ration is used up the page comes without.
func (s *Server) getIndex(w http.ResponseWriter, r *http.Request) {
	cache := cacheAsk
	if s.wantsIdentity(r) {
		if _, ok := s.limits.signIn(s.peerOf(r).addr, time.Now()); ok {
			s.metrics.signIns[signInAnon].Inc()
			s.issue(w, r, identity{user: newAnonymousUser(), anonymous: true})
			cache = "private, no-cache"
		}
	}
	s.serveFile(w, r, s.page.index, cache)
}

// wantsIdentity reports whether a browser opens the page and nobody is signed in there. Programs and crawlers ask for an
// identity if they want one.
func (s *Server) wantsIdentity(r *http.Request) bool {
	if s.cfg.Auth != AuthOpen || r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Dest") != "document" || r.Header.Get("Authorization") != "" {
		return false
	}
	who, p := s.identify(r)
	return p != nil || who.user == ""
}

// getFile answers requests for a file of the page, by its bare name or under /assets/<hash>/; false when there is none. The
// names are not routes, so that the routes alone decide between 404 and 405. An outdated hash gets the file of today, but not
// for ever: a page that is being replaced still works.
func (s *Server) getFile(w http.ResponseWriter, r *http.Request) bool {
	name, cache := strings.TrimPrefix(r.URL.Path, "/"), cacheAsk
	if rest, ok := strings.CutPrefix(name, "assets/"); ok {
		name = rest
		if hash, rest, ok := strings.Cut(rest, "/"); ok && len(hash) == pageHashDigits {
			name = rest
			if hash == s.page.hash {
				cache = cacheForever
			}
		}
	}
	f, ok := s.page.files[name]
	if !ok || (r.Method != http.MethodGet && r.Method != http.MethodHead) {
		return false
	}
	s.metrics.requests.WithLabelValues(routeFile).Inc()
	s.serveFile(w, r, f, cache)
	return true
}

func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, f *file, cache string) {
	h := w.Header()
	body, etag := f.body, `"`+f.etag+`"`
	if f.gzip != nil {
		h.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			body, etag = f.gzip, `"`+f.etag+`-gzip"`
		}
	}
	h.Set("ETag", etag)
	h.Set("Cache-Control", cache)
	h.Set("Content-Security-Policy", s.policy)
	h.Set("Referrer-Policy", "same-origin")
	if matchesETag(r, etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if f.gzip != nil && acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", f.mediaType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		w.Write(body)
	}
}
