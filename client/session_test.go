package client

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

var everything = Options{Whole: true, Mirror: true}

func TestSessionFollowsTheBoard(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		s := n.session(everything)
		n.settle(s)
		n.tick(4, board.Point{X: 7, Y: 7}, board.Point{X: 499, Y: 499})
		pass(time.Minute)
		n.settle(s)
		if c, ok := s.Tile(board.Point{X: 7, Y: 7}); c != 4 || !ok {
			t.Errorf("tile (7,7) is %d, %t", c, ok)
		}
		if st := s.Stats(); st.Fetches != 1 || st.Repairs != 0 || st.Divergences != 0 || st.Losses != 0 || st.Connects != 1 {
			t.Errorf("%+v", st)
		}
		if n.bodies != 1 {
			t.Errorf("the board was fetched %d times", n.bodies)
		}
	})
}

// TestSessionStaleBody: a cache may answer with a board older than the base; what it lacks is repaired.
func TestSessionStaleBody(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		n.body = wire.AppendBoard(nil, n.b.body())
		n.tick(4, board.Point{X: 60, Y: 0})
		s := n.session(everything)
		n.settle(s)
		if st := s.Stats(); st.Repairs != 1 {
			t.Errorf("%d chunks repaired, want 1", st.Repairs)
		}
	})
}

// TestSessionBodyOfAnotherEpoch: one from before a restore is of no use, and asked for again past the cache.
func TestSessionBodyOfAnotherEpoch(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		old := n.b.body()
		old.Epoch++
		n.body = wire.AppendBoard(nil, old)
		s := n.session(everything)
		n.settle(s)
		if n.bodies != 2 {
			t.Errorf("the board was fetched %d times, want 2", n.bodies)
		}
	})
}

func TestSessionBoardNotToBeHad(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		n.badBody = 100
		s, began := n.session(everything), time.Now()
		n.settle(s)
		if waited := time.Since(began); waited < (fetchAttemptsMax-1)*time.Minute {
			t.Errorf("given up after %s, the node said to wait a minute each time", waited)
		}
		if st := s.Stats(); n.bodies != fetchAttemptsMax || st.Repairs != 100 {
			t.Errorf("%d fetches, %d chunks repaired", n.bodies, st.Repairs)
		}
	})
}

