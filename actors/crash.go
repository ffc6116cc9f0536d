package actors

import "github.com/placed-board/placed/store"

// Crash points: the moments in the life of a placement (and of a change of settings) between which what is durable, what is
// on the board and what was answered differ. Tests end the process at each of them and see that nothing is lost or doubled.
const (
	// CrashBeforeShardCommit: charges are sealed, nothing is durable, nobody has an answer.
	CrashBeforeShardCommit = "before-shard-commit"
	// CrashAfterShardCommit: charges are durable and not sent to their regions.
	CrashAfterShardCommit = "after-shard-commit"
	// CrashBeforeBlockCommit: charges have come to their region, their placements are not on the board.
	CrashBeforeBlockCommit = "before-block-commit"
	// CrashAfterBlockCommit: placements are on the board, nobody has heard of it.
	CrashAfterBlockCommit = "after-block-commit"
	// CrashBeforeClosing: placements are answered, their charges are still open.
	CrashBeforeClosing = "before-closing"
	// CrashBeforeSettingsCommit: a change of settings is sealed and not durable.
	CrashBeforeSettingsCommit = "before-settings-commit"
	// CrashAfterSettingsCommit: a change of settings is durable, and nobody has heard of it.
	CrashAfterSettingsCommit = "after-settings-commit"
)

// CrashPoints lists every crash point.
var CrashPoints = []string{
	CrashBeforeShardCommit, CrashAfterShardCommit, CrashBeforeBlockCommit, CrashAfterBlockCommit, CrashBeforeClosing,
	CrashBeforeSettingsCommit, CrashAfterSettingsCommit,
}

// crashPointsOf returns the points around a commit of the class.
func crashPointsOf(c store.Class) (before, after string) {
	switch c {
	case store.ClassShard:
		return CrashBeforeShardCommit, CrashAfterShardCommit
	case store.ClassBlock:
		return CrashBeforeBlockCommit, CrashAfterBlockCommit
	case store.ClassSettings:
		return CrashBeforeSettingsCommit, CrashAfterSettingsCommit
	}
	return "", ""
}
