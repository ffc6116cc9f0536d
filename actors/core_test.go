package actors

import (
	"math/rand/v2"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// What the tests of the cores share.

const (
	testStartMs = 1_700_000_000_000
	alice       = board.UserID("alice")
	bob         = board.UserID("bob")
)

var (
	nodeA = Node{ID: 1, Address: "a:1", Incarnation: 11}
	nodeB = Node{ID: 2, Address: "b:1", Incarnation: 22}
)

// testRules returns the rules at one more version than before; change may alter the settings.
func testRules(before *Rules, change func(*board.Settings)) *Rules {
	s := board.DefaultSettings()
	if before != nil {
		s = *before.Settings()
	}
	s.Version = before.Version() + 1
	if before == nil {
		s.CooldownMs = 10_000
	}
	if change != nil {
		change(&s)
	}
	return before.Next(board.SettingsRecord{Settings: s, By: "op", AtMs: testStartMs})
}

// testRandom returns a seeded source of attempt ids.
func testRandom() func() uint64 { return rand.New(rand.NewPCG(1, 2)).Uint64 }

// only returns the effects of one kind.
func only[T any, E any](effects []E) []T {
	var out []T
	for _, e := range effects {
		if x, ok := any(e).(T); ok {
			out = append(out, x)
		}
	}
	return out
}

// one returns the only effect of its kind.
func one[T any, E any](t *testing.T, effects []E) T {
	t.Helper()
	found := only[T](effects)
	if len(found) != 1 {
		t.Fatalf("want one %T, got %d in %+v", *new(T), len(found), effects)
	}
	return found[0]
}

func none[T any, E any](t *testing.T, effects []E) {
	t.Helper()
	if found := only[T](effects); len(found) != 0 {
		t.Fatalf("want no %T, got %+v", *new(T), found)
	}
}

func ref(session int) SessionRef { return SessionRef{Node: "a:1", Session: wire.SessionID(session)} }
