package board

import "fmt"

// PlaceRequest asks for a placement. It crosses from transport to the user's shard.
type PlaceRequest struct {
	User   UserID
	Turn   uint64 // 0: the shard reads the user's turn when it checks
	Nonce  uint64 // chosen by the client, kept across retries
	At     Point
	Colour Colour
}

// Verdict is the kind of an answer to a PlaceRequest.
type Verdict uint8

// The verdicts.
const (
	VerdictAccepted Verdict = iota // on the board, final
	VerdictCharged                 // durable and certain to come, not on the board yet
	VerdictUnknown                 // nobody knows yet: send the same turn and nonce again
	VerdictRefused                 // changed nothing
)

// String returns the verdict's name.
func (v Verdict) String() string {
	switch v {
	case VerdictAccepted:
		return "accepted"
	case VerdictCharged:
		return "charged"
	case VerdictUnknown:
		return "unknown"
	case VerdictRefused:
		return "refused"
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// PlaceOutcome answers a PlaceRequest. Turn, Nonce and At repeat the request.
type PlaceOutcome struct {
	Verdict    Verdict
	Code       Code // of a refusal
	Turn       uint64
	Nonce      uint64
	At         Point
	Colour     Colour  // accepted and charged: the colour placed; refused: the tile's true colour when TrueColour is set
	TrueColour bool    // Colour is what the board shows at At
	Chunk      ChunkID // accepted
	Sequence   uint64  // accepted
	WaitMs     int64   // until the user's next placement may be accepted, or until a retry makes sense
	NextTurn   uint64  // the user's next turn; 0 when not known
}

// UserStatus tells a user's sessions where the user stands.
type UserStatus struct {
	User        UserID
	Turn        uint64 // of the next placement
	WaitMs      int64  // until it may be accepted
	BannedUntil int64  // Unix milliseconds; 0: not banned; BannedForever: without end
}

// BannedForever is a ban without end.
const BannedForever int64 = 1<<53 - 1

// Hashes are the two 64-bit hashes that prove a session's board: of tiles and of chunk sequences.
type Hashes struct{ Tiles, Sequences uint64 }
