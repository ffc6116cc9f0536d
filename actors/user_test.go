package actors

import (
	"slices"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// userRig is a user core with the time and the rules of its messages.
type userRig struct {
	t     *testing.T
	user  *User
	nowMs int64
	rules *Rules
}

func newUserRig(t *testing.T) *userRig {
	return &userRig{t: t, user: NewUser(alice, nodeA, 7, 0), nowMs: testStartMs, rules: testRules(nil, nil)}
}

// loadedRig is a user whose row is loaded.
func loadedRig(t *testing.T, row store.UserRow) *userRig {
	r := newUserRig(t)
	r.send(RegisterSession{User: alice, Session: ref(9)})
	r.send(UserRowLoaded{Generation: 7, Row: row, Rules: r.rules})
	return r
}

func (r *userRig) send(m UserMessage) []UserEffect { return slices.Clone(r.user.Receive(r.nowMs, m)) }

func (r *userRig) place(session int, turn, nonce uint64) []UserEffect {
	return r.placeAt(session, turn, nonce, board.Point{X: 5, Y: 6}, 3)
}

func (r *userRig) placeAt(session int, turn, nonce uint64, at board.Point, colour board.Colour) []UserEffect {
	return r.send(PlaceTile{
		Request: board.PlaceRequest{User: alice, Turn: turn, Nonce: nonce, At: at, Colour: colour}, ReplyTo: ref(session), Rules: r.rules,
	})
}

// charged brings a placement to its durable charge and returns the row.
func (r *userRig) charged(session int, turn, nonce uint64) store.UserRow {
	r.t.Helper()
	ask := one[AskCharge](r.t, r.place(session, turn, nonce))
	row := store.UserRow{
		Turn: ask.Turn, Nonce: ask.Nonce, At: ask.At, Colour: ask.Colour, AtMs: r.nowMs, SettingsVersion: r.rules.Version(), Node: nodeA.ID,
		Ban: ask.Before.Ban,
	}
	r.send(ChargeMade{Row: row, Rules: r.rules})
	return row
}

// accepted brings a placement onto the board.
func (r *userRig) accepted(session int, turn, nonce, sequence uint64) {
	r.t.Helper()
	row := r.charged(session, turn, nonce)
	r.send(ChargePlaced{Turn: row.Turn, Sequence: sequence, Rules: r.rules})
}

func wantAnswer(t *testing.T, effects []UserEffect, session int, verdict board.Verdict, code board.Code) board.PlaceOutcome {
	t.Helper()
	for _, a := range only[Answer](effects) {
		if a.To == ref(session) {
			if a.Outcome.Verdict != verdict || a.Outcome.Code != code {
				t.Fatalf("session %d hears %v %v, want %v %v", session, a.Outcome.Verdict, a.Outcome.Code, verdict, code)
			}
			return a.Outcome
		}
	}
	t.Fatalf("session %d hears nothing in %+v", session, effects)
	return board.PlaceOutcome{}
}

// lastRow is the row of a user who placed its third tile at the start.
func lastRow() store.UserRow {
	return store.UserRow{
		Turn: 3, Nonce: 33, At: board.Point{X: 1, Y: 1}, Colour: 2, AtMs: testStartMs, SettingsVersion: 1, Node: nodeA.ID, Sequence: 8,
	}
}

// Everything that can refuse a placement does so before the shard is asked for a charge.
func TestUserRefusesBeforeTheCharge(t *testing.T) {
	p := board.Point{X: 5, Y: 6}
	for _, c := range []struct {
		name   string
		row    store.UserRow
		change func(*board.Settings)
		turn   uint64
		nonce  uint64
		at     board.Point
		colour board.Colour
		afterS int64
		want   board.Code
		waitMs int64
	}{
		{"left of the board", store.UserRow{}, nil, 1, 1, board.Point{X: -1, Y: 0}, 3, 0, board.CodeBounds, 0},
		{"x equal to the width", store.UserRow{}, nil, 1, 1, board.Point{X: 1000, Y: 0}, 3, 0, board.CodeBounds, 0},
		{"unknown colour", store.UserRow{}, nil, 1, 1, p, 16, 0, board.CodeColour, 0},
		{"closed colour", store.UserRow{}, func(s *board.Settings) { s.Palette[3].Closed = true }, 1, 1, p, 3, 0, board.CodeColour, 0},
		{"frozen", store.UserRow{}, func(s *board.Settings) { s.Frozen = true }, 1, 1, p, 3, 0, board.CodeFrozen, 0},
		{"loading", store.UserRow{}, func(s *board.Settings) { s.State = board.StateLoading }, 1, 1, p, 3, 0, board.CodeLoading, 0},
		{"protected", store.UserRow{}, func(s *board.Settings) { s.Protected = []board.Rect{{X: 5, Y: 6, Width: 1, Height: 1}} }, 1, 1, p, 3, 0, board.CodeProtected, 0},
		{"banned", store.UserRow{Ban: store.Ban{BannedUntilMs: testStartMs + 500}}, nil, 1, 1, p, 3, 0, board.CodeBanned, 500},
		{"cooldown", lastRow(), nil, 4, 44, p, 3, 4, board.CodeCooldown, 6000},
		{"cooldown, any turn", lastRow(), nil, 0, 44, p, 3, 4, board.CodeCooldown, 6000},
		{"cooldown of another node's charge", store.UserRow{Turn: 1, Nonce: 1, AtMs: testStartMs, SettingsVersion: 1, Node: 2, Sequence: 1}, nil, 2, 2, p, 3, 10, board.CodeCooldown, MaxClockSkewMs},
		{"turn too high", lastRow(), nil, 5, 44, p, 3, 60, board.CodeTurn, 0},
		{"turn of long ago", lastRow(), nil, 2, 22, p, 3, 60, board.CodeSuperseded, 0},
		{"last turn, another nonce", lastRow(), nil, 3, 34, p, 3, 60, board.CodeSuperseded, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := loadedRig(t, c.row)
			if c.change != nil {
				r.rules = testRules(nil, c.change)
			}
			r.nowMs += c.afterS * 1000
			effects := r.placeAt(1, c.turn, c.nonce, c.at, c.colour)
			o := wantAnswer(t, effects, 1, board.VerdictRefused, c.want)
			none[AskCharge](t, effects)
			if o.WaitMs != c.waitMs || o.NextTurn != c.row.Turn+1 || o.Nonce != c.nonce || o.At != c.at {
				t.Errorf("answer %+v, want wait %d and next turn %d", o, c.waitMs, c.row.Turn+1)
			}
		})
	}
}

