package store

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/placed-board/placed/board"
)

// Journals is what a walk through a history needs of a Store.
type Journals interface {
	Journal(ctx context.Context, p Partition, from uint64) iter.Seq2[JournalEntry, error]
}

// TileHistory returns placements of a tile, the newest first: at most limit of them from a cursor on, and the cursor behind
// them. What lies behind a cursor never changes. An error wraps board.ErrCursor when the cursor is not a place of this history.
//
// It costs a read of the journal for each placement.
func TileHistory(ctx context.Context, st Journals, p board.Point, from board.HistoryCursor, limit int) ([]board.Placement, board.HistoryCursor, error) {
	return walk(ctx, st, from, limit, chain{
		has:    func(q *board.Placement) bool { return q.Point() == p },
		before: func(q *board.Placement) board.Entry { return board.Entry{Block: p.Block(), Version: q.PreviousVersion} },
	})
}

// UserHistory does the same for a user's own placements and imports.
func UserHistory(ctx context.Context, st Journals, user board.UserID, from board.HistoryCursor, limit int) ([]board.Placement, board.HistoryCursor, error) {
	return walk(ctx, st, from, limit, chain{
		has: func(q *board.Placement) bool {
			return q.User == user && (q.Kind == board.KindUser || q.Kind == board.KindImport)
		},
		before: func(q *board.Placement) board.Entry { return q.UserPrevious },
	})
}

// chain tells which records belong to a history, and which entry comes before one of them.
type chain struct {
	has    func(*board.Placement) bool
	before func(*board.Placement) board.Entry
}

// last returns the newest record of the history in a commit at an index or before it, or -1.
func (c *chain) last(commit *BlockCommit, index int) int {
	for i := min(index, len(commit.Placements)-1); i >= 0; i-- {
		if c.has(&commit.Placements[i]) {
			return i
		}
	}
	return -1
}

func walk(ctx context.Context, st Journals, at board.HistoryCursor, limit int, c chain) ([]board.Placement, board.HistoryCursor, error) {
	var (
		found  []board.Placement
		commit BlockCommit
		loaded board.Entry
		err    error
	)
	for first := true; len(found) < limit && !at.End(); first = false {
		if at.Entry != loaded {
			if commit, err = readCommit(ctx, st, at.Entry); err != nil && (!first || !errors.Is(err, ErrNotFound)) {
				return nil, at, fmt.Errorf("store: history: %w", err)
			}
			loaded = at.Entry
		}
		i := c.last(&commit, int(at.Index))
		switch {
		case i < 0 && first:
			return nil, at, fmt.Errorf("store: %v commit %d, index %d: %w", Block(at.Block), at.Version, at.Index, board.ErrCursor)
		case i < 0:
			return nil, at, fmt.Errorf("store: history: %v commit %d lacks the placement that a newer one names: %w", Block(at.Block), at.Version, ErrCorrupt)
		}
		p := &commit.Placements[i]
		found = append(found, *p)
		next := board.NewestIn(c.before(p))
		if next.Entry == at.Entry { // an earlier record of this very commit
			if i == 0 {
				return nil, at, fmt.Errorf("store: history: %v commit %d names itself: %w", Block(at.Block), at.Version, ErrCorrupt)
			}
			next.Index = uint16(i - 1)
		}
		at = next
	}
	return found, at, nil
}

// readCommit reads one commit of a journal; ErrNotFound when the journal does not have it.
func readCommit(ctx context.Context, st Journals, e board.Entry) (BlockCommit, error) {
	for entry, err := range st.Journal(ctx, Block(e.Block), e.Version) {
		if err != nil {
			return BlockCommit{}, err
		}
		if entry.Version != e.Version {
			break
		}
		return DecodeBlockCommit(entry.Value)
	}
	return BlockCommit{}, fmt.Errorf("%v commit %d: %w", Block(e.Block), e.Version, ErrNotFound)
}
