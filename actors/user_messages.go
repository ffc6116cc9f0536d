package actors

import (
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/wire"
)

// SessionRef names where an answer goes: a session, or a waiting HTTP request, of a node.
type SessionRef struct {
	Node    string // address; "" for this node
	Session wire.SessionID
}

// UserMessage is what a user actor understands. All of them come from the user's shard, on the same node; the ones that a
// session sends pass through the shard, which adds its newest rules.
//
//sumtype:decl
type UserMessage interface{ userMessage() }

// PlaceTile asks for a placement. From: a session. Answer: Answered to ReplyTo. Crosses nodes on its way to the shard.
type PlaceTile struct {
	Request   board.PlaceRequest
	ReplyTo   SessionRef
	Forwarded bool   // by the loser of a duel: serve it or answer busy
	Rules     *Rules // set by the shard
}

// RegisterSession asks to hear of the user's turns. From: a subscriber, again after each view change. Answer: StatusChanged.
// Crosses nodes.
type RegisterSession struct {
	User      board.UserID
	Session   SessionRef
	Forwarded bool
	Rules     *Rules
}

// ForgetSession takes a registration back. From: a subscriber. No answer. Crosses nodes.
type ForgetSession struct {
	User      board.UserID
	Session   SessionRef
	Forwarded bool
}

// SetBan bans a user until a time in Unix milliseconds, or with 0 takes the ban back. From: the admin API. Answer: Answered
// with VerdictAccepted when it is durable. Crosses nodes.
type SetBan struct {
	User      board.UserID
	UntilMs   int64
	Note      *store.BanNote
	ReplyTo   SessionRef
	Forwarded bool
	Rules     *Rules
}

// UserRowLoaded brings the user's row as it is when the shard sends it: later messages build on it. From: the shard.
type UserRowLoaded struct {
	Generation uint64
	Life       uint64        // of the core that asked: an actor that starts again keeps its mailbox, with rows that are old by now
	Row        store.UserRow // zero for a new user; bans that are being written included
	Open       bool          // the row's charge is not on the board yet
	Placing    *store.Charge // the charge after the row's that an earlier actor of this user asked for: not durable yet
	Failed     bool          // the store could not be read; the shard tries again
	Rules      *Rules
}

// ChargeRefused says that the shard did not charge. From: the shard.
type ChargeRefused struct {
	Turn   uint64
	Code   board.Code
	WaitMs int64
	Rules  *Rules
}

// ChargeMade says that a charge is durable; Row is the user's row now. From: the shard.
type ChargeMade struct {
	Row   store.UserRow
	Rules *Rules
}

// ChargePlaced says that the charge's placement is on the board. From: the shard.
type ChargePlaced struct {
	Turn     uint64
	Sequence uint64
	Version  uint64 // the block's commit with the placement
	Rules    *Rules
}

// ChargeUnsure says that nobody knows for longer than UnknownMs whether the charge is durable. ChargeMade or ChargeRefused
// follows. From: the shard.
type ChargeUnsure struct {
	Turn  uint64
	Rules *Rules
}

// ChargeOverdue says that a charge is open for longer than OverdueMs. From: the shard.
type ChargeOverdue struct {
	Turn  uint64
	Rules *Rules
}

// BanWritten says that the user's ban is durable. From: the shard.
type BanWritten struct {
	UntilMs int64
	Note    *store.BanNote
	To      SessionRef // of AskBan
	Rules   *Rules
}

// BanRefused says that the shard did not take a ban. From: the shard.
type BanRefused struct {
	To     SessionRef // of AskBan
	Code   board.Code
	WaitMs int64
}

// RulesChanged says that newer settings are in force in the shard. From: the shard.
type RulesChanged struct{ Rules *Rules }

// ReloadUser says that the shard has lost a duel or its memory: nothing that the user knows is certain any more.
type ReloadUser struct{ Generation uint64 }

// GetIdle asks whether the user actor could be stopped. Answer: UserIdle.
type GetIdle struct {
	Messages uint64 // how many messages the shard has sent to this user actor
	Rules    *Rules
}

func (PlaceTile) userMessage()       {}
func (RegisterSession) userMessage() {}
func (ForgetSession) userMessage()   {}
func (SetBan) userMessage()          {}
func (UserRowLoaded) userMessage()   {}
func (ChargeRefused) userMessage()   {}
func (ChargeMade) userMessage()      {}
func (ChargePlaced) userMessage()    {}
func (ChargeUnsure) userMessage()    {}
func (ChargeOverdue) userMessage()   {}
func (BanWritten) userMessage()      {}
func (BanRefused) userMessage()      {}
func (RulesChanged) userMessage()    {}
func (ReloadUser) userMessage()      {}
func (GetIdle) userMessage()         {}

// UserEffect is what a user core wants done.
//
//sumtype:decl
type UserEffect interface{ userEffect() }

// Answer gives an outcome to one session.
type Answer struct {
	To      SessionRef
	User    board.UserID
	Outcome board.PlaceOutcome
}

// TellStatus gives the user's status to one session.
type TellStatus struct {
	To     SessionRef
	Status board.UserStatus
}

// AskRow asks the shard for the user's row. To: the shard.
type AskRow struct {
	User       board.UserID
	Generation uint64
	Life       uint64 // of the user's core
}

// AskCharge asks the shard for a charge. Before is the user's row as the user knows it. To: the shard.
type AskCharge struct {
	User       board.UserID
	Generation uint64
	Turn       uint64
	Nonce      uint64
	At         board.Point
	Colour     board.Colour
	Before     store.UserRow
}

// AskBan asks the shard to write a ban. To: the shard.
type AskBan struct {
	User       board.UserID
	Generation uint64
	UntilMs    int64
	Note       *store.BanNote
	To         SessionRef // who waits for it
	Before     store.UserRow
}

// UserIdle answers GetIdle: with Idle the actor may be stopped if no message followed; whoever stops it keeps its sessions and
// registers them again with the next actor of the user. To: the shard.
type UserIdle struct {
	User     board.UserID
	Messages uint64
	Idle     bool
	Sessions []SessionRef
}

func (Answer) userEffect()     {}
func (TellStatus) userEffect() {}
func (AskRow) userEffect()     {}
func (AskCharge) userEffect()  {}
func (AskBan) userEffect()     {}
func (UserIdle) userEffect()   {}

// withRules gives a request newer rules than it came with.
func withRules(m UserMessage, rules *Rules) UserMessage {
	switch m := m.(type) {
	case PlaceTile:
		m.Rules = rules
		return m
	case RegisterSession:
		m.Rules = rules
		return m
	case SetBan:
		m.Rules = rules
		return m
	default:
		return m
	}
}

// forwarded returns the message as it is forwarded, and whether it was forwarded before: once is enough.
func forwarded(m UserMessage) (onward UserMessage, again bool) {
	switch m := m.(type) {
	case PlaceTile:
		again, m.Forwarded, m.Rules = m.Forwarded, true, nil
		return m, again
	case RegisterSession:
		again, m.Forwarded, m.Rules = m.Forwarded, true, nil
		return m, again
	case ForgetSession:
		again, m.Forwarded = m.Forwarded, true
		return m, again
	case SetBan:
		again, m.Forwarded, m.Rules = m.Forwarded, true, nil
		return m, again
	default:
		return m, true // never leaves its node
	}
}
