package measure

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestScheduleIsInvalidWhenTheGeneratorWasLate(t *testing.T) {
	for _, test := range []struct {
		name    string
		planned int
		sent    int64
		lagP99  time.Duration
		want    Outcome
	}{
		{"on time", 1000, 1000, time.Millisecond, Pass},
		{"at both limits", 1000, 950, 50 * time.Millisecond, Pass},
		{"lag above the limit", 1000, 1000, 50*time.Millisecond + 1, Invalid},
		{"too few sent", 1000, 949, time.Millisecond, Invalid},
		{"nothing planned", 0, 0, 0, Invalid},
	} {
		if got := schedule(test.planned, test.sent, Summary{P99: test.lagP99}); got.Outcome != test.want {
			t.Errorf("%s: %s, want %s", test.name, got.Outcome, test.want)
		}
	}
}

func TestScheduleCountsOnlyTheMeasuredPart(t *testing.T) {
	plan := PlanConfig{Rate: 100, Warmup: time.Second, Duration: time.Second, Users: 1, Width: 1, Height: 1, Colours: 1}
	send := func(skip time.Duration) Check {
		latencies := NewLatencies(plan)
		for event := range plan.Events() {
			if event.At >= skip {
				latencies.Sent(0, event.At, 0, event.At+time.Millisecond)
			}
		}
		return Schedule(latencies)
	}
	if got := send(time.Second); got.Outcome != Pass {
		t.Errorf("a plan sent but for its warm-up: %s, want PASS", got.Outcome)
	}
	if got := send(1200 * time.Millisecond); got.Outcome != Invalid {
		t.Errorf("a plan sent to 80%%: %s, want INVALID", got.Outcome)
	}
}

func TestExitCode(t *testing.T) {
	fine, figure := AtLeast("rate", 2, 1, "%.0f"), AtLeast("rate", 0, 1, "%.0f")
	broken := Zero("extra tiles", 1, "user 3")
	late := Check{Outcome: Invalid}
	for _, test := range []struct {
		name   string
		checks []Check
		want   int
	}{
		{"nothing checked", nil, ExitFail},
		{"all pass", []Check{fine, Zero("extra tiles", 0, "")}, ExitPass},
		{"a figure off its limit", []Check{fine, figure}, ExitFail},
		{"a late generator", []Check{late, fine}, ExitInvalid},
		{"a late generator explains a figure", []Check{figure, late}, ExitInvalid},
		{"a late generator explains no broken invariant", []Check{late, broken, fine}, ExitFail},
	} {
		if got := ExitCode(test.checks); got != test.want {
			t.Errorf("%s: exit code %d, want %d", test.name, got, test.want)
		}
	}
}

func TestLimitsIncludeTheirEnds(t *testing.T) {
	for _, test := range []struct {
		check Check
		want  Outcome
	}{
		{AtLeast("", 0.45, 0.45, "%.2f"), Pass},
		{AtLeast("", 0.4499, 0.45, "%.2f"), Fail},
		{AtMost("", 4.5, 4.5, "%.1f"), Pass},
		{AtMost("", 4.51, 4.5, "%.2f"), Fail},
		{Within("", time.Second, time.Second), Pass},
		{Within("", time.Second+1, time.Second), Fail},
		{Zero("", 0, ""), Pass},
		{Zero("", 1, ""), Fail},
		{NotMeasured("", "1", ""), Fail},
	} {
		if test.check.Outcome != test.want {
			t.Errorf("%s against %s: %s, want %s", test.check.Value, test.check.Limit, test.check.Outcome, test.want)
		}
	}
}

func TestReportPrintsTablesAndChecksAndWritesJSON(t *testing.T) {
	report := NewReport("bench storm --seed 7", time.Unix(1_000_000, 0))
	report.Figures["placementsPerSecond"] = 333
	table := &Table{Title: "placements", Columns: SummaryColumns("latency")}
	table.AddSummary("response", Summary{Count: 12, P50: 1500 * time.Microsecond})
	report.Tables = append(report.Tables, table)
	report.Checks = append(report.Checks, Zero("extra tiles", 2, "user 9: turns 3 and 4"))
	path := filepath.Join(t.TempDir(), "results.json")
	var out bytes.Buffer
	code, err := report.Finish(&out, path)
	if err != nil || code != ExitFail {
		t.Fatalf("exit code %d, error %v; want 1 and none", code, err)
	}
	for _, want := range []string{"latency    n  p50 ms", "response  12   1.500", "FAIL     extra tiles  2  (0)", "user 9: turns 3 and 4"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var read Report
	if err := json.Unmarshal(body, &read); err != nil {
		t.Fatal(err)
	}
	if read.Figures["placementsPerSecond"] != 333 || read.ExitCode != ExitFail || len(read.Checks) != 1 || read.Checks[0].Outcome != Fail {
		t.Fatalf("results.json came back as %+v", read)
	}
}

func TestMedian(t *testing.T) {
	values := []float64{5, 1, 4}
	if got := Median(values); got != 4 {
		t.Errorf("median %v, want 4", got)
	}
	if values[0] != 5 {
		t.Error("the caller's values were sorted")
	}
	if got := Median([]float64{1, 2, 3, 10}); got != 2.5 {
		t.Errorf("median %v, want 2.5", got)
	}
	if got := Median(nil); got != 0 {
		t.Errorf("median of nothing %v, want 0", got)
	}
}
