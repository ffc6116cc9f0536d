package actors

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// checker sees every commit that the store applies and every answer at the moment it is given.
type checker struct {
	w           *world
	rules       *Rules
	records     map[uint64]*board.SettingsRecord
	blocks      map[board.BlockID]*store.BlockState // full replay of the journals
	shards      map[int]*shardSeen
	requests    map[uint64]*simRequest // by nonce
	charged     map[placementKey]store.Charge
	placed      map[placementKey]board.Placement
	tickets     map[board.Ticket]bool
	newest      map[board.UserID]board.Placement
	entries     map[userTurn]board.Entry // where each user's turns stand in the journals
	sealers     map[uint64]coreLife      // by attempt id
	attempts    map[attemptKey][]byte    // sealed heads and rows
	written     map[board.UserID]int     // rows of the user in commits
	feedCrashes map[*simNode]int         // life in which the feed crashed
	placements  int
	beats       int
}

type userTurn struct {
	user board.UserID
	turn uint64
}

type placementKey struct {
	user        board.UserID
	turn, nonce uint64
}

// coreLife is one life of a core's memory.
type coreLife struct {
	commits    *committer // which core
	generation uint64
}

type attemptKey struct {
	partition store.Partition
	attempt   uint64
}

// shardSeen is a shard as its commits made it.
type shardSeen struct {
	state   store.ShardState
	version uint64 // of the settings
	rows    map[board.UserID]store.UserRow
}

func newChecker(w *world) *checker {
	return &checker{
		w: w, records: map[uint64]*board.SettingsRecord{}, blocks: map[board.BlockID]*store.BlockState{}, shards: map[int]*shardSeen{},
		requests: map[uint64]*simRequest{}, charged: map[placementKey]store.Charge{}, placed: map[placementKey]board.Placement{},
		tickets: map[board.Ticket]bool{}, newest: map[board.UserID]board.Placement{}, entries: map[userTurn]board.Entry{}, sealers: map[uint64]coreLife{},
		attempts: map[attemptKey][]byte{}, written: map[board.UserID]int{}, feedCrashes: map[*simNode]int{},
	}
}

// sealed checks that an attempt id names one commit only (rules of commits, 2).
func (k *checker) sealed(life coreLife, c *store.Commit) {
	if _, twice := k.sealers[c.Head.Attempt]; twice {
		k.w.fail("commits", "%v: attempt %x sealed twice", c.Partition, c.Head.Attempt)
	}
	k.sealers[c.Head.Attempt] = life
	k.attempts[attemptKey{c.Partition, c.Head.Attempt}] = commitBytes(c)
}

func commitBytes(c *store.Commit) []byte {
	b := slices.Clone(c.Head.State)
	for _, r := range c.Rows {
		b = append(append(b, r.Key...), r.Value...)
	}
	return b
}

// applied checks a commit at the moment the store applies it.
func (k *checker) applied(c *store.Commit) {
	if want, ok := k.attempts[attemptKey{c.Partition, c.Head.Attempt}]; ok && !bytes.Equal(want, commitBytes(c)) {
		k.w.fail("commits", "%v: the bytes of attempt %x changed after it was sealed", c.Partition, c.Head.Attempt)
	}
	switch c.Partition.Class {
	case store.ClassSettings:
		r, err := store.DecodeSettings(c.Rows[0].Value)
		if err != nil || r.Version != c.Head.Version {
			k.w.fail("I9", "settings version %d holds version %d: %v", c.Head.Version, r.Version, err)
		}
		k.rules = k.rules.Next(r)
		k.records[r.Version] = &r
	case store.ClassShard:
		k.shardApplied(c)
	case store.ClassBlock:
		k.blockApplied(c)
	}
}

func (k *checker) shard(index int) *shardSeen {
	if k.shards[index] == nil {
		k.shards[index] = &shardSeen{rows: map[board.UserID]store.UserRow{}}
	}
	return k.shards[index]
}

