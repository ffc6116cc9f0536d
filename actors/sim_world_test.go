package actors

// The simulation: the real cores of Shard, User, Block, Feed, Subscriber, SettingsKeeper and committer under ONE seeded
// scheduler, on store/mem's Core. There is no goroutine, no clock and no randomness but the seed's, so a failing seed
// replays exactly:
//
//	go test ./actors -run TestSimSeed -sim.seed=N
//
// sim_world_test.go   scheduler, time, network
// sim_node_test.go    a node: its block, feed, subscriber and settings, and what the shells do with their effects
// sim_shard_test.go   its shards and their users
// sim_store_test.go   the store, and how it answers
// sim_client_test.go  users and their sessions
// sim_mirror_test.go  what a session knows of the board
// sim_faults_test.go  crashes, doubled owners, clocks, settings, bans, jobs
// sim_check_test.go   what must hold at every commit and every answer
// sim_settle_test.go  what must hold once the faults have stopped
// sim_mutants_test.go cores broken on purpose

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store/mem"
)

// odds are one seed's circumstances: probabilities per event, unless the name says otherwise.
type odds struct {
	nodes    int
	users    int
	steps    int
	slotsMax int

	lose, repeat, late float64 // of messages between actors that may live on different nodes
	misroute           float64 // to a node that does not own the partition

	storeUnknown, storeLate, storeRival, storeSlow, storeFail float64 // of each call
	outage                                                    float64 // per step: the store answers nothing for a while

	crash, crashNode, crashFeed     float64 // per step
	moveOwner, clock, settings, ban float64 // per step
	job, idle, snapshot             float64 // per step
	stall, reconnect                float64 // per step
	full                            float64 // of sealed commits: no room for closings
	retire, health                  float64 // per step
	slow                            float64 // of actors
	leap                            float64 // per step: seconds pass
}

// simFailure is what a check panics with.
type simFailure struct{ invariant, what string }

// world is everything that one seed runs.
type world struct {
	seed    uint64
	rand    *rand.Rand
	lives   uint64 // of user cores so far
	odds    odds
	mutant  *mutant
	nowMs   int64
	step    int
	quiet   bool // faults have stopped
	core    *mem.Core
	down    bool // the store answers nothing
	upAtMs  int64
	nodes   []*simNode
	owners  map[any]int // of partitions: index of the node
	bag     []simEvent
	ready   []*box
	clients []*simClient
	shards  []int // in use, ops last
	check   *checker
	bans    []*simBan
	jobs    []*simJob

	tracing bool
	trace   []string
}

// simEvent happens once, not before its time.
type simEvent struct {
	atMs int64
	what string
	run  func()
}

// box is the mailbox of one actor: in order, nothing lost.
type box struct {
	w       *world
	name    string
	queue   []any
	receive func(any)
	listed  bool
	slow    float64 // how often its actor does something else first
}

func (w *world) newBox(name string, receive func(any)) *box {
	b := &box{w: w, name: name, receive: receive}
	if w.happens(w.odds.slow) {
		b.slow = 0.8 + 0.19*w.rand.Float64()
	}
	return b
}

func (b *box) put(m any) {
	b.queue = append(b.queue, m)
	if !b.listed {
		b.listed = true
		b.w.ready = append(b.w.ready, b)
	}
}

// next handles the oldest message of the box at index i of the ready ones.
func (w *world) next(i int) {
	b := w.ready[i]
	if len(b.queue) == 0 {
		w.unlist(i)
		return
	}
	m := b.queue[0]
	b.queue = b.queue[1:]
	if len(b.queue) == 0 {
		w.unlist(i)
	}
	w.log("%s gets %T%+v", b.name, m, m)
	b.receive(m)
}

func (w *world) unlist(i int) {
	last := len(w.ready) - 1
	w.ready[i].listed = false
	w.ready[i] = w.ready[last]
	w.ready = w.ready[:last]
}

func (w *world) log(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf("%5d %7d ", w.step, w.nowMs)+clip(fmt.Sprintf(format, args...)))
	}
}

func clip(s string) string {
	s = strings.ReplaceAll(s, "github.com/placed-board/placed/", "")
	if len(s) > 300 {
		s = s[:300] + "..."
	}
	return s
}

func (w *world) fail(invariant, format string, args ...any) {
	panic(simFailure{invariant, fmt.Sprintf(format, args...)})
}

// happens reports whether a fault with this probability happens now: never once it is quiet.
// nextLife numbers the cores of users.
func (w *world) nextLife() uint64 {
	w.lives++
	return w.lives
}

func (w *world) happens(p float64) bool { return !w.quiet && p > 0 && w.rand.Float64() < p }

func (w *world) chance(p float64) bool { return w.rand.Float64() < p }

// between returns a number from a to b.
func (w *world) between(a, b int64) int64 { return a + w.rand.Int64N(b-a+1) }

func (w *world) after(ms int64, what string, run func()) {
	w.bag = append(w.bag, simEvent{w.nowMs + ms, what, run})
}

// delay is how long a message is under way.
func (w *world) delay() int64 {
	switch {
	case w.quiet || w.chance(0.6):
		return w.between(0, 5)
	case w.happens(w.odds.late):
		return w.between(100, 4000)
	}
	return w.between(0, 60)
}

