package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

var somewhere = board.Point{X: 3, Y: 4}

func TestPlace(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		s := n.session(Options{Name: "ada", Whole: true, Mirror: true})
		if s.User() != "ada" {
			t.Fatalf("signed in as %q", s.User())
		}
		o, err := s.Place(context.Background(), somewhere, 5)
		if err != nil || o.Verdict != board.VerdictAccepted || o.Sequence != 1 || o.Turn != 1 {
			t.Fatalf("%+v, %v", o, err)
		}
		if turn, ok := s.Turn(); turn != 2 || !ok {
			t.Errorf("turn %d, %t", turn, ok)
		}
		n.tick(0)
		synctest.Wait()
		if c, _ := s.Tile(somewhere); c != 5 {
			t.Errorf("tile is %d", c)
		}
	})
}

// TestPlaceSurvivesLostAnswers: whatever happens to the answer, the placement is carried out once and accepted.
func TestPlaceSurvivesLostAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		break_ func(*fakeNode)
		mend   func(*fakeNode)
		within time.Duration
		retry  time.Duration
	}{
		{"no answer", func(n *fakeNode) { n.hold = true }, func(n *fakeNode) { n.hold = false }, 2*retryAfterDefault + time.Second, 0},
		{"broken answer", func(n *fakeNode) { n.shaky = true }, func(n *fakeNode) { n.shaky = false }, time.Minute, time.Hour},
		{"no node", func(n *fakeNode) { n.shaky, n.down = true, true }, func(n *fakeNode) { n.shaky, n.down = false, false }, time.Minute, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			withNode(t, func(t *testing.T, n *fakeNode) {
				s := n.session(Options{Name: "ada", RetryAfter: c.retry})
				n.do(func() { c.break_(n) })
				mend := time.AfterFunc(7*time.Second, func() { n.do(func() { c.mend(n) }) })
				defer mend.Stop()
				ctx, cancel := context.WithTimeout(context.Background(), c.within)
				defer cancel()
				o, err := s.Place(ctx, somewhere, 5)
				if err != nil || o.Verdict != board.VerdictAccepted {
					t.Fatalf("%+v, %v", o, err)
				}
				if n.placed != 1 || n.places < 2 {
					t.Errorf("carried out %d times, sent %d times", n.placed, n.places)
				}
				if st := s.Stats(); st.PlacesResent != uint64(n.places-1) {
					t.Errorf("%d sent again, the node got %d", st.PlacesResent, n.places)
				}
			})
		})
	}
}

func TestPlaceCharged(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.script = func(*wire.Place) (board.PlaceOutcome, bool) {
			return board.PlaceOutcome{Verdict: board.VerdictCharged, NextTurn: 2, WaitMs: 60_000}, true
		}
		var heard []board.Verdict
		s := n.session(Options{Name: "ada", Hooks: Hooks{OnPlaced: func(o board.PlaceOutcome) { heard = append(heard, o.Verdict) }}})
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
		defer cancel()
		o, err := s.Place(ctx, somewhere, 5)
		synctest.Wait()
		if !errors.Is(err, context.DeadlineExceeded) || o.Verdict != board.VerdictCharged {
			t.Fatalf("%+v, %v", o, err)
		}
		if n.places != 2 || s.ReadyIn() == 0 {
			t.Errorf("sent %d times in 8 s, ready in %s", n.places, s.ReadyIn())
		}
		n.do(func() { n.users["ada"].turn = 2; n.script = nil })
		o, err = s.Place(context.Background(), somewhere, 5) // turn 2
		if err != nil || o.Verdict != board.VerdictAccepted || o.Turn != 2 {
			t.Fatalf("%+v, %v", o, err)
		}
		if len(heard) != 3 || heard[0] != board.VerdictCharged {
			t.Errorf("heard %v", heard)
		}
	})
}

func TestPlaceRefused(t *testing.T) {
	refusal := func(code board.Code, waitMs int64) func(*wire.Place) (board.PlaceOutcome, bool) {
		return func(*wire.Place) (board.PlaceOutcome, bool) {
			return board.PlaceOutcome{Verdict: board.VerdictRefused, Code: code, WaitMs: waitMs, NextTurn: 1}, true
		}
	}
	withNode(t, func(t *testing.T, n *fakeNode) {
		s := n.session(Options{Name: "ada"})
		n.script = refusal(board.CodeCooldown, 60_000)
		o, err := s.Place(context.Background(), somewhere, 5)
		if err != nil || o.Verdict != board.VerdictRefused || o.Code != board.CodeCooldown {
			t.Fatalf("%+v, %v", o, err)
		}
		if left := s.ReadyIn(); left != time.Minute {
			t.Errorf("ready in %s", left)
		}
		began := time.Now()
		if err := s.WaitReady(context.Background()); err != nil || time.Since(began) != time.Minute {
			t.Errorf("waited %s, %v", time.Since(began), err)
		}
		n.script = refusal(board.CodeBusy, 50)
		if o, err = s.Place(context.Background(), somewhere, 5); err != nil || o.Code != board.CodeBusy || n.places != 2 {
			t.Fatalf("the first copy's refusal is an answer: %+v, %v", o, err)
		}
		if s.ReadyIn() != 0 {
			t.Errorf("busy is no cooldown: ready in %s", s.ReadyIn())
		}
		// A retry's passing refusal says nothing about the copy before it, which is still under way.
		n.lose = true
		o, err = s.Place(context.Background(), somewhere, 5)
		if err != nil || o.Verdict != board.VerdictAccepted || n.placed != 1 {
			t.Fatalf("%+v, %v, carried out %d times", o, err, n.placed)
		}
	})
}

