package archive

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"image/png"
	"io"
	"strconv"
	"strings"

	"github.com/placed-board/placed/board"
)

// Format is a form of export.
type Format string

// The forms of an export of one stream.
const (
	FormatCSV    Format = "csv"    // Shape2017
	FormatNDJSON Format = "ndjson" // one JSON object a placement
	FormatPNG    Format = "png"    // the board at the end of the span, one pixel a tile
)

// exportBuffer is what is written at once.
const exportBuffer = 64 << 10

// PseudonymKeyBytesMin is the least size of a key.
const PseudonymKeyBytesMin = 16

// ExportConfig says what is exported.
type ExportConfig struct {
	Format Format
	Span   Span
	Names  bool // users keep their names; otherwise keyed hashes stand for them, in the shape of 2017
	// PseudonymKey makes two exports name the same users alike. Empty: a random one, which nobody gets to know.
	PseudonymKey []byte
	Palette      []board.PaletteEntry // of FormatPNG
	Progress     func(Progress)       // told of the placements so far; the total is not known. Nil: nobody listens
}

// Validate returns what is impossible.
func (c *ExportConfig) Validate() error {
	var errs []error
	switch c.Format {
	case FormatCSV, FormatNDJSON:
	case FormatPNG:
		if !c.Span.Rect.Valid() || len(c.Palette) == 0 {
			errs = append(errs, errors.New("a png needs a rectangle and a palette"))
		}
	default:
		errs = append(errs, fmt.Errorf("format %q is none of csv, ndjson and png", c.Format))
	}
	if (c.Span.Rect != board.Rect{}) && !c.Span.Rect.Valid() {
		errs = append(errs, fmt.Errorf("the rectangle does not lie within 0..%d", board.SideMax-1))
	}
	if c.Span.ToMs != 0 && c.Span.ToMs <= c.Span.FromMs {
		errs = append(errs, errors.New("the span ends before it begins"))
	}
	if n := len(c.PseudonymKey); n > 0 && n < PseudonymKeyBytesMin {
		errs = append(errs, fmt.Errorf("a pseudonym key of %d bytes is shorter than %d", n, PseudonymKeyBytesMin))
	}
	return errors.Join(errs...)
}

// ExportReport tells what an export wrote.
type ExportReport struct {
	Placements int64
	// Raised is how many times were raised to that of the tile's placement before, so that the rows of a tile keep their order
	// when somebody sorts them by time. Two shards' clocks differ by milliseconds, and a charge may have waited for its node.
	Raised int64
}

// Export writes a part of the history, or the board at its end. It reads the journals as they are at the call, so it may run
// beside a server.
func Export(ctx context.Context, j Journals, w io.Writer, c ExportConfig) (ExportReport, error) {
	if err := c.Validate(); err != nil {
		return ExportReport{}, fmt.Errorf("archive: export: %w", err)
	}
	out := bufio.NewWriterSize(w, exportBuffer)
	if c.Format == FormatPNG {
		return ExportReport{}, exportPNG(ctx, j, out, &c)
	}
	e := exporter{config: &c, out: out, last: map[board.ChunkID]*[board.ChunkTiles]int64{}, names: newPseudonyms(c.PseudonymKey)}
	if c.Format == FormatCSV {
		_, _ = out.WriteString(Header2017 + "\n") // an error stays in the writer and comes out of Flush
	}
	for p, err := range Placements(ctx, j, c.Span) {
		if err != nil {
			return e.report, err
		}
		if e.report.Placements%progressRows == 0 {
			if err := ctx.Err(); err != nil {
				return e.report, fmt.Errorf("archive: export: %w", err)
			}
			if c.Progress != nil {
				c.Progress(Progress{Phase: PhaseExport, Done: e.report.Placements})
			}
		}
		if err := e.write(&p); err != nil {
			return e.report, fmt.Errorf("archive: export: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return e.report, fmt.Errorf("archive: export: %w", err)
	}
	return e.report, nil
}

// PhaseExport is the one phase of an export.
const PhaseExport Phase = "exporting"

func exportPNG(ctx context.Context, j Journals, out *bufio.Writer, c *ExportConfig) error {
	endMs := int64(timeMsMax)
	if c.Span.ToMs != 0 {
		endMs = c.Span.ToMs - 1
	}
	picture, err := BoardAt(ctx, j, c.Span.Rect, endMs)
	if err != nil {
		return err
	}
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := errors.Join(encoder.Encode(out, picture.Image(c.Palette)), out.Flush()); err != nil {
		return fmt.Errorf("archive: export: %w", err)
	}
	return nil
}

type exporter struct {
	config *ExportConfig
	out    *bufio.Writer
	last   map[board.ChunkID]*[board.ChunkTiles]int64 // the time of each tile's placement before
	names  *pseudonyms
	line   []byte
	report ExportReport
}

func (e *exporter) write(p *board.Placement) error {
	chunk := e.last[p.Chunk]
	if chunk == nil {
		chunk = new([board.ChunkTiles]int64)
		e.last[p.Chunk] = chunk
	}
	if p.AtMs < chunk[p.Tile] {
		p.AtMs = chunk[p.Tile]
		e.report.Raised++
	}
	chunk[p.Tile] = p.AtMs
	e.report.Placements++
	user := string(p.User)
	if !e.config.Names {
		user = e.names.of(p.User)
	}
	if e.config.Format == FormatNDJSON {
		e.line = appendJSON(e.line[:0], p, user)
	} else {
		e.line = appendCSV(e.line[:0], p, user)
	}
	_, err := e.out.Write(e.line)
	return err
}

func appendCSV(b []byte, p *board.Placement, user string) []byte {
	at := p.Point()
	b = append(strconv.AppendInt(b, p.AtMs, 10), ',')
	if strings.ContainsAny(user, `,"`) {
		user = `"` + strings.ReplaceAll(user, `"`, `""`) + `"`
	}
	b = append(append(b, user...), ',')
	b = append(strconv.AppendInt(b, int64(at.X), 10), ',')
	b = append(strconv.AppendInt(b, int64(at.Y), 10), ',')
	return append(strconv.AppendInt(b, int64(p.Colour), 10), '\n')
}

func appendJSON(b []byte, p *board.Placement, user string) []byte {
	at := p.Point()
	b = strconv.AppendInt(append(b, `{"at_ms":`...), p.AtMs, 10)
	b = strconv.AppendInt(append(b, `,"x":`...), int64(at.X), 10)
	b = strconv.AppendInt(append(b, `,"y":`...), int64(at.Y), 10)
	b = strconv.AppendInt(append(b, `,"colour":`...), int64(p.Colour), 10)
	quoted, _ := json.Marshal(user) // a string cannot fail
	b = append(append(b, `,"user":`...), quoted...)
	b = append(append(b, `,"kind":"`...), p.Kind.String()...)
	b = strconv.AppendUint(append(b, `","sequence":`...), p.Sequence, 10)
	return append(b, '}', '\n')
}

// pseudonyms stand for users: 28 characters of base64, from a keyed hash.
type pseudonyms struct {
	hash hash.Hash
	sum  []byte
}

func newPseudonyms(key []byte) *pseudonyms {
	if len(key) == 0 {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // never fails
	}
	return &pseudonyms{hash: hmac.New(sha256.New, key)}
}

func (n *pseudonyms) of(user board.UserID) string {
	n.hash.Reset()
	_, _ = io.WriteString(n.hash, string(user))
	n.sum = n.hash.Sum(n.sum[:0])
	return base64.StdEncoding.EncodeToString(n.sum[:pseudonymBytes])
}
