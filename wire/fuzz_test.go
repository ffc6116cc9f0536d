package wire

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/placed-board/placed/board"
	"pgregory.net/rapid"
)

// Every decoder: no panic, errors of one kind, and no two encodings of one message.

func addSeeds(f *testing.F, direction string) {
	for _, c := range goldenCases() {
		if c.direction == direction {
			f.Add(encodeAny(c.message))
		}
	}
	for _, c := range rejectCases() {
		if c.direction == direction {
			f.Add(c.bytes)
		}
	}
}

// checkDecoder decodes b and, when it is a message, encodes it again: the same bytes must come out, unless it holds settings,
// whose JSON may be written in many ways; then the second message must equal the first.
func checkDecoder(t interface {
	Helper()
	Fatalf(string, ...any)
}, direction string, b []byte,
) {
	t.Helper()
	before := bytes.Clone(b)
	m, err := decodeAny(direction, b)
	if !bytes.Equal(b, before) {
		t.Fatalf("the decoder wrote into its input")
	}
	if err != nil {
		if !errors.Is(err, ErrMalformed) {
			t.Fatalf("%x: error %v", b, err)
		}
		return
	}
	again := encodeAny(m)
	switch m.(type) {
	case *Hello, *SettingsChanged:
		second, err := decodeAny(direction, again)
		if err != nil || !bytes.Equal(encodeAny(second), again) {
			t.Fatalf("%x is %#v, which is %x, which is %#v, %v", b, m, again, second, err)
		}
	default:
		if !bytes.Equal(again, b) {
			t.Fatalf("%x is %#v, which is encoded as %x", b, m, again)
		}
	}
}

func FuzzDecodeClient(f *testing.F) {
	addSeeds(f, fromClient)
	f.Fuzz(func(t *testing.T, b []byte) { checkDecoder(t, fromClient, b) })
}

func FuzzDecodeServer(f *testing.F) {
	addSeeds(f, fromNode)
	f.Fuzz(func(t *testing.T, b []byte) { checkDecoder(t, fromNode, b) })
}

func FuzzDecodeFrame(f *testing.F) {
	addSeeds(f, fromNode)
	f.Fuzz(func(t *testing.T, b []byte) {
		last, sections := -1, 0
		_, _, err := DecodeFrame(b, func(s *Section) error {
			sections++
			if int(s.Chunk) <= last {
				t.Fatalf("%x: chunk %d after %d", b, s.Chunk, last)
			}
			last = int(s.Chunk)
			if err := s.check(); err != nil {
				t.Fatalf("%x: %v", b, err)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("%x: error %v", b, err)
		}
		if 3*sections > len(b) {
			t.Fatalf("%x: %d sections of %d bytes", b, sections, len(b))
		}
		if err == nil && !IsFrame(b) {
			t.Fatalf("%x is a frame that IsFrame does not know", b)
		}
	})
}

func FuzzDecodeBoard(f *testing.F) {
	addSeeds(f, overHTTP)
	f.Fuzz(func(t *testing.T, b []byte) { checkDecoder(t, overHTTP, b) })
}

// TestDamagedMessages changes valid messages in a few places: flips, cuts, inserted and repeated bytes.
func TestDamagedMessages(t *testing.T) {
	valid := goldenCases()
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(valid).Draw(t, "message")
		if rapid.Bool().Draw(t, "drawn") {
			c.message = drawMessage(t, c.direction)
		}
		b := encodeAny(c.message)
		for range rapid.IntRange(1, 4).Draw(t, "damages") {
			at := rapid.IntRange(0, len(b)).Draw(t, "at")
			switch rapid.IntRange(0, 3).Draw(t, "damage") {
			case 0:
				b = b[:at:at]
			case 1:
				b = append(append(bytes.Clone(b[:at]), rapid.SliceOfN(rapid.Byte(), 1, 10).Draw(t, "inserted")...), b[at:]...)
			case 2:
				if at < len(b) {
					b = bytes.Clone(b)
					b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
				}
			case 3:
				b = append(bytes.Clone(b), b[at:]...)
			}
		}
		checkDecoder(t, c.direction, b)
	})
}

func drawMessage(t *rapid.T, direction string) any {
	switch direction {
	case fromClient:
		return genClient(t)
	case fromNode:
		return genServer(t)
	}
	return genBody(t)
}

// TestDecodersAllocateWhatTheInputJustifies sends short messages that promise much.
func TestDecodersAllocateWhatTheInputJustifies(t *testing.T) {
	huge := "ffffffffffffffff7f"
	for _, b := range [][]byte{
		raw("03", huge, "0001"), raw("81 01 00", huge, "0001"), raw("82 01 01 00", huge, "0001"), raw("82 01 01 04", huge, "0001"),
		raw("88 01", huge, "0001"), raw("89 01 01", huge, "0001"), raw("87 01", huge, "7b7d"), raw("82 01 01 01", huge, huge, "0001"),
	} {
		if got := allocated(func() { _, _ = DecodeServer(b); _, _ = DecodeClient(b) }); got > 2048 {
			t.Errorf("%x: %d bytes allocated", b, got)
		}
	}
	body := AppendBoard(nil, &BoardBody{Width: 1, Height: 1, ColourWidth: board.Width4})
	body[40], body[41] = 0xff, 0xff
	if got := allocated(func() { _, _ = DecodeBoard(body) }); got > 2048 {
		t.Errorf("%d bytes allocated for a board that is not there", got)
	}
}

// allocated returns how many bytes a call of f allocates, on average.
func allocated(f func()) uint64 {
	const runs = 100
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / runs
}
