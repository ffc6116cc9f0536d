package board

import "errors"

// ErrCursor says that a history has no such place.
var ErrCursor = errors.New("no such place in this history")

// HistoryItem is one placement in the history of a tile or of a user.
type HistoryItem struct {
	X        int    `json:"x"`
	Y        int    `json:"y"`
	Colour   Colour `json:"colour"`
	User     UserID `json:"user"` // of a clear or a roll-back: the operator
	AtMs     int64  `json:"at_ms"`
	Kind     string `json:"kind"`
	Sequence uint64 `json:"sequence"` // of the placement in its chunk
}

// HistoryCursor is a place in a history: the newest record of the tile or user in a commit, at an index or before it. The zero
// value is the end of a history; as a start it means the newest placement.
type HistoryCursor struct {
	Entry
	Index uint16
}

// NewestIn returns the cursor at the newest record of an entry.
func NewestIn(e Entry) HistoryCursor {
	if e.Version == 0 {
		return HistoryCursor{}
	}
	return HistoryCursor{Entry: e, Index: 1<<16 - 1}
}

// End reports whether there is nothing at or behind the cursor.
func (c HistoryCursor) End() bool { return c.Version == 0 }

// HistoryItem returns the placement as histories tell it.
func (p *Placement) HistoryItem() HistoryItem {
	at := p.Point()
	return HistoryItem{X: at.X, Y: at.Y, Colour: p.Colour, User: p.User, AtMs: p.AtMs, Kind: p.Kind.String(), Sequence: p.Sequence}
}
