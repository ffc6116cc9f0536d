package store_test

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// drawJournal makes a block's journal: sequences without gaps, floors that rise, tickets above and below them.
func drawJournal(t *rapid.T, block board.BlockID) []store.BlockCommit {
	sequences := map[board.ChunkID]uint64{}
	journal := make([]store.BlockCommit, rapid.IntRange(1, 12).Draw(t, "commits"))
	for i := range journal {
		c := &journal[i]
		for range rapid.IntRange(0, 2).Draw(t, "floors") {
			c.Floors = append(c.Floors, store.Floor{Shard: rapid.Uint8Range(0, 2).Draw(t, "shard"), Commit: rapid.Uint64Range(0, 30).Draw(t, "floor")})
		}
		for range rapid.IntRange(0, 6).Draw(t, "placements") {
			p := drawPlacement(t)
			p.Chunk = block.Chunk(rapid.IntRange(0, board.BlockChunks-1).Draw(t, "slot"))
			p.Tile = rapid.Uint16Range(0, 9).Draw(t, "tile")
			p.Ticket = board.Ticket{Shard: rapid.Uint8Range(0, 2).Draw(t, "shard"), Commit: rapid.Uint64Range(0, 40).Draw(t, "commit"), Index: rapid.Uint16Range(0, 3).Draw(t, "index")}
			sequences[p.Chunk]++
			p.Sequence = sequences[p.Chunk]
			c.Placements = append(c.Placements, p)
		}
	}
	return journal
}

func replay(t interface{ Fatalf(string, ...any) }, s *store.BlockState, journal []store.BlockCommit, from int) {
	for i := from; i < len(journal); i++ {
		if err := s.Apply(uint64(i+1), &journal[i]); err != nil {
			t.Fatalf("entry %d: %v", i+1, err)
		}
	}
}

// TestSnapshotAndTail checks that a snapshot at any version with the entries after it is the whole journal (I6).
func TestSnapshotAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := board.NewBlockID(rapid.IntRange(0, 99).Draw(t, "col"), rapid.IntRange(0, 99).Draw(t, "row"))
		journal := drawJournal(t, block)
		whole := store.NewBlockState()
		replay(t, whole, journal, 0)
		cut := rapid.IntRange(0, len(journal)).Draw(t, "cut")
		head := store.NewBlockState()
		replay(t, head, journal[:cut], 0)
		restored, err := store.DecodeBlockState(head.AppendTo(nil))
		if err != nil || !reflect.DeepEqual(restored, head) {
			t.Fatalf("snapshot at %d: %v, or it changed", cut, err)
		}
		replay(t, restored, journal, cut)
		if !reflect.DeepEqual(restored, whole) {
			t.Fatalf("snapshot at %d with its tail is not the whole journal:\n%+v\n%+v", cut, restored, whole)
		}
		if a, b := restored.AppendTo(nil), whole.AppendTo(nil); !bytes.Equal(a, b) {
			t.Fatal("equal states with different bytes")
		}
		checkState(t, whole, journal)
	})
}

