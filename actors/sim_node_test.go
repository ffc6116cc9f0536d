package actors

import (
	"fmt"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/wire"
)

// simNode is a node: its cores, each with a mailbox, and what the shells do with their effects.
type simNode struct {
	w        *world
	index    int
	life     int // counts the runs of its process
	node     Node
	skewMs   int64
	rules    *Rules
	shards   []*simShard
	blocks   []*simBlock
	feed     *simFeed
	sub      *simSubscriber
	keeper   *simKeeper
	inUse    int
	waiting  []*box // for a slot
	grants   []any
	sessions uint64
	refuse   board.Code // what the node's watch tells the shards
}

func newSimNode(w *world, index int) *simNode {
	n := &simNode{w: w, index: index, node: Node{ID: uint64(100 + index), Address: fmt.Sprintf("node%d", index)}}
	n.start()
	return n
}

// start begins a run of the node's process.
func (n *simNode) start() {
	n.life++
	n.node.Incarnation = n.w.rand.Uint64()
	n.rules = n.w.rulesOf()
	n.shards, n.blocks, n.waiting, n.grants, n.inUse, n.refuse = nil, nil, nil, nil, 0, board.CodeOK
	n.feed = newSimFeed(n, 0)
	n.sub = newSimSubscriber(n)
	n.keeper = newSimKeeper(n)
	for _, id := range n.w.core.Blocks() {
		n.toBlock(id, TouchBlock{Block: id})
	}
}

func (n *simNode) wallMs() int64 { return n.w.nowMs + n.skewMs }

// random gives the cores attempt ids and jitter.
func (n *simNode) random() uint64 { return n.w.rand.Uint64() }

// owner returns the node that the cluster thinks owns a partition; sometimes somebody thinks otherwise.
func (w *world) owner(p store.Partition) *simNode {
	if w.happens(w.odds.misroute) {
		return w.nodes[w.rand.IntN(len(w.nodes))]
	}
	i, ok := w.owners[p]
	if !ok {
		i = int(p.Index+uint16(p.Class)) % len(w.nodes)
		w.owners[p] = i
	}
	return w.nodes[i]
}

func (w *world) byAddress(address string) *simNode {
	for _, n := range w.nodes {
		if n.node.Address == address {
			return n
		}
	}
	return nil
}

// Store slots: granted in random order.

func (n *simNode) takeSlot(b *box, grant any) {
	n.waiting, n.grants = append(n.waiting, b), append(n.grants, grant)
	n.grant()
}

func (n *simNode) release() {
	n.inUse--
	n.grant()
}

func (n *simNode) grant() {
	for n.inUse < n.w.odds.slotsMax && len(n.waiting) > 0 {
		i := n.w.rand.IntN(len(n.waiting))
		b, m := n.waiting[i], n.grants[i]
		n.waiting, n.grants = slices.Delete(n.waiting, i, i+1), slices.Delete(n.grants, i, i+1)
		n.inUse++
		b.put(m)
	}
}

// simShard is the shard actor of a node, the parent of its user actors.
type simShard struct {
	n     *simNode
	index int
	core  *Shard
	box   *box
	users []*simUser

	parked map[board.UserID][]SessionRef // sessions of users without an actor

	strict *Rules // of a mutant
}

type simUser struct {
	s    *simShard
	id   board.UserID
	core *User
	box  *box
	sent uint64
}

func (n *simNode) shard(index int) *simShard {
	for _, s := range n.shards {
		if s.index == index {
			return s
		}
	}
	s := &simShard{n: n, index: index}
	s.box = n.w.newBox(fmt.Sprintf("%s/shard%d", n.node.Address, index), s.receive)
	s.start()
	n.shards = append(n.shards, s)
	return s
}

// simParkedRow brings the row of a user without an actor.
type simParkedRow struct {
	session SessionRef
	read    RowRead
}

