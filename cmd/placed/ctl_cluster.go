package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

type clusterCommand struct {
	Status clusterStatus `cmd:"" help:"Show the nodes of the board as the asked one sees them."`
	Drain  clusterDrain  `cmd:"" help:"Let the asked node give up what it owns, part from its sessions and end."`
}

type clusterStatus struct{}

// Run shows the nodes.
func (clusterStatus) Run(ctx context.Context, root *commands, s *streams) error {
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (board.ClusterReport, error) { return a.Cluster(ctx) }, printCluster)
}

func printCluster(w *tabwriter.Writer, r board.ClusterReport) {
	fmt.Fprintf(w, "node\tstate\tshards\tregions\tblocks\tsessions\tpeople\tusers\tsettings\tclock\n")
	for _, m := range r.Members {
		name := m.Address
		if name == r.Node {
			name += " *"
		}
		if !m.Heard {
			fmt.Fprintf(w, "%s\t%s, not heard of\t%d\n", name, nodeState(&m), m.Shards)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%+d ms\n", name, nodeState(&m), m.Shards, m.Regions, m.Blocks, m.Sessions, m.Online, m.Users, m.SettingsVersion, m.SkewMs)
	}
	fmt.Fprintf(w, "* as this node sees it\n")
}

func nodeState(m *board.NodeReport) string {
	switch {
	case !m.Serving:
		return "gives up or joins"
	case m.Heard && !m.Ready:
		return "serves, not ready"
	}
	return "serves"
}

type clusterDrain struct{}

// Run asks for the drain.
func (clusterDrain) Run(ctx context.Context, root *commands, s *streams) error {
	type asked struct {
		Draining string `json:"draining"`
	}
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (asked, error) { return asked{a.URL}, a.DrainNode(ctx) },
		func(w *tabwriter.Writer, d asked) {
			fmt.Fprintf(w, "%s gives up what it owns, asks its sessions to move, and ends\n", d.Draining)
		})
}

type regionCommand struct {
	List regionList `cmd:"" help:"Show every region with its owner and rate, and a map of both."`
	Top  regionTop  `cmd:"" help:"Show the busiest regions."`
	Size regionSize `cmd:"" help:"Change the size of the regions, live."`
}

type regionList struct{}

// Run shows the regions.
func (regionList) Run(ctx context.Context, root *commands, s *streams) error {
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) ([]board.RegionReport, error) { return a.Regions(ctx) },
		func(w *tabwriter.Writer, regions []board.RegionReport) {
			printRegions(w, regions)
			fmt.Fprint(w, regionMap(regions))
		})
}

func printRegions(w *tabwriter.Writer, regions []board.RegionReport) {
	fmt.Fprintf(w, "region\ttiles\towner\tplacements\tper second\n")
	for _, r := range regions {
		fmt.Fprintf(w, "%d,%d\t%s\t%s\t%d\t%.1f\n", r.Col, r.Row, rect(r.Rect), cmp.Or(r.Owner, "nobody"), r.Placements, r.PerSecond)
	}
}

// shades are for rates, from none to the highest.
const shades = " .:-=+*#%@"

// regionMap draws the board: a letter for the owner of each region, and beside it how busy it is.
func regionMap(regions []board.RegionReport) string {
	var owners []string
	most := 0.0
	for _, r := range regions {
		if !slices.Contains(owners, r.Owner) {
			owners = append(owners, r.Owner)
		}
		most = max(most, r.PerSecond)
	}
	slices.Sort(owners)
	var b strings.Builder
	for i, r := range regions {
		if r.Col == 0 && i > 0 {
			b.WriteByte('\n')
		}
		owner := slices.Index(owners, r.Owner)
		b.WriteByte("abcdefghijklmnopqrstuvwxyz"[owner%26])
		shade := 0
		if r.PerSecond > 0 {
			shade = 1 + int(r.PerSecond/most*float64(len(shades)-2))
		}
		b.WriteByte(shades[shade])
	}
	b.WriteByte('\n')
	for i, owner := range owners {
		fmt.Fprintf(&b, "%c = %s\n", "abcdefghijklmnopqrstuvwxyz"[i%26], cmp.Or(owner, "nobody"))
	}
	fmt.Fprintf(&b, "%q: from 0 to %.1f placements a second\n", shades, most)
	return b.String()
}

type regionTop struct {
	Count int `short:"n" default:"10" help:"How many."`
}

// Run shows the busiest regions.
func (c regionTop) Run(ctx context.Context, root *commands, s *streams) error {
	if c.Count < 1 {
		return usageError{fmt.Errorf("--count %d is not above 0", c.Count)}
	}
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) ([]board.RegionReport, error) {
		regions, err := a.Regions(ctx)
		slices.SortStableFunc(regions, func(a, b board.RegionReport) int {
			return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(b.Placements, a.Placements))
		})
		return regions[:min(len(regions), c.Count)], err
	}, printRegions)
}

type regionSize struct {
	Size int    `arg:"" help:"Tiles of a side, a multiple of 100."`
	Why  string `required:"" help:"Why, for the audit."`
}

// Run changes the region size.
func (c regionSize) Run(ctx context.Context, root *commands, s *streams) error {
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (board.SettingsRecord, error) {
		now, err := a.Settings(ctx)
		if err != nil {
			return now, err
		}
		return a.ChangeSettings(ctx, now.Version, client.SettingsPatch{RegionSize: &c.Size}, c.Why)
	}, printSettings)
}
