package board

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestDefaultSettingsAreValid(t *testing.T) {
	s := DefaultSettings()
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if s.ColourWidth() != Width4 || !s.Whole() || s.Bounds() != (Rect{0, 0, 1000, 1000}) {
		t.Errorf("width %d, whole %v, bounds %v", s.ColourWidth(), s.Whole(), s.Bounds())
	}
}

func palette(n int) []PaletteEntry {
	return slices.Repeat([]PaletteEntry{{Name: "some colour", RGB: 0x123456}}, n)
}

func TestValidateSettings(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Settings)
		want   string // part of the error; "" for none
	}{
		{"smallest board", func(s *Settings) { s.Width, s.Height = 1, 1 }, ""},
		{"largest board", func(s *Settings) { s.Width, s.Height = SideMax, SideMax }, ""},
		{"width 0", func(s *Settings) { s.Width = 0 }, "width 0 is not within 1..10000"},
		{"width -1", func(s *Settings) { s.Width = -1 }, "width -1 "},
		{"width 10,001", func(s *Settings) { s.Width = SideMax + 1 }, "width 10001 "},
		{"height 0", func(s *Settings) { s.Height = 0 }, "height 0 is not within 1..10000"},
		{"height 10,001", func(s *Settings) { s.Height = SideMax + 1 }, "height 10001 "},
		{"no cooldown", func(s *Settings) { s.CooldownMs = 0 }, ""},
		{"cooldown of a day", func(s *Settings) { s.CooldownMs = 86_400_000 }, ""},
		{"cooldown of a day and a bit", func(s *Settings) { s.CooldownMs = 86_400_001 }, "cooldown 86400001 ms"},
		{"cooldown of a year", func(s *Settings) { s.CooldownMs = 365 * 86_400_000 }, "cooldown 31536000000 ms is not within"},
		{"negative cooldown", func(s *Settings) { s.CooldownMs = -1 }, "cooldown -1 ms"},
		{"region of a block", func(s *Settings) { s.RegionSize = 100 }, ""},
		{"region of everything", func(s *Settings) { s.RegionSize = SideMax }, ""},
		{"region size 0", func(s *Settings) { s.RegionSize = 0 }, "region size 0 is not a multiple of 100"},
		{"region size 50", func(s *Settings) { s.RegionSize = 50 }, "region size 50 "},
		{"region size 150", func(s *Settings) { s.RegionSize = 150 }, "region size 150 "},
		{"region size -100", func(s *Settings) { s.RegionSize = -100 }, "region size -100 "},
		{"region size 10,100", func(s *Settings) { s.RegionSize = SideMax + 100 }, "region size 10100 "},
		{"palette of 2", func(s *Settings) { s.Palette = palette(2) }, ""},
		{"palette of 256", func(s *Settings) { s.Palette = palette(256) }, ""},
		{"palette of none", func(s *Settings) { s.Palette = nil }, "palette of 0 colours"},
		{"palette of 1", func(s *Settings) { s.Palette = palette(1) }, "palette of 1 colours is not within 2..256"},
		{"palette of 257", func(s *Settings) { s.Palette = palette(257) }, "palette of 257 colours"},
		{"palette of 300", func(s *Settings) { s.Palette = palette(300) }, "palette of 300 colours"},
		{"colour of 25 bits", func(s *Settings) { s.Palette[2].RGB = 0x1000000 }, "palette entry 2: colour"},
		{"colour without a name", func(s *Settings) { s.Palette[3].Name = "" }, "palette entry 3: name"},
		{"colour with a long name", func(s *Settings) { s.Palette[3].Name = strings.Repeat("n", 33) }, "palette entry 3: name"},
		{"colour with a broken name", func(s *Settings) { s.Palette[3].Name = "\xff" }, "palette entry 3: name"},
		{"one colour closed", func(s *Settings) { s.Palette[0].Closed = true }, ""},
		{"every colour closed", func(s *Settings) {
			for i := range s.Palette {
				s.Palette[i].Closed = true
			}
		}, "every palette entry is closed"},
		{"protected corner", func(s *Settings) { s.Protected = []Rect{{9999, 9999, 1, 1}} }, ""},
		{"everything protected", func(s *Settings) { s.Protected = []Rect{{0, 0, SideMax, SideMax}} }, ""},
		{"protected left of the board", func(s *Settings) { s.Protected = []Rect{{-1, 0, 2, 2}} }, "protected area 0"},
		{"protected above the board", func(s *Settings) { s.Protected = []Rect{{0, 0, 1, 1}, {0, -1, 2, 2}} }, "protected area 1"},
		{"protected without width", func(s *Settings) { s.Protected = []Rect{{0, 0, 0, 1}} }, "protected area 0"},
		{"protected without height", func(s *Settings) { s.Protected = []Rect{{0, 0, 1, 0}} }, "protected area 0"},
		{"protected too far right", func(s *Settings) { s.Protected = []Rect{{9999, 0, 2, 1}} }, "protected area 0"},
		{"protected too far down", func(s *Settings) { s.Protected = []Rect{{0, 9999, 1, 2}} }, "protected area 0"},
		{"protected beyond all numbers", func(s *Settings) { s.Protected = []Rect{{math.MaxInt, 0, 1, 1}} }, "protected area 0"},
		{"protected wider than all numbers", func(s *Settings) { s.Protected = []Rect{{1, 1, math.MaxInt, 1}} }, "protected area 0"},
		{"protected higher than all numbers", func(s *Settings) { s.Protected = []Rect{{1, 1, 1, math.MaxInt}} }, "protected area 0"},
		{"protected areas, the most", func(s *Settings) { s.Protected = slices.Repeat([]Rect{{0, 0, 1, 1}}, ProtectedMax) }, ""},
		{"protected areas, too many", func(s *Settings) { s.Protected = slices.Repeat([]Rect{{0, 0, 1, 1}}, ProtectedMax+1) }, "257 protected areas"},
		{"longest announcement", func(s *Settings) { s.Announcement = strings.Repeat("é", AnnouncementBytesMax/2) }, ""},
		{"long announcement", func(s *Settings) { s.Announcement = strings.Repeat("a", AnnouncementBytesMax+1) }, "announcement"},
		{"broken announcement", func(s *Settings) { s.Announcement = "\xff" }, "announcement"},
		{"loading", func(s *Settings) { s.State = StateLoading }, ""},
		{"no state", func(s *Settings) { s.State = "" }, "state"},
		{"unknown state", func(s *Settings) { s.State = "closed" }, `state "closed"`},
	} {
		s := DefaultSettings()
		c.change(&s)
		err := s.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestValidateNamesEveryImpossibleValue(t *testing.T) {
	s := DefaultSettings()
	s.Width, s.CooldownMs, s.RegionSize = 0, -1, 99
	err := s.Validate()
	for _, part := range []string{"width", "cooldown", "region size"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not speak of the %s", err, part)
		}
	}
}

