package actors

import "github.com/placed-board/placed/board"

// What nodes tell each other beyond the messages of the actors. Each crosses nodes in an envelope (actors/envelope.go).

// tilesPublished brings what the regions of one node have committed lately. From: a node, one message a peer and DeltaMs.
// To: the node's feed.
type tilesPublished struct{ Batches []TilesApplied }

// nodeTold is what a node tells every peer once a second, and with fewer fields when something changes. No answer; what is
// missing is pulled.
type nodeTold struct {
	SettingsVersion uint64
	WallMs          int64 // of its clock
	Whole           bool  // the fields below but Blocks are set
	Online          int
	Sessions        int
	Regions         int
	BlocksLoaded    int
	Users           int
	OpenCharges     int
	Ready           bool
	Shards          []shardTold  // those that it owns
	Blocks          []blockCount // of blocks that it owns
}

// shardTold is where a shard stands with the settings.
type shardTold struct {
	Shard     int
	Version   uint64
	OpenOlder int
}

// blockCount is a digest of a block: the sum of its chunks' sequences. Whoever has less pulls the block.
type blockCount struct {
	Block      board.BlockID
	Placements uint64
}

// tileAsked asks for what GetTile asks, for a request of another node. Answer: tileTold.
type tileAsked struct {
	At board.Point
	To SessionRef
}

// tileTold answers tileAsked.
type tileTold struct {
	To    SessionRef
	Known TileKnown
}

// jobAsked asks the ops shard to start a job, or with List for the list of jobs. Answer: jobsTold.
type jobAsked struct {
	List bool
	Job  board.Job
	To   SessionRef
}

// jobsTold answers jobAsked.
type jobsTold struct {
	To      SessionRef
	Jobs    []board.Job
	Failure failure
	Text    string // of the error
}

// failure is the class of an error that crosses nodes.
type failure uint8

const (
	failureNone failure = iota
	failureRefused
	failureUnknown
	failureOther
)
