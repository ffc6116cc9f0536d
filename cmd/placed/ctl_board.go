package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/placed-board/placed/client"
)

type boardCommand struct {
	Reset boardReset `cmd:"" help:"Back the board up, then replace it by an empty one with the same settings and bans."`
}

type boardReset struct {
	Backup string `env:"-" help:"Archive to write first (default: a name with the board's epoch and the time)."`
	Yes    bool   `env:"-" help:"Do not ask."`
	Why    string `env:"-" help:"Kept with the new board's settings."`
}

// Timing of a reset.
const (
	resetTimeout = time.Minute // for the node to come back
	resetPause   = 100 * time.Millisecond
)

// Run backs up, resets, and waits for the new board.
func (c *boardReset) Run(ctx context.Context, root *commands, s *streams) error {
	admin, err := root.Ctl.admin()
	if err != nil {
		return err
	}
	status, err := admin.Status(ctx)
	if err != nil {
		return explain(err)
	}
	if !c.Yes {
		what := fmt.Sprintf("The board %s is replaced by an empty one, for everybody; %d people are there. Its archive is written first.", status.Epoch, status.Online)
		if err := ask(s, what); err != nil {
			return err
		}
	}
	path, _, err := saveArchive(c.Backup, archiveOf(ctx, admin))
	if err != nil {
		return explain(fmt.Errorf("the board is not reset, since it could not be backed up: %w", err))
	}
	fmt.Fprintf(s.err, "backed up to %s\n", path)
	if err := admin.Reset(ctx, status.Epoch, c.Why); err != nil {
		return explain(err)
	}
	epoch, err := awaitBoard(ctx, admin, status.Epoch)
	if err != nil {
		return err
	}
	return root.Ctl.print(s, map[string]string{"epoch": epoch, "replaced": status.Epoch, "backup": path}, func(w *tabwriter.Writer) {
		fmt.Fprintf(w, "epoch\t%s\nreplaced\t%s\nbackup\t%s\n", epoch, status.Epoch, path)
	})
}

// awaitBoard waits until the node is ready with another board than before.
func awaitBoard(ctx context.Context, a *client.Admin, before string) (epoch string, err error) {
	ctx, cancel := context.WithTimeout(ctx, resetTimeout)
	defer cancel()
	for {
		status, err := a.Status(ctx)
		if err == nil && status.Epoch != before && status.Readiness.Ready {
			return status.Epoch, nil
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(errors.New("the board is reset, but the node has not come back with it: look at its log"), err)
		case <-time.After(resetPause):
		}
	}
}
