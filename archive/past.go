package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Bounds of questions about the past.
const (
	// settledAfterMs is after how long a shard that has been idle since is taken to have no commit of that time under way.
	settledAfterMs = 600_000
	// heatLateMs is Span.LateMs of a heat map.
	heatLateMs = 3600 * 1000
)

// Past answers questions about a board's past from its journals.
type Past struct {
	journals Journals
	settings func(context.Context) ([]board.SettingsRecord, error)
	now      func() time.Time
}

// NewPast returns the past of the board in a store. settings returns every version of the settings, ascending.
func NewPast(j Journals, settings func(context.Context) ([]board.SettingsRecord, error)) *Past {
	return &Past{journals: j, settings: settings, now: time.Now}
}

// BoardAt returns the board at a time in Unix milliseconds: of each tile the last placement in the order of the journal among
// those of that time or earlier. It reads every journal from its begin, about half a microsecond a placement.
func (p *Past) BoardAt(ctx context.Context, atMs int64) (*board.PastBoard, error) {
	settled, err := p.settled(ctx, atMs) // first: what is placed by now is in the journals
	if err != nil {
		return nil, fmt.Errorf("archive: board at %d: %w", atMs, err)
	}
	settings, err := p.settingsAt(ctx, atMs)
	if err != nil {
		return nil, fmt.Errorf("archive: board at %d: %w", atMs, err)
	}
	blocks, err := p.journals.Blocks(ctx)
	if err != nil {
		return nil, fmt.Errorf("archive: list blocks: %w", err)
	}
	out := &board.PastBoard{Settings: settings, Settled: settled}
	chunks := map[board.ChunkID]*board.PastChunk{}
	for _, b := range blocks {
		if !settings.Bounds().Meets(b.Rect()) {
			continue
		}
		for entry, err := range p.journals.Journal(ctx, store.Block(b), 1) {
			var commit store.BlockCommit
			if err == nil {
				commit, err = store.DecodeBlockCommit(entry.Value)
			}
			if err != nil {
				return nil, fmt.Errorf("archive: board at %d: %v: %w", atMs, store.Block(b), err)
			}
			addUntil(chunks, &commit, atMs)
		}
	}
	cols, rows := board.ChunkGrid(settings.Width, settings.Height)
	for row := range rows {
		for col := range cols {
			if c := chunks[board.NewChunkID(col, row)]; c != nil {
				out.Chunks = append(out.Chunks, *c)
			}
		}
	}
	return out, nil
}

// addUntil adds a commit's placements up to a time.
func addUntil(chunks map[board.ChunkID]*board.PastChunk, commit *store.BlockCommit, atMs int64) {
	for i := range commit.Placements {
		q := &commit.Placements[i]
		if q.AtMs > atMs {
			continue
		}
		c := chunks[q.Chunk]
		if c == nil {
			c = &board.PastChunk{Chunk: q.Chunk, Tiles: new(board.Tiles)}
			chunks[q.Chunk] = c
		}
		c.Sequence, c.Tiles[q.Tile] = q.Sequence, q.Colour
	}
}

// settingsAt returns the settings that were made last by a time, or the first ones.
func (p *Past) settingsAt(ctx context.Context, atMs int64) (board.Settings, error) {
	records, err := p.settings(ctx)
	if err != nil {
		return board.Settings{}, fmt.Errorf("read the settings: %w", err)
	}
	if len(records) == 0 {
		return board.Settings{}, fmt.Errorf("read the settings: no version: %w", store.ErrNotFound)
	}
	found := records[0]
	for _, r := range records {
		if r.AtMs <= atMs {
			found = r
		}
	}
	return found.Settings, nil
}

// settled reports whether every placement of a time is on the board: no shard has an open charge of that time, and each has
// given out a later time since, below which it never falls, or has been idle for settledAfterMs.
func (p *Past) settled(ctx context.Context, atMs int64) (bool, error) {
	idle := atMs < p.now().UnixMilli()-settledAfterMs
	for shard := range board.Shards {
		head, err := p.journals.Head(ctx, store.Shard(shard))
		if err != nil {
			return false, err
		}
		state, err := store.DecodeShardState(shard, head.State)
		if err != nil {
			return false, fmt.Errorf("%v: %w", store.Shard(shard), err)
		}
		if state.LastAtMs <= atMs && !idle {
			return false, nil
		}
		for i := range state.Open {
			if state.Open[i].AtMs <= atMs {
				return false, nil
			}
		}
	}
	return true, nil
}

// Heat counts people's placements in a span (up to, not including toMs) by tile. One that came into its journal more than an
// hour late may be missing.
func (p *Past) Heat(ctx context.Context, fromMs, toMs int64) (*board.Heat, error) {
	settings, err := p.settingsAt(ctx, toMs)
	if err != nil {
		return nil, fmt.Errorf("archive: heat: %w", err)
	}
	bounds := settings.Bounds()
	heat := &board.Heat{Width: bounds.Width, Height: bounds.Height, Counts: make([]uint32, bounds.Width*bounds.Height)}
	for q, err := range Placements(ctx, p.journals, Span{FromMs: fromMs, ToMs: toMs, Rect: bounds, LateMs: heatLateMs}) {
		if err != nil {
			return nil, err
		}
		if q.Kind == board.KindUser {
			at := q.Point()
			heat.Counts[at.Y*bounds.Width+at.X]++
		}
	}
	return heat, nil
}
