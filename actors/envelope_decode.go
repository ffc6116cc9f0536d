package actors

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/wire"
)

// errEnvelope says that bytes are no envelope of this version.
var errEnvelope = errors.New("actors: malformed envelope")

// Bounds of what an envelope may say.
const (
	envelopeTextMax  = 1 << 20 // bytes of a list of jobs
	envelopeCountMax = 1 << 16 // of anything else
)

// decodeEnvelope reads a message of another node; an error wraps errEnvelope. Nothing of the result aliases b.
func decodeEnvelope(b []byte) (any, error) {
	if len(b) < 2 || b[0] != EnvelopeVersion {
		return nil, fmt.Errorf("%w: not of version %d", errEnvelope, EnvelopeVersion)
	}
	d := &envelopeReader{b: b[2:]}
	message := d.message(envelopeKind(b[1]))
	if d.bad || len(d.b) != 0 || message == nil {
		return nil, fmt.Errorf("%w: kind %d", errEnvelope, b[1])
	}
	return message, nil
}

func (d *envelopeReader) message(kind envelopeKind) any {
	switch kind {
	case kindPlace, kindRegister, kindForget, kindBan:
		return d.userMessage(kind)
	case kindAnswered, kindStatus:
		return d.toSession(kind)
	case kindCharges:
		return d.charges()
	case kindPlaced:
		return d.placed()
	case kindApplied:
		m := tilesPublished{}
		for n := d.count(); n > 0 && !d.bad; n-- {
			m.Batches = append(m.Batches, d.applied())
		}
		return m
	case kindImages:
		return d.images()
	case kindPull:
		return PullBlock{Block: d.block(), From: d.text(store.OwnerAddressMax)}
	case kindNode:
		return d.node()
	case kindTileAsked:
		return tileAsked{At: d.point(), To: d.ref()}
	case kindTileTold:
		return tileTold{To: d.ref(), Known: TileKnown{OK: d.flag(), Colour: board.Colour(d.byte()), Version: d.uint()}}
	case kindJobAsked:
		m := jobAsked{List: d.flag(), To: d.ref()}
		d.json(&m.Job)
		return m
	case kindJobsTold:
		m := jobsTold{To: d.ref(), Failure: failure(d.upTo(uint64(failureOther)))}
		m.Text = d.text(envelopeTextMax)
		d.json(&m.Jobs)
		return m
	}
	return nil
}

// envelopeReader reads an envelope; after the first failure everything is zero.
type envelopeReader struct {
	b   []byte
	bad bool
}

func (d *envelopeReader) fail() { d.bad, d.b = true, nil }

func (d *envelopeReader) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *envelopeReader) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *envelopeReader) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *envelopeReader) upTo(most uint64) uint64 {
	v := d.uint()
	if v > most {
		d.fail()
		return 0
	}
	return v
}

func (d *envelopeReader) count() int { return int(d.upTo(envelopeCountMax)) }

func (d *envelopeReader) flag() bool {
	v := d.byte()
	if v > 1 {
		d.fail()
	}
	return v == 1
}

