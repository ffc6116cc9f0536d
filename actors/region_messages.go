package actors

import (
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// RegionMessage is what a region actor understands. Every message names a block; the receiver knows by its own newest
// settings which region runs it.
//
//sumtype:decl
type RegionMessage interface{ regionMessage() }

// PlaceTiles brings charges of one shard for one block. From: a shard, again until it hears TilesPlaced. Crosses nodes.
type PlaceTiles struct {
	Shard           int
	Block           board.BlockID
	Floor           uint64 // every ticket of the shard for the block below this commit is placed
	Charges         []store.Charge
	SettingsVersion uint64
	From            string // address of the shard's node
	Forwarded       bool   // by the loser of a duel: serve it
}

// BlockLoaded brings a block from the store. From: the store.
type BlockLoaded struct {
	Block      board.BlockID
	Generation uint64
	Head       store.Head
	State      *store.BlockState // replayed up to its own Version, which is at least Head.Version
	// SnapshotVersion is of the snapshot that the replay began with; 0 for none.
	SnapshotVersion uint64
	Failed          bool
}

// BlockSlotGranted says that the store takes a commit of the block now. From: the node's slots.
type BlockSlotGranted struct{ Block board.BlockID }

// BlockCommitDone tells the fate of a block's commit. From: the store.
type BlockCommitDone struct {
	Block   board.BlockID
	Attempt uint64
	Result  store.Result
}

// SnapshotDone tells that a block's snapshot was written, or was not. From: the store.
type SnapshotDone struct {
	Block   board.BlockID
	Version uint64
	Failed  bool
}

// TouchBlock asks that the block be loaded and announced. From: the system at start, the feed.
type TouchBlock struct{ Block board.BlockID }

// PullBlock asks for the block's chunks as they stand. From: a feed that sees a gap. Answer: BlockImages to that feed. Crosses
// nodes.
type PullBlock struct {
	Block board.BlockID
	From  string // address of the feed's node; "" for this one
}

// GetTile asks which commit placed a tile last. From: an HTTP request. Answer: TileKnown.
type GetTile struct {
	At    board.Point
	Reply func(TileKnown) // must not block
}

// SnapshotBlocks asks for snapshots of every block that changed since its last one. From: the system on a clean stop.
type SnapshotBlocks struct{ Reply func() }

func (PlaceTiles) regionMessage()       {}
func (BlockLoaded) regionMessage()      {}
func (BlockSlotGranted) regionMessage() {}
func (BlockCommitDone) regionMessage()  {}
func (SnapshotDone) regionMessage()     {}
func (TouchBlock) regionMessage()       {}
func (PullBlock) regionMessage()        {}
func (GetTile) regionMessage()          {}
func (SnapshotBlocks) regionMessage()   {}

// TileKnown answers GetTile.
type TileKnown struct {
	OK      bool // false: the block could not be loaded
	Colour  board.Colour
	Version uint64 // the block's commit that placed the tile last; 0: nobody has
}

// RegionEffect is what a block core wants done.
//
//sumtype:decl
type RegionEffect interface{ regionEffect() }

// AnswerShard tells a shard which tickets are placed.
type AnswerShard struct {
	To      string // address of the shard's node
	Message TilesPlaced
}

// LoadBlock asks the store for a block. Answer: BlockLoaded.
type LoadBlock struct {
	Block      board.BlockID
	Generation uint64
}

// TakeBlockSlot asks for a store slot. Answer: BlockSlotGranted.
type TakeBlockSlot struct{ Block board.BlockID }

// MakeBlockCommit gives a sealed commit to the store, with the slot. Answer: BlockCommitDone.
type MakeBlockCommit struct {
	Block  board.BlockID
	Commit *store.Commit
}

// DropBlockSlot gives an unused slot back.
type DropBlockSlot struct{}

// Publish gives committed placements to the feed.
type Publish struct{ Message TilesApplied }

// PublishImages gives a block's chunks to the feed of the node that asked, or, when To is "", to this node's: then other
// nodes only hear of how many placements there are.
type PublishImages struct {
	To      string
	Message BlockImages
}

// WriteSnapshot gives a snapshot to the store. Answer: SnapshotDone.
type WriteSnapshot struct {
	Block    board.BlockID
	Snapshot store.Snapshot
}

// ForwardCharges sends charges on to the owner named in the head.
type ForwardCharges struct {
	Address string
	Message PlaceTiles
}

// RegionNeedsSettings asks for newer settings: an owner with newer ones has committed.
type RegionNeedsSettings struct{ Version uint64 }

func (RegionNeedsSettings) regionEffect() {}

func (AnswerShard) regionEffect()     {}
func (LoadBlock) regionEffect()       {}
func (TakeBlockSlot) regionEffect()   {}
func (MakeBlockCommit) regionEffect() {}
func (DropBlockSlot) regionEffect()   {}
func (Publish) regionEffect()         {}
func (PublishImages) regionEffect()   {}
func (WriteSnapshot) regionEffect()   {}
func (ForwardCharges) regionEffect()  {}
