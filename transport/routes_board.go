package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// cacheBoard is the Cache-Control of everything that shows the board: a shared cache in front asks about once a second and
// answers everybody else itself.
const cacheBoard = "public, max-age=1, stale-while-revalidate=30"

// rendition is one form of the board as it goes out.
type rendition struct {
	body []byte
	etag string
}

// boardCache keeps the forms of the newest board body. The plain form is the body itself; the others are made when someone
// asks, one at a time, at most once in RenderEvery, and more rarely when making them takes long: at most a twentieth of a
// processor. Until then those who ask get the last one, which is what a cache in front would give them.
type boardCache struct {
	mu         sync.Mutex // guards the fields below
	body       []byte     // the newest body seen
	generation uint64     // counts them; part of the ETags
	gzip, png  rendered
}

// rendered is the last rendition of one kind.
type rendered struct {
	mu         sync.Mutex // held while rendering; guards the fields below
	rendition  rendition
	generation uint64
	variant    uint64 // of what else went into it
	at         time.Time
	took       time.Duration
}

// renderShare is how many times longer than the rendering a rendition is kept at least.
const renderShare = 20

// current returns the newest body and its number.
func (c *boardCache) current(b BoardReader) ([]byte, uint64) {
	body, _ := b.BoardBody()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(body) != len(c.body) || (len(body) > 0 && &body[0] != &c.body[0]) {
		c.body = body // holding it keeps its address from being used for another
		c.generation++
	}
	return body, c.generation
}

// get returns a rendition of the body, rendering it if the one at hand is old enough to be replaced. variant is a number that
// the rendition also depends on.
func (r *rendered) get(s *Server, body []byte, generation, variant uint64, suffix string, render func([]byte) ([]byte, error)) (rendition, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rendition.body != nil {
		same := r.generation == generation && r.variant == variant
		if same || time.Since(r.at) < max(s.cfg.RenderEvery, renderShare*r.took) {
			return r.rendition, true, nil
		}
	}
	began := time.Now()
	out, err := render(body)
	if err != nil {
		return rendition{}, false, err
	}
	r.generation, r.variant, r.at = generation, variant, time.Now()
	r.took = r.at.Sub(began)
	r.rendition = rendition{body: out, etag: fmt.Sprintf(`"%s-%d.%d-%s"`, s.salt, generation, variant, suffix)}
	return r.rendition, false, nil
}

// getBoard answers GET and HEAD /api/v1/board: the packed board of wire.BoardBody, plain or gzip. It reads no cookie and no
// query string and sets none, so any cache may keep it.
func (s *Server) getBoard(w http.ResponseWriter, r *http.Request) {
	body, generation := s.board.current(s.deps.Board)
	if body == nil {
		s.metrics.snapshots[snapshotWait].Inc()
		s.fail(w, refusalProblem(board.CodeLoading, 0))
		return
	}
	out, cached := rendition{body: body, etag: fmt.Sprintf(`"%s-%d"`, s.salt, generation)}, true
	w.Header().Set("Vary", "Accept-Encoding")
	if acceptsGzip(r) {
		var err error
		if out, cached, err = s.board.gzip.get(s, body, generation, 0, "gzip", compress); err != nil {
			s.failInternal(w, r, err)
			return
		}
		if !matchesETag(r, out.etag) {
			w.Header().Set("Content-Encoding", "gzip")
		}
	}
	s.serveRendition(w, r, out, cached, wire.BoardType)
}

// serveRendition answers with a whole body, or with 304 when the client has it.
func (s *Server) serveRendition(w http.ResponseWriter, r *http.Request, out rendition, cached bool, mediaType string) {
	h := w.Header()
	h.Set("ETag", out.etag)
	h.Set("Cache-Control", cacheBoard)
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
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(out.body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		w.Write(out.body)
	}
}

// gzipLevel is where klauspost's gzip takes a few milliseconds for a busy board of a million tiles.
const gzipLevel = 5

