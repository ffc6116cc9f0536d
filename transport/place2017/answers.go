package place2017

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/placed-board/placed/board"
)

// seconds is a number of seconds that JSON shows with a point, because programs of 2017 take it for a float.
type seconds float64

// MarshalJSON implements json.Marshaler.
func (s seconds) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(s), 'f', -1, 64)
	if float64(s) == float64(int64(s)) {
		text = strconv.FormatFloat(float64(s), 'f', 1, 64)
	}
	return []byte(text), nil
}

func secondsOf(ms int64) seconds { return seconds(float64(ms) / 1000) }

// plainSeconds shows whole seconds without a point: the cooldown of 2017 is 300, not 300.0.
func plainSeconds(ms int64) float64 { return float64(ms) / 1000 }

// fieldError is one entry of an answer that names what is wrong with a form: code, sentence, field or nil.
type fieldError [3]any

// answer is a body in 2017's words.
type answer struct {
	JSON answerJSON `json:"json"`
}

// answerJSON is what an answer wraps. No errors and no data is a success that has nothing to say.
type answerJSON struct {
	Errors []fieldError `json:"errors"`
	Data   any          `json:"data,omitempty"`
}

func bodyOf(data any, errs ...fieldError) answer {
	return answer{answerJSON{Errors: append([]fieldError{}, errs...), Data: data}}
}

// failure is the body of an answer with a status of 400 or above.
type failure struct {
	Error       int      `json:"error"`
	WaitSeconds *seconds `json:"wait_seconds,omitempty"`
	Message     string   `json:"message,omitempty"`
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("place2017: JSON of %T: %v", v, err)) // a type of ours that JSON cannot say
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=UTF-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

// WriteFailure answers in the form of 2017; see writeFailure.
func (f *Face) WriteFailure(w http.ResponseWriter, status int, wait time.Duration, message string) {
	writeFailure(w, status, wait, message)
}

// writeFailure answers with a status and the body of 2017. A wait above 0 goes with it, and with every answer that asks to try
// again: programs of that time read it from each of those.
func writeFailure(w http.ResponseWriter, status int, wait time.Duration, message string) {
	f := failure{Error: status, Message: message}
	if wait > 0 || status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		s := secondsOf(max(wait.Milliseconds(), 0))
		f.WaitSeconds = &s
		w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	writeJSON(w, status, f)
}

func (f *Face) fail(w http.ResponseWriter, reason string, status int, wait time.Duration, message string) {
	f.metrics.refusals[reason].Inc()
	writeFailure(w, status, wait, message)
}

// failForm answers a form that names something impossible: 200, as in 2017.
func (f *Face) failForm(w http.ResponseWriter, errs ...fieldError) {
	for _, e := range errs {
		switch e[0] {
		case codeBadNumber:
			f.metrics.refusals[reasonNumber].Inc()
		case codeBadColor:
			f.metrics.refusals[reasonColour].Inc()
		default:
			f.metrics.refusals[reasonUser].Inc()
		}
	}
	writeJSON(w, http.StatusOK, bodyOf(nil, errs...))
}

// Codes of the errors of forms.
const (
	codeUser      = "USER_REQUIRED"
	codeBadNumber = "BAD_NUMBER"
	codeBadColor  = "BAD_COLOR"
)

var (
	errUser     = fieldError{codeUser, "Please log in to do that.", nil}
	errBadColor = fieldError{codeBadColor, "invalid color", "color"}
)

// errBadNumber names the size as the end of the range, as in 2017, though the size itself is no longer taken.
func errBadNumber(field string, size int) fieldError {
	return fieldError{codeBadNumber, fmt.Sprintf("that number isn't in the right range (0 to %d)", size), field}
}

const forbidden = "Forbidden"

// retryAfter is what answers ask for that know no better.
const retryAfter = time.Second

// failCode answers a refusal of the board.
func (f *Face) failCode(w http.ResponseWriter, code board.Code, waitMs int64) {
	wait := time.Duration(waitMs) * time.Millisecond
	refusal := code.Refusal()
	switch code {
	case board.CodeCooldown:
		f.fail(w, refusal.Label, http.StatusTooManyRequests, wait, "")
	case board.CodeBusy, board.CodeRate, board.CodeSuperseded, board.CodeTurn:
		// Another placement of the user is under way, or too many of all: too early either way.
		f.fail(w, refusal.Label, http.StatusTooManyRequests, max(wait, time.Millisecond), refusal.Sentence)
	case board.CodeFrozen, board.CodeProtected, board.CodeBanned:
		f.fail(w, refusal.Label, http.StatusForbidden, 0, refusal.Sentence)
	case board.CodeColour:
		f.failForm(w, errBadColor)
	case board.CodeBounds: // the board has shrunk this moment
		s := f.deps.Board.Settings()
		f.failForm(w, errBadNumber("x", s.Width), errBadNumber("y", s.Height))
	case board.CodeSignIn:
		f.failForm(w, errUser)
	case board.CodeOK, board.CodeBadMessage:
		f.fail(w, reasonUnknown, http.StatusServiceUnavailable, max(wait, retryAfter), refusal.Sentence) // no refusals of a placement
	case board.CodeStore, board.CodeLoading, board.CodeDraining, board.CodeClock:
		f.fail(w, refusal.Label, http.StatusServiceUnavailable, max(wait, retryAfter), refusal.Sentence)
	default:
		f.fail(w, refusal.Label, http.StatusServiceUnavailable, max(wait, retryAfter), refusal.Sentence)
	}
}
