package board

import "net/http"

// Code is the reason of a refusal: a closed list. The numbers are part of the wire protocol and never change.
type Code uint8

// The codes.
const (
	CodeOK         Code = 0
	CodeCooldown   Code = 1
	CodeBounds     Code = 2
	CodeColour     Code = 3
	CodeFrozen     Code = 4
	CodeProtected  Code = 5
	CodeBanned     Code = 6
	CodeSuperseded Code = 7
	CodeTurn       Code = 8
	CodeBusy       Code = 9
	CodeStore      Code = 10
	CodeSignIn     Code = 11
	CodeRate       Code = 12
	CodeBadMessage Code = 13
	CodeLoading    Code = 14
	CodeDraining   Code = 15
	CodeClock      Code = 16
)

// Refusal is how one code looks on every face of the product.
type Refusal struct {
	Code     Code
	Label    string // metric label and problem type
	Status   int    // HTTP status
	Sentence string // for people
}

// Refusals is the one table of all codes, in their order.
var Refusals = [...]Refusal{
	{CodeOK, "ok", http.StatusOK, "Placed."},
	{CodeCooldown, "cooldown", http.StatusTooManyRequests, "Your next tile is not ready yet."},
	{CodeBounds, "bounds", http.StatusUnprocessableEntity, "That tile is outside the board."},
	{CodeColour, "colour", http.StatusUnprocessableEntity, "That colour is not in the palette."},
	{CodeFrozen, "frozen", http.StatusConflict, "The board is frozen."},
	{CodeProtected, "protected", http.StatusForbidden, "That area is protected."},
	{CodeBanned, "banned", http.StatusForbidden, "You may not place tiles on this board."},
	{CodeSuperseded, "superseded", http.StatusConflict, "You have placed another tile since."},
	{CodeTurn, "turn", http.StatusConflict, "That turn is not yours yet: use the turn given here."},
	{CodeBusy, "busy", http.StatusServiceUnavailable, "Too much is going on here: try again in a moment."},
	{CodeStore, "store", http.StatusServiceUnavailable, "The board cannot save placements at the moment."},
	{CodeSignIn, "sign_in", http.StatusUnauthorized, "Sign in to place tiles."},
	{CodeRate, "rate", http.StatusTooManyRequests, "Too many requests: slow down."},
	{CodeBadMessage, "bad_message", http.StatusBadRequest, "That message was not understood."},
	{CodeLoading, "loading", http.StatusServiceUnavailable, "The board is being loaded."},
	{CodeDraining, "draining", http.StatusServiceUnavailable, "This server is going down: try again on the next connection."},
	{CodeClock, "clock", http.StatusServiceUnavailable, "The server's clock is not trusted at the moment."},
}

// Refusal returns the code's row of the table; an unknown code gets the row of CodeBadMessage.
func (c Code) Refusal() Refusal {
	if int(c) < len(Refusals) {
		return Refusals[c]
	}
	return Refusals[CodeBadMessage]
}

// Passing reports whether a refusal says nothing about the placement itself: another copy of it, or another try, may get
// another answer.
func (c Code) Passing() bool {
	switch c {
	case CodeBusy, CodeStore, CodeRate, CodeLoading, CodeDraining, CodeClock:
		return true
	case CodeOK, CodeCooldown, CodeBounds, CodeColour, CodeFrozen, CodeProtected, CodeBanned, CodeSuperseded, CodeTurn, CodeSignIn,
		CodeBadMessage:
		return false
	}
	return false
}

// String returns the code's label.
func (c Code) String() string { return c.Refusal().Label }