func compress(body []byte) ([]byte, error) {
	var out bytes.Buffer
	gz, err := gzip.NewWriterLevel(&out, gzipLevel)
	if err != nil {
		return nil, err
	}
	if _, err := gz.Write(body); err != nil {
		return nil, err
	}
	if err := gz.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// getBoardPNG answers GET /api/v1/board.png: one pixel a tile, in the palette's colours. Boards that are not sent whole have
// none.
func (s *Server) getBoardPNG(w http.ResponseWriter, r *http.Request) {
	settings := s.deps.Board.Settings().Settings
	if !settings.Whole() {
		s.fail(w, newProblem(problemBoardLarge, ""))
		return
	}
	body, generation := s.board.current(s.deps.Board)
	if body == nil {
		s.metrics.snapshots[snapshotWait].Inc()
		s.fail(w, refusalProblem(board.CodeLoading, 0))
		return
	}
	out, cached, err := s.board.png.get(s, body, generation, settings.Version, "png", func(body []byte) ([]byte, error) {
		return renderPNG(body, settings.Palette)
	})
	if err != nil {
		s.failInternal(w, r, err)
		return
	}
	s.serveRendition(w, r, out, cached, "image/png")
}

// renderPNG draws an encoded board body. A colour beyond the palette, which settings newer than the body could lack, is drawn
// as the first.
func renderPNG(encoded []byte, entries []board.PaletteEntry) ([]byte, error) {
	body, err := wire.DecodeBoard(encoded)
	if err != nil {
		return nil, err
	}
	palette := make(color.Palette, len(entries))
	for i, e := range entries {
		palette[i] = color.RGBA{R: uint8(e.RGB >> 16), G: uint8(e.RGB >> 8), B: uint8(e.RGB), A: 0xff}
	}
	img := image.NewPaletted(image.Rect(0, 0, body.Width, body.Height), palette)
	var tiles board.Tiles
	for _, c := range body.Chunks {
		if err := tiles.SetImage(c.Image, body.ColourWidth); err != nil {
			return nil, err
		}
		origin := c.Chunk.Origin()
		for i, colour := range tiles {
			x, y := origin.X+i%board.ChunkSize, origin.Y+i/board.ChunkSize
			if x < body.Width && y < body.Height && int(colour) < len(palette) {
				img.Pix[y*img.Stride+x] = uint8(colour)
			}
		}
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := encoder.Encode(&out, img); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Headers of a chunk's image.
const (
	headerSequence = "Placed-Sequence" // of the chunk
	headerWidth    = "Placed-Width"    // bits of a colour: 4 or 8
	headerEpoch    = "Placed-Epoch"    // 16 hexadecimal digits
)

// getChunk answers GET /api/v1/chunks/{col}/{row}: the packed image of one chunk, with its sequence, width and epoch in
// headers.
func (s *Server) getChunk(w http.ResponseWriter, r *http.Request) {
	col, okCol := pathNumber(r, "col")
	row, okRow := pathNumber(r, "row")
	if !okCol || !okRow {
		s.fail(w, newProblem(problemBadRequest, "column and row are whole numbers"))
		return
	}
	const side = board.SideMax / board.ChunkSize
	settings := s.deps.Board.Settings().Settings
	if col < 0 || row < 0 || col >= side || row >= side || !settings.HasChunk(board.NewChunkID(col, row)) {
		s.fail(w, refusalProblem(board.CodeBounds, 0))
		return
	}
	sequence, width, packed, ok := s.deps.Board.ChunkImage(board.NewChunkID(col, row))
	if !ok {
		s.fail(w, refusalProblem(board.CodeLoading, 0))
		return
	}
	epoch := epochText(s.deps.Board.Epoch())
	h := w.Header()
	h.Set(headerSequence, strconv.FormatUint(sequence, 10))
	h.Set(headerWidth, strconv.Itoa(int(width)))
	h.Set(headerEpoch, epoch)
	s.serveRendition(w, r, rendition{body: packed, etag: fmt.Sprintf(`"%s-%d-%d"`, epoch, sequence, width)}, true, wire.BoardType)
}

// getTile answers GET /api/v1/tiles/{x}/{y}: who placed the tile and when.
func (s *Server) getTile(w http.ResponseWriter, r *http.Request) {
	x, okX := pathNumber(r, "x")
	y, okY := pathNumber(r, "y")
	if !okX || !okY {
		s.fail(w, newProblem(problemBadRequest, "x and y are whole numbers"))
		return
	}
	p := board.Point{X: x, Y: y}
	settings := s.deps.Board.Settings().Settings
	if !settings.Bounds().Contains(p) {
		s.fail(w, refusalProblem(board.CodeBounds, 0))
		return
	}
	ctx, cancel := s.readContext(r)
	defer cancel()
	details, err := s.deps.Board.Tile(ctx, p)
	if err != nil {
		s.storeFailed(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, "public, max-age=1", details)
}

// pathNumber reads a whole number of at most 9 digits in its one canonical form, so that a resource has one address.
func pathNumber(r *http.Request, name string) (int, bool) {
	text := r.PathValue(name)
	n, err := strconv.Atoi(text)
	return n, err == nil && len(text) <= 10 && strconv.Itoa(n) == text
}

func epochText(epoch uint64) string { return fmt.Sprintf("%016x", epoch) }

// config is the answer to GET /api/v1/config: what a client has to know that is the same for everybody.
type config struct {
	Epoch          string         `json:"epoch"` // 16 hexadecimal digits
	Version        string         `json:"version"`
	Protocol       int            `json:"protocol"`
	Subprotocol    string         `json:"subprotocol"`
	Auth           string         `json:"auth"` // "open": anybody gets an identity for the asking
	Whole          bool           `json:"whole"`
	ChunkSize      int            `json:"chunk_size"`
	Online         int            `json:"online"`
	ServerTimeMs   int64          `json:"server_time_ms"`
	MessageBytes   int            `json:"message_bytes_max"`
	MessagesPerSec int            `json:"messages_per_second"`
	PingAfterMs    int64          `json:"ping_after_ms"`
	DeadAfterMs    int64          `json:"dead_after_ms"`
	Settings       board.Settings `json:"settings"`
}

// getConfig answers GET /api/v1/config. It says nothing about who asks: that is /api/v1/me.
func (s *Server) getConfig(w http.ResponseWriter, _ *http.Request) {
	settings := s.deps.Board.Settings().Settings
	writeJSON(w, http.StatusOK, "public, max-age=1", config{
		Epoch: epochText(s.deps.Board.Epoch()), Version: s.cfg.Version, Protocol: wire.Protocol, Subprotocol: Subprotocol,
		Auth: "open", Whole: settings.Whole(), ChunkSize: board.ChunkSize, Online: s.deps.Board.Online(),
		ServerTimeMs: time.Now().UnixMilli(), MessageBytes: wire.ClientMessageBytesMax, MessagesPerSec: s.cfg.MessagesPerSecond,
		PingAfterMs: s.cfg.PingAfter.Milliseconds(), DeadAfterMs: s.cfg.DeadAfter.Milliseconds(), Settings: settings,
	})
}

// storeFailed answers a question that the store did not answer.
func (s *Server) storeFailed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("a question failed", "path", r.URL.Path, "err", err)
	}
	p := refusalProblem(board.CodeStore, 0)
	p.Title = "The board's store does not answer at the moment."
	s.fail(w, p)
}

func (s *Server) failInternal(w http.ResponseWriter, r *http.Request, err error) {
	s.log.Error("a request failed", "path", r.URL.Path, "err", err)
	s.fail(w, newProblem(problemInternal, ""))
}
