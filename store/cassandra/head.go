package cassandra

import (
	"encoding/binary"
	"fmt"

	"github.com/placed-board/placed/store"
)

// headFormat is the first byte of the column head.
const headFormat = 1

// appendHead appends what a head holds besides its version: the attempt id, the owner, and last the state.
func appendHead(b []byte, h *store.Head) []byte {
	b = append(b, headFormat)
	b = binary.LittleEndian.AppendUint64(b, h.Attempt)
	b = binary.LittleEndian.AppendUint64(b, h.Owner.Incarnation)
	b = binary.AppendUvarint(b, h.Owner.SettingsVersion)
	b = append(b, byte(len(h.Owner.Address)))
	b = append(b, h.Owner.Address...)
	return append(b, h.State...)
}

// decodeHead reads a head's columns. Errors wrap store.ErrCorrupt or store.ErrFormat.
func decodeHead(version int64, b []byte) (store.Head, error) {
	if version == 0 && len(b) == 0 {
		return store.Head{}, nil
	}
	corrupt := func(what string) (store.Head, error) {
		return store.Head{}, fmt.Errorf("head of version %d: %s: %w", version, what, store.ErrCorrupt)
	}
	switch {
	case version <= 0:
		return corrupt("no such version")
	case len(b) == 0:
		return corrupt("empty")
	case b[0] > headFormat:
		return store.Head{}, fmt.Errorf("head of version %d: format %d, this placed knows %d: %w", version, b[0], headFormat, store.ErrFormat)
	case b[0] != headFormat || len(b) < 17:
		return corrupt("cut short")
	}
	h := store.Head{Version: uint64(version), Attempt: binary.LittleEndian.Uint64(b[1:])}
	h.Owner.Incarnation = binary.LittleEndian.Uint64(b[9:])
	b = b[17:]
	settings, n := binary.Uvarint(b)
	if n <= 0 || len(b) == n {
		return corrupt("settings version")
	}
	h.Owner.SettingsVersion = settings
	b = b[n:]
	address := int(b[0])
	if b = b[1:]; len(b) < address {
		return corrupt("owner's address")
	}
	h.Owner.Address = string(b[:address])
	if state := b[address:]; len(state) > 0 {
		h.State = state
	}
	return h, nil
}
