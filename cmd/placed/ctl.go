package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

type ctlCommand struct {
	Admin   string        `default:"http://localhost:8081" help:"URL of the operators' listener."`
	DataDir string        `default:"./placed-data" type:"path" help:"Directory with the admin token; PLACED_ADMIN_TOKEN comes first."`
	By      string        `help:"Who asks, for the audit (default: your user name)."`
	Output  string        `short:"o" default:"text" enum:"text,json" help:"${enum}."`
	Timeout time.Duration `default:"30s" help:"For everything but verify."`

	Settings settingsCommand `cmd:"" help:"Read and change the live settings."`
	Ban      banCommand      `cmd:"" help:"Keep a user from placing."`
	Unban    unbanCommand    `cmd:"" help:"Take a ban back."`
	Clear    clearCommand    `cmd:"" help:"Set every tile of a rectangle back to colour 0."`
	Jobs     jobsCommand     `cmd:"" help:"Show operators' writes and how far they are."`
	Status   statusCommand   `cmd:"" help:"Show where the node stands."`
	Verify   verifyCommand   `cmd:"" help:"Replay every journal and check the invariants I1 to I6."`
}

// admin returns the client of the operators' API.
func (c *ctlCommand) admin() (*client.Admin, error) {
	if u, err := url.Parse(c.Admin); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usageError{fmt.Errorf("--admin %q is not of the form http://host:port", c.Admin)}
	}
	token := os.Getenv("PLACED_ADMIN_TOKEN")
	if token == "" {
		path := filepath.Join(c.DataDir, adminTokenFile)
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no admin token: %s does not exist; start placed first, give --data-dir, or set PLACED_ADMIN_TOKEN", path)
		}
		if err != nil {
			return nil, fmt.Errorf("read the admin token: %w", err)
		}
		token = strings.TrimSpace(string(content))
	}
	by := c.By
	if by == "" {
		by = os.Getenv("USER")
	}
	if by == "" {
		by = "operator"
	}
	return &client.Admin{URL: strings.TrimRight(c.Admin, "/"), Token: token, By: by}, nil
}

// call runs one request within the timeout and prints its answer: as JSON, or by text.
func call[T any](ctx context.Context, root *commands, s *streams, ask func(context.Context, *client.Admin) (T, error), text func(*tabwriter.Writer, T)) error {
	c := &root.Ctl
	admin, err := c.admin()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	answer, err := ask(ctx, admin)
	if err != nil {
		return explain(err)
	}
	return c.print(s, answer, func(w *tabwriter.Writer) { text(w, answer) })
}

// explain adds what to do about an error, and marks impossible values as the caller's.
func explain(err error) error {
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		switch problem.Status {
		case http.StatusUnprocessableEntity:
			return usageError{err}
		case http.StatusUnauthorized:
			return fmt.Errorf("%w; the token came from PLACED_ADMIN_TOKEN if that is set, else from --data-dir", err)
		}
		return err
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: is placed running, and is this its operators' listener (--admin)?", err)
	}
	return err
}

func (c *ctlCommand) print(s *streams, answer any, text func(*tabwriter.Writer)) error {
	if c.Output == "json" {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		return e.Encode(answer)
	}
	w := tabwriter.NewWriter(s.out, 0, 4, 2, ' ', 0)
	text(w)
	return w.Flush()
}

type settingsCommand struct {
	Get     settingsGet     `cmd:"" help:"Show the newest settings."`
	Set     settingsSet     `cmd:"" help:"Change settings: only what is named changes."`
	History settingsHistory `cmd:"" help:"Show every version: who, when and why."`
}

type settingsGet struct{}

// Run shows the newest settings.
func (settingsGet) Run(ctx context.Context, root *commands, s *streams) error {
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (board.SettingsRecord, error) { return a.Settings(ctx) }, printSettings)
}

func printSettings(w *tabwriter.Writer, r board.SettingsRecord) {
	fmt.Fprintf(w, "version\t%d\nsize\t%dx%d\ncooldown\t%v\nregion size\t%d\nfrozen\t%v\n", r.Version, r.Width, r.Height,
		time.Duration(r.CooldownMs)*time.Millisecond, r.RegionSize, r.Frozen)
	fmt.Fprintf(w, "announcement\t%s\nprotected\t%s\n", r.Announcement, rects(r.Protected))
	for i, e := range r.Palette {
		closed := ""
		if e.Closed {
			closed = " (closed)"
		}
		fmt.Fprintf(w, "colour %d\t#%06x %s%s\n", i, e.RGB, e.Name, closed)
	}
	fmt.Fprintf(w, "changed\t%s by %s: %s\n", at(r.AtMs), r.By, r.Why)
}

func rects(list []board.Rect) string {
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf("%d,%d,%d,%d", r.X, r.Y, r.Width, r.Height))
	}
	return strings.Join(out, " ")
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

type settingsHistory struct{}

