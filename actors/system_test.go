package actors

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/wire"
)

// node is a System on a memory store, in a bubble of virtual time.
type node struct {
	*System
	t        *testing.T
	registry *prometheus.Registry
}

// bubble runs a test in virtual time, on a node that is ready.
func bubble(t *testing.T, st *mem.Store, change func(*Config), do func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, st, change)
		do(n)
		n.stopClean()
	})
}

func start(t *testing.T, st *mem.Store, change func(*Config)) *node {
	t.Helper()
	registry := prometheus.NewRegistry()
	c := DefaultConfig()
	c.Node = Node{ID: 1, Address: "alone", Incarnation: 7}
	c.Store, c.Metrics, c.Logger = st, registry, slog.New(slog.DiscardHandler)
	c.Board.Width, c.Board.Height, c.Board.CooldownMs = 300, 300, 60_000
	if change != nil {
		change(&c)
	}
	s, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{System: s, t: t, registry: registry}
	n.until("ready", func() bool { return s.Readiness().Ready })
	return n
}

// stopClean verifies the board, stops the node and lets protoactor's dead-letter throttle end before the bubble does.
func (n *node) stopClean() {
	n.t.Helper()
	n.verify()
	n.Stop(context.Background())
	<-time.After(5 * time.Second)
}

// until waits in virtual time for a condition, a minute at most.
func (n *node) until(what string, ok func() bool) {
	n.t.Helper()
	for range 6000 {
		if ok() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	n.t.Fatalf("waited a minute for: %s", what)
}

// counter returns a counter of the registry whose first label has the value.
func (n *node) counter(name, label string) float64 {
	n.t.Helper()
	families, err := n.registry.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && len(m.GetLabel()) > 0 && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	n.t.Fatalf("no counter %s{%s}", name, label)
	return 0
}

func (n *node) verify() {
	n.t.Helper()
	n.until("no open charge", func() bool { return n.openCharges() == 0 })
	<-time.After(300 * time.Millisecond) // the feed's next frame
	report, err := n.Verify(n.t.Context(), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, v := range report.Violations {
		n.t.Errorf("%s: %s", v.Invariant, v.What)
	}
}

func (n *node) place(user string, turn, nonce uint64, x, y int) board.PlaceOutcome {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	return n.Place(ctx, board.PlaceRequest{User: board.UserID(user), Turn: turn, Nonce: nonce, At: board.Point{X: x, Y: y}, Colour: 5})
}

func (n *node) want(o board.PlaceOutcome, v board.Verdict, c board.Code) board.PlaceOutcome {
	n.t.Helper()
	if o.Verdict != v || o.Code != c {
		n.t.Fatalf("got %v %v (%+v), want %v %v", o.Verdict, o.Code, o, v, c)
	}
	return o
}

func TestThrottleIsExactForHours(t *testing.T) {
	bubble(t, mem.New(), nil, func(n *node) {
		const users, hours = 20, 1
		var wait sync.WaitGroup
		accepted := make([]int, users)
		for u := range users {
			wait.Go(func() {
				name := fmt.Sprintf("user-%d", u)
				end := time.Now().Add(hours * time.Hour)
				for nonce := uint64(1); time.Now().Before(end); nonce++ {
					o := n.place(name, 0, nonce, (u*13+int(nonce))%300, u)
					switch o.Verdict {
					case board.VerdictAccepted:
						accepted[u]++
						if early := n.place(name, 0, 1<<40+nonce, 1, 1); early.Code != board.CodeCooldown {
							t.Errorf("right after an acceptance: %+v", early)
						}
					default:
						t.Errorf("user %d: %+v", u, o)
					}
					<-time.After(time.Duration(o.WaitMs-1) * time.Millisecond)
					if early := n.place(name, 0, 1<<41+nonce, 1, 1); early.Code != board.CodeCooldown || early.WaitMs != 1 {
						t.Errorf("one millisecond early: %+v", early)
					}
					<-time.After(time.Millisecond)
				}
			})
		}
		wait.Wait()
		for u, got := range accepted {
			if want := hours * 60; got < want-1 || got > want+1 {
				t.Errorf("user %d placed %d tiles in %d h, want %d", u, got, hours, want)
			}
		}
	})
}

func TestParallelSubmitsGiveOnePlacement(t *testing.T) {
	bubble(t, mem.New(), nil, func(n *node) {
		var wait sync.WaitGroup
		var mu sync.Mutex
		counts := map[string]int{}
		for i := range 50 {
			wait.Go(func() {
				o := n.place("alice", 1, uint64(100+i%5), i, i)
				mu.Lock()
				defer mu.Unlock()
				counts[o.Verdict.String()+" "+o.Code.String()]++
			})
		}
		wait.Wait()
		// Ten copies carry the nonce that won and hear the same; the others are superseded or told to wait.
		if counts["accepted ok"] > 10 || counts["accepted ok"] < 1 {
			t.Errorf("answers: %v", counts)
		}
		if o := n.place("alice", 0, 999, 0, 0); o.Code != board.CodeCooldown || o.NextTurn != 2 {
			t.Errorf("afterwards: %+v, want the second turn", o)
		}
	})
}

func TestRetriesGetTheSameAnswer(t *testing.T) {
	bubble(t, mem.New(), nil, func(n *node) {
		first := n.want(n.place("alice", 1, 11, 3, 4), board.VerdictAccepted, board.CodeOK)
		again := n.want(n.place("alice", 1, 11, 3, 4), board.VerdictAccepted, board.CodeOK)
		if again.Chunk != first.Chunk || again.Sequence != first.Sequence {
			t.Errorf("first %+v, again %+v", first, again)
		}
		n.want(n.place("alice", 1, 12, 3, 4), board.VerdictRefused, board.CodeSuperseded)
		n.want(n.place("alice", 7, 13, 3, 4), board.VerdictRefused, board.CodeTurn)
		<-time.After(2 * time.Minute) // the actor of the user is gone by then
		again = n.want(n.place("alice", 1, 11, 3, 4), board.VerdictAccepted, board.CodeOK)
		if again.Sequence != first.Sequence {
			t.Errorf("after a while: %+v, want sequence %d", again, first.Sequence)
		}
		n.want(n.place("alice", 2, 14, 3, 4), board.VerdictAccepted, board.CodeOK)
		n.want(n.place("alice", 1, 11, 3, 4), board.VerdictRefused, board.CodeSuperseded)
	})
}

func TestIdleUsersAreStopped(t *testing.T) {
	bubble(t, mem.New(), nil, func(n *node) {
		for i := range 100 {
			n.want(n.place(fmt.Sprintf("user-%d", i), 1, 1, i, i), board.VerdictAccepted, board.CodeOK)
		}
		if got := n.users.Load(); got != 100 {
			t.Fatalf("%d user actors, want 100", got)
		}
		n.until("idle users are stopped", func() bool { <-time.After(time.Second); return n.users.Load() == 0 })
		o := n.want(n.place("user-5", 1, 99, 0, 0), board.VerdictRefused, board.CodeSuperseded)
		if o.NextTurn != 2 {
			t.Errorf("a user that came back has next turn %d, want 2", o.NextTurn)
		}
	})
}

// heardConn keeps the messages that a session gets, except frames.
type heardConn struct {
	mu    sync.Mutex // guards heard
	heard []wire.ServerMessage
}

func (c *heardConn) Send(m wire.Sealed) wire.WriteStatus {
	body := m[2:]
	if m[1] == 126 {
		body = m[4:]
	}
	if decoded, err := wire.DecodeServer(body); err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.heard = append(c.heard, decoded)
	}
	return wire.WriteDone
}
func (c *heardConn) Flush() wire.WriteStatus { return wire.WriteDone }
func (c *heardConn) Close(int, string)       {}

// has reports whether a message that fits has come.
func (c *heardConn) has(fits func(wire.ServerMessage) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.heard, fits)
}

