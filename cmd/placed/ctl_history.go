package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/placed-board/placed/board"
)

// printHistory shows each version with what it changed of the one before.
func printHistory(w *tabwriter.Writer, records []board.SettingsRecord) {
	fmt.Fprintln(w, "VERSION\tAT\tBY\tCHANGES\tWHY")
	for i := range records {
		r := &records[i]
		changes := fmt.Sprintf("%dx%d, cooldown %v, %d colours", r.Width, r.Height, milliseconds(r.CooldownMs), len(r.Palette))
		if i > 0 {
			changes = strings.Join(settingsChanges(&records[i-1].Settings, &r.Settings), "; ")
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", r.Version, at(r.AtMs), r.By, changes, r.Why)
	}
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// settingsChanges tells in words what next changes of old, one entry a setting; lists are told by their entries, so that the
// history shows what somebody did and not only that.
func settingsChanges(old, next *board.Settings) []string {
	var out []string
	say := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	if old.Width != next.Width || old.Height != next.Height {
		say("size %dx%d", next.Width, next.Height)
	}
	if old.CooldownMs != next.CooldownMs {
		say("cooldown %v", milliseconds(next.CooldownMs))
	}
	if old.RegionSize != next.RegionSize {
		say("region size %d", next.RegionSize)
	}
	if old.Frozen != next.Frozen {
		say("%s", map[bool]string{true: "frozen", false: "no longer frozen"}[next.Frozen])
	}
	out = append(out, paletteChanges(old.Palette, next.Palette)...)
	out = append(out, listChanges("protected", old.Protected, next.Protected, rect)...)
	if old.Announcement != next.Announcement || old.AnnouncementUntilMs != next.AnnouncementUntilMs {
		until := ""
		if next.AnnouncementUntilMs != 0 {
			until = " until " + at(next.AnnouncementUntilMs)
		}
		say("announcement %q%s", next.Announcement, until)
	}
	out = append(out, planChanges(old, next)...)
	if old.State != next.State {
		say("state %s", next.State)
	}
	return out
}

// paletteChanges names the entries that differ.
func paletteChanges(old, next []board.PaletteEntry) []string {
	var out []string
	for i, e := range next {
		was := board.PaletteEntry{}
		if i < len(old) {
			was = old[i]
		}
		var what []string
		if e.Name != was.Name || e.RGB != was.RGB {
			what = append(what, fmt.Sprintf("#%06x %s", e.RGB, e.Name))
		}
		if e.Closed != was.Closed {
			what = append(what, map[bool]string{true: "closed", false: "open again"}[e.Closed])
		}
		if len(what) > 0 {
			out = append(out, fmt.Sprintf("colour %d %s", i, strings.Join(what, " ")))
		}
	}
	return out
}

// planChanges names what has come to the plan and what has left it.
func planChanges(old, next *board.Settings) []string {
	var ids, nextIDs []string
	text := map[string]string{}
	for i := range old.Plan {
		ids = append(ids, old.Plan[i].ID)
		text[old.Plan[i].ID] = old.Plan[i].ID
	}
	for i, planned := range planTexts(*next) {
		nextIDs = append(nextIDs, next.Plan[i].ID)
		text[next.Plan[i].ID] = planned
	}
	return listChanges("planned", ids, nextIDs, func(id string) string { return text[id] })
}

// listChanges names what has come to a list and what has left it.
func listChanges[T comparable](what string, old, next []T, text func(T) string) []string {
	var out []string
	for _, e := range next {
		if !slices.Contains(old, e) {
			out = append(out, what+" "+text(e))
		}
	}
	for _, e := range old {
		if !slices.Contains(next, e) {
			out = append(out, "no longer "+what+" "+text(e))
		}
	}
	return out
}
