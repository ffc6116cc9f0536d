package store

import (
	"encoding/binary"
	"fmt"

	"github.com/placed-board/placed/board"
)

// UserRow is what a shard keeps of one user: the last charge, and the ban. A ban alone creates a row with Turn 0.
type UserRow struct {
	Turn            uint64 // of the last charge
	Nonce           uint64
	At              board.Point
	Colour          board.Colour
	AtMs            int64
	SettingsVersion uint64
	Node            uint64
	Sequence        uint64      // of the placement in its chunk; 0 until known
	Newest          board.Entry // with the user's newest placement; until Sequence is known, with the one before
	Ban
}

// Ban says until when a user may not place, and who said so: of the newest ban, lifted and ended ones included.
type Ban struct {
	BannedUntilMs int64    // Unix milliseconds; 0: not banned, or the ban was lifted
	BanNote       *BanNote // nil: nobody ever banned the user, or before notes were kept. Not changed once it is made
}

// BanNote is the audit of a ban, or of its lifting.
type BanNote struct {
	By   board.UserID
	Why  string // at most board.WhyBytesMax
	AtMs int64  // Unix milliseconds
}

// Charge is an open charge: a promise that its placement will be on the board.
type Charge struct {
	Ticket          board.Ticket
	User            board.UserID
	Turn            uint64
	Nonce           uint64
	At              board.Point
	Colour          board.Colour
	Kind            board.Kind
	AtMs            int64
	SettingsVersion uint64
	Node            uint64
	UserPrevious    board.Entry // with the user's placement before
}

// ShardState is the part of a shard's head that rules it.
type ShardState struct {
	LastAtMs int64    // the latest time the shard has given out
	Open     []Charge // in the order of their tickets
}

// BlockCommit is one row of a block's journal.
type BlockCommit struct {
	Floors     []Floor // of the shards that this commit heard from, raised since the commit before
	Placements []board.Placement
}

// Floor is a commit number of a shard below which all its tickets for the block are placed.
type Floor struct {
	Shard  uint8
	Commit uint64
}

// recordVersion is the first byte of every encoded record.
const recordVersion = 2

// decoder reads an encoded record; the first failure sticks.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("store: %s: %w", what, ErrCorrupt)
	}
	d.b = nil
}