func (s *simShard) start() {
	s.parked = map[board.UserID][]SessionRef{}
	s.core = NewShard(s.index, s.n.node, s.n.rules, s.n.random)
	if s.n.refuse != board.CodeOK {
		s.box.put(HealthChanged{Refuse: s.n.refuse})
	}
}

func (s *simShard) receive(m any) {
	wall := s.n.wallMs()
	if mutate := s.n.w.mutant.shard; mutate != nil {
		m = mutate(s, m)
	}
	switch m := m.(type) {
	case forUser:
		if !s.withoutActor(m) {
			s.do(s.core.ForUser(wall, m.user, m.message))
		}
	case simParkedRow:
		s.parkedRow(wall, m)
	case UserIdle:
		s.idle(m)
	case UserEffect:
		s.do(s.core.FromUser(wall, m))
	case SlotGranted:
		s.seal(wall, m)
	case ShardMessage:
		s.do(s.core.Receive(wall, m))
	}
	if after := s.n.w.mutant.afterShard; after != nil {
		after(s, m)
	}
}

func (s *simShard) lives(user board.UserID) bool {
	return slices.ContainsFunc(s.users, func(u *simUser) bool { return u.id == user })
}

// withoutActor serves sessions of users without an actor, as the shell does: they come, hear where they stand, and go.
func (s *simShard) withoutActor(m forUser) bool {
	if s.lives(m.user) {
		return false
	}
	switch message := m.message.(type) {
	case ForgetSession:
		s.unpark(m.user, message.Session)
		return true
	case RegisterSession:
		if parked := s.parked[m.user]; len(parked) >= UserSessionsMax || slices.Contains(parked, message.Session) {
			return false
		}
		s.parked[m.user] = append(s.parked[m.user], message.Session)
		s.n.readRow(s, ReadRow{User: m.user}, func(read RowRead) { s.box.put(simParkedRow{message.Session, read}) })
		return true
	default:
		return false
	}
}

func (s *simShard) parkedRow(wallMs int64, m simParkedRow) {
	user := m.read.User
	if !slices.Contains(s.parked[user], m.session) {
		return
	}
	nowMs := s.core.Now(wallMs)
	if row := &m.read.Row; !m.read.Failed && row.BannedUntilMs <= nowMs && readyAtMs(row, s.n.rules, s.n.node) <= nowMs {
		s.n.w.status(s.index, m.session, board.UserStatus{User: user, Turn: row.Turn + 1})
		return
	}
	s.unpark(user, m.session)
	s.do(s.core.ForUser(wallMs, user, RegisterSession{User: user, Session: m.session}))
}

func (s *simShard) unpark(user board.UserID, session SessionRef) {
	s.parked[user] = slices.DeleteFunc(s.parked[user], func(o SessionRef) bool { return o == session })
}

// seal lets the core seal its next commit. Sometimes the commit is full before every closing is in it, which takes hundreds
// of rows otherwise: closings are hidden from it.
func (s *simShard) seal(wallMs int64, m SlotGranted) {
	var hidden []*charge
	if len(s.core.queue) > 0 && s.n.w.happens(s.n.w.odds.full) {
		for _, c := range s.core.head {
			if c.state == chargePlaced {
				c.state = chargeOpen
				hidden = append(hidden, c)
			}
		}
	}
	effects := s.core.Receive(wallMs, m)
	for _, c := range hidden {
		c.state = chargePlaced
	}
	s.do(effects)
}

