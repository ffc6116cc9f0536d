package actors

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store/mem"
)

// gatherRates returns what the collector exports, by "col,row".
func gatherRates(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	rates := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			rates[m.Label[0].GetValue()+","+m.Label[1].GetValue()] = m.Gauge.GetValue()
		}
	}
	return rates
}

// TestRegionRates: a running node tells the rate of each of its regions, the quiet ones too.
func TestRegionRates(t *testing.T) {
	bubble(t, mem.New(), nil, func(n *node) {
		n.want(n.place("ann", 0, 1, 250, 150), board.VerdictAccepted, board.CodeOK)
		<-time.After(time.Second)
		rates := gatherRates(t, newRegionRates(n.Regions, "alone"))
		if len(rates) != 9 || rates["02,01"] != 1.0/RateSeconds || rates["00,00"] != 0 {
			t.Errorf("rates %v", rates)
		}
		if rates := gatherRates(t, newRegionRates(n.Regions, "another")); len(rates) != 0 {
			t.Errorf("rates %v of a node that owns nothing", rates)
		}
	})
}

// TestRegionRatesAreBounded: of a board with very many regions a node tells the busiest of its own.
func TestRegionRatesAreBounded(t *testing.T) {
	var list []board.RegionReport
	for i := range 10_000 {
		owner := "a"
		if i%2 == 1 {
			owner = "b"
		}
		list = append(list, board.RegionReport{Col: i % 100, Row: i / 100, Owner: owner, PerSecond: float64(i)})
	}
	rates := gatherRates(t, newRegionRates(func(context.Context) []board.RegionReport { return list }, "b"))
	if len(rates) != RegionRatesMax {
		t.Fatalf("%d rates", len(rates))
	}
	for i := 9_999; i >= 9_801; i -= 2 {
		if rates[fmt.Sprintf("%02d,%02d", i%100, i/100)] != float64(i) {
			t.Errorf("region %d is missing", i)
		}
	}
}
