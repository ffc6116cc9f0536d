package cassandra

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

const (
	faultTimeout     = time.Second           // a request's; pauses last longer
	faultProgressMax = 60 * time.Second      // until all partitions move, a restart of the node included
	faultRound       = 6                     // commits of each partition between two faults
	faultUnknown     = 2                     // answers that a fault has to swallow
	faultBucket      = 4                     // commits in a bucket, so that every round opens some
	rivalPause       = 15 * time.Millisecond // between two commits of one rival
)

// fate is what a rival knows of an attempt in the end.
type fate int

const (
	acknowledged fate = iota + 1 // applied, or the head showed it
	refused                      // another attempt made this version
	overtaken                    // the head moved on past this version: it was made by this attempt or by another
)

// duel is one partition that two owners write, each through a Store of its own, both by the rule: seal the commit after the
// head, send the same bytes until the outcome is known, then go on from the head.
type duel struct {
	p       store.Partition
	acked   atomic.Int64
	unknown atomic.Int64

	mu    sync.Mutex // guards what follows
	fates map[uint64]fate
	at    map[uint64]uint64 // attempt -> its version
}

func (d *duel) commit(version, attempt uint64) *store.Commit {
	if d.p.Journal() {
		return blockCommit(board.BlockID(d.p.Index), version, attempt)
	}
	value := fmt.Appendf(nil, "%d by %d", version, attempt)
	return shardCommit(int(d.p.Index), version, attempt, store.Row{Key: fmt.Sprintf("v%06d", version), Value: value}, store.Row{Key: "last", Value: value})
}

// fight is one owner; it ends after the commit in which stop was closed. It reads the head once and learns every later one
// from its commits, so that nearly all of its time is spent in commits, and a fault meets some of them.
func (d *duel) fight(ctx context.Context, s *Store, stop <-chan struct{}) error {
	pause := time.NewTicker(rivalPause)
	defer pause.Stop()
	head, err := s.Head(ctx, d.p)
	if err != nil {
		return fmt.Errorf("%s: %w", d.p, err)
	}
	for {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-pause.C:
		}
		c := d.commit(head.Version+1, rand.Uint64()|1)
		d.mu.Lock()
		d.at[c.Head.Attempt] = c.Head.Version
		d.mu.Unlock()
		var f fate
		if f, head, err = d.send(ctx, s, c); err != nil {
			return fmt.Errorf("%s: %w", d.p, err)
		}
		d.mu.Lock()
		d.fates[c.Head.Attempt] = f
		d.mu.Unlock()
		if f == acknowledged {
			d.acked.Add(1)
		}
	}
}

// send sends a commit until its outcome is known, and returns the head that it leaves or finds.
func (d *duel) send(ctx context.Context, s *Store, c *store.Commit) (fate, store.Head, error) {
	pause := time.NewTicker(rivalPause)
	defer pause.Stop()
	for {
		r, err := s.Commit(ctx, c)
		if errors.Is(err, store.ErrUnknown) && ctx.Err() == nil {
			d.unknown.Add(1)
			<-pause.C
			continue
		}
		switch {
		case err != nil:
			return 0, r.Head, err
		case r.Applied:
			return acknowledged, c.Head, nil
		case r.Head.Version < c.Head.Version:
			return 0, r.Head, fmt.Errorf("commit %d refused with head %d", c.Head.Version, r.Head.Version)
		case r.Head.Version > c.Head.Version:
			return overtaken, r.Head, nil
		case r.Head.Attempt == c.Head.Attempt:
			return acknowledged, r.Head, nil
		}
		return refused, r.Head, nil
	}
}

// check compares what is stored with what the owners know.
func (d *duel) check(t *testing.T, s *Store) {
	t.Helper()
	h, err := s.Head(t.Context(), d.p)
	if err != nil {
		t.Fatal(err)
	}
	stored := map[uint64]bool{} // attempts
	for version, value := range d.stored(t, s) {
		var v, attempt uint64
		if _, err := fmt.Sscanf(value, "%d by %d", &v, &attempt); err != nil || v != version {
			t.Fatalf("%s: version %d holds %q", d.p, version, value)
		}
		if d.at[attempt] != version || stored[attempt] {
			t.Fatalf("%s: version %d was made by attempt %d, which was sealed as version %d (seen before: %t)", d.p, version, attempt, d.at[attempt], stored[attempt])
		}
		stored[attempt] = true
		if f := d.fates[attempt]; f != acknowledged && f != overtaken {
			t.Errorf("%s: version %d was made by attempt %d, whose owner believes %d", d.p, version, attempt, f)
		}
		if version == h.Version && attempt != h.Attempt {
			t.Errorf("%s: version %d was made by attempt %d, the head says %d", d.p, version, attempt, h.Attempt)
		}
	}
	if uint64(len(stored)) != h.Version {
		t.Errorf("%s: %d versions stored, the head is %d", d.p, len(stored), h.Version)
	}
	for attempt, f := range d.fates {
		if f == acknowledged && !stored[attempt] {
			t.Errorf("%s: version %d by attempt %d was acknowledged and is lost", d.p, d.at[attempt], attempt)
		}
	}
	t.Logf("%s: %d versions, %d acknowledged, %d answers unknown", d.p, h.Version, d.acked.Load(), d.unknown.Load())
}

