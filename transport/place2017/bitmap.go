package place2017

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// bitmap keeps the newest board in the layout of 2017. It is packed when somebody asks, once for each body.
type bitmap struct {
	mu     sync.Mutex // guards the fields below
	body   []byte     // what packed was made of; holding it keeps its address from being used for another
	packed []byte     // nobody changes it
}

// of returns the packed form of a board body.
func (b *bitmap) of(body []byte) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(body) == len(b.body) && &body[0] == &b.body[0] {
		return b.packed, nil
	}
	packed, err := pack(body)
	if err != nil {
		return nil, err
	}
	b.body, b.packed = body, packed
	return packed, nil
}

// pack returns the tiles of an encoded board row by row, two to a byte, the left one in the high bits; rows follow each other
// without a gap.
func pack(encoded []byte) ([]byte, error) {
	body, err := wire.DecodeBoard(encoded)
	if err != nil {
		return nil, fmt.Errorf("place2017: %w", err)
	}
	packed := make([]byte, (body.Width*body.Height+1)/2)
	var tiles board.Tiles
	for _, c := range body.Chunks {
		o := c.Chunk.Origin()
		cols, rows := min(board.ChunkSize, body.Width-o.X), min(board.ChunkSize, body.Height-o.Y)
		if body.ColourWidth == board.Width4 && body.Width%2 == 0 { // rows of tiles are whole bytes
			const rowBytes = board.ChunkSize / 2
			for row := range rows {
				copy(packed[((o.Y+row)*body.Width+o.X)/2:][:cols/2], c.Image[row*rowBytes:])
			}
			continue
		}
		if err := tiles.SetImage(c.Image, body.ColourWidth); err != nil {
			return nil, fmt.Errorf("place2017: %w", err)
		}
		for row := range rows {
			for col := range cols {
				at := (o.Y+row)*body.Width + o.X + col
				packed[at/2] |= byte(tiles[row*board.ChunkSize+col]) & 0x0f << (4 * (1 - at%2))
			}
		}
	}
	return packed, nil
}

// getBitmap answers GET and HEAD /api/place/board-bitmap: the time (Unix seconds, little-endian) and the tiles. It is always
// made of the newest board, so what the flags ask for differs only in what caches in front are told.
func (f *Face) getBitmap(w http.ResponseWriter, r *http.Request) {
	settings, ok := f.settings(w)
	if !ok {
		return
	}
	if !settings.Whole() {
		f.fail(w, reasonLarge, http.StatusConflict, 0, "The board is too large to be sent whole.")
		return
	}
	body, _ := f.deps.Board.BoardBody()
	if body == nil {
		f.failCode(w, board.CodeLoading, 0)
		return
	}
	packed, err := f.bitmap.of(body)
	if err != nil {
		f.failCode(w, board.CodeLoading, 0)
		return
	}
	h := w.Header()
	if origin := r.Header.Get("Origin"); origin != "" {
		f.allowOrigin(h, r, origin)
	}
	h.Set("Cache-Control", "max-age=1, stale-while-revalidate=1")
	if hasFlag(r, "nocache") {
		h.Set("Cache-Control", "private")
	}
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.Itoa(4+len(packed)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		// Both go out in one segment: programs of 2017 look for the time in the first one.
		w.Write(binary.LittleEndian.AppendUint32(nil, uint32(time.Now().Unix())))
		w.Write(packed)
	}
}

func hasFlag(r *http.Request, name string) bool {
	query, _ := url.ParseQuery(r.URL.RawQuery) // what is wrong in it is not a flag
	return query.Has(name)
}

// allowOrigin says which pages may read the board: in 2017 those of one other host; here the page's own and those allowed.
func (f *Face) allowOrigin(h http.Header, r *http.Request, origin string) {
	if !f.deps.Host.AllowedOrigin(r, origin) {
		origin = f.origin(r)
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Vary", "Origin")
	h.Set("Access-Control-Allow-Methods", "GET")
	h.Set("Access-Control-Allow-Credentials", "true")
}

// origin returns the origin of this server as the client sees it.
func (f *Face) origin(r *http.Request) string {
	if f.deps.Host.Secure(r) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
