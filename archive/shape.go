package archive

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/placed-board/placed/board"
)

// Shape is the form of a history file. Each is told by the file's first line.
type Shape string

// The shapes of the public r/place histories.
const (
	// Shape2017 is ts (Unix milliseconds), user, x_coordinate, y_coordinate, color (an index).
	Shape2017 Shape = "2017"
	// Shape2022 is timestamp ("2022-04-03 17:38:22.252 UTC"), user_id, pixel_color ("#FF3881"), coordinate ("x,y", or
	// "x1,y1,x2,y2" for a rectangle with both corners in it).
	Shape2022 Shape = "2022"
	// Shape2023 is timestamp, user, coordinate (also negative, and "{X: 424, Y: 336, R: 3}" or "x,y,r" for a circle),
	// pixel_color.
	Shape2023 Shape = "2023"
)

// Header2017 is the first line of a file of Shape2017, as export writes it.
const Header2017 = "ts,user,x_coordinate,y_coordinate,color"

// columns tells where a shape has what.
type columns struct {
	shape                      Shape
	count                      int
	time, user, colour, place  int // place: the coordinate, or x with y in the next column
	separate, indexed, circles bool
}

var shapes = map[string]columns{
	Header2017: {shape: Shape2017, count: 5, time: 0, user: 1, place: 2, colour: 4, separate: true, indexed: true},
	"ts,user_hash,x_coordinate,y_coordinate,color": {shape: Shape2017, count: 5, time: 0, user: 1, place: 2, colour: 4, separate: true, indexed: true},
	"timestamp,user_id,pixel_color,coordinate":     {shape: Shape2022, count: 4, time: 0, user: 1, colour: 2, place: 3},
	"timestamp,user,coordinate,pixel_color":        {shape: Shape2023, count: 4, time: 0, user: 1, place: 2, colour: 3, circles: true},
}

// columnsMax is the most columns that a shape has.
const columnsMax = 5

// Layout says how a history lies on a board.
type Layout struct {
	Origin  board.Point // the coordinate in the files that becomes tile (0,0)
	Width   int         // of the board in tiles
	Height  int
	Palette []board.PaletteEntry // colours named by index, or by their value, where several have it the first
}

// Layout returns what fits the public files of the shape: 1000x1000 tiles in 16 colours; 2000x2000 in 32; 3000x2000 around
// (0,0) in 32.
func (s Shape) Layout() Layout {
	switch s {
	case Shape2022:
		return Layout{Width: 2000, Height: 2000, Palette: Palette2022()}
	case Shape2023:
		return Layout{Origin: board.Point{X: -1500, Y: -1000}, Width: 3000, Height: 2000, Palette: Palette2022()}
	case Shape2017:
	}
	return Layout{Width: 1000, Height: 1000, Palette: board.DefaultPalette()}
}

// Palette2022 returns the 32 colours of 2022 and 2023, white first: what nobody has placed on is of the first colour.
func Palette2022() []board.PaletteEntry {
	return []board.PaletteEntry{
		{Name: "white", RGB: 0xffffff},
		{Name: "burgundy", RGB: 0x6d001a},
		{Name: "dark red", RGB: 0xbe0039},
		{Name: "red", RGB: 0xff4500},
		{Name: "orange", RGB: 0xffa800},
		{Name: "yellow", RGB: 0xffd635},
		{Name: "pale yellow", RGB: 0xfff8b8},
		{Name: "dark green", RGB: 0x00a368},
		{Name: "green", RGB: 0x00cc78},
		{Name: "light green", RGB: 0x7eed56},
		{Name: "dark teal", RGB: 0x00756f},
		{Name: "teal", RGB: 0x009eaa},
		{Name: "light teal", RGB: 0x00ccc0},
		{Name: "dark blue", RGB: 0x2450a4},
		{Name: "blue", RGB: 0x3690ea},
		{Name: "light blue", RGB: 0x51e9f4},
		{Name: "indigo", RGB: 0x493ac1},
		{Name: "periwinkle", RGB: 0x6a5cff},
		{Name: "lavender", RGB: 0x94b3ff},
		{Name: "dark purple", RGB: 0x811e9f},
		{Name: "purple", RGB: 0xb44ac0},
		{Name: "pale purple", RGB: 0xe4abff},
		{Name: "magenta", RGB: 0xde107f},
		{Name: "pink", RGB: 0xff3881},
		{Name: "light pink", RGB: 0xff99aa},
		{Name: "dark brown", RGB: 0x6d482f},
		{Name: "brown", RGB: 0x9c6926},
		{Name: "beige", RGB: 0xffb470},
		{Name: "black", RGB: 0x000000},
		{Name: "dark grey", RGB: 0x515252},
		{Name: "grey", RGB: 0x898d90},
		{Name: "light grey", RGB: 0xd4d7d9},
	}
}

// Times of a history, Unix milliseconds.
const (
	timeMsMin = 0             // 1970-01-01
	timeMsMax = 4102444800000 // 2100-01-01: the first time that is too late
	timeForm  = "2006-01-02 15:04:05"
)

// parseTime takes Unix milliseconds, or a date with time of day in UTC with or without a fraction and " UTC".
func parseTime(text string) (int64, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		at, err := time.Parse(timeForm, strings.TrimSuffix(text, " UTC"))
		if err != nil {
			return 0, fmt.Errorf("time %q is neither Unix milliseconds nor like %q", text, "2022-04-03 17:38:22.252 UTC")
		}
		ms = at.UnixMilli()
	}
	if ms < timeMsMin || ms >= timeMsMax {
		return 0, fmt.Errorf("time %q is not within the years 1970 to 2099", text)
	}
	return ms, nil
}

