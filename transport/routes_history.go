package transport

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/placed-board/placed/board"
)

// Bounds of histories.
const (
	historyPageDefault = 50
	historyPageMax     = 100 // placements of a page; each is a read of the store
	historyCost        = 10  // requests of the address's ration that a page takes
)

// Historian answers questions about the past.
type Historian interface {
	// TileHistory returns at most limit placements of a tile, the newest first, from a cursor on, and the cursor behind them. An
	// error wraps board.ErrCursor when the cursor is not of this history.
	TileHistory(ctx context.Context, p board.Point, from board.HistoryCursor, limit int) ([]board.HistoryItem, board.HistoryCursor, error)
	// UserHistory does the same for a user's placements.
	UserHistory(ctx context.Context, user board.UserID, from board.HistoryCursor, limit int) ([]board.HistoryItem, board.HistoryCursor, error)
}

// historyPage is the answer to a question for a history.
type historyPage struct {
	Items []board.HistoryItem `json:"items"`
	Next  string              `json:"next,omitempty"` // the page parameter of the next older page; none: these were the last
}

// cacheForEver is for what can never change.
const cacheForEver = "public, max-age=31536000, immutable"

// getTileHistory answers GET /api/v1/tiles/{x}/{y}/history: who placed the tile before, the newest placement first.
func (s *Server) getTileHistory(w http.ResponseWriter, r *http.Request) {
	p, ok := s.pathTile(w, r)
	if !ok {
		return
	}
	s.serveHistory(w, r, fmt.Sprintf("tile %d %d", p.X, p.Y), func(ctx context.Context, from board.HistoryCursor, limit int) ([]board.HistoryItem, board.HistoryCursor, error) {
		return s.deps.History.TileHistory(ctx, p, from, limit)
	})
}

// getUserHistory answers GET /api/v1/users/{user}/history: what the user placed, the newest placement first.
func (s *Server) getUserHistory(w http.ResponseWriter, r *http.Request) {
	user, err := board.ParseUserID(r.PathValue("user"))
	if err != nil {
		s.fail(w, newProblem(problemUserName, err.Error()))
		return
	}
	s.serveHistory(w, r, "user "+string(user), func(ctx context.Context, from board.HistoryCursor, limit int) ([]board.HistoryItem, board.HistoryCursor, error) {
		return s.deps.History.UserHistory(ctx, user, from, limit)
	})
}

// serveHistory answers with one page. A page that begins at a cursor never changes.
func (s *Server) serveHistory(w http.ResponseWriter, r *http.Request, of string,
	read func(context.Context, board.HistoryCursor, int) ([]board.HistoryItem, board.HistoryCursor, error),
) {
	query, p := readQuery(r, "page", "limit")
	if p != nil {
		s.fail(w, p)
		return
	}
	limit, ok := historyPageDefault, true
	if text, given := query["limit"]; given {
		limit, ok = canonical(text)
	}
	if !ok || limit < 1 || limit > historyPageMax {
		s.fail(w, newProblem(problemBadRequest, fmt.Sprintf("limit is a whole number from 1 to %d", historyPageMax)))
		return
	}
	from, cache := board.HistoryCursor{}, "public, max-age=1"
	epoch := s.deps.Board.Epoch()
	if text, given := query["page"]; given {
		if from, ok = readPage(text, epoch, of); !ok {
			s.fail(w, newProblem(problemPage, ""))
			return
		}
		cache = cacheForEver
	}
	if p := s.ration(r, historyCost); p != nil {
		s.fail(w, p)
		return
	}
	ctx, cancel := s.readContext(r)
	defer cancel()
	items, next, err := read(ctx, from, limit)
	switch {
	case errors.Is(err, board.ErrCursor):
		s.fail(w, newProblem(problemPage, ""))
	case err != nil:
		s.storeFailed(w, r, err)
	default:
		page := historyPage{Items: items}
		if !next.End() {
			page.Next = writePage(next, epoch, of)
		}
		writeJSON(w, http.StatusOK, cache, page)
	}
}

// readQuery returns the query's parameters, each of which must be one of names and be there once: everything else would be
// another address of the same thing, and pass by every cache.
func readQuery(r *http.Request, names ...string) (map[string]string, *problem) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, newProblem(problemBadRequest, "the query cannot be read")
	}
	out := map[string]string{}
	for name, list := range values {
		if !slices.Contains(names, name) {
			return nil, newProblem(problemBadRequest, fmt.Sprintf("the query has %q; known here: %q", name, names))
		}
		if len(list) != 1 {
			return nil, newProblem(problemBadRequest, fmt.Sprintf("%q is there more than once", name))
		}
		out[name] = list[0]
	}
	return out, nil
}

// canonical reads a whole number in its one form.
func canonical(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && strconv.Itoa(n) == text
}

// ration takes a costly request from the address's share: the first of its cost is taken already.
func (s *Server) ration(r *http.Request, cost int) *problem {
	peer := s.peerOf(r)
	if peer.unlimited {
		return nil
	}
	if wait, ok := s.limits.requests(peer.addr, time.Now(), cost-1); !ok {
		return rateProblem(wait)
	}
	return nil
}

// A page's token is a cursor and a checksum over it, the board's epoch and what the history is of. It is no secret and needs no
// key, so that every node reads it at any time: the checksum turns away tokens that were made up, mistyped or taken from
// another history at no cost, and whoever forges it gets a place that the journal confirms, or the same refusal.
const (
	pageVersion  = 1
	pageSumBytes = 4
)

var pageTable = crc32.MakeTable(crc32.Castagnoli)

func pageSum(cursor []byte, epoch uint64, of string) uint32 {
	b := binary.LittleEndian.AppendUint64(nil, epoch)
	return crc32.Checksum(append(append(b, cursor...), of...), pageTable)
}

func writePage(c board.HistoryCursor, epoch uint64, of string) string {
	b := binary.AppendUvarint([]byte{pageVersion}, uint64(c.Block))
	b = binary.AppendUvarint(b, c.Version)
	b = binary.AppendUvarint(b, uint64(c.Index))
	b = binary.LittleEndian.AppendUint32(b, pageSum(b, epoch, of))
	return base64.RawURLEncoding.EncodeToString(b)
}

// readPage decodes a token; ok is false unless it is exactly what writePage makes.
func readPage(text string, epoch uint64, of string) (c board.HistoryCursor, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+pageSumBytes || b[0] != pageVersion {
		return c, false
	}
	rest := b[1 : len(b)-pageSumBytes]
	var numbers [3]uint64
	for i := range numbers {
		n, size := binary.Uvarint(rest)
		if size <= 0 {
			return c, false
		}
		numbers[i], rest = n, rest[size:]
	}
	if numbers[0] > 1<<16-1 || !board.BlockID(numbers[0]).Valid() || numbers[2] > 1<<16-1 {
		return c, false
	}
	c = board.HistoryCursor{Entry: board.Entry{Block: board.BlockID(numbers[0]), Version: numbers[1]}, Index: uint16(numbers[2])}
	return c, !c.End() && writePage(c, epoch, of) == text
}