func (s *simShard) do(effects []ShardEffect) {
	n, w := s.n, s.n.w
	for _, effect := range effects {
		if mutate := w.mutant.shardEffect; mutate != nil {
			effect = mutate(s, effect)
		}
		switch e := effect.(type) {
		case TellUser:
			s.tell(e.User, e.Message)
		case TellUsers:
			for _, u := range s.users {
				s.tell(u.id, e.Message)
			}
		case SendCharges:
			w.send("charges", func() { w.owner(store.Block(e.Message.Block)).toBlock(e.Message.Block, e.Message) })
		case LoadShard:
			n.loadShard(s, e.Generation)
		case ReadRow:
			n.readRow(s, e, func(read RowRead) { s.box.put(read) })
		case TakeSlot:
			n.takeSlot(s.box, SlotGranted{})
		case DropSlot:
			n.release()
		case MakeCommit:
			n.commit(coreLife{&s.core.commits, s.core.generation}, e.Commit, true, func(attempt uint64, r store.Result) {
				s.box.put(CommitDone{Attempt: attempt, Result: r})
			})
		case ForwardToOwner:
			w.send("forward", func() {
				if to := w.byAddress(e.Address); to != nil {
					to.toUser(simUserOf(e.Message), e.Message)
				}
			})
		case ShardInForce:
			w.check.inForce(e)
		case NeedChunk:
			n.feed.box.put(GetTiles{Chunk: e.Chunk, Reply: func(i ChunkImage) { s.box.put(ChunkRead{Chunk: i.Chunk, Tiles: i.Tiles}) }})
		case StopUser:
			s.stop(e.User)
		case ReportProblem:
			w.fail("panic", "%s: %v", e.What, e.Err)
		}
	}
}

func simUserOf(m UserMessage) board.UserID {
	switch m := m.(type) {
	case PlaceTile:
		return m.Request.User
	case RegisterSession:
		return m.User
	case ForgetSession:
		return m.User
	case SetBan:
		return m.User
	}
	return ""
}

func (n *simNode) toUser(user board.UserID, m UserMessage) {
	n.shard(user.Shard()).box.put(forUser{user, m})
}

func (s *simShard) user(id board.UserID) *simUser {
	i := slices.IndexFunc(s.users, func(u *simUser) bool { return u.id == id })
	if i >= 0 {
		return s.users[i]
	}
	u := &simUser{s: s, id: id}
	u.box = s.n.w.newBox(s.box.name+"/"+string(id), u.receive)
	u.start()
	s.users = append(s.users, u)
	for _, session := range s.parked[id] {
		u.sent++
		u.box.put(RegisterSession{User: id, Session: session, Rules: s.n.rules})
	}
	delete(s.parked, id)
	return u
}

func (u *simUser) start() { u.core = NewUser(u.id, u.s.n.node, u.s.core.Generation()) }

func (s *simShard) tell(user board.UserID, m UserMessage) {
	u := s.user(user)
	u.sent++
	u.box.put(m)
}

func (s *simShard) idle(m UserIdle) {
	for _, u := range s.users {
		if u.id == m.User && m.Idle && u.sent == m.Messages {
			s.parked[m.User] = m.Sessions
			s.stop(m.User)
			return
		}
	}
}

func (s *simShard) stop(user board.UserID) {
	s.users = slices.DeleteFunc(s.users, func(u *simUser) bool { return u.id == user })
}

func (u *simUser) receive(m any) {
	w := u.s.n.w
	message := m.(UserMessage)
	if mutate := w.mutant.user; mutate != nil {
		message = mutate(u, message)
	}
	for _, effect := range u.core.Receive(u.s.n.wallMs(), message) {
		switch e := effect.(type) {
		case Answer:
			w.check.answer(u, e)
			w.send("answer", func() {
				if n := w.byAddress(e.To.Node); n != nil {
					n.sub.box.put(Answered{Session: e.To.Session, Outcome: e.Outcome})
				}
			})
		case TellStatus:
			w.status(u.s.index, e.To, e.Status)
		case AskRow, AskCharge, AskBan, UserIdle:
			u.s.box.put(e)
			if w.mutant.userEffect != nil {
				w.mutant.userEffect(u, e)
			}
		}
	}
}

// status carries a user's status to a session.
func (w *world) status(shard int, to SessionRef, status board.UserStatus) {
	w.check.status(shard, status)
	w.send("status", func() {
		if n := w.byAddress(to.Node); n != nil {
			n.sub.box.put(StatusChanged{Session: to.Session, Status: status})
		}
	})
}

// simBlock is a block of a node.
type simBlock struct {
	n    *simNode
	id   board.BlockID
	core *Block
	box  *box

	life    int  // of the node's process
	retired bool // its region has another size now
}

