package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/placed-board/placed/bench/baseline"
	"github.com/placed-board/placed/internal/bench/ledger"
	"github.com/placed-board/placed/internal/bench/load"
	"github.com/placed-board/placed/internal/bench/measure"
)

// stormFlags describe the traffic of a storm.
type stormFlags struct {
	loadFlags
	Rate          float64 `help:"Placements per second to offer, all users together." default:"333"`
	Users         int     `help:"Placing users." default:"2000"`
	Listeners     int     `help:"Sessions that mirror the whole board." default:"100"`
	Seed          uint64  `help:"Seed of all random choices." default:"1"`
	CooldownAware bool    `help:"Ask only users who may place; otherwise some come too early, and must be refused."`
	ClosedLoop    bool    `help:"Every user places as soon as it may; --rate does not count."`
	HotShare      float64 `help:"Share of the placements that go to the hot spot." default:"0.8"`
	HotArea       float64 `help:"Share of the board that is the hot spot." default:"0.1"`
	Doublers      int     `help:"Users who submit on several connections at once while others of theirs open and close; -1: 1 in 100, at most 20." default:"-1"`
	Connections   int     `help:"Lasting connections of each of those." default:"3"`
	RetryShare    float64 `help:"Share of the placements that are sent again later, with their old nonce." default:"0.05"`
}

type stormCommand struct {
	stormFlags
	targetFlags
	resultsFlag
	reportFlag
	LatencyLimits bool   `help:"Hold the acknowledgement to two fsyncs plus 1 ms (p50) and 20 ms (p99)."`
	CPUProfile    string `help:"File for a CPU profile of bench itself, to see what the load generator costs." placeholder:"FILE"`
	Pairs         int    `help:"Alternate a baseline (an echo by the same sessions, or conditional inserts) and a closed-loop storm so many times, and hold the median ratio to its limit." default:"0"`
}

const doublersDefaultMax = 20

// plan makes the schedule for a board.
func (f *stormFlags) plan(st *stage) measure.PlanConfig {
	doublers := f.Doublers
	if doublers < 0 {
		doublers = min(f.Users/100, doublersDefaultMax)
	}
	plan := measure.PlanConfig{
		Seed: f.Seed, Rate: f.Rate, Warmup: f.Warmup, Duration: f.Duration, Users: f.Users,
		Width: st.settings.Width, Height: st.settings.Height, Colours: openColours(st),
		HotShare: f.HotShare, HotArea: f.HotArea, Doublers: doublers, RetryShare: f.RetryShare,
	}
	if f.CooldownAware {
		plan.Cooldown = st.cooldown()
	}
	return plan
}

// openColours is how many colours from the first on may be placed.
func openColours(st *stage) int {
	for i, entry := range st.settings.Palette {
		if entry.Closed {
			return i
		}
	}
	return len(st.settings.Palette)
}

// Files that a process may hold here, and those that a run needs besides its sessions.
const filesSpare = 300

func (f *stormFlags) validate() error {
	if err := f.loadFlags.validate(); err != nil {
		return err
	}
	if f.Listeners < 0 || f.Connections < 1 {
		return usageError(fmt.Errorf("listeners %d must not be below 0, connections %d not below 1", f.Listeners, f.Connections))
	}
	files := f.Users + max(f.Doublers, doublersDefaultMax)*f.Connections + f.Listeners + filesSpare
	if limit := measure.FilesMax(); limit > 0 && files > limit {
		return usageError(fmt.Errorf("%d users and %d listeners need about %d files, and this process may open %d", f.Users, f.Listeners, files, limit))
	}
	return nil
}

func (c *stormCommand) Run(ctx context.Context, out *output) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	if c.Pairs > 0 && c.Report != "" {
		return usageError(errors.New("a report is of one storm: leave out --pairs"))
	}
	out.results, out.page = c.Results, c.Report
	st, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	if err := c.plan(st).Validate(); err != nil && !c.ClosedLoop {
		return usageError(err)
	}
	if c.Pairs > 0 {
		c.ClosedLoop = true
	}
	report := out.start(st.note(), c.note())
	stopProfile, err := profile(c.CPUProfile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopProfile()) }()
	if c.Pairs > 0 {
		if err := c.runPairs(ctx, st, report, out); err != nil {
			return err
		}
		return out.finish(report)
	}
	run, err := c.storm(ctx, st, stormExtras{})
	if err != nil {
		return err
	}
	run.report(report, "")
	report.Charts = run.curves.charts()
	report.Checks = append(report.Checks, run.checks...)
	if c.LatencyLimits {
		if err := c.latencyLimits(ctx, run, report); err != nil {
			return err
		}
	}
	if check, ok := st.verify(ctx); ok {
		report.Checks = append(report.Checks, check)
	}
	return out.finish(report)
}

