package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/bits"
	"net/http"
	"strconv"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// Bounds of questions about the past.
const (
	pastStepMs     = 1000 // times are asked for in whole seconds, so that caches serve many
	pastCost       = 20   // requests of the address's ration that an answer takes
	heatMinutesMax = 24 * 60
	heatLevels     = 16 // shades of a heat map
)

// Past answers questions about the board's past. Both methods may take minutes.
type Past interface {
	// BoardAt returns the board at a time in Unix milliseconds.
	BoardAt(ctx context.Context, atMs int64) (*board.PastBoard, error)
	// Heat counts people's placements from a time to another one, by tile.
	Heat(ctx context.Context, fromMs, toMs int64) (*board.Heat, error)
}

// errPastLarge says that the board was too large to be sent whole.
var errPastLarge = errors.New("transport: the board is too large to be sent whole")

// getPastBoard answers GET /api/v1/past/{epoch}/board: the packed board at a time, without tick and incarnation; each chunk's
// sequence is the highest by then.
func (s *Server) getPastBoard(w http.ResponseWriter, r *http.Request) {
	s.servePastBoard(w, r, "board", wire.BoardType, func(b *board.PastBoard) ([]byte, error) {
		width := b.Settings.ColourWidth()
		body := wire.BoardBody{Epoch: s.deps.Board.Epoch(), Width: b.Settings.Width, Height: b.Settings.Height, ColourWidth: width}
		for _, c := range b.Chunks {
			body.Chunks = append(body.Chunks, wire.BodyChunk{Chunk: c.Chunk, Sequence: c.Sequence, Image: c.Tiles.AppendImage(nil, width)})
		}
		return wire.AppendBoard(nil, &body), nil
	})
}

// getPastBoardPNG answers GET /api/v1/past/{epoch}/board.png: the board at a time, one pixel a tile, in the palette of that time.
func (s *Server) getPastBoardPNG(w http.ResponseWriter, r *http.Request) {
	s.servePastBoard(w, r, "board.png", "image/png", func(b *board.PastBoard) ([]byte, error) {
		bounds := b.Settings.Bounds()
		colours := make([]board.Colour, bounds.Width*bounds.Height)
		for _, c := range b.Chunks {
			for tile, colour := range c.Tiles {
				if p := c.Chunk.Point(tile); bounds.Contains(p) {
					colours[p.Y*bounds.Width+p.X] = colour
				}
			}
		}
		return drawTiles(bounds, colours, b.Settings.Palette)
	})
}

// servePastBoard answers with a form of the board at the query's time. The epoch is part of the address because what is said of
// a board's past is said for ever, and another board may come to the same place.
func (s *Server) servePastBoard(w http.ResponseWriter, r *http.Request, what, mediaType string, form func(*board.PastBoard) ([]byte, error)) {
	epoch := epochText(s.deps.Board.Epoch())
	if r.PathValue("epoch") != epoch {
		s.fail(w, newProblem(problemNotFound, "this is the board of epoch "+epoch))
		return
	}
	query, p := readQuery(r, "at_ms")
	if p != nil {
		s.fail(w, p)
		return
	}
	at, ok := canonical(query["at_ms"])
	if !ok || at < 0 || at%pastStepMs != 0 || int64(at) > time.Now().UnixMilli() {
		s.fail(w, newProblem(problemBadRequest, fmt.Sprintf("at_ms is needed: a time in the past in Unix milliseconds, a multiple of %d", pastStepMs)))
		return
	}
	key := pastKey{what: what, at: int64(at)}
	s.servePast(w, r, key, fmt.Sprintf(`"%s-%s-%d"`, epoch, what, at), mediaType, func(ctx context.Context) ([]byte, bool, error) {
		b, err := s.deps.Past.BoardAt(ctx, int64(at))
		if err != nil {
			return nil, false, err
		}
		if !b.Settings.Whole() {
			return nil, false, errPastLarge
		}
		out, err := form(b)
		return out, b.Settled, err
	})
}

// getHeat answers GET /api/v1/heat.png: where people placed in the last minutes, one pixel a tile, the more the brighter;
// transparent where nobody did.
func (s *Server) getHeat(w http.ResponseWriter, r *http.Request) {
	query, p := readQuery(r, "minutes")
	if p != nil {
		s.fail(w, p)
		return
	}
	minutes, ok := 60, true
	if text, given := query["minutes"]; given {
		minutes, ok = canonical(text)
	}
	if !ok || minutes < 1 || minutes > heatMinutesMax {
		s.fail(w, newProblem(problemBadRequest, fmt.Sprintf("minutes is a whole number from 1 to %d", heatMinutesMax)))
		return
	}
	if settings := s.deps.Board.Settings().Settings; !settings.Whole() {
		s.fail(w, newProblem(problemBoardLarge, ""))
		return
	}
	toMs := time.Now().UnixMilli()
	s.servePast(w, r, pastKey{what: "heat", at: int64(minutes)}, "", "image/png", func(ctx context.Context) ([]byte, bool, error) {
		heat, err := s.deps.Past.Heat(ctx, toMs-int64(minutes)*60_000, toMs)
		if err != nil {
			return nil, false, err
		}
		out, err := drawHeat(heat)
		return out, false, err
	})
}

// drawHeat draws counts by their number of bits: transparent, then from dark red over yellow to white.
func drawHeat(h *board.Heat) ([]byte, error) {
	palette := color.Palette{color.NRGBA{}}
	for level := 1; level < heatLevels; level++ {
		ramp := func(from int) uint8 { return uint8(max(0, min(255, (level-from)*255/5))) }
		palette = append(palette, color.NRGBA{R: max(ramp(0), 64), G: ramp(4), B: ramp(9), A: 0xff})
	}
	img := image.NewPaletted(image.Rect(0, 0, h.Width, h.Height), palette)
	for i, n := range h.Counts {
		img.Pix[i] = uint8(min(bits.Len32(n), heatLevels-1))
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	err := encoder.Encode(&out, img)
	return out.Bytes(), err
}

// servePast answers from what is kept, or makes it. etag is of an answer that never changes; "" when none is such.
func (s *Server) servePast(w http.ResponseWriter, r *http.Request, key pastKey, etag, mediaType string, make pastMaker) {
	if p := s.ration(r, pastCost); p != nil {
		s.fail(w, p)
		return
	}
	ctx, cancel := s.readContext(r)
	defer cancel()
	answer, err := s.past.get(ctx, key, make)
	switch {
	case errors.Is(err, errPastBusy), err != nil && ctx.Err() != nil && r.Context().Err() == nil:
		s.fail(w, refusalProblem(board.CodeBusy, pastRetryMs))
		return
	case errors.Is(err, errPastLarge):
		s.fail(w, newProblem(problemBoardLarge, ""))
		return
	case err != nil:
		s.storeFailed(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "public, max-age="+strconv.Itoa(int(pastFresh/time.Second)))
	if answer.settled {
		h.Set("Cache-Control", cacheForEver)
		h.Set("ETag", etag)
		if matchesETag(r, etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(answer.body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		writeWhole(w, r, answer.body)
	}
}
