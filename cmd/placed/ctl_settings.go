package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

type settingsCommand struct {
	Get     settingsGet     `cmd:"" help:"Show the newest settings."`
	Set     settingsSet     `cmd:"" help:"Change settings: only what is named changes."`
	Plan    settingsPlan    `cmd:"" help:"Changes for a time to come."`
	History settingsHistory `cmd:"" help:"Show every version: who, when and why."`
}

type settingsGet struct{}

// Run shows the newest settings.
func (settingsGet) Run(ctx context.Context, root *commands, s *streams) error {
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (board.SettingsRecord, error) { return a.Settings(ctx) }, printSettings)
}

func printSettings(w *tabwriter.Writer, r board.SettingsRecord) {
	fmt.Fprintf(w, "version\t%d\nsize\t%dx%d\ncooldown\t%v\nregion size\t%d\nfrozen\t%v\n", r.Version, r.Width, r.Height,
		milliseconds(r.CooldownMs), r.RegionSize, r.Frozen)
	until := ""
	if r.AnnouncementUntilMs != 0 {
		until = " (until " + at(r.AnnouncementUntilMs) + ")"
	}
	fmt.Fprintf(w, "announcement\t%s%s\nprotected\t%s\n", r.Announcement, until, rects(r.Protected))
	for i, e := range r.Palette {
		closed := ""
		if e.Closed {
			closed = " (closed)"
		}
		fmt.Fprintf(w, "colour %d\t#%06x %s%s\n", i, e.RGB, e.Name, closed)
	}
	for _, text := range planTexts(r.Settings) {
		fmt.Fprintf(w, "planned\t%s\n", text)
	}
	fmt.Fprintf(w, "changed\t%s by %s: %s\n", at(r.AtMs), r.By, r.Why)
}

func rects(list []board.Rect) string {
	var out []string
	for _, r := range list {
		out = append(out, rect(r))
	}
	return strings.Join(out, " ")
}

// rect writes a rectangle as parseRect reads it.
func rect(r board.Rect) string { return fmt.Sprintf("%d,%d,%d,%d", r.X, r.Y, r.Width, r.Height) }

type settingsHistory struct{}

// Run shows every version.
func (settingsHistory) Run(ctx context.Context, root *commands, s *streams) error {
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) ([]board.SettingsRecord, error) {
		return a.SettingsHistory(ctx)
	}, printHistory)
}

// patchFlags name the settings that change. They take nothing from the environment: what a server's environment says about a
// new board, PLACED_WIDTH for one, is no change that an operator asks for.
type patchFlags struct {
	Width        *int           `env:"-" help:"Tiles."`
	Height       *int           `env:"-" help:"Tiles."`
	Cooldown     *time.Duration `env:"-" help:"Between two tiles of a user, as 5m."`
	RegionSize   *int           `env:"-" help:"Tiles, a multiple of 100."`
	Frozen       bool           `env:"-" xor:"frozen,until" help:"Refuse placements."`
	NoFrozen     bool           `env:"-" xor:"frozen,until" help:"Take placements again."`
	Announcement *string        `env:"-" help:"Shown to everybody; empty to take it away."`
	Protect      []string       `env:"-" sep:"none" placeholder:"X,Y,W,H" help:"Protected areas; replaces the list. May be repeated."`
	NoProtect    bool           `env:"-" help:"Take all protected areas away."`
	PaletteFile  string         `env:"-" type:"existingfile" help:"JSON list of {name, rgb, closed}; replaces the palette, which may only grow."`

	AnnouncementUntil when `env:"-" placeholder:"TIME" help:"When the announcement ends."`
}

// settingsSet changes settings now; of two of its flags a part is for later.
type settingsSet struct {
	patchFlags
	FrozenUntil when   `env:"-" xor:"until" placeholder:"TIME" help:"Refuse placements until then (2026-12-01T20:00:00Z, or +2h)."`
	FrozenFrom  when   `env:"-" placeholder:"TIME" help:"Refuse placements from then on."`
	Base        uint64 `env:"-" help:"Version that the change is based on (default: the newest): refused when somebody was faster."`
	Why         string `env:"-" help:"Kept with the version."`
	Yes         bool   `env:"-" help:"Do not ask, when the board shrinks to less than half."`
}

