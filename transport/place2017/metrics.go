package place2017

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/counters"
)

// Reasons of refusals besides the labels of board.Refusals.
const (
	reasonUser      = "user_required"
	reasonNumber    = "bad_number"
	reasonColour    = "bad_color"
	reasonModhash   = "modhash"
	reasonOperator  = "not_operator"
	reasonGuesses   = "operator_guesses" // too many wrong operators' tokens
	reasonColours   = "colours"          // the palette has more than the 16 of 2017
	reasonLarge     = "board_large"
	reasonBody      = "body" // too long
	reasonUnknown   = "unknown"
	reasonJob       = "job"       // a rectangle that was refused or whose fate nobody knows
	reasonSignature = "signature" // of a websocket's address
	reasonExpired   = "expired"
	reasonPlain     = "not_websocket"
)

// Kinds of frames.
const (
	framePlace    = "place"
	frameBatch    = "batch-place"
	frameActivity = "activity"
	frameRefresh  = "refresh"
)

// Causes of "refresh" and of ended sessions.
const (
	causeSlow     = "slow"     // the session took nothing for a while
	causeLost     = "lost"     // more was placed than could be told
	causeResized  = "resized"  // the board has another size
	causeOperator = "operator" // asked for
	causeStalled  = "stalled"  // nothing for StalledMax: closed
	causeColours  = "colours"  // the palette has outgrown this face: closed
)

// metrics are the counters of the face. All labels are closed lists, and every series exists from the start.
type metrics struct {
	refusals  map[string]prometheus.Counter // by reason
	frames    map[string]prometheus.Counter // encoded, by type
	skipped   prometheus.Counter
	refreshes map[string]prometheus.Counter // sessions told, by cause
	closed    map[string]prometheus.Counter // sessions, by cause
}

func newMetrics(reg prometheus.Registerer, f *Face) (*metrics, error) {
	set := counters.Set{Registry: reg}
	reasons := []string{
		reasonUser, reasonNumber, reasonColour, reasonModhash, reasonOperator, reasonGuesses, reasonColours, reasonLarge, reasonBody,
		reasonUnknown, reasonJob, reasonSignature, reasonExpired, reasonPlain,
	}
	for _, r := range board.Refusals {
		if r.Code != board.CodeOK {
			reasons = append(reasons, r.Label)
		}
	}
	m := &metrics{
		refusals:  set.Vec("placed_2017_refusals_total", "Requests of the face of 2017 that were refused, by reason.", "reason", reasons...),
		frames:    set.Vec("placed_2017_frames_total", "Websocket messages of the face of 2017 encoded, by type.", "type", framePlace, frameBatch, frameActivity, frameRefresh),
		refreshes: set.Vec("placed_2017_refreshes_total", "Sessions of the face of 2017 told to load their page anew, by cause.", "cause", causeSlow, causeLost, causeResized, causeOperator),
		closed:    set.Vec("placed_2017_closed_total", "Sessions of the face of 2017 closed by it, by cause.", "cause", causeStalled, causeColours),
		skipped:   set.Counter("placed_2017_skipped_total", "Writes that a slow session of the face of 2017 did not get."),
	}
	set.Add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "placed_2017_sessions", Help: "Open websockets of the face of 2017."},
		func() float64 { return float64(f.hub.count()) }))
	return m, set.Err()
}
