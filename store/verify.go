package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/placed-board/placed/board"
)

// ViolationsMax is how many violations a report spells out; the others are counted.
const ViolationsMax = 100

// VerifyOptions tell what to compare with.
type VerifyOptions struct {
	// Settings returns every version of the settings; it is called after the journals were read.
	Settings func(context.Context) ([]board.SettingsRecord, error)
	// Served returns a chunk as it is served to clients: its sequence and tiles (nil for none). Nil: nothing is served.
	Served func(board.ChunkID) (sequence uint64, tiles *board.Tiles, ok bool)
	// Progress is told after each block. Nil: nobody listens.
	Progress func(done, total int)
}

// Verify replays the journals of a board and checks the invariants I1 to I6 by formula: the throttle, that every turn is on the
// board once and none is missing, the chunks' sequences, the served board, snapshots, tile histories and user rows.
//
// It may run while placements flow: journals only grow, and whatever it compares is compared at a sequence or version that
// both sides have reached. An error means that the store could not be read, not that an invariant is broken.
func Verify(ctx context.Context, st Store, o VerifyOptions) (board.VerifyReport, error) {
	start := time.Now()
	v := &verifier{store: st, options: o, users: map[board.UserID]uint32{}}
	v.report.Violations = []board.Violation{}
	blocks, err := st.Blocks(ctx)
	if err != nil {
		return v.report, fmt.Errorf("verify: list blocks: %w", err)
	}
	versions := make([]uint64, len(blocks))
	for i, b := range blocks {
		if versions[i], err = v.block(ctx, b); err != nil {
			return v.report, fmt.Errorf("verify: %v: %w", Block(b), err)
		}
		if o.Progress != nil {
			o.Progress(i+1, len(blocks))
		}
	}
	first := len(v.turns)
	for i, b := range blocks { // what was placed meanwhile: a turn that seemed to be missing has come before those that were seen
		if err := v.tail(ctx, b, versions[i]+1); err != nil {
			return v.report, fmt.Errorf("verify: %v: %w", Block(b), err)
		}
	}
	if err := v.throttle(ctx, first); err != nil {
		return v.report, err
	}
	v.tickets()
	if err := v.rows(ctx); err != nil {
		return v.report, err
	}
	v.report.Blocks, v.report.Users, v.report.ElapsedMs = len(blocks), len(v.users), time.Since(start).Milliseconds()
	return v.report, nil
}

type verifier struct {
	store   Store
	options VerifyOptions
	report  board.VerifyReport
	users   map[board.UserID]uint32 // to its index in names
	names   []board.UserID
	turns   []turn
	seen    [board.Shards][]uint64 // tickets, as commit<<16 | index
	newest  []turn                 // of each user, set by throttle
	chains  []userChain            // of each user
	here    map[board.UserID]bool  // users of the commit that is looked at
}

// turn is what the throttle needs of one user placement.
type turn struct {
	turn    uint64
	atMs    int64
	nonce   uint64
	user    uint32
	version uint32 // of the settings
	chunk   board.ChunkID
	tile    uint16
	colour  board.Colour
	// The commits of this placement and of the user's one before.
	entry, previous entryKey
}

func (v *verifier) violate(invariant, format string, a ...any) {
	v.report.Count++
	if len(v.report.Violations) < ViolationsMax {
		v.report.Violations = append(v.report.Violations, board.Violation{Invariant: invariant, What: fmt.Sprintf(format, a...)})
	}
}

// block replays one journal and returns the version that it came to.
func (v *verifier) block(ctx context.Context, b board.BlockID) (uint64, error) {
	served := v.served(b)
	snapshot, err := v.snapshot(ctx, b)
	if err != nil {
		return 0, err
	}
	state := NewBlockState()
	for entry, err := range v.store.Journal(ctx, Block(b), 1) {
		if err != nil {
			return 0, err
		}
		commit, err := DecodeBlockCommit(entry.Value)
		if err != nil {
			return 0, fmt.Errorf("commit %d: %w", entry.Version, err)
		}
		v.report.Commits++
		if !v.apply(b, state, entry.Version, &commit, served) {
			return entry.Version, nil // the rest cannot be replayed
		}
		if snapshot != nil && snapshot.Version == state.Version {
			v.compareSnapshot(b, snapshot, state)
			snapshot = nil
		}
	}
	if snapshot != nil {
		v.violate("I6", "%v: the snapshot of version %d is ahead of the journal's %d", Block(b), snapshot.Version, state.Version)
	}
	for slot, s := range served {
		if s.waiting {
			v.violate("I5", "chunk %d: served at sequence %d, the journal does not come to it", b.Chunk(slot), s.sequence)
		}
	}
	return state.Version, nil
}