// A cut of the cooldown shortens a running charge, a raise lengthens none (I1).
func TestUserCooldownOverChanges(t *testing.T) {
	for _, c := range []struct {
		name  string
		to    []int64
		after int64
		want  board.Code
	}{
		{"cut", []int64{2000}, 2000, board.CodeOK},
		{"cut, too early", []int64{2000}, 1999, board.CodeCooldown},
		{"raised", []int64{60_000}, 10_000, board.CodeOK},
		{"cut and raised again", []int64{2000, 60_000}, 2000, board.CodeOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := loadedRig(t, lastRow())
			for _, ms := range c.to {
				r.rules = testRules(r.rules, func(s *board.Settings) { s.CooldownMs = ms })
			}
			r.nowMs += c.after
			effects := r.place(1, 4, 44)
			if c.want == board.CodeOK {
				one[AskCharge](t, effects)
				return
			}
			wantAnswer(t, effects, 1, board.VerdictRefused, c.want)
		})
	}
}

func TestUserAnswersARetryAlike(t *testing.T) {
	r := loadedRig(t, store.UserRow{})
	r.accepted(1, 1, 11, 5)
	for _, turn := range []uint64{1, 0} {
		o := wantAnswer(t, r.place(2, turn, 11), 2, board.VerdictAccepted, board.CodeOK)
		if o.Sequence != 5 || o.Turn != 1 || o.NextTurn != 2 || o.Chunk != o.At.Chunk() {
			t.Errorf("a retry with turn %d hears %+v", turn, o)
		}
	}
	r.nowMs += 10_000
	one[AskCharge](t, r.place(1, 2, 22))
	if o := wantAnswer(t, r.place(3, 1, 11), 3, board.VerdictAccepted, board.CodeOK); o.Sequence != 5 {
		t.Errorf("while the next placement is under way a retry hears %+v", o)
	}
	r.send(ChargeMade{Row: store.UserRow{Turn: 2, Nonce: 22, AtMs: r.nowMs, SettingsVersion: 1, Node: 1}, Rules: r.rules})
	wantAnswer(t, r.place(3, 1, 11), 3, board.VerdictRefused, board.CodeSuperseded)
}

