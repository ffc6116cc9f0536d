package wire

import "encoding/binary"

// Sealed is a message with its websocket header in front: the very bytes that go to a socket, encoded once and shared by
// all sessions. Nobody changes them after sealing.
type Sealed []byte

// SealRoom is how many bytes Seal needs in front of a message.
const SealRoom = 10

// Seal puts the header of one unmasked, unfragmented binary websocket frame in front of the message at b[SealRoom:] and
// returns the part of b that goes to the socket.
func Seal(b []byte) Sealed {
	n := len(b) - SealRoom
	switch {
	case n < 126:
		b[SealRoom-2], b[SealRoom-1] = 0x82, byte(n)
		return Sealed(b[SealRoom-2:])
	case n < 1<<16:
		b[SealRoom-4], b[SealRoom-3] = 0x82, 126
		binary.BigEndian.PutUint16(b[SealRoom-2:], uint16(n))
		return Sealed(b[SealRoom-4:])
	default:
		b[0], b[1] = 0x82, 127
		binary.BigEndian.PutUint64(b[2:], uint64(n))
		return Sealed(b)
	}
}

// WriteStatus is what became of a write that does not block.
type WriteStatus uint8

// The statuses.
const (
	WriteDone   WriteStatus = iota // every byte is with the kernel
	WriteKept                      // the socket is full: the connection took the message and keeps its unsent tail; Flush before the next Send
	WriteBusy                      // the socket is full and a tail is kept already: the message was not taken
	WriteClosed                    // the connection is gone
)

// SessionID names a session on its node; it is never used twice in a process.
type SessionID uint64

// Conn is the write half of a session's socket. Only the session's subscriber calls it. No method blocks.
type Conn interface {
	// Send writes one message, after the kept tail if there is one.
	Send(m Sealed) WriteStatus
	// Flush tries again to write the kept tail.
	Flush() WriteStatus
	// Close ends the connection with a websocket close code and reason. It may be called more than once.
	Close(code int, reason string)
}
