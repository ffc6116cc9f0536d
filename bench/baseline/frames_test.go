package baseline

import (
	"encoding/binary"
	"testing"
)

func serverFrame(opcode byte, payload []byte) []byte {
	frame := []byte{0x80 | opcode}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 127), uint64(n))
	}
	return append(frame, payload...)
}

func TestFrameCounterCountsHoweverTheStreamIsCut(t *testing.T) {
	payload := func(n int, first byte) []byte {
		p := make([]byte, n)
		if n > 0 {
			p[0] = first
		}
		return p
	}
	var stream []byte
	for _, frame := range [][]byte{
		serverFrame(2, payload(1, 7)), serverFrame(2, payload(125, 7)), serverFrame(9, payload(4, 9)), serverFrame(2, payload(126, 3)),
		serverFrame(2, payload(70_000, 3)), serverFrame(2, payload(0, 0)), serverFrame(2, payload(300, 7)), serverFrame(8, payload(2, 1)),
	} {
		stream = append(stream, frame...)
	}
	for _, size := range []int{1, 2, 3, 7, 64, 1000, 65_537, len(stream)} {
		var counter frameCounter
		counts := map[byte]int{}
		pings, closes := 0, 0
		for rest := stream; len(rest) > 0; {
			n := min(size, len(rest))
			if counter.feed(rest[:n], func(first byte) { counts[first]++ }, func() { pings++ }) {
				closes++
			}
			rest = rest[n:]
		}
		if counts[7] != 3 || counts[3] != 2 || len(counts) != 2 || pings != 1 || closes != 1 {
			t.Errorf("in pieces of %d: frames %v, pings %d, closes %d; want 3 of kind 7, 2 of kind 3, 1 and 1", size, counts, pings, closes)
		}
	}
}