// TestSessionLostWhileLoading: the next connection begins with a board of its own.
func TestSessionLostWhileLoading(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		n.slowBody = 20 * time.Second
		s := n.session(everything)
		pass(5 * time.Second)
		if s.State() != StateLoading {
			t.Fatalf("%s", s.State())
		}
		n.tick(4, n.everywhere()...)
		n.kick()
		n.do(func() { n.b.restart(2, 1) })
		n.tick(5, n.everywhere()...)
		pass(5 * time.Second)
		if s.State() != StateLoading {
			t.Fatalf("%s", s.State())
		}
		n.tick(6, n.everywhere()...)
		n.settle(s)
		if st := s.Stats(); st.Fetches != 2 || st.Repairs != 0 || st.Divergences != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestSessionResumes: a connection that breaks in the middle of a frame is taken up where it ended.
func TestSessionResumes(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		s := n.session(everything)
		n.settle(s)
		n.do(func() {
			for f := range n.sessions {
				f.half = true
			}
		})
		n.tick(4, n.everywhere()...)
		synctest.Wait()
		n.tick(5, board.Point{X: 99, Y: 3})
		pass(time.Minute)
		n.settle(s)
		if st := s.Stats(); st.Resumes != 1 || st.Fetches != 1 || st.Repairs != 0 || st.Losses != 1 || st.Divergences != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestSessionRestart: another process knows nothing of this client's ticks, but the board that it holds is still good.
func TestSessionRestart(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		s := n.session(everything)
		n.settle(s)
		n.do(func() { n.b.restart(2, 0) })
		n.kick()
		n.tick(5, board.Point{X: 99, Y: 3})
		pass(time.Minute)
		n.settle(s)
		if st := s.Stats(); st.Resumes != 0 || st.Fetches != 1 || st.Repairs != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestSessionNewEpoch(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		s := n.session(everything)
		n.settle(s)
		n.do(func() {
			n.b.epoch, n.b.log = 8, map[board.ChunkID][]wire.Tile{}
			n.b.restart(2, 0)
		})
		n.tick(6, n.everywhere()[:50]...)
		n.kick()
		pass(time.Minute)
		n.settle(s)
		if st := s.Stats(); st.Fetches != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// TestSessionHeals: the node loses a frame without knowing; the next heartbeat tells.
func TestSessionHeals(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		told := 0
		o := everything
		o.Hooks.OnDivergence = func(want, have board.Hashes) { told++ }
		s := n.session(o)
		n.settle(s)
		n.do(func() {
			n.b.place(board.Point{X: 5, Y: 5}, 9)
			n.b.publish() // and told to nobody
		})
		pass(3 * fakeHeartbeat)
		n.settle(s)
		if st := s.Stats(); st.Divergences != 1 || told != 1 || st.Losses != 0 {
			t.Errorf("told %d times, %+v", told, st)
		}
	})
}

// TestSessionWrongHashes: a node that is wrong about its own hashes costs questions, not the picture or the connection.
func TestSessionWrongHashes(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		s := n.session(everything)
		n.settle(s)
		n.do(func() { n.wrong = true })
		pass(5 * fakeHeartbeat)
		n.settle(s)
		if st := s.Stats(); st.Divergences < 4 || st.Losses != 0 || st.Repairs != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestSessionGrowsAndShrinks(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		heard := 0
		o := everything
		o.Hooks.OnSettings = func(s board.Settings) { heard = s.Width }
		s := n.session(o)
		n.settle(s)
		for _, size := range [][2]int{{320, 410}, {601, 500}, {601, 120}, {800, 700}} {
			n.do(func() {
				before := n.b.settings
				c := n.b.resize(size[0], size[1])
				for f := range n.sessions {
					f.resize(c, before)
				}
			})
			synctest.Wait()
			if heard != size[0] || s.Settings().Width != size[0] {
				t.Fatalf("heard of width %d, want %d", heard, size[0])
			}
			n.tick(5, n.everywhere()...)
			pass(2 * fakeHeartbeat)
			n.settle(s)
		}
		if st := s.Stats(); st.Divergences != 0 || st.Losses != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestSessionChunks(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		s := n.session(Options{Chunks: wire.ChunkRect{Col: 2, Row: 2, Cols: 3, Rows: 2}, Mirror: true})
		n.settleChunks(s, 6)
		n.tick(4, n.everywhere()...)
		pass(2 * fakeHeartbeat)
		n.settleChunks(s, 6)
		if err := s.Subscribe(false, wire.ChunkRect{Col: 4, Row: 3, Cols: 4, Rows: 4}); err != nil {
			t.Fatal(err)
		}
		pass(2 * fakeHeartbeat)
		n.settleChunks(s, 16)
		if _, ok := s.Tile(board.Point{X: 100, Y: 100}); ok {
			t.Error("a tile that is not subscribed to any more")
		}
		if st := s.Stats(); n.bodies != 0 || st.Divergences != 0 {
			t.Errorf("%d boards fetched for a few chunks, %+v", n.bodies, st)
		}
	})
}

func (n *fakeNode) settleChunks(s *Session, chunks int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Live(ctx); err != nil {
		n.t.Fatal(err)
	}
	_ = s.View(func(m *Mirror) {
		have, unsettled, _ := m.Counts()
		if have != chunks || unsettled != 0 {
			n.t.Fatalf("%d chunks, %d not settled; want %d", have, unsettled, chunks)
		}
		for _, c := range n.b.body().Chunks {
			var want, tiles board.Tiles
			if sequence, ok := m.Chunk(c.Chunk, &tiles); ok {
				_ = want.SetImage(c.Image, board.Width4)
				if sequence != c.Sequence || tiles != want {
					n.t.Fatalf("chunk %d differs", c.Chunk)
				}
			}
		}
	})
}

// TestSessionWatchdog: a connection that says nothing for two and a half heartbeats is given up.
func TestSessionWatchdog(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.quiet = true
		s := n.session(everything)
		n.settle(s)
		pass(fakeHeartbeat*5/2 - time.Second)
		if st := s.Stats(); st.Losses != 0 {
			t.Fatal("given up too early")
		}
		pass(3 * time.Second)
		if st := s.Stats(); st.Losses != 1 || st.Connects != 2 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestSessionBacksOff(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		var states []State
		o := everything
		o.Hooks.OnState = func(s State) { states = append(states, s) }
		s := n.session(o)
		n.settle(s)
		dials := 0
		n.do(func() { n.down, dials = true, n.dials })
		n.kick()
		pass(10 * time.Minute)
		tries := 0
		n.do(func() { tries = n.dials - dials })
		if tries < 20 || tries > 120 {
			t.Errorf("%d attempts in ten minutes, want one in 15 s on average", tries)
		}
		n.do(func() { n.down = false })
		pass(DefaultBackoff.Max + time.Second)
		n.settle(s)
		if states[len(states)-1] != StateLive {
			t.Errorf("states %v", states)
		}
	})
}

func TestBackoff(t *testing.T) {
	b := Backoff{Base: time.Second, Max: 10 * time.Second}
	for n, most := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
		var longest, shortest time.Duration = 0, most
		for range 1000 {
			d := b.delay(n)
			longest, shortest = max(longest, d), min(shortest, d)
		}
		if longest > most || longest < most*9/10 || shortest > most/10 {
			t.Errorf("attempt %d waits %s to %s, want 0 to %s", n, shortest, longest, most)
		}
	}
	if d := b.delay(1000); d > b.Max || d < 0 {
		t.Errorf("attempt 1000 waits %s", d)
	}
}

