package actors_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/actors"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/store/pebble"
	"github.com/placed-board/placed/wire"
)

// player is a session whose client places again as soon as it is answered.
type player struct {
	sys      *actors.System
	id       wire.SessionID
	turn     uint64
	n        int
	answered *atomic.Int64
	limit    int64
	done     chan<- struct{}
	refused  *atomic.Int64
}

func (p *player) Send(m wire.Sealed) wire.WriteStatus {
	if wire.IsFrame(message(m)) {
		return wire.WriteDone
	}
	decoded, err := wire.DecodeServer(message(m))
	placed, ok := decoded.(*wire.Placed)
	if err != nil || !ok || placed.Verdict == board.VerdictCharged {
		return wire.WriteDone
	}
	if placed.NextTurn > 0 {
		p.turn = placed.NextTurn
	}
	if placed.Verdict != board.VerdictAccepted {
		p.refused.Add(1)
	}
	if n := p.answered.Add(1); n == p.limit {
		close(p.done)
	} else if n < p.limit {
		p.place()
	}
	return wire.WriteDone
}

// message returns what a sealed frame carries.
func message(m wire.Sealed) []byte {
	switch m[1] {
	case 126:
		return m[4:]
	case 127:
		return m[10:]
	}
	return m[2:]
}

func (p *player) place() {
	p.n++
	p.sys.Receive(p.id, &wire.Place{Turn: p.turn, Nonce: uint64(p.n), X: (p.n*37 + int(p.id)*101) % 1000, Y: (p.n*61 + int(p.id)*7) % 1000, Colour: p.n % 16})
}

func (p *player) Flush() wire.WriteStatus { return wire.WriteDone }
func (p *player) Close(int, string)       {}

// BenchmarkPlace is the whole path of a placement without sockets: 2,000 sessions that place as fast as they are answered.
func BenchmarkPlace(b *testing.B) {
	for _, name := range []string{"mem", "pebble"} {
		b.Run(name, func(b *testing.B) {
			var st store.Store = mem.New()
			if name == "pebble" {
				c := pebble.DefaultConfig(b.TempDir())
				c.Logger = slog.New(slog.DiscardHandler)
				opened, err := pebble.Open(c)
				if err != nil {
					b.Fatal(err)
				}
				st = opened
			}
			benchmarkPlace(b, st)
		})
	}
}

func benchmarkPlace(b *testing.B, st store.Store) {
	c := actors.DefaultConfig()
	c.Node = actors.Node{ID: 1, Address: "alone", Incarnation: 1}
	reg := prometheus.NewRegistry()
	c.Store, c.Metrics, c.Logger = st, reg, slog.New(slog.DiscardHandler)
	c.Board.CooldownMs = 0
	sys, err := actors.Start(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		sys.Stop(context.Background())
		st.Close()
	}()
	var answered, refused atomic.Int64
	done := make(chan struct{})
	players := make([]*player, 2000)
	for i := range players {
		players[i] = &player{sys: sys, answered: &answered, refused: &refused, limit: int64(b.N), done: done, turn: 1}
		players[i].id = sys.Connect(players[i], board.UserID(fmt.Sprintf("user-%d", i)))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i, p := range players {
		if i < b.N {
			p.place()
		}
	}
	<-done
	b.StopTimer()
	if testing.Verbose() {
		families, _ := reg.Gather()
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if v := m.GetCounter().GetValue(); v != 0 {
					fmt.Println(f.GetName(), m.GetLabel(), v)
				}
				if h := m.GetHistogram(); h.GetSampleCount() > 0 {
					fmt.Println(f.GetName(), m.GetLabel(), h.GetSampleCount(), h.GetSampleSum()/float64(h.GetSampleCount()))
				}
			}
		}
	}
	b.ReportMetric(float64(refused.Load())/float64(b.N), "refused/op")
}