func TestIdleUsersKeepTheirSessions(t *testing.T) {
	bubble(t, mem.New(), func(c *Config) { c.Board.CooldownMs = 1000 }, func(n *node) {
		conn := &heardConn{}
		id := n.Connect(conn, "alice")
		other := n.Connect(&heardConn{}, "alice")
		n.until("the session hears its turn", func() bool {
			return conn.has(func(m wire.ServerMessage) bool { me, ok := m.(*wire.Me); return ok && me.Turn == 1 })
		})
		n.until("the idle user's actor is stopped", func() bool { return n.users.Load() == 0 })
		n.Disconnect(other) // while there is no actor
		n.want(n.place("alice", 1, 5, 3, 4), board.VerdictAccepted, board.CodeOK)
		n.until("the session hears of the placement", func() bool {
			return conn.has(func(m wire.ServerMessage) bool { p, ok := m.(*wire.Placed); return ok && p.Nonce == 5 })
		})
		n.post.toUser("alice", GetIdle{}) // panics: no rules
		n.until("the user restarts", func() bool { return n.counter("placed_actor_restarts_total", "user") == 1 })
		<-time.After(time.Minute)
		n.want(n.place("alice", 2, 6, 3, 4), board.VerdictAccepted, board.CodeOK)
		n.until("the session is registered again after a panic", func() bool {
			return conn.has(func(m wire.ServerMessage) bool { p, ok := m.(*wire.Placed); return ok && p.Nonce == 6 })
		})
		n.Disconnect(id)
		n.until("nobody is left", func() bool { return n.users.Load() == 0 && n.Online() == 0 })
	})
}

