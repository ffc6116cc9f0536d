package actors

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store/mem"
)

// A roll-back goes on where it was after a crash at every one of its commits, as a clear does.
func TestRollbackGoesOnAfterACrashAtEveryCommit(t *testing.T) {
	start := func(r *opsRig) {
		r.run(r.shard.Receive(r.nowMs, StartJob{
			Job:   board.Job{Kind: "rollback", By: "op", Why: "sim", Rect: clearRect, SinceMs: 1, User: "ann", AtMs: r.nowMs},
			Reply: func(_ board.Job, err error) { r.answers = append(r.answers, err) },
		}))
	}
	check := func(r *opsRig, j board.Job, what string) {
		for p, n := range r.written {
			if n != 1 || !clearRect.Contains(p) {
				t.Errorf("%s: %v was written %d times", what, p, n)
			}
		}
		for p, c := range r.tiles {
			if clearRect.Contains(p) && c != 7 {
				t.Errorf("%s: %v has colour %d", what, p, c)
			}
		}
		if j.Charged != len(r.written) || j.Placed != j.Charged || j.User != "ann" || j.SinceMs != 1 {
			t.Errorf("%s: job %+v, %d tiles were written", what, j, len(r.written))
		}
	}
	r := newOpsRig(t)
	r.paint(clearRect)
	before := r.commits
	start(r)
	check(r, r.wait(), "no crash")
	commits := r.commits - before
	for stop := before + 1; stop <= before+commits && !t.Failed(); stop++ {
		for _, lost := range []string{"nothing", "answers", "charges"} {
			r := newOpsRig(t)
			r.paint(clearRect)
			r.stopAt, r.deaf, r.mute = stop, lost == "answers", lost == "charges"
			start(r)
			r.deaf, r.mute = false, false
			check(r, r.wait(), fmt.Sprintf("crash at commit %d of %d, %s lost", stop-before, commits, lost))
		}
	}
}

// A plan that could not be made is asked for again, and one that is old is made anew.
func TestRollbackPlansAgain(t *testing.T) {
	r := newOpsRig(t)
	s := r.shard
	s.Receive(r.nowMs, StartJob{
		Job: board.Job{Kind: "rollback", By: "op", Rect: clearRect, SinceMs: 1, AtMs: r.nowMs}, Reply: func(board.Job, error) {},
	})
	asks := func(effects []ShardEffect) *NeedPlan {
		for _, e := range effects {
			if n, ok := e.(NeedPlan); ok {
				return &n
			}
		}
		return nil
	}
	j := s.jobs.all[0]
	chunk, _ := j.chunk(0)
	if asks(s.Receive(r.nowMs+PlanAskMs-1, Tick{})) != nil || asks(s.Receive(r.nowMs+PlanAskMs, Tick{})) == nil {
		t.Fatal("a plan that was not heard of is not asked for again after PlanAskMs")
	}
	r.nowMs += PlanAskMs
	if asks(s.Receive(r.nowMs, ChunkPlanned{Number: j.number, Chunk: chunk, Failed: true})) != nil ||
		asks(s.Receive(r.nowMs+ChunkAskMs, Tick{})) == nil {
		t.Fatal("a plan that failed is not asked for again after ChunkAskMs")
	}
	r.nowMs += ChunkAskMs
	var many []PlannedTile
	for tile := range uint16(board.ChunkTiles) {
		many = append(many, PlannedTile{Tile: tile, Colour: 3})
	}
	if n := asks(s.Receive(r.nowMs, ChunkPlanned{Number: j.number, Chunk: chunk, Tiles: many})); n != nil {
		t.Fatalf("asks %+v with a fresh plan that is not written yet", n)
	}
	if n := asks(s.Receive(r.nowMs+PlanMs, Tick{})); n == nil || n.Chunk != chunk {
		t.Fatalf("asks %+v, want the old plan of chunk %v anew", n, chunk)
	}
}

