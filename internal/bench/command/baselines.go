package command

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/placed-board/placed/bench/baseline"
	"github.com/placed-board/placed/internal/bench/measure"
)

// loadFlags are shared by closed loops.
type loadFlags struct {
	Duration time.Duration `help:"Measured time." default:"10s"`
	Warmup   time.Duration `help:"Time before it, not measured." default:"2s"`
}

func (f loadFlags) validate() error {
	if f.Duration <= 0 || f.Warmup < 0 {
		return usageError(fmt.Errorf("duration %v must be above 0, warm-up %v not below", f.Duration, f.Warmup))
	}
	return nil
}

type echoCommand struct {
	loadFlags
	resultsFlag
	Sessions    int `help:"Sessions, each with one message under way." default:"2000"`
	PlaceBytes  int `help:"Bytes of a message." default:"24"`
	AnswerBytes int `help:"Bytes of its answer." default:"24"`
}

func (c *echoCommand) Run(ctx context.Context, out *output) error {
	if err := c.validate(); err != nil {
		return err
	}
	if c.Sessions < 1 || c.PlaceBytes < 0 || c.AnswerBytes < 1 {
		return usageError(fmt.Errorf("sessions %d and answer bytes %d must be at least 1", c.Sessions, c.AnswerBytes))
	}
	out.results = c.Results
	report := out.start("closed loop over a bare gorilla server in a process of its own")
	result, err := baseline.Echo(ctx, c.config(), append(selfEcho, fmt.Sprintf("--answer-bytes=%d", c.AnswerBytes))...)
	if err != nil {
		return err
	}
	reportEcho(report, result)
	report.Checks = append(report.Checks, someData("echo round trips", result.Latency.Count))
	return out.finish(report)
}

func (c *echoCommand) config() baseline.EchoConfig {
	return baseline.EchoConfig{
		Sessions: c.Sessions, PlaceBytes: c.PlaceBytes, AnswerBytes: c.AnswerBytes, Warmup: c.Warmup, Duration: c.Duration,
	}
}

func reportEcho(report *measure.Report, result baseline.EchoResult) {
	report.Figures["echoRoundTripsPerSecond"] = result.PerSecond
	report.Figures["echoServerCPUNsPerRoundTrip"] = float64(result.ServerCPU)
	report.Figures["echoClientCPUNsPerRoundTrip"] = float64(result.ClientCPU)
	table := &measure.Table{Title: "echo", Columns: append(measure.SummaryColumns("latency"), "per s", "server us", "client us")}
	table.AddSummary("round trip", result.Latency)
	row := &table.Rows[0]
	*row = append(*row, fmt.Sprintf("%.0f", result.PerSecond), micros(result.ServerCPU), micros(result.ClientCPU))
	report.Tables = append(report.Tables, table)
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Microsecond)) }

// someData fails a run that measured nothing.
func someData(name string, count int64) measure.Check {
	return measure.AtLeast(name, float64(count), 1, "%.0f")
}

type pebbleCommand struct {
	loadFlags
	resultsFlag
	Dir      string `help:"Directory on the disk to measure; empty for the system's temporary one." placeholder:"DIR"`
	InFlight []int  `help:"Placements under way at a time, one run each." default:"1,50,500,2000"`
	Slots    int    `help:"Commits under way at a time." default:"32"`
	Seed     uint64 `help:"Seed of all random choices." default:"1"`
}

