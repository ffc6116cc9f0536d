package transport

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/placed-board/placed/board"
)

// Exporter writes the board's history. It reads journals that go on growing.
type Exporter interface {
	// Export writes what is asked for and returns how many placements it has written; 0 for a picture.
	Export(ctx context.Context, w io.Writer, ask ExportQuery) (placements int64, err error)
}

// ExportQuery says what is exported.
type ExportQuery struct {
	Format string // csv, ndjson or png
	FromMs int64  // placements at this time or later
	ToMs   int64  // before this time; 0: all
	Rect   *board.Rect
	Names  bool   // users keep their names; otherwise keyed hashes stand for them
	Key    []byte // of the hashes; empty: a random one
}

// Headers of an export.
const (
	headerPseudonymKey = "Placed-Pseudonym-Key" // of the request, hexadecimal: a header, since addresses are logged
	headerPlacements   = "Placed-Placements"    // trailer of the answer: how many there are. Without it the export was cut short
)

var exportTypes = map[string]string{"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson", "png": "image/png"}

// adminExport answers GET /admin/v1/export?format=csv|ndjson|png&from=MS&to=MS&rect=X,Y,WIDTH,HEIGHT&names=1, as a stream. One that
// fails on its way is cut off, and has no trailer.
func (s *Server) adminExport(w http.ResponseWriter, r *http.Request) {
	if s.deps.Exporter == nil {
		s.fail(w, newProblem(problemNotFound, "this node exports nothing"))
		return
	}
	ask, p := exportQuery(r)
	if p != nil {
		s.fail(w, p)
		return
	}
	if !s.exporting.TryLock() {
		s.fail(w, newProblem(problemRunning, "export"))
		return
	}
	defer s.exporting.Unlock()
	w.Header().Set("Content-Type", exportTypes[ask.Format])
	w.Header().Set("Trailer", headerPlacements)
	out := &patientWriter{w: w, control: http.NewResponseController(w), patience: s.cfg.ResponseTimeout}
	n, err := s.deps.Exporter.Export(r.Context(), out, ask)
	switch {
	case err == nil:
		s.log.Info("exported", "format", ask.Format, "placements", n, "names", ask.Names)
		w.Header().Set(headerPlacements, strconv.FormatInt(n, 10))
	case !out.begun:
		w.Header().Del("Trailer")
		s.askFailed(w, r, err)
	default:
		s.log.Warn("an export was cut off", "format", ask.Format, "err", err)
		s.metrics.refuse(board.CodeStore.String())
		panic(http.ErrAbortHandler) // the only way to tell the client that there is more
	}
}

// exportQuery reads what is asked for. Parameters that nobody knows are refused: a misspelt name must not export everything.
func exportQuery(r *http.Request) (ask ExportQuery, p *problem) {
	bad := func(what string) (ExportQuery, *problem) { return ask, newProblem(problemBadRequest, what) }
	ask.Format = "csv"
	for name, values := range r.URL.Query() {
		value := values[len(values)-1]
		var err error
		switch name {
		case "format":
			ask.Format = value
		case "from":
			ask.FromMs, err = strconv.ParseInt(value, 10, 64)
		case "to":
			ask.ToMs, err = strconv.ParseInt(value, 10, 64)
		case "rect":
			ask.Rect, err = parseRect(value)
		case "names":
			ask.Names, err = strconv.ParseBool(value)
		default:
			return bad("unknown parameter " + strconv.Quote(name))
		}
		if err != nil {
			return bad(name + ": not a value like format=csv, from and to in Unix milliseconds, rect=X,Y,WIDTH,HEIGHT, names=1")
		}
	}
	if _, ok := exportTypes[ask.Format]; !ok {
		return bad("format is csv, ndjson or png")
	}
	if ask.ToMs != 0 && ask.ToMs <= ask.FromMs {
		return bad("to is not after from")
	}
	key, err := hex.DecodeString(r.Header.Get(headerPseudonymKey))
	if err != nil {
		return bad(headerPseudonymKey + " is not hexadecimal")
	}
	ask.Key = key
	return ask, nil
}

func parseRect(text string) (*board.Rect, error) {
	parts := strings.Split(text, ",")
	var n [4]int
	if len(parts) != len(n) {
		return nil, errRect
	}
	for i, part := range parts {
		v, err := strconv.Atoi(part)
		if err != nil {
			return nil, errRect
		}
		n[i] = v
	}
	r := &board.Rect{X: n[0], Y: n[1], Width: n[2], Height: n[3]}
	if !r.Valid() {
		return nil, errRect
	}
	return r, nil
}

var errRect = errors.New("not a rectangle")

// patientWriter gives each write of a long answer its own time.
type patientWriter struct {
	w        io.Writer
	control  *http.ResponseController
	patience time.Duration
	begun    bool // something was written
}

// Write implements io.Writer.
func (p *patientWriter) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil // not even the header goes out before there is something to say
	}
	p.begun = true
	_ = p.control.SetWriteDeadline(time.Now().Add(p.patience)) // without deadlines the connection has none to be set
	return p.w.Write(b)
}
