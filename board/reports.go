package board

// TileDetails tells who placed a tile and when.
type TileDetails struct {
	X        int    `json:"x"`
	Y        int    `json:"y"`
	Colour   Colour `json:"colour"`
	Placed   bool   `json:"placed"` // false: nobody has placed this tile
	User     UserID `json:"user,omitempty"`
	AtMs     int64  `json:"at_ms,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"` // of the placement in its chunk
}

// Readiness tells whether a node serves, and if not why.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
}

// Status is an operator's view of one node.
type Status struct {
	Version         string           `json:"version"`
	Epoch           string           `json:"epoch"` // hexadecimal
	Incarnation     string           `json:"incarnation"`
	Store           string           `json:"store"`
	Readiness       Readiness        `json:"readiness"`
	Sessions        int              `json:"sessions"`
	Online          int              `json:"online"` // people
	SettingsVersion uint64           `json:"settings_version"`
	InForce         bool             `json:"in_force"` // every shard has committed the newest settings
	FrozenFully     bool             `json:"frozen_fully"`
	ShardsInForce   []uint64         `json:"shards_in_force"` // settings version per shard, ops last
	OpenCharges     int              `json:"open_charges"`
	Regions         int              `json:"regions"`
	Blocks          int              `json:"blocks"` // loaded
	Users           int              `json:"users"`  // user actors alive
	Counters        map[string]int64 `json:"counters"`
}

// Job is an operator's write under way: clear a rectangle, roll back.
type Job struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	By      string `json:"by"`
	Why     string `json:"why"`
	Rect    Rect   `json:"rect"`
	User    UserID `json:"user,omitempty"`     // of a roll-back: only this user's placements; "": everybody's
	SinceMs int64  `json:"since_ms,omitempty"` // of a roll-back: placements of this time or later are taken back, up to AtMs
	Undoes  string `json:"undoes,omitempty"`   // of a roll-back: the job whose writes are taken back
	AtMs    int64  `json:"at_ms"`
	Charged int    `json:"charged"` // tiles promised so far
	Placed  int    `json:"placed"`  // tiles on the board so far
	Done    bool   `json:"done"`
}

// Ban is the newest ban of a user, or its lifting.
type Ban struct {
	User    UserID `json:"user"`
	UntilMs int64  `json:"until_ms"` // Unix milliseconds; 0: lifted; BannedForever: without end
	By      UserID `json:"by"`       // "" for bans from before this was kept
	Why     string `json:"why"`
	AtMs    int64  `json:"at_ms"`
}

// RollbackPlan is what a roll-back would do.
type RollbackPlan struct {
	Job        Job      `json:"job"` // as it would start
	Tiles      int      `json:"tiles"`
	Placements int      `json:"placements"` // that are taken back
	Picture    Rect     `json:"picture"`    // of Colours; empty when the rectangle is too large for a picture
	Colours    []Colour `json:"-"`          // the result, row by row
}

// Violation is one broken invariant found by verify.
type Violation struct {
	Invariant string `json:"invariant"` // "I1" .. "I6"
	What      string `json:"what"`
}

// VerifyReport is the outcome of a replay of all journals.
type VerifyReport struct {
	Blocks     int         `json:"blocks"`
	Commits    uint64      `json:"commits"`
	Placements uint64      `json:"placements"`
	Users      int         `json:"users"`
	Violations []Violation `json:"violations"` // at most 100 kept
	Count      int         `json:"violation_count"`
	ElapsedMs  int64       `json:"elapsed_ms"`
}