// brokenConn panics at the first message.
type brokenConn struct{}

func (brokenConn) Send(wire.Sealed) wire.WriteStatus { panic("broken connection") }
func (brokenConn) Flush() wire.WriteStatus           { return wire.WriteClosed }
func (brokenConn) Close(int, string)                 {}

func TestActorsReloadAfterAPanic(t *testing.T) {
	bubble(t, mem.New(), nil, func(n *node) {
		n.want(n.place("alice", 1, 1, 3, 4), board.VerdictAccepted, board.CodeOK)
		shard := board.UserID("alice").Shard()
		block := board.Point{X: 3, Y: 4}.Block()
		for _, crash := range []struct {
			kind string
			do   func()
		}{
			{"user", func() { n.post.toUser("alice", GetIdle{}) }},
			{"shard", func() { n.post.toShard(shard, GetJobs{}) }},
			{"region", func() { n.post.toBlock(block, GetTile{}) }},
			{"feed", func() { n.post.toFeed(GetBody{}) }},
			{"subscriber", func() { n.post.toSubscriber(0, SessionOpened{Session: 1 << 40, Conn: brokenConn{}}) }},
		} {
			before := n.counter("placed_actor_restarts_total", crash.kind)
			crash.do()
			n.until(crash.kind+" restarts", func() bool {
				return n.counter("placed_actor_restarts_total", crash.kind) == before+1
			})
			// Nothing is accepted that its state forbids, and what was accepted is still known.
			var o board.PlaceOutcome
			n.until("an answer", func() bool { // a shard that has loaded is busy with alice until it hears again that her tile is placed
				o = n.place("alice", 0, 2, 5, 5)
				return o.Code != board.CodeBusy
			})
			n.want(o, board.VerdictRefused, board.CodeCooldown)
			n.want(n.place("alice", 1, 1, 3, 4), board.VerdictAccepted, board.CodeOK)
			n.want(n.place("bob-"+crash.kind, 1, 1, 6, 6), board.VerdictAccepted, board.CodeOK)
		}
	})
}

func TestUnknownOutcomesAreSentAgain(t *testing.T) {
	for name, outcome := range map[string]mem.Outcome{
		"applied": mem.UnknownApplied(), "not applied": mem.UnknownNot(), "late": mem.AppliedLate(2), "conflict": mem.Conflict(nil),
	} {
		t.Run(name, func(t *testing.T) {
			st := mem.New()
			calls := 0
			bubble(t, st, nil, func(n *node) {
				st.SetScript(func(c mem.Call) mem.Outcome {
					if c.Op == mem.OpCommit {
						if calls++; calls%3 == 0 {
							return outcome
						}
					}
					return mem.Normal()
				})
				for i := range 30 {
					user := fmt.Sprintf("user-%d", i)
					o := n.place(user, 1, 7, i, i)
					for range 20 {
						if o.Verdict == board.VerdictAccepted {
							break
						}
						if o.Verdict == board.VerdictRefused && o.Code != board.CodeBusy && o.Code != board.CodeStore {
							t.Fatalf("user %d: %+v", i, o)
						}
						<-time.After(500 * time.Millisecond)
						o = n.place(user, 1, 7, i, i)
					}
					n.want(o, board.VerdictAccepted, board.CodeOK)
				}
				st.SetScript(nil)
				if calls < 60 {
					t.Errorf("only %d commits", calls)
				}
			})
		})
	}
}

