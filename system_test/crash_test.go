//go:build unix

package system_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/placed-board/placed/actors"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

// dieWithin bounds the way to a crash point on a busy machine.
const dieWithin = 30 * time.Second

// placementPoints are the crash points that a placement passes, in their order.
var placementPoints = []string{
	actors.CrashBeforeShardCommit, actors.CrashAfterShardCommit, actors.CrashBeforeBlockCommit, actors.CrashAfterBlockCommit,
	actors.CrashBeforeClosing,
}

// newCrashingNode returns a node that dies where crashAt says, started and stopped once so that its board exists and the
// first commits of its shards are done.
func newCrashingNode(t *testing.T, flags ...string) *node {
	t.Helper()
	binary, err := crashing()
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t, flags...)
	n.binary = binary
	n.start()
	eventually(t, readyWithin, "every shard to have the settings in force", func() bool { return n.status().InForce })
	n.stop()
	return n
}

func (n *node) crashAt(point string) { n.env = []string{"PLACED_CRASH_AT=" + point} }

func (n *node) noCrash() { n.env = nil }

// awaitCrash waits until the process has died as kill -9 kills.
func (n *node) awaitCrash(point string) {
	n.t.Helper()
	n.awaitEnd(dieWithin)
	status, ok := n.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		n.t.Fatalf("at %s placed ended with %v:\n%s", point, n.cmd.ProcessState, tail(n.stderr.String(), 4000))
	}
}

// TestCrashPointsAreAllTested fails when a crash point is added that no test here goes to.
func TestCrashPointsAreAllTested(t *testing.T) {
	tested := strings.Join(append(placementPoints, actors.CrashBeforeSettingsCommit, actors.CrashAfterSettingsCommit), " ")
	if all := strings.Join(actors.CrashPoints, " "); all != tested {
		t.Errorf("crash points are %s, tested are %s", all, tested)
	}
}

// TestCrashAtEveryPointOfOnePlacement lets the node die at each point of a placement that is sent once and never again.
// Once it is charged it comes to the board by itself (a charge is a promise); before, it has left no trace; and a retry after
// the restart gets the one answer either way (I2, I3).
func TestCrashAtEveryPointOfOnePlacement(t *testing.T) {
	t.Parallel()
	n := newCrashingNode(t, "--width", "200", "--height", "200", "--cooldown", "0s")
	told := newLedger()
	for i, point := range placementPoints {
		charged := point != actors.CrashBeforeShardCommit
		n.crashAt(point)
		n.start()
		lone := newLoner(t, n, told, fmt.Sprintf("loner %d", i), board.Point{X: 7 * i, Y: 60})
		lone.send()
		n.awaitCrash(point)
		if _, answered := lone.answer(); answered != (point == actors.CrashBeforeClosing) {
			t.Errorf("died at %s: answered is %v", point, answered)
		}
		n.noCrash()
		n.start()
		lone.awaitFate(point, charged)
		lone.awaitTheOneAnswer(point)
		n.verify()
		_ = lone.session.Close()
		n.stop()
	}
	j := readJournals(t, n.dir)
	told.mu.Lock()
	defer told.mu.Unlock()
	j.told(told)
	if len(j.placements) != len(placementPoints) || len(told.faults) > 0 {
		t.Errorf("%d placements of %d; %v", len(j.placements), len(placementPoints), told.faults)
	}
}

// loner is a user with one placement, which nothing sends again by itself.
type loner struct {
	t       *testing.T
	node    *node
	told    *ledger
	session *client.Session
	name    board.UserID
	nonce   uint64
	at      board.Point
}

const lonerColour = 5

