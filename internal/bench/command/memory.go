package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/placed-board/placed/internal/bench/measure"
)

// sessionMemoryMax is the resident memory that an idle session may cost, in KiB.
const sessionMemoryMax = 6.0

// settleMemory is how long the server's memory is given to go back to the system after a collection.
const settleMemory = 5 * time.Second

// idleFor is how long sessions do nothing before they count as idle: people who watch a board do so for minutes, and the
// server lets go of what it held for their first seconds.
const idleFor = 45 * time.Second

type memoryCommand struct {
	targetOwnFlags
	resultsFlag
	Sessions   int  `help:"Idle sessions." default:"10000"`
	Spectators bool `help:"Without an identity; otherwise every session is signed in as a user of its own."`
}

// targetOwnFlags are for commands that can only measure a node of bench's own.
type targetOwnFlags struct {
	Placed string `help:"Binary of bench's own node; built from this module without it." placeholder:"FILE" env:"BENCH_PLACED"`
}

// open starts the node.
func (f *targetOwnFlags) open(ctx context.Context, width, height int, cooldown time.Duration) (*stage, error) {
	return (&targetFlags{Placed: f.Placed, Width: width, Height: height, Cooldown: cooldown}).open(ctx)
}

func (c *memoryCommand) Run(ctx context.Context, out *output) (err error) {
	if c.Sessions < 1 {
		return usageError(fmt.Errorf("%d sessions use no memory", c.Sessions))
	}
	out.results = c.Results
	st, err := c.open(ctx, boardSide, boardSide, time.Second)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	report := out.start(st.note(), "resident memory of the server's process after 45 s of idling and a collection, whole-board sessions without traffic")
	before, err := st.memory(ctx)
	if err != nil {
		return err
	}
	slabBefore, err := measure.KernelSlab()
	if err != nil {
		return err
	}
	sinks, err := openSinks(ctx, st, c.Sessions, !c.Spectators, "idle")
	if err != nil {
		return err
	}
	defer sinks.Close()
	busy, err := measure.ProcessRSS(st.node.PID())
	if err != nil {
		return err
	}
	if err := pause(ctx, idleFor); err != nil {
		return err
	}
	after, err := st.memory(ctx)
	if err != nil {
		return err
	}
	slabAfter, err := measure.KernelSlab()
	if err != nil {
		return err
	}
	stats, err := sinks.Stats(ctx)
	if err != nil {
		return err
	}
	perSession := func(bytes int64) float64 { return float64(bytes) / 1024 / float64(c.Sessions) }
	table := &measure.Table{Title: "memory", Columns: []string{"what", "MiB", "KiB per session"}}
	add := func(what string, bytes int64, per bool) {
		cell := ""
		if per {
			cell = fmt.Sprintf("%.2f", perSession(bytes))
		}
		table.Add(what, fmt.Sprintf("%.1f", float64(bytes)/(1<<20)), cell)
	}
	add("server without sessions", before, false)
	add(fmt.Sprintf("server with %d sessions", stats.Connected), after, false)
	add("sessions, resident memory", after-before, true)
	add("sessions, right after they connected", busy-before, true)
	add("kernel, both ends of the sockets", slabAfter-slabBefore, true)
	report.Tables = append(report.Tables, table)
	report.Figures["residentKiBPerSession"] = perSession(after - before)
	report.Figures["kernelKiBPerConnectionBothEnds"] = perSession(slabAfter - slabBefore)
	report.Checks = append(report.Checks,
		measure.Zero("sessions that were cut", c.Sessions-stats.Connected, ""),
		measure.AtMost("resident KiB per idle session", perSession(after-before), sessionMemoryMax, "%.2f"))
	return out.finish(report)
}

// boardSide is the side of the board of 2017, in tiles.
const boardSide = 1000

// memory is the resident memory of the node after its garbage is collected.
func (st *stage) memory(ctx context.Context) (int64, error) {
	for range 2 { // the second collection frees what finalizers held
		if err := st.collect(ctx); err != nil {
			return 0, err
		}
	}
	if err := pause(ctx, settleMemory); err != nil {
		return 0, err
	}
	return measure.ProcessRSS(st.node.PID())
}

