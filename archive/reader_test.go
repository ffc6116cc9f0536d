package archive

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
)

// write writes a file and returns its path.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func packed(content string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, content)
	_ = w.Close()
	return b.String()
}

const (
	header2022 = "timestamp,user_id,pixel_color,coordinate\n"
	header2023 = "timestamp,user,coordinate,pixel_color\n"
)

var hash88 = strings.Repeat("ab+/", 21) + "abc="

func rows(t *testing.T, path string) (good []Row, bad []string, err error) {
	t.Helper()
	for row, err := range Rows([]string{path}, nil) {
		if e, ok := errors.AsType[*RowError](err); ok {
			bad = append(bad, strings.TrimPrefix(e.Error(), path))
			continue
		}
		if err != nil {
			return good, bad, err
		}
		good = append(good, row)
	}
	return good, bad, nil
}

func TestRowsOfEveryShape(t *testing.T) {
	tile := func(x, y int) Area { return Area{Rect: board.Rect{X: x, Y: y, Width: 1, Height: 1}} }
	long, _ := userOf(hash88)
	if len(long) != 28 {
		t.Fatalf("a long name became %q", long)
	}
	for name, c := range map[string]struct {
		content string
		want    []Row
	}{
		"2017": {Header2017 + "\n1490991480000,+++/DjiwyzTQzfai1RGavwwdeF0=,4,33,13\n1490991481000,b,0,999,0\n", []Row{
			{AtMs: 1490991480000, User: "+++/DjiwyzTQzfai1RGavwwdeF0=", Colour: 13, Area: tile(4, 33), Position: 1<<40 | 2},
			{AtMs: 1490991481000, User: "b", Area: tile(0, 999), Position: 1<<40 | 3},
		}},
		"2017 hashes, Windows ends, a mark, no last end": {"\ufeffts,user_hash,x_coordinate,y_coordinate,color\r\n1,a,1,2,3\r\n2,b,1,2,3", []Row{
			{AtMs: 1, User: "a", Colour: 3, Area: tile(1, 2), Position: 1<<40 | 2}, {AtMs: 2, User: "b", Colour: 3, Area: tile(1, 2), Position: 1<<40 | 3},
		}},
		"2022": {header2022 + "2022-04-03 17:38:22.252 UTC," + hash88 + ",#FF3881,\"0,0\"\n2022-04-03 17:38:22 UTC,m,#ffffff,\"1998,3,1999,5\"\n", []Row{
			{AtMs: 1649007502252, User: long, Colour: 23, Area: tile(0, 0), Position: 1<<40 | 2},
			{AtMs: 1649007502000, User: "m", Area: Area{Rect: board.Rect{X: 1998, Y: 3, Width: 2, Height: 3}}, Position: 1<<40 | 3},
		}},
		"2023": {header2023 + "2023-07-20 13:00:26.088 UTC," + hash88 + ",\"-199,-235\",#FFFFFF\n2023-07-20 13:00:26.088,m,\"{X: 424, Y: 336, R: 3}\",#000000\n" +
			"2023-07-20 13:00:26.1,m,\"424,336,3\",#000000\n2023-07-20 13:00:26,m,\"-1500,-1000,-1500,-1000\",#000000\n", []Row{
			{AtMs: 1689858026088, User: long, Area: tile(1301, 765), Position: 1<<40 | 2},
			{AtMs: 1689858026088, User: "m", Colour: 28, Area: Area{Rect: board.Rect{X: 1921, Y: 1333, Width: 7, Height: 7}, Circle: true}, Position: 1<<40 | 3},
			{AtMs: 1689858026100, User: "m", Colour: 28, Area: Area{Rect: board.Rect{X: 1921, Y: 1333, Width: 7, Height: 7}, Circle: true}, Position: 1<<40 | 4},
			{AtMs: 1689858026000, User: "m", Colour: 28, Area: tile(0, 0), Position: 1<<40 | 5},
		}},
	} {
		for form, content := range map[string]string{"plain": c.content, "gzip": packed(c.content)} {
			t.Run(name+" "+form, func(t *testing.T) {
				got, bad, err := rows(t, write(t, "history", content))
				if err != nil || len(bad) > 0 || !slices.Equal(got, c.want) {
					t.Fatalf("%+v, %v, %v; want %+v", got, bad, err, c.want)
				}
			})
		}
	}
}

