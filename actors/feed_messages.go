package actors

import (
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// FeedMessage is what a feed actor understands.
//
//sumtype:decl
type FeedMessage interface{ feedMessage() }

// TilesApplied brings committed placements of a block. From: a region, by way of its node's feed. Crosses nodes.
type TilesApplied struct {
	Block   board.BlockID
	Version uint64
	Tiles   []AppliedTile // each chunk's ascending by sequence
}

// AppliedTile is one committed placement as the feed needs it.
type AppliedTile struct {
	Chunk    board.ChunkID
	Tile     uint16
	Colour   board.Colour
	Kind     board.Kind
	Sequence uint64
	User     board.UserID
}

// BlockImages brings a block's chunks as they stand. From: a region, once it has loaded the block or was asked. Crosses nodes.
type BlockImages struct {
	Block   board.BlockID
	Version uint64
	Chunks  []ChunkImage // only chunks with placements
}

// ChunkImage is a chunk at a sequence.
type ChunkImage struct {
	Chunk    board.ChunkID
	Sequence uint64
	Tiles    *board.Tiles // not changed after sending
}

// blocksCounted brings digests of blocks of another node. From: that node, once a second. What is missing is pulled.
type blocksCounted struct{ blocks []blockCount }

// countBlocks asks for digests of the blocks that this node owns. From: the system, once a second.
type countBlocks struct{ reply func([]blockCount) }

func (blocksCounted) feedMessage() {}
func (countBlocks) feedMessage()   {}

// FeedTick asks for the next frame. From: the feed's timer.
type FeedTick struct{}

// FeedSettings brings newer settings; they take effect with the next frame. From: the settings actor.
type FeedSettings struct{ Rules *Rules }

// GetRepair asks for sections that bring chunks up to the newest frame. From: a subscriber. Answer: RepairMade.
type GetRepair struct {
	Subscriber int
	Session    wire.SessionID
	Ask        uint64 // the subscriber's number of this question; 0: the client asks
	Chunks     []wire.ChunkAt
}

// GetResume asks for the frames after a tick. From: a subscriber. Answer: ResumeMade.
type GetResume struct {
	Subscriber int
	Session    wire.SessionID
	Tick       uint64
}

// GetTable asks where every chunk stands. From: a subscriber that starts. Answer: TableMade.
type GetTable struct{ Subscriber int }

// GetColour asks to fill the true colour of its tile into a refusal. From: a subscriber. Answer: Answered.
type GetColour struct {
	Subscriber int
	Answered   Answered
}

// GetBody asks for the packed board as of the newest frame. From: an HTTP request.
type GetBody struct{ Reply func(PublishedBody) } // must not block

// GetTiles asks for one chunk's tiles with everything received. From: an HTTP request, the ops shard.
type GetTiles struct {
	Chunk board.ChunkID
	Reply func(ChunkImage) // Tiles nil for a chunk without placements; must not block
}

func (TilesApplied) feedMessage() {}
func (BlockImages) feedMessage()  {}
func (FeedTick) feedMessage()     {}
func (FeedSettings) feedMessage() {}
func (GetRepair) feedMessage()    {}
func (GetResume) feedMessage()    {}
func (GetTable) feedMessage()     {}
func (GetColour) feedMessage()    {}
func (GetBody) feedMessage()      {}
func (GetTiles) feedMessage()     {}

// PublishedBody is the encoded board body as of a tick. Nobody changes it.
type PublishedBody struct {
	Tick uint64
	Body []byte
}

// FeedEffect is what a feed core wants done.
//
//sumtype:decl
type FeedEffect interface{ feedEffect() }

// ToSubscribers gives a message to every subscriber of the node.
type ToSubscribers struct{ Message SubscriberMessage }

// ToSubscriber gives a message to one subscriber.
type ToSubscriber struct {
	Subscriber int
	Message    SubscriberMessage
}

// TellWatchers gives what the newest frame shows to those who watch every placement.
type TellWatchers struct {
	Placed []board.PlacedTile // valid until the core's next message
	Lost   bool               // more has happened than Placed says: look at the board
}

// AskBlock asks the region that runs a block for its images. Answer: BlockImages.
type AskBlock struct{ Block board.BlockID }

func (ToSubscribers) feedEffect() {}
func (ToSubscriber) feedEffect()  {}
func (AskBlock) feedEffect()      {}
func (TellWatchers) feedEffect()  {}
