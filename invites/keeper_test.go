package invites

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/store/pebble"
)

const within = 20 * time.Second

func open(t testing.TB, st store.Store) *Keeper {
	t.Helper()
	k, err := Open(t.Context(), Config{Store: st, Owner: store.Owner{Address: "test", Incarnation: 1}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func makeInvites(t testing.TB, k *Keeper, r board.InviteRequest) []board.Invite {
	t.Helper()
	r.By = "zoe"
	if len(r.Names) > 0 {
		r.Count = len(r.Names)
	}
	list, err := k.CreateInvites(t.Context(), r)
	if err != nil || len(list) != r.Count {
		t.Fatalf("%d invites, %v", len(list), err)
	}
	return list
}

func use(t testing.TB, k *Keeper, id string, name, want board.UserID) {
	t.Helper()
	if got, err := k.UseInvite(t.Context(), id, name); err != nil || got.Name != want || got.UsedMs == 0 {
		t.Fatalf("%s as %q: %+v %v, want %q", id, name, got, err, want)
	}
}

func useFails(t testing.TB, k *Keeper, id string, name board.UserID, want error) {
	t.Helper()
	if got, err := k.UseInvite(t.Context(), id, name); !errors.Is(err, want) || got != (board.Invite{}) {
		t.Fatalf("%s as %q: %+v %v, want %v", id, name, got, err, want)
	}
}

// TestLifeOfAnInvite makes, uses, uses again and takes back; and finds it all again after a restart, on a real store.
func TestLifeOfAnInvite(t *testing.T) {
	config := pebble.DefaultConfig(t.TempDir())
	config.Logger = slog.New(slog.DiscardHandler)
	st, err := pebble.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	k := open(t, st)
	list := makeInvites(t, k, board.InviteRequest{Count: 3, Why: "evening"})
	a, b, c := list[0].ID, list[1].ID, list[2].ID
	useFails(t, k, a, "", board.ErrNameNeeded)
	use(t, k, a, "Ann", "Ann")
	use(t, k, a, "", "Ann")
	use(t, k, a, "somebody else", "Ann")
	useFails(t, k, b, "ann", board.ErrNameTaken)
	useFails(t, k, b, "ANN", board.ErrNameTaken)
	use(t, k, b, "Bob", "Bob")
	named := makeInvites(t, k, board.InviteRequest{Names: []board.UserID{"Cleo", "Дима"}})
	if named[0].Name != "Cleo" || named[0].UsedMs != 0 {
		t.Errorf("%+v", named[0])
	}
	useFails(t, k, c, "cleo", board.ErrNameTaken)
	use(t, k, named[1].ID, "", "Дима")
	useFails(t, k, "0000000000000000", "x", board.ErrInviteUnknown)

	var told []board.UserID
	k.WatchRevoked(func(users []board.UserID) { told = append(told, users...) })
	if _, err := k.RevokeInvites(t.Context(), []string{"Bob", "nobody"}, "zoe", ""); !errors.Is(err, board.ErrInviteUnknown) || k.Revoked("Bob") {
		t.Errorf("one of two does not exist: %v", err)
	}
	gone, err := k.RevokeInvites(t.Context(), []string{"bob", c, b}, "zoe", "spam")
	if err != nil || len(gone) != 2 || fmt.Sprint(told) != "[Bob]" {
		t.Errorf("%+v %v, told %v", gone, err, told)
	}
	if again, err := k.RevokeInvites(t.Context(), []string{"Bob"}, "zoe", ""); err != nil || len(again) != 0 {
		t.Errorf("again: %+v %v", again, err)
	}
	useFails(t, k, b, "", board.ErrInviteRevoked)
	useFails(t, k, c, "x", board.ErrInviteRevoked)
	if _, err := k.CreateInvites(t.Context(), board.InviteRequest{Count: 1, Names: []board.UserID{"BOB"}, By: "zoe"}); !errors.Is(err, board.ErrNameTaken) {
		t.Errorf("the name of one who was sent away: %v", err)
	}
	if _, err := k.CreateInvites(t.Context(), board.InviteRequest{Count: 2, Names: []board.UserID{"eve", "Eve"}, By: "zoe"}); !errors.Is(err, board.ErrNameTaken) {
		t.Errorf("the same name twice: %v", err)
	}

	before := fmt.Sprint(k.ListInvites())
	k.Close()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err = pebble.Open(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	k = open(t, st)
	if after := fmt.Sprint(k.ListInvites()); after != before {
		t.Errorf("after a restart\n%s, before\n%s", after, before)
	}
	if !k.Revoked("Bob") || k.Revoked("Ann") {
		t.Error("who is taken back is forgotten")
	}
	use(t, k, a, "", "Ann")
}

// TestExpiredInvite uses invites before and at the end of their time.
func TestExpiredInvite(t *testing.T) {
	const end = 1000
	b := NewBook()
	made, err := b.make(&board.InviteRequest{Count: 2, ExpiresMs: end}, []string{"a", "b"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.apply(1, made); err != nil {
		t.Fatal(err)
	}
	taken, err := b.use("a", "ann", end-1)
	if err != nil || taken == nil {
		t.Fatal(taken, err)
	}
	if _, err := b.apply(2, taken); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		if _, err := b.use(id, "bob", end); !errors.Is(err, board.ErrInviteExpired) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if state := b.list[0].State(end - 1); state != "used" {
		t.Error(state)
	}
	if state := b.list[0].State(end); state != "expired" {
		t.Error(state)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// TestOneNameOneInvite has many guests want the same names at once, on several nodes: each name is one guest's, and a link used
// on two devices at once is one user.
func TestOneNameOneInvite(t *testing.T) {
	core := mem.NewCore()
	nodes := []*Keeper{open(t, mem.Open(core)), open(t, mem.Open(core)), open(t, mem.Open(core))}
	list := makeInvites(t, nodes[0], board.InviteRequest{Count: 12})
	var got sync.Map
	var wg sync.WaitGroup
	for i, invite := range list {
		for _, node := range nodes {
			wg.Go(func() {
				for attempt := 0; ; attempt++ { // a guest whose name is taken tries the next one
					used, err := node.UseInvite(t.Context(), invite.ID, board.UserID(fmt.Sprintf("guest %d", (i/3+attempt)%12)))
					if errors.Is(err, board.ErrNameTaken) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					if before, loaded := got.LoadOrStore(invite.ID, used.Name); loaded && before != used.Name {
						t.Errorf("%s is %q and %q", invite.ID, before, used.Name)
					}
					return
				}
			})
		}
	}
	wg.Wait()
	names := map[any]bool{}
	got.Range(func(_, name any) bool { names[name] = true; return true })
	if len(names) != len(list) {
		t.Errorf("%d names of %d guests", len(names), len(list))
	}
	eventually(t, "all nodes tell the same story", func() bool {
		first := fmt.Sprint(nodes[0].ListInvites())
		return fmt.Sprint(nodes[1].ListInvites()) == first && fmt.Sprint(nodes[2].ListInvites()) == first
	})
}

// TestRevokedElsewhere: what one node takes back another one hears of by itself.
func TestRevokedElsewhere(t *testing.T) {
	core := mem.NewCore()
	here, there := open(t, mem.Open(core)), open(t, mem.Open(core))
	var told atomic.Pointer[[]board.UserID]
	there.WatchRevoked(func(users []board.UserID) { told.Store(&users) })
	invite := makeInvites(t, here, board.InviteRequest{Count: 1})[0]
	use(t, there, invite.ID, "ann", "ann") // of which it had not heard
	use(t, here, invite.ID, "", "ann")
	if _, err := here.RevokeInvites(t.Context(), []string{"ann"}, "zoe", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other node hears of it", func() bool { return told.Load() != nil && there.Revoked("ann") })
	useFails(t, there, invite.ID, "", board.ErrInviteRevoked)
}

// TestLostDuel: another node's event comes first, and what was decided is decided anew in its light.
func TestLostDuel(t *testing.T) {
	st := mem.New()
	k := open(t, st)
	id := makeInvites(t, k, board.InviteRequest{Count: 1})[0].ID
	lose := func(version uint64, e event) {
		t.Helper()
		value, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		rival := &store.Commit{Partition: store.Invites(), Head: store.Head{Version: version, Attempt: 7}, Rows: []store.Row{{Value: value}}}
		var commits atomic.Int64
		st.SetScript(func(c mem.Call) mem.Outcome {
			if c.Op == mem.OpCommit && commits.Add(1) == 1 {
				return mem.Conflict(rival)
			}
			return mem.Normal()
		})
	}
	lose(2, event{Kind: kindTaken, IDs: []string{id}, Names: []board.UserID{"Bob"}, AtMs: 1})
	use(t, k, id, "Ann", "Bob") // the same person's other device was faster
	lose(3, event{Kind: kindMade, IDs: []string{"00000000000000aa"}, Names: []board.UserID{"Cleo"}, AtMs: 1})
	if list := makeInvites(t, k, board.InviteRequest{Count: 1}); list[0].State(1) != "open" || len(k.ListInvites()) != 3 {
		t.Errorf("%+v of %+v", list, k.ListInvites())
	}
	lose(5, event{Kind: kindRevoked, IDs: []string{id}, AtMs: 1})
	if gone, err := k.RevokeInvites(t.Context(), []string{"Bob", "Cleo"}, "zoe", ""); err != nil || len(gone) != 1 || gone[0].Name != "Cleo" {
		t.Errorf("%+v %v", gone, err)
	}
}

// TestUnknownOutcomes has commits end in every way that a store can end them: an invite is made once, or not at all.
func TestUnknownOutcomes(t *testing.T) {
	for name, outcome := range map[string]func() mem.Outcome{
		"applied, answer lost": mem.UnknownApplied, "not applied": mem.UnknownNot, "applied later": func() mem.Outcome { return mem.AppliedLate(1) },
	} {
		st := mem.New()
		k := open(t, st)
		var commits atomic.Int64
		st.SetScript(func(c mem.Call) mem.Outcome {
			if c.Op == mem.OpCommit && commits.Add(1) == 1 {
				return outcome()
			}
			return mem.Normal()
		})
		invite := makeInvites(t, k, board.InviteRequest{Count: 1})[0]
		use(t, k, invite.ID, "ann", "ann")
		if list := k.ListInvites(); len(list) != 1 || list[0].Name != "ann" {
			t.Errorf("%s: %+v", name, list)
		}
		if n := len(st.Core().Journal(store.Invites(), 1)); n != 2 {
			t.Errorf("%s: %d events", name, n)
		}
	}
}

// TestStoreAway: nobody is told that an invite exists when nobody knows; and when the store is full nothing has changed.
func TestStoreAway(t *testing.T) {
	st := mem.New()
	k := open(t, st)
	st.SetScript(func(c mem.Call) mem.Outcome {
		if c.Op == mem.OpCommit {
			return mem.Refuse(store.ErrFull)
		}
		return mem.Normal()
	})
	if list, err := k.CreateInvites(t.Context(), board.InviteRequest{Count: 1, By: "zoe"}); !errors.Is(err, store.ErrFull) || list != nil {
		t.Errorf("%v %v", list, err)
	}
	st.SetScript(func(c mem.Call) mem.Outcome {
		if c.Op == mem.OpCommit {
			return mem.UnknownNot()
		}
		return mem.Normal()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if list, err := k.CreateInvites(ctx, board.InviteRequest{Count: 1, By: "zoe"}); !errors.Is(err, board.ErrUnknown) || list != nil {
		t.Errorf("%v %v", list, err)
	}
	if len(k.ListInvites()) != 0 {
		t.Error("something is listed")
	}
	st.SetScript(nil)
	eventually(t, "the wish of unknown outcome comes true", func() bool { return len(k.ListInvites()) == 1 })
}

// TestQueueIsBounded asks for more changes than wait while the store hangs.
func TestQueueIsBounded(t *testing.T) {
	st := mem.New()
	k := open(t, st)
	st.SetScript(func(c mem.Call) mem.Outcome {
		if c.Op == mem.OpCommit {
			return mem.UnknownNot()
		}
		return mem.Normal()
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var refused, unknown atomic.Int64
	for range queueMax + 20 {
		wg.Go(func() {
			switch _, err := k.CreateInvites(ctx, board.InviteRequest{Count: 1, By: "zoe"}); {
			case errors.Is(err, board.ErrRefused):
				refused.Add(1)
			case errors.Is(err, board.ErrUnknown):
				unknown.Add(1)
			default:
				t.Errorf("%v", err)
			}
		})
	}
	eventually(t, "the rest is refused", func() bool { return refused.Load() >= 19 })
	cancel()
	wg.Wait()
	if refused.Load()+unknown.Load() != queueMax+20 {
		t.Errorf("%d refused, %d unknown", refused.Load(), unknown.Load())
	}
}

// TestLargestRequest fills one commit with the longest names that need the most bytes.
func TestLargestRequest(t *testing.T) {
	k := open(t, mem.New())
	r := board.InviteRequest{Count: 250, By: strings.Repeat(`"`, board.UserBytesMax), Why: strings.Repeat(`"`, board.WhyBytesMax)}
	for i := range r.Count {
		r.Names = append(r.Names, board.UserID(strings.Repeat(`"`, board.UserBytesMax-3)+fmt.Sprintf("%03d", i)))
	}
	if _, err := k.CreateInvites(t.Context(), r); err != nil {
		t.Error(err)
	}
	r.Names = nil
	r.Count = 2000
	if _, err := k.CreateInvites(t.Context(), r); !errors.Is(err, board.ErrRefused) {
		t.Errorf("2,000 at once: %v", err)
	}
}

// TestCorruptJournal refuses to serve what it does not understand.
func TestCorruptJournal(t *testing.T) {
	for name, value := range map[string]string{
		"no JSON": "x", "another kind": `{"kind":"burnt","ids":["a"]}`, "no ids": `{"kind":"made"}`, "unknown invite": `{"kind":"revoked","ids":["a"]}`,
		"twice": `{"kind":"made","ids":["a","a"]}`, "names missing": `{"kind":"made","ids":["a","b"],"names":["c"]}`, "two takers": `{"kind":"taken","ids":["a"],"names":["b","c"]}`,
	} {
		core := mem.NewCore()
		core.Commit(&store.Commit{Partition: store.Invites(), Head: store.Head{Version: 1, Attempt: 1}, Rows: []store.Row{{Value: []byte(value)}}})
		if _, err := Open(t.Context(), Config{Store: mem.Open(core), Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
