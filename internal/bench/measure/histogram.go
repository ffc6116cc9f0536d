package measure

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Range and precision of all histograms: 1 us to 60 s with three significant digits.
const (
	histogramMax    = 60 * time.Second
	histogramDigits = 3
	recorderStripes = 16
)

// Recorder collects latencies from many goroutines in HDR histograms. Use NewRecorder.
type Recorder struct {
	stripes [recorderStripes]struct {
		mu        sync.Mutex
		histogram *hdrhistogram.Histogram // guarded by mu; nil until the first value
	}
	clamped atomic.Int64
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder { return &Recorder{} }

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, histogramMax.Microseconds(), histogramDigits)
}

// Record adds one latency. worker only spreads the locks: any number will do. Latencies above 60 s count as 60 s and
// are told in Summary.Clamped; below 1 us they count as 1 us.
func (r *Recorder) Record(worker int, latency time.Duration) {
	if latency > histogramMax {
		latency = histogramMax
		r.clamped.Add(1)
	}
	stripe := &r.stripes[uint(worker)%recorderStripes]
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	if stripe.histogram == nil {
		stripe.histogram = newHistogram()
	}
	// The value is inside the histogram's range by the lines above, so there is no error to hear of.
	_ = stripe.histogram.RecordValue(max(1, latency.Microseconds()))
}

// Summary merges what was recorded so far.
func (r *Recorder) Summary() Summary {
	all := newHistogram()
	for i := range r.stripes {
		stripe := &r.stripes[i]
		stripe.mu.Lock()
		if stripe.histogram != nil {
			all.Merge(stripe.histogram)
		}
		stripe.mu.Unlock()
	}
	at := func(percentile float64) time.Duration {
		return time.Duration(all.ValueAtPercentile(percentile)) * time.Microsecond
	}
	return Summary{
		Count: all.TotalCount(), Clamped: r.clamped.Load(),
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max:  time.Duration(all.Max()) * time.Microsecond,
		Mean: time.Duration(all.Mean() * float64(time.Microsecond)),
	}
}

// Summary is one distribution of latencies. In JSON all durations are nanoseconds.
type Summary struct {
	Count   int64         `json:"count"`
	Clamped int64         `json:"clamped"` // values above the histogram's range, counted as its end
	P50     time.Duration `json:"p50Ns"`
	P90     time.Duration `json:"p90Ns"`
	P99     time.Duration `json:"p99Ns"`
	P999    time.Duration `json:"p999Ns"`
	Max     time.Duration `json:"maxNs"`
	Mean    time.Duration `json:"meanNs"`
}

// Latencies is the accounting of one open-loop run: what users waited for (Response, from the intended send time, so
// that a stalled server is charged for everybody it kept waiting), what the server took (Service, from the send) and how
// late the generator itself was (Lag). Events of the warm-up are left out of all three.
type Latencies struct {
	plan     PlanConfig
	Response *Recorder
	Service  *Recorder
	Lag      *Recorder
	// Second by second, warm-up included; nil for nothing.
	Offered, Accepted *Timeline // offered: when due; accepted: when answered, with Response
	sent              atomic.Int64
	warmup            atomic.Int64
}

// NewLatencies returns the accounting for a run of this plan.
func NewLatencies(plan PlanConfig) *Latencies {
	return &Latencies{plan: plan, Response: NewRecorder(), Service: NewRecorder(), Lag: NewRecorder()}
}

// Sent notes that an event left. ready is when it could have left: its intended time, or, when its user was still
// waiting for an earlier answer then, the time of that answer. What passed between ready and sent is the generator's
// own fault; all times are measured from the start of the run.
func (l *Latencies) Sent(worker int, intended, ready, sent time.Duration) {
	l.Offered.Add(intended, 0)
	if !l.plan.Measured(intended) {
		l.warmup.Add(1)
		return
	}
	l.sent.Add(1)
	l.Lag.Record(worker, sent-max(intended, ready))
}

// Answered notes the final answer of an event.
func (l *Latencies) Answered(worker int, intended, sent, answered time.Duration) {
	l.Accepted.Add(answered, answered-intended)
	if !l.plan.Measured(intended) {
		return
	}
	l.Response.Record(worker, answered-intended)
	l.Service.Record(worker, answered-sent)
}

// MeasuredSent is the number of events that left, those of the warm-up not counted.
func (l *Latencies) MeasuredSent() int64 { return l.sent.Load() }

// WarmupSent is the number of events of the warm-up that left.
func (l *Latencies) WarmupSent() int64 { return l.warmup.Load() }
