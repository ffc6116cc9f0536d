package archive

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/placed-board/placed/board"
)

// Bounds of sorting.
const (
	SortRowsMax    = 6_000_000  // placements held in memory, 24 bytes each; then they are sorted and go to a temporary file
	UsersMax       = 50_000_000 // users of a history; each takes about 100 bytes of memory
	mergeReadBytes = 1 << 20    // read ahead of each sorted run
)

// record is one placement on its way through the sorter, 24 bytes. Records are ordered by their words.
type record [3]uint64

func newRecord(atMs int64, position uint64, at board.Point, colour board.Colour, user uint32) record {
	return record{uint64(atMs)<<16 | uint64(colour), position, uint64(at.X)<<48 | uint64(at.Y)<<32 | uint64(user)}
}

func (r *record) atMs() int64          { return int64(r[0] >> 16) }
func (r *record) colour() board.Colour { return board.Colour(r[0]) }
func (r *record) position() uint64     { return r[1] }
func (r *record) at() board.Point {
	return board.Point{X: int(r[2] >> 48), Y: int(r[2] >> 32 & 0xffff)}
}
func (r *record) user() uint32 { return uint32(r[2]) }

// compare orders by time; at the same time by the place in the files, whatever the colour; then by tile.
func (r *record) compare(o *record) int {
	return cmp.Or(cmp.Compare(r[0]>>16, o[0]>>16), cmp.Compare(r[1], o[1]), cmp.Compare(r[2], o[2]))
}

const recordBytes = 24

// sorter sorts placements by time, those of a time in the order of the files, in bounded memory: sorted runs lie in a temporary
// file and are merged.
type sorter struct {
	file   *os.File
	rows   []record
	runs   []run
	bytes  int64          // written to the file
	digest *xxhash.Digest // of every record in the order of their coming
	count  int64
}

// run is a sorted part of the temporary file.
type run struct{ offset, bytes int64 }

// newSorter makes a sorter with a temporary file in dir ("" for the system's).
func newSorter(dir string) (*sorter, error) {
	file, err := os.CreateTemp(dir, "placed-import-*")
	if err != nil {
		return nil, fmt.Errorf("archive: temporary file: %w", err)
	}
	// Without a name it goes away with the process, however that ends. Where a file in use keeps its name, close removes it.
	_ = os.Remove(file.Name())
	return &sorter{file: file, digest: xxhash.New()}, nil
}

func (s *sorter) close() error {
	err := s.file.Close()
	_ = os.Remove(s.file.Name())
	return err
}

// add takes one placement.
func (s *sorter) add(r record) error {
	if len(s.rows) == SortRowsMax {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if len(s.rows) == cap(s.rows) { // grow by hand: doubling would end at up to twice the bound
		s.rows = slices.Grow(s.rows, min(max(len(s.rows), 1024), SortRowsMax-len(s.rows)))
	}
	s.rows = append(s.rows, r)
	s.count++
	return nil
}

// spill sorts what is in memory and appends it to the file.
func (s *sorter) spill() error {
	out := bufio.NewWriterSize(s.file, 1<<20)
	var b [recordBytes]byte
	for i := range s.rows {
		_, _ = s.digest.Write(s.rows[i].encode(&b))
	}
	slices.SortFunc(s.rows, func(a, b record) int { return a.compare(&b) })
	for i := range s.rows {
		if _, err := out.Write(s.rows[i].encode(&b)); err != nil {
			return fmt.Errorf("archive: sort: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("archive: sort: %w", err)
	}
	size := int64(len(s.rows)) * recordBytes
	s.runs = append(s.runs, run{s.bytes, size})
	s.bytes += size
	s.rows = s.rows[:0]
	return nil
}

func (r *record) encode(b *[recordBytes]byte) []byte {
	for i, word := range r {
		binary.LittleEndian.PutUint64(b[8*i:], word)
	}
	return b[:]
}

// finish ends the adding, gives the memory free and returns the records in order.
func (s *sorter) finish() (*merge, error) {
	if err := s.spill(); err != nil {
		return nil, err
	}
	s.rows = nil
	m := &merge{}
	for _, r := range s.runs {
		in := &runReader{in: bufio.NewReaderSize(io.NewSectionReader(s.file, r.offset, r.bytes), mergeReadBytes)}
		if err := in.advance(); err != nil {
			return nil, err
		}
		m.runs = append(m.runs, in)
	}
	return m, nil
}

// merge merges sorted runs.
type merge struct{ runs []*runReader }

// next returns the next record, io.EOF at the end.
func (m *merge) next() (record, error) {
	var least *runReader
	for _, r := range m.runs {
		if !r.done && (least == nil || r.record.compare(&least.record) < 0) {
			least = r
		}
	}
	if least == nil {
		return record{}, io.EOF
	}
	out := least.record
	return out, least.advance()
}

// runReader stands at a record of a run.
type runReader struct {
	in     *bufio.Reader
	buffer [recordBytes]byte
	record record
	done   bool
}

func (r *runReader) advance() error {
	if _, err := io.ReadFull(r.in, r.buffer[:]); err != nil {
		if errors.Is(err, io.EOF) {
			r.done = true
			return nil
		}
		return fmt.Errorf("archive: sorted run: %w", err)
	}
	for i := range r.record {
		r.record[i] = binary.LittleEndian.Uint64(r.buffer[8*i:])
	}
	return nil
}