// send carries a message that may cross nodes: it may be lost, repeated, delayed, and overtaken by others.
func (w *world) send(what string, deliver func()) {
	if w.happens(w.odds.lose) {
		w.log("lost: %s", what)
		return
	}
	w.after(w.delay(), what, deliver)
	if w.happens(w.odds.repeat) {
		w.after(w.delay(), what, deliver)
	}
}

// event runs one event whose time has come, and reports whether there was one.
func (w *world) event() bool {
	for range 6 {
		if len(w.bag) == 0 {
			return false
		}
		i := w.rand.IntN(len(w.bag))
		if w.bag[i].atMs <= w.nowMs {
			w.runEvent(i)
			return true
		}
	}
	return false
}

func (w *world) runEvent(i int) {
	e := w.bag[i]
	last := len(w.bag) - 1
	w.bag[i] = w.bag[last]
	w.bag[last] = simEvent{}
	w.bag = w.bag[:last]
	w.log("event: %s", e.what)
	e.run()
}

// run lets the world live through its faults, and then come to rest.
func (w *world) run() {
	for w.step = 0; w.step < w.odds.steps; w.step++ {
		w.passTime()
		for range 1 + w.rand.IntN(5) {
			w.work()
		}
		w.tickSome()
		w.clientsAct()
		w.faults()
		w.check.bounds(w)
	}
	w.settle()
}

func (w *world) passTime() {
	switch {
	case w.happens(w.odds.leap):
		w.nowMs += w.between(500, 15_000)
	case w.chance(0.5):
		w.nowMs += w.between(1, 20)
	}
}

// work lets one actor handle a message, or one event happen.
func (w *world) work() {
	if n := len(w.ready); n > 0 && w.chance(0.7) {
		if i := w.rand.IntN(n); !w.happens(w.ready[i].slow) {
			w.next(i)
		}
		return
	}
	w.event()
}

// drain works until nothing is left to do at this moment.
func (w *world) drain() {
	for n := 0; ; n++ {
		if n > 200_000 {
			w.fail("stuck", "work never ends: %d boxes, %d events", len(w.ready), len(w.bag))
		}
		if k := len(w.ready); k > 0 {
			w.next(w.rand.IntN(k))
			continue
		}
		due := -1
		for i := range w.bag {
			if w.bag[i].atMs <= w.nowMs {
				due = i
				break
			}
		}
		if due < 0 {
			return
		}
		w.runEvent(due)
	}
}

// simResult tells how a seed ended.
type simResult struct {
	failure    *simFailure
	stack      string
	trace      []string
	placements int
}

// runSeed runs one seed and catches what its checks, and the cores themselves, panic with.
func runSeed(seed uint64, m *mutant, tracing bool) (result simResult) {
	w := newWorld(seed, m, tracing)
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(simFailure)
			if !ok {
				f = simFailure{"panic", fmt.Sprint(p)}
				result.stack = string(debug.Stack())
			}
			result.failure = &f
		}
		result.trace = w.trace
		result.placements = w.check.placements
	}()
	w.run()
	return result
}

// newWorld makes the world of a seed at its start.
func newWorld(seed uint64, m *mutant, tracing bool) *world {
	w := &world{
		seed: seed, rand: rand.New(rand.NewPCG(seed, 0x706c6163)), mutant: m, tracing: tracing,
		nowMs: 1_000_000, core: mem.NewCore(), owners: map[any]int{},
	}
	if m == nil {
		w.mutant = &mutant{}
	}
	w.odds = w.drawOdds()
	w.check = newChecker(w)
	w.chooseShards()
	w.createBoard()
	for i := range w.odds.nodes {
		w.nodes = append(w.nodes, newSimNode(w, i))
	}
	w.makeClients()
	return w
}

// drawOdds draws a seed's circumstances: every kind of fault is there or not, so that each is also met alone.
func (w *world) drawOdds() odds {
	p := func(most float64) float64 {
		if w.chance(0.4) {
			return 0
		}
		return most * w.rand.Float64()
	}
	return odds{
		nodes: 1 + w.rand.IntN(2), users: 2 + w.rand.IntN(5), steps: 150 + w.rand.IntN(600), slotsMax: 1 + w.rand.IntN(4),
		lose: p(0.2), repeat: p(0.2), late: p(0.2), misroute: p(0.15),
		storeUnknown: p(0.2), storeLate: p(0.2), storeRival: p(0.03), storeSlow: p(0.3), storeFail: p(0.1), outage: p(0.004),
		crash: p(0.02), crashNode: p(0.004), crashFeed: p(0.003),
		moveOwner: p(0.02), clock: p(0.01), settings: p(0.02), ban: p(0.01),
		job: p(0.005), idle: p(0.05), snapshot: p(0.02),
		stall: p(0.05), reconnect: p(0.02), leap: p(0.02), full: p(0.3), retire: p(0.02), health: p(0.01), slow: p(0.4),
	}
}

// simNames are user names by shard.
var simNames = func() map[int][]board.UserID {
	names := map[int][]board.UserID{}
	for i := range 2000 {
		id := board.UserID(fmt.Sprintf("u%d", i))
		names[id.Shard()] = append(names[id.Shard()], id)
	}
	return names
}()
