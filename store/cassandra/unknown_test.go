package cassandra

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// slowTimeout is a request's, of a Store behind a proxy that holds its words back.
const slowTimeout = time.Second

// behindProxy opens the data of cfg through a proxy, with a short timeout.
func behindProxy(t *testing.T, cfg Config) (*Store, *proxy) {
	t.Helper()
	p := newProxy(t, node(t).Addr())
	cfg.Hosts, cfg.Timeout = []string{p.addr()}, slowTimeout
	return mustOpen(t, cfg), p
}

// A commit that arrives long after its sender gave up waiting is made, if nobody was faster, and its sender finds it.
func TestLateCommitIsFound(t *testing.T) {
	cfg := freshSchema(t)
	direct := mustOpen(t, cfg)
	slow, p := behindProxy(t, cfg)
	b := board.NewBlockID(1, 1)
	mustApply(t, direct, blockCommit(b, 1, 10))
	p.hold(toNode)
	late := blockCommit(b, 2, 20)
	mustUnknown(t, slow, late)
	wantEntries(t, direct, b, 10) // absent now, and that proves nothing
	p.release(toNode)
	until(t, "the late commit shows", settleMax, func() bool {
		h, err := direct.Head(t.Context(), late.Partition)
		return err == nil && h.Version == 2 && h.Attempt == 20
	})
	mustRefuse(t, slow, late, 2, 20) // it finds itself
	wantEntries(t, direct, b, 10, 20)
}

// A commit that arrives after another owner made the version changes nothing, then or later.
func TestLateCommitIsFenced(t *testing.T) {
	cfg := freshSchema(t)
	direct := mustOpen(t, cfg)
	slow, p := behindProxy(t, cfg)
	b := board.NewBlockID(1, 1)
	mustApply(t, slow, blockCommit(b, 1, 10))
	mustApply(t, slow, shardCommit(3, 1, 10, store.Row{Key: "ada", Value: []byte("10")}))
	p.hold(toNode)
	mustUnknown(t, slow, blockCommit(b, 2, 20))
	mustUnknown(t, slow, shardCommit(3, 2, 20, store.Row{Key: "ada", Value: []byte("20")}))
	mustApply(t, direct, blockCommit(b, 2, 30))
	mustApply(t, direct, shardCommit(3, 2, 30, store.Row{Key: "ada", Value: []byte("30")}))
	p.release(toNode)
	mustRefuse(t, slow, blockCommit(b, 2, 20), 2, 30)
	mustRefuse(t, slow, shardCommit(3, 2, 20, store.Row{Key: "ada", Value: []byte("20")}), 2, 30)
	mustApply(t, direct, blockCommit(b, 3, 31))
	wantEntries(t, direct, b, 10, 30, 31)
	if v, err := direct.Row(t.Context(), store.Shard(3), "ada"); err != nil || string(v) != "30" {
		t.Fatalf("row: %q, %v, want 30", v, err)
	}
}

// When the answer is lost, with the time or with the connection, the commit is unknown to its sender and made.
func TestLostAnswer(t *testing.T) {
	cfg := freshSchema(t)
	for _, cut := range []bool{false, true} {
		slow, p := behindProxy(t, cfg)
		b := board.NewBlockID(1, 1)
		if cut {
			b = board.NewBlockID(2, 2)
		}
		mustApply(t, slow, blockCommit(b, 1, 10))
		p.hold(toClient)
		if cut {
			ended := make(chan error, 1)
			go func() {
				_, err := slow.Commit(t.Context(), blockCommit(b, 2, 20))
				ended <- err
			}()
			direct := mustOpen(t, cfg)
			until(t, "the commit is made", settleMax, func() bool {
				h, err := direct.Head(t.Context(), store.Block(b))
				return err == nil && h.Attempt == 20
			})
			p.cut()
			if err := <-ended; !errors.Is(err, store.ErrUnknown) {
				t.Fatalf("commit over a broken connection: %v, want ErrUnknown", err)
			}
		} else {
			mustUnknown(t, slow, blockCommit(b, 2, 20))
		}
		p.release(toClient)
		mustRefuse(t, slow, blockCommit(b, 2, 20), 2, 20) // it finds itself
		wantEntries(t, slow, b, 10, 20)
	}
}

// No more than Slots commits are in flight; one that its caller gives up while it waits for a slot has not been sent.
func TestSlotsBoundCommits(t *testing.T) {
	const slots, commits = 3, 9
	cfg := freshSchema(t)
	p := newProxy(t, node(t).Addr())
	cfg.Hosts, cfg.Slots = []string{p.addr()}, slots
	s := mustOpen(t, cfg)
	if got := s.Capabilities(); got.Slots != slots || !got.Shared {
		t.Fatalf("capabilities %+v", got)
	}
	p.hold(toNode)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make([]error, commits)
	var wg sync.WaitGroup
	for i := range commits {
		wg.Go(func() { _, errs[i] = s.Commit(ctx, shardCommit(i, 1, 1)) })
	}
	until(t, "all slots are taken", settleMax, func() bool { return len(s.writes) == slots })
	cancel()
	wg.Wait()
	unknown, notSent := 0, 0
	for i, err := range errs {
		switch {
		case errors.Is(err, store.ErrUnknown):
			unknown++
		case errors.Is(err, context.Canceled):
			notSent++
		default:
			t.Fatalf("commit %d: %v", i, err)
		}
	}
	if unknown != slots || notSent != commits-slots {
		t.Fatalf("%d unknown and %d not sent, want %d and %d", unknown, notSent, slots, commits-slots)
	}
	p.release(toNode)
	mustApply(t, s, shardCommit(20, 1, 1)) // the slots are free again
}
