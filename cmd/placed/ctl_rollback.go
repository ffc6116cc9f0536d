package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

type rollbackCommand struct {
	User  string `env:"-" help:"Take back what this user placed."`
	Rect  string `env:"-" help:"X,Y,WIDTH,HEIGHT: take back what was placed here, by --user or by anybody."`
	Since string `env:"-" help:"How long ago it began, as 30m, or when, as 2026-04-01T13:00:00Z."`
	Undo  string `env:"-" placeholder:"JOB" help:"Take back what a clear or roll-back wrote; see ctl jobs."`
	PNG   string `env:"-" type:"path" placeholder:"FILE" default:"rollback.png" help:"Where a dry run draws the result."`
	Why   string `env:"-" help:"Kept with the job."`
	Yes   bool   `env:"-" help:"Do it."`
	Wait  bool   `env:"-" help:"With --yes: wait until it is done."`
}

// Run shows what a roll-back would do, or with --yes starts it.
func (c *rollbackCommand) Run(ctx context.Context, root *commands, s *streams) error {
	request, err := c.request(time.Now())
	if err != nil {
		return usageError{err}
	}
	if c.Yes {
		return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (board.Job, error) {
			job, err := a.Rollback(ctx, request)
			if err == nil && c.Wait {
				job, err = waitForJob(ctx, a, job)
			}
			return job, err
		}, func(w *tabwriter.Writer, j board.Job) { printJobs(w, []board.Job{j}) })
	}
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (client.RollbackPlan, error) {
		plan, err := a.PlanRollback(ctx, request)
		if err == nil && len(plan.PNG) > 0 {
			err = os.WriteFile(c.PNG, plan.PNG, 0o644)
		}
		return plan, err
	}, func(w *tabwriter.Writer, p client.RollbackPlan) {
		fmt.Fprintf(w, "%d tiles would change, %d placements be taken back, since %s.\n", p.Tiles, p.Placements, at(p.Job.SinceMs))
		if len(p.PNG) > 0 {
			r := p.Picture
			fmt.Fprintf(w, "%s shows the result: %dx%d tiles from (%d,%d) on.\n", c.PNG, r.Width, r.Height, r.X, r.Y)
		}
		fmt.Fprintln(w, "Nothing was changed: say --yes to do it.")
	})
}

// request checks the flags.
func (c *rollbackCommand) request(now time.Time) (client.RollbackRequest, error) {
	r := client.RollbackRequest{Undo: c.Undo, Why: c.Why}
	if c.Undo != "" {
		if c.User != "" || c.Rect != "" || c.Since != "" {
			return r, errors.New("--undo takes back what a job wrote, whatever --user, --rect and --since say: leave them out")
		}
		return r, nil
	}
	if c.User == "" && c.Rect == "" {
		return r, errors.New("say whose placements (--user), where (--rect) or both; or a job (--undo)")
	}
	if c.Rect != "" {
		rect, err := parseRect(c.Rect)
		if err != nil {
			return r, err
		}
		r.Rect = &rect
	}
	if c.User != "" {
		user, err := board.ParseUserID(c.User)
		if err != nil {
			return r, fmt.Errorf("--user %q: %w", c.User, err)
		}
		r.User = user
	}
	since, err := sinceTime(c.Since, now)
	r.SinceMs = since.UnixMilli()
	return r, err
}

// sinceTime reads a time, or how long ago it was.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return now, errors.New("say since when, as --since 30m or --since 2026-04-01T13:00:00Z")
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d <= 0 {
			return now, fmt.Errorf("--since %s is not in the past", text)
		}
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return now, fmt.Errorf("--since %q is neither a duration, as 30m, nor a time, as 2026-04-01T13:00:00Z", text)
	}
	if !t.Before(now) {
		return now, fmt.Errorf("--since %s is not in the past", text)
	}
	return t, nil
}
