package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/placed-board/placed/archive"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/transport"
)

// exportSource is a board to export: of a store, or of a node that runs.
type exportSource interface {
	settings(ctx context.Context) (board.Settings, error)
	export(ctx context.Context, c archive.ExportConfig, w io.Writer) (archive.ExportReport, error)
	times(ctx context.Context) (firstMs, lastMs int64, err error)
	dots(ctx context.Context, r board.Rect, toMs int64) iter.Seq2[archive.Dot, error]
	close() error
}

// localSource exports of a store that nobody else uses.
type localSource struct{ store store.Store }

func (l *localSource) settings(ctx context.Context) (board.Settings, error) {
	records, err := archive.ReadSettings(ctx, l.store)
	if err != nil {
		return board.Settings{}, err
	}
	if len(records) == 0 {
		return board.Settings{}, errors.New("the store holds no board")
	}
	newest := records[len(records)-1].Settings
	if newest.State == board.StateLoading {
		return newest, errors.New("an import of this board has not ended: nothing is exported")
	}
	return newest, nil
}

func (l *localSource) export(ctx context.Context, c archive.ExportConfig, w io.Writer) (archive.ExportReport, error) {
	return archive.Export(ctx, l.store, w, c)
}

func (l *localSource) times(ctx context.Context) (firstMs, lastMs int64, err error) {
	firstMs, lastMs, ok, err := archive.Times(ctx, l.store)
	if err == nil && !ok {
		err = errors.New("nobody has placed a tile yet")
	}
	return firstMs, lastMs, err
}

func (l *localSource) dots(ctx context.Context, r board.Rect, toMs int64) iter.Seq2[archive.Dot, error] {
	return archive.Dots(ctx, l.store, r, toMs)
}

func (l *localSource) close() error { return l.store.Close() }

// remoteSource exports of a node's admin listener.
type remoteSource struct{ admin *client.Admin }

func (r *remoteSource) settings(ctx context.Context) (board.Settings, error) {
	record, err := r.admin.Settings(ctx)
	return record.Settings, err
}

func (r *remoteSource) export(ctx context.Context, c archive.ExportConfig, w io.Writer) (archive.ExportReport, error) {
	ask := client.ExportQuery{Format: string(c.Format), FromMs: c.Span.FromMs, ToMs: c.Span.ToMs, Names: c.Names, Key: c.PseudonymKey}
	if (c.Span.Rect != board.Rect{}) {
		ask.Rect = &c.Span.Rect
	}
	n, err := r.admin.Export(ctx, ask, w)
	return archive.ExportReport{Placements: n}, err
}

// times reads the whole history once and keeps nothing of it.
func (r *remoteSource) times(ctx context.Context) (firstMs, lastMs int64, err error) {
	settings, err := r.settings(ctx)
	if err != nil {
		return 0, 0, err
	}
	for dot, err := range r.dots(ctx, settings.Bounds(), 0) {
		if err != nil {
			return 0, 0, err
		}
		if firstMs == 0 || dot.AtMs < firstMs {
			firstMs = dot.AtMs
		}
		lastMs = max(lastMs, dot.AtMs)
	}
	if firstMs == 0 {
		return 0, 0, errors.New("nobody has placed a tile yet")
	}
	return firstMs, lastMs, nil
}

// dots reads the node's placements as a history of 2017 while they come.
func (r *remoteSource) dots(ctx context.Context, rect board.Rect, toMs int64) iter.Seq2[archive.Dot, error] {
	return func(yield func(archive.Dot, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		in, out := io.Pipe()
		go func() {
			_, err := r.admin.Export(ctx, client.ExportQuery{Format: "csv", ToMs: toMs, Rect: &rect, Names: true}, out)
			out.CloseWithError(err)
		}()
		defer in.Close()
		// Any colour and any tile of any board; users are not looked at.
		layout := archive.Layout{Width: board.SideMax, Height: board.SideMax, Palette: make([]board.PaletteEntry, board.PaletteMax)}
		rows, err := archive.NewReader(r.admin.URL, in, 1, &layout)
		if err != nil {
			yield(archive.Dot{}, err)
			return
		}
		for dot, err := range archive.RowDots(rows) {
			if !yield(dot, err) {
				return
			}
		}
	}
}

func (r *remoteSource) close() error { return nil }

// exporter lets a server's operators export.
type exporter struct{ store store.Store }

// Export implements transport.Exporter.
func (e exporter) Export(ctx context.Context, w io.Writer, ask transport.ExportQuery) (int64, error) {
	c := archive.ExportConfig{
		Format: archive.Format(ask.Format), Span: archive.Span{FromMs: ask.FromMs, ToMs: ask.ToMs}, Names: ask.Names, PseudonymKey: ask.Key,
	}
	records, err := archive.ReadSettings(ctx, e.store)
	if err != nil {
		return 0, err
	}
	newest := records[len(records)-1].Settings // a board that is served has settings
	c.Palette = newest.Palette
	if ask.Rect != nil {
		c.Span.Rect = *ask.Rect
	} else if c.Format == archive.FormatPNG {
		c.Span.Rect = newest.Bounds()
	}
	if err := c.Validate(); err != nil {
		return 0, fmt.Errorf("%w: %w", board.ErrRefused, err)
	}
	report, err := archive.Export(ctx, e.store, w, c)
	return report.Placements, err
}
