package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/placed-board/placed/internal/bench/load"
	"github.com/placed-board/placed/internal/bench/measure"
)

// slowRatioMax is how much stopped readers may lengthen the others' way from placement to arrival, at the 99th percentile.
const slowRatioMax = 1.5

type slowReadersCommand struct {
	targetOwnFlags
	resultsFlag
	Readers  int           `help:"Sessions that mirror the whole board." default:"400"`
	Stopped  int           `help:"How many of them stop reading." default:"4"`
	Rate     float64       `help:"Placements per second; enough to fill a stopped reader's buffers." default:"5000"`
	Users    int           `help:"Placing users." default:"500"`
	Duration time.Duration `help:"How long they stop." default:"10s"`
	Pairs    int           `help:"Runs without and with stopped readers, in turn." default:"5"`
	Seed     uint64        `help:"Seed of the placements." default:"1"`
}

func (c *slowReadersCommand) Run(ctx context.Context, out *output) (err error) {
	if c.Stopped < 1 || c.Readers <= c.Stopped || c.Pairs < 1 || c.Duration <= 0 {
		return usageError(fmt.Errorf("of %d readers %d cannot stop for %v in %d pairs", c.Readers, c.Stopped, c.Duration, c.Pairs))
	}
	out.results = c.Results
	st, err := c.open(ctx, boardSide, boardSide, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	report := out.start(st.note(), fmt.Sprintf("%d readers, %d of them stopped for %v in every second run; arrivals at the others", c.Readers, c.Stopped, c.Duration))
	table := &measure.Table{Title: "arrival at healthy readers, from the send", Columns: append(measure.SummaryColumns("run"), "cut", "repaired chunks")}
	report.Tables = append(report.Tables, table)
	var ratios []float64
	var checks [][]measure.Check
	cut := 0
	for pair := range c.Pairs {
		var p99 [2]time.Duration
		for i, stopped := range []bool{false, true} {
			run, losses, err := c.run(ctx, st, pair, stopped)
			if err != nil {
				return err
			}
			table.AddSummary(fmt.Sprintf("%d, %s", pair+1, map[bool]string{false: "all read", true: "some stopped"}[stopped]), run.fanout)
			row := &table.Rows[len(table.Rows)-1]
			*row = append(*row, fmt.Sprint(losses), fmt.Sprint(run.listeners.Repairs))
			p99[i] = run.fanout.P99
			cut += int(losses)
			checks = append(checks, run.checks)
		}
		ratios = append(ratios, float64(p99[1])/float64(max(1, p99[0])))
	}
	report.Figures["slowReadersP99Ratio"] = measure.Median(ratios)
	report.Checks = append(report.Checks, mergeChecks(checks)...)
	report.Checks = append(report.Checks,
		measure.Zero(fmt.Sprintf("readers cut within %v", c.Duration), cut, ""),
		measure.AtMost(fmt.Sprintf("p99 of the others with stopped readers to that without, median of %d pairs", c.Pairs), measure.Median(ratios), slowRatioMax, "%.3f"))
	return out.finish(report)
}

// run is one storm; with stopped, the first readers but the witness stop for the measured time, and all boards must be
// equal after they went on.
func (c *slowReadersCommand) run(ctx context.Context, st *stage, pair int, stopped bool) (run *stormRun, losses uint64, err error) {
	flags := quietStorm(c.Seed+uint64(pair), c.Duration)
	flags.Rate, flags.Users, flags.Listeners = c.Rate, c.Users, c.Readers
	slow := func(listener int) bool { return listener >= 1 && listener <= c.Stopped }
	var stall load.Stall
	defer stall.Resume()
	extras := stormExtras{
		name:    fmt.Sprintf("slow%d-%v", pair, stopped),
		healthy: func(listener int) bool { return !slow(listener) },
		dial: func(listener int) load.DialFunc {
			if slow(listener) {
				return stall.Dial
			}
			return nil
		},
		beside: func(ctx context.Context, s *load.Storm) error {
			if !stopped {
				return nil
			}
			if err := pause(ctx, time.Until(s.Start().Add(flags.Warmup))); err != nil {
				return err
			}
			stall.Stop()
			return nil
		},
		atEnd: func(_ context.Context, listeners *load.Listeners) error {
			losses = listeners.Stats().Losses
			stall.Resume()
			return nil
		},
	}
	run, err = flags.storm(ctx, st, extras)
	return run, losses, err
}