// collect has the node collect its garbage and give free memory back to the system.
func (st *stage) collect(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, st.admin.URL+"/debug/free-memory", nil)
	if err != nil {
		return fmt.Errorf("collect garbage: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+st.admin.Token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("collect garbage: %w", err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return fmt.Errorf("collect garbage: %w", err)
	}
	if answer.StatusCode != http.StatusNoContent {
		return fmt.Errorf("collect garbage: %s", answer.Status)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type bigBoardCommand struct {
	targetOwnFlags
	resultsFlag
	Side    int     `help:"Width and height of the large board, in tiles." default:"10000"`
	Touched float64 `help:"Share of its blocks that are placed on." default:"0.01"`
	Seed    uint64  `help:"Seed of the placements." default:"1"`
}

// Limits of a large board that is hardly used, against a small board with as many touched blocks.
const (
	bigBoardExtraMax = 16.0 // MiB
	blockSide        = 100  // tiles
	// bigBoardRate places on every touched block within the run, many times over.
	bigBoardRate     = 2000
	bigBoardDuration = 5 * time.Second
)

// Run compares a large board with a small one on which as many blocks are touched.
func (c *bigBoardCommand) Run(ctx context.Context, out *output) error {
	if c.Side < 2*blockSide || !(c.Touched > 0 && c.Touched <= 1) {
		return usageError(fmt.Errorf("side %d and touched share %v make no large board", c.Side, c.Touched))
	}
	out.results = c.Results
	report := out.start("resident memory after a collection, placements on a square of blocks only")
	table := &measure.Table{Title: "large board", Columns: []string{"board", "before MiB", "after MiB", "after a restart MiB", "ready after ms"}}
	report.Tables = append(report.Tables, table)
	blocks := max(1, int(float64(c.Side/blockSide)*float64(c.Side/blockSide)*c.Touched))
	smallSide := blockSide
	for (smallSide/blockSide)*(smallSide/blockSide) < blocks {
		smallSide += blockSide
	}
	var grown [2]float64
	for i, side := range []int{smallSide, c.Side} {
		area := float64(smallSide) / float64(side)
		mib, err := c.board(ctx, table, side, area*area)
		if err != nil {
			return err
		}
		grown[i] = mib
	}
	report.Figures["bigBoardExtraMiB"] = grown[1] - grown[0]
	report.Checks = append(report.Checks,
		measure.AtMost(fmt.Sprintf("MiB that %dx%d tiles cost over %dx%d with as many touched blocks", c.Side, c.Side, smallSide, smallSide),
			grown[1]-grown[0], bigBoardExtraMax, "%.1f"))
	return out.finish(report)
}

// board runs one node and returns its resident memory at the end, in MiB.
func (c *bigBoardCommand) board(ctx context.Context, table *measure.Table, side int, hotArea float64) (mib float64, err error) {
	st, err := c.open(ctx, side, side, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	var at [3]int64
	if at[0], err = st.memory(ctx); err != nil {
		return 0, err
	}
	storm := quietStorm(c.Seed, bigBoardDuration)
	storm.Rate, storm.HotShare, storm.HotArea = bigBoardRate, 1, hotArea
	if _, err := storm.storm(ctx, st, stormExtras{}); err != nil {
		return 0, err
	}
	if at[1], err = st.memory(ctx); err != nil {
		return 0, err
	}
	if err := errors.Join(st.node.Stop(), st.node.Start(ctx)); err != nil {
		return 0, err
	}
	if at[2], err = st.memory(ctx); err != nil {
		return 0, err
	}
	row := []any{fmt.Sprintf("%dx%d", side, side)}
	for _, bytes := range at {
		row = append(row, fmt.Sprintf("%.1f", float64(bytes)/(1<<20)))
	}
	table.Add(append(row, measure.Millis(st.node.ReadyAfter))...)
	return float64(at[2]) / (1 << 20), nil
}
