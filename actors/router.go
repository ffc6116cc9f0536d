package actors

import (
	"maps"
	"sync"
	"sync/atomic"

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
}

// Alone is the Router of a node without others.
type Alone struct{ Address string }

// ShardOwner implements Router.
func (a Alone) ShardOwner(int) string { return a.Address }

// RegionOwner implements Router.
func (a Alone) RegionOwner(board.RegionID) string { return a.Address }

// waiterBit marks session ids that stand for a waiting request instead of a session.
const waiterBit wire.SessionID = 1 << 63

// waiter is a request of this process that waits for an answer of a user actor. Its functions must not block.
type waiter struct {
	outcome func(board.PlaceOutcome)
	status  func(board.UserStatus)
}

// post delivers messages. Whether their receiver lives on this node or on another is known in this file only.
type post struct {
	root    *actor.RootContext
	node    Node
	router  Router
	metrics *metrics
	rules   atomic.Pointer[Rules] // the newest of this node

	shards      []*actor.PID
	feed        *actor.PID
	settings    *actor.PID
	subscribers []*actor.PID
	spawnRegion func(board.RegionID) *actor.PID

	regionsMu sync.RWMutex // guards regions
	regions   map[board.RegionID]*actor.PID

	waiters sync.Map // wire.SessionID -> waiter
}

// toShard delivers a message of any kind that a shard actor understands.
func (p *post) toShard(shard int, message any) {
	if p.router.ShardOwner(shard) != p.node.Address {
		p.metrics.undeliverable.WithLabelValues("shard").Inc()
		return
	}
	p.root.Send(p.shards[shard], message)
}

// toUser delivers a message to a user, by way of its shard.
func (p *post) toUser(user board.UserID, message UserMessage) {
	p.toShard(user.Shard(), forUser{user, message})
}

// toBlock delivers a message to the region that runs a block under the newest settings of this node. The region is spawned
// at first use.
func (p *post) toBlock(block board.BlockID, message RegionMessage) {
	id := block.Region(p.rules.Load().Settings().RegionSize)
	if p.router.RegionOwner(id) != p.node.Address {
		p.metrics.undeliverable.WithLabelValues("region").Inc()
		return
	}
	p.root.Send(p.region(id), message)
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
	if to.Node != p.node.Address {
		p.metrics.undeliverable.WithLabelValues("subscriber").Inc()
		return
	}
	if to.Session&waiterBit != 0 {
		if reply, ok := p.waiters.Load(to.Session); ok {
			reply.(waiter).outcome(outcome)
		}
		return
	}
	p.toSubscriber(p.subscriberOf(to.Session), Answered{Session: to.Session, Outcome: outcome})
}

// status delivers a user's status to a session or to a waiting request.
func (p *post) status(to SessionRef, status board.UserStatus) {
	if to.Node != p.node.Address {
		p.metrics.undeliverable.WithLabelValues("subscriber").Inc()
		return
	}
	if to.Session&waiterBit != 0 {
		if reply, ok := p.waiters.Load(to.Session); ok {
			reply.(waiter).status(status)
		}
		return
	}
	p.toSubscriber(p.subscriberOf(to.Session), StatusChanged{Session: to.Session, Status: status})
}
