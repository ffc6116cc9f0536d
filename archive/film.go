package archive

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"io"
	"iter"

	"github.com/placed-board/placed/board"
)

// FilmPixelsMax bounds what a GIF holds: its pixels are in memory until it is written.
const FilmPixelsMax = 256 << 20

// FramesMax bounds the pictures of a film.
const FramesMax = 100_000

// ErrFilmLarge says that a GIF would be too large: take fewer frames, a part of the board, or single frames.
var ErrFilmLarge = errors.New("too large for a gif: take fewer frames, a rectangle, or frames as files")

// Dot is one tile that was coloured.
type Dot struct {
	AtMs   int64
	At     board.Point
	Colour board.Colour
}

// Dots yields the tiles of placements up to a time, in the order of Placements.
func Dots(ctx context.Context, j Journals, r board.Rect, toMs int64) iter.Seq2[Dot, error] {
	return func(yield func(Dot, error) bool) {
		for p, err := range Placements(ctx, j, Span{ToMs: toMs, Rect: r}) {
			if !yield(Dot{p.AtMs, p.Point(), p.Colour}, err) {
				return
			}
		}
	}
}

// Film says what pictures a film has: one at FromMs, then one every StepMs up to ToMs.
type Film struct {
	Rect         board.Rect
	FromMs, ToMs int64
	StepMs       int64
}

// Validate returns what is impossible.
func (f *Film) Validate() error {
	switch {
	case !f.Rect.Valid():
		return errors.New("the rectangle has no tiles")
	case f.StepMs < 1 || f.ToMs < f.FromMs:
		return errors.New("the span ends before it begins, or the step is none")
	case f.frames() > FramesMax:
		return fmt.Errorf("%d frames are more than %d", f.frames(), FramesMax)
	}
	return nil
}

func (f *Film) frames() int64 { return (f.ToMs-f.FromMs)/f.StepMs + 1 }

// Changed is the part of a picture that differs from the one before, in the picture's own coordinates.
type Changed = image.Rectangle

// Frames calls show with the picture at each time, and what has changed since the one before; of the
// first it is all. The picture is the same one, changed, each time. Dots come about in the order of time.
func (f *Film) Frames(dots iter.Seq2[Dot, error], show func(atMs int64, p *Picture, changed Changed) error) error {
	if err := f.Validate(); err != nil {
		return fmt.Errorf("archive: film: %w", err)
	}
	p := NewPicture(f.Rect)
	nextMs, changed := f.FromMs, image.Rect(0, 0, f.Rect.Width, f.Rect.Height)
	for d, err := range dots {
		if err != nil {
			return err
		}
		for d.AtMs > nextMs && nextMs <= f.ToMs {
			if err := show(nextMs, p, changed); err != nil {
				return err
			}
			nextMs += f.StepMs
			changed = image.Rectangle{}
		}
		if nextMs > f.ToMs {
			return nil
		}
		if f.Rect.Contains(d.At) && p.At(d.At) != d.Colour {
			p.Set(d.At, d.Colour)
			x, y := d.At.X-f.Rect.X, d.At.Y-f.Rect.Y
			changed = changed.Union(image.Rect(x, y, x+1, y+1))
		}
	}
	for ; nextMs <= f.ToMs; nextMs += f.StepMs {
		if err := show(nextMs, p, changed); err != nil {
			return err
		}
		changed = image.Rectangle{}
	}
	return nil
}

// WriteGIF writes the film as an animation that runs for ever, each picture for delay hundredths of a second. A picture holds
// only what has changed. The error wraps ErrFilmLarge when they have more than FilmPixelsMax pixels.
func (f *Film) WriteGIF(w io.Writer, dots iter.Seq2[Dot, error], palette []board.PaletteEntry, delay int) error {
	g := gif.GIF{Config: image.Config{Width: f.Rect.Width, Height: f.Rect.Height, ColorModel: Palette(palette)}}
	pixels := 0
	err := f.Frames(dots, func(_ int64, p *Picture, changed Changed) error {
		if changed.Empty() {
			if n := len(g.Delay); n > 0 && g.Delay[n-1] <= gifDelayMax-delay {
				g.Delay[n-1] += delay // nothing is new: the picture before stays longer
				return nil
			}
			changed = image.Rect(0, 0, 1, 1)
		}
		if pixels += changed.Dx() * changed.Dy(); pixels > FilmPixelsMax {
			return fmt.Errorf("archive: film: %w", ErrFilmLarge)
		}
		g.Image = append(g.Image, p.part(changed, palette))
		g.Delay = append(g.Delay, delay)
		g.Disposal = append(g.Disposal, gif.DisposalNone)
		return nil
	})
	if err != nil {
		return err
	}
	if err := gif.EncodeAll(w, &g); err != nil {
		return fmt.Errorf("archive: film: %w", err)
	}
	return nil
}

// gifDelayMax is the longest that a picture of a GIF stays, in hundredths of a second.
const gifDelayMax = 1<<16 - 1

// part draws a rectangle of the picture.
func (p *Picture) part(r image.Rectangle, palette []board.PaletteEntry) *image.Paletted {
	img := image.NewPaletted(r, Palette(palette))
	for y := r.Min.Y; y < r.Max.Y; y++ {
		row := img.Pix[(y-r.Min.Y)*img.Stride:]
		for x := r.Min.X; x < r.Max.X; x++ {
			if c := p.Colours[y*p.Rect.Width+x]; int(c) < len(palette) {
				row[x-r.Min.X] = uint8(c)
			}
		}
	}
	return img
}

// RowDots yields the tiles of a reader's rows. A row that cannot be used is an error like any other.
func RowDots(r *Reader) iter.Seq2[Dot, error] {
	return func(yield func(Dot, error) bool) {
		for {
			var row Row
			err := r.Next(&row)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				err = row.Area.Tiles(func(at board.Point) error {
					if !yield(Dot{row.AtMs, at, row.Colour}, nil) {
						return errStop
					}
					return nil
				})
				if err == nil {
					continue
				}
			}
			if !errors.Is(err, errStop) {
				yield(Dot{}, err)
			}
			return
		}
	}
}

var errStop = errors.New("nobody wants more")
