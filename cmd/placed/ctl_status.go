package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

type statusCommand struct{}

// Run shows the status.
func (statusCommand) Run(ctx context.Context, root *commands, s *streams) error {
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (board.Status, error) { return a.Status(ctx) },
		func(w *tabwriter.Writer, st board.Status) {
			ready := "ready"
			if !st.Readiness.Ready {
				ready = "not ready: " + strings.Join(st.Readiness.Reasons, "; ")
			}
			force := "in force"
			switch {
			case !st.InForce:
				force = "not in force in every shard yet"
			case st.FrozenFully:
				force = "frozen"
			}
			fmt.Fprintf(w, "state\t%s\nversion\t%s\nstore\t%s\nepoch\t%s\nsessions\t%d\npeople\t%d\nsettings\tversion %d, %s\n",
				ready, st.Version, st.Store, st.Epoch, st.Sessions, st.Online, st.SettingsVersion, force)
			fmt.Fprintf(w, "open charges\t%d\nregions\t%d\nblocks\t%d\nuser actors\t%d\n", st.OpenCharges, st.Regions, st.Blocks, st.Users)
		})
}

type verifyCommand struct{}

// Run verifies the board, with progress on a terminal; it fails when an invariant is broken.
func (verifyCommand) Run(ctx context.Context, root *commands, s *streams) error {
	admin, err := root.Ctl.admin()
	if err != nil {
		return err
	}
	last := time.Now()
	report, err := admin.Verify(ctx, func(done, total int) {
		if time.Since(last) > time.Second {
			last = time.Now()
			fmt.Fprintf(s.err, "verified %d of %d blocks\n", done, total)
		}
	})
	if err != nil {
		return err
	}
	err = root.Ctl.print(s, report, func(w *tabwriter.Writer) {
		fmt.Fprintf(w, "blocks\t%d\ncommits\t%d\nplacements\t%d\nusers\t%d\nviolations\t%d\n", report.Blocks, report.Commits, report.Placements, report.Users, report.Count)
		for _, v := range report.Violations {
			fmt.Fprintf(w, "%s\t%s\n", v.Invariant, v.What)
		}
	})
	if err == nil && report.Count > 0 {
		return fmt.Errorf("%d violations", report.Count)
	}
	return err
}
