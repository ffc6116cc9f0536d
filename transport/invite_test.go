package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// fakeInvites keeps invites as package invites does, without its store.
type fakeInvites struct {
	mu     sync.Mutex
	list   []board.Invite
	closed map[board.UserID]bool
	told   func([]board.UserID)
	err    error
}

func (f *fakeInvites) CreateInvites(_ context.Context, r board.InviteRequest) ([]board.Invite, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	from := len(f.list)
	for i := range r.Count {
		invite := board.Invite{ID: fmt.Sprintf("%016x", len(f.list)+1), AtMs: 1, By: r.By, Why: r.Why, ExpiresMs: r.ExpiresMs}
		if len(r.Names) > 0 {
			invite.Name = r.Names[i]
		}
		f.list = append(f.list, invite)
	}
	return f.list[from:], nil
}

func (f *fakeInvites) UseInvite(_ context.Context, id string, name board.UserID) (board.Invite, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		switch invite := &f.list[i]; {
		case invite.ID != id:
			continue
		case invite.RevokedMs != 0:
			return board.Invite{}, board.ErrInviteRevoked
		case invite.Name == "" && name == "":
			return board.Invite{}, board.ErrNameNeeded
		case invite.Name == "":
			invite.Name = name
		}
		return f.list[i], f.err
	}
	return board.Invite{}, board.ErrInviteUnknown
}

func (f *fakeInvites) RevokeInvites(_ context.Context, names []string, _, _ string) ([]board.Invite, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		if string(f.list[i].Name) == names[0] {
			f.list[i].RevokedMs = 2
			f.closed[f.list[i].Name] = true
			f.told([]board.UserID{f.list[i].Name})
			return f.list[i : i+1], nil
		}
	}
	return nil, board.ErrInviteUnknown
}

func (f *fakeInvites) ListInvites() []board.Invite { return f.list }

func (f *fakeInvites) Revoked(user board.UserID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed[user]
}

func (f *fakeInvites) WatchRevoked(told func([]board.UserID)) { f.told = told }

func startInvites(t *testing.T) (*harness, *fakeInvites) {
	t.Helper()
	fake := &fakeInvites{closed: map[board.UserID]bool{}}
	return startWith(t, func(cfg *Config) { cfg.Auth, cfg.PublicURL = AuthInvite, "https://board.example.org/" }, func(deps *Deps) { deps.Invites = fake }), fake
}

// invite makes one and returns its link.
func (h *harness) invite(body string) string {
	h.t.Helper()
	var made []invitation
	res := h.admin("POST", "/admin/v1/invites", body)
	if err := json.Unmarshal(res.body, &made); err != nil || res.StatusCode != 201 || len(made) == 0 {
		h.t.Fatalf("%d %s", res.StatusCode, res.body)
	}
	return made[0].Link
}

const inJSON = "Content-Type: application/json"

// TestInviteSignsIn uses a link, and takes it back in the middle of a session.
func TestInviteSignsIn(t *testing.T) {
	h, _ := startInvites(t)
	link := h.invite(`{"count":1,"by":"zoe","why":"evening"}`)
	if !strings.HasPrefix(link, "https://board.example.org/#invite=") {
		t.Errorf("link %s", link)
	}
	p := wantProblem(t, "no name yet", h.do("POST", "/api/v1/invite", `{"invite":"`+link+`"}`, inJSON), 422, problemInviteName)
	if p.Title == "" {
		t.Error("nothing to say to a person")
	}
	got, cookie := sign(t, h.do("POST", "/api/v1/invite", `{"invite":"`+link+`","name":"Ann"}`, inJSON))
	if got.User != "Ann" || got.Anonymous || cookie.MaxAge < 86_400 {
		t.Errorf("%+v %+v", got, cookie)
	}
	again, _ := sign(t, h.do("POST", "/api/v1/invite", `{"invite":"`+link[strings.Index(link, "=")+1:]+`"}`, inJSON))
	if again.User != "Ann" {
		t.Errorf("%+v", again)
	}
	ours := "Cookie: " + CookieName + "=" + cookie.Value
	ws, watcher := h.dial(ours, "Origin: "+h.url), h.dial()
	next(t, ws)
	next(t, watcher)
	if res := h.admin("POST", "/admin/v1/invites/revoke", `{"invites":["Ann"],"why":"spam"}`); res.StatusCode != 200 || !strings.Contains(string(res.body), `"revoked"`) {
		t.Fatalf("%d %s", res.StatusCode, res.body)
	}
	if code := closeCode(t, ws); code != wire.CloseSignedOut {
		t.Errorf("closed with %d", code)
	}
	wantProblem(t, "the cookie", h.do("GET", "/api/v1/me", "", ours), 401, problemToken)
	wantProblem(t, "the link", h.do("POST", "/api/v1/invite", `{"invite":"`+link+`"}`, inJSON), 403, problemInvite)
	wantProblem(t, "nobody's invite", h.admin("POST", "/admin/v1/invites/revoke", `{"invites":["nobody"]}`), 404, problemNotFound)
	if n := h.count("placed_bad_tokens_total", "reason", tokenRevoked); n != 2 {
		t.Errorf("%v counted", n)
	}
	if n := h.count("placed_ws_closes_total", "code", "4003"); n != 1 {
		t.Errorf("%v sessions closed", n)
	}
	if h.sessionCount() != 1 {
		t.Error("somebody else's session ended")
	}
	if strings.Contains(h.logs.String(), link[len(link)-20:]) {
		t.Error("a link is logged")
	}
}

