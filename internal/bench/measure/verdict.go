package measure

import (
	"fmt"
	"io"
	"time"
)

// Exit codes of bench.
const (
	ExitPass    = 0 // every check passed
	ExitFail    = 1 // a check failed, or the command could not be carried out
	ExitUsage   = 2 // unknown flag or impossible value
	ExitInvalid = 3 // the generator fell behind: the figures say nothing about the server
)

// Outcome of one check.
type Outcome string

// Outcomes. An invalid check is about the generator, never about the server.
const (
	Pass    Outcome = "PASS"
	Fail    Outcome = "FAIL"
	Invalid Outcome = "INVALID"
)

// Check is one verdict line.
type Check struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	Value   string  `json:"value"`            // measured, with its unit
	Limit   string  `json:"limit"`            // what it was held against
	Detail  string  `json:"detail,omitempty"` // for people: first examples of what is wrong
	// Invariant marks a check of correctness. A generator that was late makes figures worthless, but a broken invariant
	// stays broken.
	Invariant bool `json:"invariant"`
}

// Zero is a check of correctness: count must be 0. detail describes the first offenders.
func Zero(name string, count int, detail string) Check {
	return Check{Name: name, Outcome: outcomeOf(count == 0), Value: fmt.Sprint(count), Limit: "0", Detail: detail, Invariant: true}
}

// AtLeast is a check of a figure with a lower limit. format prints both, such as "%.2f".
func AtLeast(name string, value, limit float64, format string) Check {
	return Check{Name: name, Outcome: outcomeOf(value >= limit), Value: fmt.Sprintf(format, value), Limit: "at least " + fmt.Sprintf(format, limit)}
}

// AtMost is a check of a figure with an upper limit. format prints both.
func AtMost(name string, value, limit float64, format string) Check {
	return Check{Name: name, Outcome: outcomeOf(value <= limit), Value: fmt.Sprintf(format, value), Limit: "at most " + fmt.Sprintf(format, limit)}
}

// Within is a check of a duration with an upper limit.
func Within(name string, value, limit time.Duration) Check {
	return Check{Name: name, Outcome: outcomeOf(value <= limit), Value: value.String(), Limit: "at most " + limit.String()}
}

// NotMeasured fails a check for which the run gave no figure: a check must not pass for want of data.
func NotMeasured(name, limit, why string) Check {
	return Check{Name: name, Outcome: Fail, Value: "not measured", Limit: limit, Detail: why}
}

func outcomeOf(ok bool) Outcome {
	if ok {
		return Pass
	}
	return Fail
}

// Rule of validity: a run counts only when the generator kept its schedule.
const (
	LagP99Max    = 50 * time.Millisecond // of (sent - the time it could have been sent)
	SentShareMin = 0.95                  // sent / planned, the warm-up left out of both
)

// Schedule checks that the generator kept the plan: INVALID when the 99th percentile of its own lateness is above
// LagP99Max or when less than SentShareMin of the planned events left. Events of doublers are left out: see ActDouble.
func Schedule(latencies *Latencies) Check {
	plan := latencies.plan
	planned := 0
	for event := range plan.Events() {
		if plan.Measured(event.At) && event.Act != ActDouble {
			planned++
		}
	}
	return ScheduleOf(latencies, planned)
}

// ScheduleOf is Schedule for events that come from elsewhere: planned is how many are measured.
func ScheduleOf(latencies *Latencies, planned int) Check {
	return schedule(planned, latencies.MeasuredSent(), latencies.Lag.Summary())
}

func schedule(planned int, sent int64, lag Summary) Check {
	share := 0.0
	if planned > 0 {
		share = float64(sent) / float64(planned)
	}
	check := Check{
		Name: "generator kept its schedule", Outcome: Pass,
		Value: fmt.Sprintf("lag p99 %v, sent %.1f%%", lag.P99, share*100),
		Limit: fmt.Sprintf("at most %v, at least %.0f%%", LagP99Max, SentShareMin*100),
	}
	if share < SentShareMin || lag.P99 > LagP99Max {
		check.Outcome = Invalid
		check.Detail = "the generator fell behind; the latencies of this run are not the server's"
	}
	return check
}

// ExitCode follows from the checks: a broken invariant is 1 whatever else happened; then 3 when the generator was late;
// then 1 for a figure off its limit; 1 as well when nothing was checked at all.
func ExitCode(checks []Check) int {
	code := ExitPass
	if len(checks) == 0 {
		return ExitFail
	}
	for _, check := range checks {
		switch {
		case check.Outcome == Fail && check.Invariant:
			return ExitFail
		case check.Outcome == Invalid:
			code = ExitInvalid
		case check.Outcome == Fail && code == ExitPass:
			code = ExitFail
		}
	}
	return code
}

// PrintChecks writes one line per check.
func PrintChecks(out io.Writer, checks []Check) {
	width := 0
	for _, check := range checks {
		width = max(width, len(check.Name))
	}
	for _, check := range checks {
		fmt.Fprintf(out, "%-7s  %-*s  %s  (%s)\n", check.Outcome, width, check.Name, check.Value, check.Limit)
		if check.Detail != "" {
			fmt.Fprintf(out, "         %s\n", check.Detail)
		}
	}
}
