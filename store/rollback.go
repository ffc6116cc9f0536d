package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/placed-board/placed/board"
)

// rollbackLateMs is how late a placement may come into its journal: one that came more than an hour after its time may be
// overlooked by a roll-back.
const rollbackLateMs = 3600 * 1000

// Rollback chooses the placements that a roll-back takes back.
type Rollback struct {
	Rect    board.Rect   // within it; the zero Rect: everywhere
	User    board.UserID // of this user alone, operators' writes in that name not included; "": everything
	SinceMs int64        // of this time or later, in Unix milliseconds
	UntilMs int64        // up to and including this time
	Job     uint64       // not 0: what the operators' job with this nonce, begun at SinceMs, wrote, and nothing else
}

// Has reports whether the roll-back takes the placement back.
func (r *Rollback) Has(p *board.Placement) bool {
	switch {
	case r.Rect != board.Rect{} && !r.Rect.Contains(p.Point()):
		return false
	case r.Job != 0:
		return p.Nonce == r.Job && p.Ticket.Shard == board.OpsShard && p.Kind != board.KindImport
	case p.AtMs < r.SinceMs || p.AtMs > r.UntilMs:
		return false
	}
	return r.User == "" || p.User == r.User && (p.Kind == board.KindUser || p.Kind == board.KindImport)
}

// Change is a tile that a roll-back writes.
type Change struct {
	At         board.Point
	Colour     board.Colour // that it gets
	Placements int          // that are taken back
}

// Past is what planning a roll-back needs of a Store.
type Past interface {
	Journals
	Blocks(ctx context.Context) ([]board.BlockID, error)
	Head(ctx context.Context, p Partition) (Head, error)
}

// PlanRollback returns the tiles that have to change, by chunk and tile: those whose newest placement is taken back get the
// colour that the newest one which is not taken back gave them, or colour 0. A tile that somebody else has painted since
// stays; so does one that has its old colour already.
//
// Cost: about a microsecond for each placement since an hour before SinceMs, and one read for each tile that has only
// placements that are taken back in that time.
func PlanRollback(ctx context.Context, st Past, r Rollback) ([]Change, error) {
	blocks, err := st.Blocks(ctx)
	if err != nil {
		return nil, fmt.Errorf("store: plan a roll-back: list blocks: %w", err)
	}
	var changes []Change
	for _, b := range blocks {
		if (r.Rect != board.Rect{}) && !r.Rect.Meets(b.Rect()) {
			continue
		}
		if changes, err = r.planBlock(ctx, st, b, changes); err != nil {
			return nil, fmt.Errorf("store: plan a roll-back: %v: %w", Block(b), err)
		}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.At.Chunk(), b.At.Chunk()), cmp.Compare(a.At.Tile(), b.At.Tile()))
	})
	return changes, nil
}

// planBlock appends a block's changes.
func (r *Rollback) planBlock(ctx context.Context, st Past, b board.BlockID, changes []Change) ([]Change, error) {
	from, err := firstSince(ctx, st, b, r.SinceMs-rollbackLateMs)
	if err != nil {
		return nil, err
	}
	touched := map[board.Point]*touchedTile{}
	for entry, err := range st.Journal(ctx, Block(b), from) {
		var commit BlockCommit
		if err == nil {
			commit, err = DecodeBlockCommit(entry.Value)
		}
		if err != nil {
			return nil, err
		}
		for i := range commit.Placements {
			r.touch(touched, &commit.Placements[i])
		}
	}
	for at, t := range touched {
		if t.taken == 0 {
			continue
		}
		if !t.known {
			if t.base, err = r.colourBefore(ctx, st, at, t); err != nil {
				return nil, err
			}
		}
		if t.base != t.colour {
			changes = append(changes, Change{At: at, Colour: t.base, Placements: t.taken})
		}
	}
	return changes, nil
}

// touch notes the next placement of the journal.
func (r *Rollback) touch(touched map[board.Point]*touchedTile, p *board.Placement) {
	t := touched[p.Point()]
	if t == nil {
		t = &touchedTile{oldest: p.Sequence, previous: p.PreviousVersion}
		touched[p.Point()] = t
	}
	if !r.Has(p) {
		*t = touchedTile{base: p.Colour, known: true}
		return
	}
	t.colour = p.Colour
	t.taken++
}

// firstSince returns a version of the block's journal near the first commit that was made at a time or later, by halving.
func firstSince(ctx context.Context, st Past, b board.BlockID, atMs int64) (uint64, error) {
	head, err := st.Head(ctx, Block(b))
	if err != nil {
		return 0, err
	}
	low, high := uint64(1), head.Version+1
	for low < high && atMs > 0 {
		middle := low + (high-low)/2
		commit, err := readCommit(ctx, st, board.Entry{Block: b, Version: middle})
		if err != nil {
			return 0, err
		}
		late := func(p board.Placement) bool { return p.AtMs >= atMs }
		if slices.ContainsFunc(commit.Placements, late) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, nil
}

// touchedTile is a tile that was placed in the time that is read.
type touchedTile struct {
	base     board.Colour // of the newest placement that stays
	known    bool         // base is; else it lies before the time that is read
	colour   board.Colour // of the newest placement, when it is taken back
	taken    int          // placements taken back since base
	oldest   uint64       // sequence of the first of these, and the commit with the placement of the tile before it
	previous uint64
}

// colourBefore walks the tile's history back to the newest placement that stays.
func (r *Rollback) colourBefore(ctx context.Context, st Journals, at board.Point, t *touchedTile) (board.Colour, error) {
	for from := board.NewestIn(board.Entry{Block: at.Block(), Version: t.previous}); !from.End(); {
		found, next, err := TileHistory(ctx, st, at, from, 1)
		if err != nil {
			return 0, err
		}
		if p := &found[0]; p.Sequence < t.oldest && !r.Has(p) {
			return p.Colour, nil
		}
		from = next
	}
	return 0, nil
}
