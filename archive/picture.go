package archive

import (
	"context"
	"fmt"
	"image"
	"image/color"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Picture is a rectangle of a board at some time.
type Picture struct {
	Rect    board.Rect
	Colours []board.Colour // row by row, Rect.Width*Rect.Height
}

// NewPicture returns an untouched board.
func NewPicture(r board.Rect) *Picture {
	return &Picture{Rect: r, Colours: make([]board.Colour, r.Width*r.Height)}
}

// Set colours a tile; one outside of the picture is passed over.
func (p *Picture) Set(at board.Point, c board.Colour) {
	if p.Rect.Contains(at) {
		p.Colours[(at.Y-p.Rect.Y)*p.Rect.Width+at.X-p.Rect.X] = c
	}
}

// At returns the colour of a tile; outside of the picture colour 0.
func (p *Picture) At(at board.Point) board.Colour {
	if !p.Rect.Contains(at) {
		return 0
	}
	return p.Colours[(at.Y-p.Rect.Y)*p.Rect.Width+at.X-p.Rect.X]
}

// Image draws the picture in a palette, one pixel a tile. A colour beyond the palette is drawn as the first.
func (p *Picture) Image(entries []board.PaletteEntry) *image.Paletted {
	return p.part(image.Rect(0, 0, p.Rect.Width, p.Rect.Height), entries)
}

// Palette returns a board's colours for images.
func Palette(entries []board.PaletteEntry) color.Palette {
	palette := make(color.Palette, len(entries))
	for i, e := range entries {
		palette[i] = color.RGBA{R: uint8(e.RGB >> 16), G: uint8(e.RGB >> 8), B: uint8(e.RGB), A: 0xff}
	}
	return palette
}

// BoardAt returns the board as its placements up to and including a time left it: of each tile the last one in the order of the
// journal. The rectangle must be valid.
//
// Cost: it reads the whole journal of each block that meets the rectangle, about half a microsecond a placement, one block
// after the other: 2 MiB of memory beside the picture. A board at a past time never changes: keep it.
func BoardAt(ctx context.Context, j Journals, r board.Rect, atMs int64) (*Picture, error) {
	if !r.Valid() {
		return nil, fmt.Errorf("archive: the rectangle (%d,%d %dx%d) does not lie within 0..%d", r.X, r.Y, r.Width, r.Height, board.SideMax-1)
	}
	blocks, err := j.Blocks(ctx)
	if err != nil {
		return nil, fmt.Errorf("archive: list blocks: %w", err)
	}
	out := NewPicture(r)
	for _, b := range blocks {
		if !r.Meets(b.Rect()) {
			continue
		}
		for entry, err := range j.Journal(ctx, store.Block(b), 1) {
			var commit store.BlockCommit
			if err == nil {
				commit, err = store.DecodeBlockCommit(entry.Value)
			}
			if err != nil {
				return nil, fmt.Errorf("archive: %v: %w", store.Block(b), err)
			}
			for i := range commit.Placements {
				if p := &commit.Placements[i]; p.AtMs <= atMs {
					out.Set(p.Point(), p.Colour)
				}
			}
		}
	}
	return out, nil
}