func TestRegionSizeChangesUnderLoad(t *testing.T) {
	bubble(t, mem.New(), func(c *Config) { c.Board.CooldownMs = 1000 }, func(n *node) {
		stop := make(chan struct{})
		var wait sync.WaitGroup
		var worst time.Duration
		var mu sync.Mutex
		for u := range 30 {
			wait.Go(func() {
				name := fmt.Sprintf("user-%d", u)
				for turn := uint64(1); ; turn++ {
					begun := time.Now()
					o := n.place(name, turn, turn, int(turn*37+uint64(u)*11)%300, u*10)
					if o.Verdict != board.VerdictAccepted {
						t.Errorf("user %d turn %d: %+v", u, turn, o)
						return
					}
					mu.Lock()
					worst = max(worst, time.Since(begun))
					mu.Unlock()
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(o.WaitMs) * time.Millisecond):
					}
				}
			})
		}
		for _, size := range []int{200, 300, 1000, 100, 500, 100} {
			<-time.After(3 * time.Second)
			next := n.Settings()
			next.RegionSize = size
			if _, err := n.ChangeSettings(n.t.Context(), next.Version, next.Settings, "test", "resize"); err != nil {
				t.Fatal(err)
			}
			n.until("old regions are gone", func() bool {
				for id := range n.post.allRegions() {
					if id.Size != size {
						return false
					}
				}
				return n.Status(n.t.Context()).InForce
			})
		}
		close(stop)
		wait.Wait()
		if worst > time.Second {
			t.Errorf("a placement took %v across a change of the region size, want at most 1 s", worst)
		}
	})
}

func TestSettingsRuleFromTheNextCommit(t *testing.T) {
	bubble(t, mem.New(), nil, func(n *node) {
		n.want(n.place("alice", 1, 1, 250, 250), board.VerdictAccepted, board.CodeOK)
		change := func(do func(*board.Settings)) {
			next := n.Settings()
			do(&next.Settings)
			if _, err := n.ChangeSettings(n.t.Context(), next.Version, next.Settings, "test", ""); err != nil {
				t.Fatal(err)
			}
			n.until("in force", func() bool { return n.Status(n.t.Context()).InForce })
		}
		change(func(s *board.Settings) { s.CooldownMs = 24 * 3600 * 1000 })
		<-time.After(time.Minute) // a raise lengthens no running charge
		n.want(n.place("alice", 2, 2, 250, 250), board.VerdictAccepted, board.CodeOK)
		n.want(n.place("alice", 3, 3, 250, 250), board.VerdictRefused, board.CodeCooldown)
		change(func(s *board.Settings) { s.CooldownMs = 1000 })
		<-time.After(time.Second) // a cut shortens it
		n.want(n.place("alice", 3, 3, 250, 250), board.VerdictAccepted, board.CodeOK)
		change(func(s *board.Settings) { s.Frozen = true })
		n.until("frozen fully", func() bool { return n.Status(n.t.Context()).FrozenFully })
		n.want(n.place("bob", 1, 1, 0, 0), board.VerdictRefused, board.CodeFrozen)
		change(func(s *board.Settings) { s.Frozen, s.Width = false, 200 })
		n.want(n.place("bob", 1, 1, 250, 250), board.VerdictRefused, board.CodeBounds)
		change(func(s *board.Settings) { s.Width = 300 })
		details, err := n.Tile(n.t.Context(), board.Point{X: 250, Y: 250})
		if err != nil || details.User != "alice" || details.Colour != 5 {
			t.Errorf("a tile outside a shrunk board did not come back: %+v, %v", details, err)
		}
		if _, err := n.ChangeSettings(n.t.Context(), 1, n.Settings().Settings, "test", ""); err != board.ErrConflict {
			t.Errorf("a change on an old version: %v", err)
		}
	})
}

