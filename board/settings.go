package board

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Limits of settings.
const (
	CooldownMsMax        = 24 * 60 * 60 * 1000
	PaletteMin           = 2
	PaletteMax           = 256
	PaletteNameBytesMax  = 32
	AnnouncementBytesMax = 500
	ProtectedMax         = 256
	WhyBytesMax          = 300
	// WholeBoardTilesMax is the largest board that is sent whole; above it sessions subscribe to the chunks in view.
	WholeBoardTilesMax = 4_000_000
)

// State tells whether the board takes placements at all.
type State string

// The states of a board.
const (
	StateOpen    State = "open"
	StateLoading State = "loading" // import or restore fills the board; no shard or region starts
)

// PaletteEntry is one colour of the palette. Entries are renamed, recoloured or closed, never removed.
type PaletteEntry struct {
	Name   string `json:"name"`
	RGB    uint32 `json:"rgb"`              // 0xRRGGBB
	Closed bool   `json:"closed,omitempty"` // shown, but no longer placed
}

// Settings is what operators change live: one versioned document.
type Settings struct {
	Version      uint64         `json:"version"`
	Width        int            `json:"width"`       // tiles
	Height       int            `json:"height"`      // tiles
	Palette      []PaletteEntry `json:"palette"`     // 2 to 256 entries; an entry's index is its Colour
	CooldownMs   int64          `json:"cooldown_ms"` // 0 to 24 h
	RegionSize   int            `json:"region_size"` // tiles; a multiple of 100
	Frozen       bool           `json:"frozen"`
	Protected    []Rect         `json:"protected"`
	Announcement string         `json:"announcement"`
	// AnnouncementUntilMs is when the announcement ends, in Unix milliseconds; 0: when it is taken away.
	AnnouncementUntilMs int64 `json:"announcement_until_ms,omitempty"`
	// Plan is what changes when its time comes, in the order of times.
	Plan  []PlannedChange `json:"plan,omitempty"`
	State State           `json:"state"`
}

// SettingsRecord is one version of the settings with who made it, when and why: the audit.
type SettingsRecord struct {
	Settings
	By   string `json:"by"`
	Why  string `json:"why"`
	AtMs int64  `json:"at_ms"`
}

// DefaultSettings returns the settings of a new board: 1000x1000 tiles, the 16 colours of 2017, five minutes.
func DefaultSettings() Settings {
	return Settings{
		Version: 1, Width: 1000, Height: 1000, Palette: DefaultPalette(), CooldownMs: 5 * 60 * 1000,
		RegionSize: BlockSize, Protected: []Rect{}, State: StateOpen,
	}
}

// DefaultPalette returns the 16 colours of 2017.
func DefaultPalette() []PaletteEntry {
	return []PaletteEntry{
		{Name: "white", RGB: 0xffffff},
		{Name: "light grey", RGB: 0xe4e4e4},
		{Name: "grey", RGB: 0x888888},
		{Name: "black", RGB: 0x222222},
		{Name: "pink", RGB: 0xffa7d1},
		{Name: "red", RGB: 0xe50000},
		{Name: "orange", RGB: 0xe59500},
		{Name: "brown", RGB: 0xa06a42},
		{Name: "yellow", RGB: 0xe5d900},
		{Name: "light green", RGB: 0x94e044},
		{Name: "green", RGB: 0x02be01},
		{Name: "cyan", RGB: 0x00d3dd},
		{Name: "light blue", RGB: 0x0083c7},
		{Name: "blue", RGB: 0x0000ea},
		{Name: "magenta", RGB: 0xcf6ee4},
		{Name: "purple", RGB: 0x820080},
	}
}

// Bounds returns the board's tiles as a rectangle.
func (s *Settings) Bounds() Rect { return Rect{0, 0, s.Width, s.Height} }

// ColourWidth returns the width of a colour in images and runs under these settings.
func (s *Settings) ColourWidth() Width { return WidthFor(len(s.Palette)) }

// Whole reports whether the board is small enough to be sent whole.
func (s *Settings) Whole() bool { return s.Width*s.Height <= WholeBoardTilesMax }

// HasChunk reports whether the chunk meets the board.
func (s *Settings) HasChunk(c ChunkID) bool { return c.Rect().Meets(s.Bounds()) }

// HasBlock reports whether the block meets the board.
func (s *Settings) HasBlock(b BlockID) bool { return b.Rect().Meets(s.Bounds()) }

