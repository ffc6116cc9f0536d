package archive

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// Limits of history files. What is beyond them is refused: a small file must not unpack to a full disk.
const (
	LineBytesMax   = 1024      // of a row
	AreaTilesMax   = 1_000_000 // of a rectangle or circle
	FileBytesMax   = 64 << 30  // of a file, unpacked
	UnpackRatioMax = 200       // unpacked to packed bytes of a gzip file, above UnpackFreeBytes
	// UnpackFreeBytes is what a gzip file may unpack to, however small it is.
	UnpackFreeBytes = 16 << 20
	readBytes       = 256 << 10 // of the buffers before and behind gzip
)

// Errors of history files; they end the reading.
var (
	ErrHeader = errors.New("the first line is none of the known headers")
	ErrCut    = errors.New("the gzip data ends too early: the file is cut short")
	ErrBomb   = errors.New("the file unpacks to more than a history does")
	ErrEmpty  = errors.New("the file is empty")
)

// Reader reads one history, plain or gzip, row by row.
type Reader struct {
	path    string
	file    *os.File // nil for a stream
	packed  countingReader
	lines   *bufio.Reader
	limit   *unpackLimit
	parser  *parser
	columns columns
	number  int
	line    int64
	fields  [columnsMax + 1]string
}

// OpenReader opens a file and tells its shape by the first line. number is the file's in the positions of its rows. A nil
// layout means that of the shape.
func OpenReader(path string, number int, layout *Layout) (*Reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("is a directory")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("archive: %s: %w", path, err), file.Close())
	}
	r, err := NewReader(path, file, number, layout)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	r.file = file
	return r, nil
}

// NewReader reads a stream as OpenReader reads a file. The name stands in errors.
func NewReader(name string, in io.Reader, number int, layout *Layout) (*Reader, error) {
	r := &Reader{path: name, number: number}
	r.packed.r = in
	if err := r.open(layout); err != nil {
		return nil, fmt.Errorf("archive: %s: %w", name, err)
	}
	return r, nil
}

func (r *Reader) open(layout *Layout) error {
	raw := bufio.NewReaderSize(&r.packed, readBytes)
	magic, err := raw.Peek(2)
	if len(magic) == 0 {
		if errors.Is(err, io.EOF) {
			return ErrEmpty
		}
		return err
	}
	r.limit = &unpackLimit{r: raw}
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(raw)
		if err != nil {
			return readFault(err)
		}
		r.limit.r, r.limit.packed = unpacked, &r.packed
	}
	r.lines = bufio.NewReaderSize(r.limit, readBytes)
	header, err := r.nextLine()
	if err != nil {
		switch {
		case errors.Is(err, io.EOF):
			return ErrEmpty
		case errors.Is(err, errLong):
			return fmt.Errorf("line 1: %w: %w", ErrHeader, err)
		}
		return err
	}
	text := strings.ToLower(strings.TrimPrefix(strings.ReplaceAll(string(header), `"`, ""), "\ufeff"))
	columns, ok := shapes[text]
	if !ok {
		return fmt.Errorf("line 1: %w: %.80q, want one as %q", ErrHeader, header, Header2017)
	}
	if layout == nil {
		own := columns.shape.Layout()
		layout = &own
	}
	r.columns, r.parser = columns, newParser(columns, *layout)
	return nil
}

// Shape returns the file's shape.
func (r *Reader) Shape() Shape { return r.columns.shape }

// ReadBytes returns how many bytes of the file, as it lies on the disk, have been read.
func (r *Reader) ReadBytes() int64 { return r.packed.n }

