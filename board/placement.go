package board

import (
	"errors"
	"fmt"
	"hash/crc32"
	"unicode"
	"unicode/utf8"
)

// UserBytesMax is the longest user name in bytes of UTF-8.
const UserBytesMax = 48

// UserShards is the number of user shards of a board, fixed when the board is created.
const UserShards = 64

// OpsShard is the index of the extra shard that carries operators' writes.
const OpsShard = UserShards

// Shards counts all shards: the users' and ops.
const Shards = UserShards + 1

// UserID is a user's name: 1 to 48 bytes of UTF-8, of characters that show (letters, marks, digits, punctuation, symbols) and of
// single-byte spaces between them. Control and format characters, such as those that turn the direction of text, are not taken.
type UserID string

// Errors of ParseUserID.
var (
	ErrUserEmpty = errors.New("user name is empty")
	ErrUserLong  = fmt.Errorf("user name is longer than %d bytes", UserBytesMax)
	ErrUserChars = errors.New("user name has invisible characters, invalid UTF-8 or outer spaces")
)

// ParseUserID checks a user name.
func ParseUserID(name string) (UserID, error) {
	switch {
	case name == "":
		return "", ErrUserEmpty
	case len(name) > UserBytesMax:
		return "", ErrUserLong
	case !utf8.ValidString(name):
		return "", ErrUserChars
	}
	for i, r := range name {
		outer := i == 0 || i+utf8.RuneLen(r) == len(name)
		if !unicode.IsPrint(r) || (outer && unicode.IsSpace(r)) {
			return "", ErrUserChars
		}
	}
	return UserID(name), nil
}

// Shard returns the user's shard, 0..63.
func (u UserID) Shard() int {
	// CRC-32C is stored nowhere but fixed for ever: a user's shard must never change during a board's life.
	return int(mix32(crc32.Checksum([]byte(u), castagnoli)) % UserShards)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Colour is an index into the palette, 0..255.
type Colour uint8

// Kind tells what made a placement.
type Kind uint8

// The kinds of a placement.
const (
	KindUser Kind = iota
	KindClear
	KindRollback
	KindRestore
	KindImport
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindUser:
		return "user"
	case KindClear:
		return "clear"
	case KindRollback:
		return "rollback"
	case KindRestore:
		return "restore"
	case KindImport:
		return "import"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Ticket names a charge: the shard, the number of the shard's commit that made it, and its index in that commit.
type Ticket struct {
	Shard  uint8
	Commit uint64
	Index  uint16
}

// Entry names a commit of a block's journal; the zero value names none.
type Entry struct {
	Block   BlockID
	Version uint64 // from 1
}

// Placement is one event of the board: a user put a colour on a tile.
type Placement struct {
	Chunk           ChunkID
	Sequence        uint64 // counts the chunk's placements from 1 (I4)
	Tile            uint16 // index in the chunk, 0..2499
	Colour          Colour
	Kind            Kind
	User            UserID
	Turn            uint64
	Nonce           uint64
	AtMs            int64  // Unix milliseconds, the shard's clock at the charge
	SettingsVersion uint64 // in force at the charge
	Node            uint64 // id of the node that charged
	Ticket          Ticket
	PreviousVersion uint64 // the block's commit that placed this tile before, 0 for none: a tile's history is this chain
	UserPrevious    Entry  // the commit with the user's placement before, of the kinds user and import: a user's history is this chain
}

// PlacedTile is a placement as those need it who watch the board.
type PlacedTile struct {
	At     Point
	Colour Colour
	Kind   Kind
	User   UserID // "" when only the result of several placements is known
}

// Point returns the placement's tile on the board.
func (p *Placement) Point() Point { return p.Chunk.Point(int(p.Tile)) }