func (n *simNode) block(id board.BlockID) *simBlock {
	for _, b := range n.blocks {
		if b.id == id {
			return b
		}
	}
	b := &simBlock{n: n, id: id, life: n.life}
	b.box = n.w.newBox(fmt.Sprintf("%s/block%d.%d", n.node.Address, id.Col(), id.Row()), b.receive)
	b.start()
	n.blocks = append(n.blocks, b)
	return b
}

func (b *simBlock) start() { b.core = NewBlock(b.id, b.n.node, b.n.rules, b.n.random) }

func (n *simNode) toBlock(id board.BlockID, m RegionMessage) { n.block(id).box.put(m) }

func (b *simBlock) receive(m any) {
	message := m.(RegionMessage)
	if b.life != b.n.life {
		return
	}
	if b.retired {
		switch m := message.(type) {
		case PlaceTiles, TouchBlock, PullBlock:
			b.n.toBlock(b.id, m)
			return
		default:
			defer b.core.Retire()
		}
	}
	if mutate := b.n.w.mutant.block; mutate != nil {
		message = mutate(b, message)
	}
	b.do(b.core.Receive(b.n.wallMs(), message))
}

// retire lets another actor run the block from now on, as a change of the region size does; this one ends what is in flight.
func (b *simBlock) retire() {
	b.retired = true
	b.n.blocks = slices.DeleteFunc(b.n.blocks, func(o *simBlock) bool { return o == b })
	b.core.Retire()
	b.n.toBlock(b.id, TouchBlock{Block: b.id})
}

func (b *simBlock) do(effects []RegionEffect) {
	n, w := b.n, b.n.w
	for _, effect := range effects {
		if mutate := w.mutant.blockEffect; mutate != nil {
			effect = mutate(b, effect)
		}
		switch e := effect.(type) {
		case AnswerShard:
			w.send("placed", func() {
				if to := w.byAddress(e.To); to != nil {
					to.shard(e.Message.Shard).box.put(e.Message)
				}
			})
		case LoadBlock:
			n.loadBlock(b, e.Generation)
		case TakeBlockSlot:
			n.takeSlot(b.box, BlockSlotGranted{Block: b.id})
		case DropBlockSlot:
			n.release()
		case MakeBlockCommit:
			n.commit(coreLife{&b.core.commits, b.core.generation}, e.Commit, true, func(attempt uint64, r store.Result) {
				b.box.put(BlockCommitDone{Block: b.id, Attempt: attempt, Result: r})
			})
		case Publish:
			w.toFeeds(e.Message)
		case PublishImages:
			w.toFeeds(e.Message)
		case WriteSnapshot:
			n.writeSnapshot(b, e)
		case ForwardCharges:
			w.send("forwarded charges", func() {
				if to := w.byAddress(e.Address); to != nil {
					to.toBlock(e.Message.Block, e.Message)
				}
			})
		}
	}
}

func (n *simNode) writeSnapshot(b *simBlock, e WriteSnapshot) {
	w, life := n.w, n.life
	w.after(w.storeDelay(), "snapshot arrives", func() {
		failed := w.down || w.happens(w.odds.storeFail)
		if !failed {
			w.core.PutSnapshot(e.Block, e.Snapshot)
			w.check.snapshot(e.Block, e.Snapshot)
			if w.happens(0.1) {
				w.core.CorruptSnapshot(e.Block, e.Snapshot.Version)
			}
		}
		n.ifAlive(life, func() { b.box.put(SnapshotDone{Block: e.Block, Version: e.Snapshot.Version, Failed: failed}) })
	})
}

// toFeeds publishes to the feed of every node.
func (w *world) toFeeds(m FeedMessage) {
	for _, n := range w.nodes {
		w.send("published", func() { n.feed.box.put(m) })
	}
}

// simFeed is the feed actor of a node.
type simFeed struct {
	n    *simNode
	core *Feed
	box  *box
}

