package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/placed-board/placed/board"
)

// Problem is an error answer of a node (application/problem+json). Every HTTP method of this package returns one, wrapped,
// when the node answered with an error status: errors.AsType[*client.Problem](err).
type Problem struct {
	Status       int    `json:"status"`
	Code         string `json:"code"` // label of a refusal (board.Refusals) or of an error
	Title        string `json:"title"`
	Detail       string `json:"detail"`
	RetryAfterMs int64  `json:"retry_after_ms"`
	// Of a refused placement: the user's next turn and the tile's true colour, when the node knows them.
	NextTurn   uint64        `json:"next_turn"`
	TrueColour *board.Colour `json:"true_colour"`
	// Of impossible settings: every fault.
	Faults []string `json:"faults"`
	// Of a conflict of settings: the newest ones.
	Newest *board.SettingsRecord `json:"newest"`
}

// Error returns the problem in one line.
func (p *Problem) Error() string {
	var out strings.Builder
	out.WriteString(fmt.Sprintf("%d %s", p.Status, p.Title))
	if p.Code != "" {
		out.WriteString(" (" + p.Code + ")")
	}
	more := p.Faults // each of them; the detail says the same at a stretch
	if len(more) == 0 && p.Detail != p.Title {
		more = []string{p.Detail}
	}
	for i, text := range more {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		if text != "" {
			out.WriteString(separator + text)
		}
	}
	return out.String()
}

// Refusal returns the refusal that the code names; false when it names none.
func (p *Problem) Refusal() (board.Code, bool) {
	for _, r := range board.Refusals {
		if r.Label == p.Code {
			return r.Code, true
		}
	}
	return 0, false
}

// RetryAfter returns when it makes sense to try again; 0 when the node did not say.
func (p *Problem) RetryAfter() time.Duration { return time.Duration(p.RetryAfterMs) * time.Millisecond }

// problemBytesMax is how much of an error answer is read.
const problemBytesMax = 16 << 10

// readProblem makes a Problem of an answer with an error status; one that is not problem+json keeps its first line as Detail.
func readProblem(resp *http.Response) *Problem {
	p := &Problem{}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, problemBytesMax))
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "application/problem+json" || json.Unmarshal(b, p) != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
		*p = Problem{Detail: line}
	}
	p.Status = resp.StatusCode
	if p.Title == "" {
		p.Title = http.StatusText(resp.StatusCode)
	}
	if p.RetryAfterMs == 0 {
		p.RetryAfterMs = retryAfterHeader(resp.Header).Milliseconds()
	}
	return p
}

// conflict adds board.ErrConflict to a conflict of settings.
func conflict(err error) error {
	if p, ok := errors.AsType[*Problem](err); ok && (p.Status == http.StatusConflict || p.Status == http.StatusPreconditionFailed) {
		return fmt.Errorf("%w (%w)", board.ErrConflict, err)
	}
	return err
}