func TestPlaceUnknown(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		s := n.session(Options{Name: "ada"})
		n.script = func(*wire.Place) (board.PlaceOutcome, bool) {
			return board.PlaceOutcome{Verdict: board.VerdictUnknown, WaitMs: 1000}, n.places < 4
		}
		began := time.Now()
		o, err := s.Place(context.Background(), somewhere, 5)
		if err != nil || o.Verdict != board.VerdictAccepted || n.places != 4 || time.Since(began) != 3*time.Second {
			t.Fatalf("%+v, %v, after %s and %d messages", o, err, time.Since(began), n.places)
		}
	})
}

// TestPlacePromised: once charged it stays charged, whatever later copies hear.
func TestPlacePromised(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		s := n.session(Options{Name: "ada"})
		n.script = func(*wire.Place) (board.PlaceOutcome, bool) {
			if n.places == 1 {
				return board.PlaceOutcome{Verdict: board.VerdictCharged, NextTurn: 2}, true
			}
			return board.PlaceOutcome{Verdict: board.VerdictUnknown, WaitMs: 1000}, true
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		o, err := s.Place(ctx, somewhere, 5)
		synctest.Wait()
		if !errors.Is(err, context.DeadlineExceeded) || o.Verdict != board.VerdictCharged || n.places < 10 {
			t.Fatalf("%+v, %v, after %d messages", o, err, n.places)
		}
	})
}

// TestPlaceNotActedOn: a notice instead of an answer has the message sent again as soon as it says.
func TestPlaceNotActedOn(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		var heard []wire.Notice
		s := n.session(Options{Name: "ada", Hooks: Hooks{OnNotice: func(m wire.Notice) { heard = append(heard, m) }}})
		n.drop = 1
		began := time.Now()
		o, err := s.Place(context.Background(), somewhere, 5)
		if took := time.Since(began); err != nil || o.Verdict != board.VerdictAccepted || took != 300*time.Millisecond || len(heard) != 1 {
			t.Fatalf("%+v, %v, after %s and %v", o, err, took, heard)
		}
	})
}

// TestPlaceOfAnother: what the user's other sessions place is no answer.
func TestPlaceOfAnother(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		s := n.session(Options{Name: "ada"})
		n.hold = true
		time.AfterFunc(time.Second, func() {
			n.do(func() {
				for f := range n.sessions {
					f.send(&wire.Placed{PlaceOutcome: board.PlaceOutcome{Verdict: board.VerdictAccepted, Turn: 1, Nonce: 99, NextTurn: 2}})
					f.send(&wire.Placed{PlaceOutcome: board.PlaceOutcome{Verdict: board.VerdictAccepted, Turn: 2, Nonce: 98, NextTurn: 3}})
				}
			})
		})
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if o, err := s.Place(ctx, somewhere, 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%+v, %v", o, err)
		}
		if turn, _ := s.Turn(); turn != 3 {
			t.Errorf("turn %d", turn)
		}
	})
}

func TestPlaceTellsWhyNot(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		spectator := n.session(Options{Whole: true, Mirror: true})
		if _, err := spectator.Place(context.Background(), somewhere, 5); !errors.Is(err, ErrNotSignedIn) {
			t.Errorf("a spectator: %v", err)
		}
		n.hold = true
		s := n.session(Options{Anonymous: true})
		if s.User() != "anon-1" || s.Token() == "" {
			t.Errorf("anonymous: %q, token %q", s.User(), s.Token())
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if o, err := s.Place(ctx, somewhere, 5); !errors.Is(err, context.DeadlineExceeded) || o.Verdict != board.VerdictUnknown {
			t.Errorf("no answer: %+v, %v", o, err)
		}
		var done sync.WaitGroup
		done.Go(func() {
			if o, err := s.Place(context.Background(), somewhere, 5); !errors.Is(err, ErrEpochChanged) {
				t.Errorf("another board: %+v, %v", o, err)
			}
		})
		synctest.Wait()
		n.do(func() { n.b.epoch++ })
		n.kick()
		done.Wait()
		done.Go(func() {
			if o, err := s.Place(context.Background(), somewhere, 5); !errors.Is(err, ErrClosed) {
				t.Errorf("closed: %+v, %v", o, err)
			}
		})
		synctest.Wait()
		_ = s.Close()
		done.Wait()
		if err := s.PlaceAs(1, 1, somewhere, 5); !errors.Is(err, ErrNotConnected) {
			t.Errorf("PlaceAs after Close: %v", err)
		}
	})
}