// checkState compares a state with the journal by formulas that know nothing of Apply.
func checkState(t *rapid.T, s *store.BlockState, journal []store.BlockCommit) {
	floors := map[uint8]uint64{}
	last := map[board.ChunkID]map[uint16]board.Placement{}
	versions := map[board.ChunkID]map[uint16]uint64{}
	seen := map[board.Ticket]store.SeenPlacement{}
	for i, c := range journal {
		for _, f := range c.Floors {
			floors[f.Shard] = max(floors[f.Shard], f.Commit)
		}
		for _, p := range c.Placements {
			if last[p.Chunk] == nil {
				last[p.Chunk], versions[p.Chunk] = map[uint16]board.Placement{}, map[uint16]uint64{}
			}
			last[p.Chunk][p.Tile], versions[p.Chunk][p.Tile] = p, uint64(i+1)
			if p.Kind != board.KindImport && p.Ticket.Commit >= floors[p.Ticket.Shard] {
				seen[p.Ticket] = store.SeenPlacement{Chunk: p.Chunk, Sequence: p.Sequence, Version: uint64(i + 1)}
			}
		}
	}
	for k := range seen {
		if k.Commit < floors[k.Shard] {
			delete(seen, k)
		}
	}
	for chunk, tiles := range last {
		got := s.Chunks[chunk.Slot()]
		for tile, p := range tiles {
			if got.Tiles[tile] != p.Colour || got.Versions[tile] != versions[chunk][tile] {
				t.Fatalf("chunk %d tile %d: colour %d version %d, want %d and %d", chunk, tile, got.Tiles[tile], got.Versions[tile], p.Colour, versions[chunk][tile])
			}
		}
	}
	n := 0
	for shard, tickets := range s.Shards {
		if tickets.Floor != floors[shard] {
			t.Fatalf("shard %d: floor %d, want %d", shard, tickets.Floor, floors[shard])
		}
		n += len(tickets.Seen)
		for k, v := range tickets.Seen {
			if want := seen[board.Ticket{Shard: shard, Commit: k.Commit, Index: k.Index}]; v != want {
				t.Fatalf("ticket %d/%d/%d seen at %+v, want %+v", shard, k.Commit, k.Index, v, want)
			}
		}
	}
	if n != len(seen) {
		t.Fatalf("%d tickets seen, want %d", n, len(seen))
	}
}

func TestApplyRefusesGaps(t *testing.T) {
	entry := func(sequence uint64) *store.BlockCommit {
		return &store.BlockCommit{Placements: []board.Placement{{Chunk: 0, Sequence: sequence, User: "ada", Ticket: board.Ticket{Commit: sequence}}}}
	}
	s := store.NewBlockState()
	for _, bad := range []struct{ version, sequence uint64 }{{2, 1}, {0, 1}, {1, 2}, {1, 0}} {
		if err := s.Apply(bad.version, entry(bad.sequence)); !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("entry %d with sequence %d on an empty state: %v, want ErrCorrupt", bad.version, bad.sequence, err)
		}
	}
	if err := store.NewBlockState().Apply(1, entry(1)); err != nil {
		t.Fatal(err)
	}
}

// TestLargestSnapshot checks that a block with everything it can remember fits the store.
func TestLargestSnapshot(t *testing.T) {
	const ticketsMax = 256 // of a shard for a block at or above its floor
	s := store.NewBlockState()
	s.Version = 1 << 40
	for slot := range s.Chunks {
		c := &store.ChunkState{Sequence: 1 << 42}
		for i := range c.Tiles {
			c.Tiles[i], c.Versions[i] = 255, 1
		}
		s.Chunks[slot] = c
	}
	for shard := range board.Shards {
		tickets := s.Shard(uint8(shard))
		tickets.Floor = 1 << 42
		for i := range ticketsMax {
			tickets.Seen[store.SeenTicket{Commit: 1<<42 + uint64(i), Index: math.MaxUint16}] = store.SeenPlacement{Chunk: board.NewChunkID(199, 199), Sequence: 1 << 42, Version: 1}
		}
	}
	b := s.AppendTo(nil)
	if len(b) > store.SnapshotBytesMax {
		t.Fatalf("%d bytes, a snapshot may have %d", len(b), store.SnapshotBytesMax)
	}
	if got, err := store.DecodeBlockState(b); err != nil || !reflect.DeepEqual(got, s) {
		t.Fatalf("it does not survive its encoding: %v", err)
	}
}

func TestPartitionNames(t *testing.T) {
	for want, p := range map[string]store.Partition{
		"shard/17": store.Shard(17), "block/3/99": store.Block(board.NewBlockID(3, 99)), "settings": store.Settings(), "class9/1": {Class: 9, Index: 1},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
