package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/placed-board/placed/archive"
	"github.com/placed-board/placed/board"
)

type importCommand struct {
	Files   []string `arg:"" optional:"" type:"path" help:"CSV files in a shape of 2017, 2022 or 2023, plain or gzip; of a directory all *.csv, *.csv.gz and *.csv.gzip."`
	DataDir string   `default:"./placed-data" type:"path" help:"Directory of the embedded store; it holds no board yet."`

	Origin  string `placeholder:"X,Y" help:"Coordinate in the files that becomes tile (0,0): --origin=-1500,-1000 for 2023, else 0,0."`
	Width   int    `help:"Tiles, 1 to 10000 (2017: 1000, 2022: 2000, 2023: 3000)."`
	Height  int    `help:"Tiles, 1 to 10000 (2017: 1000, 2022 and 2023: 2000)."`
	Palette string `type:"path" placeholder:"FILE" help:"JSON list of {\"name\",\"rgb\"}; without it the 16 colours of 2017, or the 32 of 2022."`

	Cooldown   time.Duration `default:"5m" help:"Of the board when it opens, 0 to 24h."`
	RegionSize int           `default:"100" help:"Of the board when it opens: tiles, a multiple of 100."`
	Frozen     bool          `help:"The board opens frozen: to be looked at."`

	BadRowsMax  int64  `default:"-1" placeholder:"N" help:"Rows that may be left out because they cannot be used (1,000, or one in a hundred)."`
	BadRowsFile string `type:"path" placeholder:"FILE" help:"File for every such row, with file and line; the first 20 are printed."`
	TempDir     string `type:"path" help:"Directory for sorting: 24 bytes a placement."`
	By          string `help:"Who imports, for the audit (default: your user name)."`
	Quiet       bool   `help:"No progress."`
	Discard     bool   `help:"Remove what an interrupted import has left, instead of importing."`
}

// badRowsShown is how many rows that cannot be used are printed.
const badRowsShown = 20

// storeDir returns where the embedded store lies in a data directory.
func storeDir(dataDir string) string { return filepath.Join(dataDir, "board") }

// Run imports, or removes what an interrupted import has left.
func (c *importCommand) Run(ctx context.Context, s *streams) (err error) {
	if c.Discard {
		if len(c.Files) > 0 {
			return usageError{errors.New("--discard imports nothing: name no files")}
		}
		return c.discard(ctx, s)
	}
	config, err := c.config(s)
	if err != nil {
		return err
	}
	bar := &progressBar{out: s.err, quiet: c.Quiet}
	config.Progress = bar.show
	if c.BadRowsFile != "" {
		file, err := os.Create(c.BadRowsFile)
		if err != nil {
			return fmt.Errorf("file for bad rows: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		config.BadRow = badRows(bar, s.err, file)
	} else {
		config.BadRow = badRows(bar, s.err, io.Discard)
	}
	st, err := openEmbedded(c.DataDir, s)
	if err != nil {
		return err
	}
	begun := time.Now()
	report, err := archive.Import(ctx, st, config)
	bar.clear()
	if err = errors.Join(err, st.Close()); err != nil {
		return c.explain(ctx, err)
	}
	took := time.Since(begun)
	if report.Resumed {
		fmt.Fprintln(s.out, "went on with an interrupted import of the same files")
	}
	fmt.Fprintf(s.out, "imported %d placements of %d users from %d rows, %s to %s, in %v (%.0f rows/s); %d rows left out\n", report.Placements, report.Users,
		report.Rows, at(report.FirstMs), at(report.LastMs), took.Round(100*time.Millisecond), float64(report.Rows)/took.Seconds(), report.BadRows)
	fmt.Fprintf(s.out, "the board (epoch %016x) is open: placed --data-dir %s\n", report.Epoch, c.DataDir)
	return nil
}

// explain says how to go on after a failure.
func (c *importCommand) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: interrupted: the same command goes on; placed import --discard takes back what is written", err)
	case errors.Is(err, archive.ErrOtherImport):
		return fmt.Errorf("%w: end that one with its files and flags, or remove it: placed import --discard --data-dir %s", err, c.DataDir)
	case errors.Is(err, archive.ErrBoardExists):
		return fmt.Errorf("%w: give an empty --data-dir (%s has a board)", err, c.DataDir)
	case errors.Is(err, archive.ErrBadRows):
		return fmt.Errorf("%w: nothing is imported; is it the right --origin, --width, --height and --palette? --bad-rows-max allows more", err)
	}
	return err
}

