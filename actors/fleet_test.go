package actors

import (
	"context"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store/mem"
)

func TestBlockRates(t *testing.T) {
	var r blockRates
	r.add(100, 1, 20)
	r.add(101, 1, 10)
	r.add(101, 2, 5)
	if got := r.perSecond(101); got[1] != 3 || got[2] != 0.5 {
		t.Errorf("rates %v", got)
	}
	if got := r.perSecond(110); got[1] != 1 || got[2] != 0.5 {
		t.Errorf("rates %v, the first second is over ten seconds ago", got)
	}
	if got := r.perSecond(1 << 40); len(got) != 0 {
		t.Errorf("rates %v of long ago", got)
	}
}

// TestRegionsAndNodes asks a node alone for its regions and its cluster.
func TestRegionsAndNodes(t *testing.T) {
	bubble(t, mem.New(), nil, func(n *node) {
		n.want(n.place("ann", 0, 1, 250, 150), board.VerdictAccepted, board.CodeOK)
		<-time.After(time.Second)
		regions := n.Regions(context.Background())
		if len(regions) != 9 {
			t.Fatalf("%d regions of a board of 300x300", len(regions))
		}
		for i, r := range regions {
			want := uint64(0)
			if r.Col == 2 && r.Row == 1 {
				want = 1
			}
			if r.Owner != "alone" || r.Placements != want || r.PerSecond != float64(want)/RateSeconds || r.Rect.X != i%3*100 || r.Rect.Y != i/3*100 {
				t.Errorf("region %+v", r)
			}
		}
		report := n.Cluster(context.Background())
		if len(report.Members) != 1 || report.Members[0].Shards != board.Shards || !report.Members[0].Ready || report.Node != "alone" {
			t.Errorf("cluster %+v", report)
		}
	})
}