func (k *checker) shardApplied(c *store.Commit) {
	w, index := k.w, int(c.Partition.Index)
	seen := k.shard(index)
	state, err := store.DecodeShardState(index, c.Head.State)
	if err != nil {
		w.fail("I2", "%v: %v", c.Partition, err)
	}
	if len(state.Open) > ShardOpenMax {
		w.fail("I7", "%v: %d open charges in the head", c.Partition, len(state.Open))
	}
	if state.LastAtMs < seen.state.LastAtMs || c.Head.Owner.SettingsVersion < seen.version {
		w.fail("I1", "%v: time or settings went back", c.Partition)
	}
	rows := map[board.UserID]store.UserRow{}
	for _, r := range c.Rows {
		if index == board.OpsShard {
			continue
		}
		row, err := store.DecodeUserRow(r.Value)
		if err != nil {
			w.fail("I2", "%v row %s: %v", c.Partition, r.Key, err)
		}
		user := board.UserID(r.Key)
		k.rowApplied(user, seen.rows[user], row)
		rows[user] = row
		k.written[user]++
	}
	k.promises(c, seen, &state, rows)
	maps.Copy(seen.rows, rows)
	seen.state, seen.version = state, c.Head.Owner.SettingsVersion
}

// rowApplied checks how one user's row changed.
func (k *checker) rowApplied(user board.UserID, old, row store.UserRow) {
	w := k.w
	switch {
	case row.Turn < old.Turn || row.Turn > old.Turn+1:
		w.fail("I3", "row of %s: turn %d after %d", user, row.Turn, old.Turn)
	case row.Turn == old.Turn && (row.Nonce != old.Nonce || row.At != old.At || row.AtMs != old.AtMs):
		w.fail("I3", "row of %s: turn %d is another placement now", user, row.Turn)
	case row.Turn == old.Turn && old.Sequence != 0 && row.Sequence != old.Sequence:
		w.fail("I3", "row of %s: sequence %d after %d", user, row.Sequence, old.Sequence)
	case row.Turn == old.Turn+1 && old.Turn > 0 && row.AtMs < old.AtMs+k.rules.Cooldowns.MinSince(old.SettingsVersion) &&
		row.AtMs < old.AtMs+k.smallest(old.SettingsVersion, row.SettingsVersion):
		w.fail("I1", "row of %s: charged at %d after %d", user, row.AtMs, old.AtMs)
	case row.Turn == old.Turn+1 && max(old.BannedUntilMs, row.BannedUntilMs) > row.AtMs && old.BannedUntilMs > row.AtMs && row.BannedUntilMs > row.AtMs:
		w.fail("ban", "row of %s: charged at %d, banned until %d", user, row.AtMs, row.BannedUntilMs)
	}
	newest := userTurn{user, row.Turn}
	if row.Sequence == 0 && row.Turn > 0 {
		newest.turn--
	}
	if want := k.entries[newest]; row.Newest != want {
		w.fail("I6", "row of %s: turn %d, newest placement in %+v, want %+v", user, row.Turn, row.Newest, want)
	}
	if row.BannedUntilMs == old.BannedUntilMs {
		return
	}
	for i, b := range w.bans {
		if b.user == user && b.untilMs == row.BannedUntilMs && !b.applied {
			b.applied = true
			if row.BanNote == nil || b.untilMs != w.bans[row.BanNote.AtMs-1].untilMs {
				w.fail("ban", "row of %s: banned until %d with the note %+v, ban %d", user, row.BannedUntilMs, row.BanNote, i)
			}
			return
		}
	}
	w.fail("ban", "row of %s: banned until %d after %d, which nobody asked for", user, row.BannedUntilMs, old.BannedUntilMs)
}

// hadBan reports whether a commit may have written the ban without a change to be seen: it was there already, or another ban
// of the user took its place in the very commit.
func (k *checker) hadBan(b *simBan) bool { return k.written[b.user] > b.earlier }