// TestPlaceQueues: calls on one session take one turn each.
func TestPlaceQueues(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		s := n.session(Options{Name: "ada"})
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				o, err := s.Place(context.Background(), board.Point{X: i}, 5)
				if err != nil || o.Verdict != board.VerdictAccepted {
					t.Errorf("%+v, %v", o, err)
				}
			})
		}
		all.Wait()
		if turn, _ := s.Turn(); turn != 21 || n.places != 20 {
			t.Errorf("turn %d after %d messages", turn, n.places)
		}
	})
}

// TestPlaceAs: the same turn and nonce from two sessions is one placement; another nonce is superseded.
func TestPlaceAs(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		var heard []board.PlaceOutcome
		hooks := Hooks{OnPlaced: func(o board.PlaceOutcome) { heard = append(heard, o) }}
		a := n.session(Options{Name: "ada", Hooks: hooks})
		b := n.session(Options{Token: a.Token(), Hooks: hooks})
		if b.User() != "ada" {
			t.Fatalf("the token is %q's", b.User())
		}
		for _, send := range []struct {
			s     *Session
			nonce uint64
		}{{a, 7}, {b, 7}, {a, 8}} {
			if err := send.s.PlaceAs(1, send.nonce, somewhere, 5); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if len(heard) != 3 || heard[0] != heard[1] || heard[2].Code != board.CodeSuperseded || n.placed != 1 {
			t.Errorf("%+v", heard)
		}
	})
}

// TestTurnComesLater: a node that must look up the user says so in the hello and tells the turn when it knows it.
func TestTurnComesLater(t *testing.T) {
	withNode(t, func(t *testing.T, n *fakeNode) {
		n.unknownTurns = true
		s := n.session(Options{Name: "ada"})
		if _, known := s.Turn(); known {
			t.Fatal("knows the turn")
		}
		time.AfterFunc(3*time.Second, func() {
			n.do(func() {
				n.users["ada"].turn = 9
				for f := range n.sessions {
					f.send(&wire.Me{Turn: 9, WaitMs: 0})
				}
			})
		})
		o, err := s.Place(context.Background(), somewhere, 5)
		if err != nil || o.Turn != 9 || o.Verdict != board.VerdictAccepted {
			t.Fatalf("%+v, %v", o, err)
		}
	})
}

func TestTurnState(t *testing.T) {
	now := time.Now()
	outcome := func(v board.Verdict, c board.Code, next uint64, waitMs int64) *board.PlaceOutcome {
		return &board.PlaceOutcome{Verdict: v, Code: c, NextTurn: next, WaitMs: waitMs}
	}
	for _, c := range []struct {
		name string
		o    *board.PlaceOutcome
		turn uint64
		wait time.Duration
	}{
		{"accepted", outcome(board.VerdictAccepted, 0, 6, 1000), 6, time.Second},
		{"charged", outcome(board.VerdictCharged, 0, 6, 1000), 6, time.Second},
		{"an older answer", outcome(board.VerdictAccepted, 0, 4, 1000), 5, 9 * time.Second},
		{"an answer without a turn", outcome(board.VerdictUnknown, 0, 0, 1000), 5, 9 * time.Second},
		{"cooldown", outcome(board.VerdictRefused, board.CodeCooldown, 5, 2000), 5, 2 * time.Second},
		{"busy", outcome(board.VerdictRefused, board.CodeBusy, 5, 100), 5, 9 * time.Second},
		{"superseded", outcome(board.VerdictRefused, board.CodeSuperseded, 7, 0), 7, 9 * time.Second},
		{"turn too high", outcome(board.VerdictRefused, board.CodeTurn, 3, 0), 3, 9 * time.Second},
	} {
		s := turnState{known: true, turn: 5, readyAt: now.Add(9 * time.Second)}
		s.placed(c.o, now)
		if s.turn != c.turn || s.readyAt.Sub(now) != c.wait {
			t.Errorf("%s: turn %d in %s, want %d in %s", c.name, s.turn, s.readyAt.Sub(now), c.turn, c.wait)
		}
	}
}
