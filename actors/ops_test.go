package actors

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
)

// opsRig is the ops shard over a board that takes placements at once.
type opsRig struct {
	t       *testing.T
	shard   *Shard
	store   *mem.Core
	nowMs   int64
	rules   *Rules
	tiles   map[board.Point]board.Colour
	written map[board.Point]int
	unheard []store.Charge // on the board, the shard has not heard
	deaf    bool           // TilesPlaced is lost
	mute    bool           // and PlaceTiles
	commits int
	stopAt  int // crash after this many commits; 0: never
	answers []error
	jobs    []board.Job
}

func newOpsRig(t *testing.T) *opsRig {
	r := &opsRig{t: t, store: mem.NewCore(), nowMs: testStartMs, rules: testRules(nil, nil), tiles: map[board.Point]board.Colour{}, written: map[board.Point]int{}}
	r.restart()
	return r
}

func (r *opsRig) restart() {
	r.shard = NewShard(board.OpsShard, nodeA, r.rules, testRandom())
	r.run(r.shard.Receive(r.nowMs, Tick{}))
}

// run carries out effects, and those that follow, until there are none; a commit that stopAt names is the last thing a core
// does.
func (r *opsRig) run(effects []ShardEffect) {
	queue := slices.Clone(effects)
	more := func(m ShardMessage) { queue = append(queue, r.shard.Receive(r.nowMs, m)...) }
	for len(queue) > 0 {
		effect := queue[0]
		queue = queue[1:]
		switch e := effect.(type) {
		case LoadShard:
			p := store.Shard(board.OpsShard)
			more(ShardLoaded{Generation: e.Generation, Head: r.store.Head(p), Jobs: r.store.Rows(p)})
		case TakeSlot:
			more(SlotGranted{})
		case MakeCommit:
			if err := e.Commit.Validate(); err != nil {
				r.t.Fatal(err)
			}
			result := r.store.Commit(e.Commit)
			r.commits++
			if r.stopAt > 0 && r.commits == r.stopAt {
				r.restart() // the answer never comes
				return
			}
			more(CommitDone{Attempt: e.Commit.Head.Attempt, Result: result})
		case SendCharges:
			r.place(e.Message, more)
		case NeedPlan:
			more(ChunkPlanned{Number: e.Number, Chunk: e.Chunk, Tiles: r.planned(e.Chunk)})
		case NeedChunk:
			more(ChunkRead{Chunk: e.Chunk, Tiles: r.chunk(e.Chunk)})
		}
	}
}

// place is the board: it takes each ticket once.
func (r *opsRig) place(m PlaceTiles, more func(ShardMessage)) {
	if r.mute {
		return
	}
	placed := TilesPlaced{Shard: m.Shard, Block: m.Block}
	for _, c := range m.Charges {
		if !slices.Contains(r.unheard, c) {
			r.written[c.At]++
			r.tiles[c.At] = c.Colour
			r.unheard = append(r.unheard, c)
		}
		placed.Results = append(placed.Results, TicketPlaced{Ticket: c.Ticket, Sequence: 1})
	}
	if !r.deaf {
		more(placed)
	}
}

// chunk returns a chunk's tiles as the feed would, nil when there is none.
func (r *opsRig) chunk(id board.ChunkID) *board.Tiles {
	var tiles *board.Tiles
	for p, c := range r.tiles {
		if p.Chunk() == id {
			if tiles == nil {
				tiles = new(board.Tiles)
			}
			tiles[p.Tile()] = c
		}
	}
	return tiles
}

// planned is what a roll-back of everything to colour 7 would write.
func (r *opsRig) planned(id board.ChunkID) []PlannedTile {
	var tiles []PlannedTile
	for p, c := range r.tiles {
		if p.Chunk() == id && c != 7 {
			tiles = append(tiles, PlannedTile{Tile: uint16(p.Tile()), Colour: 7})
		}
	}
	slices.SortFunc(tiles, func(a, b PlannedTile) int { return int(a.Tile) - int(b.Tile) })
	return tiles
}

func (r *opsRig) start(rect board.Rect) {
	r.run(r.shard.Receive(r.nowMs, StartJob{
		Job:   board.Job{Kind: "clear", By: "op", Why: "sim", Rect: rect, AtMs: r.nowMs},
		Reply: func(_ board.Job, err error) { r.answers = append(r.answers, err) },
	}))
}

