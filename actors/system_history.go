package actors

import (
	"context"
	"errors"
	"fmt"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// TileHistory returns placements of a tile, the newest first: at most limit of them, from a cursor on (the zero one: from the
// newest), and the cursor behind them. Errors: ErrBounds; board.ErrCursor for a cursor that is not of this history.
func (s *System) TileHistory(ctx context.Context, p board.Point, from board.HistoryCursor, limit int) ([]board.HistoryItem, board.HistoryCursor, error) {
	if from.End() {
		known, err := s.tileKnown(ctx, p)
		if err != nil {
			return nil, from, err
		}
		from = board.NewestIn(board.Entry{Block: p.Block(), Version: known.Version})
	} else if from.Block != p.Block() {
		return nil, from, fmt.Errorf("actors: history of tile %v: %w", p, board.ErrCursor)
	}
	found, next, err := store.TileHistory(ctx, s.store, p, from, limit)
	return s.items(found), next, s.historyErr("tile_history", store.Block(p.Block()), err)
}

// UserHistory does the same for a user's own placements. One that was placed just now may be missing for the time of its
// closing, CloseMs and a commit (ADR 0010). A user that the board does not know has an empty history.
func (s *System) UserHistory(ctx context.Context, user board.UserID, from board.HistoryCursor, limit int) ([]board.HistoryItem, board.HistoryCursor, error) {
	partition := store.Shard(user.Shard())
	if from.End() {
		row, err := s.storing.row(ctx, partition, user)
		if err != nil {
			return nil, from, s.historyErr("user_history", partition, err)
		}
		from = board.NewestIn(row.Newest)
	}
	found, next, err := store.UserHistory(ctx, s.store, user, from, limit)
	return s.items(found), next, s.historyErr("user_history", partition, err)
}

func (s *System) items(found []board.Placement) []board.HistoryItem {
	items := make([]board.HistoryItem, len(found))
	for i := range found {
		items[i] = found[i].HistoryItem()
	}
	return items
}

// historyErr counts what the store could not answer; a wrong cursor is the reader's.
func (s *System) historyErr(what string, p store.Partition, err error) error {
	if err == nil || errors.Is(err, board.ErrCursor) {
		return err
	}
	s.storing.failed(what, p.String(), err)
	return fmt.Errorf("actors: %w", err)
}
