package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/placed-board/placed/bench/baseline"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/bench/measure"
)

// Limits of the ratios of a closed-loop storm to its baseline in the same run.
const (
	echoRatioMin      = 0.45
	cassandraRatioMin = 2.0
)

// concurrencies of the sweep of conditional inserts.
var concurrencies = []int{1, 8, 32, 64, 128}

// runPairs alternates a baseline and a closed-loop storm: the same sessions against a bare echo, or with the store cassandra
// plain conditional inserts into the same Cassandra. A bare echo by sessions that do nothing else stands beside the former.
func (c *stormCommand) runPairs(ctx context.Context, st *stage, report *measure.Report, out *output) error {
	cassandra := c.Store == "cassandra" && c.URL == ""
	name, key, limit := "echo/s of the same sessions", "echoOfSessionsPerSecond", echoRatioMin
	if cassandra {
		name, key, limit = "conditional inserts/s", "conditionalInsertsPerSecond", cassandraRatioMin
	}
	title := "pairs"
	if cooldown := st.cooldown(); cooldown > 0 {
		title += fmt.Sprintf("; %d users with a cooldown of %v place %.0f times per second at most", c.Users, cooldown, float64(c.Users)/cooldown.Seconds())
	}
	table := &measure.Table{Title: title, Columns: []string{"pair", name, "placements/s", "ratio"}}
	if !cassandra {
		table.Columns = append(table.Columns, "bare echo/s", "ratio to that")
	}
	var ratios, bareRatios []float64
	var checks [][]measure.Check
	var last *stormRun
	sweep := concurrencies
	for pair := range c.Pairs {
		var base float64
		var err error
		if cassandra {
			// The first pair looks for the best concurrency, the others go on with that.
			base, sweep, err = c.conditionalInserts(ctx, sweep, out)
		} else {
			base, err = c.sessionsEcho(ctx, st)
		}
		if err != nil {
			return fmt.Errorf("pair %d: %w", pair+1, err)
		}
		report.Figures[key] = base
		out.say("pair %d of %d: %.0f %s; now the storm", pair+1, c.Pairs, base, name)
		run, err := c.storm(ctx, st, stormExtras{name: fmt.Sprint(pair + 1)})
		if err != nil {
			return fmt.Errorf("pair %d: %w", pair+1, err)
		}
		ratio := run.result.PerSecond / max(base, 1)
		ratios = append(ratios, ratio)
		row := []any{pair + 1, fmt.Sprintf("%.0f", base), fmt.Sprintf("%.0f", run.result.PerSecond), fmt.Sprintf("%.3f", ratio)}
		if !cassandra {
			bare, err := c.echo(ctx)
			if err != nil {
				return fmt.Errorf("pair %d: %w", pair+1, err)
			}
			bareRatios = append(bareRatios, run.result.PerSecond/max(bare, 1))
			report.Figures["echoRoundTripsPerSecond"] = bare
			row = append(row, fmt.Sprintf("%.0f", bare), fmt.Sprintf("%.3f", bareRatios[pair]))
		}
		table.Add(row...)
		checks = append(checks, run.checks)
		last = run
	}
	last.report(report, "")
	report.Checks = append(report.Checks, mergeChecks(checks)...)
	report.Tables = append(report.Tables, table)
	report.Figures["ratioMedian"] = measure.Median(ratios)
	if !cassandra {
		report.Figures["bareRatioMedian"] = measure.Median(bareRatios)
	}
	if check, ok := st.verify(ctx); ok {
		report.Checks = append(report.Checks, check)
	}
	report.Checks = append(report.Checks,
		measure.AtLeast(fmt.Sprintf("placements/s to %s, median of %d pairs", name, c.Pairs), measure.Median(ratios), limit, "%.3f"))
	return nil
}

// mergeChecks makes one check of those that bear the same name in several runs: the first that did not pass, else the last.
func mergeChecks(runs [][]measure.Check) []measure.Check {
	var merged []measure.Check
	place := map[string]int{}
	for i, run := range runs {
		for _, check := range run {
			at, seen := place[check.Name]
			if !seen {
				at = len(merged)
				place[check.Name] = at
				merged = append(merged, check)
			}
			if check.Outcome != measure.Pass && len(runs) > 1 {
				check.Detail = strings.TrimSpace(fmt.Sprintf("in run %d of %d: %s", i+1, len(runs), check.Detail))
			}
			if merged[at].Outcome == measure.Pass {
				merged[at] = check
			}
		}
	}
	return merged
}

// conditionalInserts is the best rate of plain conditional inserts at the concurrencies, per second, and the concurrency that
// reached it.
func (c *stormCommand) conditionalInserts(ctx context.Context, sweep []int, out *output) (perSecond float64, best []int, err error) {
	if len(sweep) > 1 {
		out.say("conditional inserts at %d concurrencies, %v each", len(sweep), c.Warmup+c.Duration)
	}
	steps, err := baseline.Cassandra(ctx, baseline.CassandraConfig{
		Hosts: c.CassandraHosts, Concurrencies: sweep, Warmup: c.Warmup, Duration: c.Duration, Seed: c.Seed,
	})
	if err != nil {
		return 0, nil, err
	}
	step, ok := baseline.BestStep(steps)
	if !ok {
		return 0, nil, errors.New("no conditional insert was applied")
	}
	return step.PerSecond, []int{step.Concurrency}, nil
}

// refusalLabels are the labels of all refusals, in the order of their codes.
func refusalLabels() []string {
	labels := make([]string, 0, len(board.Refusals))
	for _, refusal := range board.Refusals {
		if refusal.Code != board.CodeOK {
			labels = append(labels, refusal.Label)
		}
	}
	return labels
}
