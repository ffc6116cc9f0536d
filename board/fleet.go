package board

// ClusterReport is the nodes of a board as one of them sees them.
type ClusterReport struct {
	Node    string       `json:"node"` // address of the one that answers
	Members []NodeReport `json:"members"`
}

// NodeReport is what is known of one node.
type NodeReport struct {
	Address         string `json:"address"` // where other nodes reach it
	Incarnation     string `json:"incarnation"`
	Serving         bool   `json:"serving"` // owns a share
	Heard           bool   `json:"heard"`   // it has told of itself lately; else what follows is zero
	Ready           bool   `json:"ready"`
	SkewMs          int64  `json:"skew_ms"`  // of its clock against that of the node that answers
	Sessions        int    `json:"sessions"` // websockets
	Online          int    `json:"online"`   // people
	Shards          int    `json:"shards"`   // that it owns
	Regions         int    `json:"regions"`  // actors alive
	Blocks          int    `json:"blocks"`   // loaded
	Users           int    `json:"users"`    // actors alive
	SettingsVersion uint64 `json:"settings_version"`
}

// RegionReport is one region of today's size that meets the board.
type RegionReport struct {
	Col        int     `json:"col"`
	Row        int     `json:"row"`
	Rect       Rect    `json:"rect"`
	Owner      string  `json:"owner"`      // address of a node, "" when nobody serves
	Placements uint64  `json:"placements"` // so far
	PerSecond  float64 `json:"per_second"` // of the last seconds
}