func (d *decoder) version(what string) {
	if v := d.byte(); d.err == nil && v != recordVersion {
		d.fail(fmt.Sprintf("%s of record version %d", what, v))
	}
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("cut short")
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("bad number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) upTo(most uint64) uint64 {
	v := d.uvarint()
	if v > most {
		d.fail(fmt.Sprintf("number %d above %d", v, most))
		return 0
	}
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("bad number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) shard() uint8 {
	v := d.byte()
	if v >= board.Shards {
		d.fail(fmt.Sprintf("shard %d", v))
		return 0
	}
	return v
}

func (d *decoder) fixed64() uint64 {
	if len(d.b) < 8 {
		d.fail("cut short")
		return 0
	}
	v := binary.LittleEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

func (d *decoder) user() board.UserID { return board.UserID(d.text(board.UserBytesMax)) }

// text reads a length of at most most bytes and as many bytes.
func (d *decoder) text(most uint64) string {
	n := int(d.upTo(most))
	if len(d.b) < n {
		d.fail("text cut short")
		return ""
	}
	v := string(d.b[:n])
	d.b = d.b[n:]
	return v
}

func (d *decoder) end() error {
	if d.err == nil && len(d.b) != 0 {
		d.fail(fmt.Sprintf("%d bytes too many", len(d.b)))
	}
	return d.err
}

func appendUser(b []byte, u board.UserID) []byte {
	b = binary.AppendUvarint(b, uint64(len(u)))
	return append(b, u...)
}

func appendPoint(b []byte, p board.Point) []byte {
	b = binary.AppendUvarint(b, uint64(p.X))
	return binary.AppendUvarint(b, uint64(p.Y))
}

func (d *decoder) point() board.Point {
	return board.Point{X: int(d.upTo(board.SideMax - 1)), Y: int(d.upTo(board.SideMax - 1))}
}

// appendEntry takes one byte for no entry.
func appendEntry(b []byte, e board.Entry) []byte {
	b = binary.AppendUvarint(b, e.Version)
	if e.Version == 0 {
		return b
	}
	return binary.AppendUvarint(b, uint64(e.Block))
}

func (d *decoder) entry() board.Entry {
	version := d.uvarint()
	if version == 0 {
		return board.Entry{}
	}
	e := board.Entry{Block: board.BlockID(d.upTo(1<<16 - 1)), Version: version}
	if !e.Block.Valid() {
		d.fail("entry outside of every board")
	}
	return e
}

// AppendTo appends the encoded row.
func (r *UserRow) AppendTo(b []byte) []byte {
	b = append(b, recordVersion, byte(r.Colour))
	b = binary.AppendUvarint(b, r.Turn)
	b = binary.LittleEndian.AppendUint64(b, r.Nonce)
	b = appendPoint(b, r.At)
	b = binary.AppendVarint(b, r.AtMs)
	b = binary.AppendUvarint(b, r.SettingsVersion)
	b = binary.LittleEndian.AppendUint64(b, r.Node)
	b = binary.AppendUvarint(b, r.Sequence)
	b = appendEntry(b, r.Newest)
	b = binary.AppendVarint(b, r.BannedUntilMs)
	n := r.BanNote
	if n == nil {
		return append(b, 0)
	}
	b = binary.AppendVarint(appendUser(append(b, 1), n.By), n.AtMs)
	return append(binary.AppendUvarint(b, uint64(len(n.Why))), n.Why...)
}

// DecodeUserRow decodes a row; an error wraps ErrCorrupt.
func DecodeUserRow(b []byte) (UserRow, error) {
	d := decoder{b: b}
	d.version("user row")
	r := UserRow{Colour: board.Colour(d.byte()), Turn: d.uvarint(), Nonce: d.fixed64(), At: d.point()}
	r.AtMs, r.SettingsVersion, r.Node = d.varint(), d.uvarint(), d.fixed64()
	r.Sequence, r.Newest, r.BannedUntilMs = d.uvarint(), d.entry(), d.varint()
	switch noted := d.byte(); noted {
	case 0:
	case 1:
		r.BanNote = &BanNote{By: d.user(), AtMs: d.varint(), Why: d.text(board.WhyBytesMax)}
	default:
		d.fail(fmt.Sprintf("ban with note %d", noted))
	}
	return r, d.end()
}

// AppendTo appends the encoded state. All charges belong to the given shard; times are kept as differences to LastAtMs.
func (s *ShardState) AppendTo(b []byte) []byte {
	b = append(b, recordVersion)
	b = binary.AppendVarint(b, s.LastAtMs)
	b = binary.AppendUvarint(b, uint64(len(s.Open)))
	for i := range s.Open {
		c := &s.Open[i]
		b = append(b, byte(c.Colour), byte(c.Kind))
		b = binary.AppendUvarint(b, c.Ticket.Commit)
		b = binary.AppendUvarint(b, uint64(c.Ticket.Index))
		b = appendUser(b, c.User)
		b = binary.AppendUvarint(b, c.Turn)
		b = binary.LittleEndian.AppendUint64(b, c.Nonce)
		b = appendPoint(b, c.At)
		b = binary.AppendVarint(b, s.LastAtMs-c.AtMs)
		b = binary.AppendUvarint(b, c.SettingsVersion)
		b = binary.LittleEndian.AppendUint64(b, c.Node)
		b = appendEntry(b, c.UserPrevious)
	}
	return b
}

// DecodeShardState decodes the state of the given shard; an error wraps ErrCorrupt. Empty bytes give the zero state.
func DecodeShardState(shard int, b []byte) (ShardState, error) {
	if len(b) == 0 {
		return ShardState{}, nil
	}
	d := decoder{b: b}
	d.version("shard state")
	s := ShardState{LastAtMs: d.varint()}
	n := int(d.upTo(1 << 16))
	for i := 0; i < n && d.err == nil; i++ {
		c := Charge{Colour: board.Colour(d.byte()), Kind: board.Kind(d.byte())}
		c.Ticket = board.Ticket{Shard: uint8(shard), Commit: d.uvarint(), Index: uint16(d.upTo(1<<16 - 1))}
		c.User, c.Turn, c.Nonce, c.At = d.user(), d.uvarint(), d.fixed64(), d.point()
		c.AtMs, c.SettingsVersion, c.Node = s.LastAtMs-d.varint(), d.uvarint(), d.fixed64()
		c.UserPrevious = d.entry()
		s.Open = append(s.Open, c)
	}
	return s, d.end()
}

// AppendTo appends the encoded commit. Values that repeat (time, settings version, node) are kept as differences to the
// placement before.
func (c *BlockCommit) AppendTo(b []byte) []byte {
	b = append(b, recordVersion)
	b = binary.AppendUvarint(b, uint64(len(c.Floors)))
	for _, f := range c.Floors {
		b = append(b, f.Shard)
		b = binary.AppendUvarint(b, f.Commit)
	}
	b = binary.AppendUvarint(b, uint64(len(c.Placements)))
	var before board.Placement
	for i := range c.Placements {
		p := &c.Placements[i]
		same := byte(0)
		if p.Node == before.Node {
			same = 0x80
		}
		b = append(b, same|byte(p.Kind), byte(p.Colour), byte(p.Chunk), byte(p.Chunk>>8), byte(p.Tile), byte(p.Tile>>8), p.Ticket.Shard)
		b = binary.AppendUvarint(b, p.Sequence)
		b = appendUser(b, p.User)
		b = binary.AppendUvarint(b, p.Turn)
		b = binary.LittleEndian.AppendUint64(b, p.Nonce)
		b = binary.AppendVarint(b, p.AtMs-before.AtMs)
		b = binary.AppendVarint(b, int64(p.SettingsVersion)-int64(before.SettingsVersion))
		if same == 0 {
			b = binary.LittleEndian.AppendUint64(b, p.Node)
		}
		b = binary.AppendUvarint(b, p.Ticket.Commit)
		b = binary.AppendUvarint(b, uint64(p.Ticket.Index))
		b = binary.AppendUvarint(b, p.PreviousVersion)
		b = appendEntry(b, p.UserPrevious)
		before = *p
	}
	return b
}

// DecodeBlockCommit decodes a journal row; an error wraps ErrCorrupt.
func DecodeBlockCommit(b []byte) (BlockCommit, error) {
	d := decoder{b: b}
	d.version("block commit")
	var c BlockCommit
	for n := int(d.upTo(board.Shards)); n > 0 && d.err == nil; n-- {
		c.Floors = append(c.Floors, Floor{Shard: d.shard(), Commit: d.uvarint()})
	}
	n := int(d.upTo(CommitRowBytesMax))
	var before board.Placement
	for ; n > 0 && d.err == nil; n-- {
		p := d.placement(&before)
		c.Placements = append(c.Placements, p)
		before = p
	}
	return c, d.end()
}

func (d *decoder) placement(before *board.Placement) board.Placement {
	first := d.byte()
	p := board.Placement{Kind: board.Kind(first & 0x7f), Colour: board.Colour(d.byte())}
	p.Chunk = board.ChunkID(uint16(d.byte()) | uint16(d.byte())<<8)
	p.Tile = uint16(d.byte()) | uint16(d.byte())<<8
	p.Ticket.Shard = d.shard()
	p.Sequence, p.User, p.Turn, p.Nonce = d.uvarint(), d.user(), d.uvarint(), d.fixed64()
	p.AtMs = before.AtMs + d.varint()
	p.SettingsVersion = uint64(int64(before.SettingsVersion) + d.varint())
	if p.Node = before.Node; first&0x80 == 0 {
		p.Node = d.fixed64()
	}
	p.Ticket.Commit, p.Ticket.Index = d.uvarint(), uint16(d.upTo(1<<16-1))
	p.PreviousVersion, p.UserPrevious = d.uvarint(), d.entry()
	if p.Tile >= board.ChunkTiles || !p.Chunk.Valid() {
		d.fail("placement outside of every board")
	}
	return p
}

// PlacementBytesMax bounds the encoded size of one placement in a BlockCommit.
const PlacementBytesMax = 7 + 10 + 1 + board.UserBytesMax + 10 + 8 + 10 + 10 + 8 + 10 + 3 + 10 + 13
