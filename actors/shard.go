package actors

// In:  AskCharge from a user of this shard; TilesPlaced from regions; the fate of commits from the store.
// Out: one commit at a time with charges, closings and bans; SendCharges to regions until they are placed.
// A charge that is committed is a promise: there is no refusal and no refund after it (DESIGN, a placement, step 3).

import (
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Bounds of a shard.
const (
	// ShardOpenMax is how many charges of a shard may be queued, in flight or open; beyond: busy.
	ShardOpenMax = 512
	// ShardBlockOpenMax is the same for one block.
	ShardBlockOpenMax = 32
	// ShardBlockTicketsMax is how many tickets of a shard for one block may lie at or above its floor; beyond: busy.
	ShardBlockTicketsMax = 256
	// ShardBansMax is how many bans wait for a commit, and one commit carries; beyond: busy.
	ShardBansMax = 64
	// ResendMs is how long a shard waits for TilesPlaced before it sends a charge again.
	ResendMs = 500
	// UnknownMs is for how long a user waits to hear whether a charge is durable; then the answer is that nobody knows (I8).
	UnknownMs = 3000
	// OverdueMs is after how long a charge is called "charged, not on the board yet".
	OverdueMs = 1000
	// CloseMs is how long a placed charge waits for another commit to carry its closing.
	CloseMs = 1000
	// FenceMs is after how long a loaded shard commits although it has nothing to write. Until one commit of this life is
	// applied, a commit of the life before may still arrive, and its charges would be known to nobody.
	FenceMs = 5000
	// StoreRetryMs is the retry hint when the store is away.
	StoreRetryMs = 1000
	// LoadRetryMs is how long a core waits before it asks the store again after a failed read.
	LoadRetryMs = 200
)

// Shard charges the users of one shard. It is the core of the shard actor: no I/O, no clock.
type Shard struct {
	index      int
	node       Node
	random     func() uint64
	generation uint64
	commits    committer
	rules      *Rules // newest known
	refuse     board.Code

	away      bool  // another node owns the shard in this node's view
	strayToMs int64 // until when it serves all the same
	leaveByMs int64 // when it is given up at the latest
	loaded    bool
	loading   bool
	loadAtMs  int64 // not before
	duel      duel

	fenced      bool   // no commit of an earlier life can be applied any more
	fenceAt     int64  // when to commit for that alone
	reportAgain bool   // charges under older settings were open at the last report
	inForce     uint64 // settings version of the committed head
	lastAtMs    int64  // of the committed head
	queue       []*charge
	head        []*charge // open or closing in the committed head, in the order of their tickets
	users       map[board.UserID]*charge
	blocks      map[board.BlockID]*blockLoad
	rowsAsked   []rowAsked // until the shard is loaded, or the store answers again
	reads       map[board.UserID]*rowKnown
	bans        []AskBan
	sealed      sealedShard
	unclosed    int // queued, in flight and open charges
	closings    int // placed charges that are still in the committed head
	closeAt     int64
	jobs        jobs // ops only
	out         []ShardEffect
}

// sealedShard is what the commit in flight will change.
type sealedShard struct {
	atMs     int64
	version  uint64 // of the settings
	charges  []*charge
	closings []*charge
	bans     []AskBan
	jobs     []*job
}

// NewShard returns the core of a shard that has to be loaded. random gives attempt ids and jitter.
func NewShard(index int, node Node, rules *Rules, random func() uint64) *Shard {
	// Answers to an earlier core of this shard may still arrive: no generation of it may come again.
	s := &Shard{index: index, node: node, random: random, rules: rules, generation: random()}
	s.commits = committer{
		partition: store.Shard(index), random: random,
		owner: store.Owner{Address: node.Address, Incarnation: node.Incarnation},
	}
	s.forget()
	return s
}

func (s *Shard) forget() {
	s.commits.reset()
	s.loaded, s.loading, s.inForce, s.lastAtMs = false, false, 0, 0
	s.queue, s.head, s.bans, s.sealed, s.unclosed, s.closings, s.closeAt = nil, nil, nil, sealedShard{}, 0, 0, 0
	s.rowsAsked, s.reads = nil, map[board.UserID]*rowKnown{}
	s.users, s.blocks, s.jobs = map[board.UserID]*charge{}, map[board.BlockID]*blockLoad{}, jobs{}
}

// Generation names the life of the shard's memory; the next one is one higher.
func (s *Shard) Generation() uint64 { return s.generation }

// Now returns the shard's clock: the wall clock, or the latest time it has given out if that is later. A clock that jumps
// back stretches cooldowns and never shrinks one.
func (s *Shard) Now(wallMs int64) int64 { return max(wallMs, s.lastAtMs, s.sealed.atMs) }

// Open returns how many charges are queued, in flight or open.
func (s *Shard) Open() int { return s.unclosed }

// Receive handles a message of the shard itself at wall time wallMs (Unix milliseconds) and returns what to do. The result
// is valid until the next call.
func (s *Shard) Receive(wallMs int64, message ShardMessage) []ShardEffect {
	s.out = s.out[:0]
	switch m := message.(type) {
	case ShardLoaded:
		s.shardLoaded(wallMs, m)
	case RowRead:
		s.rowRead(wallMs, m)
	case SlotGranted:
		s.slotGranted(wallMs)
	case CommitDone:
		s.commitDone(wallMs, m)
	case TilesPlaced:
		s.tilesPlaced(wallMs, m)
	case SettingsMade:
		if m.Rules.Version() > s.rules.Version() {
			s.rules = m.Rules
		}
	case HealthChanged:
		s.healthChanged(m.Refuse)
	case ChunkRead:
		s.jobs.chunkRead(wallMs, m)
	case ChunkPlanned:
		s.jobs.chunkPlanned(wallMs, m)
	case StartJob:
		s.jobs.start(s, m)
	case GetJobs:
		m.Reply(s.jobs.list())
	case Tick:
		s.tick(wallMs)
	}
	s.leave(wallMs)
	s.drive(wallMs)
	return s.out
}

// ForUser handles a message that a user of this shard is to get.
func (s *Shard) ForUser(wallMs int64, user board.UserID, message UserMessage) []ShardEffect {
	s.out = s.out[:0]
	s.stray(wallMs)
	if s.duel.deposed(wallMs) {
		onward, again := forwarded(message)
		if !again {
			s.emit(ForwardToOwner{Address: s.duel.winner, User: user, Message: onward})
			return s.out
		}
		s.duel.tryAgain() // the owner's own node thinks that it is us: serve it
	}
	s.emit(TellUser{User: user, Message: withRules(message, s.rules)})
	s.drive(wallMs)
	return s.out
}

// FromUser handles what a user actor of this shard asks of the shard.
func (s *Shard) FromUser(wallMs int64, effect UserEffect) []ShardEffect {
	s.out = s.out[:0]
	switch e := effect.(type) {
	case AskRow:
		switch {
		case e.Generation != s.generation:
		case s.loaded:
			s.readRow(rowAsked{e.User, e.Life})
		default:
			s.rowsAsked = append(s.rowsAsked, rowAsked{e.User, e.Life})
		}
	case AskCharge:
		s.askCharge(wallMs, e)
	case AskBan:
		s.askBan(e)
	case Answer, TellStatus, UserIdle: // not for the shard
	}
	s.drive(wallMs)
	return s.out
}

func (s *Shard) emit(e ShardEffect) { s.out = append(s.out, e) }

func (s *Shard) tell(user board.UserID, m UserMessage) { s.emit(TellUser{User: user, Message: m}) }

// drive takes the next step that the state allows: load, or ask for a slot.
func (s *Shard) drive(wallMs int64) {
	switch {
	case s.duel.deposed(wallMs) || s.rules == nil:
	case !s.loaded:
		if !s.loading && !waits(wallMs, s.loadAtMs, LoadRetryMs) && s.serves(wallMs) {
			s.loading = true
			s.emit(LoadShard{Generation: s.generation})
		}
	default:
		if s.refuse == board.CodeOK && !s.away {
			s.jobs.next(s, wallMs)
		}
		if s.refuse != board.CodeClock && s.hasWork(wallMs) && s.commits.askSlot() {
			s.emit(TakeSlot{})
		}
	}
}

func (s *Shard) hasWork(wallMs int64) bool {
	if s.refuse == board.CodeClock {
		return false // nothing is sealed under a clock that is not trusted
	}
	if s.away {
		return len(s.queue) > 0 && s.refuse == board.CodeOK || len(s.bans) > 0
	}
	return len(s.queue) > 0 && s.refuse == board.CodeOK || len(s.bans) > 0 || s.jobs.changed() || s.inForce != s.rules.Version() ||
		s.closings > 0 && !waits(wallMs, s.closeAt, CloseMs) || !s.fenced && !waits(wallMs, s.fenceAt, FenceMs)
}

// askCharge queues a charge unless the load or a refusal of the whole shard speaks against it.
func (s *Shard) askCharge(wallMs int64, e AskCharge) {
	if e.Generation != s.generation {
		return // the user hears ReloadUser and answers "unknown"
	}
	refuse := func(code board.Code, waitMs int64) {
		s.tell(e.User, ChargeRefused{Turn: e.Turn, Code: code, WaitMs: waitMs, Rules: s.rules})
	}
	switch {
	case !s.loaded:
		refuse(board.CodeStore, StoreRetryMs)
	case s.refuse != board.CodeOK:
		refuse(s.refuse, StoreRetryMs)
	case s.users[e.User] != nil && s.users[e.User].state < chargePlaced:
		refuse(board.CodeBusy, BusyRetryMs)
	case !s.room(e.At.Block()):
		refuse(board.CodeBusy, BusyRetryMs)
	default:
		s.enqueue(&charge{before: e.Before, banned: e.Before.Ban, askedMs: wallMs, Charge: store.Charge{
			User: e.User, Turn: e.Turn, Nonce: e.Nonce, At: e.At, Colour: e.Colour, Kind: board.KindUser, UserPrevious: e.Before.Newest,
		}})
	}
}

// refuseQueued takes a charge out of what is counted and refuses it: it was not sealed, so nothing has happened.
func (s *Shard) refuseQueued(c *charge, code board.Code, waitMs int64) {
	s.release(c)
	if s.users[c.User] == c {
		delete(s.users, c.User)
		if c.older != nil && c.older.state != chargeClosed {
			s.users[c.User] = c.older
		}
	}
	s.tell(c.User, ChargeRefused{Turn: c.Turn, Code: code, WaitMs: waitMs, Rules: s.rules})
}

// healthChanged stops new charges, those included that are queued: their users hear at once.
func (s *Shard) healthChanged(refuse board.Code) {
	s.refuse = refuse
	if refuse == board.CodeOK {
		return
	}
	queue := s.queue
	s.queue = nil
	for _, c := range queue {
		if c.Kind == board.KindUser {
			s.refuseQueued(c, refuse, StoreRetryMs)
		} else {
			s.queue = append(s.queue, c) // a job's: it waits
		}
	}
}

func (e *AskBan) ban() store.Ban { return store.Ban{BannedUntilMs: e.UntilMs, BanNote: e.Note} }

// askBan queues a ban for the next commit, which takes all that are queued: then what the user knew of its row still holds.
func (s *Shard) askBan(e AskBan) {
	switch {
	case e.Generation != s.generation: // the user hears ReloadUser and answers "unknown"
	case len(s.bans) >= ShardBansMax:
		s.tell(e.User, BanRefused{To: e.To, Code: board.CodeBusy, WaitMs: BusyRetryMs})
	default:
		s.bans = append(s.bans, e)
	}
}

// slotGranted seals the next commit: closings first, then bans, then charges, each checked again under the rules that the
// commit carries.
func (s *Shard) slotGranted(wallMs int64) {
	if !s.commits.wantsSlot {
		s.emit(DropSlot{}) // asked for in an earlier life
		return
	}
	s.commits.wantsSlot = false
	if !s.loaded || s.duel.deposed(wallMs) || !s.hasWork(wallMs) {
		s.emit(DropSlot{})
		return
	}
	b := newShardBuilder(s, s.Now(wallMs))
	b.bans()
	b.closings()
	b.charges()
	b.jobs()
	if b.empty() && s.fenced && s.inForce == s.rules.Version() {
		s.emit(DropSlot{}) // every charge was refused at the last check
		return
	}
	s.sealed = b.sealed
	s.emit(MakeCommit{Commit: s.commits.seal(s.rules.Version(), b.state(), b.rows)})
}

func (s *Shard) commitDone(wallMs int64, m CommitDone) {
	switch s.commits.result(m.Attempt, m.Result) {
	case fateApplied:
		s.applied(wallMs)
	case fateMoved:
		s.moved(wallMs, m.Result.Head)
	case fateStale, fateUnknown:
	}
}

// applied makes the sealed commit the state.
func (s *Shard) applied(wallMs int64) {
	sealed := s.sealed
	older := s.inForce
	s.lastAtMs, s.inForce, s.fenced = sealed.atMs, sealed.version, true
	s.dropClosed(sealed.closings)
	for _, ban := range sealed.bans {
		s.setBanned(ban)
		if known := s.reads[ban.User]; known != nil {
			known.row.Ban, known.ban = ban.ban(), true
		}
		s.tell(ban.User, BanWritten{UntilMs: ban.UntilMs, Note: ban.Note, To: ban.To, Rules: s.rules})
	}
	s.jobs.applied(sealed.jobs)
	s.sealed = sealedShard{}
	for _, c := range sealed.charges {
		c.state, c.madeAtMs = chargeOpen, wallMs
		s.addToHead(c)
		if c.Kind == board.KindUser {
			s.tell(c.User, ChargeMade{Row: chargeRow(c), Rules: s.rules})
		}
	}
	s.sendCharges(wallMs, sealed.charges)
	if s.inForce != older {
		s.emit(TellUsers{RulesChanged{Rules: s.rules}})
	}
	if s.inForce != older || s.reportAgain {
		s.reportInForce()
	}
}

// setBanned lets the charges of a user carry the ban into the rows that they will still write.
func (s *Shard) setBanned(ban AskBan) {
	for _, c := range slices.Concat(s.queue, s.head, s.sealed.charges) {
		if c.User == ban.User && c.Kind == board.KindUser {
			c.banned = ban.ban()
		}
	}
}

// sendCharges sends charges to the regions of their blocks, one message a block.
func (s *Shard) sendCharges(wallMs int64, charges []*charge) {
	var messages []PlaceTiles // a few, one a block
	for _, c := range charges {
		c.sentAtMs = wallMs
		b := c.At.Block()
		i := slices.IndexFunc(messages, func(m PlaceTiles) bool { return m.Block == b })
		if i < 0 {
			i = len(messages)
			messages = append(messages, PlaceTiles{
				Shard: s.index, Block: b, Floor: s.floor(b), SettingsVersion: s.rules.Version(), From: s.node.Address,
			})
		}
		messages[i].Charges = append(messages[i].Charges, c.Charge)
	}
	for _, m := range messages {
		s.emit(SendCharges{m})
	}
}

// tilesPlaced closes charges whose placements are on the board.
func (s *Shard) tilesPlaced(wallMs int64, m TilesPlaced) {
	l := s.blocks[m.Block]
	if !s.loaded || l == nil {
		return
	}
	for _, r := range m.Results {
		i := slices.IndexFunc(l.head, func(c *charge) bool { return c.Ticket == r.Ticket })
		if i < 0 || l.head[i].state != chargeOpen {
			continue // an echo
		}
		if r.Settled {
			// The block has heard a floor above a ticket that is open here: a newer head exists.
			s.reload(wallMs)
			return
		}
		s.close(wallMs, l.head[i], r.Sequence, r.Version)
	}
}

func (s *Shard) close(wallMs int64, c *charge, sequence, version uint64) {
	c.state, c.sequence, c.version = chargePlaced, sequence, version
	if s.closings == 0 {
		s.closeAt = wallMs + CloseMs
	}
	s.closings++
	s.release(c)
	if c.Kind == board.KindUser {
		s.tell(c.User, ChargePlaced{Turn: c.Turn, Sequence: sequence, Version: version, Rules: s.rules})
		return
	}
	s.jobs.placed(c)
}

// tick sends again what has not been heard of, and lets overdue users know.
func (s *Shard) tick(wallMs int64) {
	if !s.loaded {
		return
	}
	rows := s.rowsAsked
	s.rowsAsked = nil
	for _, asked := range rows {
		s.readRow(asked)
	}
	s.tellUnsure(wallMs)
	var again []*charge
	for _, c := range s.head {
		if c.state != chargeOpen {
			continue
		}
		if !waits(wallMs, c.sentAtMs+ResendMs, ResendMs) {
			again = append(again, c)
		}
		if !c.overdue && !waits(wallMs, c.madeAtMs+OverdueMs, OverdueMs) && c.Kind == board.KindUser {
			c.overdue = true
			s.tell(c.User, ChargeOverdue{Turn: c.Turn, Rules: s.rules})
		}
	}
	s.sendCharges(wallMs, again)
}

// tellUnsure tells the users whose charges have waited too long for a commit with a known outcome.
func (s *Shard) tellUnsure(wallMs int64) {
	for _, waiting := range [][]*charge{s.sealed.charges, s.queue} {
		for _, c := range waiting {
			if c.Kind == board.KindUser && !c.unsure && !waits(wallMs, c.askedMs+UnknownMs, UnknownMs) {
				c.unsure = true
				s.tell(c.User, ChargeUnsure{Turn: c.Turn, Rules: s.rules})
			}
		}
	}
}

func (s *Shard) reportInForce() {
	older := 0
	for _, c := range s.head {
		if c.state == chargeOpen && c.SettingsVersion < s.inForce {
			older++
		}
	}
	s.reportAgain = older > 0
	s.emit(ShardInForce{Shard: s.index, Version: s.inForce, OpenOlder: older})
}
