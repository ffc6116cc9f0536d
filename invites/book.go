// Package invites keeps the invites of a board whose host has no identity system: one link for each guest, which the first use
// makes one name's for ever.
//
// They are events in a journal of the store, one conditional commit each (ADR 0014): a node makes version n only if it has
// read all before, so no two guests get one name and no link two, on however many nodes. Book is what the events add up to,
// Keeper commits and reads them.
package invites

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// CountMax is how many invites a board may have, taken back ones included.
const CountMax = 100_000

// kind of an event.
type kind string

const (
	kindMade    kind = "made"
	kindTaken   kind = "taken" // used for the first time
	kindRevoked kind = "revoked"
)

// event is one commit of the journal, as JSON.
type event struct {
	Kind      kind           `json:"kind"`
	Attempt   string         `json:"attempt"` // random: no two events have the same bytes
	IDs       []string       `json:"ids"`
	Names     []board.UserID `json:"names,omitempty"` // made: of each id, or none; taken: of the one
	AtMs      int64          `json:"at_ms"`           // Unix milliseconds
	ExpiresMs int64          `json:"expires_ms,omitempty"`
	By        string         `json:"by,omitempty"`
	Why       string         `json:"why,omitempty"`
}

func (e *event) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("invites: encode: %w", err)
	}
	if b.Len() > store.CommitRowBytesMax {
		return nil, fmt.Errorf("invites: %w: %d bytes are more than a commit of %d: ask for fewer at once", board.ErrRefused, b.Len(), store.CommitRowBytesMax)
	}
	return b.Bytes(), nil
}

func decode(value []byte) (*event, error) {
	var e event
	if err := json.Unmarshal(value, &e); err != nil {
		return nil, fmt.Errorf("invites: decode: %w: %w", store.ErrCorrupt, err)
	}
	return &e, nil
}

// Book is what the events up to a version add up to: a plain value without I/O or a clock.
type Book struct {
	version uint64
	list    []*board.Invite // in the order in which they were made
	byID    map[string]*board.Invite
	byName  map[string]*board.Invite // by folded name
	revoked map[board.UserID]struct{}
}

// NewBook returns the book before the first event.
func NewBook() *Book {
	return &Book{byID: map[string]*board.Invite{}, byName: map[string]*board.Invite{}, revoked: map[board.UserID]struct{}{}}
}

// apply adds the next event, and returns the users who are no longer good by it. An event that cannot follow is corrupt, and
// changes nothing.
func (b *Book) apply(version uint64, e *event) ([]board.UserID, error) {
	if version != b.version+1 {
		return nil, fmt.Errorf("invites: event %d after %d: %w", version, b.version, store.ErrCorrupt)
	}
	if err := b.follows(e); err != nil {
		return nil, fmt.Errorf("invites: event %d: %w: %w", version, store.ErrCorrupt, err)
	}
	b.version = version
	var gone []board.UserID
	for i, id := range e.IDs {
		switch e.Kind {
		case kindMade:
			invite := &board.Invite{ID: id, AtMs: e.AtMs, By: e.By, Why: e.Why, ExpiresMs: e.ExpiresMs}
			b.list = append(b.list, invite)
			b.byID[id] = invite
			if len(e.Names) > 0 {
				b.name(invite, e.Names[i])
			}
		case kindTaken:
			b.byID[id].UsedMs = e.AtMs
			if b.byID[id].Name == "" {
				b.name(b.byID[id], e.Names[0])
			}
		case kindRevoked:
			invite := b.byID[id]
			invite.RevokedMs = e.AtMs
			if invite.Name != "" {
				b.revoked[invite.Name] = struct{}{}
				gone = append(gone, invite.Name)
			}
		}
	}
	return gone, nil
}

func (b *Book) name(invite *board.Invite, name board.UserID) {
	invite.Name = name
	b.byName[name.FoldName()] = invite
}

// follows checks that the event fits the book.
func (b *Book) follows(e *event) error {
	switch {
	case e.Kind != kindMade && e.Kind != kindTaken && e.Kind != kindRevoked:
		return fmt.Errorf("kind %q", e.Kind)
	case len(e.IDs) == 0:
		return fmt.Errorf("%s: no invite", e.Kind)
	case e.Kind == kindMade && len(e.Names) != 0 && len(e.Names) != len(e.IDs):
		return fmt.Errorf("%d names for %d invites", len(e.Names), len(e.IDs))
	case e.Kind == kindTaken && (len(e.IDs) != 1 || len(e.Names) != 1):
		return fmt.Errorf("%d invites taken by %d names", len(e.IDs), len(e.Names))
	}
	for i, id := range e.IDs {
		if _, known := b.byID[id]; known != (e.Kind != kindMade) || slices.Contains(e.IDs[:i], id) {
			return fmt.Errorf("%s: invite %q", e.Kind, id)
		}
	}
	return nil
}

// make decides to make invites with the ids.
func (b *Book) make(r *board.InviteRequest, ids []string, nowMs int64) (*event, error) {
	if len(b.list)+len(ids) > CountMax {
		return nil, fmt.Errorf("%w: %d of %d", board.ErrInvitesFull, len(b.list), CountMax)
	}
	seen := map[string]bool{}
	for _, name := range r.Names {
		if _, taken := b.byName[name.FoldName()]; taken || seen[name.FoldName()] {
			return nil, fmt.Errorf("%w: %q", board.ErrNameTaken, name)
		}
		seen[name.FoldName()] = true
	}
	return &event{Kind: kindMade, IDs: ids, Names: r.Names, AtMs: nowMs, ExpiresMs: r.ExpiresMs, By: r.By, Why: r.Why}, nil
}

// use decides what a use of the link does: an event at the first one, none later.
func (b *Book) use(id string, name board.UserID, nowMs int64) (*event, error) {
	invite := b.byID[id]
	switch {
	case invite == nil:
		return nil, board.ErrInviteUnknown
	case invite.RevokedMs != 0:
		return nil, board.ErrInviteRevoked
	case invite.Expired(nowMs):
		return nil, board.ErrInviteExpired
	case invite.UsedMs != 0:
		return nil, nil
	case invite.Name != "":
		name = invite.Name
	case name == "":
		return nil, board.ErrNameNeeded
	default:
		if _, taken := b.byName[name.FoldName()]; taken {
			return nil, board.ErrNameTaken
		}
	}
	return &event{Kind: kindTaken, IDs: []string{id}, Names: []board.UserID{name}, AtMs: nowMs}, nil
}

// revoke decides to take invites back, named by id or by user; without an event when all of them are taken back already.
func (b *Book) revoke(names []string, by, why string, nowMs int64) (*event, error) {
	e := &event{Kind: kindRevoked, AtMs: nowMs, By: by, Why: why}
	for _, name := range names {
		invite := b.byID[name]
		if invite == nil {
			invite = b.byName[board.UserID(name).FoldName()]
		}
		if invite == nil {
			return nil, fmt.Errorf("%w: %q", board.ErrInviteUnknown, name)
		}
		if invite.RevokedMs == 0 && !slices.Contains(e.IDs, invite.ID) {
			e.IDs = append(e.IDs, invite.ID)
		}
	}
	if len(e.IDs) == 0 {
		return nil, nil
	}
	return e, nil
}

// invites returns copies of the ones with the ids.
func (b *Book) invites(ids []string) []board.Invite {
	var list []board.Invite
	for _, id := range ids {
		list = append(list, *b.byID[id])
	}
	return list
}