// Validate returns every impossible value, joined into one error.
func (s *Settings) Validate() error {
	var errs []error
	fail := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if s.Width < 1 || s.Width > SideMax {
		fail("width %d is not within 1..%d", s.Width, SideMax)
	}
	if s.Height < 1 || s.Height > SideMax {
		fail("height %d is not within 1..%d", s.Height, SideMax)
	}
	if s.CooldownMs < 0 || s.CooldownMs > CooldownMsMax {
		fail("cooldown %d ms is not within 0..%d (24 h)", s.CooldownMs, CooldownMsMax)
	}
	if s.RegionSize < BlockSize || s.RegionSize > SideMax || s.RegionSize%BlockSize != 0 {
		fail("region size %d is not a multiple of %d within %d..%d", s.RegionSize, BlockSize, BlockSize, SideMax)
	}
	if n := len(s.Palette); n < PaletteMin || n > PaletteMax {
		fail("palette of %d colours is not within %d..%d", n, PaletteMin, PaletteMax)
	}
	for i, e := range s.Palette {
		if e.RGB > 0xffffff {
			fail("palette entry %d: colour %#x is not within 0..0xffffff", i, e.RGB)
		}
		if e.Name == "" || len(e.Name) > PaletteNameBytesMax || !utf8.ValidString(e.Name) {
			fail("palette entry %d: name must have 1..%d bytes of UTF-8", i, PaletteNameBytesMax)
		}
	}
	if len(s.Palette) > 0 && !slices.ContainsFunc(s.Palette, func(e PaletteEntry) bool { return !e.Closed }) {
		fail("every palette entry is closed: freeze the board instead")
	}
	if len(s.Protected) > ProtectedMax {
		fail("%d protected areas are more than %d", len(s.Protected), ProtectedMax)
	}
	for i, r := range s.Protected {
		if !r.Valid() {
			fail("protected area %d (%d,%d %dx%d) does not lie within 0..%d", i, r.X, r.Y, r.Width, r.Height, SideMax-1)
		}
	}
	if len(s.Announcement) > AnnouncementBytesMax || !utf8.ValidString(s.Announcement) {
		fail("announcement must have at most %d bytes of UTF-8", AnnouncementBytesMax)
	}
	if s.AnnouncementUntilMs < 0 || s.AnnouncementUntilMs > 0 && s.Announcement == "" {
		fail("the end of an announcement (%d) without an announcement, or before 1970", s.AnnouncementUntilMs)
	}
	if err := s.validatePlan(); err != nil {
		errs = append(errs, err)
	}
	if s.State != StateOpen && s.State != StateLoading {
		fail("state %q is neither %q nor %q", s.State, StateOpen, StateLoading)
	}
	return errors.Join(errs...)
}

// ValidateChange checks next as the successor of s: valid by itself, no palette entry removed, and what it adds to the plan
// possible by then.
func (s *Settings) ValidateChange(next *Settings) error {
	err := next.Validate()
	if len(next.Palette) < len(s.Palette) {
		err = errors.Join(err, fmt.Errorf("palette shrinks from %d to %d colours: close entries instead", len(s.Palette), len(next.Palette)))
	}
	if fault := s.validatePlanOf(next); fault != nil {
		err = errors.Join(err, fault)
	}
	return err
}

// CheckPlacement returns the refusal that the settings alone give to a user's placement, or OK.
func (s *Settings) CheckPlacement(p Point, c Colour) Code {
	switch {
	case s.State != StateOpen:
		return CodeLoading
	case p.X < 0 || p.Y < 0 || p.X >= s.Width || p.Y >= s.Height:
		return CodeBounds
	case int(c) >= len(s.Palette) || s.Palette[c].Closed:
		return CodeColour
	case s.Frozen:
		return CodeFrozen
	case slices.ContainsFunc(s.Protected, func(r Rect) bool { return r.Contains(p) }):
		return CodeProtected
	}
	return CodeOK
}

// Errors of what operators ask for, on every layer.
var (
	// ErrConflict says that settings were changed by somebody else since the version that a change was based on.
	ErrConflict = errors.New("settings were changed since: read them again")
	// ErrRefused is wrapped by refusals: nothing has changed, and what follows says why.
	ErrRefused = errors.New("refused")
	// ErrUnknown is wrapped where nobody knows yet what became of a write: look first, then ask again.
	ErrUnknown = errors.New("outcome unknown: look at the status and ask again")
)
