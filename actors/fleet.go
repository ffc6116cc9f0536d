package actors

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/placed-board/placed/board"
)

// RateSeconds is over how many seconds the rate of a region is taken.
const RateSeconds = 10

// blockRates count the placements of the last seconds, block by block.
type blockRates struct {
	seconds [RateSeconds]map[board.BlockID]int
	now     int64 // second of the newest entry
}

// add counts placements of a block at a time in seconds, by a clock that does not run back.
func (r *blockRates) add(second int64, b board.BlockID, placements int) {
	r.pass(second)
	at := &r.seconds[second%RateSeconds]
	if *at == nil {
		*at = map[board.BlockID]int{}
	}
	(*at)[b] += placements
}

// pass forgets what is older than RateSeconds.
func (r *blockRates) pass(second int64) {
	for ; r.now < second; r.now++ {
		if second-r.now > RateSeconds {
			r.now = second - RateSeconds
		}
		r.seconds[(r.now+1)%RateSeconds] = nil
	}
}

// perSecond returns the rate of each block that had placements lately.
func (r *blockRates) perSecond(second int64) map[board.BlockID]float64 {
	r.pass(second)
	rates := map[board.BlockID]float64{}
	for _, blocks := range r.seconds {
		for b, n := range blocks {
			rates[b] += float64(n) / RateSeconds
		}
	}
	return rates
}

// getRates asks the feed actor for counts and rates of all blocks.
type getRates struct {
	reply func(counts []blockCount, rates map[board.BlockID]float64)
}

// Regions returns the regions that meet the board, row by row, with who owns them in this node's view and their rates as its
// feed sees them. It is nil when the feed does not answer.
func (s *System) Regions(ctx context.Context) []board.RegionReport {
	type known struct {
		counts []blockCount
		rates  map[board.BlockID]float64
	}
	answers := make(chan known, 1)
	s.root.Send(s.post.feed, getRates{func(counts []blockCount, rates map[board.BlockID]float64) { offer(answers, known{counts, rates}) }})
	var k known
	select {
	case k = <-answers:
	case <-ctx.Done():
		return nil
	case <-time.After(BodyWait):
		return nil
	}
	settings := s.post.rules.Load().Settings()
	size, bounds := settings.RegionSize, settings.Bounds()
	reports := map[board.RegionID]*board.RegionReport{}
	var order []*board.RegionReport
	for y := 0; y < bounds.Height; y += size {
		for x := 0; x < bounds.Width; x += size {
			id := board.Point{X: x, Y: y}.Block().Region(size)
			report := &board.RegionReport{
				Col: id.Col, Row: id.Row, Rect: board.Rect{X: x, Y: y, Width: size, Height: size}, Owner: s.post.router.RegionOwner(id),
			}
			reports[id] = report
			order = append(order, report)
		}
	}
	for _, c := range k.counts {
		if report := reports[c.Block.Region(size)]; report != nil {
			report.Placements += c.Placements
			report.PerSecond += k.rates[c.Block]
		}
	}
	list := make([]board.RegionReport, len(order))
	for i, report := range order {
		list[i] = *report
	}
	return list
}

// Cluster returns the nodes of the board as this one sees them.
func (s *System) Cluster(context.Context) board.ClusterReport {
	report := board.ClusterReport{Node: s.node.Address}
	peers := []Peer{{Address: s.node.Address, Incarnation: s.node.Incarnation, Serving: !s.draining.Load()}}
	if s.config.Network != nil {
		peers = s.config.Network.Peers()
	}
	told := map[string]board.NodeReport{s.node.Address: {
		Heard: true, Ready: s.Readiness().Ready, Sessions: s.people.connections(), Online: s.people.count(), Regions: len(s.post.allRegions()),
		Blocks: int(max(0, s.blocks.Load())), Users: int(max(0, s.users.Load())), SettingsVersion: s.post.rules.Load().Version(),
	}}
	s.peersNow(func(address string, t *peerTold) {
		told[address] = board.NodeReport{
			Heard: true, Ready: t.Ready, SkewMs: t.skewMs, Sessions: t.Sessions, Online: t.Online, Regions: t.Regions, Blocks: t.BlocksLoaded,
			Users: t.Users, SettingsVersion: t.SettingsVersion,
		}
	})
	for _, p := range peers {
		node := told[p.Address]
		node.Address, node.Incarnation, node.Serving = p.Address, fmt.Sprintf("%016x", p.Incarnation), p.Serving
		for shard := range s.post.shards {
			if s.post.router.ShardOwner(shard) == p.Address {
				node.Shards++
			}
		}
		report.Members = append(report.Members, node)
	}
	slices.SortFunc(report.Members, func(a, b board.NodeReport) int { return cmp.Compare(a.Address, b.Address) })
	return report
}
