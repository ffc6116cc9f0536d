package actors

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Network is the cluster as the actors see it. Nothing that it says is certain: the store decides (DESIGN, 4).
type Network interface {
	// Owner returns the address of the node that owns a key, "" when nobody serves.
	Owner(key string) string
	// Peers returns the members that are seen alive, this node included. Nobody changes the result.
	Peers() []Peer
	// Send lets an envelope leave for a node and reports whether it will try. It never blocks and does not keep the bytes.
	Send(to string, envelope []byte) bool
	// Serve tells the others whether this node may own shards and regions. It may block for a moment.
	Serve(on bool)
}

// Peer is a member of the cluster.
type Peer struct {
	Address     string
	Incarnation uint64
	Serving     bool // owns its share
}

// Times of a cluster.
const (
	// DeltaMs is how long committed placements wait for others on their way to the other nodes.
	DeltaMs = 15
	// DeltaTilesMax is how many placements wait for that; beyond they are dropped and counted, and the digests heal it.
	DeltaTilesMax = 50_000
	// NodeToldMs is the time between digests to every peer.
	NodeToldMs = 1000
	// NodeToldBlocksMax is how many blocks one digest counts; larger boards take turns.
	NodeToldBlocksMax = 2048
	// PeerStaleMs is for how long what a peer has told of itself is believed.
	PeerStaleMs = 3500
	// RegisterAgainMs is after how long sessions are registered a second time after a change of the view: the new owner may not
	// have known of it at the first.
	RegisterAgainMs = 1500
	// BlockPatienceMs is how long a node that starts waits for a block's owner before it reads the block itself.
	BlockPatienceMs = 3000
	// StrangerMs is for how long readyz names a node that writes to the board without being a member.
	StrangerMs = 30_000
	// AskTimeout is how long a question to another node waits for its answer.
	AskTimeout = 5 * time.Second
)

// networkRouter is the Router over a Network. It looks every owner up once a view.
type networkRouter struct {
	network Network
	known   atomic.Pointer[owners]
}

// owners are who owns what in one view.
type owners struct {
	shards  [board.Shards]string
	regions sync.Map // board.RegionID -> string
	alive   map[string]bool
}

func newNetworkRouter(n Network) *networkRouter {
	r := &networkRouter{network: n}
	r.refresh()
	return r
}

// refresh looks at the newest view and returns the owners before and now.
func (r *networkRouter) refresh() (before, now *owners) {
	now = &owners{alive: map[string]bool{}}
	for i := range now.shards {
		now.shards[i] = r.network.Owner("shard/" + strconv.Itoa(i))
	}
	for _, p := range r.network.Peers() {
		now.alive[p.Address] = true
	}
	return r.known.Swap(now), now
}

// ShardOwner implements Router.
func (r *networkRouter) ShardOwner(shard int) string { return r.known.Load().shards[shard] }

// RegionOwner implements Router.
func (r *networkRouter) RegionOwner(region board.RegionID) string {
	known := r.known.Load()
	if owner, ok := known.regions.Load(region); ok {
		return owner.(string)
	}
	owner := r.network.Owner("region/" + region.String())
	known.regions.Store(region, owner)
	return owner
}

// Alive implements Router.
func (r *networkRouter) Alive(address string) bool { return r.known.Load().alive[address] }

// OthersServe reports whether another node can own what this one gives up.
func (s *System) OthersServe() bool {
	if s.config.Network == nil {
		return false
	}
	return slices.ContainsFunc(s.config.Network.Peers(), func(p Peer) bool { return p.Serving && p.Address != s.node.Address })
}

// ownerChanged tells a shard whether its node owns it now. From: the system, at a change of the view.
type ownerChanged struct{ owned bool }

// forgetAll tells a shard that its node stood still. From: the system.
type forgetAll struct{}

