package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/placed-board/placed/client"
)

type inviteCommand struct {
	Create inviteCreate `cmd:"" help:"Make invites, one link for each guest, and print them."`
	List   inviteList   `cmd:"" help:"Show all invites: who used them, which are left."`
	Revoke inviteRevoke `cmd:"" help:"Take invites back, and end their users' sessions."`
}

// invitePaper is where links are printed. Links are secrets: files are their owner's alone to read.
type invitePaper struct {
	CSV  string `name:"csv" env:"-" type:"path" help:"Write the links to this file as CSV instead of printing them."`
	HTML string `name:"html" env:"-" type:"path" help:"Write a page of QR codes to print."`
	URL  string `name:"url" env:"-" help:"Where guests find the page, as https://board.example.org (default: what the server says, --public-url)."`
}

type inviteCreate struct {
	Count     int           `arg:"" optional:"" help:"How many, without a name: each guest chooses one at the first use."`
	NamesFrom string        `env:"-" type:"existingfile" help:"A file of names, one a line: an invite for each."`
	ValidFor  time.Duration `env:"-" help:"How long, as 48h (default: without end)."`
	Why       string        `env:"-" help:"Kept with the invites."`
	Force     bool          `env:"-" help:"Write over files that exist; invite list --html prints all links in one."`
	invitePaper
}

// Run makes the invites, at most client.InvitesAskedMax at once, and prints their links. What was made is printed even if a
// later part fails.
func (c *inviteCreate) Run(ctx context.Context, root *commands, s *streams) error {
	names, err := readNames(c.NamesFrom)
	if err != nil {
		return usageError{err}
	}
	left := c.Count
	switch {
	case len(names) > 0 && left != 0:
		return usageError{errors.New("give a number or --names-from, not both")}
	case len(names) > 0:
		left = len(names)
	case left < 1:
		return usageError{errors.New("how many? placed ctl invite create 50")}
	case c.ValidFor < 0:
		return usageError{fmt.Errorf("--valid-for %v is not in the future", c.ValidFor)}
	}
	if err := errors.Join(c.taken(), c.check()); err != nil {
		return usageError{err}
	}
	admin, err := root.Ctl.admin()
	if err != nil {
		return err
	}
	var expires int64
	if c.ValidFor > 0 {
		expires = time.Now().Add(c.ValidFor).UnixMilli()
	}
	ctx, cancel := context.WithTimeout(ctx, root.Ctl.Timeout)
	defer cancel()
	var made []client.Invitation
	for left > 0 && err == nil {
		part := min(left, client.InvitesAskedMax)
		var some []client.Invitation
		if len(names) > 0 {
			some, err = admin.CreateInvites(ctx, 0, names[len(names)-left:len(names)-left+part], expires, c.Why)
		} else {
			some, err = admin.CreateInvites(ctx, part, nil, expires, c.Why)
		}
		made = append(made, some...)
		left -= part
	}
	if err != nil {
		err = fmt.Errorf("%d invites were made: %w", len(made), explain(err))
	}
	if len(made) == 0 {
		return err
	}
	return errors.Join(err, c.print(root, s, made))
}

// taken refuses files that exist: the links of guests who were asked before are in them.
func (c *inviteCreate) taken() error {
	for _, path := range []string{c.CSV, c.HTML} {
		if path == "" || c.Force {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			return fmt.Errorf("%s exists: name another file, or say --force to write over it; `placed ctl invite list --html FILE` prints all links in one", path)
		}
	}
	return nil
}

// readNames reads a file of names, one a line; empty lines do not count.
func readNames(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for lines := bufio.NewScanner(f); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			break
		}
		if name := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff")); name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no names, one a line", path)
	}
	return names, nil
}

