package actors

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/board"
)

// RegionRatesMax is for how many regions a node tells the rate in its metrics: of those it owns the busiest. A board of ten by
// ten regions fits; without a bound a large one with small regions would fill Prometheus with series.
const RegionRatesMax = 100

// regionRates exports the rates of regions as they are when Prometheus asks. Only the owner tells a region's rate, so that each
// is there once, whichever nodes are asked. It tells none while the feed does not answer.
type regionRates struct {
	regions func(context.Context) []board.RegionReport
	self    string // address of this node
	desc    *prometheus.Desc
}

func newRegionRates(regions func(context.Context) []board.RegionReport, self string) *regionRates {
	return &regionRates{regions, self, prometheus.NewDesc("placed_region_placements_per_second",
		"Placements of the last seconds in the busiest regions that this node owns, by column and row of the region.", []string{"col", "row"}, nil)}
}

// Describe implements prometheus.Collector.
func (r *regionRates) Describe(descs chan<- *prometheus.Desc) { descs <- r.desc }

// Collect implements prometheus.Collector. Columns and rows have two digits (there are at most 100), so that they sort as text.
func (r *regionRates) Collect(metrics chan<- prometheus.Metric) {
	list := slices.DeleteFunc(r.regions(context.Background()), func(g board.RegionReport) bool { return g.Owner != r.self })
	slices.SortStableFunc(list, func(a, b board.RegionReport) int { return cmp.Compare(b.PerSecond, a.PerSecond) })
	for _, g := range list[:min(len(list), RegionRatesMax)] {
		metrics <- prometheus.MustNewConstMetric(r.desc, prometheus.GaugeValue, g.PerSecond, fmt.Sprintf("%02d", g.Col), fmt.Sprintf("%02d", g.Row))
	}
}
