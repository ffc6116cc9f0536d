package archive

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Journals is what reading a history needs of a store.
type Journals interface {
	Blocks(ctx context.Context) ([]board.BlockID, error)
	Head(ctx context.Context, p store.Partition) (store.Head, error)
	Journal(ctx context.Context, p store.Partition, from uint64) iter.Seq2[store.JournalEntry, error]
}

// Span chooses placements of a history by time and place.
type Span struct {
	FromMs int64      // at this time or later
	ToMs   int64      // before this time; 0: without end
	Rect   board.Rect // the zero Rect: everywhere
	// LateMs is how much later than its time a placement may have come into its journal; with it, reading begins and ends near
	// the span instead of reading whole journals. 0 reads everything and is exact: a charge that was open while its node was
	// down for hours came hours late. An hour is wrong for those alone.
	LateMs int64
}

// Contains reports whether the placement belongs to the span.
func (s *Span) Contains(p *board.Placement) bool {
	return p.AtMs >= s.FromMs && (s.ToMs == 0 || p.AtMs < s.ToMs) && (s.Rect == board.Rect{} || s.Rect.Contains(p.Point()))
}

// Placements yields the placements of a span by time, and in the order of their journal wherever that is another one: a chunk's
// sequences always ascend. It reads the journals as they are at the call; what comes later is left out.
//
// Cost: about a microsecond a placement of the journals read, whether it is in the span or not (see Span.LateMs), and 100 KiB
// of memory a block that has placements in the rectangle. Only blocks that meet the rectangle are read.
func Placements(ctx context.Context, j Journals, s Span) iter.Seq2[board.Placement, error] {
	return func(yield func(board.Placement, error) bool) {
		cursors, err := openCursors(ctx, j, &s)
		defer func() {
			for _, c := range cursors {
				c.stop()
			}
		}()
		if err != nil {
			yield(board.Placement{}, err)
			return
		}
		heap := newCursorHeap(cursors)
		for len(heap) > 0 {
			c := heap[0]
			p := &c.commit.Placements[c.index]
			if s.Contains(p) && !yield(*p, nil) {
				return
			}
			more, err := c.next()
			if err != nil {
				yield(board.Placement{}, err)
				return
			}
			if !more {
				heap[0] = heap[len(heap)-1]
				heap = heap[:len(heap)-1]
			}
			heap.sink(0)
		}
	}
}

// openCursors returns a cursor at the first placement of each block of the span. The caller stops them, also after an error.
func openCursors(ctx context.Context, j Journals, s *Span) ([]*cursor, error) {
	blocks, err := j.Blocks(ctx)
	if err != nil {
		return nil, fmt.Errorf("archive: list blocks: %w", err)
	}
	var cursors []*cursor
	for _, b := range blocks {
		if (s.Rect != board.Rect{}) && !s.Rect.Meets(b.Rect()) {
			continue
		}
		from, err := firstCommit(ctx, j, b, s)
		if err != nil {
			return cursors, err
		}
		c := &cursor{block: b, endMs: s.endMs()}
		c.pull, c.stop = iter.Pull2(j.Journal(ctx, store.Block(b), from))
		more, err := c.next()
		if err != nil {
			c.stop()
			return cursors, err
		}
		if more {
			cursors = append(cursors, c)
		} else {
			c.stop()
		}
	}
	return cursors, nil
}

// endMs returns the time in a journal after which nothing of the span can come, 0 for none.
func (s *Span) endMs() int64 {
	if s.ToMs == 0 || s.LateMs == 0 {
		return 0
	}
	return s.ToMs + s.LateMs
}

