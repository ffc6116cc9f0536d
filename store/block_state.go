package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/placed-board/placed/board"
)

// BlockState is what a block's journal adds up to at a version: the content of a snapshot. Replay of the entries after it
// gives the same state as a replay of the whole journal (I6).
type BlockState struct {
	Version uint64
	Chunks  [board.BlockChunks]*ChunkState // nil for a chunk without placements
	Shards  map[uint8]*ShardTickets
}

// ChunkState is one chunk of a BlockState.
type ChunkState struct {
	Sequence uint64
	Tiles    board.Tiles
	Versions [board.ChunkTiles]uint64 // the block's commit that placed each tile last, 0 for none
}

// ShardTickets is what a block remembers of one shard: the floor, and the tickets at or above it that it has placed.
type ShardTickets struct {
	Floor uint64
	Seen  map[SeenTicket]SeenPlacement
}

// SeenTicket is a ticket without its shard.
type SeenTicket struct {
	Commit uint64
	Index  uint16
}

// SeenPlacement tells where a ticket was placed.
type SeenPlacement struct {
	Chunk    board.ChunkID
	Sequence uint64
	Version  uint64 // the block's commit
}

// NewBlockState returns the state of a block without commits.
func NewBlockState() *BlockState { return &BlockState{Shards: map[uint8]*ShardTickets{}} }

// Shard returns what the block remembers of a shard, making it at first use.
func (s *BlockState) Shard(shard uint8) *ShardTickets {
	t := s.Shards[shard]
	if t == nil {
		t = &ShardTickets{Seen: map[SeenTicket]SeenPlacement{}}
		s.Shards[shard] = t
	}
	return t
}

// Raise lifts the floor and forgets the tickets below it; a lower commit changes nothing.
func (t *ShardTickets) Raise(commit uint64) {
	if commit <= t.Floor {
		return
	}
	t.Floor = commit
	for k := range t.Seen {
		if k.Commit < commit {
			delete(t.Seen, k)
		}
	}
}

// Apply adds one journal entry: floors, then every record unconditionally (floors and tickets judge only new messages).
func (s *BlockState) Apply(version uint64, c *BlockCommit) error {
	if version != s.Version+1 {
		return fmt.Errorf("store: journal entry %d after %d: %w", version, s.Version, ErrCorrupt)
	}
	for _, f := range c.Floors {
		s.Shard(f.Shard).Raise(f.Commit)
	}
	for i := range c.Placements {
		p := &c.Placements[i]
		chunk := s.Chunks[p.Chunk.Slot()]
		if chunk == nil {
			chunk = new(ChunkState)
			s.Chunks[p.Chunk.Slot()] = chunk
		}
		if p.Sequence != chunk.Sequence+1 {
			return fmt.Errorf("store: chunk %d: sequence %d after %d: %w", p.Chunk, p.Sequence, chunk.Sequence, ErrCorrupt)
		}
		chunk.Sequence = p.Sequence
		chunk.Tiles[p.Tile] = p.Colour
		chunk.Versions[p.Tile] = version
		if p.Kind == board.KindImport {
			continue
		}
		if t := s.Shard(p.Ticket.Shard); p.Ticket.Commit >= t.Floor {
			t.Seen[SeenTicket{p.Ticket.Commit, p.Ticket.Index}] = SeenPlacement{p.Chunk, p.Sequence, version}
		}
	}
	s.Version = version
	return nil
}

// AppendTo appends the encoded state: of a chunk the tiles by width, and of each tile how many commits ago it was placed.
// Equal states give equal bytes.
func (s *BlockState) AppendTo(b []byte) []byte {
	b = append(b, recordVersion)
	b = binary.AppendUvarint(b, s.Version)
	for _, c := range s.Chunks {
		if c == nil {
			b = append(b, 0)
			continue
		}
		w := board.Width4
		if c.Tiles.Max() > 15 {
			w = board.Width8
		}
		b = append(b, byte(w))
		b = binary.AppendUvarint(b, c.Sequence)
		b = c.Tiles.AppendImage(b, w)
		for _, v := range c.Versions {
			if v == 0 {
				b = append(b, 0)
				continue
			}
			b = binary.AppendUvarint(b, s.Version-v+1)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(s.Shards)))
	for _, shard := range slices.Sorted(maps.Keys(s.Shards)) {
		b = s.Shards[shard].appendTo(append(b, shard), s.Version)
	}
	return b
}

func (t *ShardTickets) appendTo(b []byte, version uint64) []byte {
	b = binary.AppendUvarint(b, t.Floor)
	b = binary.AppendUvarint(b, uint64(len(t.Seen)))
	for _, k := range slices.SortedFunc(maps.Keys(t.Seen), SeenTicket.compare) {
		v := t.Seen[k]
		b = binary.AppendUvarint(b, k.Commit)
		b = binary.AppendUvarint(b, uint64(k.Index))
		b = append(b, byte(v.Chunk), byte(v.Chunk>>8))
		b = binary.AppendUvarint(b, v.Sequence)
		b = binary.AppendUvarint(b, version-v.Version)
	}
	return b
}

func (k SeenTicket) compare(o SeenTicket) int {
	return cmp.Or(cmp.Compare(k.Commit, o.Commit), cmp.Compare(k.Index, o.Index))
}

// DecodeBlockState decodes a snapshot's data; an error wraps ErrCorrupt.
func DecodeBlockState(b []byte) (*BlockState, error) {
	d := decoder{b: b}
	d.version("block state")
	s := NewBlockState()
	s.Version = d.uvarint()
	for slot := range s.Chunks {
		s.Chunks[slot] = d.chunkState(s.Version)
	}
	for n := int(d.upTo(board.Shards)); n > 0 && d.err == nil; n-- {
		t := s.Shard(d.shard())
		t.Floor = d.uvarint()
		for m := int(d.upTo(1 << 20)); m > 0 && d.err == nil; m-- {
			k := SeenTicket{d.uvarint(), uint16(d.upTo(1<<16 - 1))}
			v := SeenPlacement{board.ChunkID(uint16(d.byte()) | uint16(d.byte())<<8), d.uvarint(), s.Version - d.upTo(s.Version)}
			if !v.Chunk.Valid() {
				d.fail("seen chunk outside of every board")
			}
			t.Seen[k] = v
		}
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) chunkState(version uint64) *ChunkState {
	w := board.Width(d.byte())
	if w == 0 || d.err != nil {
		return nil
	}
	c := &ChunkState{Sequence: d.uvarint()}
	if (w != board.Width4 && w != board.Width8) || len(d.b) < w.ImageBytes() {
		d.fail("chunk image")
		return nil
	}
	if err := c.Tiles.SetImage(d.b[:w.ImageBytes()], w); err != nil {
		d.fail(err.Error())
		return nil
	}
	d.b = d.b[w.ImageBytes():]
	for i := range c.Versions {
		if age := d.upTo(version); age != 0 {
			c.Versions[i] = version - age + 1
		}
	}
	return c
}
