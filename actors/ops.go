package actors

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Bounds of operators' jobs.
const (
	// JobsActiveMax is how many jobs may be under way; beyond: refused.
	JobsActiveMax = 64
	// JobsListedMax is how many jobs, ended ones included, a listing names: the newest.
	JobsListedMax = 100
	// ChunkAskMs is after how long a job asks for a chunk again, and for a plan that could not be made.
	ChunkAskMs = 1000
	// PlanAskMs is after how long a roll-back asks again for a plan of which nothing was heard.
	PlanAskMs = 60_000
	// PlanMs is for how long a plan is good: what is painted later is seen by the next.
	PlanMs = 1000
)

// StartJob starts an operator's job. From: the admin API. Reply is called once the job is durable, or with an error.
type StartJob struct {
	Job   board.Job
	Reply func(board.Job, error) // must not block
}

// GetJobs asks for the jobs, the newest first. From: the admin API.
type GetJobs struct{ Reply func([]board.Job) }

// ChunkRead brings a chunk's tiles as the node's feed has them. From: the feed.
type ChunkRead struct {
	Chunk board.ChunkID
	Tiles *board.Tiles // nil for a chunk without placements; not changed afterwards
}

// ChunkPlanned brings what a roll-back has to write in a chunk, from the journals. From: the node.
type ChunkPlanned struct {
	Number uint64 // of the job
	Chunk  board.ChunkID
	Tiles  []PlannedTile // ascending
	Failed bool          // the store could not be read
}

// PlannedTile is a tile that an operator's job writes.
type PlannedTile struct {
	Tile   uint16
	Colour board.Colour
}

func (StartJob) shardMessage()     {}
func (GetJobs) shardMessage()      {}
func (ChunkRead) shardMessage()    {}
func (ChunkPlanned) shardMessage() {}

// jobs are the operators' writes under way in the ops shard. A job walks the chunks of its rectangle and charges every tile
// that differs; the cursor is durable with the commit that makes the charges, so a job goes on after a crash where it was.
type jobs struct{ all []*job }

// cursor is a place in a job's walk: the next tile of the next chunk.
type cursor struct {
	Chunk int `json:"chunk"` // index in the walk over the rectangle's chunks, row by row
	Tile  int `json:"tile"`
}

type job struct {
	board.Job
	number  uint64 // the nonce of its charges
	at      cursor // of the walk
	sealed  cursor // behind the last charge that a commit carries: what is stored
	made    int    // charges handed out
	queued  int    // of these, not in a commit yet
	open    int    // of these, in a commit and not on the board yet
	undoes  uint64 // the number of the job that this one undoes
	plan    []PlannedTile
	ready   bool  // the plan belongs to the chunk at the cursor
	readyMs int64 // since when
	askMs   int64 // when to ask for the chunk or plan again
	askedMs int64 // for how long to wait then; 0: not asked
	isDirty bool
	reply   func(board.Job, error)
}

// storedJob is a job's row.
type storedJob struct {
	board.Job
	Cursor cursor `json:"cursor"`
	Number uint64 `json:"number"`
	Undoes uint64 `json:"undoes_number,omitempty"`
}

func (j *job) encode() []byte {
	b, err := json.Marshal(storedJob{Job: j.view(), Cursor: j.sealed, Number: j.number, Undoes: j.undoes})
	if err != nil {
		panic(fmt.Sprintf("actors: encode job: %v", err)) // plain values only
	}
	return b
}

// view returns the job with its counts.
func (j *job) view() board.Job {
	v := j.Job
	v.Charged = j.made - j.queued
	v.Placed = v.Charged - j.open
	return v
}

// chunk returns the chunk at index i of the walk, and false behind the last.
func (j *job) chunk(i int) (board.ChunkID, bool) {
	r := j.Rect
	first := board.Point{X: r.X, Y: r.Y}.Chunk()
	last := board.Point{X: r.X + r.Width - 1, Y: r.Y + r.Height - 1}.Chunk()
	cols := last.Col() - first.Col() + 1
	if i >= cols*(last.Row()-first.Row()+1) {
		return 0, false
	}
	return board.NewChunkID(first.Col()+i%cols, first.Row()+i/cols), true
}

