package actors

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// rollbackOf returns what a job takes back in a rectangle: what was placed until the job began, or what the job that it undoes
// wrote.
func rollbackOf(j *board.Job, undoes uint64, rect board.Rect) store.Rollback {
	return store.Rollback{Rect: rect, User: j.User, SinceMs: j.SinceMs, UntilMs: j.AtMs, Job: undoes}
}

// planChunk reads the journal of a chunk's block for a roll-back.
func (s *storing) planChunk(e NeedPlan) ChunkPlanned {
	planned := ChunkPlanned{Number: e.Number, Chunk: e.Chunk}
	rect := e.Chunk.Rect().Meet(e.Job.Rect)
	ctx, cancel := context.WithTimeout(s.ctx, ReadTimeout)
	defer cancel()
	changes, err := store.PlanRollback(ctx, s.store, rollbackOf(&e.Job, e.Undoes, rect))
	if err != nil {
		s.failed("plan_rollback", store.Block(e.Chunk.Block()).String(), err)
		planned.Failed = true
	}
	planned.Tiles = plannedTiles(changes)
	return planned
}

func plannedTiles(changes []store.Change) []PlannedTile {
	tiles := make([]PlannedTile, len(changes))
	for i, c := range changes {
		tiles[i] = PlannedTile{Tile: uint16(c.At.Tile()), Colour: c.Colour}
	}
	return tiles
}

// Rollback starts a job that takes placements back: those of a user (j.User; "" for everybody's) in j.Rect since j.SinceMs, or
// what the job j.Undoes wrote. Tiles that somebody else has painted since stay. An error that wraps board.ErrRefused says
// what is wrong with the job.
func (s *System) Rollback(ctx context.Context, j board.Job) (board.Job, error) {
	j, _, err := s.rollbackJob(ctx, j)
	if err != nil {
		return j, err
	}
	return s.startJob(ctx, j)
}

// PlanRollback returns what Rollback would do now.
func (s *System) PlanRollback(ctx context.Context, j board.Job) (board.RollbackPlan, error) {
	j, undoes, err := s.rollbackJob(ctx, j)
	plan := board.RollbackPlan{Job: j}
	if err != nil {
		return plan, err
	}
	changes, err := store.PlanRollback(ctx, s.store, rollbackOf(&j, undoes, j.Rect))
	if err != nil {
		return plan, fmt.Errorf("actors: %w", err)
	}
	plan.Tiles = len(changes)
	for _, c := range changes {
		plan.Placements += c.Placements
	}
	if j.Rect.Width*j.Rect.Height > board.WholeBoardTilesMax {
		return plan, nil
	}
	if plan.Colours, err = s.picture(ctx, j.Rect); err != nil {
		return plan, err
	}
	plan.Picture = j.Rect
	for _, c := range changes {
		plan.Colours[(c.At.Y-j.Rect.Y)*j.Rect.Width+c.At.X-j.Rect.X] = c.Colour
	}
	return plan, nil
}

// rollbackJob completes a job: its rectangle clipped to the board, or that of the job that it undoes, whose number is returned.
func (s *System) rollbackJob(ctx context.Context, j board.Job) (board.Job, uint64, error) {
	j.Kind = board.KindRollback.String()
	j.AtMs, _ = s.guard.now()
	var undoes uint64
	if j.Undoes != "" {
		jobs, err := s.Jobs(ctx)
		if err != nil {
			return j, 0, err
		}
		undone := board.Job{}
		for _, o := range jobs {
			if o.ID == j.Undoes {
				undone = o
			}
		}
		if undoes, err = strconv.ParseUint(undone.ID, 16, 64); err != nil {
			return j, 0, fmt.Errorf("actors: undo: %w: there is no job %q among the newest %d", board.ErrRefused, j.Undoes, JobsListedMax)
		}
		j.Rect, j.SinceMs = undone.Rect, undone.AtMs
	} else if j.SinceMs <= 0 || j.SinceMs > j.AtMs {
		return j, 0, fmt.Errorf("actors: roll back: %w: since %d ms is not in the past", board.ErrRefused, j.SinceMs)
	}
	rect, err := s.clip(j.Rect)
	j.Rect = rect
	if err == nil {
		err = checkJob(&j)
	}
	return j, undoes, err
}

// picture returns the colours of a rectangle as this node's feed has them, row by row.
func (s *System) picture(ctx context.Context, r board.Rect) ([]board.Colour, error) {
	colours := make([]board.Colour, r.Width*r.Height)
	first, last := board.Point{X: r.X, Y: r.Y}.Chunk(), board.Point{X: r.X + r.Width - 1, Y: r.Y + r.Height - 1}.Chunk()
	for row := first.Row(); row <= last.Row(); row++ {
		for col := first.Col(); col <= last.Col(); col++ {
			chunk := board.NewChunkID(col, row)
			image, ok := s.chunk(ctx, chunk)
			if !ok {
				return nil, errors.New("actors: picture: the feed does not answer")
			}
			if image.Tiles == nil {
				continue
			}
			for tile, colour := range image.Tiles {
				if p := chunk.Point(tile); r.Contains(p) {
					colours[(p.Y-r.Y)*r.Width+p.X-r.X] = colour
				}
			}
		}
	}
	return colours, nil
}
