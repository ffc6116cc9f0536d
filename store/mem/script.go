package mem

import (
	"time"

	"github.com/placed-board/placed/store"
)

// Op names a method of Store.
type Op uint8

// The scripted methods.
const (
	OpMeta Op = iota + 1
	OpCreate
	OpCommit
	OpHead
	OpRow
	OpRows
	OpJournal
	OpBlocks
	OpPutSnapshot
	OpSnapshot
)

// Call describes a call to a Script.
type Call struct {
	Number    uint64 // counts the Store's scripted calls from 1
	Op        Op
	Partition store.Partition // zero for OpMeta, OpCreate and OpBlocks; the block for snapshots
	Key       string          // of OpRow
	Commit    *store.Commit   // of OpCommit; not to be changed or kept
}

// Script decides what happens to a call. It runs in the caller's goroutine, without locks, so many at once; a Script with
// state guards it. A nil Script means Normal for every call.
type Script func(Call) Outcome

// Outcome is what happens to a call: made by Normal, UnknownApplied, UnknownNot, AppliedLate, Conflict, Slow, Fail
// and Refuse.
type Outcome struct {
	kind  kind
	after int
	rival *store.Commit
	err   error
	delay time.Duration
}

type kind uint8

const (
	normal kind = iota
	unknownApplied
	unknownNot
	appliedLate
	conflict
	slow
	fail
	refuse
)

// Normal lets the call do what it should.
func Normal() Outcome { return Outcome{} }

// UnknownApplied makes a commit, then answers store.ErrUnknown. (On a conflict it makes nothing and answers the same.)
func UnknownApplied() Outcome { return Outcome{kind: unknownApplied} }

// UnknownNot answers store.ErrUnknown and never makes the commit.
func UnknownNot() Outcome { return Outcome{kind: unknownNot} }

// AppliedLate answers store.ErrUnknown at once and attempts the commit later: n further commits overtake it in the same
// Store and it arrives right before the one after them (with 0: right before the next), or else at Release. A negative n
// waits for Release alone.
func AppliedLate(n int) Outcome { return Outcome{kind: appliedLate, after: n} }

// Conflict first makes another owner's commit, so that the call finds the version moved. With a nil rival it is
// Core.Rival(partition, RivalOwner, call number | RivalAttempt).
func Conflict(rival *store.Commit) Outcome { return Outcome{kind: conflict, rival: rival} }

// Slow blocks the call until Release or until its context is done. A commit whose context ended first answers
// store.ErrUnknown, and is attempted at the next Release.
func Slow() Outcome { return Outcome{kind: slow} }

// Fail answers err. A commit answers store.ErrUnknown wrapping err and is not made.
func Fail(err error) Outcome { return Outcome{kind: fail, err: err} }

// Refuse answers err alone, before anything is sent, as a full disk does with store.ErrFull.
func Refuse(err error) Outcome { return Outcome{kind: refuse, err: err} }

// After makes the outcome happen d later by the runtime's clock (virtual in a synctest bubble), or not at all when the
// context is done before; a commit then answers store.ErrUnknown although it was not made.
func (o Outcome) After(d time.Duration) Outcome {
	o.delay = d
	return o
}

// RivalOwner is the owner of the commits that Conflict(nil) makes.
var RivalOwner = store.Owner{Address: "rival.invalid:1", Incarnation: 0x717a1}

// RivalAttempt is set in the attempt ids of the commits that Conflict(nil) makes.
const RivalAttempt = 1 << 63