// profile writes a CPU profile of this process until stop is called; an empty path does nothing.
func profile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(fmt.Errorf("profile: %w", err), file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

func (f *stormFlags) note() string {
	kind := fmt.Sprintf("open loop at %g/s", f.Rate)
	if f.ClosedLoop {
		kind = "closed loop"
	}
	return fmt.Sprintf("%s, %d users, %d listeners, seed %d, %v after a warm-up of %v", kind, f.Users, f.Listeners, f.Seed, f.Duration, f.Warmup)
}

// stormRun is what one storm found.
type stormRun struct {
	flags     *stormFlags
	result    load.Result
	latencies *measure.Latencies
	fanout    measure.Summary
	listeners load.ListenerStats
	serverCPU time.Duration // within the measured time
	clientCPU time.Duration
	churned   int64
	checks    []measure.Check
	curves    *curves
}

// settleWait is how long the mirrors may take to equal the board once nobody places any more.
const settleWait = 15 * time.Second

// stormExtras are what some commands add to a storm.
type stormExtras struct {
	events  *history                                                   // what is placed instead of the plan's events; nil for those
	name    string                                                     // tells the users of several storms on one board apart
	dial    func(listener int) load.DialFunc                           // opens a listener's connection; nil for a plain one
	healthy func(listener int) bool                                    // whose arrivals count; nil for all
	beside  func(ctx context.Context, s *load.Storm) error             // runs while the storm does, and is waited for; nil for nothing
	atEnd   func(ctx context.Context, listeners *load.Listeners) error // runs when the last placement is answered; nil for nothing
}

// storm runs one storm.
func (f *stormFlags) storm(ctx context.Context, st *stage, extras stormExtras) (*stormRun, error) {
	plan := f.plan(st)
	before, err := st.api.Board(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetch the board: %w", err)
	}
	listeners, err := load.Listen(ctx, st.url, f.Listeners, load.ListenOptions{Dial: extras.dial})
	if err != nil {
		return nil, err
	}
	defer listeners.Close()
	config := load.Config{Plan: plan, Closed: f.ClosedLoop, Cooldown: st.cooldown(), Connections: f.Connections, Wait: measure.PreciseWait}
	if extras.events != nil {
		config.Events = extras.events.Events()
	}
	s := load.New(config)
	run := &stormRun{flags: f, curves: newCurves(s)}
	sessions, err := load.OpenSessions(ctx, s, st.url, load.SessionOptions{Prefix: fmt.Sprintf("bench%s-%x", extras.name, time.Now().UnixNano())})
	if err != nil {
		return nil, err
	}
	defer sessions.Close()

	if !f.ClosedLoop {
		// The thread that paces an open loop sleeps in the kernel: it must not take a processor from the readers meanwhile.
		processors := runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(processors + 1)
		defer runtime.GOMAXPROCS(processors)
	}
	s.Begin()
	var beside sync.WaitGroup
	runCtx, endRun := context.WithCancel(ctx)
	defer endRun()
	beside.Go(func() { run.churned, _ = sessions.Churn(runCtx) })
	beside.Go(func() { run.serverCPU, run.clientCPU = windowCPU(runCtx, st, s.Start(), plan) })
	var besideErr error
	if extras.beside != nil {
		beside.Go(func() { besideErr = extras.beside(ctx, s) })
	}
	err = s.Run(ctx)
	endRun()
	beside.Wait()
	if err == nil && extras.atEnd != nil {
		err = extras.atEnd(ctx, listeners)
	}
	if err := errors.Join(err, besideErr); err != nil {
		return nil, err
	}
	after, divergent, err := listeners.Settle(ctx, st.api, s.Ledger, settleWait)
	if err != nil {
		return nil, err
	}
	run.result, run.latencies, run.listeners = s.Result(), s.Latencies, listeners.Stats()
	run.fanout = listeners.Fanout(s.Ledger, load.FanoutConfig{
		Start: s.Start(), From: plan.Warmup, To: plan.Warmup + plan.Duration, Listener: extras.healthy,
		User:     func(user int) bool { return user >= plan.Doublers }, // what doublers wait for is their own doing
		Timeline: &run.curves.fanout,
	})
	evidence := ledger.Evidence{Sole: st.sole, Seen: listeners.Seen()}
	if evidence.Before, err = load.Board(before); err != nil {
		return nil, err
	}
	if evidence.After, err = load.Board(after); err != nil {
		return nil, err
	}
	run.judge(s, evidence, divergent, extras.events)
	return run, nil
}

// judge makes the verdict lines.
func (r *stormRun) judge(s *load.Storm, evidence ledger.Evidence, divergent []string, events *history) {
	r.checks = s.Ledger.Verdict(evidence)
	r.checks = append(r.checks,
		measure.Zero("divergent boards", len(divergent), strings.Join(divergent[:min(len(divergent), 3)], "; ")),
		measure.Zero("heartbeats that disagree with a mirror", int(r.listeners.Divergences), ""),
		measure.Zero("placements never answered", s.Unanswered(), ""),
		measure.AtLeast("placements on the board within the measured time", float64(r.result.InWindow), 1, "%.0f"))
	switch {
	case r.flags.ClosedLoop:
	case events != nil:
		r.checks = append(r.checks, measure.ScheduleOf(r.latencies, events.sent))
	default:
		r.checks = append(r.checks, measure.Schedule(r.latencies))
	}
}

// windowCPU is the CPU time that the server and this process use within the measured time, 0 when that is cut short.
func windowCPU(ctx context.Context, st *stage, start time.Time, plan measure.PlanConfig) (server, client time.Duration) {
	read := func(at time.Duration) (time.Duration, time.Duration, bool) {
		timer := time.NewTimer(time.Until(start.Add(at)))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return 0, 0, false
		}
		own, _ := measure.ProcessCPU(os.Getpid())
		return st.cpu(), own, true
	}
	serverBefore, clientBefore, ok := read(plan.Warmup)
	if !ok {
		return 0, 0
	}
	server, client, ok = read(plan.Warmup + plan.Duration)
	if !ok {
		return 0, 0
	}
	return server - serverBefore, client - clientBefore
}

