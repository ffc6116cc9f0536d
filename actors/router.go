package actors

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// Router tells which node owns a shard or a region. Ownership is only the fast path: the store decides (DESIGN, 4).
type Router interface {
	// ShardOwner returns the address of the node that owns a shard.
	ShardOwner(shard int) string
	// RegionOwner returns the address of the node that owns a region.
	RegionOwner(region board.RegionID) string
	// Alive reports whether the node at an address can be reached.
	Alive(address string) bool
}

// Alone is the Router of a node without others.
type Alone struct{ Address string }

// ShardOwner implements Router.
func (a Alone) ShardOwner(int) string { return a.Address }

// RegionOwner implements Router.
func (a Alone) RegionOwner(board.RegionID) string { return a.Address }

// Alive implements Router.
func (a Alone) Alive(address string) bool { return address == a.Address }

// waiterBit marks session ids that stand for a waiting request instead of a session.
const waiterBit wire.SessionID = 1 << 63

// waiter is a request of this process that waits for an answer of an actor, here or elsewhere. Its functions must not block.
type waiter struct {
	outcome func(board.PlaceOutcome)
	status  func(board.UserStatus)
	tile    func(TileKnown)
	jobs    func(jobsTold)
}

// post delivers messages. Whether their receiver lives on this node or on another is known in this file only.
type post struct {
	root    *actor.RootContext
	node    Node
	router  Router
	network Network // nil: no other nodes
	metrics *metrics
	rules   atomic.Pointer[Rules] // the newest of this node

	shards      []*actor.PID
	feed        *actor.PID
	settings    *actor.PID
	subscribers []*actor.PID
	spawnRegion func(board.RegionID) *actor.PID

	regionsMu sync.RWMutex // guards regions
	regions   map[board.RegionID]*actor.PID

	waiters  sync.Map              // wire.SessionID -> waiter
	waiterID func() wire.SessionID // a new one
	deltas   deltas
}

// send lets a message leave for another node. What cannot be sent is counted by the kind of its receiver; whoever sent it
// sends again.
func (p *post) send(to, kind string, message any) {
	if p.network == nil || !p.network.Send(to, encodeEnvelope(message)) {
		p.metrics.undeliverable.WithLabelValues(kind).Inc()
	}
}

// toShard delivers a message that a shard actor understands to the shard's owner.
func (p *post) toShard(shard int, message any) {
	p.toShardAt(p.router.ShardOwner(shard), shard, message)
}

// toShardAt delivers a message to the shard actor of a node.
func (p *post) toShardAt(address string, shard int, message any) {
	if address == p.node.Address {
		p.root.Send(p.shards[shard], message)
		return
	}
	switch m := message.(type) {
	case StartJob:
		message = jobAsked{Job: m.Job, To: p.ask(waiter{jobs: func(t jobsTold) {
			if err := t.err(); err != nil || len(t.Jobs) == 0 {
				m.Reply(m.Job, err)
			} else {
				m.Reply(t.Jobs[0], nil)
			}
		}})}
	case GetJobs:
		message = jobAsked{List: true, To: p.ask(waiter{jobs: func(t jobsTold) {
			if t.err() == nil {
				m.Reply(t.Jobs) // otherwise who asks gives up in time
			}
		}})}
	}
	p.send(address, "shard", message)
}

// fromOther delivers a user's message of another node: to the shard here if it is this node's, or if the message has been
// forwarded already; else it is forwarded once.
func (p *post) fromOther(f forUser) {
	shard := f.user.Shard()
	owner := p.router.ShardOwner(shard)
	if onward, again := forwarded(f.message); owner != p.node.Address && !again {
		p.send(owner, "shard", forUser{f.user, onward})
		return
	}
	p.root.Send(p.shards[shard], f)
}

// ask registers a question to another node and returns where its answer goes. It is forgotten after AskTimeout.
func (p *post) ask(w waiter) SessionRef {
	id := p.waiterID()
	p.waiters.Store(id, w)
	time.AfterFunc(AskTimeout, func() { p.waiters.Delete(id) })
	return SessionRef{Node: p.node.Address, Session: id}
}

// answerWaiter gives an answer to the request that waits for it.
func (p *post) answerWaiter(to SessionRef, answer func(waiter)) {
	if w, ok := p.waiters.LoadAndDelete(to.Session); ok {
		answer(w.(waiter))
	}
}

// toUser delivers a message to a user, by way of its shard.
func (p *post) toUser(user board.UserID, message UserMessage) {
	p.toShard(user.Shard(), forUser{user, message})
}

