package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/placed-board/placed/bench/baseline"
	"github.com/placed-board/placed/internal/bench/load"
	"github.com/placed-board/placed/internal/bench/measure"
)

// Limits of a full board's answer: requests per second and core against nginx serving the same bytes from files, and the
// time to get one while a storm runs.
const (
	boardPlainMin  = 1.00
	boardGzipMin   = 0.55
	boardKnownMin  = 0.40
	boardReaderP99 = 100 * time.Millisecond
	boardPath      = "/api/v1/board"
	boardFileName  = "board"
)

type boardCommand struct {
	resultsFlag
	Placed      string        `help:"Binary of bench's own node; built from this module without it." placeholder:"FILE" env:"BENCH_PLACED"`
	Nginx       string        `help:"The nginx to compare with." default:"nginx" placeholder:"FILE"`
	Connections int           `help:"Kept-alive connections, each with one request under way." default:"16"`
	Pairs       int           `help:"Pairs of a run against placed and one against nginx, for each kind of answer." default:"5"`
	Duration    time.Duration `help:"Measured time of each run." default:"3s"`
	Warmup      time.Duration `help:"Time before it, not measured." default:"500ms"`
	StormRate   float64       `help:"Placements per second of the storm, which also fills the board." default:"5000"`
	StormTime   time.Duration `help:"Measured time of the storm." default:"20s"`
	ReadRate    float64       `help:"Full boards per second that are asked for during the storm, half of them gzip." default:"100"`
	Seed        uint64        `help:"Seed of the placements." default:"1"`
}

// boardKind is one kind of answer that is compared.
type boardKind struct {
	name    string
	figure  string
	limit   float64
	gzip    bool
	status  int
	etagged bool // the request carries the answer's tag
}

var boardKinds = []boardKind{
	{"plain", "boardPlain", boardPlainMin, false, 200, false},
	{"gzip", "boardGzip", boardGzipMin, true, 200, false},
	{"304", "boardKnown", boardKnownMin, false, 304, true},
}

func (c *boardCommand) validate() error {
	if c.Connections < 1 || c.Pairs < 1 || c.Duration <= 0 || c.Warmup < 0 {
		return usageError(fmt.Errorf("connections %d, pairs %d and duration %v must be above 0", c.Connections, c.Pairs, c.Duration))
	}
	if c.StormRate <= 0 || c.StormTime <= 0 || c.ReadRate <= 0 {
		return usageError(fmt.Errorf("storm rate %g, storm time %v and read rate %g must be above 0", c.StormRate, c.StormTime, c.ReadRate))
	}
	return nil
}

func (c *boardCommand) Run(ctx context.Context, out *output) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	nginx, err := exec.LookPath(c.Nginx)
	if err != nil {
		nginx, err = exec.LookPath("/usr/sbin/" + c.Nginx) // Debian keeps servers there
	}
	if err != nil {
		return fmt.Errorf("nginx is what placed is compared with: %w", err)
	}
	out.results = c.Results
	st, err := (&targetFlags{Placed: c.Placed, Width: boardSide, Height: boardSide, Cooldown: 50 * time.Millisecond}).open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	report := out.start(st.note(), fmt.Sprintf("%d connections; the same raw loop for both servers, processor time of the serving process", c.Connections))
	if err := c.underStorm(ctx, st, report); err != nil {
		return err
	}
	if err := c.againstNginx(ctx, st, report, nginx); err != nil {
		return err
	}
	return out.finish(report)
}

// underStorm reads boards at a steady rate while a storm runs; requests are timed from when they were due.
func (c *boardCommand) underStorm(ctx context.Context, st *stage, report *measure.Report) error {
	storm := quietStorm(c.Seed, c.StormTime)
	storm.Rate, storm.Users, storm.HotShare, storm.CooldownAware = c.StormRate, int(c.StormRate/2), 0, true
	table := &measure.Table{Title: fmt.Sprintf("full boards during a storm of %g placements/s", c.StormRate), Columns: append(measure.SummaryColumns("form"), "bytes", "unsent")}
	results := make([]baseline.HTTPResult, 2)
	run, err := storm.storm(ctx, st, stormExtras{beside: func(ctx context.Context, s *load.Storm) error {
		errs := make(chan error, len(results))
		for i, kind := range boardKinds[:2] {
			go func() {
				config := c.loop(st, kind)
				config.Warmup, config.Duration = storm.Warmup, storm.Duration
				config.Every = time.Duration(float64(len(results)) * float64(time.Second) / c.ReadRate)
				var err error
				results[i], err = baseline.HTTPLoop(ctx, config)
				errs <- err
			}()
		}
		return errors.Join(<-errs, <-errs)
	}})
	if err != nil {
		return err
	}
	report.Tables = append(report.Tables, table)
	report.Checks = append(report.Checks, run.checks...)
	for i, kind := range boardKinds[:2] {
		r := results[i]
		table.AddSummary(kind.name, r.Latency)
		row := &table.Rows[i]
		*row = append(*row, fmt.Sprint(r.BodyBytes), fmt.Sprint(r.Unfulfilled))
		report.Figures[kind.figure+"StormP99Ns"] = float64(r.Latency.P99)
		report.Checks = append(report.Checks,
			someData("boards read during the storm, "+kind.name, r.Latency.Count),
			measure.Within("p99 of a full board during the storm, "+kind.name, r.Latency.P99, boardReaderP99))
	}
	return nil
}

