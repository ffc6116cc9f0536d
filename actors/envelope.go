package actors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/wire"
)

// EnvelopeVersion is the version of what nodes send each other. Nodes of different versions do not join.
const EnvelopeVersion = 1

// An envelope is one message between nodes: version, kind, body. Who sent it, for which board and between which runs of the
// processes stands in the packet that carries it (package cluster); what does not fit there never comes here.
type envelopeKind byte

// The kinds. A number is never used for another kind.
const (
	kindPlace envelopeKind = iota + 1
	kindRegister
	kindForget
	kindBan
	kindAnswered
	kindStatus
	kindCharges
	kindPlaced
	kindApplied
	kindImages
	kindPull
	kindNode
	kindTileAsked
	kindTileTold
	kindJobAsked
	kindJobsTold
)

// toSession carries an answer to a session or a waiting request of another node.
type toSession struct {
	to      wire.SessionID
	message SubscriberMessage // Answered or StatusChanged
}

// encodeEnvelope returns the bytes of a message that crosses nodes. It panics on one that does not.
func encodeEnvelope(message any) []byte {
	e := &envelopeWriter{b: make([]byte, 0, 128)}
	switch m := message.(type) {
	case forUser:
		e.userMessage(m)
	case toSession:
		e.toSession(m)
	case PlaceTiles:
		e.kind(kindCharges)
		e.charges(m)
	case TilesPlaced:
		e.kind(kindPlaced)
		e.placed(m)
	case tilesPublished:
		e.kind(kindApplied)
		e.count(len(m.Batches))
		for i := range m.Batches {
			e.applied(&m.Batches[i])
		}
	case BlockImages:
		e.kind(kindImages)
		e.images(m)
	case PullBlock:
		e.kind(kindPull)
		e.uint(uint64(m.Block))
		e.text(m.From)
	case nodeTold:
		e.kind(kindNode)
		e.node(&m)
	case tileAsked:
		e.kind(kindTileAsked)
		e.point(m.At)
		e.ref(m.To)
	case tileTold:
		e.kind(kindTileTold)
		e.ref(m.To)
		e.flag(m.Known.OK)
		e.b = append(e.b, byte(m.Known.Colour))
		e.uint(m.Known.Version)
	case jobAsked:
		e.kind(kindJobAsked)
		e.flag(m.List)
		e.ref(m.To)
		e.json(m.Job)
	case jobsTold:
		e.kind(kindJobsTold)
		e.ref(m.To)
		e.b = append(e.b, byte(m.Failure))
		e.text(m.Text)
		e.json(m.Jobs)
	default:
		neverCrosses(message)
	}
	return e.b
}

type envelopeWriter struct{ b []byte }

func (e *envelopeWriter) kind(k envelopeKind) { e.b = append(e.b, EnvelopeVersion, byte(k)) }
func (e *envelopeWriter) uint(v uint64)       { e.b = binary.AppendUvarint(e.b, v) }
func (e *envelopeWriter) int(v int64)         { e.b = binary.AppendVarint(e.b, v) }
func (e *envelopeWriter) count(n int)         { e.uint(uint64(n)) }
func (e *envelopeWriter) fixed(v uint64)      { e.b = binary.LittleEndian.AppendUint64(e.b, v) }
func (e *envelopeWriter) text(s string) {
	e.b = append(binary.AppendUvarint(e.b, uint64(len(s))), s...)
}
func (e *envelopeWriter) point(p board.Point) { e.uint(uint64(p.X)); e.uint(uint64(p.Y)) }
func (e *envelopeWriter) ref(r SessionRef)    { e.text(r.Node); e.fixed(uint64(r.Session)) }

// anyPoint encodes what a client asked for, on the board or not: the answer names it.
func (e *envelopeWriter) anyPoint(p board.Point) {
	e.int(int64(p.X))
	e.int(int64(p.Y))
}

func (e *envelopeWriter) flag(on bool) {
	if on {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *envelopeWriter) json(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("actors: encode envelope: %v", err)) // plain values only
	}
	e.text(string(b))
}

