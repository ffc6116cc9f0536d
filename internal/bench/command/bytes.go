package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/placed-board/placed/internal/bench/measure"
)

// placementBytesMax is what a placement may cost a session of the whole board on the wire, everything after the websocket
// upgrade included and TCP and IP left out.
const placementBytesMax = 4.5

type bytesCommand struct {
	targetOwnFlags
	resultsFlag
	Sessions int           `help:"Whole-board sessions." default:"20"`
	Duration time.Duration `help:"Measured time." default:"20s"`
	Rate     float64       `help:"Placements per second." default:"333"`
	Seed     uint64        `help:"Seed of the placements." default:"1"`
}

func (c *bytesCommand) Run(ctx context.Context, out *output) (err error) {
	if c.Sessions < 1 || c.Duration <= 0 || c.Rate <= 0 {
		return usageError(fmt.Errorf("sessions %d, duration %v and rate %g must be above 0", c.Sessions, c.Duration, c.Rate))
	}
	out.results = c.Results
	st, err := c.open(ctx, boardSide, boardSide, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	report := out.start(st.note(), "bytes after the websocket upgrade, frame headers and heartbeats included, TCP and IP left out")
	sinks, err := openSinks(ctx, st, c.Sessions, false, "")
	if err != nil {
		return err
	}
	defer sinks.Close()
	storm := quietStorm(c.Seed, c.Duration)
	storm.Rate = c.Rate
	run, err := measureFrames(ctx, st, storm, sinks, "")
	if err != nil {
		return err
	}
	table := &measure.Table{Title: "bytes", Columns: []string{"sessions", "placements", "frames per session per s", "bytes per frame", "bytes per placement"}}
	frames := float64(run.frames) / float64(c.Sessions)
	perPlacement := float64(run.bytes) / float64(c.Sessions) / float64(max(1, run.placements))
	table.Add(c.Sessions, run.placements, fmt.Sprintf("%.2f", frames/c.Duration.Seconds()),
		fmt.Sprintf("%.1f", float64(run.bytes)/float64(max(1, run.frames))), fmt.Sprintf("%.3f", perPlacement))
	report.Tables = append(report.Tables, table)
	report.Figures["bytesPerPlacementPerSession"] = perPlacement
	report.Checks = append(report.Checks,
		someData("frames", run.frames),
		measure.AtMost("bytes per placement per session", perPlacement, placementBytesMax, "%.3f"))
	return out.finish(report)
}
