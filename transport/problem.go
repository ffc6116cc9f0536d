package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/placed-board/placed/board"
)

// problem is the body of every answer that is not a success (RFC 9457, application/problem+json). Code is the label of a
// board.Refusal or one of ownProblems; programs go by it.
type problem struct {
	Type         string `json:"type"`
	Title        string `json:"title"`
	Status       int    `json:"status"`
	Detail       string `json:"detail,omitempty"`
	Code         string `json:"code"`
	RetryAfterMs int64  `json:"retry_after_ms,omitempty"`

	// Of a refused placement: the next turn when it is known, and the tile's true colour.
	NextTurn   uint64        `json:"next_turn,omitempty"`
	TrueColour *board.Colour `json:"true_colour,omitempty"`
	// Of a conflict: the newest settings.
	Newest *board.SettingsRecord `json:"newest,omitempty"`
	// Of impossible settings: every fault.
	Faults []string `json:"faults,omitempty"`
}

// Codes of the problems that are not refusals of a placement.
const (
	problemNotFound    = "not_found"
	problemMethod      = "method"
	problemMediaType   = "media_type"
	problemTooLarge    = "too_large"
	problemBadRequest  = "bad_request"
	problemOrigin      = "origin"
	problemToken       = "token"
	problemUserName    = "user_name"
	problemReserved    = "user_reserved"
	problemRation      = "sign_ins"
	problemAuth        = "auth"
	problemProxy       = "proxy"
	problemInvite      = "invite"
	problemInviteName  = "invite_name"
	problemNameTaken   = "name_taken"
	problemKey         = "idempotency_key"
	problemUnknown     = "unknown"
	problemConflict    = "conflict"
	problemSettings    = "settings"
	problemAdminToken  = "admin_token"
	problemSubprotocol = "subprotocol"
	problemUpgrade     = "upgrade"
	problemConnections = "connections"
	problemBoardLarge  = "board_large"
	problemPage        = "page"
	problemRunning     = "running"
	problemRefused     = "refused"
	problemOutcome     = "outcome_unknown"
	problemInternal    = "internal"
)

// ownProblems is the one table of them: HTTP status and the sentence for people.
var ownProblems = map[string]struct {
	status int
	title  string
}{
	problemNotFound:    {http.StatusNotFound, "There is nothing here."},
	problemMethod:      {http.StatusMethodNotAllowed, "This address does not take that method."},
	problemMediaType:   {http.StatusUnsupportedMediaType, "Send application/json."},
	problemTooLarge:    {http.StatusRequestEntityTooLarge, "That request is too large."},
	problemBadRequest:  {http.StatusBadRequest, "That request was not understood."},
	problemOrigin:      {http.StatusForbidden, "Requests from that origin are not allowed."},
	problemToken:       {http.StatusUnauthorized, "Your session is not valid any more: sign in again."},
	problemUserName:    {http.StatusUnprocessableEntity, "That name cannot be used."},
	problemReserved:    {http.StatusUnprocessableEntity, "Names that begin like that are given by the server only."},
	problemRation:      {http.StatusTooManyRequests, "Too many new guests have come from your network just now: try again a little later, or ask the host."},
	problemAuth:        {http.StatusForbidden, "People sign in to this board in another way."},
	problemProxy:       {http.StatusForbidden, "Only a trusted proxy may say who you are."},
	problemInvite:      {http.StatusForbidden, "This invite is not good: ask the host for another one."},
	problemInviteName:  {http.StatusUnprocessableEntity, "Welcome! Choose a name: it is yours from then on."},
	problemNameTaken:   {http.StatusConflict, "Somebody else has that name: choose another one."},
	problemKey:         {http.StatusBadRequest, "Send an Idempotency-Key header of 1 to 128 printable ASCII characters."},
	problemUnknown:     {http.StatusServiceUnavailable, "Nobody knows yet what became of your placement: send it again with the same key."},
	problemConflict:    {http.StatusConflict, "The settings were changed since: read them again."},
	problemSettings:    {http.StatusUnprocessableEntity, "Those settings are not possible."},
	problemAdminToken:  {http.StatusUnauthorized, "This listener needs the admin token as a bearer token."},
	problemSubprotocol: {http.StatusBadRequest, "This server speaks the websocket subprotocol placed.v1."},
	problemUpgrade:     {http.StatusUpgradeRequired, "This address takes websocket connections only."},
	problemConnections: {http.StatusTooManyRequests, "Too many connections from your address."},
	problemBoardLarge:  {http.StatusUnprocessableEntity, "The board is too large to be sent whole: fetch its chunks."},
	problemPage:        {http.StatusBadRequest, "That page is not one of this history: begin at its newest page."},
	problemRunning:     {http.StatusConflict, "That is running already."},
	problemRefused:     {http.StatusConflict, "That was refused: nothing has changed."},
	problemOutcome:     {http.StatusServiceUnavailable, "Nobody knows yet whether that was done: look first, then ask again."},
	problemInternal:    {http.StatusInternalServerError, "Something went wrong on our side."},
}

