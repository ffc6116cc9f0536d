package actors

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store/mem"
)

// net is a network of Systems in one bubble: it loses, delays and cuts.
type testNet struct {
	mu      sync.Mutex // guards the fields below
	members []*member
	loss    float64
	random  *rand.Rand
}

// member is the Network of one node.
type member struct {
	net     *testNet
	node    *node
	address string
	run     uint64
	serving bool
	dead    bool // for the others
	cut     bool // nothing reaches it, nothing leaves it
}

func newTestNet() *testNet { return &testNet{random: rand.New(rand.NewPCG(1, 2))} }

// start adds a node that serves.
func (n *testNet) start(t *testing.T, core *mem.Core, address string, change func(*Config)) *member {
	t.Helper()
	m := &member{net: n, address: address, run: rand.Uint64()}
	registry := prometheus.NewRegistry()
	c := DefaultConfig()
	h := fnv.New64()
	_, _ = h.Write([]byte(address))
	c.Node = Node{ID: h.Sum64(), Address: address, Incarnation: m.run}
	c.Store, c.Metrics, c.Logger, c.Network = mem.Open(core), registry, slog.New(slog.DiscardHandler), m
	c.Board.Width, c.Board.Height, c.Board.CooldownMs = 300, 300, 60_000
	if change != nil {
		change(&c)
	}
	n.mu.Lock()
	n.members = append(slices.DeleteFunc(n.members, func(old *member) bool { return old.address == address }), m)
	n.mu.Unlock()
	s, err := Start(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	m.node = &node{System: s, t: t, registry: registry}
	n.mu.Unlock()
	m.Serve(true)
	m.node.until("ready", func() bool { return s.Readiness().Ready })
	return m
}

// changed tells every node of the new view.
func (n *testNet) changed() {
	n.mu.Lock()
	members := slices.Clone(n.members)
	n.mu.Unlock()
	for _, m := range members {
		if m.node != nil && !m.cut {
			m.node.ViewChanged()
		}
	}
}

func (m *member) sees(other *member) bool { return other == m || !other.dead && !m.cut && !other.cut }

func (m *member) Owner(key string) string {
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	owner, highest := "", uint64(0)
	for _, other := range m.net.members {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s %s", key, other.address)
		score := h.Sum64() * 0x9e3779b97f4a7c15
		if m.sees(other) && other.serving && (owner == "" || score > highest) {
			owner, highest = other.address, score
		}
	}
	return owner
}

func (m *member) Peers() []Peer {
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	var peers []Peer
	for _, other := range m.net.members {
		if m.sees(other) {
			peers = append(peers, Peer{Address: other.address, Incarnation: other.run, Serving: other.serving})
		}
	}
	return peers
}

func (m *member) Send(to string, envelope []byte) bool {
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	i := slices.IndexFunc(m.net.members, func(o *member) bool { return o.address == to && m.sees(o) })
	if i < 0 {
		return false
	}
	if m.dead || m.net.random.Float64() < m.net.loss {
		return true
	}
	receiver := m.net.members[i]
	bytes := slices.Clone(envelope)
	time.AfterFunc(time.Duration(1+m.net.random.IntN(5))*time.Millisecond, func() {
		if receiver.node != nil && !receiver.dead && !receiver.cut {
			receiver.node.Deliver(m.address, bytes)
		}
	})
	return true
}

func (m *member) Serve(on bool) {
	m.net.mu.Lock()
	m.serving = on
	m.net.mu.Unlock()
	m.net.changed()
}

// kill ends a node without a word; the others notice after a while.
func (m *member) kill() {
	m.net.mu.Lock()
	m.dead = true
	m.net.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no snapshots
	m.node.Stop(ctx)
	<-time.After(1300 * time.Millisecond)
	m.net.mu.Lock()
	m.net.members = slices.DeleteFunc(m.net.members, func(o *member) bool { return o == m })
	m.net.mu.Unlock()
	m.net.changed()
}

// leave drains and stops a node.
func (m *member) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	m.node.Drain(ctx)
	m.node.Stop(ctx)
	m.net.mu.Lock()
	m.net.members = slices.DeleteFunc(m.net.members, func(o *member) bool { return o == m })
	m.net.mu.Unlock()
	m.net.changed()
}

