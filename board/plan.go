package board

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Limits of planned changes.
const (
	PlanMax        = 64
	PlanIDBytesMax = 32
	PlanAheadMsMax = 366 * 24 * 60 * 60 * 1000
)

// SettingsPatch names settings to change; nil fields stay as they are. Lists are replaced as a whole.
type SettingsPatch struct {
	Width        *int           `json:"width,omitempty"`
	Height       *int           `json:"height,omitempty"`
	Palette      []PaletteEntry `json:"palette,omitempty"`
	CooldownMs   *int64         `json:"cooldown_ms,omitempty"`
	RegionSize   *int           `json:"region_size,omitempty"`
	Frozen       *bool          `json:"frozen,omitempty"`
	Protected    *[]Rect        `json:"protected,omitempty"`
	Announcement *string        `json:"announcement,omitempty"` // without AnnouncementUntilMs it stays until it is taken away
	// AnnouncementUntilMs is when the announcement ends, in Unix milliseconds.
	AnnouncementUntilMs *int64 `json:"announcement_until_ms,omitempty"`
}

// Empty reports whether the patch changes nothing.
func (p *SettingsPatch) Empty() bool {
	return p.Width == nil && p.Height == nil && p.Palette == nil && p.CooldownMs == nil && p.RegionSize == nil && p.Frozen == nil &&
		p.Protected == nil && p.Announcement == nil && p.AnnouncementUntilMs == nil
}