// Run shows every version.
func (settingsHistory) Run(ctx context.Context, root *commands, s *streams) error {
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) ([]board.SettingsRecord, error) {
		return a.SettingsHistory(ctx)
	},
		func(w *tabwriter.Writer, records []board.SettingsRecord) {
			fmt.Fprintln(w, "VERSION\tAT\tBY\tSIZE\tCOOLDOWN\tREGION\tFROZEN\tCOLOURS\tWHY")
			for _, r := range records {
				fmt.Fprintf(w, "%d\t%s\t%s\t%dx%d\t%v\t%d\t%v\t%d\t%s\n", r.Version, at(r.AtMs), r.By, r.Width, r.Height,
					time.Duration(r.CooldownMs)*time.Millisecond, r.RegionSize, r.Frozen, len(r.Palette), r.Why)
			}
		})
}

// settingsSet takes nothing from the environment: what a server's environment says about a new board, PLACED_WIDTH for one,
// is no change that an operator asks for.
type settingsSet struct {
	Width        *int           `env:"-" help:"Tiles."`
	Height       *int           `env:"-" help:"Tiles."`
	Cooldown     *time.Duration `env:"-" help:"Between two tiles of a user, as 5m."`
	RegionSize   *int           `env:"-" help:"Tiles, a multiple of 100."`
	Frozen       *bool          `env:"-" negatable:"" help:"Refuse placements (--no-frozen: take them again)."`
	Announcement *string        `env:"-" help:"Shown to everybody; empty to take it away."`
	Protect      []string       `env:"-" sep:"none" placeholder:"X,Y,W,H" help:"Protected areas; replaces the list. May be repeated."`
	NoProtect    bool           `env:"-" help:"Take all protected areas away."`
	PaletteFile  string         `env:"-" type:"existingfile" help:"JSON list of {name, rgb, closed}; replaces the palette, which may only grow."`
	Base         uint64         `env:"-" help:"Version that the change is based on (default: the newest): refused when somebody was faster."`
	Why          string         `env:"-" help:"Kept with the version."`
}

// Run makes the next version.
func (c *settingsSet) Run(ctx context.Context, root *commands, s *streams) error {
	patch, err := c.patch()
	if err != nil {
		return usageError{err}
	}
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) (board.SettingsRecord, error) {
		base := c.Base
		if base == 0 {
			newest, err := a.Settings(ctx)
			if err != nil {
				return newest, err
			}
			base = newest.Version
		}
		return a.ChangeSettings(ctx, base, patch, c.Why)
	}, printSettings)
}

func (c *settingsSet) patch() (client.SettingsPatch, error) {
	p := client.SettingsPatch{Width: c.Width, Height: c.Height, RegionSize: c.RegionSize, Frozen: c.Frozen, Announcement: c.Announcement}
	if c.Cooldown != nil {
		ms, err := wholeMs("cooldown", *c.Cooldown)
		if err != nil {
			return p, err
		}
		p.CooldownMs = &ms
	}
	if len(c.Protect) > 0 || c.NoProtect {
		areas := []board.Rect{}
		for _, text := range c.Protect {
			r, err := parseRect(text)
			if err != nil {
				return p, err
			}
			areas = append(areas, r)
		}
		p.Protected = &areas
	}
	if c.PaletteFile != "" {
		content, err := os.ReadFile(c.PaletteFile)
		if err != nil {
			return p, err
		}
		if err := json.Unmarshal(content, &p.Palette); err != nil {
			return p, fmt.Errorf("%s: %w", c.PaletteFile, err)
		}
	}
	if p.Width == nil && p.Height == nil && p.RegionSize == nil && p.Frozen == nil && p.Announcement == nil && p.CooldownMs == nil &&
		p.Protected == nil && p.Palette == nil {
		return p, errors.New("nothing to change: name at least one setting")
	}
	return p, nil
}

// parseRect reads "x,y,width,height".
func parseRect(text string) (board.Rect, error) {
	var r board.Rect
	var rest string
	n, _ := fmt.Sscanf(text+" ", "%d,%d,%d,%d%s", &r.X, &r.Y, &r.Width, &r.Height, &rest)
	if n != 4 || r.Width < 1 || r.Height < 1 || r.X < 0 || r.Y < 0 {
		return r, fmt.Errorf("%q is not a rectangle: want X,Y,WIDTH,HEIGHT in tiles", text)
	}
	return r, nil
}

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
		for err == nil && c.Wait && !job.Done {
			if job, err = findJob(ctx, a, job.ID); err == nil && !job.Done {
				select {
				case <-ctx.Done():
					err = ctx.Err()
				case <-time.After(200 * time.Millisecond):
				}
			}
		}
		return job, err
	}, func(w *tabwriter.Writer, j board.Job) { printJobs(w, []board.Job{j}) })
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
	fmt.Fprintln(w, "ID\tKIND\tRECT\tCHARGED\tPLACED\tDONE\tAT\tBY\tWHY")
	for _, j := range jobs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%v\t%s\t%s\t%s\n", j.ID, j.Kind, rects([]board.Rect{j.Rect}), j.Charged, j.Placed, j.Done, at(j.AtMs), j.By, j.Why)
	}
}

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