func TestUserJoinsCopies(t *testing.T) {
	r := loadedRig(t, store.UserRow{})
	row := r.charged(1, 1, 11)
	if e := r.place(2, 1, 11); len(e) != 0 {
		t.Fatalf("a copy is answered before there is an answer: %+v", e)
	}
	r.place(2, 1, 11) // once more on the same session: one answer
	wantAnswer(t, r.place(3, 1, 12), 3, board.VerdictRefused, board.CodeSuperseded)
	wantAnswer(t, r.place(3, 2, 12), 3, board.VerdictRefused, board.CodeBusy)
	wantAnswer(t, r.place(3, 0, 12), 3, board.VerdictRefused, board.CodeBusy)

	overdue := r.send(ChargeOverdue{Turn: 1, Rules: r.rules})
	for _, session := range []int{1, 2} {
		if o := wantAnswer(t, overdue, session, board.VerdictCharged, board.CodeOK); o.Turn != 1 || o.Sequence != 0 {
			t.Errorf("charged: %+v", o)
		}
	}
	wantAnswer(t, r.place(4, 0, 11), 4, board.VerdictCharged, board.CodeOK)
	placed := r.send(ChargePlaced{Turn: row.Turn, Sequence: 2, Rules: r.rules})
	for _, session := range []int{1, 2, 4, 9} { // 9 is registered: it hears what the others did
		wantAnswer(t, placed, session, board.VerdictAccepted, board.CodeOK)
	}
	if n := len(only[Answer](placed)); n != 4 {
		t.Errorf("%d answers, want 4", n)
	}
}

func TestUserBounds(t *testing.T) {
	r := newUserRig(t)
	for i := range UserWaitingMax {
		if n := len(only[Answer](r.place(i, 1, uint64(i)))); n != 0 {
			t.Fatal("answered before the row is there")
		}
	}
	wantAnswer(t, r.place(99, 1, 99), 99, board.VerdictRefused, board.CodeBusy)
	wantAnswer(t, r.send(SetBan{User: alice, UntilMs: 1, ReplyTo: ref(98)}), 98, board.VerdictRefused, board.CodeBusy)

	r = loadedRig(t, store.UserRow{})
	for i := range UserRepliesMax {
		r.place(100+i, 1, 11)
	}
	wantAnswer(t, r.place(99, 1, 11), 99, board.VerdictRefused, board.CodeBusy)
	for i := range UserSessionsMax + 3 {
		r.send(RegisterSession{User: alice, Session: ref(1000 + i), Rules: r.rules})
	}
	if n := len(r.user.sessions); n != UserSessionsMax {
		t.Errorf("%d sessions, want %d", n, UserSessionsMax)
	}
	for i := range UserBansMax {
		r.send(SetBan{User: alice, UntilMs: int64(i), ReplyTo: ref(50), Rules: r.rules})
	}
	wantAnswer(t, r.send(SetBan{User: alice, UntilMs: 1, ReplyTo: ref(98)}), 98, board.VerdictRefused, board.CodeBusy)
}

func TestUserReloadAnswersUnknown(t *testing.T) {
	r := loadedRig(t, store.UserRow{})
	r.charged(1, 1, 11)
	r.send(SetBan{User: alice, UntilMs: 5, ReplyTo: ref(2), Rules: r.rules})
	effects := r.send(ReloadUser{Generation: 8})
	if o := wantAnswer(t, effects, 1, board.VerdictUnknown, board.CodeOK); o.Turn != 1 || o.Nonce != 11 {
		t.Errorf("unknown: %+v", o)
	}
	wantAnswer(t, effects, 2, board.VerdictUnknown, board.CodeOK)
	if ask := one[AskRow](t, effects); ask.Generation != 8 {
		t.Errorf("asked for the row of generation %d", ask.Generation)
	}
	r.place(3, 1, 11)
	if e := r.send(UserRowLoaded{Generation: 7, Rules: r.rules}); len(e) != 0 {
		t.Fatalf("a row of the life before is taken: %+v", e)
	}
	row := store.UserRow{Turn: 1, Nonce: 11, At: board.Point{X: 5, Y: 6}, Colour: 3, AtMs: r.nowMs, SettingsVersion: 1, Node: 1}
	effects = r.send(UserRowLoaded{Generation: 8, Row: row, Open: true, Rules: r.rules})
	none[Answer](t, effects)
	wantAnswer(t, r.send(ChargePlaced{Turn: 1, Sequence: 4, Rules: r.rules}), 3, board.VerdictAccepted, board.CodeOK)
}

