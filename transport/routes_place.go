package transport

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"

	"github.com/placed-board/placed/board"
)

// placement is the body of POST /api/v1/placements. X, Y and Colour must be there; a Turn of 0 or none takes whatever the
// user's turn is.
type placement struct {
	X      *int   `json:"x"`
	Y      *int   `json:"y"`
	Colour *int   `json:"colour"`
	Turn   uint64 `json:"turn"`
}

// placed is the answer to a placement that is or will be on the board.
type placed struct {
	Verdict  string `json:"verdict"` // "accepted": on the board; "charged": durable, on the board in a moment
	X        int    `json:"x"`
	Y        int    `json:"y"`
	Colour   int    `json:"colour"`
	Turn     uint64 `json:"turn"`
	Nonce    string `json:"nonce"`              // 16 hexadecimal digits: the key, or its hash
	Col      *int   `json:"col,omitempty"`      // accepted: the chunk
	Row      *int   `json:"row,omitempty"`      //
	Sequence uint64 `json:"sequence,omitempty"` // accepted: in the chunk
	WaitMs   int64  `json:"wait_ms"`            // until the user's next placement may be accepted
	NextTurn uint64 `json:"next_turn,omitempty"`
}

const (
	placementBytesMax = 1024
	keyBytesMax       = 128
)

// postPlacement answers POST /api/v1/placements: 200 accepted, 202 charged, else a problem with the refusal's status. The
// Idempotency-Key is the placement's nonce: a repeated request with the same key gets the same answer until the user's next
// placement, and with a turn for ever.
func (s *Server) postPlacement(w http.ResponseWriter, r *http.Request) {
	who, p := s.identify(r)
	if p != nil {
		s.dropBadCookie(w, r, p)
		s.fail(w, p)
		return
	}
	if who.user == "" {
		s.fail(w, refusalProblem(board.CodeSignIn, 0))
		return
	}
	request, p := readPlacement(w, r, who.user)
	if p != nil {
		s.fail(w, p)
		return
	}
	if s.refusesPlaces() {
		s.fail(w, refusalProblem(board.CodeDraining, 0))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.PlaceTimeout)
	defer cancel()
	s.answerPlacement(w, s.deps.Placer.Place(ctx, request))
}

// readPlacement reads the request; the user is the signed-in one whatever the body says.
func readPlacement(w http.ResponseWriter, r *http.Request, user board.UserID) (board.PlaceRequest, *problem) {
	nonce, ok := nonceOf(r.Header.Values("Idempotency-Key"))
	if !ok {
		return board.PlaceRequest{}, newProblem(problemKey, "")
	}
	var body placement
	if p := readJSON(w, r, placementBytesMax, &body); p != nil {
		return board.PlaceRequest{}, p
	}
	if body.X == nil || body.Y == nil || body.Colour == nil {
		return board.PlaceRequest{}, newProblem(problemBadRequest, "x, y and colour are needed")
	}
	if *body.Colour < 0 || *body.Colour >= board.PaletteMax {
		return board.PlaceRequest{}, refusalProblem(board.CodeColour, 0)
	}
	return board.PlaceRequest{
		User: user, Turn: body.Turn, Nonce: nonce, At: board.Point{X: *body.X, Y: *body.Y}, Colour: board.Colour(*body.Colour),
	}, nil
}

// nonceOf turns the idempotency key into a nonce: 16 hexadecimal digits are the nonce itself, so that a placement begun over
// a websocket can be repeated here; of any other key it is the first 64 bits of its SHA-256.
func nonceOf(keys []string) (uint64, bool) {
	if len(keys) != 1 || len(keys[0]) < 1 || len(keys[0]) > keyBytesMax {
		return 0, false
	}
	key := keys[0]
	for i := range len(key) {
		if key[i] < 0x20 || key[i] > 0x7e {
			return 0, false
		}
	}
	if len(key) == 16 {
		if n, err := strconv.ParseUint(key, 16, 64); err == nil {
			return n, true
		}
	}
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:]), true
}

func (s *Server) answerPlacement(w http.ResponseWriter, o board.PlaceOutcome) {
	switch o.Verdict {
	case board.VerdictAccepted, board.VerdictCharged:
		answer := placed{
			Verdict: o.Verdict.String(), X: o.At.X, Y: o.At.Y, Colour: int(o.Colour), Turn: o.Turn,
			Nonce: fmt.Sprintf("%016x", o.Nonce), WaitMs: o.WaitMs, NextTurn: o.NextTurn,
		}
		status := http.StatusAccepted
		if o.Verdict == board.VerdictAccepted {
			col, row := o.Chunk.Col(), o.Chunk.Row()
			answer.Col, answer.Row, answer.Sequence = &col, &row, o.Sequence
			status = http.StatusOK
		}
		writeJSON(w, status, "no-store", answer)
	case board.VerdictRefused:
		p := refusalProblem(o.Code, o.WaitMs)
		p.NextTurn = o.NextTurn
		if o.TrueColour {
			p.TrueColour = &o.Colour
		}
		s.fail(w, p)
	case board.VerdictUnknown:
		s.failUnknown(w, o)
	default:
		s.failUnknown(w, o)
	}
}

func (s *Server) failUnknown(w http.ResponseWriter, o board.PlaceOutcome) {
	p := newProblem(problemUnknown, "")
	p.RetryAfterMs = max(o.WaitMs, retryMsDefault)
	s.fail(w, p)
}
