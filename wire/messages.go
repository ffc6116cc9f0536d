// Package wire encodes and decodes the binary websocket protocol of placed, both ways, and the packed board body of HTTP.
// docs/protocol.md describes every byte; wire/testdata holds golden messages that the Go and the TypeScript tests share.
//
// A message is one websocket binary frame. Its first byte is its type. Numbers are unsigned LEB128 varints unless said
// otherwise, fixed-width numbers are little-endian.
package wire

import "github.com/placed-board/placed/board"

// Protocol is the version of the websocket protocol, sent in Hello.
const Protocol = 1

// Limits of messages.
const (
	// ClientMessageBytesMax is the largest message that a client may send.
	ClientMessageBytesMax = 1024
	// RepairChunksMax is the most chunks that one Repair may name; it keeps the message within ClientMessageBytesMax.
	RepairChunksMax = 100
	// SubscribeChunksMax is the most chunks of one Subscribe that is not for the whole board.
	SubscribeChunksMax = 1600
	// HashesChunksMax is the most chunks that one GetHashes may name.
	HashesChunksMax = 400
)

// ClientMessage is a message from a client: *Subscribe, *Place, *Repair or *GetHashes.
//
//sumtype:decl
type ClientMessage interface{ clientMessage() }

// ChunkRect is a rectangle of chunks: column and row of the first, columns and rows.
type ChunkRect struct{ Col, Row, Cols, Rows int }

// Subscribe asks for frames of the whole board or of a rectangle of chunks. It replaces the session's subscription. The
// answer is Base, or with a Resume that the node can serve the frames since then and a Base with Resumed set.
type Subscribe struct {
	Whole  bool
	Chunks ChunkRect // when not Whole
	Resume *Resume   // nil: a client without a board
}

// Resume names the last frame that a client has applied.
type Resume struct {
	Epoch       uint64
	Incarnation uint64
	Tick        uint64
}

// Place asks for a placement. The user is the session's. X and Y are signed on the wire so that a client's -1 arrives as -1.
type Place struct {
	Turn   uint64 // 0: whatever the user's turn is
	Nonce  uint64
	X, Y   int
	Colour int // 0..255; larger values are refused as an unknown colour
}

// Repair names chunks that are behind Base, with the sequence that the client holds of each. The answer is Frame messages
// with runs or images that bring each chunk to where the session's next frames continue.
type Repair struct{ Chunks []ChunkAt }

// GetHashes asks for the hashes of chunks, to find where a board differs. An empty rectangle asks for none.
type GetHashes struct{ Chunks ChunkRect }

func (*Subscribe) clientMessage() {}
func (*Place) clientMessage()     {}
func (*Repair) clientMessage()    {}
func (*GetHashes) clientMessage() {}

// ChunkAt is a chunk at a sequence number.
type ChunkAt struct {
	Chunk    board.ChunkID
	Sequence uint64
}

// ServerMessage is a message from a node: *Hello, *Base, *Frame, *Heartbeat, *Me, *Placed, *SettingsChanged, *ChunkHashes,
// *Notice or *Move.
//
//sumtype:decl
type ServerMessage interface{ serverMessage() }

// Hello is the first message of a session.
type Hello struct {
	Protocol     int
	Epoch        uint64
	Incarnation  uint64
	Tick         uint64 // of the newest frame
	ServerTimeMs int64
	HeartbeatMs  int64
	Settings     board.Settings
	User         board.UserID // "" when not signed in
	Known        bool         // Turn and WaitMs are valid; otherwise a Me follows
	Turn         uint64
	WaitMs       int64
}

// Base answers Subscribe: frames after Tick follow, and the named chunks stand at these sequences at Tick. Chunks without
// placements are left out.
type Base struct {
	Tick    uint64
	Resumed bool // the frames after Resume.Tick have been sent: nothing to fetch or repair
	Chunks  []ChunkAt
}

// SectionKind tells what a section of a frame does to its chunk.
type SectionKind uint8

// The kinds of sections.
const (
	SectionRun   SectionKind = 0 // every placement in order: the sequence advances by the number of tiles
	SectionPatch SectionKind = 1 // only the last colour of each tile: the sequence advances by Advance
	SectionSet   SectionKind = 2 // the whole chunk as it stands at Sequence
)

// Tile is one tile of a section: index in the chunk and colour.
type Tile struct {
	Index  uint16
	Colour board.Colour
}

// Section changes one chunk.
type Section struct {
	Chunk    board.ChunkID
	Kind     SectionKind
	Width    board.Width // of the colours in this section
	Tiles    []Tile      // run and patch
	Advance  uint64      // patch
	Sequence uint64      // set: of the image; run and patch of a repair frame: what the chunk stands at before them
	Image    []byte      // set: Width.ImageBytes() bytes
}

// Frame is what happened in one tick; a Frame with Repair set answers a repair and belongs to no tick of its own.
type Frame struct {
	Tick     uint64
	Repair   bool
	Sections []Section // ascending by chunk, at most one each
}

// Heartbeat proves what was sent: the XOR over the session's chunks of the hashes at Tick.
type Heartbeat struct {
	Tick         uint64
	ServerTimeMs int64
	Online       uint64 // people online, over all nodes
	Hashes       board.Hashes
}

// Me tells a session its user's turn and how long until it may be used.
type Me struct {
	Turn          uint64
	WaitMs        int64
	BannedUntilMs int64
}

// Placed answers a Place, and tells a user's other sessions of it. Turn, Nonce and At name the placement.
type Placed struct{ board.PlaceOutcome }

// SettingsChanged says that new settings are in force for frames after Tick.
type SettingsChanged struct {
	Tick     uint64
	Settings board.Settings
}

// ChunkHash is one chunk's hash of tiles at a sequence.
type ChunkHash struct {
	Chunk    board.ChunkID
	Sequence uint64
	Tiles    uint64
}

// ChunkHashes answers GetHashes; chunks without placements are left out.
type ChunkHashes struct {
	Tick   uint64
	Chunks []ChunkHash
}

// Notice says that the last message was not acted on.
type Notice struct {
	Code    board.Code
	RetryMs int64
	Detail  string // for developers, at most 200 bytes
}

// Move asks the client to connect to another node within a time.
type Move struct{ WithinMs int64 }

func (*Hello) serverMessage()           {}
func (*Base) serverMessage()            {}
func (*Frame) serverMessage()           {}
func (*Heartbeat) serverMessage()       {}
func (*Me) serverMessage()              {}
func (*Placed) serverMessage()          {}
func (*SettingsChanged) serverMessage() {}
func (*ChunkHashes) serverMessage()     {}
func (*Notice) serverMessage()          {}
func (*Move) serverMessage()            {}