// report adds the run's figures and tables; suffix ends the names of figures.
func (r *stormRun) report(report *measure.Report, suffix string) {
	response, service := r.latencies.Response.Summary(), r.latencies.Service.Summary()
	figures := report.Figures
	figures["placementsPerSecond"+suffix] = r.result.PerSecond
	figures["ackP50Ns"+suffix], figures["ackP99Ns"+suffix] = float64(response.P50), float64(response.P99)
	figures["fanoutP50Ns"+suffix], figures["fanoutP99Ns"+suffix] = float64(r.fanout.P50), float64(r.fanout.P99)

	table := &measure.Table{Title: "latency", Columns: measure.SummaryColumns("")}
	if r.flags.ClosedLoop {
		table.AddSummary("acknowledgement, from the send", service)
	} else {
		table.AddSummary("acknowledgement, from the intended send", response)
		table.AddSummary("acknowledgement, from the send", service)
		table.AddSummary("generator's own lag", r.latencies.Lag.Summary())
	}
	table.AddSummary("arrival at listeners, from the send", r.fanout)

	counts := &measure.Table{Title: "placements", Columns: []string{"what", "count"}}
	counts.Add("accepted per second", fmt.Sprintf("%.1f", r.result.PerSecond))
	counts.Add("accepted, warm-up and end included", r.result.Totals.Accepted)
	for _, code := range refusalLabels() {
		if n := r.result.Refused[code]; n > 0 {
			counts.Add("refused: "+code, n)
		}
	}
	counts.Add("answered: charged, not on the board yet", r.result.Charged)
	counts.Add("answered: unknown", r.result.Unknown)
	counts.Add("copies beside another of the same user", r.result.Doubled)
	counts.Add("retries of settled placements", r.result.Late)
	counts.Add("sent again for want of an answer", r.result.Resent)
	counts.Add("sends without a connection", r.result.SendFail)
	counts.Add("notices", r.result.Notices)
	counts.Add("left in doubt", r.result.Totals.Doubtful)
	counts.Add("events not sent, too many before them", r.result.Unsent)
	counts.Add("connections of doublers that came and went", r.churned)
	counts.Add("frames at listeners", r.listeners.Frames)
	counts.Add("chunks repaired at listeners", r.listeners.Repairs)
	if n := time.Duration(max(1, r.result.InWindow)); r.serverCPU > 0 {
		counts.Add("CPU per placement, server, us", micros(r.serverCPU/n))
		counts.Add("CPU per placement, clients, us", micros(r.clientCPU/n))
		figures["serverCPUNsPerPlacement"+suffix] = float64(r.serverCPU / n)
	}
	report.Tables = append(report.Tables, table, counts)
}

// Limits of the acknowledgement at a quiet rate.
const (
	ackP50Fsyncs = 2
	ackP50Spare  = time.Millisecond
	ackP99Max    = 20 * time.Millisecond
)

// latencyLimits holds the acknowledgement against the disk under the node.
func (c *stormCommand) latencyLimits(ctx context.Context, run *stormRun, report *measure.Report) error {
	dir := dirOrTemp(c.DataDir)
	fsync, err := baseline.Fsync(ctx, dir)
	if err != nil {
		return err
	}
	disk := &measure.Table{Title: "disk of " + dir, Columns: measure.SummaryColumns("latency")}
	disk.AddSummary("append and fdatasync", fsync)
	report.Tables = append(report.Tables, disk)
	report.Figures["fsyncP50Ns"] = float64(fsync.P50)
	disks, err := onDisk(dir)
	if err != nil {
		return err
	}
	response := run.latencies.Response.Summary()
	report.Checks = append(report.Checks, disks,
		measure.Within(fmt.Sprintf("acknowledgement p50, at %d fsyncs of %v and %v", ackP50Fsyncs, fsync.P50, ackP50Spare),
			response.P50, ackP50Fsyncs*fsync.P50+ackP50Spare),
		measure.Within("acknowledgement p99", response.P99, ackP99Max))
	return nil
}