// colourOf returns a tile's colour and kind as details tell them.
func (n *node) colourOf(x, y int) string {
	n.t.Helper()
	d, err := n.Tile(n.t.Context(), board.Point{X: x, Y: y})
	if err != nil {
		n.t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", d.Colour, d.Kind)
}

func (n *node) paint(user string, nonce uint64, x, y int, colour board.Colour) {
	n.t.Helper()
	o := n.Place(n.t.Context(), board.PlaceRequest{User: board.UserID(user), Nonce: nonce, At: board.Point{X: x, Y: y}, Colour: colour})
	n.want(o, board.VerdictAccepted, board.CodeOK)
}

func (n *node) rollBack(j board.Job) board.Job {
	n.t.Helper()
	plan, err := n.PlanRollback(n.t.Context(), j)
	if err != nil {
		n.t.Fatal(err)
	}
	job, err := n.Rollback(n.t.Context(), j)
	if err != nil {
		n.t.Fatal(err)
	}
	n.until("rolled back", func() bool {
		jobs, err := n.Jobs(n.t.Context())
		if err == nil && jobs[0].Done {
			job = jobs[0]
		}
		return job.Done
	})
	if plan.Tiles != job.Placed || plan.Job.Rect != job.Rect {
		n.t.Errorf("the dry run said %+v, the job %+v", plan, job)
	}
	<-time.After(time.Second)
	picture, err := n.picture(n.t.Context(), plan.Picture)
	if err != nil || string(colourBytes(picture)) != string(colourBytes(plan.Colours)) {
		n.t.Errorf("the picture of the dry run is not what came out (%v)", err)
	}
	return job
}

func colourBytes(colours []board.Colour) []byte {
	b := make([]byte, len(colours))
	for i, c := range colours {
		b[i] = byte(c)
	}
	return b
}

func TestRollbackAndUndo(t *testing.T) {
	bubble(t, mem.New(), func(c *Config) { c.Board.CooldownMs = 0 }, func(n *node) {
		n.paint("ann", 1, 5, 5, 2) // long ago: stays
		n.paint("bob", 1, 6, 5, 3)
		<-time.After(2 * time.Minute)
		since := time.Now().UnixMilli()
		for i, p := range [][2]int{{6, 5}, {6, 5}, {7, 5}, {150, 5}, {250, 250}} {
			n.paint("ann", uint64(10+i), p[0], p[1], board.Colour(8+i))
		}
		n.paint("bob", 20, 7, 5, 4) // over ann's
		n.paint("ann", 30, 5, 5, 2) // in the colour that it had: nothing to write
		all := board.Rect{Width: 300, Height: 300}
		job := n.rollBack(board.Job{User: "ann", SinceMs: since, Rect: all, By: "ops", Why: "vandal"})
		if job.Placed != 3 || job.By != "ops" || job.Why != "vandal" || job.Kind != "rollback" {
			t.Errorf("job %+v, want three tiles", job)
		}
		for at, want := range map[[2]int]string{
			{5, 5}: "2 user", {6, 5}: "3 rollback", {7, 5}: "4 user", {150, 5}: "0 rollback", {250, 250}: "0 rollback",
		} {
			if got := n.colourOf(at[0], at[1]); got != want {
				t.Errorf("tile %v after the roll-back: %s, want %s", at, got, want)
			}
		}
		n.paint("cyd", 1, 150, 5, 6) // after the roll-back: the undo leaves it alone
		undo := n.rollBack(board.Job{Undoes: job.ID, By: "ops", Why: "not a vandal"})
		if undo.Placed != 2 || undo.Undoes != job.ID {
			t.Errorf("undo %+v, want two tiles", undo)
		}
		for at, want := range map[[2]int]string{{6, 5}: "9 rollback", {150, 5}: "6 user", {250, 250}: "12 rollback"} {
			if got := n.colourOf(at[0], at[1]); got != want {
				t.Errorf("tile %v after the undo: %s, want %s", at, got, want)
			}
		}
		if job = n.rollBack(board.Job{Rect: board.Rect{X: 100, Width: 200, Height: 300}, SinceMs: since, By: "ops"}); job.Placed != 2 {
			t.Errorf("roll-back of a place: %+v, want two tiles", job)
		}
		compareHistories(n) // operators' writes are in the tiles' histories and in no user's
	})
}

func TestRollbacksRefused(t *testing.T) {
	bubble(t, mem.New(), nil, func(n *node) {
		rect, past := board.Rect{Width: 10, Height: 10}, time.Now().Add(-time.Hour).UnixMilli()
		for what, j := range map[string]board.Job{
			"no time":         {Rect: rect, By: "ops"},
			"the future":      {Rect: rect, By: "ops", SinceMs: time.Now().Add(time.Hour).UnixMilli()},
			"off the board":   {Rect: board.Rect{X: 300, Width: 5, Height: 5}, By: "ops", SinceMs: past},
			"no such user":    {Rect: rect, By: "ops", SinceMs: past, User: "\x00"},
			"nobody":          {Rect: rect, SinceMs: past},
			"a long reason":   {Rect: rect, By: "ops", SinceMs: past, Why: strings.Repeat("x", board.WhyBytesMax+1)},
			"no such job":     {By: "ops", Undoes: "00000000000000ff"},
			"no job's number": {By: "ops", Undoes: "../jobs"},
		} {
			if _, err := n.Rollback(n.t.Context(), j); !errors.Is(err, board.ErrRefused) {
				t.Errorf("%s: %v, want ErrRefused", what, err)
			}
			if _, err := n.PlanRollback(n.t.Context(), j); !errors.Is(err, board.ErrRefused) {
				t.Errorf("plan, %s: %v, want ErrRefused", what, err)
			}
		}
		if jobs, err := n.Jobs(n.t.Context()); err != nil || len(jobs) != 0 {
			t.Errorf("jobs %+v, %v", jobs, err)
		}
	})
}