// smallest returns the smallest cooldown of the settings versions from a to b (I1).
func (k *checker) smallest(a, b uint64) int64 {
	least := k.records[a].CooldownMs
	for v := a; v <= b; v++ {
		least = min(least, k.records[v].CooldownMs)
	}
	return least
}

// promises checks the open charges of a commit: new ones are legal and complete, and none goes before it is placed.
func (k *checker) promises(c *store.Commit, seen *shardSeen, state *store.ShardState, rows map[board.UserID]store.UserRow) {
	w := k.w
	open, users := map[board.Ticket]bool{}, map[board.UserID]bool{}
	for i := range state.Open {
		o := state.Open[i]
		if o.Kind == board.KindUser && users[o.User] {
			w.fail("I3", "%v: two open charges of %s", c.Partition, o.User)
		}
		open[o.Ticket], users[o.User] = true, true
		key := placementKey{o.User, o.Turn, o.Nonce}
		if o.Ticket.Commit != c.Head.Version {
			if k.charged[key] != o {
				w.fail("I2", "%v: open charge changed: %+v", c.Partition, o)
			}
			continue
		}
		if _, twice := k.charged[key]; twice {
			w.fail("I3", "%v: charged twice: %+v", c.Partition, o)
		}
		k.charged[key] = o
		if o.SettingsVersion != c.Head.Owner.SettingsVersion || o.AtMs != state.LastAtMs {
			w.fail("I1", "%v: charge under settings %d at %d in a commit of %d at %d", c.Partition, o.SettingsVersion, o.AtMs,
				c.Head.Owner.SettingsVersion, state.LastAtMs)
		}
		if o.Kind != board.KindUser {
			continue
		}
		if row := rows[o.User]; row.Turn != o.Turn || row.Nonce != o.Nonce || row.AtMs != o.AtMs || row.At != o.At {
			w.fail("I3", "%v: charge %+v without its row: %+v", c.Partition, o, row)
		}
		if code := k.records[o.SettingsVersion].CheckPlacement(o.At, o.Colour); code != board.CodeOK {
			w.fail("I1", "%v: charge %+v is refused by its own settings: %v", c.Partition, o, code)
		}
	}
	for _, o := range seen.state.Open {
		if _, ok := k.placed[placementKey{o.User, o.Turn, o.Nonce}]; !ok && !open[o.Ticket] {
			w.fail("I2", "%v: closed before it was placed: %+v", c.Partition, o)
		}
	}
}

func (k *checker) blockApplied(c *store.Commit) {
	w, id := k.w, board.BlockID(c.Partition.Index)
	commit, err := store.DecodeBlockCommit(c.Rows[0].Value)
	if err != nil {
		w.fail("I2", "%v: %v", c.Partition, err)
	}
	full := k.blocks[id]
	if full == nil {
		full = store.NewBlockState()
		k.blocks[id] = full
	}
	previous := map[board.Point]uint64{}
	for i := range commit.Placements {
		p := commit.Placements[i]
		k.placement(board.Entry{Block: id, Version: c.Head.Version}, full, previous, p)
		previous[p.Point()] = c.Head.Version
		k.placements++
	}
	if err := full.Apply(c.Head.Version, &commit); err != nil {
		w.fail("I4", "%v: %v", c.Partition, err)
	}
}

