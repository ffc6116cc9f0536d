package baseline

import (
	"context"
	"fmt"
	"time"

	"github.com/placed-board/placed/internal/bench/measure"
)

// FrameBytes is the size of a frame of a tick of 100 ms at 333 placements per second, with its websocket header.
const FrameBytes = 107

// fanoutEvery is the time between two bursts: the tick of placed.
const fanoutEvery = 100 * time.Millisecond

// BurstResult is one frame sent to every connection.
type BurstResult struct {
	Sent    int           // connections that took the whole frame
	Refused int           // connections whose buffer was full or that had ended
	Wall    time.Duration // of the loop
	CPU     time.Duration // of the loop's thread, the kernel's part included
}

// PerDelivery is the CPU time of one delivery, in nanoseconds.
func (b BurstResult) PerDelivery() float64 {
	if b.Sent == 0 {
		return 0
	}
	return float64(b.CPU) / float64(b.Sent)
}

// FanoutConfig describes a series of bursts.
type FanoutConfig struct {
	Connections int
	FrameBytes  int
	Bursts      int  // after one that is not counted
	Paused      bool // the receivers stop reading during a burst and catch up after it: steadier, and a little cheaper
}

// FanoutResult is a series of bursts.
type FanoutResult struct {
	NsPerDelivery []float64 // CPU time, one value per burst
	WallNs        []float64 // wall time per delivery, one value per burst
	Refused       int       // sends that found a full buffer
}

// Fanout sends one frame to many sockets a number of times with nothing but the kernel between, sinks being this binary
// with sinkArgs. It fails when a byte is missing at the receivers.
func Fanout(ctx context.Context, config FanoutConfig, sinkArgs ...string) (FanoutResult, error) {
	fanout, sinks, err := OpenRawFanout(ctx, config.Connections, sinkArgs...)
	if err != nil {
		return FanoutResult{}, err
	}
	defer sinks.Close()
	defer fanout.Close()
	return FanoutBursts(ctx, config, fanout, sinks)
}

// FanoutBursts runs the bursts over sockets that are open already.
func FanoutBursts(ctx context.Context, config FanoutConfig, fanout *RawFanout, sinks *Sinks) (FanoutResult, error) {
	var result FanoutResult
	frame := make([]byte, config.FrameBytes)
	before, err := sinks.Stats(ctx)
	if err != nil {
		return result, err
	}
	want := before.Bytes
	for burst := range config.Bursts + 1 {
		next := time.Now().Add(fanoutEvery)
		if config.Paused {
			if err := sinks.StopReading(ctx, sinkSocketsMax); err != nil {
				return result, err
			}
		}
		sent := fanout.Burst(frame)
		if config.Paused {
			if err := sinks.ResumeReading(ctx); err != nil {
				return result, err
			}
		}
		want += int64(sent.Sent) * int64(len(frame))
		arriveCtx, cancel := context.WithTimeout(ctx, fanoutArriveWait)
		_, err := sinks.AwaitBytes(arriveCtx, want)
		cancel()
		if err != nil {
			return result, fmt.Errorf("burst %d: %w", burst, err)
		}
		if burst > 0 {
			result.NsPerDelivery = append(result.NsPerDelivery, sent.PerDelivery())
			result.WallNs = append(result.WallNs, float64(sent.Wall)/float64(max(1, sent.Sent)))
			result.Refused += sent.Refused
		}
		if err := sleep(ctx, time.Until(next)); err != nil {
			return result, err
		}
	}
	return result, nil
}

const fanoutArriveWait = 20 * time.Second

// Spread describes a series for a table: median, lowest and highest.
func Spread(values []float64) (median, lowest, highest float64) {
	if len(values) == 0 {
		return 0, 0, 0
	}
	lowest, highest = values[0], values[0]
	for _, v := range values {
		lowest, highest = min(lowest, v), max(highest, v)
	}
	return measure.Median(values), lowest, highest
}
