package ledger

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/bench/measure"
)

const cooldownForTest = 100 * time.Millisecond

// world is a tiny honest server: it gives out sequence numbers and paints.
type world struct {
	ledger *Ledger
	before Board
	after  Board
	turns  map[int]uint64
	nonce  uint64
}

func newWorld() *world {
	w := &world{ledger: New(200, cooldownForTest), before: Board{}, after: Board{}, turns: map[int]uint64{}}
	w.before[3] = &Chunk{Sequence: 5}
	w.before[3].Tiles[7] = 9
	copied := *w.before[3]
	w.after[3] = &copied
	return w
}

// put applies a placement to the board and returns the acceptance that belongs to it.
func (w *world) put(user int, chunk board.ChunkID, tile int, colour board.Colour, sent, heard time.Duration) Accepted {
	if w.after[chunk] == nil {
		w.after[chunk] = &Chunk{}
	}
	w.after[chunk].Sequence++
	w.after[chunk].Tiles[tile] = colour
	w.turns[user]++
	w.nonce++
	w.ledger.Sent(user, w.nonce)
	return Accepted{
		User: user, Turn: w.turns[user], Nonce: w.nonce, Chunk: chunk, Sequence: w.after[chunk].Sequence, Tile: tile, Colour: colour, Sent: sent, Heard: heard,
	}
}

func (w *world) place(user int, chunk board.ChunkID, tile int, colour board.Colour, sent, heard time.Duration) Accepted {
	a := w.put(user, chunk, tile, colour, sent, heard)
	w.ledger.Accept(a)
	return a
}

// storm is an honest run: users place every cooldown and a little, on few tiles, so that many are painted over.
func (w *world) storm() {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		for user := range 100 {
			sent := time.Duration(round)*(cooldownForTest+5*time.Millisecond) + time.Duration(rng.IntN(5))*time.Millisecond
			w.place(user, board.ChunkID(rng.IntN(5)), rng.IntN(40), board.Colour(rng.IntN(16)), sent, sent+time.Duration(1+rng.IntN(50))*time.Millisecond)
		}
	}
}

func (w *world) verdict(t *testing.T, sole bool) map[string]measure.Check {
	t.Helper()
	checks := map[string]measure.Check{}
	for _, check := range w.ledger.Verdict(Evidence{Before: w.before, After: w.after, Sole: sole}) {
		checks[check.Name] = check
	}
	if len(checks) != 4 {
		t.Fatalf("checks %v, want four", checks)
	}
	return checks
}

// onlyFails asserts that exactly this check fails, with this count.
func onlyFails(t *testing.T, checks map[string]measure.Check, name, count string) {
	t.Helper()
	for _, check := range checks {
		switch {
		case check.Name == name && (check.Outcome != measure.Fail || check.Value != count || !check.Invariant):
			t.Errorf("%s: %s with %s (%s), want FAIL with %s", name, check.Outcome, check.Value, check.Detail, count)
		case check.Name != name && check.Outcome != measure.Pass:
			t.Errorf("%s: %s with %s (%s), want PASS", check.Name, check.Outcome, check.Value, check.Detail)
		}
	}
}

func TestHonestRunPasses(t *testing.T) {
	w := newWorld()
	w.storm()
	onlyFails(t, w.verdict(t, true), "", "")
	if c := w.ledger.Counts(); c.Accepted != 2000 || c.Doubtful != 0 || c.Users != 100 {
		t.Errorf("counts %+v, want 2000 accepted of 100 users", c)
	}
}

func TestExtraTileBetweenTwoAnswers(t *testing.T) {
	w := newWorld()
	w.storm()
	w.place(150, 1, 1, 1, 0, 10*time.Millisecond)
	w.place(150, 1, 2, 1, 20*time.Millisecond, 98*time.Millisecond) // heard 98 ms after the first left: impossible
	w.place(151, 1, 3, 1, 0, 90*time.Millisecond)
	w.place(151, 1, 4, 1, 91*time.Millisecond, 99*time.Millisecond) // just possible: the server's 100 ms may be a little over 99
	onlyFails(t, w.verdict(t, true), "extra tiles", "1")
}

// What the server's truncated milliseconds explain, they explain once and not once per placement.
func TestClockStepDoesNotAddUp(t *testing.T) {
	w := newWorld()
	w.place(1, 0, 1, 1, 0, 90*time.Millisecond)
	w.place(1, 0, 2, 1, 99100*time.Microsecond, 99100*time.Microsecond)
	w.place(1, 0, 3, 1, 198200*time.Microsecond, 198200*time.Microsecond)
	w.place(1, 0, 4, 1, 297300*time.Microsecond, 297300*time.Microsecond)
	onlyFails(t, w.verdict(t, true), "extra tiles", "1")
}

// Slack must not add up: of ten answers each pair of neighbours looks possible, but only seven fit into the time.
func TestExtraTileOverManyAnswers(t *testing.T) {
	w := newWorld()
	for i := range 10 {
		sent := time.Duration(i) * 80 * time.Millisecond
		w.place(1, 0, i, 1, sent, sent+30*time.Millisecond)
	}
	onlyFails(t, w.verdict(t, true), "extra tiles", "3")
}

func TestExtraTileOfOneTurn(t *testing.T) {
	w := newWorld()
	first := w.place(1, 0, 1, 1, 0, time.Millisecond)
	second := w.put(1, 0, 2, 2, time.Second, time.Second)
	second.Turn = first.Turn
	w.ledger.Accept(second)
	onlyFails(t, w.verdict(t, true), "extra tiles", "1")
}

