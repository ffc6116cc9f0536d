package client

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// link is a syncer and a model session with what is on its way between them.
type link struct {
	t        interface{ Fatalf(string, ...any) }
	b        *modelBoard
	s        *modelSession
	y        *syncer
	up       [][]byte // from the client
	fetching bool
	old      [][]byte // board bodies that a cache may still hold
	faults   []string // connections that the client gave up
}

func newLink(t interface{ Fatalf(string, ...any) }, b *modelBoard, pick func(int) int, whole bool, rect wire.ChunkRect) *link {
	l := &link{t: t, b: b, y: &syncer{whole: whole, rect: rect}}
	l.s = &modelSession{b: b, pick: pick}
	return l
}

func (l *link) act() {
	a := l.y.take()
	for _, m := range a.send {
		if r, ok := m.(*wire.Repair); ok && len(r.Chunks) > wire.RepairChunksMax {
			l.t.Fatalf("a repair of %d chunks", len(r.Chunks))
		}
		l.up = append(l.up, wire.AppendClient(nil, m))
	}
	l.fetching = l.fetching || a.fetch
	if a.fault != "" {
		l.faults = append(l.faults, a.fault)
		l.lose()
		l.connect()
	}
}

func (l *link) connect() {
	if l.y.connected {
		return
	}
	l.y.hello(l.s.hello())
	l.act()
}

// lose ends the connection with everything that is on its way.
func (l *link) lose() {
	l.y.lost()
	l.up, l.fetching = nil, false
	l.s = &modelSession{b: l.b, pick: l.s.pick}
}

// down delivers the next message of the node.
func (l *link) down() bool {
	if !l.y.connected || len(l.s.out) == 0 {
		return false
	}
	b := l.s.out[0]
	l.s.out = l.s.out[1:]
	l.deliver(b)
	return true
}

func (l *link) deliver(b []byte) {
	if wire.IsFrame(b) {
		if err := l.y.frame(slices.Clone(b)); err != nil {
			l.t.Fatalf("frame: %v", err)
		}
		l.act()
		return
	}
	m, err := wire.DecodeServer(b)
	if err != nil {
		l.t.Fatalf("decode: %v", err)
	}
	switch m := m.(type) {
	case *wire.Base:
		l.y.base(m)
	case *wire.Heartbeat:
		l.y.heartbeat(m)
	case *wire.SettingsChanged:
		l.y.settingsChanged(m)
	case *wire.ChunkHashes:
		l.y.hashes(m)
	default:
		l.t.Fatalf("unexpected %T", m)
	}
	l.act()
}

// upward delivers the client's next message.
func (l *link) upward() bool {
	if len(l.up) == 0 {
		return false
	}
	b := l.up[0]
	l.up = l.up[1:]
	l.s.receive(b)
	return true
}

// fetched hands over a board body, if one is waited for.
func (l *link) fetched(b []byte) bool {
	if !l.fetching {
		return false
	}
	body, err := wire.DecodeBoard(b)
	if err != nil {
		l.t.Fatalf("body: %v", err)
	}
	if l.y.body(body) == nil {
		l.fetching = false
		l.act()
	}
	return true
}

// quiet delivers everything until nothing is on its way.
func (l *link) quiet() {
	for l.down() || l.upward() || l.fetched(wire.AppendBoard(nil, l.b.body())) {
	}
}

// converge ends all faults and gives the session some heartbeats.
func (l *link) converge() {
	l.connect()
	if t, ok := l.b.publish(); ok {
		l.s.published(t)
	}
	for range 12 {
		l.s.recover()
		l.quiet()
		l.s.heartbeat()
		l.quiet()
	}
}

// check compares the mirror with the board, bit for bit.
func (l *link) check() {
	m := l.y.mirror
	if !m.Settled() || l.y.state() != StateLive {
		chunks, unsettled, behind := m.Counts()
		l.t.Fatalf("not live: %s, %d chunks, %d not settled, %d behind", l.y.state(), chunks, unsettled, behind)
	}
	want := l.b.body()
	want.Chunks = slices.DeleteFunc(want.Chunks, func(c wire.BodyChunk) bool { return !l.s.sees(c.Chunk) })
	if d := m.Diff(want); len(d) > 0 {
		l.t.Fatalf("chunks differ: %v", d)
	}
	if have, h := m.Hashes(), l.b.hashes(l.s.sees); have != h {
		l.t.Fatalf("hashes %x, want %x", have, h)
	}
	have := m.Body()
	have.Incarnation, have.Tick = want.Incarnation, want.Tick
	if !bytes.Equal(wire.AppendBoard(nil, have), wire.AppendBoard(nil, want)) {
		l.t.Fatalf("boards differ")
	}
}

