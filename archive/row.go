package archive

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/placed-board/placed/board"
)

// Row is one row of a history: somebody coloured a tile, or a moderator an area.
type Row struct {
	AtMs     int64
	User     board.UserID
	Colour   board.Colour
	Area     Area
	Position uint64 // where the row stands: the file's number from 1 in the high 24 bits, its line in the low 40
}

// positionLineBits is how many bits of a position are the line's.
const positionLineBits = 40

// Area is what a row colours, in tiles of the board: a rectangle, mostly of one tile, or a circle in it.
type Area struct {
	Rect   board.Rect
	Circle bool // only the tiles within Rect.Width/2 of the middle one
}

// Tiles calls visit for every tile of the area, row by row.
func (a *Area) Tiles(visit func(board.Point) error) error {
	radius := a.Rect.Width / 2
	for y := range a.Rect.Height {
		for x := range a.Rect.Width {
			if dx, dy := x-radius, y-radius; a.Circle && dx*dx+dy*dy > radius*radius {
				continue
			}
			if err := visit(board.Point{X: a.Rect.X + x, Y: a.Rect.Y + y}); err != nil {
				return err
			}
		}
	}
	return nil
}

// RowError is one row that cannot be used; those after it may be.
type RowError struct {
	File string
	Line int64
	Err  error
}

// Error returns "file:line: what is wrong".
func (e *RowError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap returns what is wrong.
func (e *RowError) Unwrap() error { return e.Err }

// pseudonymBytes is the size of the hashes that stand for users in the public data of 2017: 28 characters of base64.
const pseudonymBytes = 20

// userOf returns the user of a history. A name that is longer than a board's names may be, as the hashes of 2022 and 2023 are,
// becomes the first 20 bytes of its SHA-256 in base64, which has the shape of those of 2017.
func userOf(name string) (board.UserID, error) {
	if len(name) > board.UserBytesMax {
		sum := sha256.Sum256([]byte(name))
		return board.UserID(base64.StdEncoding.EncodeToString(sum[:pseudonymBytes])), nil
	}
	return board.ParseUserID(name)
}