// Close closes the file; a stream is its owner's to close.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// Next reads the next row; io.EOF at the end. After a *RowError the rows that follow can be read; any other error is the end.
func (r *Reader) Next(row *Row) error {
	line, err := r.nextLine()
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if err == nil {
		var fields []string
		fields, err = splitRow(string(line), r.fields[:0])
		if err == nil {
			err = r.parser.row(fields, row)
		}
	} else if !errors.Is(err, errLong) {
		return fmt.Errorf("archive: %s: after line %d: %w", r.path, r.line, err)
	}
	if err != nil {
		return &RowError{File: r.path, Line: r.line, Err: err}
	}
	row.Position = uint64(r.number)<<positionLineBits | uint64(r.line)
	return nil
}

var errLong = fmt.Errorf("longer than %d bytes", LineBytesMax)

// nextLine returns the next line without its end, valid until the next call. A line that is too long is passed over.
func (r *Reader) nextLine() ([]byte, error) {
	line, err := r.lines.ReadSlice('\n')
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, readFault(err)
	}
	r.line++
	long := len(line) > LineBytesMax+2
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return nil, readFault(err)
		}
	}
	if long {
		return nil, errLong
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'}), nil
}

var errDamaged = errors.New("damaged gzip data")

// readFault says what an error of gzip means.
func readFault(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ErrCut
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// splitRow splits a line into fields. A field in quotes may hold commas, and quotes twice.
func splitRow(line string, fields []string) ([]string, error) {
	if line == "" {
		return nil, errors.New("empty line")
	}
	for {
		if len(fields) > columnsMax {
			return fields, nil // too many, whatever follows
		}
		if !strings.HasPrefix(line, `"`) {
			field, rest, more := strings.Cut(line, ",")
			if strings.Contains(field, `"`) {
				return nil, errors.New("a quote in a field that does not begin with one")
			}
			if fields = append(fields, field); !more {
				return fields, nil
			}
			line = rest
			continue
		}
		field, rest, err := cutQuoted(line[1:])
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
		if rest == "" {
			return fields, nil
		}
		line = rest[1:]
	}
}

// cutQuoted returns the field up to its closing quote, and what follows: nothing, or a comma and more.
func cutQuoted(text string) (field, rest string, err error) {
	for from := 0; ; {
		i := strings.IndexByte(text[from:], '"')
		if i < 0 {
			return "", "", errors.New("a quote is not closed on its line")
		}
		end := from + i
		switch after := text[end+1:]; {
		case strings.HasPrefix(after, `"`):
			from = end + 2
		case after == "" || after[0] == ',':
			return strings.ReplaceAll(text[:end], `""`, `"`), after, nil
		default:
			return "", "", errors.New("a closed quote is followed by more than a comma")
		}
	}
}

// countingReader counts what was read.
type countingReader struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// unpackLimit ends the reading of a file that unpacks to too much.
type unpackLimit struct {
	r      io.Reader
	packed *countingReader // nil: the file is not packed
	n      int64
}

// Read implements io.Reader.
func (l *unpackLimit) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	l.n += int64(n)
	if l.n > FileBytesMax {
		return 0, fmt.Errorf("%w: more than %d GiB", ErrBomb, FileBytesMax>>30)
	}
	if l.packed != nil && l.n > UnpackFreeBytes && l.n > UnpackRatioMax*l.packed.n {
		return 0, fmt.Errorf("%w: %d bytes out of %d, more than %d times as many", ErrBomb, l.n, l.packed.n, UnpackRatioMax)
	}
	return n, err
}

// Rows yields the rows of files in their order. With a *RowError reading goes on; any other error is the last. A nil layout
// means that of each file's shape.
func Rows(paths []string, layout *Layout) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for i, path := range paths {
			r, err := OpenReader(path, i+1, layout)
			if err != nil {
				yield(Row{}, err)
				return
			}
			for {
				var row Row
				err := r.Next(&row)
				_, bad := errors.AsType[*RowError](err)
				if errors.Is(err, io.EOF) {
					break
				}
				if !yield(row, err) || err != nil && !bad {
					r.Close()
					return
				}
			}
			if err := r.Close(); err != nil {
				yield(Row{}, fmt.Errorf("archive: %w", err))
				return
			}
		}
	}
}
