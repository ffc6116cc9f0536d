package main

import (
	"cmp"
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

	"github.com/placed-board/placed/client"
)

type ctlCommand struct {
	Admin   string        `default:"http://localhost:8081" help:"URL of the operators' listener."`
	DataDir string        `default:"./placed-data" type:"path" help:"Directory with the admin token; PLACED_ADMIN_TOKEN comes first."`
	By      string        `help:"Who asks, for the audit (default: your user name)."`
	Output  string        `short:"o" default:"text" enum:"text,json" help:"${enum}."`
	Timeout time.Duration `default:"30s" help:"For everything but verify."`

	Settings settingsCommand `cmd:"" help:"Read and change the live settings."`
	Ban      banCommand      `cmd:"" help:"Keep a user from placing; list who is banned."`
	Unban    unbanCommand    `cmd:"" help:"Take a ban back."`
	Invite   inviteCommand   `cmd:"" help:"Make, list and take back guests' links (--auth=invite)."`
	Clear    clearCommand    `cmd:"" help:"Set every tile of a rectangle back to colour 0."`
	Rollback rollbackCommand `cmd:"" help:"Take placements of a user or in a rectangle back; without --yes only show what would happen."`
	Jobs     jobsCommand     `cmd:"" help:"Show operators' writes and how far they are."`
	Board    boardCommand    `cmd:"" help:"Begin with an empty board."`
	Status   statusCommand   `cmd:"" help:"Show where the node stands."`
	Cluster  clusterCommand  `cmd:"" help:"Show the nodes of the board; drain one."`
	Region   regionCommand   `cmd:"" help:"Show the regions; change their size."`
	Verify   verifyCommand   `cmd:"" help:"Replay every journal and check the invariants I1 to I6."`
}

// admin returns the client of the operators' API.
func (c *ctlCommand) admin() (*client.Admin, error) { return adminOf(c.Admin, c.DataDir, c.By) }

func adminOf(address, dataDir, by string) (*client.Admin, error) {
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usageError{fmt.Errorf("--admin %q is not of the form http://host:port", address)}
	}
	token := os.Getenv("PLACED_ADMIN_TOKEN")
	if token == "" {
		path := filepath.Join(dataDir, adminTokenFile)
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no admin token: %s does not exist; start placed first, give --data-dir, or set PLACED_ADMIN_TOKEN", path)
		}
		if err != nil {
			return nil, fmt.Errorf("read the admin token: %w", err)
		}
		token = strings.TrimSpace(string(content))
	}
	return &client.Admin{URL: strings.TrimRight(address, "/"), Token: token, By: operator(by)}, nil
}

// operator returns who acts, for the audit: as named, or the user of this process.
func operator(by string) string { return cmp.Or(by, os.Getenv("USER"), "operator") }

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

// at writes a time in Unix milliseconds for people.
func at(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
