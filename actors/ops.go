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
	// ChunkAskMs is after how long a job asks for a chunk again.
	ChunkAskMs = 1000
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

func (StartJob) shardMessage()  {}
func (GetJobs) shardMessage()   {}
func (ChunkRead) shardMessage() {}

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
	tiles   *board.Tiles
	ready   bool  // tiles belong to the chunk at the cursor
	askedMs int64 // for the chunk; 0: not asked
	isDirty bool
	reply   func(board.Job, error)
}

// storedJob is a job's row.
type storedJob struct {
	board.Job
	Cursor cursor `json:"cursor"`
	Number uint64 `json:"number"`
}

func (j *job) encode() []byte {
	b, err := json.Marshal(storedJob{Job: j.view(), Cursor: j.sealed, Number: j.number})
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
		l.all = append(l.all, &job{Job: s.Job, number: s.Number, at: s.Cursor, sealed: s.Cursor, made: s.Charged})
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
		j.ID = fmt.Sprintf("%016x", j.number)
		l.all = append(l.all, j)
	}
}

// checkJob refuses what a charge cannot carry.
func checkJob(j *board.Job) error {
	if _, err := board.ParseUserID(j.By); err != nil {
		return fmt.Errorf("actors: start job: %w: by %q: %w", board.ErrRefused, j.By, err)
	}
	if len(j.Why) > board.WhyBytesMax {
		return fmt.Errorf("actors: start job: %w: a reason of %d bytes, at most %d", board.ErrRefused, len(j.Why), board.WhyBytesMax)
	}
	if r := j.Rect; !r.Valid() {
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

func (l *jobs) chunkRead(m ChunkRead) {
	for _, j := range l.all {
		if chunk, ok := j.chunk(j.at.Chunk); ok && !j.Done && j.askedMs != 0 && chunk == m.Chunk {
			j.tiles, j.ready, j.askedMs = m.Tiles, true, 0
		}
	}
}

// next hands out charges of the oldest job that is not done, as far as there is room.
func (l *jobs) next(s *Shard, wallMs int64) {
	for _, j := range l.all {
		if !j.Done {
			j.walk(s, wallMs)
			return
		}
	}
}

func (j *job) walk(s *Shard, wallMs int64) {
	for {
		chunk, ok := j.chunk(j.at.Chunk)
		if !ok {
			if j.queued == 0 && j.open == 0 {
				j.Done, j.sealed, j.isDirty = true, j.at, true
			}
			return
		}
		if !j.ready {
			if j.askedMs == 0 || !waits(wallMs, j.askedMs+ChunkAskMs, ChunkAskMs) {
				j.askedMs = max(wallMs, 1)
				s.emit(NeedChunk{Chunk: chunk})
			}
			return
		}
		if j.tiles != nil && !j.charge(s, chunk) {
			return // no room: go on when charges have closed
		}
		j.at, j.ready, j.tiles = cursor{Chunk: j.at.Chunk + 1}, false, nil
	}
}

// charge queues charges for the tiles of the chunk from the cursor on, and reports whether it came to the end.
func (j *job) charge(s *Shard, chunk board.ChunkID) bool {
	for ; j.at.Tile < board.ChunkTiles; j.at.Tile++ {
		p := chunk.Point(j.at.Tile)
		if j.tiles[j.at.Tile] == 0 || !j.Rect.Contains(p) {
			continue
		}
		if !s.room(p.Block()) {
			return false
		}
		j.made++
		j.queued++
		s.enqueue(&charge{job: j, cursor: cursor{j.at.Chunk, j.at.Tile + 1}, Charge: store.Charge{
			User: board.UserID(j.By), Turn: uint64(j.made), Nonce: j.number, At: p, Kind: board.KindClear,
		}})
	}
	return true
}
