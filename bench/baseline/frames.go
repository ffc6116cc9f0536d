package baseline

import "encoding/binary"

// frameCounter follows the framing of one websocket stream from the server, however the reads cut it, and counts whole
// messages by the first byte of their payload. It keeps nothing of the payload.
type frameCounter struct {
	left   uint64   // bytes of the current payload still to come
	header [10]byte // of the next frame, as far as it has come
	have   uint8    // bytes in header
	first  bool     // the next payload byte is the first of its frame
}

// Opcodes of RFC 6455.
const (
	opcodeBinary = 2
	opcodeClose  = 8
	opcodePing   = 9
)

// feed takes the next bytes. It calls data once for each data frame with its first payload byte, and ping once for each
// ping. It reports whether a close frame came.
func (c *frameCounter) feed(p []byte, data func(first byte), ping func()) (closed bool) {
	for len(p) > 0 {
		if c.left > 0 {
			if c.first {
				data(p[0])
				c.first = false
			}
			n := min(c.left, uint64(len(p)))
			c.left -= n
			p = p[n:]
			continue
		}
		c.header[c.have] = p[0]
		c.have++
		p = p[1:]
		length, complete := c.payloadLength()
		if !complete {
			continue
		}
		opcode := c.header[0] & 0x0f
		c.have, c.left = 0, length
		c.first = opcode == opcodeBinary && length > 0
		switch opcode {
		case opcodePing:
			ping()
		case opcodeClose:
			closed = true
		}
	}
	return closed
}

// payloadLength reads the header so far; complete says that all of it is here. Frames from a server carry no mask.
func (c *frameCounter) payloadLength() (length uint64, complete bool) {
	if c.have < 2 {
		return 0, false
	}
	switch short := c.header[1] & 0x7f; {
	case short < 126:
		return uint64(short), true
	case short == 126:
		return uint64(binary.BigEndian.Uint16(c.header[2:])), c.have == 4
	default:
		return binary.BigEndian.Uint64(c.header[2:]), c.have == 10
	}
}
