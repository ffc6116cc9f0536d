package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

// when is a time as people give it: RFC 3339, or "+" and a duration from now on.
type when struct {
	at    time.Time
	after time.Duration
}

// UnmarshalText reads "2026-12-01T20:00:00Z" or "+1h30m".
func (w *when) UnmarshalText(text []byte) error {
	if rest, ok := strings.CutPrefix(string(text), "+"); ok {
		d, err := time.ParseDuration(rest)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is no duration after now, as +1h30m", text)
		}
		w.after = d
		return nil
	}
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("%q is neither a time as 2026-12-01T20:00:00Z nor one from now on as +2h", text)
	}
	w.at = t
	return nil
}

func (w *when) set() bool { return w.after != 0 || !w.at.IsZero() }

// ms returns the time in Unix milliseconds; a relative one counts from start.
func (w *when) ms(start time.Time) int64 {
	if w.after != 0 {
		return start.Add(w.after).UnixMilli()
	}
	return w.at.UnixMilli()
}

type settingsPlan struct {
	List   planList   `cmd:"" help:"Show what is planned."`
	Add    planAdd    `cmd:"" help:"Plan a change."`
	Remove planRemove `cmd:"" help:"Take changes off the plan."`
}

type planList struct{}

// Run shows the plan.
func (planList) Run(ctx context.Context, root *commands, s *streams) error {
	var settings board.Settings
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) ([]board.PlannedChange, error) {
		r, err := a.Settings(ctx)
		settings = r.Settings
		return append([]board.PlannedChange{}, r.Plan...), err
	}, func(w *tabwriter.Writer, plan []board.PlannedChange) { printPlan(w, settings, plan) })
}

func printPlan(w *tabwriter.Writer, settings board.Settings, plan []board.PlannedChange) {
	fmt.Fprintln(w, "ID\tAT\tCHANGES\tPLANNED\tBY\tWHY")
	for i := range plan {
		c := &plan[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.ID, at(c.AtMs), patchText(settings, &c.Patch), at(c.MadeMs), c.By, c.Why)
		settings = c.Patch.Apply(settings)
	}
}

// patchText tells what a patch changes; what it names and leaves as it is has no words.
func patchText(settings board.Settings, p *board.SettingsPatch) string {
	settings.Plan = nil
	next := p.Apply(settings)
	if changes := settingsChanges(&settings, &next); len(changes) > 0 {
		return strings.Join(changes, "; ")
	}
	b, err := json.Marshal(p) // as things stand, nothing
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// planTexts tells what is planned, each change on top of those before it.
func planTexts(settings board.Settings) []string {
	var out []string
	for i := range settings.Plan {
		c := &settings.Plan[i]
		out = append(out, fmt.Sprintf("%s at %s: %s", c.ID, at(c.AtMs), patchText(settings, &c.Patch)))
		plan := settings.Plan
		settings = c.Patch.Apply(settings)
		settings.Plan = plan
	}
	return out
}

type planAdd struct {
	At when `required:"" env:"-" placeholder:"TIME" help:"When: 2026-12-01T20:00:00Z, or +2h. --announcement-until then counts from there."`
	patchFlags
	Why string `env:"-" help:"Kept with the plan, and with the version that it makes."`
}

// Run plans a change.
func (c *planAdd) Run(ctx context.Context, root *commands, s *streams) error {
	atMs := c.At.ms(time.Now())
	patch, err := c.patch(time.UnixMilli(atMs))
	if err == nil && patch.Empty() {
		err = errNothing
	}
	if err != nil {
		return usageError{err}
	}
	return planned(ctx, root, s, client.SettingsChange{PlanAdd: []client.PlannedChange{{AtMs: atMs, Patch: patch}}, Why: c.Why})
}

type planRemove struct {
	ID  []string `arg:"" help:"As the list names them."`
	Why string   `env:"-" help:"Kept with the version."`
}

// Run takes changes off the plan.
func (c *planRemove) Run(ctx context.Context, root *commands, s *streams) error {
	return planned(ctx, root, s, client.SettingsChange{PlanRemove: c.ID, Why: c.Why})
}

// planned makes a change and shows the plan.
func planned(ctx context.Context, root *commands, s *streams, change client.SettingsChange) error {
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (board.SettingsRecord, error) {
		return changeSettings(ctx, a, change)
	}, func(w *tabwriter.Writer, r board.SettingsRecord) { printPlan(w, r.Settings, r.Plan) })
}
