package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/placed-board/placed/board"
)

// ErrMalformed is wrapped by every error of a decoder: the bytes are not a message of this protocol. What follows it says
// which part is wrong and is meant for developers.
var ErrMalformed = errors.New("wire: malformed")

func malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }

// reader takes a message apart. It keeps the first error and then answers zeros, so that decoders check it once at the end;
// every count is checked against the bytes that are left before anything is allocated.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = malformed(what)
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("it ends too early")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) u16() uint16 {
	if len(r.b) < 2 {
		r.fail("it ends too early")
		return 0
	}
	v := binary.LittleEndian.Uint16(r.b)
	r.b = r.b[2:]
	return v
}

func (r *reader) u64() uint64 {
	if len(r.b) < 8 {
		r.fail("it ends too early")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// uvarint reads an unsigned LEB128 number in its shortest form: one value has one encoding.
func (r *reader) uvarint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.b)
	switch {
	case n == 0:
		r.fail("it ends too early")
		return 0
	case n < 0:
		r.fail("a number above 64 bits")
		return 0
	case r.b[n-1] == 0:
		r.fail("a number that is padded")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// limited reads a number that must not be above most.
func (r *reader) limited(most uint64, what string) uint64 {
	v := r.uvarint()
	if v > most {
		r.fail(what)
		return 0
	}
	return v
}

// ms reads a time or duration in milliseconds.
func (r *reader) ms() int64 { return int64(r.limited(math.MaxInt64, "a time above 63 bits")) }

// zigzag reads a signed number.
func (r *reader) zigzag() int {
	u := r.uvarint()
	v := int64(u>>1) ^ -int64(u&1)
	if int64(int(v)) != v {
		r.fail("a number above 32 bits")
	}
	return int(v)
}

// count reads how many entries follow, each of at least bytesMin bytes.
func (r *reader) count(bytesMin int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/bytesMin) {
		r.fail("a count beyond the end")
		return 0
	}
	return int(n)
}

// take reads n bytes; they alias the message.
func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail("it ends too early")
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// bytes reads a length and as many bytes; they alias the message.
func (r *reader) bytes() []byte { return r.take(r.count(1)) }

// flags reads a byte of which only the known bits may be set.
func (r *reader) flags(known byte) byte {
	v := r.byte()
	if v&^known != 0 {
		r.fail("an unknown flag")
		return 0
	}
	return v
}

// chunkAfter adds a chunk delta to the previous chunk of a list. Chunks of a list ascend strictly.
func (r *reader) chunkAfter(previous board.ChunkID, first bool, delta uint64) board.ChunkID {
	if !first && delta == 0 {
		r.fail("a chunk twice")
		return 0
	}
	if delta > math.MaxUint16 || delta+uint64(previous) > math.MaxUint16 || !(previous + board.ChunkID(delta)).Valid() {
		r.fail("a chunk beyond the largest board")
		return 0
	}
	return previous + board.ChunkID(delta)
}

// end checks that nothing is left and returns the first error.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("bytes after its end")
	}
	return r.err
}