func TestBadRowsAreNamedAndPassedOver(t *testing.T) {
	for name, c := range map[string]struct{ header, row, want string }{
		"few columns":       {Header2017 + "\n", "1,a,1,2", "4 columns, the header has 5"},
		"many columns":      {Header2017 + "\n", "1,a,1,2,3,4,5,6,7", "columns, the header has 5"},
		"empty line":        {Header2017 + "\n", "", "empty line"},
		"long line":         {Header2017 + "\n", strings.Repeat("x", 300_000), "longer than 1024 bytes"},
		"no time":           {Header2017 + "\n", ",a,1,2,3", "neither Unix milliseconds nor"},
		"fraction":          {Header2017 + "\n", "1.5,a,1,2,3", "neither Unix milliseconds nor"},
		"before 1970":       {Header2017 + "\n", "-1,a,1,2,3", "1970 to 2099"},
		"after 2100":        {Header2017 + "\n", "4102444800000,a,1,2,3", "1970 to 2099"},
		"date before 1970":  {header2022, "1969-12-31 23:59:59 UTC,a,#FFFFFF,\"1,2\"", "1970 to 2099"},
		"date after 2100":   {header2022, "2100-01-01 00:00:00 UTC,a,#FFFFFF,\"1,2\"", "1970 to 2099"},
		"30 February":       {header2022, "2022-02-30 00:00:00 UTC,a,#FFFFFF,\"1,2\"", "neither"},
		"another zone":      {header2022, "2022-02-20 00:00:00 CET,a,#FFFFFF,\"1,2\"", "neither"},
		"huge time":         {Header2017 + "\n", "99999999999999999999,a,1,2,3", "neither"},
		"no user":           {Header2017 + "\n", "1,,1,2,3", "user name is empty"},
		"user of bytes":     {Header2017 + "\n", "1,a\x00b,1,2,3", "invisible characters"},
		"no UTF-8":          {Header2017 + "\n", "1,a\xff,1,2,3", "invalid UTF-8"},
		"x is no number":    {Header2017 + "\n", "1,a,one,2,3", "not whole numbers"},
		"x below":           {Header2017 + "\n", "1,a,-1,2,3", "outside of the board"},
		"x above":           {Header2017 + "\n", "1,a,1000,2,3", "outside of the board, which has (0,0) to (999,999)"},
		"x beyond":          {Header2017 + "\n", "1,a,9223372036854775807,2,3", "outside of every board"},
		"x beyond numbers":  {Header2017 + "\n", "1,a,92233720368547758070,2,3", "not whole numbers"},
		"colour above":      {Header2017 + "\n", "1,a,1,2,16", `colour "16" is not within 0..15`},
		"colour below":      {Header2017 + "\n", "1,a,1,2,-1", `colour "-1"`},
		"unknown colour":    {header2022, "2022-04-01 00:00:00 UTC,a,#123456,\"1,2\"", "not in the palette"},
		"short colour":      {header2022, "2022-04-01 00:00:00 UTC,a,#FFF,\"1,2\"", "#RRGGBB"},
		"bare colour":       {header2022, "2022-04-01 00:00:00 UTC,a,FFFFFF,\"1,2\"", "#RRGGBB"},
		"open quote":        {header2022, "2022-04-01 00:00:00 UTC,a,#FFFFFF,\"1,2", "not closed on its line"},
		"quote within":      {header2022, "2022-04-01 00:00:00 UTC,a\"b,#FFFFFF,\"1,2\"", "a quote in a field"},
		"after a quote":     {header2022, "2022-04-01 00:00:00 UTC,a,#FFFFFF,\"1,2\"3", "followed by more"},
		"five coordinates":  {header2022, "2022-04-01 00:00:00 UTC,a,#FFFFFF,\"1,2,3,4,5\"", "none of the forms"},
		"circle of 2022":    {header2022, "2022-04-01 00:00:00 UTC,a,#FFFFFF,\"1,2,3\"", "none of the forms"},
		"inside out":        {header2022, "2022-04-01 00:00:00 UTC,a,#FFFFFF,\"5,5,4,9\"", "has no tiles"},
		"large area":        {header2022, "2022-04-01 00:00:00 UTC,a,#FFFFFF,\"0,0,1999,1999\"", "at most 1000000"},
		"circle over edge":  {header2023, "2023-07-20 00:00:00,a,\"{X: 1499, Y: 0, R: 3}\",#FFFFFF", "outside of the board"},
		"negative radius":   {header2023, "2023-07-20 00:00:00,a,\"{X: 0, Y: 0, R: -3}\",#FFFFFF", "outside of every board"},
		"half a circle":     {header2023, "2023-07-20 00:00:00,a,\"{X: 0, Y: 0}\",#FFFFFF", "none of the forms"},
		"circle out of use": {header2023, "2023-07-20 00:00:00,a,\"{Y: 0, X: 0, R: 1}\",#FFFFFF", "none of the forms"},
	} {
		t.Run(name, func(t *testing.T) {
			fine := "1,a,1,2,3\n"
			switch c.header {
			case header2022:
				fine = "2022-04-01 00:00:00 UTC,a,#FFFFFF,\"1,2\"\n"
			case header2023:
				fine = "2023-07-20 00:00:00 UTC,a,\"1,2\",#FFFFFF\n"
			}
			good, bad, err := rows(t, write(t, "history.csv", c.header+fine+c.row+"\n"+fine))
			if err != nil || len(good) != 2 || len(bad) != 1 || !strings.HasPrefix(bad[0], ":3: ") || !strings.Contains(bad[0], c.want) {
				t.Fatalf("%d good, bad %q, %v; want one at line 3 with %q", len(good), bad, err, c.want)
			}
		})
	}
}

