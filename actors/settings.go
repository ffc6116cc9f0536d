package actors

import (
	"bytes"
	"fmt"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// SettingsQueueMax is how many changes wait for the one in flight; beyond: ErrSettingsBusy.
const SettingsQueueMax = 16

// ErrSettingsBusy says that too many changes wait.
var ErrSettingsBusy = fmt.Errorf("actors: change settings: %w: too many changes at once: try again", board.ErrRefused)

// SettingsKeeper makes versions of the settings, one commit each, compare-and-set against the newest. It is the core of the
// settings actor: no I/O, no clock.
type SettingsKeeper struct {
	commits committer
	rules   *Rules
	sealed  board.SettingsRecord
	value   []byte           // sealed, encoded
	lost    []byte           // value, when another commit made its version or a later one
	waiting []ChangeSettings // the first is in flight, unless step is
	step    *board.PlanStep  // in flight; nil: none
	nowMs   int64            // the newest time that is trusted
	reading bool
	readFor uint64 // the base that the newest reading was for
	out     []SettingsEffect
}

// NewSettingsKeeper returns the core, at the newest version read from the store.
func NewSettingsKeeper(node Node, rules *Rules, random func() uint64) *SettingsKeeper {
	return &SettingsKeeper{rules: rules, commits: committer{
		partition: store.Settings(), random: random, version: rules.Version(),
		owner: store.Owner{Address: node.Address, Incarnation: node.Incarnation},
	}}
}

// Receive handles one message at wall time wallMs (Unix milliseconds) and returns what to do. The result is valid until the
// next call.
func (k *SettingsKeeper) Receive(wallMs int64, message SettingsMessage) []SettingsEffect {
	k.out = k.out[:0]
	switch m := message.(type) {
	case ChangeSettings:
		if len(k.waiting) >= SettingsQueueMax {
			m.Reply(board.SettingsRecord{}, ErrSettingsBusy)
			break
		}
		k.waiting = append(k.waiting, m)
	case SettingsCommitDone:
		switch k.commits.result(m.Attempt, m.Result) {
		case fateApplied:
			k.rules = k.rules.Next(k.sealed)
			k.out = append(k.out, AnnounceSettings{k.rules})
			if k.step != nil {
				k.out = append(k.out, PlanStepDone{*k.step, k.sealed})
				k.step = nil
				break
			}
			k.answer(k.sealed, nil)
		case fateMoved:
			if k.step == nil {
				k.lost = k.value
			}
			k.step = nil // another node's step, or still to do: what is read says which
			k.readNewer()
		case fateStale, fateUnknown:
		}
	case SettingsRead:
		k.read(m)
	case SettingsTick:
		k.nowMs = wallMs
	case SettingsHeard:
		if m.Version > k.rules.Version() && !k.reading && k.commits.inFlight == nil { // the fate of what is in flight has it read, too
			k.readNewer()
		}
	}
	k.drive(wallMs)
	return k.out
}

// read takes versions that somebody else made; the change in flight lost against them.
func (k *SettingsKeeper) read(m SettingsRead) {
	if !k.reading {
		return // an echo
	}
	if m.Failed {
		k.out = append(k.out, ReadSettings{From: k.rules.Version() + 1})
		return
	}
	k.reading = false
	for _, r := range m.Records {
		if r.Version == k.rules.Version()+1 {
			k.rules = k.rules.Next(r)
		}
		k.foundOwn(r)
	}
	k.commits.version = k.rules.Version()
	k.out = append(k.out, AnnounceSettings{k.rules})
}

// foundOwn answers the change that seemed lost and is there: its commit was applied, then another one, then its answer came.
func (k *SettingsKeeper) foundOwn(r board.SettingsRecord) {
	if k.lost == nil || r.Version != k.sealed.Version {
		return
	}
	if found, err := store.EncodeSettings(r); err == nil && bytes.Equal(found, k.lost) {
		k.answer(k.sealed, nil)
	}
	k.lost = nil
}

// drive seals the next change that still fits the newest version.
func (k *SettingsKeeper) drive(wallMs int64) {
	for k.commits.inFlight == nil && !k.reading && len(k.waiting) > 0 {
		m := k.waiting[0]
		if m.Base > k.rules.Version() && m.Base != k.readFor { // made on another node
			k.readFor = m.Base
			k.readNewer()
			return
		}
		if m.Base != k.rules.Version() {
			k.answer(k.rules.Record, board.ErrConflict)
			continue
		}
		next := m.Next
		next.Version = m.Base + 1
		if err := k.rules.Settings().ValidateChange(&next); err != nil {
			k.answer(board.SettingsRecord{}, err)
			continue
		}
		if err := k.rules.Settings().CheckTimes(&next, wallMs); err != nil {
			k.answer(board.SettingsRecord{}, fmt.Errorf("actors: change settings: %w: %w", board.ErrRefused, err))
			continue
		}
		k.sealed = board.SettingsRecord{Settings: next, By: m.By, Why: m.Why, AtMs: max(wallMs, k.rules.Record.AtMs)}
		value, err := store.EncodeSettings(k.sealed)
		if err != nil {
			k.answer(board.SettingsRecord{}, err)
			continue
		}
		k.seal(value)
	}
	k.driveStep(wallMs)
}

func (k *SettingsKeeper) readNewer() {
	k.reading = true
	k.out = append(k.out, ReadSettings{From: k.rules.Version() + 1})
}

func (k *SettingsKeeper) answer(r board.SettingsRecord, err error) {
	k.waiting[0].Reply(r, err)
	k.waiting = k.waiting[1:]
}