// Apply returns what the patch makes of s, which it does not touch.
func (p *SettingsPatch) Apply(s Settings) Settings {
	set(&s.Width, p.Width)
	set(&s.Height, p.Height)
	set(&s.CooldownMs, p.CooldownMs)
	set(&s.RegionSize, p.RegionSize)
	set(&s.Frozen, p.Frozen)
	set(&s.Protected, p.Protected)
	if p.Palette != nil {
		s.Palette = p.Palette
	}
	if p.Announcement != nil {
		s.Announcement, s.AnnouncementUntilMs = *p.Announcement, 0
	}
	set(&s.AnnouncementUntilMs, p.AnnouncementUntilMs)
	return s
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// PlannedChange is a change of settings that waits for its time. It is carried out once, by the commit that takes it off the plan.
type PlannedChange struct {
	ID     string        `json:"id"`
	AtMs   int64         `json:"at_ms"` // Unix milliseconds
	Patch  SettingsPatch `json:"patch"`
	By     string        `json:"by"`
	Why    string        `json:"why"`
	MadeMs int64         `json:"made_ms"` // when it was planned
}

// AddPlan puts a change on the plan, behind those of the same time. The plan of s is not shared afterwards.
func (s *Settings) AddPlan(c PlannedChange) {
	s.Plan = append(slices.Clone(s.Plan), c)
	slices.SortStableFunc(s.Plan, func(a, b PlannedChange) int { return cmp.Compare(a.AtMs, b.AtMs) })
}

// RemovePlan takes a change off the plan, and reports whether it was there.
func (s *Settings) RemovePlan(id string) bool {
	i := slices.IndexFunc(s.Plan, func(c PlannedChange) bool { return c.ID == id })
	if i < 0 {
		return false
	}
	s.Plan = slices.Concat(s.Plan[:i:i], s.Plan[i+1:])
	return true
}

// PlanStep is what time makes of settings: one change of the plan carried out or dropped, or the end of an announcement.
type PlanStep struct {
	Next    Settings
	Change  PlannedChange // zero: the announcement has ended
	Dropped error         // why the change could not be carried out any more; Next lacks it then
}

// Step returns the earliest step that is due at nowMs (Unix milliseconds); false when none is.
func (s *Settings) Step(nowMs int64) (PlanStep, bool) {
	ends := s.Announcement != "" && s.AnnouncementUntilMs != 0 && s.AnnouncementUntilMs <= nowMs
	due := len(s.Plan) > 0 && s.Plan[0].AtMs <= nowMs
	switch {
	case s.State != StateOpen || !ends && !due:
		return PlanStep{}, false
	case ends && (!due || s.AnnouncementUntilMs < s.Plan[0].AtMs):
		next := *s
		next.Announcement, next.AnnouncementUntilMs = "", 0
		return PlanStep{Next: next}, true
	}
	change := s.Plan[0]
	without := *s
	without.Plan = slices.Clone(s.Plan[1:])
	next := change.Patch.Apply(without)
	if err := s.ValidateChange(&next); err != nil {
		return PlanStep{Next: without, Change: change, Dropped: err}, true
	}
	return PlanStep{Next: next, Change: change}, true
}

// validatePlan returns what is impossible about the plan itself.
func (s *Settings) validatePlan() error {
	var errs []error
	if len(s.Plan) > PlanMax {
		errs = append(errs, fmt.Errorf("%d planned changes are more than %d", len(s.Plan), PlanMax))
	}
	seen := map[string]bool{}
	for i := range s.Plan {
		switch c := &s.Plan[i]; {
		case c.ID == "" || len(c.ID) > PlanIDBytesMax || seen[c.ID]:
			errs = append(errs, fmt.Errorf("planned change %q: its name is taken, or has not 1..%d bytes", c.ID, PlanIDBytesMax))
		case c.Patch.Empty():
			errs = append(errs, fmt.Errorf("planned change %q changes nothing", c.ID))
		case i > 0 && c.AtMs < s.Plan[i-1].AtMs:
			errs = append(errs, fmt.Errorf("planned change %q stands behind a later one", c.ID))
		case len(c.By) > UserBytesMax || len(c.Why) > WhyBytesMax:
			errs = append(errs, fmt.Errorf("planned change %q: who or why is too long", c.ID))
		}
		seen[s.Plan[i].ID] = true
	}
	return errors.Join(errs...)
}

// planFaults goes through the plan as time will and returns what would be dropped, by name.
func (s *Settings) planFaults() map[string]error {
	faults := map[string]error{}
	for at := *s; len(at.Plan) > 0; {
		at.Announcement, at.AnnouncementUntilMs, at.State = "", 0, StateOpen
		step, _ := at.Step(at.Plan[0].AtMs)
		if step.Dropped != nil {
			faults[step.Change.ID] = step.Dropped
		}
		at = step.Next
	}
	return faults
}

// validatePlanOf returns why next plans what will not be possible: of the changes that it adds, and of those that stop being
// possible because of them. A change that has become impossible otherwise is dropped when its time comes.
func (s *Settings) validatePlanOf(next *Settings) error {
	added := slices.ContainsFunc(next.Plan, func(c PlannedChange) bool { return !s.plans(c.ID) })
	if !added || next.validatePlan() != nil {
		return nil // nothing new, or said elsewhere
	}
	before := s.planFaults()
	var errs []error
	faults := next.planFaults()
	for i := range next.Plan {
		id := next.Plan[i].ID
		if err := faults[id]; err != nil && before[id] == nil {
			errs = append(errs, fmt.Errorf("planned change %q would be impossible by then: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Settings) plans(id string) bool {
	return slices.ContainsFunc(s.Plan, func(c PlannedChange) bool { return c.ID == id })
}

// CheckTimes returns which times that next adds to s are past, or too far ahead, at nowMs (Unix milliseconds).
func (s *Settings) CheckTimes(next *Settings, nowMs int64) error {
	var errs []error
	check := func(what string, atMs int64) {
		switch {
		case atMs <= nowMs:
			errs = append(errs, fmt.Errorf("%s: its time is %d s in the past", what, (nowMs-atMs)/1000))
		case atMs > nowMs+PlanAheadMsMax:
			errs = append(errs, fmt.Errorf("%s: its time is over a year ahead", what))
		}
	}
	for i := range next.Plan {
		if c := &next.Plan[i]; !s.plans(c.ID) {
			check(fmt.Sprintf("planned change %q", c.ID), c.AtMs)
			if until := c.Patch.AnnouncementUntilMs; until != nil && *until != 0 && *until <= c.AtMs {
				errs = append(errs, fmt.Errorf("planned change %q: its announcement would end before it begins", c.ID))
			}
		}
	}
	if until := next.AnnouncementUntilMs; until != 0 && until != s.AnnouncementUntilMs {
		check("the end of the announcement", until)
	}
	return errors.Join(errs...)
}
