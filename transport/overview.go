package transport

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// Bounds of the overview.
const (
	overviewPixelsMax = 1_600_000       // of the picture
	overviewEvery     = 5 * time.Second // it is made anew at most so often; more rarely when that takes long
)

// getOverview answers GET /api/v1/overview.png: the whole board in small, whatever its size, for pages that follow only the
// chunks in view. A board that is asked for rarely costs nothing in between.
func (s *Server) getOverview(w http.ResponseWriter, r *http.Request) {
	settings := s.deps.Board.Settings().Settings
	cache := &s.board.overview
	if f := cache.newest.Load(); f != nil && f.variant == settings.Version && time.Now().Before(f.keepUntil) {
		s.serveRendition(w, r, f.rendition, true, nil) // without asking the feed for a body, which is large here
		return
	}
	plain := s.plainBoard(w)
	if plain == nil {
		return
	}
	out, cached, err := cache.get(s, plain, settings.Version, overviewEvery, "overview", "image/png", func(body []byte) ([]byte, error) {
		return renderOverview(body, settings.Palette)
	})
	if err != nil {
		s.failInternal(w, r, err)
		return
	}
	s.serveRendition(w, r, out, cached, nil)
}

// overviewScale returns how many tiles of a side make a pixel: 1, or the smallest divisor of a chunk's side that keeps the
// picture within overviewPixelsMax.
func overviewScale(width, height int) int {
	for _, scale := range []int{1, 2, 5, 10} {
		if width*height <= overviewPixelsMax*scale*scale {
			return scale
		}
	}
	return 25
}

// renderOverview draws an encoded board body in small: every pixel has the commonest colour of the tiles that it stands for.
func renderOverview(encoded []byte, entries []board.PaletteEntry) ([]byte, error) {
	body, err := wire.DecodeBoard(encoded)
	if err != nil {
		return nil, err
	}
	palette := make(color.Palette, len(entries))
	for i, e := range entries {
		palette[i] = color.RGBA{R: uint8(e.RGB >> 16), G: uint8(e.RGB >> 8), B: uint8(e.RGB), A: 0xff}
	}
	scale := overviewScale(body.Width, body.Height)
	img := image.NewPaletted(image.Rect(0, 0, (body.Width+scale-1)/scale, (body.Height+scale-1)/scale), palette)
	var tiles board.Tiles
	for _, c := range body.Chunks {
		if err := tiles.SetImage(c.Image, body.ColourWidth); err != nil {
			return nil, err
		}
		origin := c.Chunk.Origin()
		for y := 0; y < board.ChunkSize && origin.Y+y < body.Height; y += scale {
			for x := 0; x < board.ChunkSize && origin.X+x < body.Width; x += scale {
				if colour := commonest(&tiles, x, y, scale); int(colour) < len(palette) {
					img.SetColorIndex((origin.X+x)/scale, (origin.Y+y)/scale, uint8(colour))
				}
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

// commonest returns the colour that most tiles of a square of a chunk have, the lower one of two.
func commonest(tiles *board.Tiles, x, y, scale int) board.Colour {
	var counts [board.PaletteMax]uint16
	best := tiles[y*board.ChunkSize+x]
	for row := y; row < y+scale; row++ {
		for _, c := range tiles[row*board.ChunkSize+x : row*board.ChunkSize+x+scale] {
			counts[c]++
			if counts[c] > counts[best] || counts[c] == counts[best] && c < best {
				best = c
			}
		}
	}
	return best
}
