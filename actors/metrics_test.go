package actors

import (
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
)

// A charge whose block cannot commit is sent again every ResendMs, and each time is counted.
func TestResendsAreCounted(t *testing.T) {
	st := mem.New()
	bubble(t, st, nil, func(n *node) {
		resends := func() float64 {
			var m dto.Metric
			if err := n.metrics.resends.Write(&m); err != nil {
				t.Fatal(err)
			}
			return m.GetCounter().GetValue()
		}
		n.want(n.place("alice", 1, 1, 3, 4), board.VerdictAccepted, board.CodeOK)
		if resends() != 0 {
			t.Fatalf("%v resends of a placement at ease", resends())
		}
		st.SetScript(func(c mem.Call) mem.Outcome {
			if c.Op == mem.OpCommit && c.Partition.Class == store.ClassBlock {
				return mem.UnknownNot()
			}
			return mem.Normal()
		})
		n.want(n.place("bob", 1, 1, 5, 6), board.VerdictCharged, board.CodeOK)
		n.until("two resends", func() bool { return resends() >= 2 })
		st.SetScript(nil)
		<-time.After(2 * CommitRetryMsMax * time.Millisecond)
		n.want(n.place("bob", 1, 1, 5, 6), board.VerdictAccepted, board.CodeOK)
	})
}
