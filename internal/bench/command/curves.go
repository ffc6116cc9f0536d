package command

import (
	"github.com/placed-board/placed/internal/bench/load"
	"github.com/placed-board/placed/internal/bench/measure"
)

// curves are a storm second by second.
type curves struct{ offered, accepted, refused, fanout measure.Timeline }

// newCurves has the storm tell them.
func newCurves(s *load.Storm) *curves {
	c := &curves{}
	s.Latencies.Offered, s.Latencies.Accepted, s.Refused = &c.offered, &c.accepted, &c.refused
	return c
}

// charts draws them.
func (c *curves) charts() []*measure.Chart {
	percentiles := func(l *measure.Timeline) []measure.Line {
		return []measure.Line{{Name: "p50", Points: l.Percentile(50)}, {Name: "p99", Points: l.Percentile(99)}, {Name: "max", Points: l.Percentile(100)}}
	}
	return []*measure.Chart{
		{Title: "Rate", Unit: "placements per second", Lines: []measure.Line{
			{Name: "offered", Points: c.offered.Rate()}, {Name: "accepted", Points: c.accepted.Rate()}, {Name: "refused", Points: c.refused.Rate()},
		}},
		{Title: "Acknowledgement, from when the placement was due", Unit: "ms, logarithmic", Log: true, Lines: percentiles(&c.accepted)},
		{Title: "Fan-out: from the send to the arrival at listeners", Unit: "ms, logarithmic", Log: true, Lines: percentiles(&c.fanout)},
	}
}
