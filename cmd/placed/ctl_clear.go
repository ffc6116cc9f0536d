package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

type clearCommand struct {
	Rect string `arg:"" help:"X,Y,WIDTH,HEIGHT in tiles."`
	Why  string `env:"-" help:"Kept with the job."`
	Wait bool   `env:"-" help:"Wait until it is done."`
}

// Run starts a clearing, and with --wait waits for its end.
func (c *clearCommand) Run(ctx context.Context, root *commands, s *streams) error {
	rect, err := parseRect(c.Rect)
	if err != nil {
		return usageError{err}
	}
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (board.Job, error) {
		job, err := a.Clear(ctx, rect, c.Why)
		if err == nil && c.Wait {
			job, err = waitForJob(ctx, a, job)
		}
		return job, err
	}, func(w *tabwriter.Writer, j board.Job) { printJobs(w, []board.Job{j}) })
}

// jobEvery is the time between looks at a job that --wait waits for.
const jobEvery = 200 * time.Millisecond

// waitForJob asks until the job is done.
func waitForJob(ctx context.Context, a *client.Admin, job board.Job) (board.Job, error) {
	var err error
	for err == nil && !job.Done {
		if job, err = findJob(ctx, a, job.ID); err == nil && !job.Done {
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-time.After(jobEvery):
			}
		}
	}
	return job, err
}

func findJob(ctx context.Context, a *client.Admin, id string) (board.Job, error) {
	jobs, err := a.Jobs(ctx)
	for _, j := range jobs {
		if j.ID == id {
			return j, err
		}
	}
	return board.Job{}, errors.Join(err, fmt.Errorf("job %s is not listed any more", id))
}

type jobsCommand struct{}

// Run lists the jobs.
func (jobsCommand) Run(ctx context.Context, root *commands, s *streams) error {
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) ([]board.Job, error) { return a.Jobs(ctx) }, printJobs)
}

func printJobs(w *tabwriter.Writer, jobs []board.Job) {
	fmt.Fprintln(w, "ID\tKIND\tRECT\tOF\tCHARGED\tPLACED\tDONE\tAT\tBY\tWHY")
	for _, j := range jobs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%v\t%s\t%s\t%s\n", j.ID, j.Kind, rects([]board.Rect{j.Rect}), jobOf(j), j.Charged, j.Placed, j.Done, at(j.AtMs), j.By, j.Why)
	}
}

// jobOf tells what a roll-back takes back.
func jobOf(j board.Job) string {
	switch {
	case j.Undoes != "":
		return "job " + j.Undoes
	case j.SinceMs == 0:
		return "-"
	case j.User == "":
		return "since " + at(j.SinceMs)
	}
	return fmt.Sprintf("%s since %s", j.User, at(j.SinceMs))
}
