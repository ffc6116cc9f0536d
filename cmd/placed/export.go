package main

import (
	"context"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/placed-board/placed/archive"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

type exportCommand struct {
	Out    string `short:"o" default:"-" help:"File to write (.gz: packed), - for standard output; of frames the directory."`
	Format string `default:"auto" enum:"auto,csv,ndjson,png,gif,frames" help:"${enum}. csv has the shape of 2017; auto goes by the end of the file's name."`

	From  string   `placeholder:"TIME" help:"Placements from this time on: Unix milliseconds, 2017-04-01, 2017-04-01T12:00:00Z, or as --from=-1h how long ago. Of films: from the first."`
	To    string   `placeholder:"TIME" help:"Placements before this time. Of films: to the last."`
	At    string   `placeholder:"TIME" help:"Of a png: the board at this time, without it the newest."`
	Rect  string   `placeholder:"X,Y,WIDTH,HEIGHT" help:"Only these tiles."`
	Names bool     `help:"Write the names of users. Otherwise keyed hashes stand for them."`
	Key   string   `name:"pseudonym-key-file" type:"path" placeholder:"FILE" help:"Key of the hashes, at least 16 bytes: two exports with the same one name the same users alike. Otherwise it is random."`
	Films struct { // of gif and frames
		Frames int           `default:"100" help:"Pictures of the span."`
		Every  time.Duration `help:"Time between two pictures, instead of their number."`
		Fps    int           `default:"10" help:"Pictures a second of a gif."`
	} `embed:"" group:"Films (gif and frames):"`

	DataDir string `default:"./placed-data" type:"path" help:"Directory of the embedded store, of a placed that does not run; or with the admin token."`
	Admin   string `env:"-" placeholder:"URL" help:"Operators' listener of a placed that runs, as http://localhost:8081."`
	Quiet   bool   `help:"No progress."`
}

// Run exports.
func (c *exportCommand) Run(ctx context.Context, s *streams) (err error) {
	format, err := c.format()
	if err != nil {
		return err
	}
	config, err := c.config()
	if err != nil {
		return err
	}
	bar := &progressBar{out: s.err, quiet: c.Quiet || c.Out == "-"}
	config.Progress = bar.show
	src, err := c.source(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	settings, err := src.settings(ctx)
	if err != nil {
		return explain(err)
	}
	if (config.Span.Rect == board.Rect{}) && format != archive.FormatCSV && format != archive.FormatNDJSON {
		config.Span.Rect = settings.Bounds()
	}
	config.Palette = settings.Palette
	switch format {
	case formatGIF, formatFrames:
		err = c.film(ctx, s, src, format, &config)
	default:
		config.Format = format
		err = c.stream(ctx, s, src, &config)
	}
	bar.clear()
	return explain(err)
}

// Formats of films, which this command makes itself.
const (
	formatGIF    archive.Format = "gif"
	formatFrames archive.Format = "frames"
)

func (c *exportCommand) format() (archive.Format, error) {
	if c.Format == string(formatFrames) && c.Out == "-" {
		return "", usageError{errors.New("frames need a directory: -o")}
	}
	if c.Format != "auto" {
		return archive.Format(c.Format), nil
	}
	name := strings.TrimSuffix(c.Out, ".gz")
	for _, f := range []archive.Format{archive.FormatCSV, archive.FormatNDJSON, archive.FormatPNG, formatGIF} {
		if strings.HasSuffix(name, "."+string(f)) {
			return f, nil
		}
	}
	if c.Out == "-" {
		return archive.FormatCSV, nil
	}
	return "", usageError{fmt.Errorf("%s does not tell a format: name one by --format", c.Out)}
}

// config turns flags into what is exported.
func (c *exportCommand) config() (config archive.ExportConfig, err error) {
	config.Names, config.Format = c.Names, archive.FormatCSV
	if config.Span.FromMs, err = timeFlag("--from", c.From); err != nil {
		return config, err
	}
	if config.Span.ToMs, err = timeFlag("--to", c.To); err != nil {
		return config, err
	}
	if c.At != "" {
		atMs, err := timeFlag("--at", c.At)
		if err != nil {
			return config, err
		}
		if c.From != "" || c.To != "" {
			return config, usageError{errors.New("--at stands alone: --from and --to make a span")}
		}
		config.Span.ToMs = atMs + 1
	}
	if c.Rect != "" {
		if config.Span.Rect, err = parseRect(c.Rect); err != nil {
			return config, usageError{err}
		}
	}
	if c.Key != "" {
		if config.PseudonymKey, err = os.ReadFile(c.Key); err != nil {
			return config, fmt.Errorf("pseudonym key: %w", err)
		}
		if c.Names {
			return config, usageError{errors.New("--names and --pseudonym-key-file: it is one or the other")}
		}
	}
	if c.Films.Frames < 2 || c.Films.Frames > archive.FramesMax || c.Films.Every < 0 || c.Films.Fps < 1 || c.Films.Fps > 50 {
		return config, usageError{fmt.Errorf("--frames is 2 to %d, --every a time above 0, --fps 1 to 50", archive.FramesMax)}
	}
	if err := config.Validate(); err != nil {
		return config, usageError{err}
	}
	return config, nil
}

// timeForms are how times are written, besides Unix milliseconds.
var timeForms = []string{time.RFC3339, time.DateTime, time.DateOnly}

// timeFlag returns a time in Unix milliseconds, 0 for none.
func timeFlag(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return ms, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago < 0 {
		return time.Now().Add(ago).UnixMilli(), nil
	}
	for _, form := range timeForms {
		if t, err := time.Parse(form, text); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, usageError{fmt.Errorf("%s %q is neither Unix milliseconds nor like 2017-04-01, 2017-04-01T12:00:00Z or -1h", flag, text)}
}

// stream exports one stream of bytes.
func (c *exportCommand) stream(ctx context.Context, s *streams, src exportSource, config *archive.ExportConfig) error {
	begun := time.Now()
	var report archive.ExportReport
	err := c.write(s, func(w io.Writer) (err error) {
		report, err = src.export(ctx, *config, w)
		return err
	})
	if err != nil || c.Out == "-" {
		return err
	}
	took := time.Since(begun)
	if config.Format == archive.FormatPNG {
		_, err := fmt.Fprintf(s.out, "the board is in %s\n", c.Out)
		return err
	}
	fmt.Fprintf(s.out, "exported %d placements to %s in %v\n", report.Placements, c.Out, took.Round(100*time.Millisecond))
	if report.Raised > 0 {
		fmt.Fprintf(s.out, "%d times were raised to that of the tile's placement before, so that sorting by time keeps the order of each tile\n", report.Raised)
	}
	return nil
}

// write writes the output: a file appears under its name when it is complete.
func (c *exportCommand) write(s *streams, fill func(io.Writer) error) (err error) {
	if c.Out == "-" {
		return fill(s.out)
	}
	file, err := os.CreateTemp(filepath.Dir(c.Out), "."+filepath.Base(c.Out)+".*")
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if strings.HasSuffix(c.Out, ".gz") {
		packed, _ := gzip.NewWriterLevel(file, gzip.BestSpeed) // a level that exists
		err = errors.Join(fill(packed), packed.Close())
	} else {
		err = fill(file)
	}
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), c.Out)
}

// film writes a gif, or the pictures of a span as numbered files.
func (c *exportCommand) film(ctx context.Context, s *streams, src exportSource, format archive.Format, config *archive.ExportConfig) error {
	film := archive.Film{Rect: config.Span.Rect, FromMs: config.Span.FromMs, ToMs: config.Span.ToMs, StepMs: c.Films.Every.Milliseconds()}
	if film.FromMs == 0 || film.ToMs == 0 {
		firstMs, lastMs, err := src.times(ctx)
		if err != nil {
			return err
		}
		if film.FromMs == 0 {
			film.FromMs = firstMs
		}
		if film.ToMs == 0 {
			film.ToMs = lastMs
		}
	}
	if film.StepMs == 0 {
		film.StepMs = max((film.ToMs-film.FromMs)/int64(c.Films.Frames-1), 1)
	}
	if err := film.Validate(); err != nil {
		return usageError{err}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop() // what is left of the dots is not wanted
	dots := src.dots(ctx, film.Rect, film.ToMs+1)
	if format == formatGIF {
		return c.write(s, func(w io.Writer) error { return film.WriteGIF(w, dots, config.Palette, 100/c.Films.Fps) })
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	n := 0
	err := film.Frames(dots, func(_ int64, p *archive.Picture, _ archive.Changed) error {
		n++
		return writePicture(filepath.Join(c.Out, fmt.Sprintf("frame-%06d.png", n)), p, config.Palette)
	})
	if err == nil {
		fmt.Fprintf(s.out, "%d pictures in %s; a film: ffmpeg -framerate %d -i %s -pix_fmt yuv420p film.mp4\n", n, c.Out, c.Films.Fps, filepath.Join(c.Out, "frame-%06d.png"))
	}
	return err
}

func writePicture(path string, p *archive.Picture, palette []board.PaletteEntry) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	return errors.Join(encoder.Encode(file, p.Image(palette)), file.Close())
}

// source opens what is exported.
func (c *exportCommand) source(s *streams) (exportSource, error) {
	if c.Admin != "" {
		admin, err := (&ctlCommand{Admin: c.Admin, DataDir: c.DataDir}).admin()
		if err != nil {
			return nil, err
		}
		return &remoteSource{admin}, nil
	}
	dir := storeDir(c.DataDir)
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("no board to export: %w", err)
	}
	st, err := openEmbedded(c.DataDir, s)
	if errors.Is(err, store.ErrLocked) {
		return nil, fmt.Errorf("%w: give --admin to export of a placed that runs", err)
	}
	if err != nil {
		return nil, err
	}
	return &localSource{st}, nil
}
