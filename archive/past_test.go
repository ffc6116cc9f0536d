package archive

import (
	"context"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/store/storetest"
)

// pastOf is a board of 200x200 that became 150x150 at 20,000 ms; its clock stands at nowMs.
func pastOf(st Journals, nowMs int64) *Past {
	first := board.SettingsRecord{Settings: board.DefaultSettings(), AtMs: 500}
	first.Width, first.Height = 200, 200
	second := first
	second.Width, second.Height, second.AtMs = 150, 150, 20_000
	p := NewPast(st, func(context.Context) ([]board.SettingsRecord, error) {
		return []board.SettingsRecord{first, second}, nil
	})
	p.now = func() time.Time { return time.UnixMilli(nowMs) }
	return p
}

// TestPastBoards compares boards at several times with a replay (I6).
func TestPastBoards(t *testing.T) {
	st, placements := mem.New(), randomPlacements(3000)
	storetest.CommitPlacements(t, st, placements)
	p := pastOf(st, 10_000_000)
	for _, atMs := range []int64{0, 999, 1500, 15_000, 25_000, 1e9} {
		got, err := p.BoardAt(t.Context(), atMs)
		if err != nil {
			t.Fatal(err)
		}
		side := 200
		if atMs >= 20_000 {
			side = 150
		}
		want := NewPicture(board.Rect{Width: side, Height: side})
		sequences := map[board.ChunkID]uint64{}
		for i := range placements {
			if q := &placements[i]; q.AtMs <= atMs {
				want.Set(q.Point(), q.Colour)
				sequences[q.Chunk] = q.Sequence
			}
		}
		have := NewPicture(want.Rect)
		for i, c := range got.Chunks {
			if c.Sequence != sequences[c.Chunk] || i > 0 && got.Chunks[i-1].Chunk >= c.Chunk {
				t.Errorf("at %d: chunk %d has sequence %d, want %d, in order", atMs, c.Chunk, c.Sequence, sequences[c.Chunk])
			}
			for tile, colour := range c.Tiles {
				have.Set(c.Chunk.Point(tile), colour)
			}
		}
		if got.Settings.Width != side || string(bytesOf(have)) != string(bytesOf(want)) {
			t.Errorf("the board at %d differs, or its width %d does", atMs, got.Settings.Width)
		}
	}
}

func bytesOf(p *Picture) []byte {
	b := make([]byte, len(p.Colours))
	for i, c := range p.Colours {
		b[i] = byte(c)
	}
	return b
}

// TestSettledBoards: a board of the past can only be kept for ever when nothing of its time is on its way.
func TestSettledBoards(t *testing.T) {
	const nowMs = 10_000_000
	for name, c := range map[string]struct {
		atMs, lastMs, openMs int64 // lastMs: of every shard; openMs: of an open charge of shard 7, 0 for none
		want                 bool
	}{
		"shards have gone on":         {nowMs - 5000, nowMs - 4000, 0, true},
		"shards are idle, just now":   {nowMs - 5000, nowMs - 60_000, 0, false},
		"shards are idle for long":    {nowMs - settledAfterMs - 1, 5, 0, true},
		"a charge of before is open":  {nowMs - 5000, nowMs - 4000, nowMs - 6000, false},
		"an old charge is still open": {nowMs - settledAfterMs - 1, nowMs, 17, false},
		"a charge of after is open":   {nowMs - 5000, nowMs - 4000, nowMs - 4500, true},
		"the same millisecond":        {nowMs - 5000, nowMs - 5000, 0, false},
	} {
		core := mem.NewCore()
		for shard := range board.Shards {
			state := store.ShardState{LastAtMs: c.lastMs}
			if shard == 7 && c.openMs > 0 {
				state.Open = append(state.Open, store.Charge{Ticket: board.Ticket{Shard: 7, Commit: 1}, User: "u", AtMs: c.openMs})
			}
			core.Commit(&store.Commit{Partition: store.Shard(shard), Head: store.Head{Version: 1, Attempt: 1, State: state.AppendTo(nil)}})
		}
		got, err := pastOf(mem.Open(core), nowMs).BoardAt(t.Context(), c.atMs)
		if err != nil || got.Settled != c.want {
			t.Errorf("%s: settled %v, want %v (%v)", name, got.Settled, c.want, err)
		}
	}
}

func TestHeat(t *testing.T) {
	st, placements := mem.New(), randomPlacements(2000)
	storetest.CommitPlacements(t, st, placements)
	heat, err := pastOf(st, 10_000_000).Heat(t.Context(), 5000, 12_000)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]uint32, 200*200)
	for i := range placements {
		if p := &placements[i]; p.AtMs >= 5000 && p.AtMs < 12_000 {
			want[p.Point().Y*200+p.Point().X]++
		}
	}
	for i := range want {
		if heat.Width != 200 || heat.Counts[i] != want[i] {
			t.Fatalf("tile %d: %d placements, want %d", i, heat.Counts[i], want[i])
		}
	}
}
