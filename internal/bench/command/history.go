package command

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/placed-board/placed/archive"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/bench/measure"
)

// historyRowsMax bounds what is replayed at a time, about 24 bytes a row in memory.
const historyRowsMax = 20_000_000

// history is the part of a recorded history that is replayed, in the order of time.
type history struct {
	rows  []historyRow
	users int // who place in it

	bad     int   // rows that cannot be read
	badRow  error // the first of them
	areas   int   // rows of more than one tile
	outside int   // rows beyond the board or its colours

	sent    int // rows that have a session
	noneYet int // rows that found no session free
	early   int // rows that came before their user's cooldown was over
	used    int // sessions that are needed
	speed   float64
	firstMs int64
}

type historyRow struct {
	atMs    int64
	user    uint32
	session int32 // -1: none was free
	x, y    uint16
	colour  board.Colour
}

// span is a part of a history.
type span struct {
	skip time.Duration // from the first row of all
	most time.Duration // 0: to the end
}

// readHistory reads the rows of files, in any order, and keeps those of a span that fit on the board.
func readHistory(files []string, settings *board.Settings, s span) (*history, error) {
	h, users := &history{}, map[board.UserID]uint32{}
	bounds := settings.Bounds()
	for row, err := range archive.Rows(files, nil) {
		if bad, ok := errors.AsType[*archive.RowError](err); ok {
			if h.bad++; h.badRow == nil {
				h.badRow = bad
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		r := &row.Area.Rect
		at := board.Point{X: r.X, Y: r.Y}
		switch {
		case r.Width*r.Height != 1:
			h.areas++
			continue
		case !bounds.Contains(at) || int(row.Colour) >= len(settings.Palette) || settings.Palette[row.Colour].Closed:
			h.outside++
			continue
		case len(h.rows) == historyRowsMax:
			return nil, fmt.Errorf("more than %d rows: replay a part of the files", historyRowsMax)
		}
		user, known := users[row.User]
		if !known {
			user = uint32(len(users))
			users[row.User] = user
		}
		h.rows = append(h.rows, historyRow{atMs: row.AtMs, user: user, x: uint16(at.X), y: uint16(at.Y), colour: row.Colour})
	}
	slices.SortStableFunc(h.rows, func(a, b historyRow) int { return cmp.Compare(a.atMs, b.atMs) })
	if len(h.rows) > 0 {
		from := h.rows[0].atMs + s.skip.Milliseconds()
		h.rows = h.rows[h.firstAt(from):]
		if s.most > 0 {
			h.rows = h.rows[:h.firstAt(from+s.most.Milliseconds())]
		}
	}
	if len(h.rows) == 0 {
		return nil, errors.New("the files have no placement in that span that fits on the board")
	}
	h.firstMs = h.rows[0].atMs
	present := make([]bool, len(users))
	for i := range h.rows {
		if user := h.rows[i].user; !present[user] {
			present[user] = true
			h.users++
		}
	}
	return h, nil
}

// firstAt is the index of the first row that is not before a time.
func (h *history) firstAt(atMs int64) int {
	i, _ := slices.BinarySearchFunc(h.rows, atMs, func(r historyRow, at int64) int { return cmp.Compare(r.atMs, at) })
	return i
}

// sessionRest is how much longer than the cooldown a session rests before it plays another user.
const sessionRest = time.Second

// assign gives every row a session, of which there are at most sessionsMax. Nobody can sign a million people in, and few place at
// a time: a session plays one user until the cooldown after that user's last placement is over, and then another. So whoever
// came too early in the history comes too early here.
func (h *history) assign(sessionsMax int, speed float64, cooldown time.Duration) {
	h.speed = speed
	type resting struct {
		session int32
		user    uint32
		since   time.Duration
	}
	playing := make(map[uint32]*resting, sessionsMax)
	var queue []*resting // by since
	for i := range h.rows {
		row := &h.rows[i]
		at := h.at(row)
		for len(queue) > 0 && len(playing) > 0 && queue[0].since+cooldown+sessionRest <= at && playing[queue[0].user] != queue[0] {
			queue = queue[1:] // played again since: another entry stands further back
		}
		now := playing[row.user]
		switch {
		case now != nil:
			if at-now.since < cooldown {
				h.early++
			}
		case h.used < sessionsMax:
			now = &resting{session: int32(h.used)}
			h.used++
		case len(queue) > 0 && queue[0].since+cooldown+sessionRest <= at:
			now = queue[0]
			queue = queue[1:]
			delete(playing, now.user)
		default:
			row.session = -1
			h.noneYet++
			continue
		}
		row.session = now.session
		h.sent++
		last := &resting{session: now.session, user: row.user, since: at}
		playing[row.user] = last
		queue = append(queue, last)
	}
}

// at is when a row is due in the replay.
func (h *history) at(row *historyRow) time.Duration {
	return time.Duration(float64(row.atMs-h.firstMs) * float64(time.Millisecond) / h.speed)
}

// duration is how long the replay takes.
func (h *history) duration() time.Duration { return h.at(&h.rows[len(h.rows)-1]) + time.Second }

// Events yields the rows that have a session.
func (h *history) Events() iter.Seq[measure.Event] {
	return func(yield func(measure.Event) bool) {
		for i := range h.rows {
			row := &h.rows[i]
			if row.session < 0 {
				continue
			}
			if !yield(measure.Event{At: h.at(row), User: int(row.session), X: int(row.x), Y: int(row.y), Colour: uint8(row.colour)}) {
				return
			}
		}
	}
}
