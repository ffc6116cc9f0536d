package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/placed-board/placed/internal/bench/ledger"
	"github.com/placed-board/placed/internal/bench/load"
	"github.com/placed-board/placed/internal/bench/measure"
)

// Limits of a restart, from the start of the process to the first 200 of /readyz.
const (
	restartCleanMax = time.Second
	restartKillMax  = 2 * time.Second
)

// Traffic of the restart command.
const (
	fillUsers      = 2000
	fillWait       = 30 * time.Minute // for all placements
	fillPollEvery  = 20 * time.Millisecond
	killUsers      = 200
	killDuration   = 6 * time.Second
	killAfter      = 2 * time.Second // of the storm that the node is killed in
	restartRepeats = 3
)

type restartCommand struct {
	targetOwnFlags
	resultsFlag
	DataDir    string `help:"Data folder of the node; a temporary one without it." placeholder:"DIR"`
	Placements int64  `help:"Placements in the journals before the restarts." default:"1000000"`
	Seed       uint64 `help:"Seed of the placements." default:"1"`
}

func (c *restartCommand) Run(ctx context.Context, out *output) (err error) {
	if c.Placements < 1 {
		return usageError(fmt.Errorf("%d placements fill no journal", c.Placements))
	}
	out.results = c.Results
	target := &targetFlags{Placed: c.Placed, DataDir: c.DataDir, Width: boardSide, Height: boardSide}
	st, err := target.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	report := out.start(st.note(), fmt.Sprintf("time from the start of the process to the first 200 of /readyz, worst of %d", restartRepeats))
	filled, err := c.fill(ctx, st)
	if err != nil {
		return err
	}
	report.Checks = append(report.Checks, filled.checks...)
	table := &measure.Table{Title: fmt.Sprintf("restart with %d placements", filled.result.Totals.Accepted), Columns: []string{"after", "ready ms"}}
	report.Tables = append(report.Tables, table)
	var clean, killed time.Duration
	notBack := 0
	example := ""
	for range restartRepeats {
		what, err := st.restart(ctx)
		if err != nil {
			return err
		}
		if what != "" {
			notBack, example = notBack+1, what
		}
		table.Add("a clean stop", measure.Millis(st.node.ReadyAfter))
		clean = max(clean, st.node.ReadyAfter)
	}
	report.Checks = append(report.Checks, measure.Zero("boards not back when readyz said so", notBack, example))
	for i := range restartRepeats {
		run, err := c.killInAStorm(ctx, st, fmt.Sprintf("kill%d", i))
		if err != nil {
			return err
		}
		table.Add("kill -9 in a storm", measure.Millis(st.node.ReadyAfter))
		killed = max(killed, st.node.ReadyAfter)
		for j := range run.checks {
			run.checks[j].Name += fmt.Sprintf(", kill %d", i+1)
		}
		report.Checks = append(report.Checks, failures(run.checks)...)
	}
	report.Figures["readyAfterCleanStopNs"], report.Figures["readyAfterKillNs"] = float64(clean), float64(killed)
	if check, ok := st.verify(ctx); ok {
		report.Checks = append(report.Checks, check)
	}
	report.Checks = append(report.Checks,
		measure.Within("ready after a clean stop", clean, restartCleanMax), measure.Within("ready after kill -9", killed, restartKillMax))
	return out.finish(report)
}

// restart stops the node in good order and starts it again. It returns how the board at the first 200 of /readyz differs
// from that before the stop, "" for not at all.
func (st *stage) restart(ctx context.Context) (difference string, err error) {
	before, err := st.board(ctx)
	if err != nil {
		return "", err
	}
	if err := errors.Join(st.node.Stop(), st.node.Start(ctx)); err != nil {
		return "", err
	}
	after, err := st.board(ctx)
	if err != nil {
		return "", err
	}
	return ledger.Divergence(before, after), nil
}

// board fetches the board.
func (st *stage) board(ctx context.Context) (ledger.Board, error) {
	body, err := st.api.Board(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetch the board: %w", err)
	}
	return load.Board(body)
}

// fill places until the journals hold what they should.
func (c *restartCommand) fill(ctx context.Context, st *stage) (*stormRun, error) {
	flags := quietStorm(c.Seed, fillWait)
	flags.Users, flags.ClosedLoop = fillUsers, true
	run, err := flags.storm(ctx, st, stormExtras{name: "fill", beside: func(ctx context.Context, s *load.Storm) error {
		defer s.EndEarly()
		for s.Accepted() < c.Placements {
			if err := pause(ctx, fillPollEvery); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		return nil, fmt.Errorf("fill the journals: %w", err)
	}
	return run, nil
}

// killInAStorm kills the node while users place, starts it again, and lets the storm end.
func (c *restartCommand) killInAStorm(ctx context.Context, st *stage, name string) (*stormRun, error) {
	flags := quietStorm(c.Seed, killDuration)
	flags.Users, flags.ClosedLoop = killUsers, true
	run, err := flags.storm(ctx, st, stormExtras{name: name, beside: func(ctx context.Context, _ *load.Storm) error {
		return errors.Join(pause(ctx, killAfter), st.node.Kill(), st.node.Start(ctx))
	}})
	if err != nil {
		return nil, fmt.Errorf("kill in a storm: %w", err)
	}
	return run, nil
}

// failures are the checks that did not pass.
func failures(checks []measure.Check) []measure.Check {
	var kept []measure.Check
	for _, check := range checks {
		if check.Outcome != measure.Pass {
			kept = append(kept, check)
		}
	}
	return kept
}
