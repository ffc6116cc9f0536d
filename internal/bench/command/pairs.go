package command

import (
	"context"
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

// runPairs alternates a baseline and a closed-loop storm: a bare echo with as many sessions, or with the store cassandra
// plain conditional inserts into the same Cassandra.
func (c *stormCommand) runPairs(ctx context.Context, st *stage, report *measure.Report) error {
	cassandra := c.Store == "cassandra" && c.URL == ""
	name, limit := "echo/s", echoRatioMin
	if cassandra {
		name, limit = "conditional inserts/s", cassandraRatioMin
	}
	title := "pairs"
	if cooldown := st.cooldown(); cooldown > 0 {
		title += fmt.Sprintf("; %d users with a cooldown of %v place %.0f times per second at most", c.Users, cooldown, float64(c.Users)/cooldown.Seconds())
	}
	table := &measure.Table{Title: title, Columns: []string{"pair", name, "placements/s", "ratio"}}
	var ratios []float64
	var checks [][]measure.Check
	var last *stormRun
	for pair := range c.Pairs {
		base, err := c.baseline(ctx, cassandra, report)
		if err != nil {
			return fmt.Errorf("pair %d: %w", pair+1, err)
		}
		run, err := c.storm(ctx, st, stormExtras{name: fmt.Sprint(pair + 1)})
		if err != nil {
			return fmt.Errorf("pair %d: %w", pair+1, err)
		}
		ratio := run.result.PerSecond / max(base, 1)
		ratios = append(ratios, ratio)
		table.Add(pair+1, fmt.Sprintf("%.0f", base), fmt.Sprintf("%.0f", run.result.PerSecond), fmt.Sprintf("%.3f", ratio))
		checks = append(checks, run.checks)
		last = run
	}
	last.report(report, "")
	report.Checks = append(report.Checks, mergeChecks(checks)...)
	report.Tables = append(report.Tables, table)
	report.Figures["ratioMedian"] = measure.Median(ratios)
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

// baseline measures the other half of a pair, per second.
func (c *stormCommand) baseline(ctx context.Context, cassandra bool, report *measure.Report) (float64, error) {
	if cassandra {
		steps, err := baseline.Cassandra(ctx, baseline.CassandraConfig{
			Hosts: c.CassandraHosts, Concurrencies: concurrencies, Warmup: c.Warmup, Duration: c.Duration, Seed: c.Seed,
		})
		best, _ := baseline.BestStep(steps)
		report.Figures["conditionalInsertsPerSecond"] = best.PerSecond
		return best.PerSecond, err
	}
	result, err := baseline.Echo(ctx, baseline.EchoConfig{
		Sessions: c.Users, PlaceBytes: baseline.PlaceBytes, AnswerBytes: baseline.AnswerBytes, Warmup: c.Warmup, Duration: c.Duration,
	}, selfEcho...)
	report.Figures["echoRoundTripsPerSecond"] = result.PerSecond
	return result.PerSecond, err
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