// apply checks and replays one commit; false when its sequences do not follow.
func (v *verifier) apply(b board.BlockID, state *BlockState, version uint64, commit *BlockCommit, served *servedChunks) bool {
	type place struct {
		chunk board.ChunkID
		tile  uint16
	}
	var here map[place]bool
	if len(commit.Placements) > 1 {
		here = make(map[place]bool, len(commit.Placements))
	}
	for i := range commit.Placements {
		p := &commit.Placements[i]
		want := uint64(0)
		if c := state.Chunks[p.Chunk.Slot()]; c != nil {
			want = c.Versions[p.Tile]
		}
		if here[place{p.Chunk, p.Tile}] {
			want = version
		}
		if p.PreviousVersion != want {
			v.violate("I6", "chunk %d tile %d sequence %d: previous version %d, want %d", p.Chunk, p.Tile, p.Sequence, p.PreviousVersion, want)
		}
		if here != nil {
			here[place{p.Chunk, p.Tile}] = true
		}
		v.add(b, version, p)
	}
	v.circles(b, version, commit)
	// One placement at a time, so that the board can be compared at every sequence.
	for i := range commit.Placements {
		one := BlockCommit{Placements: commit.Placements[i : i+1]}
		state.Version = version - 1
		if err := state.Apply(version, &one); err != nil {
			v.violate("I4", "%v", err)
			return false
		}
		v.compareServed(served, &commit.Placements[i], state)
	}
	state.Version = version
	return true
}

func (v *verifier) add(b board.BlockID, version uint64, p *board.Placement) {
	v.report.Placements++
	if p.Kind != board.KindImport { // records of imports have no turn and no ticket
		v.seen[p.Ticket.Shard] = append(v.seen[p.Ticket.Shard], p.Ticket.Commit<<16|uint64(p.Ticket.Index))
	}
	if p.Kind != board.KindUser && p.Kind != board.KindImport {
		if p.UserPrevious.Version != 0 {
			v.violate("I6", "chunk %d sequence %d: a placement of kind %v is in a user's history", p.Chunk, p.Sequence, p.Kind)
		}
		return
	}
	id, ok := v.users[p.User]
	if !ok {
		id = uint32(len(v.names))
		v.users[p.User] = id
		v.names = append(v.names, p.User)
		v.chains = append(v.chains, userChain{})
	}
	entry, previous := keyOf(board.Entry{Block: b, Version: version}), keyOf(p.UserPrevious)
	v.chains[id].add(p.Kind, entry, previous)
	if p.Kind == board.KindImport {
		return
	}
	v.turns = append(v.turns, turn{
		turn: p.Turn, atMs: p.AtMs, nonce: p.Nonce, user: id, version: uint32(p.SettingsVersion), chunk: p.Chunk, tile: p.Tile, colour: p.Colour,
		entry: entry, previous: previous,
	})
}

// tail reads what a journal has gained since it was replayed, for its turns only.
func (v *verifier) tail(ctx context.Context, b board.BlockID, from uint64) error {
	for entry, err := range v.store.Journal(ctx, Block(b), from) {
		if err != nil {
			return err
		}
		commit, err := DecodeBlockCommit(entry.Value)
		if err != nil {
			return fmt.Errorf("commit %d: %w", entry.Version, err)
		}
		for i := range commit.Placements {
			v.add(b, entry.Version, &commit.Placements[i])
		}
	}
	return nil
}

// throttle checks I1, I2 and I3 over each user's turns. Only turns up to the newest of the first pass (the first entries) are
// required to be without gap.
func (v *verifier) throttle(ctx context.Context, first int) error {
	records, err := v.options.Settings(ctx)
	if err != nil {
		return fmt.Errorf("verify: read settings: %w", err)
	}
	required := make([]uint64, len(v.names))
	for _, t := range v.turns[:first] {
		required[t.user] = max(required[t.user], t.turn)
	}
	slices.SortFunc(v.turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.turn, b.turn))
	})
	v.newest = make([]turn, len(v.names))
	cooldowns := newCooldownRange(records)
	for i, t := range v.turns {
		before := v.newest[t.user]
		v.newest[t.user] = t
		name := v.names[t.user]
		switch {
		case i > 0 && v.turns[i-1].user == t.user && v.turns[i-1].turn == t.turn:
			v.violate("I3", "user %q: turn %d is on the board twice", name, t.turn)
			continue
		case t.turn != before.turn+1 && t.turn <= required[t.user]:
			v.violate("I2", "user %q: turn %d follows turn %d: charges between are not on the board", name, t.turn, before.turn)
		}
		if before.turn == 0 {
			continue
		}
		if before.turn+1 == t.turn && t.previous != before.entry {
			v.violate("I6", "user %q: turn %d names %v as the user's placement before, turn %d is in %v", name, t.turn, t.previous, before.turn, before.entry)
		}
		least, ok := cooldowns.least(before.version, t.version)
		if !ok {
			v.violate("I1", "user %q: turn %d is under settings version %d, after version %d", name, t.turn, t.version, before.version)
		} else if t.atMs < before.atMs+least {
			v.violate("I1", "user %q: turn %d at %d ms comes %d ms after turn %d, the cooldown was %d ms",
				name, t.turn, t.atMs, t.atMs-before.atMs, before.turn, least)
		}
	}
	return nil
}