// retryMsDefault is what busy answers ask for when nobody knows better.
const retryMsDefault = 1000

// newProblem returns the problem with one of our own codes.
func newProblem(code, detail string) *problem {
	own := ownProblems[code]
	return &problem{Type: "urn:placed:problem:" + code, Title: own.title, Status: own.status, Code: code, Detail: detail}
}

// refusalProblem returns the problem of a board refusal. Refusals that pass by themselves always say when to try again.
func refusalProblem(code board.Code, waitMs int64) *problem {
	r := code.Refusal()
	if waitMs <= 0 && r.Status == http.StatusServiceUnavailable {
		waitMs = retryMsDefault
	}
	return &problem{Type: "urn:placed:problem:" + r.Label, Title: r.Sentence, Status: r.Status, Code: r.Label, RetryAfterMs: max(waitMs, 0)}
}

func rateProblem(wait time.Duration) *problem {
	return refusalProblem(board.CodeRate, max(wait.Milliseconds(), 1))
}

// fail answers with a problem and counts it. Problems are never cached.
func (s *Server) fail(w http.ResponseWriter, p *problem) {
	s.metrics.refuse(p.Code)
	h := w.Header()
	for _, name := range []string{"ETag", "Vary", "Content-Encoding", "Content-Length", "Last-Modified"} {
		h.Del(name)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/problem+json")
	if p.RetryAfterMs > 0 {
		h.Set("Retry-After", strconv.FormatInt((p.RetryAfterMs+999)/1000, 10))
	}
	if p.Code == problemAdminToken || p.Code == problemToken {
		h.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(p.Status)
	body, _ := json.Marshal(p) // strings and numbers only
	w.Write(append(body, '\n'))
}

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, cacheControl string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("transport: JSON of %T: %v", v, err)) // a type of ours that JSON cannot say
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", cacheControl)
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// readJSON decodes the whole request body into v: JSON only, at most bytesMax bytes, no unknown field, nothing after it.
func readJSON(w http.ResponseWriter, r *http.Request, bytesMax int64, v any) *problem {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return newProblem(problemMediaType, "")
	}
	if r.Header.Get("Content-Encoding") != "" {
		return newProblem(problemMediaType, "an encoded body")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bytesMax))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return newProblem(problemTooLarge, fmt.Sprintf("more than %d bytes", bytesMax))
		}
		return newProblem(problemBadRequest, "the body ended early")
	}
	return strictJSON(body, v)
}

// strictJSON decodes all of body into v. Names that are there twice, and names in another case than ours, would pass the
// decoder: it takes the last one, and does not look at the case.
func strictJSON(body []byte, v any) *problem {
	if name, why := faultyName(json.NewDecoder(bytes.NewReader(body))); why != "" {
		return newProblem(problemBadRequest, fmt.Sprintf("field %q %s", name, why))
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return newProblem(problemBadRequest, strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); err != io.EOF {
		return newProblem(problemBadRequest, "something follows the JSON value")
	}
	return nil
}

// faultyName looks for a field's name that is there twice in its object or is not in lower case, as all of ours are. It leaves
// whatever is no JSON to the decoder.
func faultyName(dec *json.Decoder) (name, why string) {
	type level struct {
		names map[string]bool // nil in an array
		value bool            // the next token is the value of a name
	}
	var levels []level
	for {
		token, err := dec.Token()
		if err != nil {
			return "", ""
		}
		top := len(levels) - 1
		if name, ok := token.(string); ok && top >= 0 && levels[top].names != nil && !levels[top].value {
			switch {
			case levels[top].names[name]:
				return name, "is there twice"
			case strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsUpper(r) }):
				return name, "is unknown: names are in lower case"
			}
			levels[top].names[name], levels[top].value = true, true
			continue
		}
		if top >= 0 {
			levels[top].value = false
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:top]
		}
	}
}
