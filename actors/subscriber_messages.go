package actors

import (
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// SubscriberMessage is what a subscriber actor understands. It never crosses nodes, except Answered and StatusChanged, which
// a user actor of another node may send.
//
//sumtype:decl
type SubscriberMessage interface{ subscriberMessage() }

// SessionOpened hands a connection over. From: transport. Answer: Hello on the connection.
type SessionOpened struct {
	Session wire.SessionID
	Conn    wire.Conn
	User    board.UserID // "" for a spectator
}

// SessionClosed says that the connection is gone. From: transport.
type SessionClosed struct{ Session wire.SessionID }

// SessionSent brings a decoded message of a client, all but Place. From: transport.
type SessionSent struct {
	Session wire.SessionID
	Message wire.ClientMessage
}

// FrameMade brings a tick's frame. From: the feed.
type FrameMade struct {
	Tick     uint64
	Whole    wire.Sealed    // for sessions of the whole board
	Sections []wire.Section // for the others
	Marks    []ChunkMark    // the chunks of the frame, ascending
	Hashes   board.Hashes   // of the whole board
}

// ChunkMark tells where a chunk of a frame stands.
type ChunkMark struct {
	Chunk    board.ChunkID
	Before   uint64 // sequence before the frame
	Sequence uint64 // and after
	Tiles    uint64 // hash of its tiles
}

// SettingsTold brings new settings, in force for frames after Tick. From: the feed.
type SettingsTold struct {
	Tick   uint64
	Rules  *Rules
	Sealed wire.Sealed
	Table  []ChunkMark // every chunk that meets the new board and has placements
	Hashes board.Hashes
}

// TableMade answers GetTable. From: the feed.
type TableMade struct {
	Tick   uint64
	Rules  *Rules
	Table  []ChunkMark
	Hashes board.Hashes
}

// RepairMade answers GetRepair: a frame that brings the chunks to the newest frame. From: the feed.
type RepairMade struct {
	Session wire.SessionID
	Ask     uint64 // of GetRepair
	Chunks  []wire.ChunkAt
	Sealed  wire.Sealed // empty: nothing to repair
}

// ResumeMade answers GetResume. From: the feed.
type ResumeMade struct {
	Session  wire.SessionID
	OK       bool
	Tick     uint64
	Messages []wire.Sealed
}

// Answered brings the answer to a placement. From: a user actor.
type Answered struct {
	Session  wire.SessionID
	Outcome  board.PlaceOutcome
	Coloured bool // the feed was asked for the true colour of a refusal; it may know none
}

// StatusChanged brings the user's turn and cooldown. From: a user actor.
type StatusChanged struct {
	Session wire.SessionID
	Status  board.UserStatus
}

// RegisterAgain asks to register the sessions of a shard's users again: their actors have forgotten them. From: a shard or user
// actor that started again.
type RegisterAgain struct{ Shard int }

// SubscriberTick lets time pass. From: the subscriber's timer.
type SubscriberTick struct{ Online int }

func (SessionOpened) subscriberMessage()  {}
func (SessionClosed) subscriberMessage()  {}
func (SessionSent) subscriberMessage()    {}
func (FrameMade) subscriberMessage()      {}
func (SettingsTold) subscriberMessage()   {}
func (TableMade) subscriberMessage()      {}
func (RepairMade) subscriberMessage()     {}
func (ResumeMade) subscriberMessage()     {}
func (Answered) subscriberMessage()       {}
func (StatusChanged) subscriberMessage()  {}
func (RegisterAgain) subscriberMessage()  {}
func (SubscriberTick) subscriberMessage() {}

// SubscriberEffect is what a subscriber core wants done.
//
//sumtype:decl
type SubscriberEffect interface{ subscriberEffect() }

// ToFeed gives a message to the node's feed.
type ToFeed struct{ Message FeedMessage }

// ToShard gives a message to the shard of a user.
type ToShard struct {
	User    board.UserID
	Message UserMessage
}

func (ToFeed) subscriberEffect()  {}
func (ToShard) subscriberEffect() {}
