package actors

// In:  PlaceTiles from shards; the fate of commits from the store.
// Out: one commit at a time to the block's journal; TilesPlaced to the shards and TilesApplied to the feed once it is applied.
// A block gives its chunks' placements their order (I4) and takes each ticket once (I3), whatever its own settings say.
// Next: actors/feed.go.

import (
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Bounds of a block.
const (
	// BlockQueueMax is how many placements of a block may wait for a commit; beyond it charges are dropped and counted, and
	// their shards send them again. The shards' own bounds make 65*32 the most that can come.
	BlockQueueMax = board.Shards * ShardBlockOpenMax
	// BlockEarlyMax is how many messages of shards wait until a block is loaded; beyond they are dropped, counted and sent again.
	BlockEarlyMax = board.Shards
	// BlockTilesMax is how many GetTile wait until a block is loaded; beyond: answered as not known.
	BlockTilesMax = 64
	// SnapshotPlacements is after how many placements a block's snapshot is written.
	SnapshotPlacements = 1000
	// SnapshotMs is after how long a changed block's snapshot is written.
	SnapshotMs = 60_000
)

// Block orders and keeps the placements of one block. It is the core that a region actor runs for each of its blocks.
type Block struct {
	id         board.BlockID
	node       Node
	random     func() uint64
	generation uint64
	commits    committer
	rules      *Rules

	loaded   bool
	loading  bool
	loadAtMs int64
	duel     duel

	state    *store.BlockState
	queue    []*arrival
	waiting  map[board.Ticket]*arrival // queued or in flight
	floors   map[uint8]uint64          // raised since the last commit
	sealed   store.BlockCommit
	arrivals []*arrival // in flight

	snapshotVersion uint64 // of the newest snapshot written
	snapshotBusy    bool
	flushing        bool // the node stops: every change is to be in a snapshot
	sinceSnapshot   int
	changedAtMs     int64 // of the first placement since the newest snapshot; 0: none
	tiles           []GetTile
	early           []PlaceTiles // until the block is loaded
	dropped         int          // charges for want of room, see Dropped
	out             []RegionEffect
}

// arrival is a charge that waits for its commit.
type arrival struct {
	store.Charge
	from string // whom to answer
}

// NewBlock returns the core of a block that has to be loaded.
func NewBlock(id board.BlockID, node Node, rules *Rules, random func() uint64) *Block {
	// Answers to an earlier core of this block may still arrive: no generation of it may come again.
	b := &Block{id: id, node: node, random: random, rules: rules, generation: random()}
	b.commits = committer{
		partition: store.Block(id), random: random,
		owner: store.Owner{Address: node.Address, Incarnation: node.Incarnation},
	}
	b.forget()
	return b
}

func (b *Block) forget() {
	b.commits.reset()
	b.loaded, b.loading, b.state = false, false, nil
	b.queue, b.arrivals, b.sealed = nil, nil, store.BlockCommit{}
	b.waiting, b.floors = map[board.Ticket]*arrival{}, map[uint8]uint64{}
	b.snapshotVersion, b.snapshotBusy, b.sinceSnapshot, b.changedAtMs = 0, false, 0, 0
}

// Receive handles one message at wall time wallMs (Unix milliseconds) and returns what to do. The result is valid until the
// next call.
func (b *Block) Receive(wallMs int64, message RegionMessage) []RegionEffect {
	b.out = b.out[:0]
	switch m := message.(type) {
	case PlaceTiles:
		b.placeTiles(wallMs, m)
	case BlockLoaded:
		b.blockLoaded(wallMs, m)
	case BlockSlotGranted:
		b.slotGranted(wallMs)
	case BlockCommitDone:
		b.commitDone(wallMs, m)
	case SnapshotDone:
		b.snapshotDone(wallMs, m)
	case TouchBlock:
		if b.loaded { // otherwise drive loads, and loading publishes
			b.publishImages("")
		}
	case PullBlock:
		if b.loaded {
			b.publishImages(m.From)
		}
	case GetTile:
		if b.loaded {
			m.Reply(b.tile(m.At))
		} else if len(b.tiles) < BlockTilesMax {
			b.tiles = append(b.tiles, m)
		} else {
			m.Reply(TileKnown{})
		}
	case SnapshotBlocks:
		b.flushing = true
		b.snapshot()
	}
	b.drive(wallMs)
	return b.out
}

// Tick lets time pass.
func (b *Block) Tick(wallMs int64) []RegionEffect {
	b.out = b.out[:0]
	if b.changedAtMs != 0 && !waits(wallMs, b.changedAtMs+SnapshotMs, SnapshotMs) {
		b.snapshot()
	}
	b.drive(wallMs)
	return b.out
}

// SetRules gives the block newer settings.
func (b *Block) SetRules(rules *Rules) {
	if rules.Version() > b.rules.Version() {
		b.rules = rules
	}
}

// Settled reports whether the block's state is in its newest snapshot and nothing is under way.
func (b *Block) Settled() bool {
	return !b.loaded || len(b.queue) == 0 && b.commits.inFlight == nil && b.snapshotVersion == b.state.Version
}

// Dropped returns how many charges the block has dropped for want of room; their shards send them again.
func (b *Block) Dropped() int { return b.dropped }

func (b *Block) emit(e RegionEffect) { b.out = append(b.out, e) }

func (b *Block) drive(wallMs int64) {
	switch {
	case b.duel.deposed(wallMs):
	case !b.loaded:
		if !b.loading && !waits(wallMs, b.loadAtMs, LoadRetryMs) {
			b.loading = true
			b.emit(LoadBlock{Block: b.id, Generation: b.generation})
		}
	case len(b.queue) > 0 && b.commits.askSlot():
		b.emit(TakeBlockSlot{Block: b.id})
	}
}

// placeTiles raises the floor and judges each ticket: seen, below the floor, under way, or new.
func (b *Block) placeTiles(wallMs int64, m PlaceTiles) {
	if b.duel.deposed(wallMs) {
		if !m.Forwarded {
			m.Forwarded = true
			b.emit(ForwardCharges{Address: b.duel.winner, Message: m})
			return
		}
		b.duel.tryAgain() // the owner's node thinks that the block is ours: serve it
	}
	if !b.loaded {
		if len(b.early) >= BlockEarlyMax {
			b.dropped += len(m.Charges)
			return
		}
		b.early = append(b.early, m)
		return
	}
	known := b.state.Shard(uint8(m.Shard))
	if m.Floor > known.Floor {
		known.Raise(m.Floor)
		b.floors[uint8(m.Shard)] = m.Floor
	}
	var results []TicketPlaced
	for _, c := range m.Charges {
		if c.Ticket.Commit < known.Floor {
			results = append(results, TicketPlaced{Ticket: c.Ticket, Settled: true})
			continue
		}
		if seen, ok := known.Seen[store.SeenTicket{Commit: c.Ticket.Commit, Index: c.Ticket.Index}]; ok {
			results = append(results, TicketPlaced{Ticket: c.Ticket, Sequence: seen.Sequence, Version: seen.Version})
			continue
		}
		if a := b.waiting[c.Ticket]; a != nil {
			a.from = m.From
			continue
		}
		if len(b.queue) >= BlockQueueMax || c.At.Block() != b.id {
			b.dropped++
			continue
		}
		a := &arrival{Charge: c, from: m.From}
		b.queue = append(b.queue, a)
		b.waiting[c.Ticket] = a
	}
	if len(results) > 0 {
		b.emit(AnswerShard{To: m.From, Message: TilesPlaced{Shard: m.Shard, Block: b.id, Results: results}})
	}
}

// placementBytesLikely is room for nearly every placement of a commit.
const placementBytesLikely = 80

// slotGranted seals the next commit: sequence numbers are fixed here (I4).
func (b *Block) slotGranted(wallMs int64) {
	wanted := b.commits.wantsSlot
	b.commits.wantsSlot = false
	if !wanted || !b.loaded || len(b.queue) == 0 || b.duel.deposed(wallMs) {
		b.emit(DropBlockSlot{})
		return
	}
	take := min(len(b.queue), store.CommitRowsMax, (store.CommitRowBytesMax-16*len(b.floors)-16)/store.PlacementBytesMax)
	commit := store.BlockCommit{Floors: make([]store.Floor, 0, len(b.floors)), Placements: make([]board.Placement, 0, take)}
	for shard := range uint8(board.Shards) { // in order, so that equal states give equal bytes
		if floor, ok := b.floors[shard]; ok {
			commit.Floors = append(commit.Floors, store.Floor{Shard: shard, Commit: floor})
		}
	}
	clear(b.floors)
	version := b.commits.version + 1
	var sequences [board.BlockChunks]uint64
	latest := make(map[board.Point]bool, take)
	for _, a := range b.queue[:take] {
		p := b.placement(a)
		slot := p.Chunk.Slot()
		sequences[slot]++
		p.Sequence += sequences[slot]
		if latest[a.At] {
			p.PreviousVersion = version // an earlier record of this very commit
		}
		latest[a.At] = true
		commit.Placements = append(commit.Placements, p)
	}
	b.arrivals, b.queue, b.sealed = b.queue[:take:take], b.queue[take:], commit
	rows := []store.Row{{Value: commit.AppendTo(make([]byte, 0, 16*len(commit.Floors)+(take+1)*placementBytesLikely))}}
	b.emit(MakeBlockCommit{Block: b.id, Commit: b.commits.seal(b.rules.Version(), nil, rows)})
}

// placement returns the record of an arrival, with the sequence that its chunk stands at.
func (b *Block) placement(a *arrival) board.Placement {
	p := board.Placement{
		Chunk: a.At.Chunk(), Tile: uint16(a.At.Tile()), Colour: a.Colour, Kind: a.Kind, User: a.User, Turn: a.Turn, Nonce: a.Nonce,
		AtMs: a.AtMs, SettingsVersion: a.SettingsVersion, Node: a.Node, Ticket: a.Ticket, UserPrevious: a.UserPrevious,
	}
	if c := b.state.Chunks[p.Chunk.Slot()]; c != nil {
		p.Sequence, p.PreviousVersion = c.Sequence, c.Versions[p.Tile]
	}
	return p
}

func (b *Block) commitDone(wallMs int64, m BlockCommitDone) {
	switch b.commits.result(m.Attempt, m.Result) {
	case fateApplied:
		b.applied(wallMs)
	case fateMoved:
		b.moved(wallMs, m.Result.Head)
	case fateStale, fateUnknown:
	}
}

// applied makes the sealed commit the state, answers the shards and publishes.
func (b *Block) applied(wallMs int64) {
	if err := b.state.Apply(b.commits.version, &b.sealed); err != nil {
		panic(err) // our own commit does not follow our own state
	}
	var answers []AnswerShard // a few, one a shard
	for n, a := range b.arrivals {
		delete(b.waiting, a.Ticket)
		i := slices.IndexFunc(answers, func(e AnswerShard) bool { return e.To == a.from && e.Message.Shard == int(a.Ticket.Shard) })
		if i < 0 {
			i = len(answers)
			answers = append(answers, AnswerShard{To: a.from, Message: TilesPlaced{Shard: int(a.Ticket.Shard), Block: b.id}})
		}
		answers[i].Message.Results = append(answers[i].Message.Results, TicketPlaced{
			Ticket: a.Ticket, Sequence: b.sealed.Placements[n].Sequence, Version: b.commits.version,
		})
	}
	for _, e := range answers {
		b.emit(e)
	}
	b.emit(Publish{TilesApplied{Block: b.id, Version: b.commits.version, Tiles: appliedTiles(b.sealed.Placements)}})
	b.sinceSnapshot += len(b.arrivals)
	if b.changedAtMs == 0 {
		b.changedAtMs = max(wallMs, 1)
	}
	b.arrivals, b.sealed = nil, store.BlockCommit{}
	if b.sinceSnapshot >= SnapshotPlacements || b.flushing {
		b.snapshot()
	}
}

func appliedTiles(placements []board.Placement) []AppliedTile {
	tiles := make([]AppliedTile, len(placements))
	for i := range placements {
		p := &placements[i]
		tiles[i] = AppliedTile{Chunk: p.Chunk, Tile: p.Tile, Colour: p.Colour, Kind: p.Kind, Sequence: p.Sequence, User: p.User}
	}
	return tiles
}

// snapshot writes the committed state, unless a snapshot is under way or nothing has changed.
func (b *Block) snapshot() {
	if !b.loaded || b.snapshotBusy || b.state.Version == b.snapshotVersion || b.state.Version == 0 {
		return
	}
	b.snapshotBusy, b.sinceSnapshot, b.changedAtMs = true, 0, 0
	b.emit(WriteSnapshot{Block: b.id, Snapshot: store.Snapshot{Version: b.state.Version, Data: b.state.AppendTo(nil)}})
}

// snapshotDone takes the fate of a snapshot; one that failed is written again after SnapshotMs.
func (b *Block) snapshotDone(wallMs int64, m SnapshotDone) {
	b.snapshotBusy = false
	if !m.Failed {
		b.snapshotVersion = max(b.snapshotVersion, m.Version)
		if b.flushing {
			b.snapshot()
		}
	} else if b.changedAtMs == 0 {
		b.changedAtMs = max(wallMs, 1)
	}
}

func (b *Block) blockLoaded(wallMs int64, m BlockLoaded) {
	if m.Generation != b.generation || b.loaded {
		return
	}
	b.loading = false
	if m.Failed || m.Head.Owner.SettingsVersion > b.rules.Version() {
		b.loadAtMs = wallMs + LoadRetryMs
		b.needSettings(m.Head)
		return
	}
	b.loaded = true
	b.duel.loaded()
	b.state, b.commits.version, b.snapshotVersion = m.State, m.State.Version, m.SnapshotVersion
	if b.state.Version > b.snapshotVersion {
		b.changedAtMs = max(wallMs, 1)
	}
	b.publishImages("")
	for _, t := range b.tiles {
		t.Reply(b.tile(t.At))
	}
	b.tiles = nil
	early := b.early
	b.early = nil
	for _, p := range early {
		b.placeTiles(wallMs, p)
	}
}

func (b *Block) tile(p board.Point) TileKnown {
	c := b.state.Chunks[p.Chunk().Slot()]
	if c == nil {
		return TileKnown{OK: true}
	}
	return TileKnown{OK: true, Colour: c.Tiles[p.Tile()], Version: c.Versions[p.Tile()]}
}

// needSettings asks for newer settings if the head was written under some.
func (b *Block) needSettings(head store.Head) {
	if version := head.Owner.SettingsVersion; version > b.rules.Version() {
		b.emit(RegionNeedsSettings{Version: version})
	}
}

// publishImages gives the chunks to the feed of the node to, "" for this one's.
func (b *Block) publishImages(to string) {
	b.emit(PublishImages{To: to, Message: blockImages(b.id, b.state)})
}

// moved ends a life of the block: somebody else made the version that was in flight.
func (b *Block) moved(wallMs int64, head store.Head) {
	b.duel.lost(wallMs, head, b.node.Address, b.random)
	b.needSettings(head)
	b.generation++
	b.forget()
	b.loadAtMs = wallMs
}

// ViewChanged lets the loser of a duel try again at once.
func (b *Block) ViewChanged(wallMs int64) []RegionEffect {
	b.out = b.out[:0]
	b.duel.tryAgain()
	b.drive(wallMs)
	return b.out
}

// Retire drops unsealed work, tells who asks for tiles that they are not known here any more, and reports whether a commit is
// still in flight, or a slot on its way, which has to go back.
func (b *Block) Retire() bool {
	for _, t := range b.tiles {
		t.Reply(TileKnown{})
	}
	b.tiles, b.early = nil, nil
	for _, a := range b.queue {
		delete(b.waiting, a.Ticket)
	}
	b.queue = nil
	return b.commits.inFlight != nil || b.commits.wantsSlot
}
