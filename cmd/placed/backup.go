package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/backup"
)

type backupCommand struct {
	File    string `arg:"" optional:"" help:"Archive to write; - for standard output (default: a name with the board's epoch and the time)."`
	Admin   string `help:"URL of the operators' listener of a running node (default: http://localhost:8081, unless the board in --data-dir is at rest)."`
	DataDir string `default:"./placed-data" type:"path" help:"Directory with the board, or with the admin token of the node that serves it."`
	By      string `env:"-" help:"Who asks, for the log (default: your user name)."`
}

// Run writes an archive of the board: read from the data directory if nobody serves it, else asked of the node.
func (c *backupCommand) Run(ctx context.Context, s *streams) error {
	write, err := c.source(ctx, s)
	if err != nil {
		return err
	}
	if c.File == "-" {
		return explain(write(s.out))
	}
	path, m, err := saveArchive(c.File, write)
	if err != nil {
		return explain(err)
	}
	_, err = fmt.Fprintf(s.out, "%s: %d MiB, the board %s as of %s\n", path, m.Bytes()>>20, m.Epoch, at(m.AtMs))
	return err
}

// source returns what writes the archive.
func (c *backupCommand) source(ctx context.Context, s *streams) (func(io.Writer) error, error) {
	home := backup.Home{Dir: c.DataDir}
	_, missing := os.Stat(home.Board())
	if c.Admin == "" && missing == nil {
		st, err := openEmbedded(c.DataDir, s)
		if err == nil {
			return func(w io.Writer) error { return errors.Join(backup.Write(ctx, w, st, version()), st.Close()) }, nil
		}
		if !errors.Is(err, store.ErrLocked) {
			return nil, err
		}
	}
	address := c.Admin
	if address == "" {
		address = "http://localhost:8081"
	}
	admin, err := adminOf(address, c.DataDir, c.By)
	if err != nil {
		return nil, err
	}
	return archiveOf(ctx, admin), nil
}

// archiveOf asks a node for its archive.
func archiveOf(ctx context.Context, a *client.Admin) func(io.Writer) error {
	return func(w io.Writer) error {
		body, err := a.Backup(ctx)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, body)
		return errors.Join(err, body.Close())
	}
}

// saveArchive writes an archive into a file, which gets its name when all of it is there, checked, and on the disk. "" makes a
// name. A file that exists is left alone.
func saveArchive(path string, write func(io.Writer) error) (string, backup.Manifest, error) {
	dir := "."
	if path != "" {
		dir = filepath.Dir(path)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, backup.Manifest{}, errors.Join(err, fmt.Errorf("%s exists: choose another name", path))
		}
	}
	f, err := os.CreateTemp(dir, ".placed-backup-*") // readable by its owner alone
	if err != nil {
		return path, backup.Manifest{}, err
	}
	m, err := checked(f, write)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		if path == "" {
			path = fmt.Sprintf("placed-%s-%s.tar", m.Epoch, m.At().Format("20060102T150405Z"))
		}
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return path, m, errors.Join(err, os.Remove(f.Name()))
	}
	return path, m, nil
}

// checked copies an archive into w and checks it on the way.
func checked(w io.Writer, write func(io.Writer) error) (backup.Manifest, error) {
	from, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(to)
		written <- err
		_ = to.CloseWithError(err)
	}()
	tee := io.TeeReader(from, w)
	m, err := backup.Check(tee)
	if err == nil {
		_, err = io.Copy(io.Discard, tee)
	}
	_ = from.CloseWithError(err)
	if cause := <-written; cause != nil && (err == nil || !errors.Is(cause, io.ErrClosedPipe) && !errors.Is(cause, err)) {
		return m, cause // the archive is damaged because of it
	}
	return m, err
}

type restoreCommand struct {
	File    string `arg:"" help:"Archive of placed backup; - for standard input."`
	DataDir string `default:"./placed-data" type:"path" help:"Directory of the stopped node; made when it is missing."`
	Yes     bool   `env:"-" help:"Replace the board that is there without asking."`
	By      string `env:"-" help:"Who asks, for the audit (default: your user name)."`
	Why     string `env:"-" help:"Kept with the settings' version that the restore makes."`
}

// Run puts an archive in the place of the board. The old board is kept beside it.
func (c *restoreCommand) Run(ctx context.Context, s *streams) error {
	by, err := board.ParseUserID(operator(c.By))
	if err != nil {
		return usageError{fmt.Errorf("--by: %w", err)}
	}
	in := io.Reader(os.Stdin)
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	home := backup.Home{Dir: c.DataDir}
	lock, err := home.Lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := home.Settle(); err != nil {
		return err
	}
	confirm := func(m *backup.Manifest) error {
		_, missing := os.Stat(home.Board())
		if c.Yes || missing != nil {
			return nil
		}
		return ask(s, fmt.Sprintf("The board in %s is replaced by the board %s of %s (%d MiB).", c.DataDir, m.Epoch, at(m.AtMs), m.Bytes()>>20))
	}
	audit := backup.Audit{By: string(by), Why: "restored"}
	if c.Why != "" {
		audit.Why += ": " + c.Why
	}
	if len(audit.Why) > board.WhyBytesMax {
		return usageError{fmt.Errorf("--why: at most %d bytes", board.WhyBytesMax-len("restored: "))}
	}
	m, err := home.Restore(ctx, in, audit, slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})), confirm)
	if err != nil {
		return err
	}
	replaced, err := home.Settle()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s has the board of %s, as a new one. Start placed, then: placed ctl verify\n", c.DataDir, at(m.AtMs))
	if replaced != "" {
		fmt.Fprintf(s.out, "The board that it had is kept in %s: delete it when nobody misses it.\n", replaced)
	}
	return nil
}

// ask has a person confirm what cannot be taken back easily.
func ask(s *streams, what string) error {
	if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return usageError{errors.New(what + " Confirm with --yes")}
	}
	fmt.Fprintf(s.err, "%s\nType yes to go on: ", what)
	var answer string
	if _, err := fmt.Fscanln(os.Stdin, &answer); err != nil || strings.ToLower(answer) != "yes" {
		return errors.New("not confirmed: nothing has changed (--yes confirms without a question)")
	}
	return nil
}
