package actors

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
)

// planFreeze plans a freezing for a time.
func planFreeze(id string, atMs int64) func(*board.Settings) {
	return func(s *board.Settings) {
		yes := true
		s.AddPlan(board.PlannedChange{ID: id, AtMs: atMs, By: "zoe", Why: "night", Patch: board.SettingsPatch{Frozen: &yes}})
	}
}

func (r *keeperRig) tick(atMs int64) []SettingsEffect {
	return slices.Clone(r.keeper.Receive(atMs, SettingsTick{}))
}

func TestPlanStepsAreCommits(t *testing.T) {
	r := newKeeperRig(t)
	r.apply(r.change(1, planFreeze("2", testStartMs+1000)))
	if a := r.answer(0); a.err != nil || len(a.record.Plan) != 1 {
		t.Fatalf("answer %+v", a)
	}
	none[MakeSettingsCommit](t, r.tick(testStartMs+999))
	effects := r.tick(testStartMs + 1000)
	none[MakeSettingsCommit](t, r.tick(testStartMs+1001)) // one in flight
	c := one[MakeSettingsCommit](t, effects).Commit
	effects = slices.Clone(r.keeper.Receive(testStartMs+1002, SettingsCommitDone{Attempt: c.Head.Attempt, Result: r.store.Commit(c)}))
	record := one[AnnounceSettings](t, effects).Rules.Record
	if !record.Frozen || len(record.Plan) != 0 || record.By != "zoe" || record.Why != "planned as 2: night" || record.AtMs != testStartMs+1000 {
		t.Errorf("announced %+v", record)
	}
	if done := one[PlanStepDone](t, effects); done.Step.Change.ID != "2" || done.Step.Dropped != nil || done.Record.Version != 3 {
		t.Errorf("done %+v", done)
	}
	none[MakeSettingsCommit](t, r.tick(testStartMs+5000))
	if len(r.answers) != 1 {
		t.Errorf("%d answers", len(r.answers))
	}
	// What is past when it is entered is refused.
	none[MakeSettingsCommit](t, r.change(3, planFreeze("4", testStartMs)))
	if a := r.answer(1); !errors.Is(a.err, board.ErrRefused) || !strings.Contains(a.err.Error(), "in the past") {
		t.Errorf("a change planned for now: %+v", a)
	}
}

// TestPlanStepsHappenOnce: two nodes see the same time come; one makes the version, the other finds the plan without it.
func TestPlanStepsHappenOnce(t *testing.T) {
	a := newKeeperRig(t)
	a.apply(a.change(1, planFreeze("2", testStartMs+10)))
	b := &keeperRig{t: t, store: a.store, keeper: NewSettingsKeeper(nodeB, a.keeper.rules, testRandom())}
	fromA, fromB := a.tick(testStartMs+20), b.tick(testStartMs+20)
	a.apply(fromA)
	late := b.apply(fromB)
	none[AnnounceSettings](t, late)
	effects := b.read(late)
	none[PlanStepDone](t, effects)
	none[MakeSettingsCommit](t, effects)
	none[MakeSettingsCommit](t, b.tick(testStartMs+30))
	if v := a.store.Head(store.Settings()).Version; v != 3 || b.keeper.rules.Version() != 3 || !b.keeper.rules.Settings().Frozen {
		t.Errorf("version %d, %d", v, b.keeper.rules.Version())
	}
	// A change of an operator that comes while a step is in flight is not answered by it.
	a.apply(a.change(3, planFreeze("4", testStartMs+40)))
	effects = a.tick(testStartMs + 40)
	answered := len(a.answers)
	none[MakeSettingsCommit](t, a.change(4, hello))
	a.apply(effects)
	if got := a.answer(answered); !errors.Is(got.err, board.ErrConflict) || got.record.Version != 5 {
		t.Errorf("a change meanwhile: %+v", got)
	}
}

// TestPlanStepsThatBecameImpossibleAreDropped, with a reason that stays in the history.
func TestPlanStepsThatBecameImpossibleAreDropped(t *testing.T) {
	r := newKeeperRig(t)
	r.apply(r.change(1, func(s *board.Settings) {
		s.AddPlan(board.PlannedChange{ID: "2", AtMs: testStartMs + 10, By: "zoe", Patch: board.SettingsPatch{Palette: slices.Clone(s.Palette)}})
	}))
	r.apply(r.change(2, func(s *board.Settings) {
		s.Palette = append(slices.Clone(s.Palette), board.PaletteEntry{Name: "night", RGB: 5})
	}))
	effects := r.apply(r.tick(testStartMs + 10))
	done := one[PlanStepDone](t, effects)
	if done.Step.Dropped == nil || len(done.Record.Plan) != 0 || len(done.Record.Palette) != 17 || done.Record.By != "placed" ||
		!strings.Contains(done.Record.Why, "planned change 2 of zoe is dropped: palette shrinks") {
		t.Errorf("done %+v", done)
	}
	if got := cut("ä\nöü", 6); got != "ä; ö" {
		t.Errorf("cut to %q", got)
	}
}

// TestPlanInANode goes through a plan as sessions see it, across a time in which no node runs.
func TestPlanInANode(t *testing.T) {
	core := mem.NewCore()
	freeze := func(n *node, id string, after time.Duration, yes bool) {
		t.Helper()
		record := n.Settings()
		next := record.Settings
		next.AddPlan(board.PlannedChange{ID: id, AtMs: time.Now().Add(after).UnixMilli(), By: "zoe", Patch: board.SettingsPatch{Frozen: &yes}})
		if _, err := n.ChangeSettings(n.t.Context(), record.Version, next, "zoe", "test"); err != nil {
			t.Fatal(err)
		}
	}
	bubble(t, mem.Open(core), func(c *Config) { c.Board.CooldownMs = 0 }, func(n *node) {
		freeze(n, "a", time.Hour, true)
		freeze(n, "b", 3*time.Hour, false)
		n.want(n.place("alice", 1, 1, 1, 1), board.VerdictAccepted, board.CodeOK)
		<-time.After(time.Hour + SettingsTickMs*time.Millisecond + time.Second)
		n.want(n.place("alice", 2, 2, 1, 1), board.VerdictRefused, board.CodeFrozen)
		if got := n.counter("placed_settings_plan_total", "carried_out"); got != 1 {
			t.Errorf("%v steps are counted", got)
		}
		freeze(n, "c", 2*time.Hour+time.Minute, true)
	})
	bubble(t, mem.Open(core), func(c *Config) {}, func(n *node) { // begins when the bubble before did: nothing is due
		<-time.After(2 * time.Hour)
		n.want(n.place("alice", 2, 3, 1, 1), board.VerdictRefused, board.CodeFrozen)
	})
	bubble(t, mem.Open(core), func(c *Config) { <-time.After(4 * time.Hour) }, func(n *node) { // both became due meanwhile
		n.until("the plan to be carried out", func() bool { return len(n.Settings().Plan) == 0 })
		n.want(n.place("alice", 2, 4, 1, 1), board.VerdictRefused, board.CodeFrozen)
		history, err := n.SettingsHistory(n.t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var frozen []bool
		for _, r := range history {
			frozen = append(frozen, r.Frozen)
		}
		if want := []bool{false, false, false, true, true, false, true}; !slices.Equal(frozen, want) {
			t.Errorf("frozen was %v, want %v", frozen, want)
		}
	})
}