// firstCommit returns the first version of the block's journal that may hold placements of the span, by halving.
func firstCommit(ctx context.Context, j Journals, b board.BlockID, s *Span) (uint64, error) {
	if s.LateMs == 0 || s.FromMs <= 0 {
		return 1, nil
	}
	head, err := j.Head(ctx, store.Block(b))
	if err != nil {
		return 0, fmt.Errorf("archive: head of %v: %w", store.Block(b), err)
	}
	low, high := uint64(1), head.Version+1
	for low < high {
		middle := low + (high-low)/2
		newestMs := int64(0)
		for entry, err := range j.Journal(ctx, store.Block(b), middle) {
			if err == nil {
				newestMs, err = newestTime(&entry)
			}
			if err != nil {
				return 0, fmt.Errorf("archive: %v: %w", store.Block(b), err)
			}
			break
		}
		if newestMs >= s.FromMs-s.LateMs {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, nil
}

func newestTime(e *store.JournalEntry) (int64, error) {
	commit, err := store.DecodeBlockCommit(e.Value)
	if err != nil {
		return 0, fmt.Errorf("commit %d: %w", e.Version, err)
	}
	newestMs := int64(0)
	for i := range commit.Placements {
		newestMs = max(newestMs, commit.Placements[i].AtMs)
	}
	return newestMs, nil
}

// cursor walks one block's journal.
type cursor struct {
	block  board.BlockID
	pull   func() (store.JournalEntry, error, bool)
	stop   func()
	endMs  int64 // the walk ends at the first placement of this time or later; 0: at the end of the journal
	begun  bool
	commit store.BlockCommit
	index  int   // of the placement that the cursor stands at
	keyMs  int64 // the latest time of the journal so far: the place among the other blocks
}

// next goes on to the next placement; false at the end.
func (c *cursor) next() (bool, error) {
	c.index++
	for !c.begun || c.index >= len(c.commit.Placements) {
		c.begun = true
		entry, err, ok := c.pull()
		if err == nil && ok {
			c.commit, err = store.DecodeBlockCommit(entry.Value)
		}
		if err != nil {
			return false, fmt.Errorf("archive: %v: %w", store.Block(c.block), err)
		}
		if !ok {
			return false, nil
		}
		c.index = 0
	}
	atMs := c.commit.Placements[c.index].AtMs
	c.keyMs = max(c.keyMs, atMs)
	return c.endMs == 0 || atMs < c.endMs, nil
}

// cursorHeap has the cursor that comes first at index 0.
type cursorHeap []*cursor

func newCursorHeap(cursors []*cursor) cursorHeap {
	h := cursorHeap(append([]*cursor(nil), cursors...))
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
	return h
}

func (h cursorHeap) before(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].keyMs, h[j].keyMs), cmp.Compare(h[i].block, h[j].block)) < 0
}

// sink puts the cursor at index i, which may come later than those below it, where it belongs.
func (h cursorHeap) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// Times returns the time of the first and of the last placement, about: those of each journal's first and last commits. ok is
// false when there are none. It reads two commits a block.
func Times(ctx context.Context, j Journals) (firstMs, lastMs int64, ok bool, err error) {
	blocks, err := j.Blocks(ctx)
	if err != nil {
		return 0, 0, false, fmt.Errorf("archive: list blocks: %w", err)
	}
	for _, b := range blocks {
		head, err := j.Head(ctx, store.Block(b))
		if err != nil {
			return 0, 0, false, fmt.Errorf("archive: head of %v: %w", store.Block(b), err)
		}
		for _, version := range []uint64{1, head.Version} {
			for entry, err := range j.Journal(ctx, store.Block(b), version) {
				var commit store.BlockCommit
				if err == nil {
					commit, err = store.DecodeBlockCommit(entry.Value)
				}
				if err != nil {
					return 0, 0, false, fmt.Errorf("archive: %v: %w", store.Block(b), err)
				}
				for i := range commit.Placements {
					atMs := commit.Placements[i].AtMs
					if !ok {
						firstMs, lastMs, ok = atMs, atMs, true
					}
					firstMs, lastMs = min(firstMs, atMs), max(lastMs, atMs)
				}
				break
			}
		}
	}
	return firstMs, lastMs, ok, nil
}