// toBlock delivers a message to the region that runs a block under the newest settings of this node. The region is spawned
// at first use.
func (p *post) toBlock(block board.BlockID, message RegionMessage) {
	id := block.Region(p.rules.Load().Settings().RegionSize)
	p.toRegionAt(p.router.RegionOwner(id), id, message)
}

// toRegionAt delivers a message to the region actor of a node.
func (p *post) toRegionAt(address string, id board.RegionID, message RegionMessage) {
	if address == p.node.Address {
		p.root.Send(p.region(id), message)
		return
	}
	switch m := message.(type) {
	case TouchBlock:
		p.send(address, "region", PullBlock{Block: m.Block, From: p.node.Address})
	case PullBlock:
		p.send(address, "region", PullBlock{Block: m.Block, From: p.node.Address})
	case GetTile:
		p.send(address, "region", tileAsked{At: m.At, To: p.ask(waiter{tile: m.Reply})})
	case PlaceTiles:
		p.send(address, "region", m)
	case BlockLoaded, BlockSlotGranted, BlockCommitDone, SnapshotDone, SnapshotBlocks: // never leave their node
	}
}

// pull asks a block's owner for its images, for this node's feed.
func (p *post) pull(block board.BlockID) { p.toBlock(block, PullBlock{Block: block}) }

// ownsBlock reports whether the region that runs a block is this node's.
func (p *post) ownsBlock(block board.BlockID) bool {
	return p.router.RegionOwner(block.Region(p.rules.Load().Settings().RegionSize)) == p.node.Address
}

func (p *post) region(id board.RegionID) *actor.PID {
	p.regionsMu.RLock()
	pid := p.regions[id]
	p.regionsMu.RUnlock()
	if pid != nil {
		return pid
	}
	p.regionsMu.Lock()
	defer p.regionsMu.Unlock()
	if pid = p.regions[id]; pid == nil {
		pid = p.spawnRegion(id)
		p.regions[id] = pid
	}
	return pid
}

// allRegions returns the regions that live on this node.
func (p *post) allRegions() map[board.RegionID]*actor.PID {
	p.regionsMu.RLock()
	defer p.regionsMu.RUnlock()
	return maps.Clone(p.regions)
}

// forgetRegion takes a region that is about to stop out of the directory.
func (p *post) forgetRegion(id board.RegionID) {
	p.regionsMu.Lock()
	defer p.regionsMu.Unlock()
	delete(p.regions, id)
}

// toFeed delivers a message to this node's feed.
func (p *post) toFeed(message FeedMessage) { p.root.Send(p.feed, message) }

// toSubscriber delivers a message to one subscriber of this node.
func (p *post) toSubscriber(index int, message SubscriberMessage) {
	p.root.Send(p.subscribers[index], message)
}

// toSubscribers delivers a message to all subscribers of this node.
func (p *post) toSubscribers(message SubscriberMessage) {
	for _, pid := range p.subscribers {
		p.root.Send(pid, message)
	}
}

func (p *post) subscriberOf(id wire.SessionID) int {
	return int(id % wire.SessionID(len(p.subscribers)))
}

// answer delivers an outcome to a session or to a waiting request.
func (p *post) answer(to SessionRef, outcome board.PlaceOutcome) {
	p.metrics.answer(&outcome)
	p.toSession(to, Answered{Session: to.Session, Outcome: outcome})
}

// status delivers a user's status to a session or to a waiting request.
func (p *post) status(to SessionRef, status board.UserStatus) {
	p.toSession(to, StatusChanged{Session: to.Session, Status: status})
}

func (p *post) toSession(to SessionRef, message SubscriberMessage) {
	if to.Node != p.node.Address {
		p.send(to.Node, "subscriber", toSession{to: to.Session, message: message})
		return
	}
	p.answerHere(to.Session, message)
}

// answerHere delivers an answer to a session or a waiting request of this node.
func (p *post) answerHere(to wire.SessionID, message SubscriberMessage) {
	if to&waiterBit == 0 {
		p.toSubscriber(p.subscriberOf(to), message)
		return
	}
	found, ok := p.waiters.Load(to)
	if !ok {
		return
	}
	switch m := message.(type) {
	case Answered:
		if w := found.(waiter); w.outcome != nil {
			w.outcome(m.Outcome)
		}
	case StatusChanged:
		if w := found.(waiter); w.status != nil {
			w.status(m.Status)
		}
	default: // nothing else answers a request
	}
}
