package place2017

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/placed-board/placed/board"
)

// formBytesMax bounds the body of a form: the longest that is honest has about 200 bytes, as multipart a KiB.
const formBytesMax = 8 * 1024

// formType is what a body without a Content-Type is taken for, as in 2017.
const formType = "application/x-www-form-urlencoded"

// readForm reads the fields of a request's body, of either form encoding, and of its query. A body that is none has no fields;
// false says that it was answered, because it is too long.
func (f *Face) readForm(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", formType)
	}
	r.Body = http.MaxBytesReader(w, r.Body, formBytesMax)
	err := errors.Join(r.ParseForm(), r.ParseMultipartForm(formBytesMax)) // the second forgets what the first found
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		f.fail(w, reasonBody, http.StatusRequestEntityTooLarge, 0, "That request is too large.")
		return false
	}
	return true
}

// number reads a whole number; one beyond what fits is as good as the largest.
func number(r *http.Request, field string) (n int, ok bool) {
	text := strings.TrimSpace(r.Form.Get(field))
	n, err := strconv.Atoi(text)
	switch {
	case err == nil:
		return n, true
	case !errors.Is(err, strconv.ErrRange):
		return 0, false
	case strings.HasPrefix(text, "-"):
		return math.MinInt, true
	}
	return math.MaxInt, true
}

// clamped reads a number that is brought within lo..hi; without one it is otherwise.
func clamped(r *http.Request, field string, lo, hi, otherwise int) int {
	n, ok := number(r, field)
	if !ok {
		return otherwise
	}
	return min(max(n, lo), hi)
}

// point reads x and y, and returns what is wrong with them on a board of the settings.
func point(r *http.Request, s *board.Settings) (p board.Point, errs []fieldError) {
	x, okX := number(r, "x")
	if !okX || x < 0 || x >= s.Width {
		errs = append(errs, errBadNumber("x", s.Width))
	}
	y, okY := number(r, "y")
	if !okY || y < 0 || y >= s.Height {
		errs = append(errs, errBadNumber("y", s.Height))
	}
	return board.Point{X: x, Y: y}, errs
}