// An actor of a user that was made anew must not ask for a second charge while the first is on its way.
func TestUserTakesOverAChargeOnItsWay(t *testing.T) {
	r := newUserRig(t)
	r.place(1, 1, 11)
	effects := r.send(UserRowLoaded{Generation: 7, Placing: &store.Charge{User: alice, Turn: 1, Nonce: 11}, Rules: r.rules})
	none[AskCharge](t, effects)
	wantAnswer(t, r.place(2, 1, 12), 2, board.VerdictRefused, board.CodeBusy)
	wantAnswer(t, r.send(ChargeRefused{Turn: 1, Code: board.CodeBusy, WaitMs: 5}), 1, board.VerdictRefused, board.CodeBusy)
	one[AskCharge](t, r.place(1, 1, 11))
}

// When nobody knows for long whether a charge is durable, whoever waits hears just that, and later what became of it (I8).
func TestUserSaysThatNobodyKnows(t *testing.T) {
	r := loadedRig(t, store.UserRow{})
	ask := one[AskCharge](t, r.place(1, 1, 11))
	if o := wantAnswer(t, r.send(ChargeUnsure{Turn: 1, Rules: r.rules}), 1, board.VerdictUnknown, board.CodeOK); o.Turn != 1 || o.Nonce != 11 || o.At != ask.At {
		t.Errorf("unknown: %+v", o)
	}
	none[Answer](t, r.send(ChargeUnsure{Turn: 1, Rules: r.rules}))
	wantAnswer(t, r.place(2, 1, 11), 2, board.VerdictUnknown, board.CodeOK)
	wantAnswer(t, r.place(3, 1, 12), 3, board.VerdictRefused, board.CodeBusy)
	r.send(ChargeMade{Row: store.UserRow{Turn: 1, Nonce: 11, At: ask.At, AtMs: r.nowMs, SettingsVersion: 1, Node: 1}, Rules: r.rules})
	none[Answer](t, r.place(4, 1, 11))
	none[Answer](t, r.send(ChargeUnsure{Turn: 1, Rules: r.rules})) // too late: it is durable
	placed := r.send(ChargePlaced{Turn: 1, Sequence: 3, Rules: r.rules})
	for _, session := range []int{1, 2, 4} {
		wantAnswer(t, placed, session, board.VerdictAccepted, board.CodeOK)
	}
}

func TestUserRowCannotBeRead(t *testing.T) {
	r := newUserRig(t)
	one[AskRow](t, r.send(RegisterSession{User: alice, Session: ref(9)}))
	r.place(1, 1, 11)
	r.send(SetBan{User: alice, UntilMs: 5, ReplyTo: ref(2)})
	effects := r.send(UserRowLoaded{Generation: 7, Failed: true, Rules: r.rules})
	wantAnswer(t, effects, 1, board.VerdictRefused, board.CodeStore)
	wantAnswer(t, effects, 2, board.VerdictRefused, board.CodeStore)
	none[AskRow](t, effects) // the shard asks again, at its own pace
	effects = r.send(UserRowLoaded{Generation: 7, Row: lastRow(), Rules: r.rules})
	if s := one[TellStatus](t, effects).Status; s.Turn != 4 || s.WaitMs != 10_000 {
		t.Errorf("status %+v", s)
	}
}

