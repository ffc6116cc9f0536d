package mem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
)

func commit(p store.Partition, version, attempt uint64) *store.Commit {
	c := &store.Commit{Partition: p, Head: store.Head{Version: version, Attempt: attempt}}
	if p.Journal() {
		c.Rows = []store.Row{{Value: []byte{byte(version), byte(attempt)}}}
	} else {
		c.Head.State = []byte{byte(attempt)}
		c.Rows = []store.Row{{Key: "ada", Value: []byte{byte(version), byte(attempt)}}}
	}
	return c
}

// script answers commits with the given outcomes in turn, then normally.
func script(outcomes ...mem.Outcome) mem.Script {
	return func(c mem.Call) mem.Outcome {
		if c.Op != mem.OpCommit || len(outcomes) == 0 {
			return mem.Normal()
		}
		o := outcomes[0]
		outcomes = outcomes[1:]
		return o
	}
}

func wantHead(t *testing.T, s store.Store, p store.Partition, version, attempt uint64) {
	t.Helper()
	h, err := s.Head(t.Context(), p)
	if err != nil || h.Version != version || h.Attempt != attempt {
		t.Fatalf("head of %s: version %d attempt %d (%v), want version %d attempt %d", p, h.Version, h.Attempt, err, version, attempt)
	}
}

func wantUnknown(t *testing.T, s store.Store, c *store.Commit) {
	t.Helper()
	if r, err := s.Commit(t.Context(), c); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("commit: %+v, %v, want unknown", r, err)
	}
}

func wantResult(t *testing.T, s store.Store, c *store.Commit, applied bool, attempt uint64) {
	t.Helper()
	r, err := s.Commit(t.Context(), c)
	if err != nil || r.Applied != applied || (!applied && r.Head.Attempt != attempt) {
		t.Fatalf("commit: %+v, %v, want applied %t or attempt %d", r, err, applied, attempt)
	}
}

func TestUnknownApplied(t *testing.T) {
	s, p := mem.New(), store.Shard(3)
	s.SetScript(script(mem.UnknownApplied()))
	wantUnknown(t, s, commit(p, 1, 7))
	wantHead(t, s, p, 1, 7)
	wantResult(t, s, commit(p, 1, 7), false, 7)
}

func TestUnknownNot(t *testing.T) {
	s, p := mem.New(), store.Shard(3)
	s.SetScript(script(mem.Refuse(store.ErrFull), mem.UnknownNot(), mem.Fail(errors.New("away"))))
	if _, err := s.Commit(t.Context(), commit(p, 1, 7)); !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrUnknown) {
		t.Fatalf("%v, want ErrFull alone", err)
	}
	wantUnknown(t, s, commit(p, 1, 7))
	wantUnknown(t, s, commit(p, 1, 7))
	wantHead(t, s, p, 0, 0)
	wantResult(t, s, commit(p, 1, 7), true, 0)
}

func TestAppliedLate(t *testing.T) {
	s, p := mem.New(), store.Shard(3)
	s.SetScript(script(mem.AppliedLate(0), mem.Normal(), mem.AppliedLate(1)))
	wantUnknown(t, s, commit(p, 1, 7))
	wantHead(t, s, p, 0, 0)
	wantResult(t, s, commit(p, 1, 8), false, 7) // the late one came first
	wantUnknown(t, s, commit(p, 2, 9))
	wantResult(t, s, commit(p, 2, 10), true, 0) // overtakes
	wantResult(t, s, commit(p, 3, 11), true, 0)
	if rows := s.Core().Rows(p); len(rows) != 1 || rows[0].Value[1] != 11 {
		t.Fatalf("rows: %v", rows)
	}
	if _, late := s.Pending(); late != 0 {
		t.Fatalf("%d late commits left", late)
	}
}

func TestAppliedAtRelease(t *testing.T) {
	s, p := mem.New(), store.Block(board.NewBlockID(1, 2))
	s.SetScript(script(mem.AppliedLate(-1), mem.AppliedLate(-1)))
	sealed := commit(p, 1, 7)
	wantUnknown(t, s, sealed)
	sealed.Rows[0].Value[1] = 99 // the store keeps a copy
	wantUnknown(t, s, commit(p, 1, 8))
	wantHead(t, s, p, 0, 0)
	s.Release()
	wantHead(t, s, p, 1, 7)
	if j := s.Core().Journal(p, 1); len(j) != 1 || j[0].Value[1] != 7 {
		t.Fatalf("journal: %v", j)
	}
}

func TestConflict(t *testing.T) {
	for _, p := range []store.Partition{store.Shard(3), store.Block(0), store.Settings()} {
		s := mem.New()
		s.SetScript(script(mem.Normal(), mem.Conflict(nil), mem.Conflict(commit(p, 3, 55))))
		wantResult(t, s, commit(p, 1, 7), true, 0)
		r, err := s.Commit(t.Context(), commit(p, 2, 8))
		if err != nil || r.Applied || r.Head.Version != 2 || r.Head.Owner != mem.RivalOwner {
			t.Fatalf("%s: %+v, %v", p, r, err)
		}
		wantResult(t, s, commit(p, 3, 9), false, 55)
	}
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := mem.New(), store.Shard(3)
		s.SetScript(script(mem.Slow(), mem.Slow(), mem.Normal().After(time.Hour)))
		done := make(chan error)
		go func() {
			r, err := s.Commit(t.Context(), commit(p, 1, 7))
			if err == nil && !r.Applied {
				err = errors.New("conflict")
			}
			done <- err
		}()
		synctest.Wait()
		if slow, _ := s.Pending(); slow != 1 {
			t.Fatalf("%d slow calls", slow)
		}
		s.Release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Commit(ctx, commit(p, 2, 8)); !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("slow commit past its deadline: %v", err)
		}
		wantHead(t, s, p, 1, 7)
		s.Release()
		wantHead(t, s, p, 2, 8)
		start := time.Now()
		wantResult(t, s, commit(p, 3, 9), true, 0)
		if d := time.Since(start); d != time.Hour {
			t.Fatalf("delayed by %s", d)
		}
	})
}

func TestReadsFail(t *testing.T) {
	s, away := mem.New(), errors.New("away")
	s.SetScript(func(mem.Call) mem.Outcome { return mem.Fail(away) })
	if _, err := s.Head(t.Context(), store.Shard(1)); !errors.Is(err, away) {
		t.Fatalf("head: %v", err)
	}
	for _, err := range s.Rows(t.Context(), store.Shard(1)) {
		if !errors.Is(err, away) {
			t.Fatalf("rows: %v", err)
		}
	}
	s.Core().SetHealth(store.Health{FreeBytes: 1, Tight: true})
	if h := s.Health(t.Context()); !h.Tight || h.FreeBytes != 1 {
		t.Fatalf("health %+v", h)
	}
}

func TestCloneIsASeparateCopy(t *testing.T) {
	c, p := mem.NewCore(), store.Shard(3)
	c.Commit(commit(p, 1, 7))
	copied := c.Clone()
	c.Commit(commit(p, 2, 8))
	if h := copied.Head(p); h.Version != 1 || copied.Rows(p)[0].Value[1] != 7 || copied.Applied() != 1 {
		t.Fatalf("the copy moved: %+v", h)
	}
}
