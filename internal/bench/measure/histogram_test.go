package measure

import (
	"sync"
	"testing"
	"time"
)

// near allows for the three significant digits of the histograms.
func near(got, want time.Duration) bool {
	return got >= want-want/500-time.Microsecond && got <= want+want/500+time.Microsecond
}

func TestRecorderMergesItsStripes(t *testing.T) {
	recorder := NewRecorder()
	var workers sync.WaitGroup
	for worker := range 40 {
		workers.Go(func() {
			for i := range 250 {
				recorder.Record(worker, time.Duration(worker*250+i+1)*time.Microsecond)
			}
		})
	}
	workers.Wait()
	s := recorder.Summary()
	if s.Count != 10_000 {
		t.Fatalf("count %d, want 10000", s.Count)
	}
	for name, pair := range map[string][2]time.Duration{
		"p50": {s.P50, 5000 * time.Microsecond}, "p90": {s.P90, 9000 * time.Microsecond}, "p99": {s.P99, 9900 * time.Microsecond},
		"p99.9": {s.P999, 9990 * time.Microsecond}, "max": {s.Max, 10_000 * time.Microsecond}, "mean": {s.Mean, 5000 * time.Microsecond},
	} {
		if !near(pair[0], pair[1]) {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
}

func TestRecorderTellsWhatItClamped(t *testing.T) {
	recorder := NewRecorder()
	recorder.Record(-3, 0)
	recorder.Record(1, 2*time.Minute)
	s := recorder.Summary()
	if s.Count != 2 || s.Clamped != 1 || !near(s.Max, time.Minute) {
		t.Fatalf("count %d clamped %d max %v, want 2, 1 and 1m0s", s.Count, s.Clamped, s.Max)
	}
}

// A server that stalls for a second keeps every later event waiting. The response times must show all of it, although
// each single service time is short but one.
func TestResponseCountsFromTheIntendedTime(t *testing.T) {
	plan := PlanConfig{Rate: 100, Duration: 10 * time.Second, Users: 1, Width: 1, Height: 1, Colours: 1}
	latencies := NewLatencies(plan)
	free := time.Duration(0) // when the only user has its last answer
	for event := range plan.Events() {
		service := time.Millisecond
		if event.At == 2*time.Second {
			service = time.Second
		}
		sent := max(event.At, free)
		latencies.Sent(event.User, event.At, free, sent)
		free = sent + service
		latencies.Answered(event.User, event.At, sent, free)
	}
	response, serviceTime, lag := latencies.Response.Summary(), latencies.Service.Summary(), latencies.Lag.Summary()
	if response.Count != 1000 || serviceTime.Count != 1000 {
		t.Fatalf("%d responses and %d services, want 1000 of each", response.Count, serviceTime.Count)
	}
	if !near(serviceTime.P99, time.Millisecond) {
		t.Errorf("service p99 %v, want 1ms: one event of a thousand was slow", serviceTime.P99)
	}
	// The queue of 1 s drains at 9 ms per event: 111 events wait, and the 99th percentile is that of the tenth worst.
	if response.P99 < 850*time.Millisecond {
		t.Errorf("response p99 %v hides the stall", response.P99)
	}
	if lag.P99 > time.Millisecond {
		t.Errorf("the generator's lag p99 is %v although only the server was slow", lag.P99)
	}
}

func TestWarmupIsLeftOut(t *testing.T) {
	plan := PlanConfig{Rate: 10, Warmup: time.Second, Duration: time.Second, Users: 1, Width: 1, Height: 1, Colours: 1}
	latencies := NewLatencies(plan)
	for event := range plan.Events() {
		latency := 5 * time.Second
		if plan.Measured(event.At) {
			latency = time.Millisecond
		}
		latencies.Sent(0, event.At, 0, event.At)
		latencies.Answered(0, event.At, event.At, event.At+latency)
	}
	if latencies.WarmupSent() != 10 || latencies.MeasuredSent() != 10 {
		t.Fatalf("warm-up %d, measured %d, want 10 of each", latencies.WarmupSent(), latencies.MeasuredSent())
	}
	if s := latencies.Response.Summary(); s.Count != 10 || !near(s.Max, time.Millisecond) {
		t.Fatalf("%d responses up to %v, want 10 up to 1ms", s.Count, s.Max)
	}
}