// check looks at the flags, and whether the files can be written, before anything is made.
func (p *invitePaper) check() error {
	u, err := url.Parse(p.URL)
	if p.URL != "" && (err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Fragment != "") {
		return fmt.Errorf("--url %q is not of the form https://host", p.URL)
	}
	for _, path := range []string{p.CSV, p.HTML} {
		if path == "" {
			continue
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// print writes the links where they are wanted.
func (p *invitePaper) print(root *commands, s *streams, invites []client.Invitation) error {
	local := false
	for i := range invites {
		if _, code, ok := strings.Cut(invites[i].Link, "#"); ok && p.URL != "" {
			invites[i].Link = strings.TrimRight(p.URL, "/") + "/#" + code
		}
		local = local || strings.Contains(invites[i].Link, "://localhost:")
	}
	if local {
		fmt.Fprintln(s.err, "These links work on this machine only: name the address that guests use by --url, or start placed with --public-url.")
	}
	if p.HTML != "" {
		if err := writeSecret(p.HTML, func(w io.Writer) error { return writeInvitePage(w, invites) }); err != nil {
			return err
		}
		fmt.Fprintf(s.err, "%s: open it in a browser and print it\n", p.HTML)
	}
	switch {
	case p.CSV != "":
		return writeSecret(p.CSV, func(w io.Writer) error { return writeInviteCSV(w, invites) })
	case root.Ctl.Output == "json":
		return root.Ctl.print(s, invites, nil)
	case p.HTML != "":
		return nil
	}
	return writeInviteCSV(s.out, invites)
}

// writeSecret writes a file that only its owner may read.
func writeSecret(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(f)
	return errors.Join(write(b), b.Flush(), f.Close())
}

func writeInviteCSV(w io.Writer, invites []client.Invitation) error {
	c := csv.NewWriter(w)
	rows := [][]string{{"id", "name", "state", "expires", "link"}}
	for _, i := range invites {
		expires := ""
		if i.ExpiresMs != 0 {
			expires = at(i.ExpiresMs)
		}
		rows = append(rows, []string{i.ID, string(i.Name), i.State, expires, i.Link})
	}
	return c.WriteAll(rows)
}

type inviteList struct {
	invitePaper
}

// Run lists the invites; with --csv or --html it prints the links of the good ones again.
func (c *inviteList) Run(ctx context.Context, root *commands, s *streams) error {
	if err := c.check(); err != nil {
		return usageError{err}
	}
	if c.CSV == "" && c.HTML == "" {
		return call(ctx, root, s, func(ctx context.Context, a *client.Admin) ([]client.Invitation, error) { return a.Invites(ctx) }, printInvites)
	}
	admin, err := root.Ctl.admin()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, root.Ctl.Timeout)
	defer cancel()
	all, err := admin.Invites(ctx)
	if err != nil {
		return explain(err)
	}
	var good []client.Invitation
	for _, i := range all {
		if i.Link != "" {
			good = append(good, i)
		}
	}
	return c.print(root, s, good)
}

func printInvites(w *tabwriter.Writer, invites []client.Invitation) {
	fmt.Fprintln(w, "ID\tSTATE\tNAME\tMADE\tBY\tUSED\tEXPIRES\tWHY")
	when := func(ms int64) string {
		if ms == 0 {
			return ""
		}
		return at(ms)
	}
	for _, i := range invites {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", i.ID, i.State, i.Name, at(i.AtMs), i.By, when(i.UsedMs), when(i.ExpiresMs), i.Why)
	}
}

type inviteRevoke struct {
	Invites []string `arg:"" help:"Ids, users' names or links."`
	Why     string   `env:"-" help:"Kept with the invite."`
}

// Run takes invites back.
func (c *inviteRevoke) Run(ctx context.Context, root *commands, s *streams) error {
	if len(c.Invites) > client.InvitesAskedMax {
		return usageError{fmt.Errorf("%d invites, at most %d at once", len(c.Invites), client.InvitesAskedMax)}
	}
	return call(ctx, root, s, func(ctx context.Context, a *client.Admin) ([]client.Invitation, error) {
		return a.RevokeInvites(ctx, c.Invites, c.Why)
	}, func(w *tabwriter.Writer, gone []client.Invitation) {
		if len(gone) == 0 {
			fmt.Fprintln(w, "they were taken back before")
			return
		}
		printInvites(w, gone)
	})
}
