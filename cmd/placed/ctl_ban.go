package main

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

type banCommand struct {
	Add  banAdd  `cmd:"" default:"withargs" help:"Keep a user from placing (the default)."`
	List banList `cmd:"" help:"Show who is banned until when, by whom and why."`
}

type banAdd struct {
	User   string         `arg:"" help:"The user's name, or as a page shows somebody anonymous: 'anon xk67'."`
	For    *time.Duration `env:"-" help:"How long (default: without end)."`
	Why    string         `env:"-" help:"Kept with the ban."`
	Unseen bool           `env:"-" help:"In advance: the board need not have seen the user yet."`
}

// Run bans a user.
func (c *banAdd) Run(ctx context.Context, root *commands, s *streams) error {
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
		ban := a.Ban
		if c.Unseen {
			ban = a.BanUnseen
		}
		user, err := ban(ctx, user, until, c.Why)
		return map[string]any{"user": user, "until_ms": until}, err
	}, func(w *tabwriter.Writer, set map[string]any) { fmt.Fprintf(w, "%s is banned %s\n", set["user"], end) })
}

type banList struct {
	All bool `env:"-" help:"Lifted and ended bans too."`
}

// Run lists the bans.
func (c *banList) Run(ctx context.Context, root *commands, s *streams) error {
	now := time.Now().UnixMilli()
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) ([]board.Ban, error) {
		bans, err := a.Bans(ctx)
		if !c.All {
			bans = slices.DeleteFunc(bans, func(b board.Ban) bool { return b.UntilMs <= now })
		}
		return bans, err
	}, func(w *tabwriter.Writer, bans []board.Ban) {
		fmt.Fprintln(w, "USER\tBANNED\tAT\tBY\tWHY")
		for _, b := range bans {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", b.User, bannedText(b.UntilMs, now), at(b.AtMs), b.By, b.Why)
		}
	})
}

func bannedText(untilMs, nowMs int64) string {
	switch {
	case untilMs == 0:
		return "lifted"
	case untilMs == board.BannedForever:
		return "without end"
	case untilMs <= nowMs:
		return "ended " + at(untilMs)
	}
	return "until " + at(untilMs)
}

type unbanCommand struct {
	User string `arg:"" help:"The user's name."`
	Why  string `env:"-" help:"Kept with the user."`
}

// Run takes a ban back.
func (c *unbanCommand) Run(ctx context.Context, root *commands, s *streams) error {
	user, err := board.ParseUserID(c.User)
	if err != nil {
		return usageError{err}
	}
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (map[string]any, error) {
		user, err := a.Unban(ctx, user, c.Why)
		return map[string]any{"user": user}, err
	}, func(w *tabwriter.Writer, set map[string]any) { fmt.Fprintf(w, "%s may place again\n", set["user"]) })
}