// config turns flags into what is imported. What is impossible is a usage error.
func (c *importCommand) config(s *streams) (archive.ImportConfig, error) {
	config := archive.ImportConfig{NowMs: time.Now().UnixMilli(), TempDir: c.TempDir, BadRowsMax: c.BadRowsMax, By: operator(c.By), Settings: board.DefaultSettings()}
	var err error
	if config.Settings.CooldownMs, err = wholeMs("cooldown", c.Cooldown); err != nil {
		return config, err
	}
	config.Settings.RegionSize, config.Settings.Frozen = c.RegionSize, c.Frozen
	if config.Paths, err = historyFiles(c.Files); err != nil {
		return config, err
	}
	if err := c.layout(&config); err != nil {
		return config, err
	}
	if err := config.Validate(); err != nil {
		return config, usageError{err}
	}
	return config, nil
}

// layout sets the layout where flags name a part of it: the rest comes from the shape of the first file.
func (c *importCommand) layout(config *archive.ImportConfig) error {
	first, err := archive.OpenReader(config.Paths[0], 1, nil) // a wrong file ends the command before a directory is made
	if err != nil {
		return err
	}
	layout := first.Shape().Layout()
	if err := first.Close(); err != nil {
		return err
	}
	if c.Origin == "" && c.Width == 0 && c.Height == 0 && c.Palette == "" {
		return nil
	}
	if c.Origin != "" {
		x, y, ok := strings.Cut(c.Origin, ",")
		var errX, errY error
		layout.Origin.X, errX = strconv.Atoi(strings.TrimSpace(x))
		layout.Origin.Y, errY = strconv.Atoi(strings.TrimSpace(y))
		if far := 10 * board.SideMax; !ok || errX != nil || errY != nil || max(layout.Origin.X, layout.Origin.Y, -layout.Origin.X, -layout.Origin.Y) > far {
			return usageError{fmt.Errorf("--origin %q is not of the form X,Y", c.Origin)}
		}
	}
	if c.Width != 0 {
		layout.Width = c.Width
	}
	if c.Height != 0 {
		layout.Height = c.Height
	}
	if c.Palette != "" {
		if layout.Palette, err = readPalette(c.Palette); err != nil {
			return err
		}
	}
	s := config.Settings
	s.Width, s.Height, s.Palette = layout.Width, layout.Height, layout.Palette
	if err := s.Validate(); err != nil {
		return usageError{fmt.Errorf("impossible board: %w", err)}
	}
	config.Layout = &layout
	return nil
}

func readPalette(path string) ([]board.PaletteEntry, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("palette: %w", err)
	}
	var palette []board.PaletteEntry
	if err := json.Unmarshal(content, &palette); err != nil {
		return nil, usageError{fmt.Errorf("palette %s: %w", path, err)}
	}
	return palette, nil
}

// historyFiles returns the files that are named, and of directories those that look like histories, by name.
func historyFiles(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, usageError{errors.New("no files are named")}
	}
	var paths []string
	for _, name := range names {
		entries, err := os.ReadDir(name)
		if err != nil { // a file, or nothing: that shows when it is opened
			paths = append(paths, name)
			continue
		}
		before := len(paths)
		for _, e := range entries {
			if n := e.Name(); strings.HasSuffix(n, ".csv") || strings.HasSuffix(n, ".csv.gz") || strings.HasSuffix(n, ".csv.gzip") {
				paths = append(paths, filepath.Join(name, n))
			}
		}
		if len(paths) == before {
			return nil, usageError{fmt.Errorf("no *.csv, *.csv.gz or *.csv.gzip in %s", name)}
		}
	}
	return paths, nil
}

// badRows prints the first rows that cannot be used, and writes all of them to a file.
func badRows(bar *progressBar, out, file io.Writer) func(*archive.RowError) {
	n := 0
	return func(e *archive.RowError) {
		n++
		fmt.Fprintln(file, e)
		switch {
		case n <= badRowsShown:
			bar.clear()
			fmt.Fprintln(out, "left out:", e)
		case n == badRowsShown+1:
			bar.clear()
			fmt.Fprintln(out, "more rows are left out and counted; --bad-rows-file names all of them")
		}
	}
}

// openEmbedded opens the store of a data directory that no other process uses.
func openEmbedded(dataDir string, s *streams) (*homeStore, error) {
	return openHome(dataDir, slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})))
}

// discard removes the store of a board that an import has not ended.
func (c *importCommand) discard(ctx context.Context, s *streams) error {
	dir := storeDir(c.DataDir)
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("nothing to discard: %w", err)
	}
	st, err := openEmbedded(c.DataDir, s)
	if err != nil {
		return err
	}
	settings, err := archive.ReadSettings(ctx, st)
	if err = errors.Join(err, st.Close()); err != nil {
		return err
	}
	if n := len(settings); n > 0 && settings[n-1].State != board.StateLoading {
		return fmt.Errorf("%s holds a board that is open: nothing is removed", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the unfinished board: %w", err)
	}
	fmt.Fprintf(s.out, "removed the unfinished board in %s\n", dir)
	return nil
}