func (c *pebbleCommand) Run(ctx context.Context, out *output) error {
	if err := c.validate(); err != nil {
		return err
	}
	if c.Slots < 1 || len(c.InFlight) == 0 {
		return usageError(fmt.Errorf("slots %d must be at least 1, and some placements must be in flight", c.Slots))
	}
	for _, n := range c.InFlight {
		if n < 1 {
			return usageError(fmt.Errorf("%d placements in flight place nothing", n))
		}
	}
	out.results = c.Results
	report := out.start("two Sync commits per placement, 64 shard and 100 block partitions, sealed at the slot")
	fsync, err := baseline.Fsync(ctx, dirOrTemp(c.Dir))
	if err != nil {
		return err
	}
	report.Figures["fsyncP50Ns"] = float64(fsync.P50)
	disk := &measure.Table{Title: "disk", Columns: measure.SummaryColumns("latency")}
	disk.AddSummary("append and fdatasync", fsync)
	table := &measure.Table{
		Title:   "pebble, " + fmt.Sprint(c.Slots) + " slots",
		Columns: append(measure.SummaryColumns("in flight"), "placements/s", "commits/s", "per commit"),
	}
	report.Tables = append(report.Tables, disk, table)
	for _, inFlight := range c.InFlight {
		result, err := baseline.Pebble(ctx, baseline.PebbleConfig{
			Dir: dirOrTemp(c.Dir), InFlight: inFlight, Slots: c.Slots, Warmup: c.Warmup, Duration: c.Duration, Seed: c.Seed,
		})
		if err != nil {
			return err
		}
		table.AddSummary(fmt.Sprint(inFlight), result.Latency)
		row := &table.Rows[len(table.Rows)-1]
		*row = append(*row, fmt.Sprintf("%.0f", result.PerSecond), fmt.Sprintf("%.0f", result.CommitsPerSecond), fmt.Sprintf("%.1f", result.PlacementsPerCommit))
		report.Figures[fmt.Sprintf("pebblePlacementsPerSecondAt%d", inFlight)] = result.PerSecond
		report.Checks = append(report.Checks, someData(fmt.Sprintf("placements with %d in flight", inFlight), result.Latency.Count))
	}
	disks, err := onDisk(dirOrTemp(c.Dir))
	if err != nil {
		return err
	}
	report.Checks = append(report.Checks, disks)
	return out.finish(report)
}

// onDisk is INVALID for a directory without a disk under it.
func onDisk(dir string) (measure.Check, error) {
	memory, err := baseline.InMemory(dir)
	check := measure.Check{Name: "store lies on a disk", Outcome: measure.Pass, Value: dir, Limit: "no memory file system"}
	if memory {
		check.Outcome, check.Detail = measure.Invalid, "a sync costs nothing there; choose another directory with --dir"
	}
	return check, err
}

type cassandraCommand struct {
	loadFlags
	resultsFlag
	Hosts         []string `help:"Nodes, as host or host:port." default:"127.0.0.1"`
	Concurrencies []int    `help:"Inserts under way at a time, one run each." default:"1,8,32,64,128"`
	Seed          uint64   `help:"Seed of all random choices." default:"1"`
}

func (c *cassandraCommand) Run(ctx context.Context, out *output) error {
	if err := c.validate(); err != nil {
		return err
	}
	for _, n := range c.Concurrencies {
		if n < 1 {
			return usageError(fmt.Errorf("a concurrency of %d inserts nothing", n))
		}
	}
	out.results = c.Results
	report := out.start("INSERT ... IF NOT EXISTS of small rows through gocql, each in a partition of its own")
	best, err := measureCassandra(ctx, report, baseline.CassandraConfig{
		Hosts: c.Hosts, Concurrencies: c.Concurrencies, Warmup: c.Warmup, Duration: c.Duration, Seed: c.Seed,
	})
	if err != nil {
		return err
	}
	report.Checks = append(report.Checks, someData("conditional inserts", best.Latency.Count))
	return out.finish(report)
}