func TestBadFilesEndTheReading(t *testing.T) {
	many := Header2017 + "\n" + strings.Repeat("1490991480000,+++/DjiwyzTQzfai1RGavwwdeF0=,4,33,13\n", 1000)
	bomb := packed(Header2017 + "\n" + strings.Repeat("1,a,1,2,3\n", 4<<20))
	damaged := []byte(packed(many))
	damaged[len(damaged)-6] ^= 1 // the checksum
	for name, c := range map[string]struct {
		content string
		want    error
	}{
		"empty":           {"", ErrEmpty},
		"empty gzip":      {packed(""), ErrEmpty},
		"wrong header":    {"a,b,c\n1,2,3\n", ErrHeader},
		"no header":       {"1490991480000,u,4,33,13\n", ErrHeader},
		"zeros":           {strings.Repeat("\x00", 1<<20), ErrHeader},
		"gzip cut short":  {packed(many)[:200], ErrCut},
		"gzip head alone": {packed(many)[:5], ErrCut},
		"gzip end gone":   {packed(many)[:len(packed(many))-4], ErrCut},
		"gzip damaged":    {string(damaged), errDamaged},
		"bomb of rows":    {bomb, ErrBomb},
		"bomb of zeros":   {packed(Header2017 + "\n" + strings.Repeat("\x00", 32<<20)), ErrBomb},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "history", c.content)
			_, _, err := rows(t, path)
			if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), path) {
				t.Fatalf("%v, want %v with the file's name", err, c.want)
			}
		})
	}
	if _, _, err := rows(t, t.TempDir()); err == nil {
		t.Error("a directory was read")
	}
	if _, _, err := rows(t, filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestCircle(t *testing.T) {
	a := Area{Rect: board.Rect{X: 10, Y: 20, Width: 5, Height: 5}, Circle: true}
	n := 0
	_ = a.Tiles(func(p board.Point) error {
		if dx, dy := p.X-12, p.Y-22; dx*dx+dy*dy > 4 {
			t.Errorf("%v is not within the circle", p)
		}
		n++
		return nil
	})
	if n != 13 {
		t.Errorf("%d tiles, want 13", n)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(Header2017 + "\n1,a,1,2,3\n")
	f.Add(header2022 + "2022-04-03 17:38:22.252 UTC,a,#FF3881,\"0,0,1,1\"\n")
	f.Add(header2023 + "2023-07-20 13:00:26.088,a,\"{X: 424, Y: 336, R: 3}\",#FFFFFF\n\"\"\"\n")
	f.Add(packed(Header2017 + "\n1,a,1,2,3\n")[:30])
	f.Fuzz(func(t *testing.T, content string) {
		good, _, _ := rows(t, write(t, "history", content))
		for _, r := range good {
			if _, err := board.ParseUserID(string(r.User)); err != nil || r.AtMs < 0 || !r.Area.Rect.Valid() {
				t.Fatalf("impossible row %+v: %v", r, err)
			}
		}
	})
}
