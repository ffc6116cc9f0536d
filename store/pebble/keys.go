package pebble

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// The first byte of a key.
const (
	keyMeta     = 'm'
	keyHead     = 'h'
	keyRow      = 'r'
	keyJournal  = 'j'
	keySnapshot = 's'
)

// snapshotSlots is how many snapshots of a block are kept.
const snapshotSlots = 2

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func metaKey() []byte { return []byte{keyMeta} }

func headKey(p store.Partition) []byte {
	return binary.BigEndian.AppendUint16([]byte{keyHead, byte(p.Class)}, p.Index)
}

// headsEnd is the key after all heads of the class.
func headsEnd(c store.Class) []byte { return []byte{keyHead, byte(c) + 1} }

func rowKey(p store.Partition, key string) []byte {
	b := make([]byte, 0, 3+len(key))
	b = binary.BigEndian.AppendUint16(append(b, keyRow), p.Index)
	return append(b, key...)
}

// rowsEnd is the key after all rows of the shard.
func rowsEnd(p store.Partition) []byte {
	return binary.BigEndian.AppendUint16([]byte{keyRow}, p.Index+1)
}

func journalKey(p store.Partition, version uint64) []byte {
	b := make([]byte, 0, 12)
	b = binary.BigEndian.AppendUint16(append(b, keyJournal, byte(p.Class)), p.Index)
	return binary.BigEndian.AppendUint64(b, version)
}

func snapshotKey(b board.BlockID, slot int) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{keySnapshot}, uint16(b)), byte(slot))
}

// headVersion is the first byte of an encoded head.
const headVersion = 1

// encodedHeadMax bounds the encoded head without its state.
const encodedHeadMax = 1 + 2*8 + 3*binary.MaxVarintLen64 + store.OwnerAddressMax

// encodeHead appends the head: its version byte, version, attempt (8), owner (address with its length, incarnation (8),
// settings version), and the state up to the end. Numbers are varints, or little endian where a size is given.
func encodeHead(b []byte, h *store.Head) []byte {
	b = binary.AppendUvarint(append(b, headVersion), h.Version)
	b = binary.LittleEndian.AppendUint64(b, h.Attempt)
	b = binary.AppendUvarint(b, uint64(len(h.Owner.Address)))
	b = append(b, h.Owner.Address...)
	b = binary.LittleEndian.AppendUint64(b, h.Owner.Incarnation)
	b = binary.AppendUvarint(b, h.Owner.SettingsVersion)
	return append(b, h.State...)
}

// decodeHead decodes a head into memory of its own; an error wraps store.ErrCorrupt.
func decodeHead(b []byte) (h store.Head, err error) {
	bad := fmt.Errorf("head: %w", store.ErrCorrupt)
	if len(b) == 0 || b[0] != headVersion {
		return store.Head{}, bad
	}
	b = b[1:]
	number := func() (v uint64) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err, b = bad, nil
			return 0
		}
		b = b[n:]
		return v
	}
	fixed := func() (v uint64) {
		if len(b) < 8 {
			err, b = bad, nil
			return 0
		}
		v, b = binary.LittleEndian.Uint64(b), b[8:]
		return v
	}
	h.Version, h.Attempt = number(), fixed()
	n := number()
	if n > store.OwnerAddressMax || n > uint64(len(b)) {
		return store.Head{}, bad
	}
	h.Owner.Address, b = string(b[:n]), b[n:]
	h.Owner.Incarnation, h.Owner.SettingsVersion = fixed(), number()
	if err != nil {
		return store.Head{}, err
	}
	h.State = append([]byte(nil), b...)
	return h, nil
}

// encodeSnapshot returns the value of a snapshot under its key.
func encodeSnapshot(key []byte, s *store.Snapshot) []byte {
	b := make([]byte, 4, 12+len(s.Data))
	b = binary.LittleEndian.AppendUint64(b, s.Version)
	b = append(b, s.Data...)
	binary.LittleEndian.PutUint32(b, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, b[4:]))
	return b
}

// decodeSnapshot decodes a snapshot into memory of its own; ok is false when the checksum says no.
func decodeSnapshot(key, b []byte) (s store.Snapshot, ok bool) {
	if len(b) < 12 || binary.LittleEndian.Uint32(b) != crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, b[4:]) {
		return store.Snapshot{}, false
	}
	return store.Snapshot{Version: binary.LittleEndian.Uint64(b[4:]), Data: append([]byte(nil), b[12:]...)}, true
}