func TestUserBans(t *testing.T) {
	r := loadedRig(t, store.UserRow{})
	ask := one[AskCharge](t, r.place(1, 1, 11))
	if e := r.send(SetBan{User: alice, UntilMs: testStartMs + 99, ReplyTo: ref(2), Rules: r.rules}); len(e) != 0 {
		t.Fatalf("a ban is written while a charge is on its way: %+v", e)
	}
	row := store.UserRow{Turn: 1, Nonce: 11, At: ask.At, Colour: ask.Colour, AtMs: r.nowMs, SettingsVersion: 1, Node: 1}
	r.send(ChargeMade{Row: row, Rules: r.rules})
	effects := r.send(ChargePlaced{Turn: 1, Sequence: 6, Rules: r.rules})
	row.Sequence = 6
	if ban := one[AskBan](t, effects); ban.Before != row || ban.UntilMs != testStartMs+99 {
		t.Fatalf("ban %+v, want it on top of %+v", ban, row)
	}
	r.nowMs += 20_000
	wantAnswer(t, r.place(1, 2, 22), 1, board.VerdictRefused, board.CodeBusy) // until the ban is written

	r.send(SetBan{User: alice, UntilMs: 7, ReplyTo: ref(3), Rules: r.rules})
	r.send(SetBan{User: alice, UntilMs: testStartMs + 99, ReplyTo: ref(4), Rules: r.rules})
	none[Answer](t, r.send(BanWritten{UntilMs: testStartMs + 99, To: ref(7), Rules: r.rules})) // of an earlier actor of the user
	effects = r.send(BanWritten{UntilMs: testStartMs + 99, To: ref(2), Rules: r.rules})
	wantAnswer(t, effects, 2, board.VerdictAccepted, board.CodeOK)
	if n := len(only[Answer](effects)); n != 1 {
		t.Fatalf("%d bans are answered, one is durable", n)
	}
	wantAnswer(t, r.send(BanRefused{To: ref(3), Code: board.CodeBusy}), 3, board.VerdictRefused, board.CodeBusy)
	effects = r.send(BanWritten{UntilMs: testStartMs + 99, To: ref(4), Rules: r.rules})
	wantAnswer(t, effects, 4, board.VerdictAccepted, board.CodeOK)
	if s := one[TellStatus](t, effects).Status; s.BannedUntil != 0 { // it has passed
		t.Errorf("status %+v", s)
	}
	one[AskCharge](t, r.place(1, 2, 22))
}

// An actor that starts again keeps its mailbox: a row that an earlier life asked for may lie in it, from before a charge.
func TestUserIgnoresRowsOfEarlierLives(t *testing.T) {
	r := newUserRig(t)
	r.user = NewUser(alice, nodeA, 7, 2)
	if ask := one[AskRow](t, r.place(1, 2, 22)); ask.Life != 2 {
		t.Fatalf("asked as life %d", ask.Life)
	}
	if effects := r.send(UserRowLoaded{Generation: 7, Life: 1, Rules: r.rules}); len(effects) != 0 {
		t.Fatalf("a row of an earlier life gives %+v", effects)
	}
	effects := r.send(UserRowLoaded{Generation: 7, Life: 2, Row: lastRow(), Rules: r.rules})
	none[AskCharge](t, effects)
}

func TestUserIdle(t *testing.T) {
	for _, c := range []struct {
		name string
		rig  func(*userRig)
		want bool
	}{
		{"nothing known", func(*userRig) {}, true},
		{"row asked for", func(r *userRig) { r.place(1, 1, 1) }, false},
		{"ready", func(r *userRig) {
			r.place(1, 2, 1)
			r.send(UserRowLoaded{Generation: 7, Rules: r.rules})
		}, true},
		{"cooling down", func(r *userRig) {
			r.place(1, 1, 1)
			r.send(UserRowLoaded{Generation: 7, Row: lastRow(), Rules: r.rules})
		}, false},
		{"placing", func(r *userRig) {
			r.place(1, 1, 1)
			r.send(UserRowLoaded{Generation: 7, Rules: r.rules})
		}, false},
		{"a session", func(r *userRig) {
			r.send(RegisterSession{User: alice, Session: ref(1)})
			r.send(UserRowLoaded{Generation: 7, Rules: r.rules})
		}, true}, // whoever stops the actor keeps the session
		{"a session that left", func(r *userRig) {
			r.send(RegisterSession{User: alice, Session: ref(1)})
			r.send(UserRowLoaded{Generation: 7, Rules: r.rules})
			r.send(ForgetSession{User: alice, Session: ref(1)})
		}, true},
		{"a ban", func(r *userRig) {
			r.send(SetBan{User: alice, UntilMs: 1, ReplyTo: ref(1)})
			r.send(UserRowLoaded{Generation: 7, Rules: r.rules})
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newUserRig(t)
			c.rig(r)
			if got := one[UserIdle](t, r.send(GetIdle{Messages: 4, Rules: r.rules})); got.Idle != c.want || got.Messages != 4 {
				t.Errorf("idle %+v, want %v", got, c.want)
			}
		})
	}
}