// placeUntil places one tile through a node, sending the same again until it is accepted, and returns how long that took and
// whether it was refused on the way. A node that does not answer is tried for what a client waits.
func placeUntil(t *testing.T, through func() *member, user string, nonce uint64, p board.Point) (took time.Duration, refused []board.Code) {
	t.Helper()
	begin := time.Now()
	for time.Since(begin) < 2*time.Minute {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		o := through().node.Place(ctx, board.PlaceRequest{User: board.UserID(user), Nonce: nonce, At: p, Colour: 5})
		cancel()
		switch {
		case o.Verdict == board.VerdictAccepted:
			return time.Since(begin), refused
		case o.Code == board.CodeCooldown:
			<-time.After(time.Duration(o.WaitMs) * time.Millisecond)
			begin = time.Now()
			continue
		case o.Verdict == board.VerdictRefused && !o.Code.Passing():
			t.Errorf("%s: %v", user, o.Code)
			return time.Since(begin), refused
		case o.Verdict == board.VerdictRefused:
			refused = append(refused, o.Code)
		}
		<-time.After(time.Duration(max(o.WaitMs, 50)) * time.Millisecond)
	}
	t.Errorf("%s: not placed within two minutes", user)
	return time.Since(begin), refused
}

// settleEqual waits until every node serves the same board, which replays from the journals.
func settleEqual(t *testing.T, members ...*member) {
	t.Helper()
	for _, m := range members {
		m.node.until("no open charge", func() bool { return m.node.openCharges() == 0 })
	}
	body := func(m *member) string {
		b, _ := m.node.BoardBody()
		if len(b) < 64 {
			return fmt.Sprintf("no board of %s", m.address)
		}
		var chunks strings.Builder
		for c := range board.ChunkID(1 << 11) {
			if c.Valid() {
				sequence, _, image, ok := m.node.ChunkImage(c)
				if ok {
					fmt.Fprintln(&chunks, c, sequence, image)
				}
			}
		}
		return chunks.String()
	}
	members[0].node.until("equal boards", func() bool {
		for _, m := range members[1:] {
			if body(m) != body(members[0]) {
				return false
			}
		}
		return true
	})
	for _, m := range members {
		m.node.verify()
	}
}

// storm has users place through every node in turn until stopped.
func storm(t *testing.T, members func() []*member, users int) (stop func() (placed int, slowest time.Duration)) {
	var wait sync.WaitGroup
	var mu sync.Mutex
	placed, slowest, over := 0, time.Duration(0), make(chan struct{})
	for u := range users {
		wait.Go(func() {
			for nonce := uint64(1); ; nonce++ {
				select {
				case <-over:
					return
				default:
				}
				through := func() *member {
					all := members()
					return all[rand.IntN(len(all))]
				}
				took, _ := placeUntil(t, through, fmt.Sprintf("user-%d", u), uint64(u)<<32|nonce, board.Point{X: rand.IntN(300), Y: rand.IntN(300)})
				mu.Lock()
				placed, slowest = placed+1, max(slowest, took)
				mu.Unlock()
			}
		})
	}
	return func() (int, time.Duration) {
		close(over)
		wait.Wait()
		return placed, slowest
	}
}

// inCluster storms three nodes while something happens to them; do returns those that are left.
func inCluster(t *testing.T, change func(*testNet), do func(t *testing.T, net *testNet, core *mem.Core, members []*member, through func(...*member)) []*member) (placed int, slowest time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net, core := newTestNet(), mem.NewCore()
		var all []*member
		for _, address := range []string{"a:1", "b:1", "c:1"} {
			all = append(all, net.start(t, core, address, func(c *Config) { c.Board.CooldownMs = 1000 }))
		}
		if change != nil {
			change(net)
		}
		var mu sync.Mutex
		reached := all
		stop := storm(t, func() []*member {
			mu.Lock()
			defer mu.Unlock()
			return reached
		}, 30)
		<-time.After(3 * time.Second)
		left := do(t, net, core, slices.Clone(all), func(m ...*member) {
			mu.Lock()
			defer mu.Unlock()
			reached = m
		})
		<-time.After(10 * time.Second)
		placed, slowest = stop()
		net.mu.Lock()
		net.loss = 0
		net.mu.Unlock()
		settleEqual(t, left...)
		for _, m := range left {
			if n := len(m.node.post.allRegions()); n == 0 {
				t.Errorf("%s runs no region", m.address)
			}
			m.node.Stop(context.Background())
		}
		<-time.After(10 * time.Second)
	})
	if placed < 200 {
		t.Errorf("only %d placements", placed)
	}
	t.Logf("%d placements, the slowest took %v", placed, slowest)
	return placed, slowest
}

func TestThreeNodesServeOneBoard(t *testing.T) {
	_, slowest := inCluster(t, nil, func(_ *testing.T, _ *testNet, _ *mem.Core, members []*member, _ func(...*member)) []*member {
		return members
	})
	if slowest > 2*time.Second {
		t.Errorf("a placement took %v with nothing going wrong", slowest)
	}
}

func TestClusterLosesMessages(t *testing.T) {
	inCluster(t, func(n *testNet) { n.loss = 0.05 }, func(_ *testing.T, _ *testNet, _ *mem.Core, members []*member, _ func(...*member)) []*member {
		return members
	})
}

