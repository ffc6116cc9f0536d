package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/placed-board/placed/archive"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/internal/bench/measure"
)

// Limits and sizes of a replay.
const (
	leftOutShareMax = 0.01 // of the rows, for want of a session
	// replayCooldownShare keeps those who waited exactly one cooldown from being refused for a way that was a little shorter.
	replayCooldownShare = 0.95
)

type replayCommand struct {
	Files     []string      `arg:"" name:"file" help:"Histories as CSV, plain or gzip, in any order of time." type:"existingfile"`
	Speed     float64       `help:"How many times faster than it was." default:"60"`
	Skip      time.Duration `help:"Leave out this much of the history's beginning."`
	For       time.Duration `help:"Replay this much of the history; 0 for all of it."`
	Cooldown  time.Duration `help:"Cooldown of the history. Bench's own node gets it divided by the speed, less 5%." default:"5m"`
	Sessions  int           `help:"Sessions that play the users, each one user after another." default:"2000"`
	Listeners int           `help:"Sessions that mirror the whole board." default:"20"`
	URL       string        `help:"Node to replay to; without it a node of bench's own is built, started and stopped." placeholder:"URL"`
	Admin     string        `help:"Admin listener of that node, for a replay of its journals at the end; the token is read from PLACED_ADMIN_TOKEN." placeholder:"URL"`
	Shared    bool          `help:"Others place tiles on that board meanwhile: placements that no answer explains are theirs."`
	Placed    string        `help:"Binary of bench's own node; built from this module without it." placeholder:"FILE" env:"BENCH_PLACED"`
	DataDir   string        `help:"Data folder of bench's own node; a temporary one without it." placeholder:"DIR"`
	resultsFlag
	reportFlag
}

func (c *replayCommand) validate() error {
	if !(c.Speed > 0) || c.Skip < 0 || c.For < 0 || c.Cooldown < 0 {
		return usageError(fmt.Errorf("speed %g must be above 0; skip %v, for %v and cooldown %v not below", c.Speed, c.Skip, c.For, c.Cooldown))
	}
	if c.Sessions < 1 || c.Listeners < 1 {
		return usageError(fmt.Errorf("sessions %d and listeners %d must be at least 1", c.Sessions, c.Listeners))
	}
	return nil
}

// Run replays the files and judges the board like a storm's.
func (c *replayCommand) Run(ctx context.Context, out *output) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	out.results, out.page = c.Results, c.Report
	st, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	h, err := readHistory(c.Files, &st.settings, span{skip: c.Skip, most: c.For})
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	h.assign(c.Sessions, c.Speed, st.cooldown())
	storm := stormFlags{
		loadFlags: loadFlags{Duration: h.duration()}, Rate: float64(h.sent) / h.duration().Seconds(), Users: h.used, Listeners: c.Listeners, Connections: 1,
	}
	if err := storm.validate(); err != nil {
		return err
	}
	begin := time.UnixMilli(h.firstMs).UTC().Format(time.DateTime)
	report := out.start(st.note(), fmt.Sprintf("%d placements of %d users from %s UTC on, %g times as fast: %v, through %d sessions",
		len(h.rows), h.users, begin, c.Speed, h.duration().Round(time.Second), h.used))
	run, err := storm.storm(ctx, st, stormExtras{name: "replay", events: h})
	if err != nil {
		return err
	}
	h.report(report)
	run.report(report, "")
	report.Charts = run.curves.charts()
	report.Checks = append(report.Checks, run.checks...)
	report.Checks = append(report.Checks, measure.AtMost("rows left out for want of a session, share", float64(h.noneYet)/float64(len(h.rows)), leftOutShareMax, "%.4f"))
	if check, ok := st.verify(ctx); ok {
		report.Checks = append(report.Checks, check)
	}
	return out.finish(report)
}

// open starts a node with a board for the shape of the first file, or finds the one that was named.
func (c *replayCommand) open(ctx context.Context) (*stage, error) {
	var palette []board.PaletteEntry // of a node of bench's own
	flags := targetFlags{URL: c.URL, Admin: c.Admin, Shared: c.Shared, Placed: c.Placed, DataDir: c.DataDir, Store: "pebble"}
	if c.URL == "" {
		first, err := archive.OpenReader(c.Files[0], 1, nil)
		if err != nil {
			return nil, fmt.Errorf("read the history: %w", err)
		}
		layout := first.Shape().Layout()
		if err := first.Close(); err != nil {
			return nil, fmt.Errorf("read the history: %w", err)
		}
		flags.Width, flags.Height, palette = layout.Width, layout.Height, layout.Palette
		flags.Cooldown = time.Duration(float64(c.Cooldown) * replayCooldownShare / c.Speed).Truncate(time.Millisecond)
	}
	st, err := flags.open(ctx)
	if err != nil || len(palette) <= len(st.settings.Palette) {
		return st, err
	}
	record, err := st.admin.ChangeSettings(ctx, st.settings.Version, client.SettingsPatch{Palette: palette}, "the history's colours")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("give the node the history's colours: %w", err), st.close())
	}
	st.settings = record.Settings
	return st, nil
}

// report tells what became of the rows.
func (h *history) report(report *measure.Report) {
	table := &measure.Table{Title: "history", Columns: []string{"rows", "count"}}
	table.Add("replayed", h.sent)
	table.Add("of these before their user's cooldown was over, as in the history", h.early)
	table.Add("left out: no session was free", h.noneYet)
	table.Add("left out: more than one tile", h.areas)
	table.Add("left out: beyond the board or its colours", h.outside)
	table.Add("left out: cannot be read", h.bad)
	if h.badRow != nil {
		report.Notes = append(report.Notes, "the first row that cannot be read: "+h.badRow.Error())
	}
	report.Tables = append(report.Tables, table)
	report.Figures["replayedRows"], report.Figures["earlyRows"] = float64(h.sent), float64(h.early)
}
