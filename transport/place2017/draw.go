package place2017

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/placed-board/placed/board"
)

// coloursMax is how many colours a board of 2017 has: a tile is four bits.
const coloursMax = 16

// settings returns the settings of a board that this face can show; false says that it was answered.
func (f *Face) settings(w http.ResponseWriter) (*board.Settings, bool) {
	s := f.deps.Board.Settings().Settings
	if len(s.Palette) > coloursMax {
		f.fail(w, reasonColours, http.StatusConflict, 0, fmt.Sprintf("This board has %d colours; the API of 2017 has %d.", len(s.Palette), coloursMax))
		return nil, false
	}
	return &s, true
}

// signedIn returns the user of a request; false says that it was answered. proof asks for the modhash of those who come with a
// cookie.
func (f *Face) signedIn(w http.ResponseWriter, r *http.Request, proof bool) (board.UserID, bool) {
	user, bearer := f.deps.Host.Visitor(r)
	if user == "" {
		f.failForm(w, errUser)
		return "", false
	}
	if proof && !bearer {
		modhash := r.Header.Get("X-Modhash")
		if modhash == "" {
			modhash = r.Form.Get("uh")
		}
		if !f.goodModhash(user, modhash) {
			f.fail(w, reasonModhash, http.StatusForbidden, 0, forbidden)
			return "", false
		}
	}
	return user, true
}

// postDraw answers POST /api/place/draw.json: x, y, color.
func (f *Face) postDraw(w http.ResponseWriter, r *http.Request) {
	settings, ok := f.settings(w)
	if !ok || !f.readForm(w, r) {
		return
	}
	user, ok := f.signedIn(w, r, true)
	if !ok {
		return
	}
	at, errs := point(r, settings)
	if _, ok := number(r, "color"); !ok {
		errs = append(errs, errBadColor)
	}
	if len(errs) > 0 {
		f.failForm(w, errs...)
		return
	}
	if f.deps.Host.Draining() {
		f.failCode(w, board.CodeDraining, 0)
		return
	}
	colour := clamped(r, "color", 0, len(settings.Palette)-1, 0)
	ctx, cancel := context.WithTimeout(r.Context(), f.cfg.PlaceTimeout)
	defer cancel()
	outcome := f.place(ctx, board.PlaceRequest{User: user, Nonce: rand.Uint64(), At: at, Colour: board.Colour(colour)})
	switch outcome.Verdict {
	case board.VerdictAccepted, board.VerdictCharged:
		wait := max(outcome.WaitMs, f.deps.Board.Settings().CooldownMs)
		writeJSON(w, http.StatusOK, map[string]float64{"wait_seconds": plainSeconds(wait)})
	case board.VerdictRefused:
		f.failCode(w, outcome.Code, outcome.WaitMs)
	case board.VerdictUnknown:
		f.fail(w, reasonUnknown, http.StatusServiceUnavailable, retryAfter, "Nobody knows yet what became of your placement.")
	}
}

// landEvery is how often a placement that is charged and not on the board yet is asked after.
const landEvery = 100 * time.Millisecond

// place asks for a placement and waits until it is on the board, because a program of 2017 takes the answer for that. One that
// is still on its way when ctx ends is charged: it will be on the board, so that is an answer too.
func (f *Face) place(ctx context.Context, request board.PlaceRequest) board.PlaceOutcome {
	outcome := f.deps.Placer.Place(ctx, request)
	for outcome.Verdict == board.VerdictCharged {
		timer := time.NewTimer(landEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return outcome
		case <-timer.C:
		}
		request.Turn = outcome.Turn
		if later := f.deps.Placer.Place(ctx, request); later.Verdict == board.VerdictAccepted {
			return later
		}
	}
	return outcome
}

// getTime answers GET /api/place/time.json.
func (f *Face) getTime(w http.ResponseWriter, r *http.Request) {
	if _, ok := f.settings(w); !ok {
		return
	}
	user, ok := f.signedIn(w, r, false)
	if !ok {
		return
	}
	ctx, cancel := f.readContext(r)
	defer cancel()
	status, err := f.deps.Placer.UserStatus(ctx, user)
	if err != nil {
		f.failCode(w, board.CodeStore, 0)
		return
	}
	writeJSON(w, http.StatusOK, map[string]seconds{"wait_seconds": secondsOf(status.WaitMs)})
}

