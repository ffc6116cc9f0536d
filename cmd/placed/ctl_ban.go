package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

type banCommand struct {
	User string         `arg:"" help:"The user's name."`
	For  *time.Duration `env:"-" help:"How long (default: without end)."`
	Why  string         `env:"-" help:"Logged."`
}

// Run bans a user.
func (c *banCommand) Run(ctx context.Context, root *commands, s *streams) error {
	user, err := board.ParseUserID(c.User)
	if err != nil {
		return usageError{err}
	}
	until, end := board.BannedForever, "without end"
	if c.For != nil {
		if *c.For <= 0 {
			return usageError{fmt.Errorf("--for %v is not in the future", *c.For)}
		}
		until = time.Now().Add(*c.For).UnixMilli()
		end = "until " + at(until)
	}
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (map[string]any, error) {
		return map[string]any{"user": user, "until_ms": until}, a.Ban(ctx, user, until, c.Why)
	}, func(w *tabwriter.Writer, _ map[string]any) { fmt.Fprintf(w, "%s is banned %s\n", user, end) })
}

type unbanCommand struct {
	User string `arg:"" help:"The user's name."`
	Why  string `env:"-" help:"Logged."`
}

// Run takes a ban back.
func (c *unbanCommand) Run(ctx context.Context, root *commands, s *streams) error {
	user, err := board.ParseUserID(c.User)
	if err != nil {
		return usageError{err}
	}
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (map[string]any, error) {
		return map[string]any{"user": user}, a.Unban(ctx, user, c.Why)
	}, func(w *tabwriter.Writer, _ map[string]any) { fmt.Fprintf(w, "%s may place again\n", user) })
}