// stored reads the values by version.
func (d *duel) stored(t *testing.T, s *Store) map[uint64]string {
	t.Helper()
	out := map[uint64]string{}
	if d.p.Journal() {
		for e, err := range s.Journal(t.Context(), d.p, 1) {
			if err != nil {
				t.Fatal(err)
			}
			out[e.Version] = string(e.Value)
		}
		return out
	}
	last := ""
	for r, err := range s.Rows(t.Context(), d.p) {
		if err != nil {
			t.Fatal(err)
		}
		var version uint64
		if r.Key == "last" {
			last = string(r.Value)
		} else if _, err := fmt.Sscanf(r.Key, "v%06d", &version); err != nil {
			t.Fatalf("%s: row %q", d.p, r.Key)
		} else {
			out[version] = string(r.Value)
		}
	}
	if want := out[uint64(len(out))]; last != want {
		t.Errorf("%s: the replaced row says %q, the last version %q", d.p, last, want)
	}
	return out
}

// TestNodeKilledAndPaused lets owners in pairs write shards and blocks while the node is killed (kill -9) and paused in
// between. Afterwards no acknowledged commit may be missing, none may be there twice, no version may be missing, and
// nothing may be stored that its owner believes refused (I2, I3, I4).
func TestNodeKilledAndPaused(t *testing.T) {
	cfg := freshSchema(t)
	reader := mustOpen(t, cfg)
	cfg.Timeout = faultTimeout
	stores := []*Store{mustOpen(t, cfg), mustOpen(t, cfg)}
	for _, s := range append(stores, reader) {
		s.bucketCommits = faultBucket
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*faultProgressMax)
	defer cancel()
	stop := make(chan struct{})
	var owners sync.WaitGroup
	var duels []*duel
	errs := make(chan error, 16)
	for _, p := range []store.Partition{store.Shard(1), store.Shard(2), store.Block(board.NewBlockID(1, 1)), store.Block(board.NewBlockID(2, 1)), store.Block(board.NewBlockID(3, 1))} {
		d := &duel{p: p, fates: map[uint64]fate{}, at: map[uint64]uint64{}}
		duels = append(duels, d)
		for _, s := range stores {
			owners.Go(func() { errs <- d.fight(ctx, s, stop) })
		}
	}
	progress := func(when string) {
		t.Helper()
		before := make([]int64, len(duels))
		for i, d := range duels {
			before[i] = d.acked.Load()
		}
		until(t, "all partitions move "+when, faultProgressMax, func() bool {
			for i, d := range duels {
				if d.acked.Load() < before[i]+faultRound {
					return false
				}
			}
			return true
		})
	}
	hurt := func(when string, from int64) {
		t.Helper()
		until(t, "commits end unknown "+when, faultProgressMax, func() bool { return unknownOf(duels) >= from+faultUnknown })
	}
	n := node(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	progress("at first")
	for range 2 {
		from := unknownOf(duels)
		must(n.Pause())
		hurt("while the node is paused", from)
		must(n.Resume())
		progress("after a pause")
		from = unknownOf(duels)
		must(n.Kill())
		hurt("while the node is down", from)
		must(n.Restart(ctx))
		progress("after a restart")
	}
	close(stop)
	owners.Wait()
	for range 2 * len(duels) {
		must(<-errs)
	}
	until(t, "a store that was idle through it all reads again", faultProgressMax, func() bool {
		_, err := reader.Head(ctx, duels[0].p)
		return err == nil
	})
	for _, d := range duels {
		d.check(t, reader)
	}
}

func unknownOf(duels []*duel) (n int64) {
	for _, d := range duels {
		n += d.unknown.Load()
	}
	return n
}