func newSimFeed(n *simNode, tick uint64) *simFeed {
	f := &simFeed{n: n, core: NewFeed(simEpoch, n.node.Incarnation, tick, n.rules)}
	f.box = n.w.newBox(n.node.Address+"/feed", f.receive)
	return f
}

func (f *simFeed) receive(m any) {
	w := f.n.w
	message := m.(FeedMessage)
	if mutate := w.mutant.feed; mutate != nil {
		message = mutate(f, message)
	}
	for _, effect := range f.core.Receive(f.n.wallMs(), message) {
		switch e := effect.(type) {
		case ToSubscribers:
			f.n.sub.box.put(e.Message)
		case ToSubscriber:
			f.n.sub.box.put(e.Message)
		case AskBlock:
			w.send("pull", func() { w.owner(store.Block(e.Block)).toBlock(e.Block, PullBlock(e)) })
		}
	}
}

// simSubscriber is the subscriber actor of a node.
type simSubscriber struct {
	n    *simNode
	core *Subscriber
	box  *box
}

func newSimSubscriber(n *simNode) *simSubscriber {
	s := &simSubscriber{n: n}
	s.box = n.w.newBox(n.node.Address+"/subscriber", s.receive)
	s.start()
	return s
}

func (s *simSubscriber) start() {
	n := s.n
	s.core = NewSubscriber(0, n.node, NodeHello{Epoch: simEpoch, Incarnation: n.node.Incarnation}, n.rules, 0)
	n.feed.box.put(GetTable{Subscriber: 0})
}

func (s *simSubscriber) receive(m any) {
	w := s.n.w
	if a, ok := m.(Answered); ok && a.Session >= simBanSession {
		w.banAnswered(a)
		return
	}
	for _, effect := range s.core.Receive(s.n.wallMs(), m.(SubscriberMessage)) {
		switch e := effect.(type) {
		case ToFeed:
			s.n.feed.box.put(e.Message)
		case ToShard:
			w.send("to shard", func() { w.owner(store.Shard(e.User.Shard())).toUser(e.User, e.Message) })
		}
	}
}

// session returns a number for a new session, never used twice in a process.
func (n *simNode) session() wire.SessionID {
	n.sessions++
	return wire.SessionID(n.sessions)
}

// simKeeper is the settings actor of a node.
type simKeeper struct {
	n    *simNode
	core *SettingsKeeper
	box  *box
}

func newSimKeeper(n *simNode) *simKeeper {
	k := &simKeeper{n: n, core: NewSettingsKeeper(n.node, n.rules, n.random)}
	k.box = n.w.newBox(n.node.Address+"/settings", k.receive)
	return k
}

func (k *simKeeper) receive(m any) {
	n, w := k.n, k.n.w
	for _, effect := range k.core.Receive(n.wallMs(), m.(SettingsMessage)) {
		switch e := effect.(type) {
		case MakeSettingsCommit:
			n.commit(coreLife{&k.core.commits, 0}, e.Commit, false, func(attempt uint64, r store.Result) {
				k.box.put(SettingsCommitDone{Attempt: attempt, Result: r})
			})
		case ReadSettings:
			read := SettingsRead{}
			n.read("read settings", func() {}, func() {
				for _, entry := range w.core.Journal(store.Settings(), e.From) {
					r, err := DecodeSettingsRecord(entry.Value)
					if err != nil {
						panic(err)
					}
					read.Records = append(read.Records, r)
				}
			}, func(failed bool) { read.Failed = failed; k.box.put(read) })
		case AnnounceSettings:
			n.adopt(e.Rules)
		}
	}
}

// adopt gives newer settings to every core of the node.
func (n *simNode) adopt(rules *Rules) {
	if rules.Version() <= n.rules.Version() {
		return
	}
	n.rules = rules
	for _, s := range n.shards {
		s.box.put(SettingsMade{Rules: rules})
	}
	for _, b := range n.blocks {
		b.core.SetRules(rules)
	}
	n.feed.box.put(FeedSettings{Rules: rules})
}