// placement checks one record of a journal.
func (k *checker) placement(in board.Entry, full *store.BlockState, previous map[board.Point]uint64, p board.Placement) {
	w, id := k.w, in.Block
	key := placementKey{p.User, p.Turn, p.Nonce}
	if p.Chunk.Block() != id {
		w.fail("I4", "block %v holds %+v", id, p)
	}
	if _, twice := k.placed[key]; twice || k.tickets[p.Ticket] {
		w.fail("I3", "placed twice: %+v", p)
	}
	o, ok := k.charged[key]
	if !ok || o.Ticket != p.Ticket || o.At != p.Point() || o.Colour != p.Colour || o.AtMs != p.AtMs || o.Kind != p.Kind ||
		o.SettingsVersion != p.SettingsVersion || o.Node != p.Node {
		w.fail("I2", "placement %+v is not what was charged: %+v", p, o)
	}
	want := previous[p.Point()]
	if chunk := full.Chunks[p.Chunk.Slot()]; want == 0 && chunk != nil {
		want = chunk.Versions[p.Tile]
	}
	if p.PreviousVersion != want {
		w.fail("I6", "placement %+v: the tile's version before was %d", p, want)
	}
	k.placed[key], k.tickets[p.Ticket] = p, true
	if p.Kind != board.KindUser {
		if p.UserPrevious != (board.Entry{}) {
			w.fail("I6", "placement %+v is in no user's history", p)
		}
		return
	}
	if want := k.entries[userTurn{p.User, p.Turn - 1}]; p.UserPrevious != want {
		w.fail("I6", "placement %+v: the user's placement before is in %+v", p, want)
	}
	k.entries[userTurn{p.User, p.Turn}] = in
	r := k.requests[p.Nonce]
	if r == nil || r.user != p.User || r.at != p.Point() || r.colour != p.Colour || r.turn != 0 && r.turn != p.Turn {
		w.fail("I3", "placement %+v is not what was asked for: %+v", p, r)
	}
	before, any := k.newest[p.User]
	if p.Turn != before.Turn+1 {
		w.fail("I3", "turn %d of %s after %d", p.Turn, p.User, before.Turn)
	}
	if any && p.AtMs < before.AtMs+k.smallest(before.SettingsVersion, p.SettingsVersion) {
		w.fail("I1", "%s placed at %d and at %d, with at least %d between", p.User, before.AtMs, p.AtMs,
			k.smallest(before.SettingsVersion, p.SettingsVersion))
	}
	k.newest[p.User] = p
}

// answer checks an answer at the moment a user core gives it (I3, I8).
func (k *checker) answer(u *simUser, a Answer) {
	w, o := k.w, &a.Outcome
	if a.To.Session >= simBanSession {
		return // checked when it arrives
	}
	key := placementKey{a.User, o.Turn, o.Nonce}
	p, placed := k.placed[key]
	switch o.Verdict {
	case board.VerdictAccepted:
		if !placed || p.Chunk != o.Chunk || p.Sequence != o.Sequence || p.Point() != o.At || p.Colour != o.Colour {
			w.fail("I8", "accepted %+v, journal has %v %+v", o, placed, p)
		}
	case board.VerdictCharged:
		if _, ok := k.charged[key]; !ok {
			w.fail("I8", "charged %+v, which is not durable", o)
		}
	case board.VerdictRefused:
		if r := k.requests[o.Nonce]; r != nil && r.accepted && r.turn != 0 && len(w.nodes) == 1 {
			switch o.Code {
			case board.CodeSuperseded, board.CodeBusy, board.CodeStore, board.CodeClock, board.CodeDraining:
			default:
				w.fail("I3", "%s had turn %d nonce %x accepted; a retry is refused: %v", a.User, r.turn, r.nonce, o.Code)
			}
		}
	case board.VerdictUnknown:
	}
}

// status checks that a session is not told of a turn that is not durable (I8).
func (k *checker) status(shard int, s board.UserStatus) {
	if durable := k.shard(shard).rows[s.User].Turn; s.Turn > durable+1 {
		k.w.fail("I8", "%s hears of turn %d, durable is %d", s.User, s.Turn, durable)
	}
}

func (k *checker) settingsMade(base uint64, r board.SettingsRecord) {
	if r.Version != base+1 {
		k.w.fail("I9", "settings %d made on top of %d", r.Version, base)
	}
	if stored := k.records[r.Version]; stored == nil || stored.By != r.By || stored.CooldownMs != r.CooldownMs || stored.Width != r.Width {
		k.w.fail("I8", "settings %d answered, but not durable", r.Version)
	}
}