// ViewChanged makes the actors follow a new view: shards and regions that are another's now are given up, those that have
// come are loaded, and sessions whose users have moved are registered again. The cluster calls it after every change.
func (s *System) ViewChanged() {
	router, ok := s.post.router.(*networkRouter)
	if !ok {
		return
	}
	s.viewing.Lock()
	defer s.viewing.Unlock()
	before, now := router.refresh()
	var moved []int
	for i, owner := range now.shards {
		s.root.Send(s.post.shards[i], ownerChanged{owned: owner == s.node.Address})
		if owner != before.shards[i] {
			moved = append(moved, i)
			s.post.toSubscribers(RegisterAgain{Shard: i})
		}
	}
	for id, pid := range s.post.allRegions() {
		if router.RegionOwner(id) != s.node.Address {
			s.post.forgetRegion(id)
			s.root.Send(pid, retireRegion{})
		} else {
			s.root.Send(pid, viewChanged{})
		}
	}
	s.forgetPeers(now.alive)
	time.AfterFunc(RegisterAgainMs*time.Millisecond, func() {
		for _, shard := range moved {
			s.post.toSubscribers(RegisterAgain{Shard: shard})
		}
	})
	go s.takeOver()
}

// takeOver loads every touched block of this node's share, once the old owners have had time to end what they had in flight:
// their last commits may have been published by nobody.
func (s *System) takeOver() {
	select {
	case <-s.ctx.Done():
		return
	case <-time.After(AcquireMs * time.Millisecond):
	}
	ctx, cancel := context.WithTimeout(s.ctx, ReadTimeout)
	defer cancel()
	blocks, err := s.store.Blocks(ctx)
	if err != nil {
		s.storing.failed("list_blocks", "the board", err)
		return // the digests of the next owner, or the next reader, heal it
	}
	for _, b := range blocks {
		if s.post.ownsBlock(b) {
			s.post.toBlock(b, TouchBlock{Block: b})
		}
	}
}

// Paused drops what the node knows after it stood still: others may have taken over what it owned.
func (s *System) Paused(time.Duration) {
	for _, pid := range s.post.shards {
		s.root.Send(pid, forgetAll{})
	}
	for id, pid := range s.post.allRegions() {
		s.post.forgetRegion(id)
		s.root.Send(pid, retireRegion{})
	}
	go s.takeOver()
}

// awaitBlocks asks again for the blocks that the feed has not heard of yet, and reads them itself when no owner answers.
func (s *System) awaitBlocks() {
	for waited := int64(0); ; waited += NodeToldMs {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(NodeToldMs * time.Millisecond):
		}
		pending := s.pendingBlocks()
		if len(pending) == 0 {
			return
		}
		for _, b := range pending {
			if waited >= BlockPatienceMs && !s.post.ownsBlock(b) {
				s.readBlock(b)
			} else {
				s.post.toBlock(b, TouchBlock{Block: b})
			}
		}
	}
}

func (s *System) pendingBlocks() []board.BlockID {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	var list []board.BlockID
	for b := range s.state.blocks {
		list = append(list, b)
	}
	slices.Sort(list)
	return list
}

// readBlock gives the feed a block as the store has it.
func (s *System) readBlock(b board.BlockID) {
	ctx, cancel := context.WithTimeout(s.ctx, ReadTimeout)
	defer cancel()
	state, _, err := ReplayBlock(ctx, s.store, b)
	if err != nil {
		s.storing.failed("load_block", store.Block(b).String(), err)
		return
	}
	s.post.toFeed(blockImages(b, state))
}

// blockImages returns a block's chunks as a state has them.
func blockImages(b board.BlockID, state *store.BlockState) BlockImages {
	images := BlockImages{Block: b, Version: state.Version}
	for slot, c := range state.Chunks {
		if c != nil {
			tiles := c.Tiles
			images.Chunks = append(images.Chunks, ChunkImage{Chunk: b.Chunk(slot), Sequence: c.Sequence, Tiles: &tiles})
		}
	}
	return images
}