// pixel is the answer to GET /api/place/pixel.json for a tile that somebody has placed.
type pixel struct {
	UserName  string       `json:"user_name"`
	Colour    board.Colour `json:"color"`
	X         int          `json:"x"`
	Y         int          `json:"y"`
	Timestamp seconds      `json:"timestamp"` // Unix
}

// getPixel answers GET /api/place/pixel.json?x=&y=.
func (f *Face) getPixel(w http.ResponseWriter, r *http.Request) {
	settings, ok := f.settings(w)
	if !ok || !f.readForm(w, r) {
		return
	}
	at, errs := point(r, settings)
	if len(errs) > 0 {
		f.failForm(w, errs...)
		return
	}
	ctx, cancel := f.readContext(r)
	defer cancel()
	tile, err := f.deps.Board.Tile(ctx, at)
	if err != nil {
		f.failCode(w, board.CodeStore, 0)
		return
	}
	if !tile.Placed || tile.User == "" || !ofUser(tile.Kind) {
		writeJSON(w, http.StatusOK, bodyOf(nil))
		return
	}
	writeJSON(w, http.StatusOK, pixel{UserName: string(tile.User), Colour: tile.Colour, X: at.X, Y: at.Y, Timestamp: secondsOf(tile.AtMs)})
}

// ofUser reports whether a placement of the kind is a user's own: of all others the face shows no author, as in 2017.
func ofUser(kind string) bool {
	return kind == board.KindUser.String() || kind == board.KindImport.String()
}

// rectSideMax is the largest side of a rectangle.
const rectSideMax = 20

// jobEvery is how often a rectangle under way is asked after.
const jobEvery = 20 * time.Millisecond

// postDrawRect answers POST /api/place/drawrect.json: x, y, width, height. It is for who carries the operators' token.
func (f *Face) postDrawRect(w http.ResponseWriter, r *http.Request) {
	settings, ok := f.settings(w)
	if !ok || !f.readForm(w, r) {
		return
	}
	by, ok, wait := f.deps.Host.Operator(r)
	switch {
	case ok:
	case wait > 0:
		f.fail(w, reasonGuesses, http.StatusTooManyRequests, wait, forbidden)
		return
	default:
		if user, _ := f.deps.Host.Visitor(r); user == "" {
			f.failForm(w, errUser)
			return
		}
		f.fail(w, reasonOperator, http.StatusForbidden, 0, forbidden)
		return
	}
	at, errs := point(r, settings)
	if len(errs) > 0 {
		f.failForm(w, errs...)
		return
	}
	rect := board.Rect{
		X: at.X, Y: at.Y,
		Width:  min(clamped(r, "width", 1, rectSideMax, 1), settings.Width-at.X),
		Height: min(clamped(r, "height", 1, rectSideMax, 1), settings.Height-at.Y),
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.cfg.PlaceTimeout)
	defer cancel()
	if err := f.clear(ctx, rect, by); err != nil {
		f.fail(w, reasonJob, http.StatusServiceUnavailable, retryAfter, "The rectangle was not cleared: "+err.Error())
		return
	}
	writeJSON(w, http.StatusOK, bodyOf(nil))
}

// errJobSlow says that the answer is not waited for any longer; the job is durable and goes on.
var errJobSlow = errors.New("place2017: the job is under way still")

// clear has a rectangle cleared, waits until it is on the board, and has all of it told in one message.
func (f *Face) clear(ctx context.Context, rect board.Rect, by string) error {
	f.hub.wipe(rect)
	defer f.hub.wiped(rect)
	job, err := f.deps.Clearer.Clear(ctx, rect, by, "drawrect of the API of 2017")
	if err != nil {
		return err
	}
	ticker := time.NewTicker(jobEvery)
	defer ticker.Stop()
	for !job.Done {
		select {
		case <-ctx.Done():
			return errJobSlow
		case <-ticker.C:
		}
		jobs, err := f.deps.Clearer.Jobs(ctx)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if j.ID == job.ID {
				job = j
			}
		}
	}
	return nil
}
