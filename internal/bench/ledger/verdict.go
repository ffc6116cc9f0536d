package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/bench/measure"
)

// Chunk is a chunk as a board shows it.
type Chunk struct {
	Sequence uint64
	Tiles    board.Tiles
}

// Board is one view of the whole board; chunks without placements may be left out.
type Board map[board.ChunkID]*Chunk

// Evidence is what the run saw of the board, apart from answers.
type Evidence struct {
	Before Board // before the first placement of the run
	After  Board // after everything had come to rest, as the server gives it to a newcomer
	// Sole says that nobody else placed anything meanwhile: then every step of every chunk must be explained by an answer.
	Sole bool
	Seen []Seen // placements as a listener was sent them, as far as it could tell their sequence numbers
}

// Seen is one placement in a frame.
type Seen struct {
	Chunk    board.ChunkID
	Sequence uint64
	Tile     int // index in the chunk
	Colour   board.Colour
}

// Verdict judges the ledger: extra tiles, lost acknowledgements, changed answers, sequence gaps, one check each.
func (l *Ledger) Verdict(e Evidence) []measure.Check {
	var extra, changed findings
	var all []Accepted
	doubtful := 0
	l.each(func(_ int, a *account) {
		list := make([]Accepted, 0, len(a.accepted))
		for _, accepted := range a.accepted {
			list = append(list, accepted)
		}
		extraTiles(list, l.cooldown, &extra)
		all = append(all, list...)
		doubtful += len(a.doubtful)
		for _, what := range a.changed {
			changed.add("%s", what)
		}
	})
	var gaps, lost findings
	taken := duplicates(all, &gaps)
	for _, seen := range e.Seen {
		if a := taken[place{seen.Chunk, seen.Sequence}]; a != nil && (a.Tile != seen.Tile || a.Colour != seen.Colour) {
			gaps.add("chunk %d sequence %d was answered as tile %d colour %d and sent to listeners as tile %d colour %d",
				seen.Chunk, seen.Sequence, a.Tile, a.Colour, seen.Tile, seen.Colour)
		}
	}
	lostAcknowledgements(all, taken, e, &lost)
	if e.Sole {
		unexplained(taken, doubtful, e, &extra)
	}
	return []measure.Check{
		extra.check("extra tiles"), lost.check("lost acknowledgements"), changed.check("answers that changed"), gaps.check("sequence gaps"),
	}
}

// How far the server's clock may be from this run's: it truncates to clockStep, and runs faster by one part in clockDrift at
// most.
const (
	clockStep  = time.Millisecond
	clockDrift = 2000
)

// extraTiles looks for acceptances of one user that no server can give without breaking the cooldown. A placement took
// effect after its first copy left and before its acceptance was heard, so the k-th acceptance after another must be
// heard at least k cooldowns after that other left, for every pair. What breaks this is one extra tile, and is left out
// of the count for those that follow. Two placements of one turn are one tile too many as well.
//
// The server counts in whole milliseconds of a wall clock, which is being steered while this run's clock is not: hence
// clockStep, once over any number of placements, and clockDrift.
func extraTiles(list []Accepted, cooldown time.Duration, extra *findings) {
	slices.SortFunc(list, func(p, q Accepted) int { return cmp.Or(cmp.Compare(p.Turn, q.Turn), cmp.Compare(p.Heard, q.Heard)) })
	counted := 0
	latest := time.Duration(0) // over the counted ones so far: the latest of (Sent - index x cooldown)
	for i, a := range list {
		if i > 0 && a.Turn != 0 && a.Turn == list[i-1].Turn {
			extra.add("user %d placed twice in turn %d", a.User, a.Turn)
			continue
		}
		step := time.Duration(counted) * cooldown
		if early := latest - (a.Heard + a.Heard/clockDrift + clockStep - step); counted > 0 && early > 0 {
			extra.add("user %d: turn %d was on the board %v too early at least", a.User, a.Turn, early)
			continue
		}
		if counted == 0 || a.Sent-step > latest {
			latest = a.Sent - step
		}
		counted++
	}
}

