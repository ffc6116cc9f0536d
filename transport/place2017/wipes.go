package place2017

import (
	"slices"
	"time"

	"github.com/placed-board/placed/board"
)

// Bounds of what is gathered into one "batch-place".
const (
	// gatherQuiet is how long nothing more must come before what was gathered is told: above the longest tick of the feed.
	gatherQuiet = 300 * time.Millisecond
	// gatherAtMost is how long it waits in all.
	gatherAtMost = 2 * time.Second
	// gatherTilesMax is how many tiles a message has at most, about 50 KiB.
	gatherTilesMax = 1000
)

// wipes gathers what operators do, which reaches the board tick by tick, into few messages: one for each rectangle of
// drawrect, as in 2017, and as few as can be for all else. A tile that a user places meanwhile leaves what is gathered, so that
// what is told late is never old.
type wipes struct {
	rects   []*wipe
	tiles   []board.PlacedTile // of no rectangle, in the order of their first coming
	index   map[board.Point]int
	firstAt time.Time // when the first of tiles came
	lastAt  time.Time // when the last came
}

// wipe is a rectangle of drawrect under way.
type wipe struct {
	rect  board.Rect
	other map[board.Point]struct{} // tiles that a user has placed meanwhile
	done  bool                     // on the board
	at    time.Time                // when the last of its tiles came, or it was done
}

func (s *wipes) begin(rect board.Rect, now time.Time) {
	s.rects = append(s.rects, &wipe{rect: rect, other: map[board.Point]struct{}{}, at: now})
}

// end says that the oldest such rectangle is on the board.
func (s *wipes) end(rect board.Rect, now time.Time) {
	for _, w := range s.rects {
		if w.rect == rect && !w.done {
			w.done, w.at = true, now
			return
		}
	}
}

// user takes note of a user's placement.
func (s *wipes) user(p board.Point) {
	for _, w := range s.rects {
		if w.rect.Contains(p) {
			w.other[p] = struct{}{}
		}
	}
	if i, ok := s.index[p]; ok {
		last := len(s.tiles) - 1
		s.tiles[i] = s.tiles[last]
		s.index[s.tiles[i].At] = i
		delete(s.index, p)
		s.tiles = s.tiles[:last]
	}
}

// operator gathers a tile that an operator has set.
func (s *wipes) operator(p board.PlacedTile, now time.Time) {
	inside := false
	for _, w := range s.rects {
		if w.rect.Contains(p.At) && p.Colour == 0 {
			inside, w.at = true, now
			delete(w.other, p.At)
		}
	}
	if inside {
		return
	}
	if len(s.tiles) == 0 {
		s.firstAt, s.index = now, map[board.Point]int{}
	}
	s.lastAt = now
	if i, ok := s.index[p.At]; ok {
		s.tiles[i] = p
		return
	}
	s.index[p.At] = len(s.tiles)
	s.tiles = append(s.tiles, p)
}

// due returns the batches that are due, each for one message.
func (s *wipes) due(now time.Time) [][]board.PlacedTile {
	var out [][]board.PlacedTile
	s.rects = slices.DeleteFunc(s.rects, func(w *wipe) bool {
		if !w.done || now.Sub(w.at) < gatherQuiet {
			return false
		}
		out = append(out, w.tiles())
		return true
	})
	if n := len(s.tiles); n > 0 && (n >= gatherTilesMax || now.Sub(s.lastAt) >= gatherQuiet || now.Sub(s.firstAt) >= gatherAtMost) {
		out = slices.AppendSeq(out, slices.Chunk(s.tiles, gatherTilesMax))
		s.tiles, s.index = nil, nil
	}
	return out
}

// tiles returns the whole rectangle column by column, as in 2017, but for what users have placed since.
func (w *wipe) tiles() []board.PlacedTile {
	out := make([]board.PlacedTile, 0, w.rect.Width*w.rect.Height)
	for x := w.rect.X; x < w.rect.X+w.rect.Width; x++ {
		for y := w.rect.Y; y < w.rect.Y+w.rect.Height; y++ {
			p := board.Point{X: x, Y: y}
			if _, ok := w.other[p]; !ok {
				out = append(out, board.PlacedTile{At: p})
			}
		}
	}
	return out
}
