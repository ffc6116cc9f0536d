// Package store declares how placed keeps a board: guarded partitions that change only by numbered conditional commits,
// and derived data (block snapshots) that plain writes may replace at any time.
//
// The store is the referee (I1, I2, I4): whatever actors believe, two owners of one partition cannot both make version n.
// store/pebble, store/cassandra and store/mem implement Store; store/storetest is the suite that all of them pass.
package store

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/placed-board/placed/board"
)

// Class is the class of a partition.
type Class uint8

// The classes of partitions.
const (
	ClassShard    Class = 1 // rows by user (ops: by job), replaced in place
	ClassBlock    Class = 2 // a journal: one row a commit, kept for ever
	ClassSettings Class = 3 // a journal of settings versions
	ClassInvites  Class = 4 // a journal of invites: made, taken, revoked
)

// Partition names one guarded piece of the store.
type Partition struct {
	Class Class
	Index uint16 // shard 0..64, board.BlockID, or 0
}

// Shard returns the partition of a shard.
func Shard(index int) Partition { return Partition{ClassShard, uint16(index)} }

// Block returns the partition of a block.
func Block(id board.BlockID) Partition { return Partition{ClassBlock, uint16(id)} }

// Settings returns the partition of the settings.
func Settings() Partition { return Partition{Class: ClassSettings} }

// Invites returns the partition of the invites.
func Invites() Partition { return Partition{Class: ClassInvites} }

// String returns the partition's name, as "shard/17".
func (p Partition) String() string {
	switch p.Class {
	case ClassShard:
		return fmt.Sprintf("shard/%d", p.Index)
	case ClassBlock:
		return fmt.Sprintf("block/%d/%d", board.BlockID(p.Index).Col(), board.BlockID(p.Index).Row())
	case ClassSettings:
		return "settings"
	case ClassInvites:
		return "invites"
	}
	return fmt.Sprintf("class%d/%d", p.Class, p.Index)
}

// Owner tells who made a commit.
type Owner struct {
	Address         string // where the owner's node is reached; at most 128 bytes
	Incarnation     uint64 // of the owner's process
	SettingsVersion uint64 // in force in the commit
}

// Head is what every commit of a partition rewrites. The zero Head stands for a partition without commits.
type Head struct {
	Version uint64 // number of the newest commit, from 1
	Attempt uint64 // its attempt id: random, one per sealed commit, never 0
	Owner   Owner
	State   []byte // a shard: its encoded ShardState; a block and settings: empty
}

// Row is one row of a commit.
type Row struct {
	Key   string // a shard: the user or the job; a journal: empty
	Value []byte
}

// Limits of a commit.
const (
	CommitRowBytesMax = 32 << 10 // the values of all rows of a commit together
	CommitRowsMax     = 256
	RowKeyBytesMax    = 128
	HeadStateBytesMax = 512 * 112
	BucketCommits     = 4096 // commits of a journal in one storage partition
	OwnerAddressMax   = 128
	SnapshotBytesMax  = 1 << 20
	FormatVersion     = 2 // of everything stored; a store with another one is refused
)

// Commit is one sealed conditional write: the partition's version becomes Head.Version if it is Head.Version-1. Once sealed
// neither its bytes nor its attempt id change.
type Commit struct {
	Partition Partition
	Head      Head
	Rows      []Row // a journal: exactly one
}

// Result is the known outcome of a commit.
type Result struct {
	Applied bool
	Head    Head // when not applied: the head found, which may carry this very attempt
}

// Errors that callers tell apart.
var (
	// ErrUnknown wraps every failure after which a commit may or may not have been applied, now or later.
	ErrUnknown = errors.New("outcome unknown")
	// ErrNotFound says that there is no such row, snapshot or board.
	ErrNotFound = errors.New("not found")
	// ErrCorrupt says that stored bytes fail their checksum or do not decode.
	ErrCorrupt = errors.New("corrupt data")
	// ErrFormat says that the data was written by another placed, in a format that this one does not know.
	ErrFormat = errors.New("data format is not that of this placed")
	// ErrLocked says that another process uses the data.
	ErrLocked = errors.New("data is in use by another process")
	// ErrExists says that the board was created already.
	ErrExists = errors.New("board exists")
	// ErrInvalid says that a call breaks the rules of Commit or Snapshot: a fault in the caller. Nothing was sent.
	ErrInvalid = errors.New("invalid call")
	// ErrFull says that there is no space left for data. Nothing was sent: try again later.
	ErrFull = errors.New("no space left for data")
	// ErrBusy says that what was asked for is under way already, for somebody else.
	ErrBusy = errors.New("busy")
	// ErrClosed says that the store was closed before the call. Nothing was sent.
	ErrClosed = errors.New("store is closed")
)