func TestBanHoldsBackOnlyNewCharges(t *testing.T) {
	bubble(t, mem.New(), func(c *Config) { c.Board.CooldownMs = 0 }, func(n *node) {
		n.want(n.place("alice", 1, 1, 1, 1), board.VerdictAccepted, board.CodeOK)
		if err := n.Ban(n.t.Context(), "alice", board.BannedForever, "op", "spam"); err != nil {
			t.Fatal(err)
		}
		n.want(n.place("alice", 2, 2, 1, 1), board.VerdictRefused, board.CodeBanned)
		n.want(n.place("alice", 1, 1, 1, 1), board.VerdictAccepted, board.CodeOK)
		listed := func(untilMs int64, by board.UserID, why string) {
			t.Helper()
			bans, err := n.Bans(n.t.Context())
			if err != nil || len(bans) != 1 {
				t.Fatalf("bans: %+v, %v", bans, err)
			}
			b := bans[0]
			if b.User != "alice" || b.UntilMs != untilMs || b.By != by || b.Why != why || b.AtMs == 0 {
				t.Errorf("listed is %+v", b)
			}
		}
		listed(board.BannedForever, "op", "spam")
		if err := n.Ban(n.t.Context(), "alice", 0, "other", "sorry"); err != nil {
			t.Fatal(err)
		}
		n.want(n.place("alice", 2, 2, 1, 1), board.VerdictAccepted, board.CodeOK)
		n.until("the closing is written", func() bool { return n.openCharges() == 0 })
		listed(0, "other", "sorry") // the rows of charges and closings keep it
	})
}

func TestClearWritesOnlyWhatDiffers(t *testing.T) {
	bubble(t, mem.New(), func(c *Config) { c.Board.CooldownMs = 0 }, func(n *node) {
		for i := range 120 {
			n.want(n.place("alice", uint64(i+1), uint64(i+1), i, i), board.VerdictAccepted, board.CodeOK)
		}
		job, err := n.Clear(n.t.Context(), board.Rect{X: 10, Y: 0, Width: 100, Height: 300}, "op", "test")
		if err != nil {
			t.Fatal(err)
		}
		n.until("the job is done", func() bool {
			jobs, err := n.Jobs(n.t.Context())
			return err == nil && len(jobs) == 1 && jobs[0].Done && jobs[0].ID == job.ID && jobs[0].Placed == 100
		})
		for _, p := range []struct {
			x    int
			want board.Colour
		}{{9, 5}, {10, 0}, {109, 0}, {110, 5}} {
			if d, err := n.Tile(n.t.Context(), board.Point{X: p.x, Y: p.x}); err != nil || d.Colour != p.want {
				t.Errorf("tile (%d,%d): %+v, %v; want colour %d", p.x, p.x, d, err, p.want)
			}
		}
	})
}

func TestTightStoreRefusesNewChargesAndLandsOpenOnes(t *testing.T) {
	core := mem.NewCore()
	bubble(t, mem.Open(core), func(c *Config) { c.Board.CooldownMs = 0 }, func(n *node) {
		n.want(n.place("alice", 1, 1, 1, 1), board.VerdictAccepted, board.CodeOK)
		core.SetHealth(store.Health{FreeBytes: 1 << 20, Tight: true})
		n.until("not ready", func() bool { return !n.Readiness().Ready })
		n.want(n.place("alice", 2, 2, 1, 1), board.VerdictRefused, board.CodeStore)
		if reasons := strings.Join(n.Readiness().Reasons, " "); !strings.Contains(reasons, "1 MiB") {
			t.Errorf("reasons: %s", reasons)
		}
		core.SetHealth(store.Health{FreeBytes: 1 << 40})
		n.until("ready", func() bool { return n.Readiness().Ready })
		n.want(n.place("alice", 2, 2, 1, 1), board.VerdictAccepted, board.CodeOK)
	})
}

// leapClock can be shifted against the monotonic clock.
type leapClock struct {
	SystemClock
	mu      sync.Mutex // guards shiftMs
	shiftMs int64
}

func (c *leapClock) Read() (int64, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, mono := c.SystemClock.Read()
	return wall + c.shiftMs, mono
}

func (c *leapClock) shift(ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shiftMs += ms
}

func TestClockLeaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &leapClock{SystemClock: *NewSystemClock()}
		n := start(t, mem.New(), func(c *Config) { c.Clock = clock })
		n.want(n.place("alice", 1, 1, 1, 1), board.VerdictAccepted, board.CodeOK)
		clock.shift(10 * 60_000) // ahead: nothing is sealed until it has stayed there
		n.want(n.place("bob", 1, 1, 1, 1), board.VerdictRefused, board.CodeClock)
		if n.Readiness().Ready {
			t.Error("ready with a clock that is not trusted")
		}
		<-time.After(ClockStayMs * time.Millisecond)
		n.until("trusted again", func() bool { return n.Readiness().Ready })
		n.want(n.place("bob", 1, 2, 1, 1), board.VerdictAccepted, board.CodeOK)
		clock.shift(-30 * 60_000) // back: cooldowns stretch, never shrink
		n.want(n.place("bob", 2, 3, 1, 1), board.VerdictRefused, board.CodeCooldown)
		<-time.After(2 * time.Minute)
		n.want(n.place("bob", 2, 3, 1, 1), board.VerdictRefused, board.CodeCooldown)
		n.stopClean()
	})
}

func TestBoardComesBackFromSnapshotsAndJournals(t *testing.T) {
	st := mem.New()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, st, func(c *Config) { c.Board.CooldownMs = 0 })
		for i := range 300 {
			n.want(n.place(fmt.Sprintf("user-%d", i%7), uint64(i/7+1), uint64(i), i, 299-i), board.VerdictAccepted, board.CodeOK)
		}
		<-time.After(time.Second)
		before, _ := n.BoardBody()
		n.stopClean()
		again := start(t, st, nil)
		after, _ := again.BoardBody()
		x, errX := wire.DecodeBoard(before)
		y, errY := wire.DecodeBoard(after)
		if errX != nil || errY != nil || len(x.Chunks) == 0 || len(x.Chunks) != len(y.Chunks) {
			t.Fatalf("bodies: %v %v, %d and %d chunks", errX, errY, len(x.Chunks), len(y.Chunks))
		}
		for i := range x.Chunks {
			if x.Chunks[i].Sequence != y.Chunks[i].Sequence || string(x.Chunks[i].Image) != string(y.Chunks[i].Image) {
				t.Errorf("chunk %d differs after a restart", x.Chunks[i].Chunk)
			}
		}
		again.stopClean()
	})
}

// Those who watch hear of a placement once the board shows it, with its user.
func TestWatchPlacements(t *testing.T) {
	bubble(t, mem.New(), nil, func(n *node) {
		told := make(chan board.PlacedTile, 10)
		n.WatchPlacements(func(placed []board.PlacedTile, lost bool) {
			for _, p := range placed {
				told <- p
			}
			if lost {
				t.Error("nothing is lost")
			}
		})
		n.want(n.place("ann", 1, 9, 250, 20), board.VerdictAccepted, 0)
		if got, want := <-told, (board.PlacedTile{At: board.Point{X: 250, Y: 20}, Colour: 5, User: "ann"}); got != want {
			t.Fatalf("told %+v, want %+v", got, want)
		}
		if body, err := wire.DecodeBoard(first(n.BoardBody())); err != nil || len(body.Chunks) != 1 {
			t.Fatalf("the board does not show it yet: %v", err)
		}
	})
}

func first[A, B any](a A, _ B) A { return a }

// TestKnownUsers: a user is known from the first session or row on, and is found by more than the exact name.
func TestKnownUsers(t *testing.T) {
	bubble(t, mem.New(), func(c *Config) { c.Board.CooldownMs = 0 }, func(n *node) {
		known := func(user board.UserID, want bool) {
			t.Helper()
			if got, err := n.KnownUser(n.t.Context(), user); err != nil || got != want {
				t.Errorf("%s known: %v, %v", user, got, err)
			}
		}
		known("alice", false)
		n.want(n.place("alice", 1, 1, 1, 1), board.VerdictAccepted, board.CodeOK)
		if err := n.Ban(n.t.Context(), "Alice", board.BannedForever, "op", "in advance"); err != nil {
			t.Fatal(err)
		}
		known("alice", true)
		known("Alice", true)
		known("ALICE", false)
		for limit, want := range map[int]int{5: 2, 1: 1} {
			found, err := n.FindUsers(n.t.Context(), func(u board.UserID) bool { return strings.EqualFold(string(u), "ALICE") }, limit)
			if err != nil || len(found) != want {
				t.Errorf("found %v, %v", found, err)
			}
		}
	})
}
