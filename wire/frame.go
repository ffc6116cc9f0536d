package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/placed-board/placed/board"
)

// A section begins with varint((chunk - previous chunk) << 1 | extended). Without the extended bit one tile of 16 bits follows:
// a run of one at width 4, the common case of a busy board. With it a descriptor byte follows. In a repair frame every section
// is extended, for its runs and patches say where they begin: repairs may then come twice or cross each other.
const (
	sectionExtended = 1

	descriptorKind       byte = 0b11   // SectionKind
	descriptorWide       byte = 1 << 2 // width 8
	descriptorCountShift      = 3      // number of tiles 1..31, or 0: a varint follows, which is above 31
	descriptorCountMax        = 31
)

// tileBytes is the size of a tile of a run or patch.
func tileBytes(w board.Width) int {
	if w == board.Width8 {
		return 3
	}
	return 2
}

// IsFrame reports whether the message is a Frame.
func IsFrame(b []byte) bool {
	return len(b) > 0 && (b[0] == typeFrame || b[0] == typeRepairFrame)
}

// appendFrame panics on a section that cannot be said on the wire: such a feed has lost its board's state already.
func appendFrame(dst []byte, f *Frame) []byte {
	if f.Repair {
		dst = append(dst, typeRepairFrame)
	} else {
		dst = append(dst, typeFrame)
	}
	dst = binary.AppendUvarint(dst, f.Tick)
	sections := ascending(f.Sections, func(s *Section) board.ChunkID { return s.Chunk })
	previous := board.ChunkID(0)
	for i := range sections {
		dst = appendSection(dst, previous, &sections[i], f.Repair)
		previous = sections[i].Chunk
	}
	return dst
}

