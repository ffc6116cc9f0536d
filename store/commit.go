package store

import (
	"fmt"

	"github.com/placed-board/placed/board"
)

// Valid reports whether the partition is one that a board can have.
func (p Partition) Valid() bool {
	switch p.Class {
	case ClassShard:
		return p.Index < board.Shards
	case ClassBlock:
		return board.BlockID(p.Index).Valid()
	case ClassSettings, ClassInvites:
		return p.Index == 0
	}
	return false
}

// Journal reports whether the partition keeps every commit's row for ever instead of rows replaced by key.
func (p Partition) Journal() bool {
	return p.Class == ClassBlock || p.Class == ClassSettings || p.Class == ClassInvites
}

// Validate checks the rules that every commit obeys before it is sent. An error wraps ErrInvalid: the caller is at fault.
func (c *Commit) Validate() error {
	if fault := c.fault(); fault != "" {
		return fmt.Errorf("store: commit %d of %s: %s: %w", c.Head.Version, c.Partition, fault, ErrInvalid)
	}
	return nil
}

func (c *Commit) fault() string {
	switch {
	case !c.Partition.Valid():
		return "no such partition"
	case c.Head.Version == 0:
		return "version 0"
	case c.Head.Attempt == 0:
		return "attempt id 0"
	case len(c.Head.Owner.Address) > OwnerAddressMax:
		return fmt.Sprintf("owner's address of %d bytes, at most %d", len(c.Head.Owner.Address), OwnerAddressMax)
	case len(c.Head.State) > HeadStateBytesMax:
		return fmt.Sprintf("state of %d bytes, at most %d", len(c.Head.State), HeadStateBytesMax)
	case c.Partition.Journal() && len(c.Head.State) != 0:
		return "state in a journal's head"
	case c.Partition.Journal() && (len(c.Rows) != 1 || c.Rows[0].Key != ""):
		return "a journal takes exactly one row without a key"
	case len(c.Rows) > CommitRowsMax:
		return fmt.Sprintf("%d rows, at most %d", len(c.Rows), CommitRowsMax)
	}
	bytes := 0
	for i := range c.Rows {
		bytes += len(c.Rows[i].Value)
	}
	if bytes > CommitRowBytesMax {
		return fmt.Sprintf("rows of %d bytes, at most %d", bytes, CommitRowBytesMax)
	}
	if c.Partition.Journal() {
		return ""
	}
	return keysFault(c.Rows)
}

// keysFault finds a key that is empty, too long or there twice (one conditional batch cannot order two writes of a row).
func keysFault(rows []Row) string {
	seen := make(map[string]struct{}, len(rows))
	for i := range rows {
		key := rows[i].Key
		if key == "" || len(key) > RowKeyBytesMax {
			return fmt.Sprintf("row key of %d bytes, 1 to %d", len(key), RowKeyBytesMax)
		}
		if _, twice := seen[key]; twice {
			return fmt.Sprintf("row %q twice", key)
		}
		seen[key] = struct{}{}
	}
	return ""
}

// Validate checks a snapshot's size and version. An error wraps ErrInvalid.
func (s *Snapshot) Validate() error {
	if s.Version == 0 || len(s.Data) > SnapshotBytesMax {
		return fmt.Errorf("store: snapshot of version %d with %d bytes, at most %d: %w", s.Version, len(s.Data), SnapshotBytesMax, ErrInvalid)
	}
	return nil
}

// Clone returns a copy of the commit that shares no memory with it.
func (c *Commit) Clone() *Commit {
	out := &Commit{Partition: c.Partition, Head: c.Head.Clone(), Rows: make([]Row, len(c.Rows))}
	for i, r := range c.Rows {
		out.Rows[i] = Row{Key: r.Key, Value: append([]byte(nil), r.Value...)}
	}
	return out
}

// Clone returns a copy of the head that shares no memory with it.
func (h Head) Clone() Head {
	h.State = append([]byte(nil), h.State...)
	return h
}