// load takes the stored jobs; the error names those that do not decode, which are left alone.
func (l *jobs) load(rows []store.Row) error {
	var errs []error
	for _, r := range rows {
		var s storedJob
		if err := json.Unmarshal(r.Value, &s); err != nil {
			errs = append(errs, fmt.Errorf("actors: decode job %s: %w: %w", r.Key, store.ErrCorrupt, err))
			continue
		}
		l.all = append(l.all, &job{Job: s.Job, number: s.Number, undoes: s.Undoes, at: s.Cursor, sealed: s.Cursor, made: s.Charged})
	}
	slices.SortFunc(l.all, func(a, b *job) int { return cmp.Compare(a.AtMs, b.AtMs) })
	return errors.Join(errs...)
}

// adopt gives an open charge that was found in the head back to its job.
func (l *jobs) adopt(c *charge) {
	for _, j := range l.all {
		if j.number == c.Nonce {
			c.job = j
			j.open++
		}
	}
}

func (l *jobs) start(s *Shard, m StartJob) {
	active := 0
	for _, j := range l.all {
		if !j.Done {
			active++
		}
	}
	switch err := checkJob(&m.Job); {
	case err != nil:
		m.Reply(m.Job, err)
	case !s.loaded:
		m.Reply(m.Job, errors.New("actors: start job: the ops shard is not loaded"))
	case active >= JobsActiveMax:
		m.Reply(m.Job, fmt.Errorf("actors: start job: %w: %d jobs are under way already", board.ErrRefused, active))
	default:
		j := &job{Job: m.Job, number: s.random(), isDirty: true, reply: m.Reply}
		if err := l.undo(j); err != nil {
			m.Reply(m.Job, err)
			return
		}
		j.ID = fmt.Sprintf("%016x", j.number)
		l.all = append(l.all, j)
	}
}

// undo gives a job that undoes another one the place and time of that one.
func (l *jobs) undo(j *job) error {
	if j.Undoes == "" {
		return nil
	}
	for _, o := range l.all {
		if o.ID == j.Undoes {
			j.Rect, j.SinceMs, j.undoes = o.Rect, o.AtMs, o.number
			return nil
		}
	}
	return fmt.Errorf("actors: undo job: %w: there is no job %q", board.ErrRefused, j.Undoes)
}

// checkJob refuses what a charge cannot carry.
func checkJob(j *board.Job) error {
	if _, err := board.ParseUserID(j.By); err != nil {
		return fmt.Errorf("actors: start job: %w: by %q: %w", board.ErrRefused, j.By, err)
	}
	if len(j.Why) > board.WhyBytesMax {
		return fmt.Errorf("actors: start job: %w: a reason of %d bytes, at most %d", board.ErrRefused, len(j.Why), board.WhyBytesMax)
	}
	if j.User != "" {
		if _, err := board.ParseUserID(string(j.User)); err != nil {
			return fmt.Errorf("actors: start job: %w: user %q: %w", board.ErrRefused, j.User, err)
		}
	}
	if r := j.Rect; !r.Valid() && j.Undoes == "" {
		return fmt.Errorf("actors: start job: %w: the rectangle (%d,%d %dx%d) does not lie within 0..%d", board.ErrRefused, r.X, r.Y, r.Width, r.Height, board.SideMax-1)
	}
	return nil
}

// errJobUnknown says that a job may have been stored or not.
var errJobUnknown = fmt.Errorf("actors: start job: %w: look at the list of jobs", board.ErrUnknown)

// lost answers those who wait for a job to be durable: nobody knows.
func (l *jobs) lost() {
	for _, j := range l.all {
		if j.reply != nil {
			j.reply(j.view(), errJobUnknown)
		}
	}
}

func (l *jobs) list() []board.Job {
	var out []board.Job
	for i := len(l.all) - 1; i >= 0 && len(out) < JobsListedMax; i-- {
		out = append(out, l.all[i].view())
	}
	return out
}

func (l *jobs) dirty() []*job {
	var out []*job
	for _, j := range l.all {
		if j.isDirty {
			out = append(out, j)
		}
	}
	return out
}

func (l *jobs) changed() bool {
	return slices.ContainsFunc(l.all, func(j *job) bool { return j.isDirty })
}

// applied tells who started a job that it is durable.
func (l *jobs) applied(written []*job) {
	for _, j := range written {
		if j.reply != nil {
			j.reply(j.view(), nil)
			j.reply = nil
		}
	}
}

func (l *jobs) placed(c *charge) {
	if c.job != nil {
		c.job.open--
	}
}
