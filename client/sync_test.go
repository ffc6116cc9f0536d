package client

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

type failer interface{ Fatalf(string, ...any) }

// link is a syncer and a model session with what is on its way between them.
type link struct {
	t        failer
	b        *modelBoard
	s        *modelSession
	y        *syncer
	up       [][]byte // from the client
	fetching bool
	old      [][]byte // board bodies that a cache may still hold
	faults   []string // connections that the client gave up
}

func newLink(t failer, b *modelBoard, pick func(int) int, whole bool, rect wire.ChunkRect) *link {
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
func TestConverge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "pick") }
		converge(rt, pick, rapid.IntRange(0, 60).Draw(rt, "steps"), false)
	})
}

// TestSimConverge is the same over longer runs. PLACED_SIM_SEEDS says how many.
func TestSimConverge(t *testing.T) { simulate(t, false) }

// TestSimHeal: a node that loses frames without knowing, and mirrors with wrong tiles. Hashes show it.
func TestSimHeal(t *testing.T) { simulate(t, true) }

func simulate(t *testing.T, faults bool) {
	seeds := 500
	if n, err := strconv.Atoi(os.Getenv("PLACED_SIM_SEEDS")); err == nil {
		seeds = n
	}
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 0))
		converge(seeded{t, seed}, r.IntN, 150, faults)
	}
}

// seeded names the seed in what fails.
type seeded struct {
	*testing.T
	seed uint64
}

func (s seeded) Fatalf(format string, a ...any) {
	s.Helper()
	s.T.Fatalf("seed %d: "+format, append([]any{s.seed}, a...)...)
}

// run is one random life of a session.
type run struct {
	*link
	pick func(n int) int
}

func converge(t failer, pick func(n int) int, steps int, faults bool) {
	b := newModelBoard(7, 1, 250, 240) // 25 chunks
	r := &run{newLink(t, b, pick, pick(2) == 0, wire.ChunkRect{Col: 1, Row: 0, Cols: 2, Rows: 3}), pick}
	for range pick(40) {
		r.place()
	}
	r.publish()
	actions := []func(){
		r.publish, r.publish, r.publish, r.publish, r.heartbeat, r.heartbeat, r.quiet, r.connect, r.connect, r.connect,
		func() { r.down() }, func() { r.down() }, func() { r.down() }, func() { r.upward() }, func() { r.upward() },
		r.lose, func() { r.s.lag() }, func() { r.s.lag() }, func() { r.s.recover() }, func() { r.s.recover() },
		r.cache, r.oldBody, r.oldBody, r.noBody, r.fullBuffer, r.repeat, r.resize, r.subscribe, r.restart, r.newEpoch,
	}
	if faults {
		actions = append(actions, r.drop, r.wrongTile)
	}
	for range steps {
		actions[pick(len(actions))]()
	}
	r.converge()
	r.check()
	if !faults && (r.y.divergences > 0 || len(r.faults) > 0) {
		t.Fatalf("%d heartbeats found another board, connections given up: %q", r.y.divergences, r.faults)
	}
}

func (r *run) place() {
	for range 1 + r.pick(8) {
		r.b.place(board.Point{X: r.pick(6) * 49, Y: r.pick(6) * 47}, board.Colour(r.pick(4)))
	}
}

func (r *run) publish() {
	r.place()
	if tick, ok := r.b.publish(); ok {
		r.s.published(tick)
	}
}

// heartbeat: they are far apart, nothing is on its way for so long.
func (r *run) heartbeat() {
	for r.down() || r.upward() {
	}
	r.s.heartbeat()
}

// cache keeps a board body for later.
func (r *run) cache() {
	if len(r.old) < 8 {
		r.old = append(r.old, wire.AppendBoard(nil, r.b.body()))
	}
}

func (r *run) oldBody() {
	if len(r.old) > 0 {
		r.fetched(r.old[r.pick(len(r.old))])
	}
}

func (r *run) noBody() {
	if r.fetching {
		r.y.noBody()
		r.fetching = false
		r.act()
	}
}

func (r *run) fullBuffer() {
	if r.y.loading && !r.y.direct {
		r.y.bufferSize = loadBufferBytesMax
	}
}

// repeat sends the newest frame on its way twice.
func (r *run) repeat() {
	if n := len(r.s.out); n > 0 && wire.IsFrame(r.s.out[n-1]) {
		r.s.out = append(r.s.out, r.s.out[n-1])
	}
}

func (r *run) resize() {
	before := r.b.settings
	r.s.resize(r.b.resize(1+r.pick(300), 1+r.pick(300)), before)
}

func (r *run) subscribe() {
	r.y.watch(r.pick(2) == 0, wire.ChunkRect{Col: r.pick(3), Row: r.pick(3), Cols: 1 + r.pick(4), Rows: 1 + r.pick(4)})
	r.act()
}

func (r *run) restart() {
	r.b.restart(r.b.incarnation+1, uint64(r.pick(5)))
	r.lose()
}

func (r *run) newEpoch() {
	r.b.epoch++
	r.b.restart(r.b.incarnation+1, 0)
	clear(r.b.log)
	r.lose()
}

// drop loses a frame on its way: a fault of the node that only hashes show.
func (r *run) drop() {
	if n := len(r.s.out); n > 0 && wire.IsFrame(r.s.out[n-1]) {
		r.s.out = r.s.out[:n-1]
	}
}

func (r *run) wrongTile() {
	m := r.y.mirror
	if m == nil || len(m.chunks) == 0 {
		return
	}
	i := r.pick(len(m.chunks))
	if c := &m.chunks[i]; c.tiles != nil {
		m.hashes.Tiles ^= c.tileHash(m.id(i))
		c.tiles[r.pick(board.ChunkTiles)] ^= 3
		m.hashes.Tiles ^= c.tileHash(m.id(i))
	}
}
