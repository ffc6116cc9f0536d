package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/placed-board/placed/bench/baseline"
	"github.com/placed-board/placed/internal/bench/load"
	"github.com/placed-board/placed/internal/bench/measure"
)

// fanoutRatioMin is the least share of the raw loop's rate that placed must reach.
const fanoutRatioMin = 0.70

// fanoutUsers place what the frames carry.
const fanoutUsers = 100

// quietStorm is the traffic of the commands that look at frames: 333 placements per second, nobody doubles or retries.
func quietStorm(seed uint64, duration time.Duration) stormFlags {
	return stormFlags{
		loadFlags: loadFlags{Duration: duration, Warmup: time.Second}, Rate: 333, Users: fanoutUsers, Seed: seed,
		HotShare: 0.8, HotArea: 0.1, Connections: 1,
	}
}

// againstPlaced measures the CPU time of a delivery through placed, from the region to the socket: what its process used
// while a storm of 333 placements per second went to all sessions, less what the same storm used just before with nobody
// listening, over the tick frames that arrived. Raw bursts over as many sockets alternate with it in the same run.
func (c *fanoutCommand) againstPlaced(ctx context.Context, report *measure.Report, st *stage) error {
	raw, rawSinks, err := baseline.OpenRawFanout(ctx, c.Connections, selfSink...)
	if err != nil {
		return err
	}
	defer rawSinks.Close()
	defer raw.Close()
	table := &measure.Table{
		Title:   "fan-out, CPU time per delivery",
		Columns: []string{"pair", "raw ns", "placed ns", "ratio", "frames per session per s", "bytes per frame"},
	}
	report.Tables = append(report.Tables, table)
	var ratios, placed, rawNs []float64
	cut := 0
	for pair := range c.Pairs {
		bursts, err := baseline.FanoutBursts(ctx, baseline.FanoutConfig{Connections: c.Connections, FrameBytes: c.FrameBytes, Bursts: c.Bursts}, raw, rawSinks)
		if err != nil {
			return err
		}
		run, err := c.throughPlaced(ctx, st, pair)
		if err != nil {
			return err
		}
		if run.frames == 0 || run.cpu <= 0 {
			report.Checks = append(report.Checks, measure.NotMeasured("fan-out through placed", fmt.Sprint(fanoutRatioMin), "no frames, or no CPU time to be read"))
			return nil
		}
		ns, rawMedian := float64(run.cpu)/float64(run.frames), measure.Median(bursts.NsPerDelivery)
		rawNs, placed, ratios, cut = append(rawNs, rawMedian), append(placed, ns), append(ratios, rawMedian/ns), cut+run.cut
		table.Add(pair+1, fmt.Sprintf("%.0f", rawMedian), fmt.Sprintf("%.0f", ns), fmt.Sprintf("%.3f", rawMedian/ns),
			fmt.Sprintf("%.1f", float64(run.frames)/float64(c.Connections)/c.Duration.Seconds()), fmt.Sprintf("%.0f", float64(run.bytes)/float64(run.frames)))
	}
	report.Figures["rawNsPerDelivery"], report.Figures["placedNsPerDelivery"] = measure.Median(rawNs), measure.Median(placed)
	report.Figures["fanoutRatioMedian"] = measure.Median(ratios)
	report.Checks = append(report.Checks,
		measure.Zero("sessions that were cut", cut, ""),
		measure.AtLeast(fmt.Sprintf("raw loop's time per delivery to placed's, median of %d pairs", c.Pairs), measure.Median(ratios), fanoutRatioMin, "%.3f"))
	return nil
}

// throughPlaced is the node's half of a pair; the CPU time of its result is that of the deliveries alone.
func (c *fanoutCommand) throughPlaced(ctx context.Context, st *stage, pair int) (framesRun, error) {
	storm := quietStorm(c.Seed+uint64(pair), c.Duration)
	alone, err := measureFrames(ctx, st, storm, nil, fmt.Sprintf("alone%d", pair))
	if err != nil {
		return framesRun{}, err
	}
	sinks, err := openSinks(ctx, st, c.Connections, false, "")
	if err != nil {
		return framesRun{}, err
	}
	defer sinks.Close()
	run, err := measureFrames(ctx, st, storm, sinks, fmt.Sprintf("with%d", pair))
	if err != nil {
		return framesRun{}, err
	}
	stats, err := sinks.Stats(ctx)
	if err != nil {
		return framesRun{}, err
	}
	run.cpu, run.cut = run.cpu-alone.cpu, stats.Closed
	return run, nil
}

// framesRun is what a quiet storm cost the server and brought to the sinks.
type framesRun struct {
	cpu        time.Duration // of the server within the measured time
	frames     int64         // tick frames over all sinks within it
	bytes      int64         // over all sinks within it
	placements int64         // accepted within it
	cut        int           // sessions that the server ended
}

// measureFrames runs a quiet storm without listeners of its own and reads the sinks (nil for none) at the ends of its
// measured time.
func measureFrames(ctx context.Context, st *stage, flags stormFlags, sinks *baseline.Sinks, name string) (framesRun, error) {
	var before, after baseline.SinkStats
	plan := flags.plan(st)
	run, err := flags.storm(ctx, st, stormExtras{name: name, beside: func(ctx context.Context, s *load.Storm) error {
		if sinks == nil {
			return nil
		}
		var err error
		if before, err = statsAt(ctx, sinks, s.Start().Add(plan.Warmup)); err != nil {
			return err
		}
		after, err = statsAt(ctx, sinks, s.Start().Add(plan.Warmup+plan.Duration))
		return err
	}})
	if err != nil {
		return framesRun{}, err
	}
	for _, check := range run.checks {
		if check.Outcome == measure.Fail { // a late generator changes neither frames nor their cost
			return framesRun{}, fmt.Errorf("the storm beside it did not pass: %s is %s (%s)", check.Name, check.Value, check.Detail)
		}
	}
	return framesRun{
		cpu: run.serverCPU, frames: tickFrames(after) - tickFrames(before), bytes: after.Bytes - before.Bytes, placements: run.result.InWindow,
	}, nil
}

func statsAt(ctx context.Context, sinks *baseline.Sinks, at time.Time) (baseline.SinkStats, error) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return sinks.Stats(ctx)
	case <-ctx.Done():
		return baseline.SinkStats{}, ctx.Err()
	}
}

func (c *fanoutCommand) runAgainstPlaced(ctx context.Context, out *output) (err error) {
	if c.Pairs < 1 || c.Duration <= 0 {
		return usageError(fmt.Errorf("pairs %d and duration %v must be above 0", c.Pairs, c.Duration))
	}
	st, err := (&targetFlags{Placed: c.Placed, Width: 1000, Height: 1000}).open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	report := out.start(st.note(), "raw sends and frames of placed in turn, each to its own "+fmt.Sprint(c.Connections)+" sockets read by processes of their own")
	if err := c.againstPlaced(ctx, report, st); err != nil {
		return err
	}
	return out.finish(report)
}