func measureCassandra(ctx context.Context, report *measure.Report, config baseline.CassandraConfig) (baseline.CassandraStep, error) {
	steps, err := baseline.Cassandra(ctx, config)
	if err != nil {
		return baseline.CassandraStep{}, err
	}
	table := &measure.Table{Title: "conditional inserts", Columns: append(measure.SummaryColumns("concurrency"), "per s", "unknown")}
	for _, step := range steps {
		table.AddSummary(fmt.Sprint(step.Concurrency), step.Latency)
		row := &table.Rows[len(table.Rows)-1]
		*row = append(*row, fmt.Sprintf("%.0f", step.PerSecond), fmt.Sprint(step.Unknown))
	}
	best, _ := baseline.BestStep(steps)
	table.Title += fmt.Sprintf(": best %.0f/s at concurrency %d", best.PerSecond, best.Concurrency)
	report.Tables = append(report.Tables, table)
	report.Figures["conditionalInsertsPerSecond"] = best.PerSecond
	return best, nil
}

type fanoutCommand struct {
	resultsFlag
	Connections   int           `help:"Sockets." default:"10000"`
	FrameBytes    int           `help:"Bytes of the frame, its websocket header included." default:"107"`
	Bursts        int           `help:"Frames sent to all, of each kind." default:"20"`
	AgainstPlaced bool          `help:"Alternate with frames that a node of bench's own sends to as many sessions, and hold the median ratio to its limit."`
	Pairs         int           `help:"With --against-placed: pairs." default:"5"`
	Duration      time.Duration `help:"With --against-placed: time of the node's half of a pair." default:"5s"`
	Seed          uint64        `help:"With --against-placed: seed of the placements." default:"1"`
	Placed        string        `help:"Binary of bench's own node; built from this module without it." placeholder:"FILE" env:"BENCH_PLACED"`
}

func (c *fanoutCommand) Run(ctx context.Context, out *output) error {
	if c.Connections < 1 || c.FrameBytes < 1 || c.Bursts < 1 {
		return usageError(fmt.Errorf("connections, frame bytes and bursts must be at least 1"))
	}
	out.results = c.Results
	if c.AgainstPlaced {
		return c.runAgainstPlaced(ctx, out)
	}
	report := out.start("sendto(MSG_DONTWAIT) of one frame, over sockets read by processes of their own")
	fanout, sinks, err := baseline.OpenRawFanout(ctx, c.Connections, selfSink...)
	if err != nil {
		return err
	}
	defer sinks.Close()
	defer fanout.Close()
	table := rawFanoutTable()
	report.Tables = append(report.Tables, table)
	for _, paused := range []bool{false, true} {
		result, err := baseline.FanoutBursts(ctx, baseline.FanoutConfig{
			Connections: c.Connections, FrameBytes: c.FrameBytes, Bursts: c.Bursts, Paused: paused,
		}, fanout, sinks)
		if err != nil {
			return err
		}
		name := "receivers reading"
		if paused {
			name = "receivers paused"
		}
		addRawFanout(table, name, result)
		median, _, _ := baseline.Spread(result.NsPerDelivery)
		report.Figures[map[bool]string{false: "rawNsPerDelivery", true: "rawPausedNsPerDelivery"}[paused]] = median
		report.Checks = append(report.Checks, measure.Zero("frames that a socket refused, "+name, result.Refused, ""))
	}
	return out.finish(report)
}

func rawFanoutTable() *measure.Table {
	return &measure.Table{Title: "raw fan-out, CPU time", Columns: []string{"sender", "bursts", "median ns", "min ns", "max ns", "wall ns", "per s per core"}}
}

func addRawFanout(table *measure.Table, name string, result baseline.FanoutResult) {
	median, lowest, highest := baseline.Spread(result.NsPerDelivery)
	wall, _, _ := baseline.Spread(result.WallNs)
	table.Add(name, len(result.NsPerDelivery), fmt.Sprintf("%.0f", median), fmt.Sprintf("%.0f", lowest), fmt.Sprintf("%.0f", highest),
		fmt.Sprintf("%.0f", wall), fmt.Sprintf("%.0f", 1e9/max(1, median)))
}

func dirOrTemp(dir string) string {
	if dir == "" {
		return os.TempDir()
	}
	return dir
}