// loop is the loop of a kind of answer against the node.
func (c *boardCommand) loop(st *stage, kind boardKind) baseline.HTTPConfig {
	u, _ := url.Parse(st.url) // read from it already
	config := baseline.HTTPConfig{
		Address: u.Host, Path: boardPath, Status: kind.status, Connections: c.Connections, Warmup: c.Warmup, Duration: c.Duration, PID: st.node.PID(),
	}
	if kind.gzip {
		config.Header = []string{"Accept-Encoding: gzip"}
	}
	return config
}

// againstNginx has nginx serve the very bytes that the node answers, and compares.
func (c *boardCommand) againstNginx(ctx context.Context, st *stage, report *measure.Report, binary string) (err error) {
	files, err := os.MkdirTemp("", "bench-board-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(files)
	if err := os.Chmod(files, 0o755); err != nil {
		return err
	}
	for i, name := range []string{boardFileName, boardFileName + ".gz"} {
		var body bytes.Buffer
		if _, err := baseline.AskHTTP(c.loop(st, boardKinds[i]), &body); err != nil {
			return fmt.Errorf("fetch the board: %w", err)
		}
		if err := os.WriteFile(filepath.Join(files, name), body.Bytes(), 0o644); err != nil {
			return err
		}
	}
	nginx, err := baseline.StartNginx(ctx, binary, files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, nginx.Close()) }()
	table := &measure.Table{
		Title:   "requests per second and core",
		Columns: []string{"answer", "pair", "bytes", "nginx us", "placed us", "nginx/s/core", "placed/s/core", "ratio"},
	}
	report.Tables = append(report.Tables, table)
	for _, kind := range boardKinds {
		if err := c.compare(ctx, st, nginx, kind, report, table); err != nil {
			return err
		}
	}
	return nil
}

// compare alternates runs of one kind.
func (c *boardCommand) compare(ctx context.Context, st *stage, nginx *baseline.Nginx, kind boardKind, report *measure.Report, table *measure.Table) error {
	mine := c.loop(st, kind)
	theirs := mine
	theirs.Address, theirs.Path, theirs.PID = nginx.Address, "/"+boardFileName, nginx.PID()
	if kind.etagged {
		for _, config := range []*baseline.HTTPConfig{&mine, &theirs} {
			answer, err := baseline.AskHTTP(*config, nil)
			if err != nil || answer.ETag == "" {
				return fmt.Errorf("no tag from %s: %w", config.Address, errors.Join(err))
			}
			config.Header = append(config.Header, "If-None-Match: "+answer.ETag)
		}
	}
	var ratios []float64
	for pair := range c.Pairs {
		placed, err := baseline.HTTPLoop(ctx, mine)
		if err != nil {
			return err
		}
		other, err := baseline.HTTPLoop(ctx, theirs)
		if err != nil {
			return err
		}
		if placed.BodyBytes != other.BodyBytes {
			return fmt.Errorf("%s: placed answers %d bytes, nginx %d", kind.name, placed.BodyBytes, other.BodyBytes)
		}
		if placed.CPU <= 0 || other.CPU <= 0 {
			report.Checks = append(report.Checks, measure.NotMeasured("full board, "+kind.name, fmt.Sprint(kind.limit), "no processor time to be read"))
			return nil
		}
		ratio := placed.PerCore() / other.PerCore()
		ratios = append(ratios, ratio)
		table.Add(kind.name, pair+1, placed.BodyBytes, micros(other.CPU), micros(placed.CPU), fmt.Sprintf("%.0f", other.PerCore()), fmt.Sprintf("%.0f", placed.PerCore()), fmt.Sprintf("%.3f", ratio))
	}
	report.Figures[kind.figure+"Ratio"] = measure.Median(ratios)
	report.Checks = append(report.Checks,
		measure.AtLeast(fmt.Sprintf("full board, %s: placed to nginx, requests per second and core, median of %d pairs", kind.name, c.Pairs), measure.Median(ratios), kind.limit, "%.3f"))
	return nil
}
