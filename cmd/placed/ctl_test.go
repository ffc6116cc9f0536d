package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
)

// TestSettingsChanges: the history tells of every setting that changed, and of nothing else.
func TestSettingsChanges(t *testing.T) {
	for want, change := range map[string]func(*board.Settings){
		"":                func(*board.Settings) {},
		"size 1000x500":   func(s *board.Settings) { s.Height = 500 },
		"cooldown 3s":     func(s *board.Settings) { s.CooldownMs = 3000 },
		"region size 200": func(s *board.Settings) { s.RegionSize = 200 },
		"frozen":          func(s *board.Settings) { s.Frozen = true },
		"colour 3 closed": func(s *board.Settings) { s.Palette[3].Closed = true },
		"colour 16 #102030 night": func(s *board.Settings) {
			s.Palette = append(s.Palette, board.PaletteEntry{Name: "night", RGB: 0x102030})
		},
		"protected 1,2,3,4": func(s *board.Settings) {
			s.Protected = []board.Rect{{X: 9, Y: 9, Width: 9, Height: 9}, {X: 1, Y: 2, Width: 3, Height: 4}}
		},
		"no longer protected 9,9,9,9": func(s *board.Settings) { s.Protected = nil },
		`announcement "hello"`:        func(s *board.Settings) { s.Announcement = "hello" },
		"state loading":               func(s *board.Settings) { s.State = board.StateLoading },
		"cooldown 1s; frozen":         func(s *board.Settings) { s.CooldownMs, s.Frozen = 1000, true },
	} {
		old := board.DefaultSettings()
		old.Protected = []board.Rect{{X: 9, Y: 9, Width: 9, Height: 9}}
		next := old
		next.Palette, next.Protected = slices.Clone(old.Palette), slices.Clone(old.Protected)
		change(&next)
		if got := strings.Join(settingsChanges(&old, &next), "; "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestStatusIsDocumented compares the fields of ctl status -o json with the table of docs/operations.md, both ways.
func TestStatusIsDocumented(t *testing.T) {
	b, err := json.Marshal(board.Status{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(doc), "| field of status | ")
	table, _, _ = strings.Cut(table, "\n\n")
	if !ok {
		t.Fatal("docs/operations.md has no table of the fields of status")
	}
	for _, row := range strings.Split(table, "\n")[2:] {
		names, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		for name := range strings.SplitSeq(names, ", ") {
			if _, ok := fields[name]; !ok {
				t.Errorf("docs/operations.md tells of %q, which status does not have", name)
			}
			delete(fields, name)
		}
	}
	for name := range fields {
		t.Errorf("docs/operations.md does not tell of %q", name)
	}
}
