//go:build unix

package system_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
)

// TestModerationInAStorm bans and unbans a user, protects and clears an area, and kills the node in the middle of a clearing,
// while many place.
func TestModerationInAStorm(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--width", "300", "--height", "250", "--cooldown", "50ms")
	s := startStorm(t, n, stormy())
	s.everyone()
	s.more(300)
	from, to := s.ban(s.users[3])
	cleared := s.protectAndClear(board.Rect{Width: 20, Height: 20})
	cleared += s.killWhileClearing(board.Rect{X: 20, Y: 0, Width: 280, Height: 250})
	s.everyone()
	s.judge()
	byKind := map[board.Kind]int{}
	for _, p := range readJournals(t, n.dir).placements {
		byKind[p.Kind]++
		if p.User == s.users[3].name && p.AtMs > from && p.AtMs < to {
			t.Errorf("a placement of a banned user, %d ms after the ban: %+v", p.AtMs-from, p)
		}
	}
	if byKind[board.KindClear] != cleared || cleared == 0 {
		t.Errorf("the jobs have placed %d tiles, in the journals are %v", cleared, byKind)
	}
}

// ban bans a user, sees what that does, and lifts the ban. It returns between which times the user was banned for sure.
func (s *storm) ban(u *user) (fromMs, toMs int64) {
	s.t.Helper()
	s.node.ctl(nil, "ban", string(u.name), "--why", "system test")
	fromMs = time.Now().UnixMilli()
	was := s.ledger.answered("banned")
	eventually(s.t, moreWithin, "the banned user to be refused", func() bool { return s.ledger.answered("banned") >= was+2 })
	s.more(100)
	if me, err := u.first.HTTP().Me(s.t.Context()); err != nil || me.BannedUntilMs != board.BannedForever {
		s.t.Errorf("a banned user is told %+v, %v", me, err)
	}
	toMs = time.Now().UnixMilli()
	s.node.ctl(nil, "unban", string(u.name), "--why", "system test")
	placed := u.placed.Load()
	eventually(s.t, moreWithin, "the user to place again", func() bool { return u.placed.Load() > placed })
	return fromMs, toMs
}

// protectAndClear protects the corner where everybody meets, clears it, sees that it stays clear, and gives it back. It
// returns how many tiles were cleared.
func (s *storm) protectAndClear(area board.Rect) int {
	s.t.Helper()
	s.node.set("--protect", rectText(area))
	eventually(s.t, moreWithin, "the protection to be in force", func() bool { return s.node.status().InForce })
	was := s.ledger.answered("protected")
	var job board.Job
	s.node.ctl(&job, "clear", rectText(area), "--wait", "--why", "system test")
	if !job.Done || job.Placed == 0 || job.Placed != job.Charged || job.Rect != area {
		s.t.Errorf("clearing %v: %+v", area, job)
	}
	s.more(100)
	eventually(s.t, moreWithin, "somebody to be refused", func() bool { return s.ledger.answered("protected") > was })
	s.isClear(area)
	s.node.set("--no-protect")
	s.everyone()
	return job.Placed
}

// isClear sees on the board and in the details that nothing is left of users in an area.
func (s *storm) isClear(area board.Rect) {
	s.t.Helper()
	if why := awaitThat(moreWithin, func() string { return s.painted(area) }); why != "" {
		s.t.Errorf("after the clearing %s", why)
	}
	kinds := map[string]int{}
	for i := range 20 {
		tile, err := s.node.api().Tile(s.t.Context(), area.X+i, area.Y+i)
		if err != nil {
			s.t.Fatal(err)
		}
		kinds[tile.Kind]++
	}
	if kinds["clear"] == 0 {
		s.t.Errorf("no tile says that it was cleared: %v", kinds)
	}
}

// painted names a tile of an area that has another colour than 0.
func (s *storm) painted(area board.Rect) string {
	body, err := s.node.api().Board(s.t.Context())
	if err != nil {
		return err.Error()
	}
	for _, c := range body.Chunks {
		var tiles board.Tiles
		if err := tiles.SetImage(c.Image, body.ColourWidth); err != nil {
			return err.Error()
		}
		for i, colour := range tiles {
			if at := c.Chunk.Point(i); colour != 0 && area.Contains(at) {
				return fmt.Sprintf("tile %v shows colour %d", at, colour)
			}
		}
	}
	return ""
}

// killWhileClearing kills the node when a clearing has begun: the next process finishes it. It returns how many tiles were
// cleared.
func (s *storm) killWhileClearing(area board.Rect) int {
	s.t.Helper()
	job, err := s.node.admin().Clear(s.t.Context(), area, "system test")
	if err != nil {
		s.t.Fatal(err)
	}
	s.node.kill()
	s.node.start()
	eventually(s.t, moreWithin, "the clearing to be finished", func() bool {
		jobs, err := s.node.admin().Jobs(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		for _, j := range jobs {
			if j.ID == job.ID {
				job = j
				return j.Done
			}
		}
		s.t.Fatalf("job %s is not listed after the restart: %v", job.ID, jobs)
		return false
	})
	if job.Placed == 0 || job.Placed != job.Charged {
		s.t.Errorf("clearing %v: %+v", area, job)
	}
	return job.Placed
}

func rectText(r board.Rect) string {
	var parts []string
	for _, n := range []int{r.X, r.Y, r.Width, r.Height} {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ",")
}
