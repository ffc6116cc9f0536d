package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/placed-board/placed/internal/bench/measure"
	"github.com/placed-board/placed/internal/bench/target"
)

// Limits of import and export, for the history of 2017: fewer rows have as much less time, and as much memory.
const (
	importRows        = 16_500_000
	importUsers       = 1_166_924
	importMax         = 90 * time.Second
	exportMax         = 60 * time.Second
	importResidentMax = 1 << 30
	importRateMin     = 200_000 // rows a second
)

type importCommand struct {
	targetOwnFlags
	resultsFlag
	Rows   int64  `help:"Placements of the history." default:"16500000"`
	Seed   uint64 `help:"Seed of the history." default:"1"`
	Sorted bool   `help:"The history is in the order of time."`
	Dir    string `help:"Directory for the history, the board and the export: 200 bytes a placement; a temporary one without it." placeholder:"DIR"`
}

// Run generates a history, imports and exports it, and starts a node on what came of it.
func (c *importCommand) Run(ctx context.Context, out *output) (err error) {
	if c.Rows < 1 {
		return usageError(fmt.Errorf("%d rows are no history", c.Rows))
	}
	out.results = c.Results
	dir, err := os.MkdirTemp(c.Dir, "bench-import-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := target.Binary(ctx, c.Placed, dir)
	if err != nil {
		return err
	}
	history := filepath.Join(dir, "history.csv")
	if err := (&generateCommand{Out: history, Rows: c.Rows, Users: max(c.Rows*importUsers/importRows, 1), Seed: c.Seed, Sorted: c.Sorted}).Run(out); err != nil {
		return err
	}
	order := "in no order of time"
	if c.Sorted {
		order = "in the order of time"
	}
	report := out.start(fmt.Sprintf("%d rows of the shape of 2017, %s, seed %d; the embedded store in %s", c.Rows, order, c.Seed, dir))
	data := filepath.Join(dir, "data")
	imported, err := measure.RunToEnd(exec.CommandContext(ctx, binary, "import", "--quiet", "--data-dir", data, "--temp-dir", dir, history))
	if err != nil {
		return err
	}
	exported, err := measure.RunToEnd(exec.CommandContext(ctx, binary, "export", "--quiet", "--data-dir", data, "-o", filepath.Join(dir, "export.csv")))
	if err != nil {
		return err
	}
	c.judge(report, imported, exported)
	if err := c.start(ctx, report, binary, data); err != nil {
		return err
	}
	return out.finish(report)
}

// judge adds the figures and their limits.
func (c *importCommand) judge(report *measure.Report, imported, exported measure.Usage) {
	table := &measure.Table{Title: fmt.Sprintf("%d rows", c.Rows), Columns: []string{"what", "s", "CPU s", "rows/s", "MiB resident"}}
	for _, r := range []struct {
		name string
		used measure.Usage
	}{{"import", imported}, {"export", exported}} {
		table.Add(r.name, fmt.Sprintf("%.1f", r.used.Wall.Seconds()), fmt.Sprintf("%.1f", r.used.CPU.Seconds()),
			fmt.Sprintf("%.0f", c.rate(r.used)), r.used.ResidentMax>>20)
		report.Figures[r.name+"Ns"], report.Figures[r.name+"CPUNs"] = float64(r.used.Wall), float64(r.used.CPU)
		report.Figures[r.name+"ResidentBytes"] = float64(r.used.ResidentMax)
	}
	report.Tables = append(report.Tables, table)
	portion := max(float64(c.Rows)/importRows, 0.01) // what takes a moment is not scaled to nothing
	report.Checks = append(report.Checks,
		measure.Within("import", imported.Wall, time.Duration(float64(importMax)*portion)),
		measure.AtLeast("rows imported a second", c.rate(imported), min(importRateMin, float64(c.Rows)), "%.0f"),
		measure.AtMost("bytes resident during the import", float64(imported.ResidentMax), importResidentMax, "%.0f"),
		measure.Within("export", exported.Wall, time.Duration(float64(exportMax)*portion)))
}

func (c *importCommand) rate(u measure.Usage) float64 { return float64(c.Rows) / u.Wall.Seconds() }

// start serves the imported board: ready soon, every journal right.
func (c *importCommand) start(ctx context.Context, report *measure.Report, binary, data string) (err error) {
	st, err := (&targetFlags{Placed: binary, DataDir: data, Width: boardSide, Height: boardSide}).open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	report.Checks = append(report.Checks, measure.Within("first start after it", st.node.ReadyAfter, restartCleanMax))
	if check, ok := st.verify(ctx); ok {
		report.Checks = append(report.Checks, check)
	}
	return nil
}
