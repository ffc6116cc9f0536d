package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/placed-board/placed/board"
)

func (s *Server) adminSettings(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, "no-store", s.deps.Board.Settings())
}

func (s *Server) adminHistory(w http.ResponseWriter, r *http.Request) {
	history, err := s.deps.Admin.SettingsHistory(r.Context())
	if err != nil {
		s.askFailed(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, "no-store", append([]board.SettingsRecord{}, history...))
}

// settingsChange is the body of PUT /admin/v1/settings: all settings, or only the fields that change, and what comes to the plan
// and leaves it.
type settingsChange struct {
	Base       *uint64         `json:"base"` // the version that the change was made from
	Settings   json.RawMessage `json:"settings"`
	Patch      json.RawMessage `json:"patch"`
	PlanAdd    []planAdd       `json:"plan_add"`
	PlanRemove []string        `json:"plan_remove"` // by id
	By         string          `json:"by"`
	Why        string          `json:"why"`
}

// planAdd is a change for a time to come; its id is the version that plans it, and a number where that plans several.
type planAdd struct {
	AtMs  int64           `json:"at_ms"` // Unix milliseconds
	Patch json.RawMessage `json:"patch"`
}

// adminChangeSettings answers PUT /admin/v1/settings: 200 with the new record; 409 with the newest one when base is not it;
// 422 with every fault when the settings are impossible.
func (s *Server) adminChangeSettings(w http.ResponseWriter, r *http.Request) {
	var change settingsChange
	if p := readJSON(w, r, adminBodyBytesMax, &change); p != nil {
		s.fail(w, p)
		return
	}
	by, why, p := whoAndWhy(r, change.By, change.Why)
	if p == nil && change.Base == nil {
		p = newProblem(problemBadRequest, "base is needed: the version that the change was made from")
	}
	if p == nil && change.Settings != nil && change.Patch != nil {
		p = newProblem(problemBadRequest, "settings or patch, not both")
	}
	if p == nil && change.Settings == nil && change.Patch == nil && len(change.PlanAdd)+len(change.PlanRemove) == 0 {
		p = newProblem(problemBadRequest, "either settings or patch is needed, or a change of the plan")
	}
	if p != nil {
		s.fail(w, p)
		return
	}
	current := s.deps.Board.Settings()
	if current.Version != *change.Base {
		s.failConflict(w)
		return
	}
	change.By, change.Why = by, why
	next, p := nextSettings(&current.Settings, &change, time.Now().UnixMilli())
	if p != nil {
		s.fail(w, p)
		return
	}
	record, err := s.deps.Admin.ChangeSettings(r.Context(), *change.Base, next, by, why)
	if err != nil {
		s.changeFailed(w, r, &next, err)
		return
	}
	writeJSON(w, http.StatusOK, "no-store", record)
}

func (s *Server) failConflict(w http.ResponseWriter) {
	p := newProblem(problemConflict, "")
	newest := s.deps.Board.Settings()
	p.Newest = &newest
	s.fail(w, p)
}

func (s *Server) changeFailed(w http.ResponseWriter, r *http.Request, next *board.Settings, err error) {
	if errors.Is(err, board.ErrConflict) {
		s.failConflict(w)
		return
	}
	newest := s.deps.Board.Settings()
	if fault := newest.ValidateChange(next); fault != nil {
		s.fail(w, faultsProblem(fault))
		return
	}
	s.askFailed(w, r, err)
}

// nextSettings returns the settings that the change makes at nowMs of the current ones, which it does not touch.
func nextSettings(current *board.Settings, change *settingsChange, nowMs int64) (board.Settings, *problem) {
	next := *current
	var p *problem
	switch {
	case change.Settings != nil:
		next, p = wholeSettings(current, change.Settings)
	case change.Patch != nil:
		var patch board.SettingsPatch
		patch, p = settingsPatch(change.Patch)
		next = patch.Apply(next)
	}
	if p != nil {
		return next, p
	}
	if next.Protected == nil {
		next.Protected = []board.Rect{}
	}
	next.Version = current.Version + 1
	if p := changePlan(&next, change, nowMs); p != nil {
		return next, p
	}
	if err := errors.Join(current.ValidateChange(&next), current.CheckTimes(&next, nowMs)); err != nil {
		return next, faultsProblem(err)
	}
	return next, nil
}

// wholeSettings decodes all settings. Those that are not changed here stay as they are when they are left out.
func wholeSettings(current *board.Settings, b []byte) (board.Settings, *problem) {
	var whole board.Settings
	if p := strictJSON(b, &whole); p != nil {
		return whole, p
	}
	if whole.State == "" {
		whole.State = current.State
	}
	if whole.State != current.State {
		return whole, newProblem(problemBadRequest, "the state is not changed here")
	}
	sameID := func(a, b board.PlannedChange) bool { return a.ID == b.ID }
	if whole.Plan != nil && !slices.EqualFunc(whole.Plan, current.Plan, sameID) {
		return whole, newProblem(problemBadRequest, "the plan is changed by plan_add and plan_remove")
	}
	whole.Plan = current.Plan
	return whole, nil
}

// settingsPatch decodes the fields that change.
func settingsPatch(b []byte) (board.SettingsPatch, *problem) {
	var patch board.SettingsPatch
	var named map[string]json.RawMessage
	if p := strictJSON(b, &named); p != nil {
		return patch, p
	}
	for name, value := range named {
		if bytes.Equal(value, []byte("null")) {
			return patch, newProblem(problemBadRequest, fmt.Sprintf("%q cannot be null", name))
		}
	}
	return patch, strictJSON(b, &patch)
}

// changePlan takes changes off the plan and puts new ones on it.
func changePlan(next *board.Settings, change *settingsChange, nowMs int64) *problem {
	for _, id := range change.PlanRemove {
		if !next.RemovePlan(id) {
			return newProblem(problemBadRequest, fmt.Sprintf("no change %q is planned", id))
		}
	}
	for i, add := range change.PlanAdd {
		id := strconv.FormatUint(next.Version, 10)
		if len(change.PlanAdd) > 1 {
			id += "." + strconv.Itoa(i+1)
		}
		patch, p := settingsPatch(add.Patch)
		if p != nil {
			return p
		}
		next.AddPlan(board.PlannedChange{ID: id, AtMs: add.AtMs, Patch: patch, By: change.By, Why: change.Why, MadeMs: nowMs})
	}
	return nil
}

// faultsProblem lists the faults of impossible settings.
func faultsProblem(err error) *problem {
	p := newProblem(problemSettings, "")
	p.Faults = strings.Split(err.Error(), "\n")
	p.Detail = strings.Join(p.Faults, "; ")
	return p
}
