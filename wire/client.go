package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/placed-board/placed/board"
)

// Types of the messages from clients: their first byte.
const (
	typeSubscribe byte = 0x01
	typePlace     byte = 0x02
	typeRepair    byte = 0x03
	typeGetHashes byte = 0x04
)

const (
	subscribeWhole  byte = 1 << 0
	subscribeResume byte = 1 << 1
)

// chunkSide is how many chunks lie along the side of the largest board.
const chunkSide = board.SideMax / board.ChunkSize

// AppendClient appends the encoded message to dst and returns the longer slice. Values beyond the limits of a message are
// encoded as they are and refused by the decoder on the other side; it panics on a chunk named twice in a Repair.
func AppendClient(dst []byte, m ClientMessage) []byte {
	switch m := m.(type) {
	case *Subscribe:
		return appendSubscribe(dst, m)
	case *Place:
		dst = append(dst, typePlace)
		dst = binary.AppendUvarint(dst, m.Turn)
		dst = binary.LittleEndian.AppendUint64(dst, m.Nonce)
		dst = binary.AppendVarint(dst, int64(m.X))
		dst = binary.AppendVarint(dst, int64(m.Y))
		return binary.AppendUvarint(dst, uint64(m.Colour))
	case *Repair:
		dst = append(dst, typeRepair)
		return appendChunksAt(dst, m.Chunks)
	case *GetHashes:
		dst = append(dst, typeGetHashes)
		return appendChunkRect(dst, m.Chunks)
	}
	panic(fmt.Sprintf("wire: AppendClient of %T", m))
}

// DecodeClient decodes one message of a client; the message shares no memory with b. Every error wraps ErrMalformed.
func DecodeClient(b []byte) (ClientMessage, error) {
	if len(b) > ClientMessageBytesMax {
		return nil, malformed("a client's message above 1,024 bytes")
	}
	r := &reader{b: b}
	var m ClientMessage
	switch r.byte() {
	case typeSubscribe:
		m = decodeSubscribe(r)
	case typePlace:
		m = &Place{
			Turn: r.uvarint(), Nonce: r.u64(), X: r.zigzag(), Y: r.zigzag(),
			Colour: int(r.limited(math.MaxInt32, "a colour above 31 bits")),
		}
	case typeRepair:
		m = &Repair{Chunks: decodeChunksAt(r, RepairChunksMax)}
	case typeGetHashes:
		m = &GetHashes{Chunks: decodeChunkRect(r, HashesChunksMax)}
	default:
		r.fail("an unknown type of message")
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return m, nil
}

func appendSubscribe(dst []byte, m *Subscribe) []byte {
	var flags byte
	if m.Whole {
		flags |= subscribeWhole
	}
	if m.Resume != nil {
		flags |= subscribeResume
	}
	dst = append(dst, typeSubscribe, flags)
	if !m.Whole {
		dst = appendChunkRect(dst, m.Chunks)
	}
	if m.Resume != nil {
		dst = binary.LittleEndian.AppendUint64(dst, m.Resume.Epoch)
		dst = binary.LittleEndian.AppendUint64(dst, m.Resume.Incarnation)
		dst = binary.AppendUvarint(dst, m.Resume.Tick)
	}
	return dst
}

func decodeSubscribe(r *reader) *Subscribe {
	flags := r.flags(subscribeWhole | subscribeResume)
	m := &Subscribe{Whole: flags&subscribeWhole != 0}
	if !m.Whole {
		m.Chunks = decodeChunkRect(r, SubscribeChunksMax)
	}
	if flags&subscribeResume != 0 {
		m.Resume = &Resume{Epoch: r.u64(), Incarnation: r.u64(), Tick: r.uvarint()}
	}
	return m
}

func appendChunkRect(dst []byte, c ChunkRect) []byte {
	for _, v := range [...]int{c.Col, c.Row, c.Cols, c.Rows} {
		dst = binary.AppendUvarint(dst, uint64(v))
	}
	return dst
}

func decodeChunkRect(r *reader, chunksMax int) ChunkRect {
	var v [4]int
	for i := range v {
		v[i] = int(r.limited(chunkSide, "a rectangle beyond the largest board"))
	}
	c := ChunkRect{Col: v[0], Row: v[1], Cols: v[2], Rows: v[3]}
	if c.Col+c.Cols > chunkSide || c.Row+c.Rows > chunkSide {
		r.fail("a rectangle beyond the largest board")
	}
	if c.Cols*c.Rows > chunksMax {
		r.fail("a rectangle of too many chunks")
	}
	return c
}