// Run makes the next version.
func (c *settingsSet) Run(ctx context.Context, root *commands, s *streams) error {
	now := time.Now()
	patch, err := c.patch(now)
	if err != nil {
		return usageError{err}
	}
	change := client.SettingsChange{Base: c.Base, Why: c.Why}
	yes, no := true, false
	if c.FrozenUntil.set() {
		patch.Frozen = &yes
		change.PlanAdd = append(change.PlanAdd, client.PlannedChange{AtMs: c.FrozenUntil.ms(now), Patch: board.SettingsPatch{Frozen: &no}})
	}
	if c.FrozenFrom.set() {
		change.PlanAdd = append(change.PlanAdd, client.PlannedChange{AtMs: c.FrozenFrom.ms(now), Patch: board.SettingsPatch{Frozen: &yes}})
	}
	if !patch.Empty() {
		change.Patch = &patch
	} else if len(change.PlanAdd) == 0 {
		return usageError{errNothing}
	}
	if !c.Yes {
		if err := confirmShrink(ctx, root, s, &patch); err != nil {
			return err
		}
	}
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (board.SettingsRecord, error) {
		return changeSettings(ctx, a, change)
	}, printSettings)
}

// confirmShrink asks before a board shrinks to less than half: a digit is soon forgotten, and everybody sees it go.
func confirmShrink(ctx context.Context, root *commands, s *streams, patch *board.SettingsPatch) error {
	if patch.Width == nil && patch.Height == nil {
		return nil
	}
	admin, err := root.Ctl.admin()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, root.Ctl.Timeout)
	defer cancel()
	now, err := admin.Settings(ctx)
	if err != nil {
		return explain(err)
	}
	next := patch.Apply(now.Settings)
	if next.Width < 1 || next.Height < 1 || 2*next.Width*next.Height >= now.Width*now.Height {
		return nil
	}
	return ask(s, fmt.Sprintf("The board shrinks from %dx%d to %dx%d, for everybody; what lies outside comes back when it grows again.",
		now.Width, now.Height, next.Width, next.Height))
}

// conflictTries is how often a change that names no version is tried again when somebody was faster.
const conflictTries = 5

// changeSettings makes a change on top of the version that it names, or of the newest.
func changeSettings(ctx context.Context, a *client.Admin, change client.SettingsChange) (board.SettingsRecord, error) {
	if change.Base != 0 {
		return a.Change(ctx, change)
	}
	for try := 1; ; try++ {
		newest, err := a.Settings(ctx)
		if err != nil {
			return newest, err
		}
		change.Base = newest.Version
		record, err := a.Change(ctx, change)
		if !errors.Is(err, board.ErrConflict) || try >= conflictTries {
			return record, err
		}
	}
}

// errNothing says that no setting was named.
var errNothing = errors.New("nothing to change: name at least one setting")

// patch returns what the flags name. The end of an announcement may be relative to start.
func (c *patchFlags) patch(start time.Time) (board.SettingsPatch, error) {
	p := board.SettingsPatch{Width: c.Width, Height: c.Height, RegionSize: c.RegionSize, Announcement: c.Announcement}
	if c.Frozen || c.NoFrozen {
		p.Frozen = &c.Frozen
	}
	if c.AnnouncementUntil.set() {
		ms := c.AnnouncementUntil.ms(start)
		p.AnnouncementUntilMs = &ms
	}
	if c.Cooldown != nil {
		ms, err := wholeMs("cooldown", *c.Cooldown)
		if err != nil {
			return p, err
		}
		p.CooldownMs = &ms
	}
	if len(c.Protect) > 0 || c.NoProtect {
		areas := []board.Rect{}
		for _, text := range c.Protect {
			r, err := parseRect(text)
			if err != nil {
				return p, err
			}
			areas = append(areas, r)
		}
		p.Protected = &areas
	}
	if c.PaletteFile != "" {
		content, err := os.ReadFile(c.PaletteFile)
		if err != nil {
			return p, err
		}
		if err := json.Unmarshal(content, &p.Palette); err != nil {
			return p, fmt.Errorf("%s: %w", c.PaletteFile, err)
		}
	}
	return p, nil
}

// parseRect reads "x,y,width,height".
func parseRect(text string) (board.Rect, error) {
	var r board.Rect
	var rest string
	n, _ := fmt.Sscanf(text+" ", "%d,%d,%d,%d%s", &r.X, &r.Y, &r.Width, &r.Height, &rest)
	if n != 4 || r.Width < 1 || r.Height < 1 || r.X < 0 || r.Y < 0 {
		return r, fmt.Errorf("%q is not a rectangle: want X,Y,WIDTH,HEIGHT in tiles", text)
	}
	return r, nil
}