// TestConverge: any interleaving of frames, lags, repeats, losses, bodies of any age, repairs, subscriptions, changes of
// settings and restarts ends in the node's board (I5), and on the way no heartbeat ever finds another one.
func TestConverge(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { converge(rt, false) }) }

// TestHeal: so does a node that loses frames without knowing, and a mirror with wrong tiles: hashes show it.
func TestHeal(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { converge(rt, true) }) }

func converge(rt *rapid.T, faults bool) {
	whole := rapid.Bool().Draw(rt, "whole")
	rect := wire.ChunkRect{Col: 1, Row: 0, Cols: 2, Rows: 3}
	b := newModelBoard(7, 1, 250, 240) // 25 chunks
	pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "pick") }
	l := newLink(rt, b, pick, whole, rect)
	place := func() {
		for range 1 + pick(8) {
			b.place(board.Point{X: pick(6) * 49, Y: pick(6) * 47}, board.Colour(pick(4)))
		}
	}
	publish := func() {
		if tick, ok := b.publish(); ok {
			l.s.published(tick)
		}
	}
	for range pick(40) {
		place()
	}
	publish()
	actions := map[string]func(*rapid.T){
		"place":   func(*rapid.T) { place() },
		"publish": func(*rapid.T) { place(); publish() },
		"down":    func(*rapid.T) { l.down() },
		"up":      func(*rapid.T) { l.upward() },
		"quiet":   func(*rapid.T) { l.quiet() },
		"connect": func(*rapid.T) { l.connect() },
		"lose":    func(*rapid.T) { l.lose() },
		"lag":     func(*rapid.T) { l.s.lag() },
		"recover": func(*rapid.T) { l.s.recover() },
		"heartbeat": func(*rapid.T) { // far apart: nothing is on its way for so long
			for l.down() || l.upward() {
			}
			l.s.heartbeat()
		},
		"cache": func(*rapid.T) {
			if len(l.old) < 8 {
				l.old = append(l.old, wire.AppendBoard(nil, b.body()))
			}
		},
		"fetched": func(*rapid.T) {
			if len(l.old) > 0 {
				l.fetched(l.old[pick(len(l.old))])
			}
		},
		"no body": func(*rapid.T) {
			if l.fetching {
				l.y.noBody()
				l.fetching = false
				l.act()
			}
		},
		"full buffer": func(*rapid.T) {
			if l.y.loading && !l.y.direct {
				l.y.bufferSize = loadBufferBytesMax
			}
		},
		"repeat": func(*rapid.T) { // of a frame that is on its way
			if n := len(l.s.out); n > 0 && wire.IsFrame(l.s.out[n-1]) && !repairFrame(l.s.out[n-1]) {
				l.s.out = append(l.s.out, l.s.out[n-1])
			}
		},
		"resize": func(*rapid.T) {
			before := b.settings
			l.s.resize(b.resize(1+pick(300), 1+pick(300)), before)
		},
		"subscribe": func(*rapid.T) {
			l.y.watch(pick(2) == 0, wire.ChunkRect{Col: pick(3), Row: pick(3), Cols: 1 + pick(4), Rows: 1 + pick(4)})
			l.act()
		},
		"restart": func(*rapid.T) {
			b.restart(b.incarnation+1, uint64(pick(5)))
			l.lose()
		},
		"new epoch": func(*rapid.T) {
			b.epoch++
			b.restart(b.incarnation+1, 0)
			clear(b.log)
			l.lose()
		},
	}
	if faults {
		maps.Copy(actions, map[string]func(*rapid.T){
			"drop": func(*rapid.T) { // a fault of the node that only hashes show
				if n := len(l.s.out); n > 0 && wire.IsFrame(l.s.out[n-1]) {
					l.s.out = l.s.out[:n-1]
				}
			},
			"wrong tile": func(*rapid.T) {
				if m := l.y.mirror; m != nil && len(m.chunks) > 0 {
					i := pick(len(m.chunks))
					if c := &m.chunks[i]; c.tiles != nil {
						m.hashes.Tiles ^= c.tileHash(m.id(i))
						c.tiles[pick(board.ChunkTiles)] ^= 3
						m.hashes.Tiles ^= c.tileHash(m.id(i))
					}
				}
			},
		})
	}
	rt.Repeat(actions)
	l.converge()
	l.check()
	if !faults && (l.y.divergences > 0 || len(l.faults) > 0) {
		rt.Fatalf("%d heartbeats found another board, connections given up: %q", l.y.divergences, l.faults)
	}
}

func repairFrame(b []byte) bool {
	_, repair, err := frameTick(b)
	return err == nil && repair
}