// userMessage encodes what a session or the admin API asks of a user.
func (e *envelopeWriter) userMessage(f forUser) {
	switch m := f.message.(type) {
	case PlaceTile:
		e.kind(kindPlace)
		e.text(string(f.user))
		e.flag(m.Forwarded)
		e.ref(m.ReplyTo)
		e.uint(m.Request.Turn)
		e.fixed(m.Request.Nonce)
		e.anyPoint(m.Request.At)
		e.b = append(e.b, byte(m.Request.Colour))
	case RegisterSession:
		e.kind(kindRegister)
		e.text(string(f.user))
		e.flag(m.Forwarded)
		e.ref(m.Session)
	case ForgetSession:
		e.kind(kindForget)
		e.text(string(f.user))
		e.flag(m.Forwarded)
		e.ref(m.Session)
	case SetBan:
		e.kind(kindBan)
		e.text(string(f.user))
		e.flag(m.Forwarded)
		e.ref(m.ReplyTo)
		e.int(m.UntilMs)
		e.flag(m.Note != nil)
		if n := m.Note; n != nil {
			e.text(string(n.By))
			e.text(n.Why)
			e.int(n.AtMs)
		}
	default:
		neverCrosses(f.message)
	}
}

func (e *envelopeWriter) toSession(t toSession) {
	switch m := t.message.(type) {
	case Answered:
		o := &m.Outcome
		e.kind(kindAnswered)
		e.fixed(uint64(t.to))
		e.b = append(e.b, byte(o.Verdict), byte(o.Code), byte(o.Colour))
		e.flag(o.TrueColour)
		e.uint(o.Turn)
		e.fixed(o.Nonce)
		e.anyPoint(o.At)
		e.uint(uint64(o.Chunk))
		e.uint(o.Sequence)
		e.int(o.WaitMs)
		e.uint(o.NextTurn)
	case StatusChanged:
		e.kind(kindStatus)
		e.fixed(uint64(t.to))
		e.text(string(m.Status.User))
		e.uint(m.Status.Turn)
		e.int(m.Status.WaitMs)
		e.int(m.Status.BannedUntil)
	default:
		neverCrosses(t.message)
	}
}

// charges encodes charges as the shard's head keeps them.
func (e *envelopeWriter) charges(m PlaceTiles) {
	e.uint(uint64(m.Shard))
	e.uint(uint64(m.Block))
	e.uint(m.Floor)
	e.uint(m.SettingsVersion)
	e.flag(m.Forwarded)
	e.text(m.From)
	state := store.ShardState{Open: m.Charges}
	if len(m.Charges) > 0 {
		state.LastAtMs = m.Charges[0].AtMs
	}
	e.b = state.AppendTo(e.b)
}

func (e *envelopeWriter) placed(m TilesPlaced) {
	e.uint(uint64(m.Shard))
	e.uint(uint64(m.Block))
	e.count(len(m.Results))
	for _, r := range m.Results {
		e.uint(r.Ticket.Commit)
		e.uint(uint64(r.Ticket.Index))
		e.uint(r.Sequence)
		e.uint(r.Version)
		e.flag(r.Settled)
	}
}

func (e *envelopeWriter) applied(m *TilesApplied) {
	e.uint(uint64(m.Block))
	e.uint(m.Version)
	e.count(len(m.Tiles))
	for i := range m.Tiles {
		t := &m.Tiles[i]
		e.b = append(e.b, byte(t.Chunk.Slot()), byte(t.Colour), byte(t.Kind), byte(t.Tile), byte(t.Tile>>8))
		e.uint(t.Sequence)
		e.text(string(t.User))
	}
}

func (e *envelopeWriter) images(m BlockImages) {
	e.uint(uint64(m.Block))
	e.uint(m.Version)
	e.count(len(m.Chunks))
	for _, c := range m.Chunks {
		width := board.Width4
		if c.Tiles.Max() > 15 {
			width = board.Width8
		}
		e.b = append(e.b, byte(c.Chunk.Slot()), byte(width))
		e.uint(c.Sequence)
		e.b = c.Tiles.AppendImage(slices.Grow(e.b, width.ImageBytes()), width)
	}
}

func (e *envelopeWriter) node(m *nodeTold) {
	e.uint(m.SettingsVersion)
	e.int(m.WallMs)
	e.flag(m.Whole)
	for _, n := range []int{m.Online, m.Sessions, m.Regions, m.BlocksLoaded, m.Users, m.OpenCharges} {
		e.count(n)
	}
	e.flag(m.Ready)
	e.count(len(m.Shards))
	for _, s := range m.Shards {
		e.uint(uint64(s.Shard))
		e.uint(s.Version)
		e.count(s.OpenOlder)
	}
	e.count(len(m.Blocks))
	for _, b := range m.Blocks {
		e.uint(uint64(b.Block))
		e.uint(b.Placements)
	}
}

// neverCrosses ends the encoding of a message that stays on its node.
func neverCrosses(message any) { panic(fmt.Sprintf("actors: a %T does not cross nodes", message)) }
