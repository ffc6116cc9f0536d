package measure

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTimelinePercentiles(t *testing.T) {
	var l Timeline
	for i := range 1000 {
		l.Add(3*time.Second+time.Duration(i)*time.Microsecond, time.Duration(i+1)*time.Millisecond)
	}
	l.Add(0, time.Hour) // beyond the histogram
	l.Add(-time.Second, 0)
	if rate := l.Rate(); len(rate) != 4 || rate[0].Y != 2 || rate[1].Y != 0 || rate[3].Y != 1000 {
		t.Errorf("rate %v", rate)
	}
	for p, want := range map[float64]float64{1: 10, 50: 500, 99: 990, 100: 1000} {
		points := l.Percentile(p)
		if len(points) != 2 || points[1].X != 3 || math.Abs(points[1].Y-want) > want*0.1 {
			t.Errorf("p%v: %v, want %v ms", p, points, want)
		}
	}
	var none *Timeline
	none.Add(0, 0)
}

// TestPageNeedsNothingElse writes a page with texts that would break it, and with curves of all shapes.
func TestPageNeedsNothingElse(t *testing.T) {
	r := NewReport(`bench storm --url "<script>alert(1)</script>"`, time.Now())
	r.Notes = []string{"a & b"}
	r.Checks = []Check{{Name: "<b>", Outcome: Fail, Value: "1", Limit: "0", Detail: "</td>"}}
	r.ExitCode = ExitFail
	table := &Table{Title: "t<", Columns: []string{"a", "b"}}
	table.Add("<i>", 2)
	r.Tables = []*Table{table}
	r.Charts = []*Chart{
		{Title: "none", Lines: []Line{{Name: "x"}}},
		{Title: "none, log", Log: true},
		{Title: "zero", Lines: []Line{{Name: "<x>", Points: []Point{{0, 0}, {1, 0}}}}},
		{Title: "log", Log: true, Lines: []Line{{Name: "x", Points: []Point{{0, 0.001}, {5, 60_000}}}}},
	}
	path := filepath.Join(t.TempDir(), "page.html")
	if err := r.WritePage(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, never := range []string{"<script", "http:", "https:", "<b>", "<i>", "NaN", "Inf", "src=", "url("} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if strings.Count(page, "<svg") != 4 || !strings.Contains(page, `class="FAIL"`) {
		t.Errorf("%d charts", strings.Count(page, "<svg"))
	}
	if err := r.WritePage(filepath.Join(t.TempDir(), "no", "page.html")); err == nil {
		t.Error("a folder that is not there passes")
	}
}