func TestValidateChange(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Settings)
		want   string
	}{
		{"nothing", func(*Settings) {}, ""},
		{"another size, cooldown and region", func(s *Settings) { s.Width, s.Height, s.CooldownMs, s.RegionSize = 1, 2, 3, 400 }, ""},
		{"one colour more", func(s *Settings) { s.Palette = append(s.Palette, PaletteEntry{Name: "gold", RGB: 0xd4af37}) }, ""},
		{"a colour renamed, recoloured and closed", func(s *Settings) { s.Palette[1] = PaletteEntry{"ash", 1, true} }, ""},
		{"one colour less", func(s *Settings) { s.Palette = s.Palette[:15] }, "palette shrinks from 16 to 15"},
		{"an impossible width", func(s *Settings) { s.Width = 0 }, "width 0"},
	} {
		s, next := DefaultSettings(), DefaultSettings()
		c.change(&next)
		err := s.ValidateChange(&next)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestCheckPlacement(t *testing.T) {
	open := func(*Settings) {}
	protect := func(s *Settings) { s.Protected = []Rect{{500, 500, 1, 1}, {10, 20, 5, 5}} }
	for _, c := range []struct {
		name   string
		change func(*Settings)
		point  Point
		colour Colour
		want   Code
	}{
		{"upper left", open, Point{0, 0}, 0, CodeOK},
		{"lower right, last colour", open, Point{999, 749}, 15, CodeOK},
		{"x 1000", open, Point{1000, 0}, 1, CodeBounds},
		{"y 750", open, Point{0, 750}, 1, CodeBounds},
		{"x -1", open, Point{-1, 0}, 1, CodeBounds},
		{"y -1", open, Point{0, -1}, 1, CodeBounds},
		{"far away", open, Point{math.MaxInt, math.MinInt}, 1, CodeBounds},
		{"colour 16", open, Point{1, 1}, 16, CodeColour},
		{"colour 255", open, Point{1, 1}, 255, CodeColour},
		{"a closed colour", func(s *Settings) { s.Palette[4].Closed = true }, Point{1, 1}, 4, CodeColour},
		{"beside a closed colour", func(s *Settings) { s.Palette[4].Closed = true }, Point{1, 1}, 5, CodeOK},
		{"frozen", func(s *Settings) { s.Frozen = true }, Point{1, 1}, 1, CodeFrozen},
		{"protected, first tile", protect, Point{10, 20}, 1, CodeProtected},
		{"protected, last tile", protect, Point{14, 24}, 1, CodeProtected},
		{"right of the protected", protect, Point{15, 24}, 1, CodeOK},
		{"below the protected", protect, Point{14, 25}, 1, CodeOK},
		{"loading", func(s *Settings) { s.State, s.Frozen = StateLoading, true }, Point{-1, 0}, 99, CodeLoading},
		{"off a frozen board", func(s *Settings) { s.Frozen = true }, Point{1000, 0}, 1, CodeBounds},
		{"unknown colour on a frozen board", func(s *Settings) { s.Frozen = true }, Point{1, 1}, 16, CodeColour},
		{"protected on a frozen board", func(s *Settings) { protect(s); s.Frozen = true }, Point{10, 20}, 1, CodeFrozen},
	} {
		s := DefaultSettings()
		s.Height = 750
		c.change(&s)
		if got := s.CheckPlacement(c.point, c.colour); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestWholeBoards(t *testing.T) {
	for _, c := range []struct {
		width, height int
		want          bool
	}{{1000, 1000, true}, {2000, 2000, true}, {2001, 2000, false}, {10_000, 400, true}, {10_000, 10_000, false}} {
		if s := (&Settings{Width: c.width, Height: c.height}); s.Whole() != c.want {
			t.Errorf("%dx%d whole: %v", c.width, c.height, s.Whole())
		}
	}
}

func TestSettingsRecordIsFlatInJSON(t *testing.T) {
	b, err := json.Marshal(SettingsRecord{Settings: DefaultSettings(), By: "ann", Why: "first", AtMs: 5})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{`"version":1`, `"cooldown_ms":300000`, `"region_size":100`, `"protected":[]`, `"by":"ann"`, `"why":"first"`, `"at_ms":5`} {
		if !strings.Contains(string(b), key) {
			t.Errorf("%s has no %s", b, key)
		}
	}
}

// FuzzSettings takes any JSON for settings: what Validate lets pass must be safe to use.
func FuzzSettings(f *testing.F) {
	good, err := json.Marshal(DefaultSettings())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, 5, 7, uint8(3))
	f.Add([]byte(`{"width":0,"protected":[{"x":9223372036854775807,"width":1,"height":1}]}`), -1, 1000, uint8(16))
	f.Fuzz(func(t *testing.T, b []byte, x, y int, colour uint8) {
		var s Settings
		if json.Unmarshal(b, &s) != nil || s.Validate() != nil {
			return
		}
		p := Point{x, y}
		code := s.CheckPlacement(p, Colour(colour))
		if code != CodeOK {
			return
		}
		if !s.Bounds().Contains(p) || int(colour) >= len(s.Palette) || !p.Chunk().Valid() || !s.HasChunk(p.Chunk()) {
			t.Errorf("%v in colour %d is allowed by %s", p, colour, b)
		}
		r := p.Block().Region(s.RegionSize)
		if (Rect{r.Col * r.Size, r.Row * r.Size, r.Size, r.Size}).Contains(p) == false {
			t.Errorf("%v does not lie in its region %v", p, r)
		}
		for _, area := range s.Protected {
			if area.Width < 1 || area.X < 0 || area.X+area.Width > SideMax || area.Y < 0 || area.Height < 1 || area.Y+area.Height > SideMax {
				t.Errorf("protected area %v", area)
			}
		}
	})
}