func (r *opsRig) list() []board.Job {
	r.run(r.shard.Receive(r.nowMs, GetJobs{Reply: func(jobs []board.Job) { r.jobs = jobs }}))
	return r.jobs
}

// wait lets time pass until the newest job is done.
func (r *opsRig) wait() board.Job {
	r.t.Helper()
	for range 100 {
		if jobs := r.list(); len(jobs) > 0 && jobs[0].Done {
			return jobs[0]
		}
		r.nowMs += CloseMs
		r.run(r.shard.Receive(r.nowMs, Tick{}))
	}
	r.t.Fatalf("the job never ends: %+v", r.jobs)
	return board.Job{}
}

// paint puts tiles on the board, blank ones too, in and around the rectangle; it returns how many differ inside it.
func (r *opsRig) paint(rect board.Rect) int {
	n := 0
	for i := range 400 {
		p := board.Point{X: rect.X - 20 + i*7%(rect.Width+40), Y: rect.Y - 20 + i*13%(rect.Height+40)}
		if p.X < 0 || p.Y < 0 {
			continue
		}
		r.tiles[p] = board.Colour(i % 4)
	}
	for p, c := range r.tiles {
		if c != 0 && rect.Contains(p) {
			n++
		}
	}
	return n
}

var clearRect = board.Rect{X: 30, Y: 40, Width: 90, Height: 75}

func (r *opsRig) checkCleared(want int) {
	r.t.Helper()
	sum := 0
	for p, n := range r.written {
		if sum += n; n != 1 || !clearRect.Contains(p) {
			r.t.Errorf("%v was written %d times", p, n)
		}
	}
	if sum != want {
		r.t.Errorf("%d tiles written, %d differed", sum, want)
	}
	for p, c := range r.tiles {
		if c != 0 && clearRect.Contains(p) {
			r.t.Errorf("%v still has colour %d", p, c)
		}
	}
}

// A clear writes the tiles that differ, each once, and its counts add up.
func TestClearWritesWhatDiffers(t *testing.T) {
	r := newOpsRig(t)
	want := r.paint(clearRect)
	r.start(clearRect)
	if len(r.answers) != 1 || r.answers[0] != nil {
		t.Fatalf("answers %v", r.answers)
	}
	j := r.wait()
	if j.Charged != want || j.Placed != want || j.By != "op" || j.Why != "sim" || j.Rect != clearRect {
		t.Errorf("job %+v, want %d tiles", j, want)
	}
	r.checkCleared(want)
	r.start(clearRect)
	if j := r.wait(); j.Charged != 0 {
		t.Errorf("a clear of blank tiles wrote %d", j.Charged)
	}
}

// It goes on where it was after a crash at every one of its commits: no tile is left out, none is written twice.
func TestClearGoesOnAfterACrashAtEveryCommit(t *testing.T) {
	r := newOpsRig(t)
	want := r.paint(clearRect)
	before := r.commits
	r.start(clearRect)
	r.wait()
	commits := r.commits - before
	if commits < 5 {
		t.Fatalf("only %d commits to crash at", commits)
	}
	for stop := before + 1; stop <= before+commits; stop++ {
		for _, lost := range []string{"nothing", "answers", "charges"} {
			r := newOpsRig(t)
			r.paint(clearRect)
			r.stopAt, r.deaf, r.mute = stop, lost == "answers", lost == "charges"
			r.start(clearRect)
			r.deaf, r.mute = false, false
			j := r.wait()
			r.checkCleared(want)
			if j.Charged != want || j.Placed != want {
				t.Errorf("crash at commit %d: job %+v, want %d", stop, j, want)
			}
			if t.Failed() {
				t.Fatalf("crash at commit %d of %d, %s lost", stop-before, commits, lost)
			}
		}
	}
}

