package board

import (
	"slices"
	"strings"
	"testing"
)

func planned(id string, atMs int64, change func(*SettingsPatch)) PlannedChange {
	c := PlannedChange{ID: id, AtMs: atMs, By: "op", Why: "test", MadeMs: 1}
	change(&c.Patch)
	return c
}

func cooldown(ms int64) func(*SettingsPatch) { return func(p *SettingsPatch) { p.CooldownMs = &ms } }

func frozen(yes bool) func(*SettingsPatch) { return func(p *SettingsPatch) { p.Frozen = &yes } }

// steps lets time pass up to nowMs and returns the names of what was carried out, "-" before those that were dropped.
func steps(s Settings, nowMs int64) (Settings, string) {
	var out []string
	for {
		step, ok := s.Step(nowMs)
		if !ok {
			return s, strings.Join(out, " ")
		}
		name := step.Change.ID
		switch {
		case name == "":
			name = "end"
		case step.Dropped != nil:
			name = "-" + name
		}
		out = append(out, name)
		s = step.Next
	}
}

func TestPlanIsCarriedOutInOrder(t *testing.T) {
	s := DefaultSettings()
	text, until := "hello", int64(25)
	s.AddPlan(planned("open", 30, frozen(false)))
	s.AddPlan(planned("freeze", 10, frozen(true)))
	s.AddPlan(planned("fast", 30, cooldown(7)))
	s.AddPlan(planned("talk", 20, func(p *SettingsPatch) { p.Announcement, p.AnnouncementUntilMs = &text, &until }))
	first := s
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for nowMs, want := range map[int64]string{9: "", 10: "freeze", 20: "freeze talk", 24: "freeze talk", 25: "freeze talk end", 29: "freeze talk end", 30: "freeze talk end open fast", 99: "freeze talk end open fast"} {
		if _, got := steps(s, nowMs); got != want {
			t.Errorf("until %d: %q, want %q", nowMs, got, want)
		}
	}
	end, _ := steps(s, 99)
	if end.Frozen || end.CooldownMs != 7 || end.Announcement != "" || end.AnnouncementUntilMs != 0 || len(end.Plan) != 0 {
		t.Errorf("in the end %+v", end)
	}
	if !slices.EqualFunc(s.Plan, first.Plan, func(a, b PlannedChange) bool { return a.ID == b.ID }) || len(s.Plan) != 4 {
		t.Error("the settings before were touched")
	}
	s.State = StateLoading
	if _, got := steps(s, 99); got != "" {
		t.Errorf("a board that is being filled did %q", got)
	}
}

// TestPlanFaults: what would be impossible by then is refused when it is planned; what has become impossible otherwise is
// dropped when its time comes.
func TestPlanFaults(t *testing.T) {
	palette := func(n int) func(*SettingsPatch) {
		return func(p *SettingsPatch) {
			p.Palette = slices.Clone(DefaultPalette())
			for len(p.Palette) < n {
				p.Palette = append(p.Palette, PaletteEntry{Name: "more", RGB: 1})
			}
		}
	}
	width := func(n int) func(*SettingsPatch) { return func(p *SettingsPatch) { p.Width = &n } }
	s := DefaultSettings()
	refused := func(why string, plan ...PlannedChange) {
		t.Helper()
		next := s
		for _, c := range plan {
			next.AddPlan(c)
		}
		if err := s.ValidateChange(&next); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", why, err)
		}
	}
	refused("width 0", planned("a", 5, width(0)))
	refused("nothing", planned("a", 5, func(*SettingsPatch) {}))
	refused("its name", planned("a", 5, width(5)), planned("a", 6, width(6)))
	refused("its name", planned("", 5, width(5)))
	refused("shrinks", planned("b", 6, palette(16)), planned("a", 5, palette(17)))
	var many []PlannedChange
	for i := range PlanMax + 1 {
		many = append(many, planned(strings.Repeat("x", 1+i%30)+string(rune('a'+i/30)), 5, width(5)))
	}
	refused("more than 64", many...)

	s.AddPlan(planned("sixteen", 10, palette(16)))
	refused("\"sixteen\" would be impossible", planned("early", 5, palette(17)))
	next := palette17(s)
	if err := s.ValidateChange(&next); err != nil {
		t.Errorf("a change that makes a planned one impossible: %v", err)
	}
	if end, got := steps(next, 10); got != "-sixteen" || len(end.Palette) != 17 || len(end.Plan) != 0 {
		t.Errorf("%q, %d colours", got, len(end.Palette))
	}
	again := next
	again.AddPlan(planned("other", 20, cooldown(1)))
	if err := next.ValidateChange(&again); err != nil {
		t.Errorf("an older fault keeps new changes off the plan: %v", err)
	}
	if !again.RemovePlan("sixteen") || again.RemovePlan("sixteen") || len(again.Plan) != 1 || len(next.Plan) != 1 {
		t.Errorf("after the removal: %+v", again.Plan)
	}
}

func palette17(s Settings) Settings {
	s.Palette = append(slices.Clone(s.Palette), PaletteEntry{Name: "night", RGB: 2})
	return s
}

func TestPlanTimes(t *testing.T) {
	now := int64(1_000_000)
	text, before := "hello", now+5
	for why, change := range map[string]func(*Settings){
		"":             func(s *Settings) { s.AddPlan(planned("a", now+1, cooldown(1))) },
		"in the past":  func(s *Settings) { s.AddPlan(planned("a", now, cooldown(1))) },
		"a year ahead": func(s *Settings) { s.AddPlan(planned("a", now+PlanAheadMsMax+1, cooldown(1))) },
		"before it begins": func(s *Settings) {
			s.AddPlan(planned("a", now+5, func(p *SettingsPatch) { p.Announcement, p.AnnouncementUntilMs = &text, &before }))
		},
		"the announcement: i": func(s *Settings) { s.Announcement, s.AnnouncementUntilMs = "x", now-1 },
	} {
		s := DefaultSettings()
		s.AddPlan(planned("old", 1, cooldown(1))) // is due, and no business of the change
		next := s
		change(&next)
		if err := s.CheckTimes(&next, now); (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", why, err)
		}
	}
}
