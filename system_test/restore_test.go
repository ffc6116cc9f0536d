//go:build unix

package system_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/wire"
)

// crowd are people who place and people who watch while the board under them is replaced by another one.
type crowd struct {
	t       *testing.T
	node    *node
	placing sync.WaitGroup
	stop    context.CancelFunc

	mu      sync.Mutex // guards the fields below
	epochs  map[uint64]map[board.UserID]int
	entries []crowdEntry
	changed int // placements whose board was replaced meanwhile

	sessions []*client.Session
	mirrors  []*client.Session
}

// crowdEntry is an accepted placement, with when it was sent and heard of.
type crowdEntry struct {
	epoch         uint64
	user          board.UserID
	outcome       board.PlaceOutcome
	sentAt, heard time.Time
}

func newCrowd(t *testing.T, n *node, users int) *crowd {
	t.Helper()
	loop, stop := context.WithCancel(t.Context())
	c := &crowd{t: t, node: n, stop: stop, epochs: map[uint64]map[board.UserID]int{}}
	t.Cleanup(func() {
		stop()
		c.placing.Wait()
	})
	for i := range users {
		o := client.Options{Name: fmt.Sprintf("guest %d", i), Mirror: i%4 == 0, Whole: i%8 == 0}
		if o.Mirror && !o.Whole {
			o.Chunks = wire.ChunkRect{Col: 1, Row: 1, Cols: 3, Rows: 2}
		}
		o.Backoff, o.RetryAfter = quickly, retryAfter
		ctx, cancel := context.WithTimeout(t.Context(), dialWithin)
		session, err := client.Dial(ctx, n.url, o)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
		c.sessions = append(c.sessions, session)
		if o.Mirror {
			c.mirrors = append(c.mirrors, session)
		}
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		c.placing.Go(func() { c.place(loop, session, random) })
	}
	return c
}

// place is the life of one of the crowd: it never starts anew, whatever happens to the board.
func (c *crowd) place(loop context.Context, session *client.Session, random *rand.Rand) {
	for session.WaitReady(loop) == nil {
		hello, sentAt := session.Hello(), time.Now()
		at := board.Point{X: random.IntN(300), Y: random.IntN(200)}
		final, cancel := context.WithTimeout(context.Background(), finalWithin)
		o, err := session.Place(final, at, board.Colour(random.IntN(16)))
		cancel()
		c.mu.Lock()
		switch {
		case errors.Is(err, client.ErrEpochChanged):
			c.changed++
		case err != nil:
			c.t.Errorf("%s: no final answer: %v", hello.User, err)
		case o.Verdict == board.VerdictAccepted && session.Hello().Epoch == hello.Epoch:
			c.entries = append(c.entries, crowdEntry{hello.Epoch, hello.User, o, sentAt, time.Now()})
			if c.epochs[hello.Epoch] == nil {
				c.epochs[hello.Epoch] = map[board.UserID]int{}
			}
			c.epochs[hello.Epoch][hello.User]++
		}
		c.mu.Unlock()
		if err == nil && o.Verdict != board.VerdictAccepted {
			pause(loop, refusedPause)
		}
	}
}

// everyone waits until each has placed some tiles on the board that the node serves now, and returns its epoch.
func (c *crowd) everyone(tiles int) uint64 {
	c.t.Helper()
	body, err := c.node.api().Board(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, moreWithin, "everyone to place", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		some := c.epochs[body.Epoch]
		for _, n := range some {
			if n < tiles {
				return false
			}
		}
		return len(some) == len(c.sessions)
	})
	return body.Epoch
}

// judge compares a store with what the crowd heard of a board: of the entries that must be there none is missing, and none
// is there that must not be.
func (c *crowd) judge(dir string, has func(e crowdEntry) (must, mustNot bool)) {
	c.t.Helper()
	type key struct {
		user  board.UserID
		turn  uint64
		nonce uint64
	}
	found := map[key]bool{}
	for _, p := range readStore(c.t, dir).placements {
		found[key{p.User, p.Turn, p.Nonce}] = true
	}
	musts, mustNots := 0, 0
	for _, e := range c.entries {
		must, mustNot := has(e)
		there := found[key{e.user, e.outcome.Turn, e.outcome.Nonce}]
		if must && !there || mustNot && there {
			c.t.Errorf("%s: on the board is %v, of %+v", filepath.Base(dir), there, e)
		}
		if must {
			musts++
		}
		if mustNot {
			mustNots++
		}
	}
	c.t.Logf("%s: %d placements there, %d rightly missing", filepath.Base(dir), musts, mustNots)
	if musts == 0 {
		c.t.Errorf("%s: nothing was looked for", filepath.Base(dir))
	}
}

