package client

import (
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// Single steps of the syncer that random lives seldom show.

func helloOf(epoch, incarnation uint64, s board.Settings) *wire.Hello {
	return &wire.Hello{Protocol: wire.Protocol, Epoch: epoch, Incarnation: incarnation, Settings: s, HeartbeatMs: 1000}
}

func frameOf(tick uint64, sections ...wire.Section) []byte {
	return wire.AppendServer(nil, &wire.Frame{Tick: tick, Sections: sections})
}

// sent returns the only message to send, as a T.
func sent[T wire.ClientMessage](t *testing.T, y *syncer) T {
	t.Helper()
	a := y.take()
	if len(a.send) != 1 {
		t.Fatalf("%d messages to send, want one: %+v", len(a.send), a)
	}
	m, ok := a.send[0].(T)
	if !ok {
		t.Fatalf("sends %T %+v", a.send[0], a.send[0])
	}
	return m
}

// liveSyncer is one that has a whole tiny board at tick 10.
func liveSyncer(t *testing.T) *syncer {
	t.Helper()
	y := &syncer{whole: true}
	y.hello(helloOf(1, 1, tinySettings))
	if m := sent[*wire.Subscribe](t, y); m.Resume != nil || !m.Whole {
		t.Fatalf("subscribes %+v", m)
	}
	y.base(&wire.Base{Tick: 10})
	if a := y.take(); len(a.send) > 0 || a.fetch || y.state() != StateLive {
		t.Fatalf("an empty board needs nothing: %+v, %s", a, y.state())
	}
	return y
}

func TestSyncResume(t *testing.T) {
	other := tinySettings
	other.Version = 9
	for _, c := range []struct {
		name   string
		hello  *wire.Hello
		before func(*syncer)
		resume bool
	}{
		{"same process", helloOf(1, 1, tinySettings), nil, true},
		{"another process", helloOf(1, 2, tinySettings), nil, false},
		{"another epoch", helloOf(2, 1, tinySettings), nil, false},
		{"other settings", helloOf(1, 1, other), nil, false},
		{"after a broken frame", helloOf(1, 1, tinySettings), func(y *syncer) {
			b := frameOf(12, runOf(0, 1), runOf(1, 1, 2))
			if y.frame(b[:len(b)-1]) == nil || y.take().fault == "" {
				t.Error("half a frame is taken for one")
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := liveSyncer(t)
			_ = y.frame(frameOf(11, runOf(0, 1)))
			if c.before != nil {
				c.before(y)
			}
			y.lost()
			y.hello(c.hello)
			m := sent[*wire.Subscribe](t, y)
			if c.resume != (m.Resume != nil) {
				t.Fatalf("resume %+v", m.Resume)
			}
			if c.resume && *m.Resume != (wire.Resume{Epoch: 1, Incarnation: 1, Tick: 10}) {
				t.Fatalf("resume %+v", m.Resume)
			}
			// Before the base only frames of a resumed connection say anything.
			if err := y.frame(frameOf(12, runOf(0, 2))); err != nil {
				t.Fatal(err)
			}
			if got, _ := y.mirror.Tile(board.Point{}); (got == 2) != c.resume {
				t.Fatalf("tile is %d", got)
			}
		})
	}
}

// TestSyncBuffer: frames that arrive while the board is fetched are applied after it, so that nothing needs a repair.
func TestSyncBuffer(t *testing.T) {
	b := newModelBoard(1, 1, 250, 250)
	for i := range 25 {
		b.place(board.NewChunkID(i%5, i/5).Origin(), 3)
	}
	b.publish()
	y := &syncer{whole: true}
	y.hello(helloOf(1, 1, b.settings))
	y.take()
	base := &wire.Base{Tick: b.tick}
	for _, id := range b.chunks() {
		base.Chunks = append(base.Chunks, wire.ChunkAt{Chunk: id, Sequence: b.sequence(id)})
	}
	y.base(base)
	if a := y.take(); !a.fetch || len(a.send) > 0 || y.state() != StateLoading {
		t.Fatalf("%+v, %s", a, y.state())
	}
	old := b.body()
	for range 3 {
		b.place(board.Point{X: 7}, 5)
		tick, _ := b.publish()
		_ = y.frame(wire.AppendServer(nil, (&modelSession{b: b, whole: true, pick: func(int) int { return 0 }}).frame(tick)))
	}
	if err := y.body(old); err != nil {
		t.Fatal(err)
	}
	if a := y.take(); len(a.send) > 0 || y.state() != StateLive || y.repairs > 0 {
		t.Fatalf("%+v, %s", a, y.state())
	}
	if d := y.mirror.Diff(b.body()); len(d) > 0 {
		t.Fatalf("chunks differ: %v", d)
	}
}

// TestSyncBufferEnds: what was kept aside for one connection is nothing to the next.
func TestSyncBufferEnds(t *testing.T) {
	y := &syncer{whole: true}
	s := tinySettings
	s.Width, s.Height = 250, 250
	base := &wire.Base{Tick: 10}
	for i := range 25 {
		base.Chunks = append(base.Chunks, wire.ChunkAt{Chunk: board.NewChunkID(i%5, i/5), Sequence: 1})
	}
	y.hello(helloOf(1, 1, s))
	y.base(base)
	_ = y.frame(frameOf(11, runOf(0, 1)))
	y.lost()
	y.hello(helloOf(1, 2, s))
	base.Tick = 3
	y.base(base)
	if err := y.body(bodyOf(1, setOf(0, 1, 7))); err != nil {
		t.Fatal(err)
	}
	if c := y.mirror.at(0); c.sent != 1 || c.held != 1 {
		t.Fatalf("held %d, sent %d: a frame of the connection before was applied", c.held, c.sent)
	}
}

// TestSyncRepairs: at most RepairChunksMax chunks in a message, one message at a time.
func TestSyncRepairs(t *testing.T) {
	y := &syncer{rect: wire.ChunkRect{Cols: 16, Rows: 15}}
	s := board.DefaultSettings()
	s.Width, s.Height = 3000, 3000 // too large to be fetched
	y.hello(helloOf(1, 1, s))
	y.take()
	base := &wire.Base{Tick: 10}
	for row := range 15 {
		for col := range 16 {
			base.Chunks = append(base.Chunks, wire.ChunkAt{Chunk: board.NewChunkID(col, row), Sequence: 1})
		}
	}
	y.base(base)
	for _, want := range []int{100, 100, 40} {
		m := sent[*wire.Repair](t, y)
		if len(m.Chunks) != want {
			t.Fatalf("a repair of %d chunks, want %d", len(m.Chunks), want)
		}
		f := &wire.Frame{Tick: 10, Repair: true}
		for _, at := range m.Chunks {
			f.Sections = append(f.Sections, runOf(at.Chunk, 1))
		}
		half := &wire.Frame{Tick: 10, Repair: true, Sections: f.Sections[:want/2]}
		_ = y.frame(wire.AppendServer(nil, half))
		if a := y.take(); len(a.send) > 0 {
			t.Fatalf("the next before the whole answer: %+v", a)
		}
		f.Sections = f.Sections[want/2:]
		_ = y.frame(wire.AppendServer(nil, f))
	}
	if a := y.take(); len(a.send) > 0 || y.state() != StateLive {
		t.Fatalf("%+v, %s", a, y.state())
	}
}

// TestSyncSilence: a request that stays without an answer for more than two heartbeats costs the connection.
func TestSyncSilence(t *testing.T) {
	y := &syncer{whole: true}
	y.hello(helloOf(1, 1, tinySettings))
	y.take()
	for i := range 3 {
		if a := y.take(); a.fault != "" {
			t.Fatalf("given up after %d heartbeats", i)
		}
		y.heartbeat(&wire.Heartbeat{})
	}
	if y.take().fault == "" {
		t.Fatal("waits for ever")
	}
}

// TestSyncMissedSettings: after settings that were never told a base tells where everything stands.
func TestSyncMissedSettings(t *testing.T) {
	y := liveSyncer(t)
	next := tinySettings
	next.Version = 2
	y.settingsChanged(&wire.SettingsChanged{Tick: 10, Settings: next})
	if a := y.take(); len(a.send) > 0 {
		t.Fatalf("%+v", a)
	}
	next.Version = 4
	y.settingsChanged(&wire.SettingsChanged{Tick: 10, Settings: next})
	sent[*wire.Subscribe](t, y)
	next.Version, next.Width = 3, 1
	y.settingsChanged(&wire.SettingsChanged{Tick: 10, Settings: next}) // late
	if y.mirror.settings.Version != 4 {
		t.Fatalf("went back to version %d", y.mirror.settings.Version)
	}
}

// TestSyncHashesOfAnEarlierSubscription are no news.
func TestSyncHashesOfAnEarlierSubscription(t *testing.T) {
	y := liveSyncer(t)
	_ = y.frame(frameOf(11, runOf(0, 1)))
	y.heartbeat(&wire.Heartbeat{Tick: 11})
	sent[*wire.GetHashes](t, y)
	y.watch(false, wire.ChunkRect{Cols: 2, Rows: 1})
	sent[*wire.Subscribe](t, y)
	y.hashes(&wire.ChunkHashes{Tick: 11, Chunks: []wire.ChunkHash{{Chunk: 0, Sequence: 9}}})
	y.base(&wire.Base{Tick: 11, Chunks: []wire.ChunkAt{{Chunk: 0, Sequence: 1}}})
	if a := y.take(); len(a.send) > 0 || y.state() != StateLive {
		t.Fatalf("%+v, %s", a, y.state())
	}
}

// TestSyncHealsItsOwnHash: when only the hash kept along the way is wrong, computing it anew is enough.
func TestSyncHealsItsOwnHash(t *testing.T) {
	y := liveSyncer(t)
	_ = y.frame(frameOf(11, runOf(0, 1)))
	right := y.mirror.Hashes()
	y.mirror.hashes.Tiles ^= 1
	if _, diverged := y.heartbeat(&wire.Heartbeat{Tick: 11, Hashes: right}); !diverged {
		t.Fatal("not noticed")
	}
	sent[*wire.GetHashes](t, y)
	y.hashes(&wire.ChunkHashes{Tick: 11, Chunks: []wire.ChunkHash{{Chunk: 0, Sequence: 1, Tiles: right.Tiles}}})
	if a := y.take(); len(a.send) > 0 {
		t.Fatalf("repairs what is right: %+v", a)
	}
	if _, diverged := y.heartbeat(&wire.Heartbeat{Tick: 11, Hashes: right}); diverged || y.state() != StateLive {
		t.Fatalf("not healed: %s", y.state())
	}
}