// duplicates returns who holds which place in the chunks' order, and finds places that were given twice.
func duplicates(all []Accepted, gaps *findings) map[place]*Accepted {
	taken := make(map[place]*Accepted, len(all))
	for i := range all {
		a := &all[i]
		at := place{a.Chunk, a.Sequence}
		if other := taken[at]; other != nil {
			gaps.add("chunk %d sequence %d was given to user %d and to user %d", a.Chunk, a.Sequence, other.User, a.User)
			continue
		}
		taken[at] = a
	}
	return taken
}

// lostAcknowledgements looks for acceptances that the board does not show. A colour can be judged only where nothing
// unknown came after it: above the highest step of the chunk that no answer explains.
func lostAcknowledgements(all []Accepted, taken map[place]*Accepted, e Evidence, lost *findings) {
	for _, a := range all {
		after := e.After[a.Chunk]
		switch before := e.Before[a.Chunk]; {
		case after == nil || after.Sequence < a.Sequence:
			lost.add("chunk %d sequence %d of user %d is not on the board, which ends at %d", a.Chunk, a.Sequence, a.User, after.sequence())
		case a.Sequence <= before.sequence():
			lost.add("chunk %d sequence %d of user %d had been given before the run", a.Chunk, a.Sequence, a.User)
		}
	}
	for chunk, after := range e.After {
		shown := map[int]bool{}
		for sequence := after.Sequence; sequence > e.Before[chunk].sequence(); sequence-- {
			a := taken[place{chunk, sequence}]
			if a == nil {
				break // what lies below may have been painted over by this one
			}
			if shown[a.Tile] {
				continue
			}
			shown[a.Tile] = true
			if got := after.Tiles[a.Tile]; got != a.Colour {
				lost.add("tile %v shows colour %d instead of %d, placed last by user %d", chunk.Point(a.Tile), got, a.Colour, a.User)
			}
		}
	}
}

// unexplained counts steps of chunks for which nobody holds an acceptance, less the placements that were sent without a
// final answer: those may be on the board.
func unexplained(taken map[place]*Accepted, doubtful int, e Evidence, extra *findings) {
	holes := 0
	example := ""
	for chunk, after := range e.After {
		for sequence := e.Before[chunk].sequence() + 1; sequence <= after.Sequence; sequence++ {
			if taken[place{chunk, sequence}] == nil {
				holes++
				example = fmt.Sprintf("chunk %d sequence %d", chunk, sequence)
			}
		}
	}
	for range holes - doubtful {
		extra.add("the board shows more placements than there are answers, such as %s", example)
	}
}

func (c *Chunk) sequence() uint64 {
	if c == nil {
		return 0
	}
	return c.Sequence
}

// Divergence describes the first difference of two boards, "" for none.
func Divergence(a, b Board) string {
	for _, boards := range [2][2]Board{{a, b}, {b, a}} {
		for chunk, one := range boards[0] {
			other := boards[1][chunk]
			switch {
			case one.sequence() != other.sequence():
				return fmt.Sprintf("chunk %d is at sequence %d and at %d", chunk, a[chunk].sequence(), b[chunk].sequence())
			case other != nil && one.Tiles != other.Tiles:
				return fmt.Sprintf("chunk %d at sequence %d has other tiles", chunk, one.Sequence)
			}
		}
	}
	return ""
}

// examplesMax is how many findings a verdict line spells out.
const examplesMax = 3

// findings counts what is wrong and keeps the first examples.
type findings struct {
	count    int
	examples []string
}

func (f *findings) add(format string, args ...any) {
	if f.count++; len(f.examples) < examplesMax {
		f.examples = append(f.examples, fmt.Sprintf(format, args...))
	}
}

func (f *findings) check(name string) measure.Check {
	return measure.Zero(name, f.count, strings.Join(f.examples, "; "))
}
