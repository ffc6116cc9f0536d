package wire

import (
	"encoding/binary"

	"github.com/placed-board/placed/board"
)

// BoardType is the media type of a board body.
const BoardType = "application/octet-stream"

// BoardVersion is the version of the layout of a board body.
const BoardVersion = 1

// The layout of a board body: a header of 44 bytes, then per chunk its id, its sequence and its image. All numbers are
// little-endian; a browser reads the 64-bit ones as two halves of 32 bits, the low one first.
const (
	bodyMagic       = "PLCD"
	bodyHeaderBytes = 44
	bodyChunkBytes  = 10 // in front of each image
)

// BoardBody is a whole board at a tick: the answer to GET /api/v1/board.
type BoardBody struct {
	Epoch       uint64
	Incarnation uint64
	Tick        uint64 // of the node's newest frame that is in the images
	Width       int    // tiles
	Height      int    // tiles
	ColourWidth board.Width
	Chunks      []BodyChunk // ascending by chunk
}

// BodyChunk is one chunk of a BoardBody. A chunk that is not there has sequence 0 and only tiles of colour 0.
type BodyChunk struct {
	Chunk    board.ChunkID
	Sequence uint64
	Image    []byte // ColourWidth.ImageBytes() bytes
}

// AppendBoard appends the encoded board to dst. Chunks without placements and chunks that do not meet the board are left
// out; where the list does not ascend a sorted copy is written. It panics on a chunk named twice, an unknown width and an
// image of the wrong size.
func AppendBoard(dst []byte, body *BoardBody) []byte {
	if body.ColourWidth != board.Width4 && body.ColourWidth != board.Width8 {
		panic("wire: board body of an unknown colour width")
	}
	dst = append(dst, bodyMagic...)
	dst = append(dst, BoardVersion, byte(body.ColourWidth), 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, body.Epoch)
	dst = binary.LittleEndian.AppendUint64(dst, body.Incarnation)
	dst = binary.LittleEndian.AppendUint64(dst, body.Tick)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(body.Width))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(body.Height))
	count := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	written := uint32(0)
	bounds := board.Rect{Width: body.Width, Height: body.Height}
	for _, c := range ascending(body.Chunks, func(c *BodyChunk) board.ChunkID { return c.Chunk }) {
		if c.Sequence == 0 || !c.Chunk.Rect().Meets(bounds) {
			continue
		}
		if len(c.Image) != body.ColourWidth.ImageBytes() {
			panic("wire: board body with an image of the wrong size")
		}
		dst = binary.LittleEndian.AppendUint16(dst, uint16(c.Chunk))
		dst = binary.LittleEndian.AppendUint64(dst, c.Sequence)
		dst = append(dst, c.Image...)
		written++
	}
	binary.LittleEndian.PutUint32(dst[count:], written)
	return dst
}

// BoardBytes returns the size of a board body with the given number of chunks, to allocate it at once.
func BoardBytes(chunks int, w board.Width) int {
	return bodyHeaderBytes + chunks*(bodyChunkBytes+w.ImageBytes())
}

// DecodeBoard decodes a board body. The images alias b. Every error wraps ErrMalformed.
func DecodeBoard(b []byte) (*BoardBody, error) {
	if len(b) < bodyHeaderBytes || string(b[:4]) != bodyMagic {
		return nil, malformed("not a board")
	}
	if b[4] != BoardVersion {
		return nil, malformed("a board of an unknown version")
	}
	body := &BoardBody{
		Epoch:       binary.LittleEndian.Uint64(b[8:]),
		Incarnation: binary.LittleEndian.Uint64(b[16:]),
		Tick:        binary.LittleEndian.Uint64(b[24:]),
		Width:       int(binary.LittleEndian.Uint32(b[32:])),
		Height:      int(binary.LittleEndian.Uint32(b[36:])),
		ColourWidth: board.Width(b[5]),
	}
	n := uint64(binary.LittleEndian.Uint32(b[40:]))
	switch {
	case body.ColourWidth != board.Width4 && body.ColourWidth != board.Width8:
		return nil, malformed("a board of an unknown colour width")
	case b[6] != 0 || b[7] != 0:
		return nil, malformed("a board with an unknown flag")
	case body.Width < 1 || body.Width > board.SideMax || body.Height < 1 || body.Height > board.SideMax:
		return nil, malformed("a board of an impossible size")
	case n > 1<<16 || len(b) != BoardBytes(int(n), body.ColourWidth):
		return nil, malformed("a board whose length is not that of its chunks")
	case n == 0:
		return body, nil
	}
	bounds := board.Rect{Width: body.Width, Height: body.Height}
	body.Chunks = make([]BodyChunk, n)
	r := &reader{b: b[bodyHeaderBytes:]}
	for i := range body.Chunks {
		c := BodyChunk{Chunk: board.ChunkID(r.u16()), Sequence: r.u64(), Image: r.take(body.ColourWidth.ImageBytes())}
		switch {
		case !c.Chunk.Valid() || !c.Chunk.Rect().Meets(bounds):
			return nil, malformed("a chunk outside its board")
		case i > 0 && c.Chunk <= body.Chunks[i-1].Chunk:
			return nil, malformed("chunks that do not ascend")
		case c.Sequence == 0:
			return nil, malformed("a chunk without placements")
		}
		body.Chunks[i] = c
	}
	return body, nil
}