// TestSignedOutPlaces: a placement that comes before the close is refused, and reaches no shard.
func TestSignedOutPlaces(t *testing.T) {
	h, fake := startInvites(t)
	ws := h.dial("Authorization: Bearer " + newSigner(testKey, AuthInvite).seal("Ann", false, time.Now().Add(time.Hour)))
	next(t, ws)
	fake.mu.Lock()
	fake.closed["Ann"] = true
	fake.mu.Unlock()
	send(t, ws, &wire.Place{Turn: 1, Nonce: 2, X: 3, Y: 4, Colour: 5})
	if m, ok := next(t, ws).(*wire.Placed); !ok || m.Code != board.CodeSignIn {
		t.Errorf("%+v", m)
	}
	if received, _ := h.fake.state(); received != 0 {
		t.Error("it reached the board")
	}
}

// TestBadInvites makes up codes and orders.
func TestBadInvites(t *testing.T) {
	h, fake := startInvites(t)
	link := h.invite(`{"names":["Ada","Bob"],"expires_ms":` + fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()) + `}`)
	code := link[strings.Index(link, "=")+1:]
	other := newSigner([]byte(strings.Repeat("another key ", 4)), AuthInvite).code("0000000000000001")
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"no code":        {`{"invite":""}`, 403, problemInvite},
		"another key's":  {`{"invite":"` + other + `"}`, 403, problemInvite},
		"cut":            {`{"invite":"` + code[:31] + `"}`, 403, problemInvite},
		"with a tail":    {`{"invite":"` + code + `A"}`, 403, problemInvite},
		"the id":         {`{"invite":"0000000000000001"}`, 403, problemInvite},
		"an unknown id":  {`{"invite":"` + h.signer.code("00000000000000ff") + `"}`, 403, problemInvite},
		"a huge one":     {`{"invite":"` + strings.Repeat("A", inviteBodyBytesMax) + `"}`, 413, problemTooLarge},
		"a bad name":     {`{"invite":"` + code + `","name":" x"}`, 422, problemUserName},
		"a name for bot": {`{"invite":"` + code + `","name":"anon-x"}`, 422, problemReserved},
		"no JSON":        {`invite`, 400, problemBadRequest},
		"another field":  {`{"code":"x"}`, 400, problemBadRequest},
	} {
		wantProblem(t, name, h.do("POST", "/api/v1/invite", c.body, inJSON), c.status, c.code)
	}
	for body, c := range map[string]struct {
		status int
		code   string
	}{
		`{}`:                                   {400, problemBadRequest},
		`{"count":-1}`:                         {400, problemBadRequest},
		`{"count":251}`:                        {400, problemBadRequest},
		`{"count":2,"names":["x"]}`:            {400, problemBadRequest},
		`{"names":["anon-x"]}`:                 {422, problemUserName},
		`{"names":[""]}`:                       {422, problemUserName},
		`{"count":1,"expires_ms":1}`:           {400, problemBadRequest},
		`{"count":1,"why":"\u0007"}`:           {400, problemBadRequest},
		`{"count":1,"for":"x"}`:                {400, problemBadRequest},
		`{"count":1,"names":["x"],"by":" zo"}`: {400, problemBadRequest},
	} {
		wantProblem(t, body, h.admin("POST", "/admin/v1/invites", body), c.status, c.code)
	}
	wantProblem(t, "revoke nothing", h.admin("POST", "/admin/v1/invites/revoke", `{"invites":[]}`), 400, problemBadRequest)
	for err, want := range map[error]struct {
		status int
		code   string
	}{
		board.ErrInvitesFull: {409, problemRefused}, board.ErrNameTaken: {409, problemNameTaken}, board.ErrUnknown: {503, problemOutcome}, board.ErrRefused: {409, problemRefused},
	} {
		fake.mu.Lock()
		fake.err = fmt.Errorf("commit: %w", err)
		fake.mu.Unlock()
		wantProblem(t, err.Error(), h.admin("POST", "/admin/v1/invites", `{"count":1}`), want.status, want.code)
	}
	if res := h.admin("GET", "/admin/v1/invites", ""); res.StatusCode != 200 || strings.Count(string(res.body), `"id"`) != 2 {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
}

func FuzzInviteCode(f *testing.F) {
	s := newSigner(testKey, AuthInvite)
	good := s.code("0123456789abcdef")
	f.Add(good)
	f.Add(strings.Repeat("A", inviteCodeBytes))
	f.Fuzz(func(t *testing.T, code string) {
		if id, ok := s.inviteOf(code); ok && (!strings.HasSuffix(code, good) || id != "0123456789abcdef") {
			t.Fatalf("a code of nobody's making is invite %s", id)
		}
	})
}
