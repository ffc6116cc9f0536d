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
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// getBoard answers GET and HEAD /api/v1/board: the packed board of wire.BoardBody, plain or gzip. It reads no cookie and no
// query string and sets none, so any cache may keep it. It always answers with all of the board, whatever Range asks for.
func (s *Server) getBoard(w http.ResponseWriter, r *http.Request) {
	plain := s.plainBoard(w)
	if plain == nil {
		return
	}
	w.Header()["Vary"] = valueAcceptEncoding
	if !acceptsGzip(r) {
		s.serveRendition(w, r, plain.rendition, true, nil)
		return
	}
	out, cached, err := s.board.gzip.get(s, plain, 0, s.cfg.RenderEvery, "gzip", wire.BoardType, compress)
	if err != nil {
		s.failInternal(w, r, err)
		return
	}
	s.serveRendition(w, r, out, cached, valueGzip)
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

// plainBoard returns the board's newest body as it goes over the wire; nil when there is none yet, which it has answered then.
func (s *Server) plainBoard(w http.ResponseWriter) *plainForm {
	plain := s.board.current(s, wire.BoardType)
	if plain == nil {
		s.metrics.snapshots[snapshotWait].Inc()
		s.fail(w, refusalProblem(board.CodeLoading, 0))
	}
	return plain
}

// getBoardPNG answers GET /api/v1/board.png: one pixel a tile, in the palette's colours. Boards that are not sent whole have
// none.
func (s *Server) getBoardPNG(w http.ResponseWriter, r *http.Request) {
	settings := s.deps.Board.Settings().Settings
	if !settings.Whole() {
		s.fail(w, newProblem(problemBoardLarge, ""))
		return
	}
	plain := s.plainBoard(w)
	if plain == nil {
		return
	}
	out, cached, err := s.board.png.get(s, plain, settings.Version, s.cfg.RenderEvery, "png", "image/png", func(body []byte) ([]byte, error) {
		return renderPNG(body, settings.Palette)
	})
	if err != nil {
		s.failInternal(w, r, err)
		return
	}
	s.serveRendition(w, r, out, cached, nil)
}

// renderPNG draws an encoded board body. A colour beyond the palette, which settings newer than the body could lack, is drawn
// as the first.
func renderPNG(encoded []byte, entries []board.PaletteEntry) ([]byte, error) {
	body, err := wire.DecodeBoard(encoded)
	if err != nil {
		return nil, err
	}
	palette := paletteOf(entries)
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

// paletteOf returns a board's colours for images.
func paletteOf(entries []board.PaletteEntry) color.Palette {
	palette := make(color.Palette, len(entries))
	for i, e := range entries {
		palette[i] = color.RGBA{R: uint8(e.RGB >> 16), G: uint8(e.RGB >> 8), B: uint8(e.RGB), A: 0xff}
	}
	return palette
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
	s.serveRendition(w, r, newRendition(packed, fmt.Sprintf(`"%s-%d-%d"`, epoch, sequence, width), wire.BoardType), true, nil)
}

// pathTile returns the tile of the board that a path names; false says that the request was answered.
func (s *Server) pathTile(w http.ResponseWriter, r *http.Request) (board.Point, bool) {
	x, okX := pathNumber(r, "x")
	y, okY := pathNumber(r, "y")
	if !okX || !okY {
		s.fail(w, newProblem(problemBadRequest, "x and y are whole numbers"))
		return board.Point{}, false
	}
	p := board.Point{X: x, Y: y}
	settings := s.deps.Board.Settings().Settings
	if !settings.Bounds().Contains(p) {
		s.fail(w, refusalProblem(board.CodeBounds, 0))
		return p, false
	}
	return p, true
}

// getTile answers GET /api/v1/tiles/{x}/{y}: who placed the tile and when.
func (s *Server) getTile(w http.ResponseWriter, r *http.Request) {
	p, ok := s.pathTile(w, r)
	if !ok {
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
	Auth           Auth           `json:"auth"`                  // "open": anybody gets an identity for the asking; "jwt", "proxy", "invite"
	SignInURL      string         `json:"sign_in_url,omitempty"` // where people sign in, when that is not here
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
	settings.Plan = nil // who plans what is the operators' business
	writeJSON(w, http.StatusOK, "public, max-age=1", config{
		Epoch: epochText(s.deps.Board.Epoch()), Version: s.cfg.Version, Protocol: wire.Protocol, Subprotocol: Subprotocol,
		Auth: s.cfg.Auth, SignInURL: s.cfg.SignInURL, Whole: settings.Whole(), ChunkSize: board.ChunkSize, Online: s.deps.Board.Online(),
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
