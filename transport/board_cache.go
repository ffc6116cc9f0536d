package transport

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// cacheBoard is the Cache-Control of everything that shows the board: a shared cache in front asks about once a second and
// answers everybody else itself.
const cacheBoard = "public, max-age=1, stale-while-revalidate=30"

// Header values that do not change, ready for a header map. Nobody changes them in place.
var (
	valueCacheBoard     = []string{cacheBoard}
	valueAcceptEncoding = []string{"Accept-Encoding"}
	valueGzip           = []string{"gzip"}
	valueNosniff        = []string{"nosniff"}
)

// rendition is one form of the board as it goes out, with the header values that go with it: an answer makes none of its own.
type rendition struct {
	body      []byte
	etag      string
	mediaType []string // header values
	tag       []string
	length    []string
}

func newRendition(body []byte, etag, mediaType string) *rendition {
	return &rendition{body: body, etag: etag, mediaType: []string{mediaType}, tag: []string{etag}, length: []string{strconv.Itoa(len(body))}}
}

// boardCache keeps the forms of the newest board body. The plain form is the body itself; the others are made when someone
// asks, one at a time, at most once in RenderEvery, and more rarely when making them takes long: at most a twentieth of a
// processor. Until then those who ask get the last one, which is what a cache in front would give them. Whoever finds ready
// bytes takes no lock.
type boardCache struct {
	newest    atomic.Pointer[plainForm]
	mu        sync.Mutex // held by the one who notes a new body
	gzip, png rendered
	overview  rendered // of large boards too
}

// plainForm is a body with its number, which is part of the ETags of all its forms.
type plainForm struct {
	*rendition
	generation uint64
	tick       uint64 // of the body
}

// current returns the newest body's plain form; nil until the board is loaded.
func (c *boardCache) current(s *Server, mediaType string) *plainForm {
	body, tick := s.deps.Board.BoardBody()
	if body == nil {
		return nil
	}
	if p := c.newest.Load(); p.is(body) {
		return p
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.newest.Load()
	if p.is(body) || p != nil && tick < p.tick { // this reader was overtaken on its way here
		return p
	}
	generation := uint64(1)
	if p != nil {
		generation = p.generation + 1
	}
	p = &plainForm{newRendition(body, fmt.Sprintf(`"%s-%d"`, s.salt, generation), mediaType), generation, tick}
	c.newest.Store(p)
	return p
}

// is reports whether the form is that of the very same body; holding a body keeps its address from being used for another.
func (p *plainForm) is(body []byte) bool {
	return p != nil && len(body) == len(p.body) && len(body) > 0 && &body[0] == &p.body[0]
}

// rendered is the last rendition of one kind.
type rendered struct {
	newest atomic.Pointer[renderedForm]
	mu     sync.Mutex // held while rendering
}

// renderedForm is a rendition with what it was made of and how long it is kept even though the board has changed.
type renderedForm struct {
	*rendition
	generation uint64
	variant    uint64 // of what else went into it
	keepUntil  time.Time
}

// renderShare is how many times longer than the rendering a rendition is kept at least.
const renderShare = 20

// ready returns the form at hand if it need not or may not be replaced yet.
func (r *rendered) ready(generation, variant uint64) *renderedForm {
	f := r.newest.Load()
	switch {
	case f == nil:
		return nil
	case f.generation > generation, f.generation == generation && f.variant == variant, time.Now().Before(f.keepUntil):
		return f
	}
	return nil
}

// get returns a rendition of the body, rendering it if the one at hand is old enough to be replaced; cached says that it was
// not. While one renders, those who come meanwhile get the last one; only the first ever is waited for. variant is a number
// that the rendition also depends on.
func (r *rendered) get(s *Server, of *plainForm, variant uint64, every time.Duration, suffix, mediaType string, render func([]byte) ([]byte, error)) (out *rendition, cached bool, err error) {
	if f := r.ready(of.generation, variant); f != nil {
		return f.rendition, true, nil
	}
	if last := r.newest.Load(); last == nil {
		r.mu.Lock()
	} else if !r.mu.TryLock() {
		return last.rendition, true, nil
	}
	defer r.mu.Unlock()
	if f := r.ready(of.generation, variant); f != nil {
		return f.rendition, true, nil
	}
	began := time.Now()
	body, err := render(of.body)
	if err != nil {
		return nil, false, err
	}
	now := time.Now()
	f := &renderedForm{
		rendition:  newRendition(body, fmt.Sprintf(`"%s-%d.%d-%s"`, s.salt, of.generation, variant, suffix), mediaType),
		generation: of.generation, variant: variant, keepUntil: now.Add(max(every, renderShare*now.Sub(began))),
	}
	r.newest.Store(f)
	return f.rendition, false, nil
}

// serveRendition answers with a whole body, or with 304 when the client has it. encoding is that of the body, nil for none.
func (s *Server) serveRendition(w http.ResponseWriter, r *http.Request, out *rendition, cached bool, encoding []string) {
	h := w.Header()
	h["Etag"] = out.tag
	h["Cache-Control"] = valueCacheBoard
	if matchesETag(r, out.etag) {
		s.metrics.snapshots[snapshot304].Inc()
		w.WriteHeader(http.StatusNotModified)
		return
	}
	result := snapshotMiss
	if cached {
		result = snapshotHit
	}
	s.metrics.snapshots[result].Inc()
	if encoding != nil {
		h["Content-Encoding"] = encoding
	}
	h["Content-Type"] = out.mediaType
	h["Content-Length"] = out.length
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		writeWhole(w, r, out.body)
	}
}
