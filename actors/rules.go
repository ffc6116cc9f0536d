package actors

import "github.com/placed-board/placed/board"

// Rules are the settings at one version together with the cooldowns of all versions so far. A Rules is never changed after
// it was made: actors pass pointers to it.
type Rules struct {
	Record    board.SettingsRecord
	Cooldowns board.Cooldowns // includes Record's version
}

// Settings returns the settings.
func (r *Rules) Settings() *board.Settings { return &r.Record.Settings }

// Version returns the settings' version, 0 for nil rules.
func (r *Rules) Version() uint64 {
	if r == nil {
		return 0
	}
	return r.Record.Version
}

// Next returns the rules with one more version.
func (r *Rules) Next(record board.SettingsRecord) *Rules {
	next := &Rules{Record: record}
	if r != nil {
		next.Cooldowns = r.Cooldowns
	}
	next.Cooldowns.Add(record.Version, record.CooldownMs)
	return next
}

// waits reports whether a wait until untilMs that was at most mostMs long is still on. A wall clock that jumped back ends
// it: nothing waits for an old time to come again.
func waits(nowMs, untilMs, mostMs int64) bool { return nowMs < untilMs && untilMs-nowMs <= mostMs }

// Node says who a core acts for.
type Node struct {
	ID          uint64 // of the node's address; stored with every charge
	Address     string // where other nodes reach this one
	Incarnation uint64 // of this process
}