// A job has at most 32 charges open for a block and 512 in all, and goes on as they close.
func TestClearStaysWithinTheShardsBounds(t *testing.T) {
	r := newOpsRig(t)
	rect := board.Rect{X: 0, Y: 0, Width: 1000, Height: 1000}
	for block := range 40 {
		for i := range 50 {
			r.tiles[board.Point{X: block%8*100 + i, Y: block/8*100 + i}] = 5
		}
	}
	r.deaf = true
	r.start(rect)
	if open := r.shard.Open(); open > ShardOpenMax || open < ShardBlockOpenMax {
		t.Fatalf("%d charges open", open)
	}
	for b, l := range r.shard.blocks {
		if l.unclosed > ShardBlockOpenMax {
			t.Fatalf("block %v has %d open", b, l.unclosed)
		}
	}
	r.deaf = false
	if j := r.wait(); j.Placed != 40*50 {
		t.Errorf("job %+v", j)
	}
}

// A stored job that does not decode is reported; the others go on.
func TestJobThatDoesNotDecode(t *testing.T) {
	r := newOpsRig(t)
	rect := board.Rect{X: 10, Y: 10, Width: 30, Height: 30}
	r.paint(rect)
	r.start(rect)
	rows := append(r.store.Rows(store.Shard(board.OpsShard)), store.Row{Key: "broken", Value: []byte("{")})
	late := NewShard(board.OpsShard, nodeB, r.shard.rules, testRandom())
	load := one[LoadShard](t, slices.Clone(late.Receive(r.nowMs, Tick{})))
	loaded := ShardLoaded{Generation: load.Generation, Head: r.store.Head(store.Shard(board.OpsShard)), Jobs: rows}
	if p := one[ReportProblem](t, late.Receive(r.nowMs, loaded)); !errors.Is(p.Err, store.ErrCorrupt) {
		t.Errorf("reported %v", p.Err)
	}
	if !late.loaded || len(late.jobs.list()) != 1 {
		t.Errorf("loaded %v with %d jobs", late.loaded, len(late.jobs.list()))
	}
}

func TestJobsRefused(t *testing.T) {
	for name, j := range map[string]board.Job{
		"by nobody":        {Rect: clearRect},
		"by a long name":   {By: strings.Repeat("x", board.UserBytesMax+1), Rect: clearRect},
		"a long reason":    {By: "op", Why: strings.Repeat("x", board.WhyBytesMax+1), Rect: clearRect},
		"nothing":          {By: "op", Rect: board.Rect{X: 1, Y: 1, Width: 0, Height: 4}},
		"left of all":      {By: "op", Rect: board.Rect{X: -1, Y: 1, Width: 4, Height: 4}},
		"beyond the limit": {By: "op", Rect: board.Rect{X: board.SideMax - 1, Y: 1, Width: 2, Height: 1}},
	} {
		r := newOpsRig(t)
		var got error
		r.run(r.shard.Receive(r.nowMs, StartJob{Job: j, Reply: func(_ board.Job, err error) { got = err }}))
		if got == nil || len(r.list()) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	r := newOpsRig(t)
	r.deaf = true
	r.paint(clearRect)
	for range JobsActiveMax + 1 {
		r.start(clearRect)
	}
	if last := r.answers[len(r.answers)-1]; last == nil || r.answers[JobsActiveMax-1] != nil {
		t.Errorf("the last of %d jobs: %v", len(r.answers), last)
	}
	var lost error
	r.shard.Receive(r.nowMs, StartJob{Job: board.Job{By: "op", Rect: clearRect}, Reply: func(_ board.Job, err error) { lost = err }})
	if lost == nil {
		t.Error("a job beyond the bound is not refused")
	}
}

// Whoever started a job hears that its fate is unknown when the shard loses its memory.
func TestJobUnknown(t *testing.T) {
	r := newOpsRig(t)
	var got []error
	effects := slices.Clone(r.shard.Receive(r.nowMs, StartJob{
		Job: board.Job{By: "op", Rect: clearRect}, Reply: func(_ board.Job, err error) { got = append(got, err) },
	}))
	one[TakeSlot](t, effects)
	c := one[MakeCommit](t, slices.Clone(r.shard.Receive(r.nowMs, SlotGranted{}))).Commit
	r.store.Commit(r.store.Rival(store.Shard(board.OpsShard), store.Owner{Address: nodeB.Address, SettingsVersion: 1}, 99))
	r.run(r.shard.Receive(r.nowMs, CommitDone{Attempt: c.Head.Attempt, Result: r.store.Commit(c)}))
	if len(got) != 1 || got[0] == nil {
		t.Errorf("answers %v", got)
	}
}