func newLoner(t *testing.T, n *node, told *ledger, name string, at board.Point) *loner {
	t.Helper()
	l := &loner{t: t, node: n, told: told, name: board.UserID(name), nonce: rand.Uint64(), at: at}
	ctx, cancel := context.WithTimeout(t.Context(), dialWithin)
	defer cancel()
	var err error
	l.session, err = client.Dial(ctx, n.url, client.Options{Name: name, Backoff: quickly, Hooks: client.Hooks{
		OnPlaced: func(o board.PlaceOutcome) { told.heard(l.name, o, lonerColour, time.Time{}) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.session.Close() })
	return l
}

func (l *loner) send() {
	l.t.Helper()
	l.told.sent(l.name, 1, l.nonce, l.at, lonerColour)
	if err := l.session.PlaceAs(1, l.nonce, l.at, lonerColour); err != nil {
		l.t.Fatal(err)
	}
}

// answer returns the acceptance, if one has been heard.
func (l *loner) answer() (o board.PlaceOutcome, ok bool) {
	l.told.mu.Lock()
	defer l.told.mu.Unlock()
	if e := l.told.entries[attempt{l.name, l.nonce}]; e.accepted != nil {
		return *e.accepted, true
	}
	return o, false
}

// awaitFate waits until the placement is on the board without anybody's help, or, if it was not charged, sees that the user
// still has the first turn.
func (l *loner) awaitFate(point string, charged bool) {
	l.t.Helper()
	eventually(l.t, moreWithin, "every charge to be placed", func() bool { return l.node.status().OpenCharges == 0 })
	tile, err := l.node.api().Tile(l.t.Context(), l.at.X, l.at.Y)
	if err != nil {
		l.t.Fatal(err)
	}
	me, err := l.session.HTTP().Me(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	if tile.Placed != charged || (me.Turn == 2) != charged {
		l.t.Errorf("died at %s: turn %d is next, the tile is %+v", point, me.Turn, tile)
	}
}

// awaitTheOneAnswer sends the placement once more and sees that it is accepted where the board has it.
func (l *loner) awaitTheOneAnswer(point string) {
	l.t.Helper()
	was := l.told.answered("accepted")
	var again time.Time
	eventually(l.t, moreWithin, "the retry to be accepted", func() bool {
		if now := time.Now(); now.After(again) {
			again = now.Add(retryAfter)
			l.told.sent(l.name, 1, l.nonce, l.at, lonerColour)
			_ = l.session.PlaceAs(1, l.nonce, l.at, lonerColour) // until there is a connection
		}
		return l.told.answered("accepted") > was
	})
	o, _ := l.answer()
	tile, err := l.node.api().Tile(l.t.Context(), l.at.X, l.at.Y)
	if err != nil || tile.User != l.name || tile.Sequence != o.Sequence || o.Turn != 1 || o.NextTurn != 2 {
		l.t.Errorf("died at %s: accepted was %+v, on the board is %+v (%v)", point, o, tile, err)
	}
}

// TestCrashAtEveryPointInAStorm does the same while many place, at a random passage of each point.
func TestCrashAtEveryPointInAStorm(t *testing.T) {
	t.Parallel()
	n := newCrashingNode(t, "--width", "300", "--height", "250", "--cooldown", "100ms")
	n.start()
	s := startStorm(t, n, stormy())
	s.everyone()
	n.kill()
	random := rand.New(rand.NewPCG(seed, 2))
	for _, point := range placementPoints {
		passage := 1 + random.IntN(150)
		n.crashAt(fmt.Sprintf("%s:%d", point, passage))
		n.launch()
		n.awaitCrash(point)
	}
	n.noCrash()
	n.start()
	s.everyone()
	s.judge()
}

// TestCrashAroundASettingsCommit: a change that nobody was told of is there as a whole or not at all, and who asks again
// after the restart sees which.
func TestCrashAroundASettingsCommit(t *testing.T) {
	t.Parallel()
	n := newCrashingNode(t, "--width", "200", "--height", "200", "--cooldown", "1s")
	for _, point := range []string{actors.CrashBeforeSettingsCommit, actors.CrashAfterSettingsCommit} {
		n.crashAt(point)
		n.start()
		before := n.settings()
		_, stderr, code := n.tryCtl("settings", "set", "--announcement", point)
		if code != 1 || !oneLine(stderr) {
			t.Errorf("ctl of a node that dies at %s: code %d, %q", point, code, stderr)
		}
		n.awaitCrash(point)
		n.noCrash()
		n.start()
		want := before.Version
		if point == actors.CrashAfterSettingsCommit {
			want++
		}
		if got := n.settings(); got.Version != want || (got.Announcement == point) != (want > before.Version) {
			t.Errorf("died at %s: version %d with announcement %q, want version %d", point, got.Version, got.Announcement, want)
		}
		n.verify()
		n.stop()
	}
}
