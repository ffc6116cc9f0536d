package place2017

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// frameHeaderBytesMax is the longest header of an unmasked websocket frame.
const frameHeaderBytesMax = 10

// opText is the first byte of a whole text frame.
const opText = 0x81

// appendFrame appends a text frame whose payload write appends.
func appendFrame(dst []byte, write func(dst []byte) []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, frameHeaderBytesMax)...)
	dst = write(dst)
	n := len(dst) - start - frameHeaderBytesMax
	var header []byte
	switch {
	case n < 126:
		header = []byte{opText, byte(n)}
	case n < 1<<16:
		header = binary.BigEndian.AppendUint16([]byte{opText, 126}, uint16(n))
	default:
		header = binary.BigEndian.AppendUint64([]byte{opText, 127}, uint64(n))
	}
	if gap := frameHeaderBytesMax - len(header); gap > 0 {
		copy(dst[start+len(header):], dst[start+frameHeaderBytesMax:])
		dst = dst[:len(dst)-gap]
	}
	copy(dst[start:], header)
	return dst
}

// appendTile appends one tile as programs of 2017 read it.
func appendTile(dst []byte, p *board.PlacedTile, author board.UserID) []byte {
	name, err := json.Marshal(string(author))
	if err != nil {
		panic(fmt.Sprintf("place2017: JSON of a name: %v", err)) // every string has one
	}
	dst = append(dst, `{"author":`...)
	dst = append(dst, name...)
	dst = append(dst, `,"x":`...)
	dst = strconv.AppendInt(dst, int64(p.At.X), 10)
	dst = append(dst, `,"y":`...)
	dst = strconv.AppendInt(dst, int64(p.At.Y), 10)
	dst = append(dst, `,"color":`...)
	dst = strconv.AppendInt(dst, int64(p.Colour), 10)
	return append(dst, '}')
}

// appendPlace appends a "place" message.
func appendPlace(dst []byte, p *board.PlacedTile) []byte {
	return appendFrame(dst, func(dst []byte) []byte {
		dst = append(dst, `{"type":"place","payload":`...)
		return append(appendTile(dst, p, p.User), '}')
	})
}

// appendBatch appends a "batch-place" message of tiles without an author.
func appendBatch(dst []byte, tiles []board.PlacedTile) []byte {
	return appendFrame(dst, func(dst []byte) []byte {
		dst = append(dst, `{"type":"batch-place","payload":[`...)
		for i := range tiles {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendTile(dst, &tiles[i], "")
		}
		return append(dst, "]}"...)
	})
}

func activityFrame(count int) wire.Sealed {
	return appendFrame(nil, func(dst []byte) []byte { return fmt.Appendf(dst, `{"type":"activity","payload":{"count":%d}}`, count) })
}

// refreshFrame tells a page to load itself anew.
var refreshFrame wire.Sealed = appendFrame(nil, func(dst []byte) []byte { return append(dst, `{"type":"refresh","payload":{}}`...) })
