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
		case RegionNeedsSettings:
			n.needSettings()
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

// needSettings lets the node read the newest settings after a while.
func (n *simNode) needSettings() {
	life := n.life
	n.w.after(n.w.storeDelay(), "settings are read", func() { n.ifAlive(life, func() { n.adopt(n.w.rulesOf()) }) })
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
			w.send("pull", func() { w.owner(store.Block(e.Block)).toBlock(e.Block, PullBlock{Block: e.Block}) })
		case TellWatchers:
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
	message := m.(SubscriberMessage)
	if mutate := w.mutant.subscriber; mutate != nil {
		message = mutate(message)
	}
	for _, effect := range s.core.Receive(s.n.wallMs(), message) {
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
	message := m.(SettingsMessage)
	if mutate := w.mutant.keeper; mutate != nil {
		message = mutate(k, message)
	}
	for _, effect := range k.core.Receive(n.wallMs(), message) {
		switch e := effect.(type) {
		case MakeSettingsCommit:
			n.commit(coreLife{&k.core.commits, 0}, e.Commit, false, func(attempt uint64, r store.Result) {
				k.box.put(SettingsCommitDone{Attempt: attempt, Result: r})
			})
		case ReadSettings:
			read := SettingsRead{}
			n.read("read settings", func() {}, func() {
				for _, entry := range w.core.Journal(store.Settings(), e.From) {
					r, err := store.DecodeSettings(entry.Value)
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
