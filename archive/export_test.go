package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/store/storetest"
)

// lived is a board as a server leaves it: placements of several kinds, whose times do not always ascend in their journals.
func lived(t *testing.T) (*mem.Store, []board.Placement) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	sequences := map[board.ChunkID]uint64{}
	list := make([]board.Placement, 4000)
	names := []board.UserID{"ada", "bob", `a "quoted", name`, "Zoë", "it's"}
	for i := range list {
		at := board.Point{X: 95 + r.IntN(10), Y: 95 + r.IntN(10)}
		sequences[at.Chunk()]++
		list[i] = board.Placement{
			Chunk: at.Chunk(), Tile: uint16(at.Tile()), Colour: board.Colour(r.IntN(16)), User: names[r.IntN(len(names))],
			AtMs: 1_600_000_000_000 + int64(i)*10 + int64(r.IntN(5000)), Sequence: sequences[at.Chunk()], Kind: board.Kind(r.IntN(3)),
		}
	}
	st := mem.New()
	storetest.CommitPlacements(t, st, list)
	return st, list
}

// histories are the placements of each tile in their order.
func histories(t *testing.T, st store.Store, user func(board.UserID) string) map[board.Point][]string {
	t.Helper()
	out := map[board.Point][]string{}
	for p, err := range Placements(t.Context(), st, Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		out[p.Point()] = append(out[p.Point()], fmt.Sprintf("%s %d", user(p.User), p.Colour))
	}
	return out
}

func export(t *testing.T, st Journals, c ExportConfig) (string, ExportReport) {
	t.Helper()
	var out bytes.Buffer
	report, err := Export(t.Context(), st, &out, c)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), report
}

// What was exported and imported again has the same board and the same history of every tile, and exports the same again.
func TestExportThenImport(t *testing.T) {
	st, list := lived(t)
	key := []byte("sixteen bytes ok")
	for name, c := range map[string]ExportConfig{
		"names": {Format: FormatCSV, Names: true}, "pseudonyms": {Format: FormatCSV, PseudonymKey: key},
	} {
		t.Run(name, func(t *testing.T) {
			first, report := export(t, st, c)
			if report.Placements != int64(len(list)) || report.Raised == 0 {
				t.Fatalf("report %+v", report)
			}
			back := mem.New()
			if _, err := Import(t.Context(), back, importConfig(write(t, "a.csv.gz", packed(first)))); err != nil {
				t.Fatal(err)
			}
			verified(t, back)
			names := newPseudonyms(key)
			user := func(u board.UserID) string {
				if c.Names {
					return string(u)
				}
				return names.of(u)
			}
			want, got := histories(t, st, user), histories(t, back, func(u board.UserID) string { return string(u) })
			for at, w := range want {
				if !slices.Equal(got[at], w) {
					t.Fatalf("history of %v: %v, want %v", at, got[at], w)
				}
			}
			rect := board.Rect{Width: 200, Height: 200}
			a, errA := BoardAt(t.Context(), st, rect, 1<<60)
			b, errB := BoardAt(t.Context(), back, rect, 1<<60)
			if errA != nil || errB != nil || !slices.Equal(a.Colours, b.Colours) {
				t.Fatalf("another board (%v, %v)", errA, errB)
			}
			again, report := export(t, back, ExportConfig{Format: FormatCSV, Names: true})
			if report.Raised != 0 || !slices.Equal(sortedLines(again), sortedLines(first)) {
				t.Fatalf("a second export differs: %+v", report)
			}
		})
	}
}

func sortedLines(text string) []string { return slices.Sorted(strings.Lines(text)) }

func TestExportHidesNames(t *testing.T) {
	st, _ := lived(t)
	one, _ := export(t, st, ExportConfig{Format: FormatCSV})
	two, _ := export(t, st, ExportConfig{Format: FormatCSV})
	if strings.Contains(one, "ada") || strings.Contains(one, "Zo") {
		t.Error("names are in a pseudonymous export")
	}
	if one == two {
		t.Error("two exports with random keys name users alike")
	}
	users := map[string]bool{}
	for line := range strings.Lines(one) {
		if f := strings.Split(line, ","); f[0] != "ts" {
			users[f[1]] = true
			if len(f[1]) != 28 {
				t.Fatalf("user %q has not the shape of 2017", f[1])
			}
		}
	}
	if len(users) != 5 {
		t.Errorf("%d users, want 5", len(users))
	}
}

