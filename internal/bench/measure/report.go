package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Table is printed with aligned columns: the first to the left, the others to the right.
type Table struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Add appends one row; each cell is printed with fmt.Sprint.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	t.Rows = append(t.Rows, row)
}

// AddSummary appends one row of name, count, p50, p90, p99, p99.9 and max: the columns of SummaryColumns.
func (t *Table) AddSummary(name string, s Summary) {
	t.Add(name, s.Count, Millis(s.P50), Millis(s.P90), Millis(s.P99), Millis(s.P999), Millis(s.Max))
}

// SummaryColumns are the headings that AddSummary fills; latencies are milliseconds.
func SummaryColumns(first string) []string {
	return []string{first, "n", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms"}
}

// Millis prints a duration as milliseconds with three digits after the point.
func Millis(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/float64(time.Millisecond)) }

// Print writes the table, a blank line before it.
func (t *Table) Print(out io.Writer) {
	widths := make([]int, len(t.Columns))
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		for i, cell := range row {
			if i < len(widths) {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	fmt.Fprintf(out, "\n%s\n", t.Title)
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		var line strings.Builder
		for i, cell := range row {
			pad := ""
			if i < len(widths) {
				pad = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			}
			if i == 0 {
				line.WriteString("  " + cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}

// Host says where a run took place: figures of different hosts are not comparable.
type Host struct {
	Cores    int    `json:"cores"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Revision string `json:"revision"` // of the bench's own source, "unknown" when it was built without version control
}

// ThisHost describes the machine and the binary.
func ThisHost() Host {
	host := Host{Cores: runtime.NumCPU(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Revision: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				host.Revision = setting.Value
			}
		}
	}
	return host
}

// Report is what one command found; results.json is its JSON.
type Report struct {
	Command  string             `json:"command"` // with every flag that matters
	Started  time.Time          `json:"started"`
	Host     Host               `json:"host"`
	Notes    []string           `json:"notes,omitempty"` // what a reader of the figures must know
	Figures  map[string]float64 `json:"figures"`         // name with its unit last, such as placementsPerSecond
	Tables   []*Table           `json:"tables"`
	Charts   []*Chart           `json:"-"` // for WritePage
	Checks   []Check            `json:"checks"`
	ExitCode int                `json:"exitCode"`
}

// NewReport starts the report of a command.
func NewReport(command string, now time.Time) *Report {
	return &Report{Command: command, Started: now.UTC(), Host: ThisHost(), Figures: map[string]float64{}}
}

// PrintHeader writes what was run and where.
func (r *Report) PrintHeader(out io.Writer) {
	fmt.Fprintf(out, "%s\n%d cores (shared by the server and its clients), %s, %s, revision %s\n",
		r.Command, r.Host.Cores, r.Host.Go, r.Host.Platform, r.Host.Revision)
	for _, note := range r.Notes {
		fmt.Fprintln(out, note)
	}
}

// Finish prints the tables and the verdict, writes the JSON to path unless that is empty, and returns the exit code.
func (r *Report) Finish(out io.Writer, path string) (int, error) {
	r.ExitCode = ExitCode(r.Checks)
	for _, table := range r.Tables {
		table.Print(out)
	}
	fmt.Fprintln(out)
	PrintChecks(out, r.Checks)
	if path == "" {
		return r.ExitCode, nil
	}
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return ExitFail, fmt.Errorf("encode results: %w", err)
	}
	if err := os.WriteFile(path, append(body, '\n'), 0o644); err != nil {
		return ExitFail, fmt.Errorf("write results: %w", err)
	}
	return r.ExitCode, nil
}

// Median of the values, the mean of the middle two when their number is even, 0 for none.
func Median(values []float64) float64 {
	sorted := slices.Clone(values)
	if len(sorted) == 0 {
		return 0
	}
	slices.Sort(sorted)
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
