package actors

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// SettingsTickMs is the time between looks at the plan: every session hears of a planned change within a second of its time.
const SettingsTickMs = 250

// keeperName is who acts when nobody does.
const keeperName = "placed"

// driveStep seals what is planned for a time that has come. The commit that carries a change out takes it off the plan, so it
// happens once, whoever else tries and however often.
func (k *SettingsKeeper) driveStep(wallMs int64) {
	if k.commits.inFlight != nil || k.reading {
		return
	}
	step, ok := k.rules.Settings().Step(k.nowMs)
	if !ok {
		return
	}
	value, err := k.sealStep(&step, wallMs)
	if err != nil && step.Dropped == nil { // too large
		step.Next, step.Dropped = *k.rules.Settings(), err
		step.Next.RemovePlan(step.Change.ID)
		value, err = k.sealStep(&step, wallMs)
	}
	if err != nil {
		return // not even smaller settings fit: an operator's next change has to make them fit
	}
	k.step = &step
	k.seal(value)
}

// sealStep makes the record of a step and encodes it.
func (k *SettingsKeeper) sealStep(step *board.PlanStep, wallMs int64) ([]byte, error) {
	by, why := keeperName, "the announcement has ended"
	switch c := &step.Change; {
	case step.Dropped != nil:
		why = fmt.Sprintf("planned change %s of %s is dropped: %v", c.ID, c.By, step.Dropped)
	case c.ID != "":
		by, why = c.By, "planned as "+c.ID
		if c.Why != "" {
			why += ": " + c.Why
		}
	}
	step.Next.Version = k.rules.Version() + 1
	k.sealed = board.SettingsRecord{Settings: step.Next, By: by, Why: cut(why, board.WhyBytesMax), AtMs: max(wallMs, k.rules.Record.AtMs)}
	return store.EncodeSettings(k.sealed)
}

// seal gives the sealed record to the store.
func (k *SettingsKeeper) seal(value []byte) {
	k.value = value
	k.out = append(k.out, MakeSettingsCommit{k.commits.seal(k.sealed.Version, nil, []store.Row{{Value: value}})})
}

// cut shortens text to at most most bytes, between characters, on one line.
func cut(text string, most int) string {
	text = strings.ReplaceAll(text, "\n", "; ")
	for len(text) > most {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// planStep counts what became of a planned change, and says what nobody asked for now.
func (s *System) planStep(e PlanStepDone) {
	switch {
	case e.Step.Dropped != nil:
		s.metrics.plan.WithLabelValues("dropped").Inc()
		s.log.Warn("a planned change of settings is dropped", "id", e.Step.Change.ID, "by", e.Step.Change.By, "error", e.Step.Dropped)
	case e.Step.Change.ID == "":
		s.metrics.plan.WithLabelValues("announcement_ended").Inc()
	default:
		s.metrics.plan.WithLabelValues("carried_out").Inc()
	}
}