func TestClusterNodeIsKilled(t *testing.T) {
	_, slowest := inCluster(t, nil, func(_ *testing.T, _ *testNet, _ *mem.Core, members []*member, through func(...*member)) []*member {
		through(members[0], members[1])
		members[2].kill()
		return members[:2]
	})
	if slowest > 6*time.Second {
		t.Errorf("a placement took %v", slowest)
	}
}

func TestClusterNodeDrainsAndAnotherJoins(t *testing.T) {
	_, slowest := inCluster(t, nil, func(t *testing.T, net *testNet, core *mem.Core, members []*member, through func(...*member)) []*member {
		go func() {
			<-time.After(time.Second)
			through(members[0], members[1]) // the sessions of a node that drains move a little later
		}()
		members[2].leave()
		d := net.start(t, core, "d:1", nil)
		through(members[0], members[1], d)
		return []*member{members[0], members[1], d}
	})
	if slowest > 4*time.Second {
		t.Errorf("a placement took %v", slowest)
	}
}

// TestClusterNodeIsCutOff lets a node believe for a while that it is alone, with the store at hand: a case that only the
// fenced partitions can settle.
func TestClusterNodeIsCutOff(t *testing.T) {
	inCluster(t, nil, func(_ *testing.T, net *testNet, _ *mem.Core, members []*member, _ func(...*member)) []*member {
		set := func(cut bool) {
			net.mu.Lock()
			members[2].cut = cut
			net.mu.Unlock()
			net.changed()
			if cut {
				members[2].node.ViewChanged()
			}
		}
		set(true)
		<-time.After(5 * time.Second)
		set(false)
		return members
	})
}

func TestClusterNodeStoodStill(t *testing.T) {
	inCluster(t, nil, func(_ *testing.T, _ *testNet, _ *mem.Core, members []*member, _ func(...*member)) []*member {
		members[1].node.Paused(10 * time.Second)
		return members
	})
}

func TestClusterRegionSizeChangesUnderLoad(t *testing.T) {
	_, slowest := inCluster(t, nil, func(t *testing.T, _ *testNet, _ *mem.Core, members []*member, _ func(...*member)) []*member {
		for i, size := range []int{200, 300, 100} {
			m := members[i]
			m.node.until("the newest settings", func() bool { return m.node.Settings().Version == uint64(i+1) })
			next := m.node.Settings().Settings
			next.RegionSize = size
			if _, err := m.node.ChangeSettings(context.Background(), next.Version, next, "op", "test"); err != nil {
				t.Error(err)
			}
			<-time.After(2 * time.Second)
		}
		return members
	})
	if slowest > 3*time.Second {
		t.Errorf("a placement took %v", slowest)
	}
}

// TestClusterTellsOtherNodesThings asks one node for what another one knows.
func TestClusterTellsOtherNodesThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, core := newTestNet(), mem.NewCore()
		a := net.start(t, core, "a:1", nil)
		b := net.start(t, core, "b:1", nil)
		for i := range 20 {
			user, p := fmt.Sprintf("user-%d", i), board.Point{X: i * 15, Y: i * 15}
			a.node.want(a.node.place(user, 0, 1, p.X, p.Y), board.VerdictAccepted, board.CodeOK)
			for _, m := range []*member{a, b} {
				details, err := m.node.Tile(t.Context(), p)
				if err != nil || details.User != board.UserID(user) || details.Colour != 5 {
					t.Errorf("%s: tile %v is %+v, %v", m.address, p, details, err)
				}
				status, err := m.node.UserStatus(t.Context(), board.UserID(user))
				if err != nil || status.Turn != 2 || status.WaitMs < 50_000 {
					t.Errorf("%s: %+v, %v", m.address, status, err)
				}
			}
			b.node.want(b.node.place(user, 0, 2, p.X, p.Y), board.VerdictRefused, board.CodeCooldown)
		}
		if err := a.node.Ban(t.Context(), "user-1", time.Now().Add(time.Hour).UnixMilli(), "op", "test"); err != nil {
			t.Error(err)
		}
		b.node.want(b.node.place("user-1", 0, 3, 1, 1), board.VerdictRefused, board.CodeBanned)
		for i, m := range []*member{a, b} {
			if _, err := m.node.Clear(t.Context(), board.Rect{X: 0, Y: 0, Width: 100, Height: 100}, "op", "test"); err != nil {
				t.Error(err)
			}
			m.node.until("the jobs to be done", func() bool {
				jobs, err := m.node.Jobs(t.Context())
				return err == nil && len(jobs) == i+1 && !slices.ContainsFunc(jobs, func(j board.Job) bool { return !j.Done })
			})
		}
		if _, err := b.node.Clear(t.Context(), board.Rect{X: 0, Y: 0, Width: 1, Height: 1}, "not a name ", "test"); err == nil {
			t.Error("a job of nobody was started")
		}
		settleEqual(t, a, b)
		for _, m := range []*member{a, b} {
			m.node.Stop(context.Background())
		}
		<-time.After(10 * time.Second)
	})
}