func TestExportNDJSON(t *testing.T) {
	st, list := lived(t)
	out, _ := export(t, st, ExportConfig{Format: FormatNDJSON, Names: true, Span: Span{Rect: board.Rect{X: 100, Y: 100, Width: 100, Height: 100}}})
	want := map[string]board.Placement{}
	for _, p := range list {
		want[fmt.Sprintf("%d/%d", p.Chunk, p.Sequence)] = p
	}
	n := 0
	for line := range strings.Lines(out) {
		var got struct {
			AtMs     int64 `json:"at_ms"`
			X, Y     int
			Colour   board.Colour
			User     board.UserID
			Kind     string
			Sequence uint64
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		at := board.Point{X: got.X, Y: got.Y}
		p := want[fmt.Sprintf("%d/%d", at.Chunk(), got.Sequence)]
		if p.User != got.User || p.Colour != got.Colour || p.Point() != at || p.Kind.String() != got.Kind || got.AtMs < p.AtMs {
			t.Fatalf("%s is not %+v", line, p)
		}
		n++
	}
	if n < 500 || n > 3000 {
		t.Errorf("%d placements of the rectangle", n)
	}
}

func TestExportPNGAtATime(t *testing.T) {
	st, _ := lived(t)
	rect := board.Rect{X: 90, Y: 90, Width: 20, Height: 20}
	for _, toMs := range []int64{0, 1_600_000_010_000} {
		out, _ := export(t, st, ExportConfig{Format: FormatPNG, Span: Span{Rect: rect, ToMs: toMs}, Palette: board.DefaultPalette()})
		img, err := png.Decode(strings.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		at := int64(1 << 60)
		if toMs != 0 {
			at = toMs - 1
		}
		want, err := BoardAt(t.Context(), st, rect, at)
		if err != nil {
			t.Fatal(err)
		}
		samePicture(t, img, want)
	}
}

func samePicture(t *testing.T, img image.Image, want *Picture) {
	t.Helper()
	palette := Palette(board.DefaultPalette())
	for y := range want.Rect.Height {
		for x := range want.Rect.Width {
			c := want.At(board.Point{X: want.Rect.X + x, Y: want.Rect.Y + y})
			if got := color.RGBAModel.Convert(img.At(x, y)); got != palette[c] {
				t.Fatalf("pixel (%d,%d) is %v, want %v", x, y, got, palette[c])
			}
		}
	}
}

// A gif that is drawn picture over picture ends in the newest board, and shows that of every time on its way.
func TestFilm(t *testing.T) {
	st := mem.New()
	path := write(t, "a.csv", history(3000, 9)) // times ascend in its journals
	if _, err := Import(t.Context(), st, importConfig(path)); err != nil {
		t.Fatal(err)
	}
	rect := board.Rect{X: 85, Y: 50, Width: 30, Height: 60}
	film := Film{Rect: rect, FromMs: 1490991480000 - 5000, ToMs: 1490991480000 + 120_000, StepMs: 2500}
	var out bytes.Buffer
	if err := film.WriteGIF(&out, Dots(t.Context(), st, rect, film.ToMs+1), board.DefaultPalette(), 10); err != nil {
		t.Fatal(err)
	}
	g, err := gif.DecodeAll(&out)
	if err != nil {
		t.Fatal(err)
	}
	canvas := image.NewRGBA(image.Rect(0, 0, rect.Width, rect.Height))
	tenths := 0
	for i, img := range g.Image {
		for y := img.Rect.Min.Y; y < img.Rect.Max.Y; y++ {
			for x := img.Rect.Min.X; x < img.Rect.Max.X; x++ {
				canvas.Set(x, y, img.At(x, y))
			}
		}
		want, err := BoardAt(t.Context(), st, rect, film.FromMs+int64(tenths)*film.StepMs)
		if err != nil {
			t.Fatal(err)
		}
		samePicture(t, canvas, want)
		tenths += g.Delay[i] / 10
	}
	if want := int(film.frames()); tenths != want || len(g.Image) >= want {
		t.Errorf("%d pictures for %d times, want %d", len(g.Image), tenths, want)
	}
	huge := Film{Rect: board.Rect{Width: 10_000, Height: 10_000}, ToMs: 1490991480000 + 120_000, FromMs: 1490991480000, StepMs: 1000}
	far := func(yield func(Dot, error) bool) {
		for i := range int64(100) {
			for _, at := range []board.Point{{}, {X: 9999, Y: 9999}} {
				if !yield(Dot{huge.FromMs + i*1000, at, board.Colour(1 + i%2)}, nil) {
					return
				}
			}
		}
	}
	if err := huge.WriteGIF(&out, far, board.DefaultPalette(), 10); !errors.Is(err, ErrFilmLarge) {
		t.Errorf("a gif of 100 megapixel pictures: %v", err)
	}
}

func TestExportRefuses(t *testing.T) {
	for name, c := range map[string]ExportConfig{
		"format": {Format: "xml"}, "span": {Format: FormatCSV, Span: Span{FromMs: 5, ToMs: 5}}, "key": {Format: FormatCSV, PseudonymKey: []byte("short")},
		"rect": {Format: FormatCSV, Span: Span{Rect: board.Rect{X: -1, Width: 1, Height: 1}}}, "png": {Format: FormatPNG},
	} {
		if _, err := Export(t.Context(), mem.New(), &bytes.Buffer{}, c); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
