package measure

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"strings"
)

// Point of a curve.
type Point struct{ X, Y float64 }

// Line is one curve of a chart.
type Line struct {
	Name   string
	Points []Point
}

// Chart is a picture of curves over the seconds of a run.
type Chart struct {
	Title string
	Unit  string // of the vertical axis
	Log   bool   // the vertical axis is logarithmic
	Lines []Line
}

// Size of a chart in units of its picture.
const (
	chartWidth  = 960.0
	chartHeight = 280.0
	chartLeft   = 64.0
	chartRight  = 16.0
	chartTop    = 12.0
	chartBottom = 28.0
	chartTicks  = 5
)

var chartColours = []string{"#0b6e99", "#d9730d", "#b3261e", "#4a7c2c"}

// WritePage writes the report as one HTML file that needs nothing else: verdict, curves, tables.
func (r *Report) WritePage(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	if err := r.page(file); err != nil {
		file.Close()
		return fmt.Errorf("write the page: %w", err)
	}
	return file.Close()
}

func (r *Report) page(out io.Writer) error {
	return pageTemplate.Execute(out, map[string]any{"Report": r, "Verdict": map[int]string{ExitPass: "PASS", ExitInvalid: "INVALID"}[r.ExitCode]})
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"svg": func(c *Chart) template.HTML { return template.HTML(c.svg()) }, // made of numbers and escaped texts
}).Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{.Report.Command}}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1c1c1c; background: #fff }
h1 { font-size: 1.4rem; overflow-wrap: anywhere } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; display: block; overflow-x: auto }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; white-space: nowrap } th:first-child, td:first-child { text-align: left }
tr { border-bottom: 1px solid #e5e5e5 } svg { width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: #555 }
.PASS { color: #2e6b1f } .FAIL { color: #b3261e; font-weight: bold } .INVALID { color: #9a5b00; font-weight: bold } .note { color: #555; margin: 0 }
</style>
<h1>{{.Report.Command}}: <span class="{{or .Verdict "FAIL"}}">{{or .Verdict "FAIL"}}</span></h1>
<p class="note">{{.Report.Started.Format "2006-01-02 15:04:05"}} UTC, {{.Report.Host.Cores}} cores (shared by the server and its clients), {{.Report.Host.Go}}, {{.Report.Host.Platform}}, revision {{.Report.Host.Revision}}</p>
{{range .Report.Notes}}<p class="note">{{.}}</p>
{{end}}<h2>Verdict</h2>
<table><tr><th>check</th><th></th><th>value</th><th>limit</th></tr>
{{range .Report.Checks}}<tr><td>{{.Name}}{{with .Detail}}<br><small>{{.}}</small>{{end}}</td><td class="{{.Outcome}}">{{.Outcome}}</td><td>{{.Value}}</td><td>{{.Limit}}</td></tr>
{{end}}</table>
{{range .Report.Charts}}<h2>{{.Title}}</h2>
{{svg .}}
{{end}}{{range .Report.Tables}}<h2>{{.Title}}</h2>
<table><tr>{{range .Columns}}<th>{{.}}</th>{{end}}</tr>
{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table>
{{end}}</html>
`))

// svg draws the chart.
func (c *Chart) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, chartWidth, chartHeight, template.HTMLEscapeString(c.Title))
	xMax, low, high := c.ranges()
	x := func(v float64) float64 { return chartLeft + v/xMax*(chartWidth-chartLeft-chartRight) }
	y := func(v float64) float64 {
		share := (v - low) / (high - low)
		if c.Log {
			share = math.Log(max(v, low)/low) / math.Log(high/low)
		}
		return chartHeight - chartBottom - share*(chartHeight-chartTop-chartBottom)
	}
	for _, v := range c.ticks(low, high) {
		fmt.Fprintf(&b, `<path d="M%g %.1fH%g" stroke="#e5e5e5"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`,
			chartLeft, y(v), chartWidth-chartRight, chartLeft-8, y(v)+4, number(v))
	}
	step := nice(xMax / chartTicks)
	for v := 0.0; v <= xMax; v += step {
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle">%s s</text>`, x(v), chartHeight-8, number(v))
	}
	for i, line := range c.Lines {
		colour := chartColours[i%len(chartColours)]
		var path strings.Builder
		for n, p := range line.Points {
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(n, 1)], x(p.X), y(p.Y))
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`, path.String(), colour)
		fmt.Fprintf(&b, `<text x="%g" y="%g" style="fill:%s">%s</text>`, chartLeft+8+float64(i)*150, chartTop+8, colour, template.HTMLEscapeString(line.Name))
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="end">%s</text></svg>`, chartWidth-chartRight, chartTop+8, template.HTMLEscapeString(c.Unit))
	return b.String()
}

// ranges are the last second and the ends of the vertical axis.
func (c *Chart) ranges() (xMax, low, high float64) {
	low, xMax = math.Inf(1), 1
	for _, line := range c.Lines {
		for _, p := range line.Points {
			xMax, low, high = max(xMax, p.X), min(low, p.Y), max(high, p.Y)
		}
	}
	if !c.Log {
		return xMax, 0, max(1, high*1.15)
	}
	if high <= 0 {
		low, high = 0.1, 1
	}
	low = math.Pow(10, math.Floor(math.Log10(max(low, 0.001))))
	return xMax, low, max(low*10, math.Pow(10, math.Ceil(math.Log10(high*1.2))))
}

func (c *Chart) ticks(low, high float64) (ticks []float64) {
	if c.Log {
		for v := low; v <= high*1.001; v *= 10 {
			ticks = append(ticks, v)
		}
		return ticks
	}
	step := nice(high / chartTicks)
	for v := low; v <= high; v += step {
		ticks = append(ticks, v)
	}
	return ticks
}

// nice rounds a step up to 1, 2 or 5 times a power of ten.
func nice(step float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= step {
			return m * power
		}
	}
	return 10 * power
}

func number(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.4g", v), ".0") }