// Meta describes the board for its whole life.
type Meta struct {
	Format      int    `json:"format"`
	Epoch       uint64 `json:"epoch"` // random, new at creation, restore and import
	Shards      int    `json:"shards"`
	DataCentre  string `json:"data_centre,omitempty"`
	CreatedAtMs int64  `json:"created_at_ms"`
}

// Snapshot is a block's derived state at a version.
type Snapshot struct {
	Version uint64
	Data    []byte // an encoded BlockState; the store adds and checks a CRC
}

// Health is what a store says of its ability to take writes.
type Health struct {
	FreeBytes uint64 // left for the store's data; 0 when not known
	Tight     bool   // so little is left that new charges are refused and only open ones land
	Err       error  // why writes cannot succeed at the moment, or nil
}

// Store keeps one board. All methods may be called from many goroutines.
type Store interface {
	// Meta returns the board's description, or ErrNotFound before Create.
	Meta(ctx context.Context) (Meta, error)
	// Create writes the description of a board that does not exist yet, conditionally: ErrExists when another one won.
	Create(ctx context.Context, m Meta) error

	// Commit makes one conditional write. A nil error gives a known result. An error that wraps ErrUnknown means that the
	// commit may have been applied, or may yet be: send the same commit again. With any other error this call has sent
	// nothing and never will: ErrInvalid (a fault in the caller), ErrFull, ErrClosed, or ctx was done before the start.
	// Earlier sends of the same commit are a matter of their own. The store keeps no reference to c after it returns.
	Commit(ctx context.Context, c *Commit) (Result, error)
	// Head returns the newest head of a partition, linearizable with commits; the zero Head when there is none.
	Head(ctx context.Context, p Partition) (Head, error)
	// Row returns a shard's row, linearizable with commits, or ErrNotFound.
	Row(ctx context.Context, p Partition, key string) ([]byte, error)
	// Rows yields a shard's rows by ascending key. Each page is consistent, the whole is not.
	Rows(ctx context.Context, p Partition) iter.Seq2[Row, error]
	// Journal yields a journal's commits with versions >= from, ascending and without gap, up to the newest at the call.
	Journal(ctx context.Context, p Partition, from uint64) iter.Seq2[JournalEntry, error]

	// Blocks returns the blocks that have ever had a commit, in ascending order.
	Blocks(ctx context.Context) ([]board.BlockID, error)
	// PutSnapshot stores a block's snapshot; at least the two newest are kept.
	PutSnapshot(ctx context.Context, b board.BlockID, s Snapshot) error
	// Snapshot returns the block's newest valid snapshot with a version <= most, or ErrNotFound. Corrupt ones are skipped.
	Snapshot(ctx context.Context, b board.BlockID, most uint64) (Snapshot, error)

	// Health tells whether writes can succeed. It is cheap: called once a second.
	Health(ctx context.Context) Health
	// Capabilities tells what this store can and cannot do.
	Capabilities() Capabilities
	// Close waits for running calls and releases everything.
	Close() error
}

// Checkpointer is a Store that can set all of its data aside as it is at one moment.
type Checkpointer interface {
	// Checkpoint fills a directory with a whole store, which does not change any more; release removes it. One at a time.
	Checkpoint(ctx context.Context) (dir string, release func() error, err error)
}

// JournalEntry is one commit of a journal.
type JournalEntry struct {
	Version uint64
	Value   []byte
}

// Capabilities tells the callers how to use a store.
type Capabilities struct {
	Name  string // "pebble", "cassandra", "mem"
	Slots int    // commits in flight per node that serve it best
	// Shared is true when several nodes may use the store at once.
	Shared bool
}