// parser turns the fields of a row into a Row.
type parser struct {
	columns columns
	layout  Layout
	colours map[uint32]board.Colour // by value
}

func newParser(c columns, l Layout) *parser {
	p := &parser{columns: c, layout: l, colours: map[uint32]board.Colour{}}
	for i := len(l.Palette) - 1; i >= 0; i-- {
		p.colours[l.Palette[i].RGB] = board.Colour(i)
	}
	return p
}

func (p *parser) row(fields []string, row *Row) (err error) {
	c := &p.columns
	if len(fields) != c.count {
		return fmt.Errorf("%d columns, the header has %d", len(fields), c.count)
	}
	if row.AtMs, err = parseTime(fields[c.time]); err != nil {
		return err
	}
	if row.User, err = userOf(fields[c.user]); err != nil {
		return fmt.Errorf("user %q: %w", fields[c.user], err)
	}
	if row.Colour, err = p.colour(fields[c.colour]); err != nil {
		return err
	}
	if c.separate {
		x, errX := strconv.Atoi(fields[c.place])
		y, errY := strconv.Atoi(fields[c.place+1])
		if err := errors.Join(errX, errY); err != nil {
			return fmt.Errorf("coordinates %q, %q are not whole numbers", fields[c.place], fields[c.place+1])
		}
		row.Area, err = p.area(x, y, x, y)
		return err
	}
	row.Area, err = p.place(fields[c.place])
	return err
}

func (p *parser) colour(text string) (board.Colour, error) {
	if p.columns.indexed {
		n, err := strconv.ParseUint(text, 10, 8)
		if err != nil || n >= uint64(len(p.layout.Palette)) {
			return 0, fmt.Errorf("colour %q is not within 0..%d", text, len(p.layout.Palette)-1)
		}
		return board.Colour(n), nil
	}
	digits, marked := strings.CutPrefix(text, "#")
	value, err := strconv.ParseUint(digits, 16, 24)
	if err != nil || !marked || len(digits) != 6 {
		return 0, fmt.Errorf("colour %q is not of the form #RRGGBB", text)
	}
	c, ok := p.colours[uint32(value)]
	if !ok {
		return 0, fmt.Errorf("colour %q is not in the palette of %d colours", text, len(p.layout.Palette))
	}
	return c, nil
}

// place takes "x,y", "x1,y1,x2,y2" and, where the shape has circles, "x,y,r" and "{X: x, Y: y, R: r}".
func (p *parser) place(text string) (Area, error) {
	fault := func() (Area, error) {
		return Area{}, fmt.Errorf("coordinate %q is none of the forms of a file of %s", text, p.columns.shape)
	}
	inner, circle := text, false
	if strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") {
		inner, circle = text[1:len(text)-1], true
	}
	var n [4]int
	count := 0
	for part := range strings.SplitSeq(inner, ",") {
		if count == len(n) {
			return fault()
		}
		part = strings.TrimSpace(part)
		if circle {
			name := []string{"X:", "Y:", "R:", ""}[count]
			value, ok := strings.CutPrefix(part, name)
			if name == "" || !ok {
				return fault()
			}
			part = strings.TrimSpace(value)
		}
		v, err := strconv.Atoi(part)
		if err != nil {
			return fault()
		}
		n[count] = v
		count++
	}
	switch {
	case count == 2 && !circle:
		return p.area(n[0], n[1], n[0], n[1])
	case count == 4 && !circle:
		return p.area(n[0], n[1], n[2], n[3])
	case count == 3 && p.columns.circles:
		return p.circle(n[0], n[1], n[2])
	}
	return fault()
}

// coordinateMax bounds coordinates, so that no sum of some can overflow.
const coordinateMax = 1 << 20

// area returns the rectangle between two corners of the file, both of them in it.
func (p *parser) area(x1, y1, x2, y2 int) (Area, error) {
	for _, v := range [...]int{x1, y1, x2, y2} {
		if v > coordinateMax || v < -coordinateMax {
			return Area{}, fmt.Errorf("coordinate %d is outside of every board", v)
		}
	}
	o := p.layout.Origin
	r := board.Rect{X: x1 - o.X, Y: y1 - o.Y, Width: x2 - x1 + 1, Height: y2 - y1 + 1}
	if r.Width < 1 || r.Height < 1 {
		return Area{}, fmt.Errorf("rectangle from (%d,%d) to (%d,%d) has no tiles", x1, y1, x2, y2)
	}
	if r.X < 0 || r.Y < 0 || r.X+r.Width > p.layout.Width || r.Y+r.Height > p.layout.Height {
		return Area{}, fmt.Errorf("coordinate (%d,%d) is outside of the board, which has (%d,%d) to (%d,%d)", x2, y2,
			o.X, o.Y, o.X+p.layout.Width-1, o.Y+p.layout.Height-1)
	}
	if r.Width*r.Height > AreaTilesMax {
		return Area{}, fmt.Errorf("area of %d tiles, at most %d", r.Width*r.Height, AreaTilesMax)
	}
	return Area{Rect: r}, nil
}

// circle returns the tiles within a radius; the whole of it lies on the board.
func (p *parser) circle(x, y, radius int) (Area, error) {
	if radius < 0 || radius > coordinateMax || x > coordinateMax || x < -coordinateMax || y > coordinateMax || y < -coordinateMax {
		return Area{}, fmt.Errorf("circle around (%d,%d) with radius %d is outside of every board", x, y, radius)
	}
	a, err := p.area(x-radius, y-radius, x+radius, y+radius)
	a.Circle = true
	return a, err
}