func (d *envelopeReader) fixed() uint64 {
	if len(d.b) < 8 {
		d.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

func (d *envelopeReader) text(most int) string {
	n := int(d.upTo(uint64(most)))
	if len(d.b) < n {
		d.fail()
		return ""
	}
	v := string(d.b[:n])
	d.b = d.b[n:]
	return v
}

func (d *envelopeReader) json(v any) {
	if text := d.text(envelopeTextMax); !d.bad && json.Unmarshal([]byte(text), v) != nil {
		d.fail()
	}
}

// user reads a name that a user may have.
func (d *envelopeReader) user() board.UserID {
	u, err := board.ParseUserID(d.text(board.UserBytesMax))
	if err != nil {
		d.fail()
	}
	return u
}

func (d *envelopeReader) point() board.Point {
	return board.Point{X: int(d.upTo(board.SideMax - 1)), Y: int(d.upTo(board.SideMax - 1))}
}

// anyPoint reads what a client asked for, which may lie off every board.
func (d *envelopeReader) anyPoint() board.Point { return board.Point{X: int(d.int()), Y: int(d.int())} }

func (d *envelopeReader) block() board.BlockID {
	b := board.BlockID(d.upTo(1<<16 - 1))
	if !b.Valid() {
		d.fail()
	}
	return b
}

func (d *envelopeReader) shard() int { return int(d.upTo(board.Shards - 1)) }

func (d *envelopeReader) ref() SessionRef {
	return SessionRef{Node: d.text(store.OwnerAddressMax), Session: wire.SessionID(d.fixed())}
}

func (d *envelopeReader) userMessage(kind envelopeKind) any {
	f := forUser{user: d.user()}
	forwarded, ref := d.flag(), d.ref()
	switch kind {
	case kindPlace:
		r := board.PlaceRequest{User: f.user, Turn: d.uint(), Nonce: d.fixed(), At: d.anyPoint(), Colour: board.Colour(d.byte())}
		f.message = PlaceTile{Request: r, ReplyTo: ref, Forwarded: forwarded}
	case kindRegister:
		f.message = RegisterSession{User: f.user, Session: ref, Forwarded: forwarded}
	case kindForget:
		f.message = ForgetSession{User: f.user, Session: ref, Forwarded: forwarded}
	default:
		m := SetBan{User: f.user, ReplyTo: ref, Forwarded: forwarded, UntilMs: d.int()}
		if d.flag() {
			m.Note = &store.BanNote{By: d.user(), Why: d.text(board.WhyBytesMax), AtMs: d.int()}
		}
		f.message = m
	}
	return f
}

func (d *envelopeReader) toSession(kind envelopeKind) any {
	t := toSession{to: wire.SessionID(d.fixed())}
	if kind == kindStatus {
		s := board.UserStatus{User: d.user(), Turn: d.uint(), WaitMs: d.int(), BannedUntil: d.int()}
		t.message = StatusChanged{Session: t.to, Status: s}
		return t
	}
	o := board.PlaceOutcome{
		Verdict: board.Verdict(d.upTo(uint64(board.VerdictRefused))), Code: board.Code(d.upTo(uint64(len(board.Refusals) - 1))),
		Colour: board.Colour(d.byte()), TrueColour: d.flag(), Turn: d.uint(), Nonce: d.fixed(), At: d.anyPoint(),
		Chunk: board.ChunkID(d.upTo(1<<16 - 1)), Sequence: d.uint(), WaitMs: d.int(), NextTurn: d.uint(),
	}
	if !o.Chunk.Valid() {
		d.fail()
	}
	t.message = Answered{Session: t.to, Outcome: o}
	return t
}

func (d *envelopeReader) charges() any {
	m := PlaceTiles{
		Shard: d.shard(), Block: d.block(), Floor: d.uint(), SettingsVersion: d.uint(), Forwarded: d.flag(), From: d.text(store.OwnerAddressMax),
	}
	if d.bad || len(d.b) == 0 {
		d.fail()
		return nil
	}
	state, err := store.DecodeShardState(m.Shard, d.b)
	d.b = nil
	if err != nil || len(state.Open) > ShardOpenMax {
		d.fail()
		return nil
	}
	for i := range state.Open {
		if state.Open[i].At.Block() != m.Block {
			d.fail()
		}
	}
	m.Charges = state.Open
	return m
}

func (d *envelopeReader) placed() any {
	m := TilesPlaced{Shard: d.shard(), Block: d.block()}
	for n := d.count(); n > 0 && !d.bad; n-- {
		t := board.Ticket{Shard: uint8(m.Shard), Commit: d.uint(), Index: uint16(d.upTo(1<<16 - 1))}
		m.Results = append(m.Results, TicketPlaced{Ticket: t, Sequence: d.uint(), Version: d.uint(), Settled: d.flag()})
	}
	return m
}

func (d *envelopeReader) slot() int { return int(d.upTo(board.BlockChunks - 1)) }

func (d *envelopeReader) applied() TilesApplied {
	m := TilesApplied{Block: d.block(), Version: d.uint()}
	for n := d.count(); n > 0 && !d.bad; n-- {
		chunk := m.Block.Chunk(d.slot())
		t := AppliedTile{Chunk: chunk, Colour: board.Colour(d.byte()), Kind: board.Kind(d.byte()), Tile: uint16(d.byte()) | uint16(d.byte())<<8}
		t.Sequence, t.User = d.uint(), board.UserID(d.text(board.UserBytesMax))
		if t.Tile >= board.ChunkTiles {
			d.fail()
		}
		m.Tiles = append(m.Tiles, t)
	}
	return m
}

func (d *envelopeReader) images() any {
	m := BlockImages{Block: d.block(), Version: d.uint()}
	for n := d.upTo(board.BlockChunks); n > 0 && !d.bad; n-- {
		c := ChunkImage{Chunk: m.Block.Chunk(d.slot()), Tiles: new(board.Tiles)}
		width := board.Width(d.byte())
		c.Sequence = d.uint()
		if width != board.Width4 && width != board.Width8 || len(d.b) < width.ImageBytes() {
			d.fail()
			return nil
		}
		if c.Tiles.SetImage(d.b[:width.ImageBytes()], width) != nil {
			d.fail()
			return nil
		}
		d.b = d.b[width.ImageBytes():]
		m.Chunks = append(m.Chunks, c)
	}
	return m
}

func (d *envelopeReader) node() any {
	m := nodeTold{SettingsVersion: d.uint(), WallMs: d.int(), Whole: d.flag()}
	for _, n := range []*int{&m.Online, &m.Sessions, &m.Regions, &m.BlocksLoaded, &m.Users, &m.OpenCharges} {
		*n = int(d.upTo(1 << 32))
	}
	m.Ready = d.flag()
	for n := d.count(); n > 0 && !d.bad; n-- {
		m.Shards = append(m.Shards, shardTold{Shard: d.shard(), Version: d.uint(), OpenOlder: d.count()})
	}
	for n := d.count(); n > 0 && !d.bad; n-- {
		m.Blocks = append(m.Blocks, blockCount{Block: d.block(), Placements: d.uint()})
	}
	return m
}
