package wire

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/placed-board/placed/board"
)

// Lists of chunks ascend strictly: the decoders refuse others. The encoders sort a copy where the caller's list does not
// ascend, and panic on a chunk that is named twice, for no order would make such a list right.

// ascending returns list sorted by chunk; it is list itself, without allocation, when it ascends already.
func ascending[T any](list []T, chunk func(*T) board.ChunkID) []T {
	sorted := true
	for i := 1; i < len(list); i++ {
		sorted = sorted && chunk(&list[i-1]) < chunk(&list[i])
	}
	if sorted {
		return list
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(chunk(&a), chunk(&b)) })
	for i := 1; i < len(list); i++ {
		if chunk(&list[i-1]) == chunk(&list[i]) {
			panic(fmt.Sprintf("wire: chunk %d is named twice in one message", chunk(&list[i])))
		}
	}
	return list
}

// chunkDelta returns what is written for a chunk after the previous one of its list; the first is counted from chunk 0.
func chunkDelta(previous, chunk board.ChunkID) uint64 { return uint64(chunk - previous) }

func appendChunksAt(dst []byte, list []ChunkAt) []byte {
	list = ascending(list, func(c *ChunkAt) board.ChunkID { return c.Chunk })
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	previous := board.ChunkID(0)
	for _, c := range list {
		dst = binary.AppendUvarint(dst, chunkDelta(previous, c.Chunk))
		dst = binary.AppendUvarint(dst, c.Sequence)
		previous = c.Chunk
	}
	return dst
}

func decodeChunksAt(r *reader, chunksMax int) []ChunkAt {
	n := r.count(2)
	if n > chunksMax {
		r.fail("too many chunks")
	}
	if n == 0 || r.err != nil {
		return nil
	}
	list := make([]ChunkAt, n)
	previous := board.ChunkID(0)
	for i := range list {
		c := r.chunkAfter(previous, i == 0, r.uvarint())
		list[i] = ChunkAt{Chunk: c, Sequence: r.uvarint()}
		previous = c
	}
	return list
}

func appendChunkHashes(dst []byte, list []ChunkHash) []byte {
	list = ascending(list, func(c *ChunkHash) board.ChunkID { return c.Chunk })
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	previous := board.ChunkID(0)
	for _, c := range list {
		dst = binary.AppendUvarint(dst, chunkDelta(previous, c.Chunk))
		dst = binary.AppendUvarint(dst, c.Sequence)
		dst = binary.LittleEndian.AppendUint64(dst, c.Tiles)
		previous = c.Chunk
	}
	return dst
}

func decodeChunkHashes(r *reader) []ChunkHash {
	n := r.count(10)
	if n == 0 || r.err != nil {
		return nil
	}
	list := make([]ChunkHash, n)
	previous := board.ChunkID(0)
	for i := range list {
		c := r.chunkAfter(previous, i == 0, r.uvarint())
		list[i] = ChunkHash{Chunk: c, Sequence: r.uvarint(), Tiles: r.u64()}
		previous = c
	}
	return list
}
