package actors

// In:  PlaceTile from a session, by way of the user's shard; the shard's answers.
// Out: AskCharge to the shard when nothing refuses the placement; Answer to the sessions.
// The user decides alone whether this user may place; the shard makes it durable (actors/shard.go),
// then the placement goes to its region.
// Next: actors/region.go.

import (
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Bounds of a user.
const (
	// UserWaitingMax is how many requests wait for the user's row; beyond: busy.
	UserWaitingMax = 8
	// UserRepliesMax is how many retries of one placement wait for its answer; beyond: busy.
	UserRepliesMax = 32
	// UserSessionsMax is how many sessions of one user hear of its turns; the oldest is forgotten beyond.
	UserSessionsMax = 64
	// MaxClockSkewMs is how much later a charge written by another node is released.
	MaxClockSkewMs = 250
	// UserBansMax is how many bans of one user wait to be written; beyond: busy.
	UserBansMax = 8
	// BusyRetryMs is the retry hint of a busy answer.
	BusyRetryMs = 250
)

// User decides what one user may do. It is the core of the user actor: no I/O, no clock.
type User struct {
	id         board.UserID
	node       Node
	generation uint64
	life       uint64 // of this core: only what it asked for itself is news

	loaded   bool
	asked    bool // for the row
	row      store.UserRow
	placing  *placing
	waiting  []UserMessage // until the row is loaded
	sessions []SessionRef
	bans     []banWaiter // wait for BanWritten, in order
	out      []UserEffect
}

// placing is the user's placement under way.
type placing struct {
	turn    uint64
	nonce   uint64
	at      board.Point
	colour  board.Colour
	charged bool // durable
	unsure  bool // the replies have heard "unknown"
	overdue bool // the replies have heard "charged"
	replies []SessionRef
}

// banWaiter waits until a ban is durable. The shard is asked once no placement is under way, and no placement begins before
// the answer: so the row that the ban is written on is the newest.
type banWaiter struct {
	to    SessionRef
	ban   store.Ban
	asked bool
}

// NewUser returns the core of a user that knows nothing yet, under the shard's generation. life grows with every core of the
// node.
func NewUser(id board.UserID, node Node, generation, life uint64) *User {
	return &User{id: id, node: node, generation: generation, life: life}
}

// Receive handles one message at wall time nowMs (Unix milliseconds) and returns what to do; the shard checks again by its own
// clock, which never runs back. The result is valid until the next call.
func (u *User) Receive(nowMs int64, message UserMessage) []UserEffect {
	u.out = u.out[:0]
	switch m := message.(type) {
	case PlaceTile, SetBan, RegisterSession:
		if u.loaded {
			u.serve(nowMs, m)
		} else {
			u.wait(m)
		}
	case ForgetSession:
		u.sessions = slices.DeleteFunc(u.sessions, func(s SessionRef) bool { return s == m.Session })
	case UserRowLoaded:
		u.rowLoaded(nowMs, m)
	case ChargeRefused:
		u.chargeRefused(nowMs, m)
	case ChargeMade:
		u.chargeMade(m)
	case ChargePlaced:
		u.chargePlaced(nowMs, m)
	case ChargeUnsure:
		if p := u.placing; p != nil && !p.charged && p.turn == m.Turn && !p.unsure {
			p.unsure = true
			u.answerAll(p.unknown())
		}
	case ChargeOverdue:
		if p := u.placing; p != nil && p.charged && p.turn == m.Turn && !p.overdue {
			p.overdue = true
			u.answerAll(u.chargedOutcome(nowMs, m.Rules))
		}
	case BanWritten:
		u.banWritten(nowMs, m)
	case BanRefused:
		u.banSettled(m.To, board.PlaceOutcome{Verdict: board.VerdictRefused, Code: m.Code, WaitMs: m.WaitMs})
	case RulesChanged:
		if u.loaded {
			u.tellSessions(nowMs, m.Rules)
		}
	case ReloadUser:
		u.reload(m.Generation)
	case GetIdle:
		idle := u.placing == nil && len(u.waiting) == 0 && len(u.bans) == 0 && !u.asked &&
			(!u.loaded || u.waitMs(nowMs, m.Rules) == 0)
		u.emit(UserIdle{User: u.id, Messages: m.Messages, Idle: idle, Sessions: slices.Clone(u.sessions)})
	}
	return u.out
}

func (u *User) emit(e UserEffect) { u.out = append(u.out, e) }

// wait keeps a message until the row is there.
func (u *User) wait(m UserMessage) {
	if r, ok := m.(RegisterSession); ok {
		u.addSession(r.Session) // hears its status when the row is there
	} else if len(u.waiting) >= UserWaitingMax {
		u.refuse(m, board.CodeBusy, BusyRetryMs)
		return
	} else {
		u.waiting = append(u.waiting, m)
	}
	if !u.asked {
		u.asked = true
		u.emit(AskRow{User: u.id, Generation: u.generation, Life: u.life})
	}
}

func (u *User) serve(nowMs int64, m UserMessage) {
	switch m := m.(type) {
	case PlaceTile:
		u.place(nowMs, m)
	case RegisterSession:
		u.addSession(m.Session)
		u.emit(TellStatus{To: m.Session, Status: u.status(nowMs, m.Rules)})
	case SetBan:
		if len(u.bans) >= UserBansMax {
			u.refuse(m, board.CodeBusy, BusyRetryMs)
			return
		}
		u.bans = append(u.bans, banWaiter{to: m.ReplyTo, ban: store.Ban{BannedUntilMs: m.UntilMs, BanNote: m.Note}})
		u.askBans()
	default: // everything else is handled whether the row is loaded or not
	}
}

// askBans asks the shard for the bans that wait, unless a placement is under way: its end asks.
func (u *User) askBans() {
	if u.placing != nil {
		return
	}
	for i := range u.bans {
		if b := &u.bans[i]; !b.asked {
			b.asked = true
			u.emit(AskBan{User: u.id, Generation: u.generation, UntilMs: b.ban.BannedUntilMs, Note: b.ban.BanNote, To: b.to, Before: u.row})
		}
	}
}

// endPlacing ends the placement under way.
func (u *User) endPlacing() {
	u.placing = nil
	u.askBans()
}

func (u *User) addSession(s SessionRef) {
	if slices.Contains(u.sessions, s) {
		return
	}
	if len(u.sessions) >= UserSessionsMax {
		u.sessions = slices.Delete(u.sessions, 0, 1)
	}
	u.sessions = append(u.sessions, s)
}

// place answers a placement from what is known, joins it to the one under way, refuses it, or asks for a charge. Everything
// that can refuse is checked before the charge.
func (u *User) place(nowMs int64, m PlaceTile) {
	r := m.Request
	if p := u.placing; p != nil && p.nonce == r.Nonce && (r.Turn == 0 || r.Turn == p.turn) {
		u.join(nowMs, m)
		return
	}
	if u.row.Turn > 0 && u.row.Nonce == r.Nonce && (r.Turn == 0 || r.Turn == u.row.Turn) {
		u.answer(m.ReplyTo, u.acceptedOutcome(nowMs, m.Rules)) // a retry of the last placement: the same answer (I3)
		return
	}
	if code := u.checkTurn(r); code != board.CodeOK {
		wait := u.waitMs(nowMs, m.Rules)
		if code == board.CodeBusy {
			wait = BusyRetryMs
		}
		u.answer(m.ReplyTo, u.refusal(r, code, wait))
		return
	}
	code, wait := u.check(nowMs, r, m.Rules)
	if code != board.CodeOK {
		u.answer(m.ReplyTo, u.refusal(r, code, wait))
		return
	}
	u.placing = &placing{turn: u.row.Turn + 1, nonce: r.Nonce, at: r.At, colour: r.Colour, replies: []SessionRef{m.ReplyTo}}
	u.emit(AskCharge{
		User: u.id, Generation: u.generation, Turn: u.row.Turn + 1, Nonce: r.Nonce, At: r.At, Colour: r.Colour, Before: u.row,
	})
}

// checkTurn compares the turn of a new placement with the user's, I3.
func (u *User) checkTurn(r board.PlaceRequest) board.Code {
	switch last := u.row.Turn; {
	case r.Turn != 0 && r.Turn <= last:
		return board.CodeSuperseded
	case r.Turn > last+1:
		return board.CodeTurn
	case u.placing != nil || len(u.bans) > 0:
		return board.CodeBusy // another placement of this user is unsettled, or a ban is being written
	}
	return board.CodeOK
}

// check returns what the rules, a ban or the cooldown say against a new placement.
func (u *User) check(nowMs int64, r board.PlaceRequest, rules *Rules) (board.Code, int64) {
	if code := rules.Settings().CheckPlacement(r.At, r.Colour); code != board.CodeOK {
		return code, u.waitMs(nowMs, rules)
	}
	return checkRow(nowMs, &u.row, rules, u.node)
}

// checkRow returns what a user's row says against a charge at atMs under the rules. The user asks before the charge, the
// shard again when it seals the commit.
func checkRow(atMs int64, row *store.UserRow, rules *Rules, node Node) (board.Code, int64) {
	if row.BannedUntilMs > atMs {
		return board.CodeBanned, row.BannedUntilMs - atMs
	}
	if wait := readyAtMs(row, rules, node) - atMs; wait > 0 {
		return board.CodeCooldown, wait
	}
	return board.CodeOK, 0
}

// readyAtMs returns when the user may be charged again (I1).
func readyAtMs(row *store.UserRow, rules *Rules, node Node) int64 {
	if row.Turn == 0 {
		return 0
	}
	ready := rules.Cooldowns.ReadyAtMs(row.AtMs, row.SettingsVersion)
	if row.Node != node.ID {
		ready += MaxClockSkewMs
	}
	return ready
}

func (u *User) waitMs(nowMs int64, rules *Rules) int64 {
	return max(0, readyAtMs(&u.row, rules, u.node)-nowMs)
}

func (u *User) join(nowMs int64, m PlaceTile) {
	p := u.placing
	switch {
	case p.overdue:
		u.answer(m.ReplyTo, u.chargedOutcome(nowMs, m.Rules))
	case p.unsure && !p.charged:
		u.answer(m.ReplyTo, p.unknown())
	}
	switch {
	case slices.Contains(p.replies, m.ReplyTo):
	case len(p.replies) >= UserRepliesMax:
		u.answer(m.ReplyTo, u.refusal(m.Request, board.CodeBusy, BusyRetryMs))
	default:
		p.replies = append(p.replies, m.ReplyTo)
	}
}

func (u *User) rowLoaded(nowMs int64, m UserRowLoaded) {
	if m.Generation != u.generation || m.Life != u.life || u.loaded {
		return
	}
	waiting := u.waiting
	u.waiting = nil
	if m.Failed { // the shard reads again, and the sessions still wait for their status
		for _, w := range waiting {
			u.refuse(w, board.CodeStore, StoreRetryMs)
		}
		return
	}
	u.asked, u.loaded, u.row = false, true, m.Row
	switch p := m.Placing; {
	case m.Open:
		u.placing = chargedPlacing(&u.row)
	case p != nil:
		u.placing = &placing{turn: p.Turn, nonce: p.Nonce, at: p.At, colour: p.Colour}
	}
	for _, w := range waiting {
		u.serve(nowMs, withRules(w, m.Rules))
	}
	u.tellSessions(nowMs, m.Rules)
}

func chargedPlacing(row *store.UserRow) *placing {
	return &placing{turn: row.Turn, nonce: row.Nonce, at: row.At, colour: row.Colour, charged: true}
}

// unknown is the answer when nobody knows what became of the placement: the same turn and nonce again bring the answer.
func (p *placing) unknown() board.PlaceOutcome {
	return board.PlaceOutcome{Verdict: board.VerdictUnknown, Turn: p.turn, Nonce: p.nonce, At: p.at, WaitMs: BusyRetryMs}
}

func (u *User) chargeRefused(nowMs int64, m ChargeRefused) {
	p := u.placing
	if p == nil || p.charged || p.turn != m.Turn {
		return
	}
	u.answerAll(board.PlaceOutcome{
		Verdict: board.VerdictRefused, Code: m.Code, Turn: p.turn, Nonce: p.nonce, At: p.at, WaitMs: m.WaitMs, NextTurn: u.row.Turn + 1,
	})
	u.endPlacing()
}

func (u *User) chargeMade(m ChargeMade) {
	if !u.loaded {
		return // the row will tell
	}
	u.row = m.Row
	if p := u.placing; p != nil && p.turn == m.Row.Turn {
		p.charged = true
	} else {
		u.placing = chargedPlacing(&u.row)
	}
}

func (u *User) chargePlaced(nowMs int64, m ChargePlaced) {
	if !u.loaded || u.row.Turn != m.Turn {
		return
	}
	u.row.Sequence, u.row.Newest = m.Sequence, board.Entry{Block: u.row.At.Block(), Version: m.Version}
	p := u.placing
	if p == nil || p.turn != m.Turn {
		return
	}
	outcome := u.acceptedOutcome(nowMs, m.Rules)
	u.answerAll(outcome)
	for _, s := range u.sessions { // the user's other sessions hear of it too
		if !slices.Contains(p.replies, s) {
			u.answer(s, outcome)
		}
	}
	u.endPlacing()
}

func (u *User) banWritten(nowMs int64, m BanWritten) {
	if !u.loaded {
		return // the row tells
	}
	u.row.Ban = store.Ban{BannedUntilMs: m.UntilMs, BanNote: m.Note}
	u.banSettled(m.To, board.PlaceOutcome{Verdict: board.VerdictAccepted})
	u.tellSessions(nowMs, m.Rules)
}

// banSettled answers who waits for a ban. The shard settles them in their order; those of an earlier actor of this user may
// come first.
func (u *User) banSettled(to SessionRef, o board.PlaceOutcome) {
	if len(u.bans) > 0 && u.bans[0].asked && u.bans[0].to == to {
		u.answer(to, o)
		u.bans = slices.Delete(u.bans, 0, 1)
	}
}

// reload forgets everything that may be wrong; whoever waits hears that the outcome is unknown (I8).
func (u *User) reload(generation uint64) {
	if p := u.placing; p != nil {
		u.answerAll(p.unknown())
	}
	for _, b := range u.bans {
		u.answer(b.to, board.PlaceOutcome{Verdict: board.VerdictUnknown})
	}
	waiting, asked := u.waiting, u.asked
	*u = User{id: u.id, node: u.node, generation: generation, life: u.life, sessions: u.sessions, waiting: waiting, out: u.out}
	if asked || len(u.sessions) > 0 || len(waiting) > 0 {
		u.asked = true
		u.emit(AskRow{User: u.id, Generation: generation, Life: u.life})
	}
}

func (u *User) answer(to SessionRef, o board.PlaceOutcome) {
	u.emit(Answer{To: to, User: u.id, Outcome: o})
}

func (u *User) answerAll(o board.PlaceOutcome) {
	for _, to := range u.placing.replies {
		u.answer(to, o)
	}
}

// refuse answers a request that cannot be served now.
func (u *User) refuse(m UserMessage, code board.Code, waitMs int64) {
	switch m := m.(type) {
	case PlaceTile:
		u.answer(m.ReplyTo, u.refusal(m.Request, code, waitMs))
	case SetBan:
		u.answer(m.ReplyTo, board.PlaceOutcome{Verdict: board.VerdictRefused, Code: code, WaitMs: waitMs})
	default: // nobody waits for an answer
	}
}

func (u *User) refusal(r board.PlaceRequest, code board.Code, waitMs int64) board.PlaceOutcome {
	turn := r.Turn
	if turn == 0 {
		turn = u.row.Turn + 1
	}
	o := board.PlaceOutcome{Verdict: board.VerdictRefused, Code: code, Turn: turn, Nonce: r.Nonce, At: r.At, WaitMs: waitMs}
	if u.loaded {
		o.NextTurn = u.row.Turn + 1
	}
	return o
}

func (u *User) acceptedOutcome(nowMs int64, rules *Rules) board.PlaceOutcome {
	return board.PlaceOutcome{
		Verdict: board.VerdictAccepted, Turn: u.row.Turn, Nonce: u.row.Nonce, At: u.row.At, Colour: u.row.Colour,
		Chunk: u.row.At.Chunk(), Sequence: u.row.Sequence, WaitMs: u.waitMs(nowMs, rules), NextTurn: u.row.Turn + 1,
	}
}

func (u *User) chargedOutcome(nowMs int64, rules *Rules) board.PlaceOutcome {
	o := u.acceptedOutcome(nowMs, rules)
	o.Verdict, o.Chunk, o.Sequence = board.VerdictCharged, 0, 0
	return o
}

func (u *User) status(nowMs int64, rules *Rules) board.UserStatus {
	s := board.UserStatus{User: u.id, Turn: u.row.Turn + 1, WaitMs: u.waitMs(nowMs, rules)}
	if u.row.BannedUntilMs > nowMs {
		s.BannedUntil = u.row.BannedUntilMs
	}
	return s
}

func (u *User) tellSessions(nowMs int64, rules *Rules) {
	status := u.status(nowMs, rules)
	for _, s := range u.sessions {
		u.emit(TellStatus{To: s, Status: status})
	}
}
