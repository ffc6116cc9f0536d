package command

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/placed-board/placed/bench/baseline"
	"github.com/placed-board/placed/internal/bench/load"
	"github.com/placed-board/placed/internal/bench/measure"
)

// Limits of tile details: the time to get them while a storm runs, and what asking for them may cost the storm.
const (
	tileReaderP99    = 20 * time.Millisecond
	tileStormRatio   = 1.5
	tileReadsShort   = 0.01 // share of the requests that may be due and not sent
	tileReadersTable = "tile details during the storm, from when they were due"
)

type tileDetailsCommand struct {
	resultsFlag
	Placed      string        `help:"Binary of bench's own node; built from this module without it." placeholder:"FILE" env:"BENCH_PLACED"`
	Connections int           `help:"Kept-alive connections that ask." default:"16"`
	ReadRate    float64       `help:"Random tiles per second that are asked for in every second run." default:"1000"`
	Pairs       int           `help:"Pairs of a storm without readers and one with them." default:"5"`
	StormRate   float64       `help:"Placements per second of the storm." default:"5000"`
	StormTime   time.Duration `help:"Measured time of each storm." default:"10s"`
	Seed        uint64        `help:"Seed of placements and tiles." default:"1"`
}

func (c *tileDetailsCommand) validate() error {
	if c.Connections < 1 || c.Pairs < 1 {
		return usageError(fmt.Errorf("connections %d and pairs %d must be above 0", c.Connections, c.Pairs))
	}
	if c.ReadRate <= 0 || c.StormRate <= 0 || c.StormTime <= 0 {
		return usageError(fmt.Errorf("read rate %g, storm rate %g and storm time %v must be above 0", c.ReadRate, c.StormRate, c.StormTime))
	}
	return nil
}

func (c *tileDetailsCommand) Run(ctx context.Context, out *output) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	out.results = c.Results
	st, err := (&targetFlags{Placed: c.Placed, Width: boardSide, Height: boardSide, Cooldown: 50 * time.Millisecond}).open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	report := out.start(st.note(), fmt.Sprintf("storms of %g/s for %v; in every second one %g random tiles/s over %d connections", c.StormRate, c.StormTime, c.ReadRate, c.Connections))
	acks := &measure.Table{Title: "acknowledgements of the storm", Columns: measure.SummaryColumns("run")}
	reads := &measure.Table{Title: tileReadersTable, Columns: append(measure.SummaryColumns("pair"), "unsent")}
	report.Tables = append(report.Tables, acks, reads)
	var ratios, p99s []float64
	var checks [][]measure.Check
	var count, unsent int64
	for pair := range c.Pairs {
		var p99 [2]time.Duration
		for i, reading := range []bool{false, true} {
			run, answers, err := c.run(ctx, st, pair, reading)
			if err != nil {
				return err
			}
			response := run.latencies.Response.Summary()
			p99[i] = response.P99
			acks.AddSummary(fmt.Sprintf("%d, %s", pair+1, map[bool]string{false: "alone", true: "with readers"}[reading]), response)
			checks = append(checks, run.checks)
			if reading {
				reads.AddSummary(fmt.Sprint(pair+1), answers.Latency)
				row := &reads.Rows[len(reads.Rows)-1]
				*row = append(*row, fmt.Sprint(answers.Unfulfilled))
				p99s = append(p99s, float64(answers.Latency.P99))
				count, unsent = count+answers.Latency.Count, unsent+answers.Unfulfilled
			}
		}
		ratios = append(ratios, float64(p99[1])/float64(max(1, p99[0])))
	}
	report.Figures["tileDetailsP99Ns"], report.Figures["tileDetailsStormRatio"] = measure.Median(p99s), measure.Median(ratios)
	report.Checks = append(report.Checks, mergeChecks(checks)...)
	report.Checks = append(report.Checks,
		someData("tiles asked for", count),
		measure.AtMost("share of the questions that were due and never sent", float64(unsent)/float64(max(1, count+unsent)), tileReadsShort, "%.3f"),
		measure.Within(fmt.Sprintf("p99 of tile details during the storm, median of %d", c.Pairs), time.Duration(measure.Median(p99s)), tileReaderP99),
		measure.AtMost(fmt.Sprintf("p99 of the acknowledgement with readers to that without, median of %d pairs", c.Pairs), measure.Median(ratios), tileStormRatio, "%.3f"))
	if check, ok := st.verify(ctx); ok {
		report.Checks = append(report.Checks, check)
	}
	return out.finish(report)
}

// run is one storm, with readers beside it or without.
func (c *tileDetailsCommand) run(ctx context.Context, st *stage, pair int, reading bool) (*stormRun, baseline.HTTPResult, error) {
	var answers baseline.HTTPResult
	storm := quietStorm(c.Seed+uint64(pair), c.StormTime)
	storm.Rate, storm.Users, storm.CooldownAware = c.StormRate, int(c.StormRate/2), true
	extras := stormExtras{name: fmt.Sprintf("tiles%d-%v", pair, reading)}
	if reading {
		extras.beside = func(ctx context.Context, _ *load.Storm) error {
			var err error
			answers, err = baseline.HTTPLoop(ctx, c.loop(st, uint64(pair), storm.Warmup))
			return err
		}
	}
	run, err := storm.storm(ctx, st, extras)
	return run, answers, err
}

// loop asks for a tile of the board at random, again and again.
func (c *tileDetailsCommand) loop(st *stage, pair uint64, warmup time.Duration) baseline.HTTPConfig {
	u, _ := url.Parse(st.url) // read from it already
	return baseline.HTTPConfig{
		Address: u.Host, Path: "/api/v1/tiles/X/Y", Status: 200, Connections: c.Connections, Warmup: warmup, Duration: c.StormTime, PID: st.node.PID(),
		Every: time.Duration(float64(time.Second) / c.ReadRate),
		PathOf: func(request int64) string {
			r := rand.New(rand.NewPCG(c.Seed<<32+pair, uint64(request)))
			return fmt.Sprintf("/api/v1/tiles/%d/%d", r.IntN(st.settings.Width), r.IntN(st.settings.Height))
		},
	}
}
