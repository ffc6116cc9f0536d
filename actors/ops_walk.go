package actors

import (
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// A job walks the chunks of its rectangle, row by row. For each it hears what has to be written: a clear from the feed's copy
// of the chunk, a roll-back from the journals.

// chunkRead makes a clear's plan: every tile that is not blank yet.
func (l *jobs) chunkRead(wallMs int64, m ChunkRead) {
	for _, j := range l.all {
		chunk, ok := j.chunk(j.at.Chunk)
		if !ok || j.Done || j.askedMs == 0 || chunk != m.Chunk || j.rollsBack() {
			continue
		}
		j.plan = j.plan[:0]
		if m.Tiles != nil {
			for tile, colour := range m.Tiles {
				if colour != 0 {
					j.plan = append(j.plan, PlannedTile{Tile: uint16(tile)})
				}
			}
		}
		j.ready, j.readyMs, j.askedMs = true, wallMs, 0
	}
}

func (l *jobs) chunkPlanned(wallMs int64, m ChunkPlanned) {
	for _, j := range l.all {
		chunk, ok := j.chunk(j.at.Chunk)
		if j.number != m.Number || !ok || j.Done || j.askedMs == 0 || chunk != m.Chunk {
			continue
		}
		if m.Failed {
			j.ask(wallMs, ChunkAskMs)
			continue
		}
		j.plan, j.ready, j.readyMs, j.askedMs = m.Tiles, true, wallMs, 0
	}
}

func (j *job) rollsBack() bool { return j.Kind == board.KindRollback.String() }

// ask notes that a question is under way, to be asked again after a while.
func (j *job) ask(wallMs, againMs int64) { j.askMs, j.askedMs = wallMs+againMs, againMs }

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
		if j.ready && j.rollsBack() && !waits(wallMs, j.readyMs+PlanMs, PlanMs) {
			j.ready = false
		}
		if !j.ready {
			j.prepare(s, wallMs, chunk)
			return
		}
		if !j.charge(s, chunk) {
			return // no room: go on when charges have closed
		}
		j.at, j.ready, j.plan = cursor{Chunk: j.at.Chunk + 1}, false, nil
	}
}

// prepare asks what has to be written in a chunk, unless an answer is awaited.
func (j *job) prepare(s *Shard, wallMs int64, chunk board.ChunkID) {
	switch {
	case j.askedMs != 0 && waits(wallMs, j.askMs, j.askedMs):
	case j.rollsBack():
		j.ask(wallMs, PlanAskMs)
		s.emit(NeedPlan{Job: j.Job, Number: j.number, Undoes: j.undoes, Chunk: chunk})
	default:
		j.ask(wallMs, ChunkAskMs)
		s.emit(NeedChunk{Chunk: chunk})
	}
}

// charge queues charges for the planned tiles of the chunk from the cursor on, and reports whether it came to the end.
func (j *job) charge(s *Shard, chunk board.ChunkID) bool {
	kind := board.KindClear
	if j.rollsBack() {
		kind = board.KindRollback
	}
	from, _ := slices.BinarySearchFunc(j.plan, j.at.Tile, func(t PlannedTile, tile int) int { return int(t.Tile) - tile })
	for _, t := range j.plan[from:] {
		p := chunk.Point(int(t.Tile))
		if !j.Rect.Contains(p) {
			continue
		}
		if !s.room(p.Block()) {
			return false
		}
		j.made++
		j.queued++
		j.at.Tile = int(t.Tile) + 1
		s.enqueue(&charge{job: j, cursor: j.at, Charge: store.Charge{
			User: board.UserID(j.By), Turn: uint64(j.made), Nonce: j.number, At: p, Colour: t.Colour, Kind: kind,
		}})
	}
	return true
}