// run runs placed with any arguments; it has to succeed.
func (n *node) run(args ...string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), ctlWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.binary, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		n.t.Fatalf("placed %v: %v\n%s", args, err, errs.String())
	}
}

// TestBoardIsReplacedUnderLoad backs a board up while people place, kills the node, restores the archive, and later resets
// the board of the running node. Nobody starts anew: sessions get the new epoch, drop their turns and what they held, and fetch
// the board that is there. What was answered before the backup is on the restored board, what came after it is not.
func TestBoardIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--width", "300", "--height", "200", "--cooldown", "50ms")
	c := newCrowd(t, n, 16)
	first := c.everyone(5)

	archive := filepath.Join(t.TempDir(), "board.tar")
	began := time.Now()
	n.run("backup", archive, "--admin", n.adminURL, "--data-dir", n.dir)
	backedUp := time.Now()
	c.mu.Lock()
	before := len(c.entries)
	c.mu.Unlock()
	eventually(t, moreWithin, "more placements", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.entries) >= before+100
	})
	n.kill()
	n.run("restore", archive, "--data-dir", n.dir, "--yes", "--why", "system test")
	n.start()
	second := c.everyone(3)
	n.verify()

	n.ctl(nil, "board", "reset", "--yes", "--why", "system test", "--backup", filepath.Join(t.TempDir(), "second.tar"))
	third := c.everyone(3)
	c.stop()
	c.placing.Wait()
	if first == second || second == third || first == third {
		t.Errorf("epochs are %x, %x, %x", first, second, third)
	}
	c.converged()
	n.verify()
	if history := n.history(); len(history) != 1 || history[0].Why != "reset: system test" || history[0].CooldownMs != 50 || history[0].Width != 300 {
		t.Errorf("the settings after the reset are %+v", history)
	}
	n.stop()

	replaced, err := filepath.Glob(filepath.Join(n.dir, "board.replaced-*"))
	if err != nil || len(replaced) != 2 {
		t.Fatalf("kept are %v, %v", replaced, err)
	}
	slices.Sort(replaced)
	c.judge(replaced[0], func(e crowdEntry) (must, mustNot bool) { return e.epoch == first, e.epoch != first })
	c.judge(replaced[1], func(e crowdEntry) (must, mustNot bool) {
		return e.epoch == second || e.heard.Before(began), e.epoch == third || e.epoch == first && e.sentAt.After(backedUp)
	})
	c.judge(filepath.Join(n.dir, "board"), func(e crowdEntry) (must, mustNot bool) { return e.epoch == third, e.epoch != third })
	records := readStore(t, replaced[1]).settings
	if last := records[len(records)-1]; last.Why != "restored: system test" {
		t.Errorf("the history of the restored board ends with %+v", last)
	}
}

func (n *node) history() []board.SettingsRecord {
	n.t.Helper()
	var records []board.SettingsRecord
	n.ctl(&records, "settings", "history")
	return records
}

// converged waits until every mirror shows the board.
func (c *crowd) converged() {
	c.t.Helper()
	eventually(c.t, moreWithin, "every charge to be placed", func() bool { return c.node.status().OpenCharges == 0 })
	if why := awaitThat(equalWithin, func() string {
		body, err := c.node.api().Board(c.t.Context())
		if err != nil {
			return err.Error()
		}
		for i, session := range c.mirrors {
			if why := differs(session, body); why != "" {
				return fmt.Sprintf("mirror %d: %s", i, why)
			}
		}
		return ""
	}); why != "" {
		c.t.Errorf("boards are not equal: %s", why)
	}
}