func TestSessionMoves(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		o, waited := everything, false
		o.Hooks.OnState = func(s State) { waited = waited || s == StateWaiting }
		s := n.session(o)
		n.settle(s)
		n.do(func() {
			for f := range n.sessions {
				f.send(&wire.Move{WithinMs: 3000})
			}
		})
		pass(3100 * time.Millisecond)
		n.settle(s)
		if waited {
			t.Error("waits although it moved at a moment of its own choice")
		}
		if st := s.Stats(); st.Connects != 2 || st.Resumes != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestSessionRefused(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.refuse = http.StatusServiceUnavailable
		if _, err := n.try(everything); err == nil {
			t.Fatal("let in")
		} else if p, ok := errors.AsType[*Problem](err); !ok || p.Status != 503 {
			t.Fatalf("%v", err)
		}
		n.refuse = 0
		s := n.session(everything)
		n.do(func() { n.refuse = http.StatusServiceUnavailable })
		n.kick()
		dials := 0
		n.do(func() { dials = n.dials })
		pass(10 * time.Minute)
		if s.State() == StateClosed {
			t.Fatal("given up although it may pass")
		}
		n.do(func() {
			if tries := n.dials - dials; tries > 7 {
				t.Errorf("%d attempts in ten minutes, the node said to wait 100 s each time", tries)
			}
		})
		n.do(func() { n.refuse = http.StatusForbidden })
		pass(3 * time.Minute)
		select {
		case <-s.Done():
		default:
			t.Fatalf("still %s", s.State())
		}
		if p, ok := errors.AsType[*Problem](s.Err()); !ok || p.Status != 403 {
			t.Fatalf("ended by %v", s.Err())
		}
		if err := s.Live(context.Background()); err == nil {
			t.Fatal("waits for a session that has ended")
		}
	})
}

func TestSessionCloses(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		s := n.session(everything)
		n.settle(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s.State() != StateClosed || !errors.Is(s.Err(), ErrClosed) {
			t.Fatalf("%s, %v", s.State(), s.Err())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if st := s.Stats(); st.Losses != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

// TestSessionWithoutMirror: hooks see every section, and nothing is fetched.
func TestSessionWithoutMirror(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.tick(3, n.everywhere()...)
		tiles, frames := 0, 0
		s := n.session(Options{Whole: true, Hooks: Hooks{
			OnSection: func(_ FrameInfo, s *wire.Section) { tiles += len(s.Tiles) },
			OnFrame: func(f FrameInfo) {
				if frames++; f.Tick != 2 || f.Bytes == 0 || f.At.IsZero() {
					t.Errorf("%+v", f)
				}
			},
		}})
		if err := s.Live(context.Background()); err != nil {
			t.Fatal(err)
		}
		n.tick(4, n.everywhere()...)
		synctest.Wait()
		if tiles != 100 || frames != 1 {
			t.Errorf("%d tiles in %d frames", tiles, frames)
		}
		if n.bodies != 0 {
			t.Error("a board was fetched for nothing")
		}
		if err := s.View(func(*Mirror) {}); err != ErrNotMirrored {
			t.Errorf("%v", err)
		}
		if err := s.Subscribe(false, wire.ChunkRect{Col: 1, Row: 1, Cols: 2, Rows: 2}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		n.do(func() { n.b.tick = 1 }) // the hook above wants tick 2
		n.tick(4, n.everywhere()...)
		synctest.Wait()
		if tiles != 104 {
			t.Errorf("%d tiles after a subscription to four chunks", tiles-100)
		}
	})
}