func (k *checker) jobDurable(j *simJob) {
	if _, ok := k.w.core.Row(store.Shard(board.OpsShard), j.id); !ok {
		k.w.fail("I8", "job %s answered, but not durable", j.id)
	}
}

func (k *checker) inForce(e ShardInForce) {
	if stored := k.w.core.Head(store.Shard(e.Shard)).Owner.SettingsVersion; stored < e.Version {
		k.w.fail("I8", "shard %d says that settings %d are in force, the store has %d", e.Shard, e.Version, stored)
	}
}

// duel checks that no core loses against itself: what it sealed first is what goes again (rules of commits, 2).
func (k *checker) duel(life coreLife, attempt uint64, r store.Result) {
	if !r.Applied && r.Head.Attempt != attempt && k.sealers[r.Head.Attempt] == life {
		k.w.fail("commits", "version %d was lost to attempt %x of the same core", r.Head.Version, r.Head.Attempt)
	}
}

// diverged is called when a mirror that should be right is not.
func (k *checker) diverged(m *simMirror) {
	if k.feedCrashes[m.s.n] == m.s.n.life {
		return // a fresh feed has not seen every block again
	}
	what := ""
	m.each(func(id board.ChunkID, c *simChunk) {
		if mark := m.s.n.sub.core.table[id]; mark.Sequence != c.held || mark.Tiles != c.tiles.Hash(id) {
			what += fmt.Sprintf(" chunk %v: held %d, position %d, tick %d, the node is at %d;", id, c.held, c.position, c.tick, mark.Sequence)
		}
	})
	k.w.fail("I5", "session %d of %s on %s differs from its node's heartbeat:%s", m.s.id, m.s.c.id, m.s.n.node.Address, what)
}

// snapshot checks that a snapshot is the state of its version (I6).
func (k *checker) snapshot(id board.BlockID, s store.Snapshot) {
	state, err := store.DecodeBlockState(s.Data)
	if err != nil || state.Version != s.Version {
		k.w.fail("I6", "snapshot of block %v: version %d: %v", id, s.Version, err)
	}
}

// bounds checks the named bounds of everything that lives (I7).
func (k *checker) bounds(w *world) {
	for _, n := range w.nodes {
		for _, s := range n.shards {
			k.shardBounds(s)
		}
		for _, b := range n.blocks {
			if len(b.core.queue) > BlockQueueMax || len(b.core.early) > BlockEarlyMax || len(b.core.tiles) > BlockTilesMax {
				w.fail("I7", "%s is over its bounds", b.box.name)
			}
		}
		for _, x := range n.sub.core.order {
			if len(x.notes) > SessionNotesMax {
				w.fail("I7", "session %d keeps %d notes", x.id, len(x.notes))
			}
		}
		if len(n.keeper.core.waiting) > SettingsQueueMax || n.inUse > w.odds.slotsMax || n.inUse < 0 {
			w.fail("I7", "%s: %d settings changes wait, %d slots in use", n.node.Address, len(n.keeper.core.waiting), n.inUse)
		}
	}
}

func (k *checker) shardBounds(s *simShard) {
	c := s.core
	open := 0
	for id, l := range c.blocks {
		open += l.unclosed
		if l.unclosed > ShardBlockOpenMax || len(l.tickets) > ShardBlockTicketsMax {
			k.w.fail("I7", "%s: block %v has %d charges and %d tickets", s.box.name, id, l.unclosed, len(l.tickets))
		}
	}
	if open != c.unclosed || open > ShardOpenMax || len(c.bans) > ShardBansMax {
		k.w.fail("I7", "%s: %d charges of blocks, %d in all, %d bans", s.box.name, open, c.unclosed, len(c.bans))
	}
	for _, u := range s.users {
		x := u.core
		if len(x.waiting) > UserWaitingMax || len(x.sessions) > UserSessionsMax || x.placing != nil && len(x.placing.replies) > UserRepliesMax {
			k.w.fail("I7", "%s is over its bounds", u.box.name)
		}
	}
}
