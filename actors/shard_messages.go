package actors

import (
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// ShardMessage is what a shard actor understands, besides the messages for its users (UserMessage) that it passes on and
// the UserEffect values that its users send back to it.
//
//sumtype:decl
type ShardMessage interface{ shardMessage() }

// ShardLoaded brings the shard's head from the store, with the rows of the users of its open charges. From: the store.
type ShardLoaded struct {
	Generation uint64
	Head       store.Head
	Rows       map[board.UserID]store.UserRow
	Jobs       []store.Row // ops only
	Failed     bool
}

// RowRead brings a user's row from the store. From: the store.
type RowRead struct {
	Generation uint64
	User       board.UserID
	Row        store.UserRow
	Failed     bool
}

// SlotGranted says that the store takes a commit of this shard now. From: the node's slots. Answer: a commit, or the slot back.
type SlotGranted struct{}

// CommitDone tells the fate of a commit. From: the store.
type CommitDone struct {
	Attempt uint64
	Result  store.Result
}

// TilesPlaced says which tickets are on the board. From: a region. Crosses nodes.
type TilesPlaced struct {
	Shard   int
	Block   board.BlockID
	Results []TicketPlaced
}

// TicketPlaced is one result of TilesPlaced.
type TicketPlaced struct {
	Ticket   board.Ticket
	Sequence uint64 // in the chunk
	Version  uint64 // the block's commit with the placement
	Settled  bool   // the ticket lies below the floor: placed long ago, Sequence and Version are not known
}

// SettingsMade brings newer settings. From: the settings actor.
type SettingsMade struct{ Rules *Rules }

// HealthChanged tells whether the store and the clock can be trusted with new charges. From: the node's watch.
type HealthChanged struct{ Refuse board.Code } // CodeOK, CodeStore, CodeClock, CodeDraining

// Tick lets time pass. From: the shard's timer.
type Tick struct{}

func (ShardLoaded) shardMessage()   {}
func (RowRead) shardMessage()       {}
func (SlotGranted) shardMessage()   {}
func (CommitDone) shardMessage()    {}
func (TilesPlaced) shardMessage()   {}
func (SettingsMade) shardMessage()  {}
func (HealthChanged) shardMessage() {}
func (Tick) shardMessage()          {}

// ShardEffect is what a shard core wants done.
//
//sumtype:decl
type ShardEffect interface{ shardEffect() }

// TellUser passes a message to a user actor of the shard, which is spawned when it does not live.
type TellUser struct {
	User    board.UserID
	Message UserMessage
}

// TellUsers passes a message to every user actor of the shard that lives.
type TellUsers struct{ Message UserMessage }

// SendCharges sends charges to the region that runs their block. Answer: TilesPlaced.
type SendCharges struct{ Message PlaceTiles }

// LoadShard asks the store for the head. Answer: ShardLoaded.
type LoadShard struct{ Generation uint64 }

// ReadRow asks the store for a user's row. Answer: RowRead.
type ReadRow struct {
	Generation uint64
	User       board.UserID
}

// TakeSlot asks for a store slot. Answer: SlotGranted.
type TakeSlot struct{}

// MakeCommit gives a sealed commit to the store, with the slot. Answer: CommitDone.
type MakeCommit struct{ Commit *store.Commit }

// DropSlot gives an unused slot back.
type DropSlot struct{}

// ForwardToOwner sends a user's message on to the owner named in the head.
type ForwardToOwner struct {
	Address string
	User    board.UserID
	Message UserMessage
}

// ShardInForce says that settings are in force in the shard.
type ShardInForce struct {
	Shard   int
	Version uint64
	// OpenOlder counts the open charges made under older settings.
	OpenOlder int
}

// ShardNeedsSettings asks for newer settings: an owner with newer ones has committed.
type ShardNeedsSettings struct{ Version uint64 }

// StopUsers ends the user actors of the shard once they have done what they have got: they live on another node from now on.
type StopUsers struct{}

func (ShardNeedsSettings) shardEffect() {}
func (StopUsers) shardEffect()          {}

// NeedChunk asks the feed for a chunk's tiles, for an operator's job. Answer: ChunkRead.
type NeedChunk struct{ Chunk board.ChunkID }

// NeedPlan asks what a roll-back has to write in a chunk. Answer: ChunkPlanned.
type NeedPlan struct {
	Job    board.Job
	Number uint64
	Undoes uint64 // the number of the job that it undoes, 0 for none
	Chunk  board.ChunkID
}

// ReportProblem says that stored data could not be used. The shell logs and counts it.
type ReportProblem struct {
	What string
	Err  error
}

func (ReportProblem) shardEffect()  {}
func (TellUser) shardEffect()       {}
func (TellUsers) shardEffect()      {}
func (SendCharges) shardEffect()    {}
func (LoadShard) shardEffect()      {}
func (ReadRow) shardEffect()        {}
func (TakeSlot) shardEffect()       {}
func (MakeCommit) shardEffect()     {}
func (DropSlot) shardEffect()       {}
func (ForwardToOwner) shardEffect() {}
func (ShardInForce) shardEffect()   {}
func (NeedChunk) shardEffect()      {}
func (NeedPlan) shardEffect()       {}