func TestExtraTileThatNobodyWasToldOf(t *testing.T) {
	w := newWorld()
	w.storm()
	w.ledger.Refuse(150, w.put(150, 4, 1, 1, 0, 0).Nonce, board.CodeCooldown, true) // refused, and on the board all the same
	onlyFails(t, w.verdict(t, true), "extra tiles", "1")
	onlyFails(t, w.verdict(t, false), "", "") // it may be somebody else's
}

func TestPlacementInDoubtMayBeOnTheBoardOrNot(t *testing.T) {
	w := newWorld()
	w.storm()
	w.put(150, 4, 1, 1, 0, 0) // sent, on the board, never answered
	w.ledger.Sent(151, 99)    // sent, not on the board, never answered
	refused := w.put(152, 4, 2, 1, 0, 0)
	w.ledger.Refuse(152, refused.Nonce, board.CodeBusy, false) // one copy was turned away, another was not
	onlyFails(t, w.verdict(t, true), "", "")
	if c := w.ledger.Counts(); c.Doubtful != 3 {
		t.Errorf("%d placements in doubt, want 3", c.Doubtful)
	}
}

func TestLostAcknowledgements(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"the chunk is shorter": func(w *world) { w.after[2].Sequence-- },
		"the chunk is missing": func(w *world) {
			w.place(150, 40, 1, 1, 0, 1)
			delete(w.after, 40)
		},
		"another colour": func(w *world) { w.after[3].Tiles[w.place(150, 3, 11, 5, 0, 1).Tile] = 6 },
		"a place from before the run": func(w *world) {
			a := w.put(150, 3, 11, 5, 0, 1)
			w.after[3].Sequence--
			w.after[3].Tiles[11] = w.before[3].Tiles[11]
			a.Sequence = 5
			w.ledger.Accept(a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			for i := range 6 {
				w.place(i, 2, i, 3, 0, 1)
			}
			lose(w)
			onlyFails(t, w.verdict(t, true), "lost acknowledgements", "1")
		})
	}
}

func TestColourUnderAnUnknownPlacementIsNotJudged(t *testing.T) {
	w := newWorld()
	w.place(1, 3, 11, 5, 0, 1)
	w.put(2, 3, 11, 6, 0, 1) // in doubt, and painted over it
	w.place(3, 3, 12, 7, 0, 1)
	onlyFails(t, w.verdict(t, true), "", "")
}

func TestAnswersThatChange(t *testing.T) {
	for name, change := range map[string]func(w *world, a Accepted){
		"another place": func(w *world, a Accepted) {
			a.Sequence++
			w.ledger.Accept(a)
		},
		"another place, told to another session": func(w *world, a Accepted) { w.ledger.Repeat(a.User, a.Nonce, a.Chunk+1, a.Sequence) },
		"accepted unasked":                       func(w *world, a Accepted) { w.ledger.Repeat(a.User, 1<<60, a.Chunk, a.Sequence) },
		"refused after all":                      func(w *world, a Accepted) { w.ledger.Refuse(a.User, a.Nonce, board.CodeCooldown, true) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.storm()
			change(w, w.place(150, 0, 1, 1, 0, 1))
			onlyFails(t, w.verdict(t, true), "answers that changed", "1")
		})
	}
	w := newWorld()
	a := w.place(150, 0, 1, 1, 0, 1)
	w.ledger.Sent(150, a.Nonce) // a late retry
	w.ledger.Accept(a)
	w.ledger.Repeat(150, a.Nonce, a.Chunk, a.Sequence)
	w.ledger.Refuse(150, a.Nonce, board.CodeSuperseded, true)
	w.ledger.Refuse(150, a.Nonce, board.CodeBusy, true)
	onlyFails(t, w.verdict(t, true), "", "")
	if c := w.ledger.Counts(); c.Accepted != 1 || c.Doubtful != 0 {
		t.Errorf("counts %+v after retries, want one placement", c)
	}
}

func TestSequenceGivenTwice(t *testing.T) {
	w := newWorld()
	w.storm()
	a := w.place(150, 0, 1, 1, 0, 1)
	a.User, a.Nonce = 151, 77
	w.ledger.Accept(a)
	onlyFails(t, w.verdict(t, true), "sequence gaps", "1")
}

func TestAnswerAndFrameMustAgree(t *testing.T) {
	w := newWorld()
	w.storm()
	a := w.place(150, 0, 1, 1, 0, 1)
	verdict := func(seen Seen) map[string]measure.Check {
		checks := map[string]measure.Check{}
		for _, check := range w.ledger.Verdict(Evidence{Before: w.before, After: w.after, Sole: true, Seen: []Seen{seen}}) {
			checks[check.Name] = check
		}
		return checks
	}
	seen := Seen{Chunk: a.Chunk, Sequence: a.Sequence, Tile: 1, Colour: 1}
	onlyFails(t, verdict(seen), "", "")
	seen.Colour++
	onlyFails(t, verdict(seen), "sequence gaps", "1")
}

func TestDivergence(t *testing.T) {
	a, b := Board{1: {Sequence: 4}}, Board{1: {Sequence: 4}, 2: {}}
	if what := Divergence(a, b); what != "" {
		t.Errorf("equal boards differ: %s", what)
	}
	b[1].Tiles[2499] = 1
	if what := Divergence(a, b); !strings.Contains(what, "other tiles") {
		t.Errorf("other tiles: %q", what)
	}
	for _, pair := range [][2]Board{{a, Board{}}, {Board{}, a}, {a, Board{1: {Sequence: 5}}}} {
		if what := Divergence(pair[0], pair[1]); !strings.Contains(what, "sequence") {
			t.Errorf("other sequences: %q", what)
		}
	}
}