// tickets checks that no ticket was placed twice.
func (v *verifier) tickets() {
	for shard, tickets := range v.seen {
		slices.Sort(tickets)
		for i := 1; i < len(tickets); i++ {
			if tickets[i] == tickets[i-1] {
				v.violate("I3", "ticket (%d, %d, %d) is on the board twice", shard, tickets[i]>>16, tickets[i]&0xffff)
			}
		}
	}
}

// rows compares each user's row with the journals: it stands at the newest turn, or beyond.
func (v *verifier) rows(ctx context.Context) error {
	known := make([]bool, len(v.names))
	for shard := range board.UserShards {
		for row, err := range v.store.Rows(ctx, Shard(shard)) {
			if err != nil {
				return fmt.Errorf("verify: %v: %w", Shard(shard), err)
			}
			r, err := DecodeUserRow(row.Value)
			if err != nil {
				return fmt.Errorf("verify: row of user %q: %w", row.Key, err)
			}
			id, ok := v.users[board.UserID(row.Key)]
			if !ok {
				continue // banned or charged, not on the board yet
			}
			known[id] = true
			v.compareRow(board.UserID(row.Key), shard, &r, v.newest[id])
			v.compareChain(board.UserID(row.Key), &r, id)
		}
	}
	for id, ok := range known {
		if !ok && v.chains[id].turns > 0 {
			v.violate("I6", "user %q has placements and no row", v.names[id])
		}
	}
	return nil
}

func (v *verifier) compareRow(user board.UserID, shard int, r *UserRow, t turn) {
	switch {
	case user.Shard() != shard:
		v.violate("I6", "user %q: row in shard %d, want %d", user, shard, user.Shard())
	case r.Turn < t.turn:
		v.violate("I6", "user %q: row at turn %d, the board has turn %d", user, r.Turn, t.turn)
	case r.Turn > t.turn:
	case r.Nonce != t.nonce || r.AtMs != t.atMs || r.At != t.chunk.Point(int(t.tile)) || r.Colour != t.colour:
		v.violate("I6", "user %q: row and journal differ at turn %d", user, r.Turn)
	}
}

// cooldownRange answers the smallest cooldown of a range of settings versions.
type cooldownRange struct {
	ms    []int64 // by version - 1
	known map[[2]uint32]int64
}

func newCooldownRange(records []board.SettingsRecord) *cooldownRange {
	c := &cooldownRange{known: map[[2]uint32]int64{}}
	for _, r := range records {
		c.ms = append(c.ms, r.CooldownMs)
	}
	return c
}

func (c *cooldownRange) least(from, to uint32) (int64, bool) {
	if from < 1 || from > to || int(to) > len(c.ms) {
		return 0, false
	}
	key := [2]uint32{from, to}
	least, ok := c.known[key]
	if !ok {
		least = slices.Min(c.ms[from-1 : to])
		c.known[key] = least
	}
	return least, true
}

// servedChunk is a chunk as it was served before its block's journal was read.
type servedChunk struct {
	waiting  bool // for the replay to come to the sequence
	sequence uint64
	tiles    *board.Tiles
}

type servedChunks [board.BlockChunks]servedChunk

func (v *verifier) served(b board.BlockID) *servedChunks {
	var out servedChunks
	if v.options.Served == nil {
		return &out
	}
	for slot := range out {
		sequence, tiles, ok := v.options.Served(b.Chunk(slot))
		out[slot] = servedChunk{waiting: ok && sequence > 0, sequence: sequence, tiles: tiles}
	}
	return &out
}

// compareServed compares a chunk with what was served once the replay has come to that sequence.
func (v *verifier) compareServed(served *servedChunks, p *board.Placement, state *BlockState) {
	s := &served[p.Chunk.Slot()]
	if !s.waiting || s.sequence != p.Sequence {
		return
	}
	s.waiting = false
	if s.tiles == nil || *s.tiles != state.Chunks[p.Chunk.Slot()].Tiles {
		v.violate("I5", "chunk %d: what is served differs from the journal at sequence %d", p.Chunk, p.Sequence)
	}
}

// snapshot returns the newest snapshot of a block, or nil.
func (v *verifier) snapshot(ctx context.Context, b board.BlockID) (*BlockState, error) {
	found, err := v.store.Snapshot(ctx, b, ^uint64(0))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	state, err := DecodeBlockState(found.Data)
	if err != nil || state.Version != found.Version {
		v.violate("I6", "%v: the snapshot of version %d does not decode: %v", Block(b), found.Version, err)
		return nil, nil
	}
	return state, nil
}

// compareSnapshot compares the chunks. Floors and tickets may be ahead of the journal's: they come from messages.
func (v *verifier) compareSnapshot(b board.BlockID, snapshot, replayed *BlockState) {
	for slot := range snapshot.Chunks {
		x, y := snapshot.Chunks[slot], replayed.Chunks[slot]
		if (x == nil) != (y == nil) || x != nil && *x != *y {
			v.violate("I6", "%v: the snapshot of version %d differs from the journal in chunk %d", Block(b), snapshot.Version, b.Chunk(slot))
		}
	}
}