func appendSection(dst []byte, previous board.ChunkID, s *Section, repair bool) []byte {
	if err := s.check(); err != nil {
		panic(err.Error())
	}
	delta := chunkDelta(previous, s.Chunk) << 1
	if s.Kind == SectionRun && s.Width == board.Width4 && len(s.Tiles) == 1 && !repair {
		return appendTiles(binary.AppendUvarint(dst, delta), s)
	}
	dst = binary.AppendUvarint(dst, delta|sectionExtended)
	descriptor := byte(s.Kind)
	if s.Width == board.Width8 {
		descriptor |= descriptorWide
	}
	if s.Kind == SectionSet {
		dst = append(dst, descriptor)
		dst = binary.AppendUvarint(dst, s.Sequence)
		return append(dst, s.Image...)
	}
	if n := len(s.Tiles); n <= descriptorCountMax {
		dst = append(dst, descriptor|byte(n)<<descriptorCountShift)
	} else {
		dst = append(dst, descriptor)
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	if s.Kind == SectionPatch {
		dst = binary.AppendUvarint(dst, s.Advance)
	}
	if repair {
		dst = binary.AppendUvarint(dst, s.Sequence)
	}
	return appendTiles(dst, s)
}

func appendTiles(dst []byte, s *Section) []byte {
	if s.Width == board.Width8 {
		for _, t := range s.Tiles {
			dst = append(dst, byte(t.Index), byte(t.Index>>8), byte(t.Colour))
		}
		return dst
	}
	for _, t := range s.Tiles {
		dst = binary.LittleEndian.AppendUint16(dst, t.Index<<4|uint16(t.Colour))
	}
	return dst
}

// check reports why a section cannot be encoded.
func (s *Section) check() error {
	switch {
	case !s.Chunk.Valid():
		return fmt.Errorf("wire: section of the invalid chunk %d", s.Chunk)
	case s.Width != board.Width4 && s.Width != board.Width8:
		return fmt.Errorf("wire: section of width %d", s.Width)
	}
	switch s.Kind {
	case SectionSet:
		if len(s.Image) != s.Width.ImageBytes() {
			return fmt.Errorf("wire: image of %d bytes at width %d", len(s.Image), s.Width)
		}
		return nil
	case SectionRun, SectionPatch:
	default:
		return fmt.Errorf("wire: section of kind %d", s.Kind)
	}
	if len(s.Tiles) == 0 {
		return fmt.Errorf("wire: section of chunk %d without tiles", s.Chunk)
	}
	if s.Kind == SectionPatch && s.Advance < uint64(len(s.Tiles)) {
		return fmt.Errorf("wire: patch of %d tiles advances by %d only", len(s.Tiles), s.Advance)
	}
	for _, t := range s.Tiles {
		if t.Index >= board.ChunkTiles || s.Width == board.Width4 && t.Colour > 15 {
			return fmt.Errorf("wire: tile %d of colour %d at width %d", t.Index, t.Colour, s.Width)
		}
	}
	return nil
}

// frameScratch is what one DecodeFrame needs beyond its input.
type frameScratch struct {
	r       reader
	section Section
	tiles   []Tile
}

// scratchTilesMax bounds the tiles that a scratch keeps between frames: 64 KiB.
const scratchTilesMax = 16 * 1024

var frameScratches = sync.Pool{New: func() any { return &frameScratch{tiles: make([]Tile, 0, 256)} }}

// DecodeFrame decodes a Frame and calls visit for each section in turn, ascending by chunk. The section, its tiles and its
// image are valid during the call only: the section and the tiles are used again, the image aliases b. Sections before a
// malformed one have been visited when the error is found. An error of visit ends the decoding and is returned as it is;
// every other error wraps ErrMalformed. DecodeFrame does not allocate in the long run.
func DecodeFrame(b []byte, visit func(*Section) error) (tick uint64, repair bool, err error) {
	s := frameScratches.Get().(*frameScratch)
	s.r = reader{b: b}
	tick, repair, err = s.decode(visit)
	s.r, s.section = reader{}, Section{}
	if cap(s.tiles) <= scratchTilesMax {
		frameScratches.Put(s)
	}
	return tick, repair, err
}

func (s *frameScratch) decode(visit func(*Section) error) (tick uint64, repair bool, err error) {
	r := &s.r
	switch r.byte() {
	case typeFrame:
	case typeRepairFrame:
		repair = true
	default:
		r.fail("not a frame")
	}
	tick = r.uvarint()
	previous, first := board.ChunkID(0), true
	for len(r.b) > 0 {
		head := r.uvarint()
		s.section = Section{Chunk: r.chunkAfter(previous, first, head>>1), Width: board.Width4}
		switch {
		case head&sectionExtended != 0:
			s.decodeExtended(r, repair)
		case repair:
			r.fail("a repair that does not say where it begins")
		default:
			s.decodeTiles(r, 1)
		}
		if r.err != nil {
			break
		}
		if err := visit(&s.section); err != nil {
			return tick, repair, err
		}
		previous, first = s.section.Chunk, false
	}
	if r.err != nil {
		return 0, false, r.err
	}
	return tick, repair, nil
}

func (s *frameScratch) decodeExtended(r *reader, repair bool) {
	descriptor := r.byte()
	s.section.Kind = SectionKind(descriptor & descriptorKind)
	if descriptor&descriptorWide != 0 {
		s.section.Width = board.Width8
	}
	n := uint64(descriptor >> descriptorCountShift)
	switch s.section.Kind {
	case SectionSet:
		if n != 0 {
			r.fail("an image with a count of tiles")
		}
		s.section.Sequence = r.uvarint()
		s.section.Image = r.take(s.section.Width.ImageBytes())
		return
	case SectionRun, SectionPatch:
	default:
		r.fail("an unknown kind of section")
		return
	}
	if n == 0 {
		if n = r.uvarint(); n <= descriptorCountMax {
			r.fail("a count of tiles that belongs into the descriptor")
		}
	}
	if s.section.Kind == SectionPatch {
		if s.section.Advance = r.uvarint(); s.section.Advance < n {
			r.fail("a patch that advances by less than its tiles")
		}
	} else if n == 1 && s.section.Width == board.Width4 && !repair {
		r.fail("a single tile that needs no descriptor")
	}
	if repair {
		s.section.Sequence = r.uvarint()
	}
	s.decodeTiles(r, n)
}

func (s *frameScratch) decodeTiles(r *reader, n uint64) {
	size := tileBytes(s.section.Width)
	if n > uint64(len(r.b)/size) {
		r.fail("a count beyond the end")
		return
	}
	b := r.take(int(n) * size)
	tiles := slices.Grow(s.tiles[:0], int(n))[:n]
	highest := uint16(0)
	for i := range tiles {
		if size == 2 {
			v := binary.LittleEndian.Uint16(b[2*i:])
			tiles[i] = Tile{Index: v >> 4, Colour: board.Colour(v & 0x0f)}
		} else {
			tiles[i] = Tile{Index: binary.LittleEndian.Uint16(b[3*i:]), Colour: board.Colour(b[3*i+2])}
		}
		highest = max(highest, tiles[i].Index)
	}
	if highest >= board.ChunkTiles {
		r.fail("a tile beyond its chunk")
	}
	s.tiles, s.section.Tiles = tiles, tiles
}

// decodeFrame decodes a Frame into memory of its own.
func decodeFrame(b []byte) (*Frame, error) {
	f := &Frame{}
	var err error
	f.Tick, f.Repair, err = DecodeFrame(b, func(s *Section) error {
		own := *s
		own.Tiles, own.Image = slices.Clone(s.Tiles), slices.Clone(s.Image)
		f.Sections = append(f.Sections, own)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}
