package actors

import (
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// SettingsMessage is what the settings actor understands.
//
//sumtype:decl
type SettingsMessage interface{ settingsMessage() }

// ChangeSettings asks for a new version on top of version Base. From: the admin API. Reply gets board.ErrConflict when Base
// is not the newest.
type ChangeSettings struct {
	Base    uint64
	Next    board.Settings
	By, Why string
	Reply   func(board.SettingsRecord, error) // must not block
}

// SettingsCommitDone tells the fate of a settings commit. From: the store.
type SettingsCommitDone struct {
	Attempt uint64
	Result  store.Result
}

// SettingsRead brings versions from the store after a lost duel. From: the store.
type SettingsRead struct {
	Records []board.SettingsRecord
	Failed  bool
}

// SettingsHeard says that a version exists, made on another node. From: another node, or an owner's head.
type SettingsHeard struct{ Version uint64 }

// SettingsTick lets time pass: what is planned for a time that has come is carried out. From: the node's timer, while the clock
// is trusted.
type SettingsTick struct{}

func (SettingsTick) settingsMessage()       {}
func (SettingsHeard) settingsMessage()      {}
func (ChangeSettings) settingsMessage()     {}
func (SettingsCommitDone) settingsMessage() {}
func (SettingsRead) settingsMessage()       {}

// SettingsEffect is what a settings core wants done.
//
//sumtype:decl
type SettingsEffect interface{ settingsEffect() }

// MakeSettingsCommit gives a sealed commit to the store. Answer: SettingsCommitDone.
type MakeSettingsCommit struct{ Commit *store.Commit }

// ReadSettings asks the store for the versions from From on. Answer: SettingsRead.
type ReadSettings struct{ From uint64 }

// AnnounceSettings gives newer settings to every shard, region and feed of the node.
type AnnounceSettings struct{ Rules *Rules }

// PlanStepDone says that a planned change was carried out or dropped, or an announcement has ended. The shell logs and counts it.
type PlanStepDone struct {
	Step   board.PlanStep
	Record board.SettingsRecord
}

func (PlanStepDone) settingsEffect()       {}
func (MakeSettingsCommit) settingsEffect() {}
func (ReadSettings) settingsEffect()       {}
func (AnnounceSettings) settingsEffect()   {}
