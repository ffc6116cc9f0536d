package transport

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"

	"github.com/placed-board/placed/board"
)

// rollback is the body of POST /admin/v1/rollback. Either Undo names a job, or SinceMs and at least one of User and Rect say
// what is taken back.
type rollback struct {
	User    string      `json:"user"`
	Rect    *board.Rect `json:"rect"`
	SinceMs int64       `json:"since_ms"` // Unix milliseconds
	Undo    string      `json:"undo"`
	DryRun  *bool       `json:"dry_run"` // has to be said
	By      string      `json:"by"`
	Why     string      `json:"why"`
}

// rollbackPlan is the answer to a dry run.
type rollbackPlan struct {
	board.RollbackPlan
	PNG []byte `json:"png,omitempty"` // the result within the rectangle; none when that is too large
}

// adminRollback answers a dry run with 200 and what would happen; else it starts the job and answers 202 with it.
func (s *Server) adminRollback(w http.ResponseWriter, r *http.Request) {
	var body rollback
	if p := readJSON(w, r, adminBodyBytesMax, &body); p != nil {
		s.fail(w, p)
		return
	}
	settings := s.deps.Board.Settings().Settings
	job, p := body.job(r, settings.Bounds())
	if p != nil {
		s.fail(w, p)
		return
	}
	if job.User != "" {
		user, err := s.knownUser(r.Context(), job.User)
		if err != nil {
			s.askFailed(w, r, err)
			return
		}
		job.User = user
	}
	if *body.DryRun {
		plan, err := s.deps.Admin.PlanRollback(r.Context(), job)
		answer := rollbackPlan{RollbackPlan: plan}
		if err == nil {
			answer.PNG, err = drawTiles(plan.Picture, plan.Colours, settings.Palette)
		}
		if err != nil {
			s.askFailed(w, r, err)
			return
		}
		writeJSON(w, http.StatusOK, "no-store", answer)
		return
	}
	job, err := s.deps.Admin.Rollback(r.Context(), job)
	if err != nil {
		s.askFailed(w, r, err)
		return
	}
	s.log.Info("rolling back", "job", job.ID, "user", string(job.User), "rect", job.Rect, "since_ms", job.SinceMs, "undoes", job.Undoes,
		"by", job.By, "why", job.Why)
	writeJSON(w, http.StatusAccepted, "no-store", job)
}

// job checks what was asked for.
func (b *rollback) job(r *http.Request, bounds board.Rect) (board.Job, *problem) {
	by, why, p := whoAndWhy(r, b.By, b.Why)
	if p != nil {
		return board.Job{}, p
	}
	job := board.Job{Undoes: b.Undo, SinceMs: b.SinceMs, Rect: bounds, By: by, Why: why}
	bad := func(format string, a ...any) (board.Job, *problem) {
		return job, newProblem(problemBadRequest, fmt.Sprintf(format, a...))
	}
	switch {
	case b.DryRun == nil:
		return bad("dry_run is needed: true to see what would happen, false to do it")
	case b.Undo != "" && (b.User != "" || b.Rect != nil || b.SinceMs != 0):
		return bad("undo names a job and takes nothing else")
	case b.Undo != "":
		return job, nil
	case b.User == "" && b.Rect == nil:
		return bad("a user, a rect or both are needed, or undo")
	case b.SinceMs <= 0:
		return bad("since_ms is needed: Unix milliseconds in the past")
	case b.Rect != nil && !validRect(b.Rect):
		return bad("rect must have a width and height of at least 1 and lie within 0..%d", board.SideMax-1)
	}
	if b.Rect != nil {
		job.Rect = *b.Rect
	}
	if b.User != "" {
		user, err := board.ParseUserID(b.User)
		if err != nil {
			return job, newProblem(problemUserName, err.Error())
		}
		job.User = user
	}
	return job, nil
}

// drawTiles draws colours row by row, one pixel a tile; an empty rectangle gives nothing. A colour beyond the palette is drawn
// as the first.
func drawTiles(r board.Rect, colours []board.Colour, entries []board.PaletteEntry) ([]byte, error) {
	if len(colours) == 0 {
		return nil, nil
	}
	img := image.NewPaletted(image.Rect(0, 0, r.Width, r.Height), paletteOf(entries))
	for i, c := range colours {
		if int(c) < len(entries) {
			img.Pix[i] = uint8(c)
		}
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	err := encoder.Encode(&out, img)
	return out.Bytes(), err
}
