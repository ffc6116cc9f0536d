package actors

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/placed-board/placed/board"
)

// What this node hears from others, and what it tells them unasked.

// Deliver takes an envelope of another node. It never blocks and does not keep the bytes. What does not decode is counted.
func (s *System) Deliver(from string, envelope []byte) {
	message, err := decodeEnvelope(envelope)
	if err != nil {
		s.metrics.envelopes.WithLabelValues("malformed").Inc()
		return
	}
	s.metrics.envelopes.WithLabelValues("taken").Inc()
	p := s.post
	switch m := message.(type) {
	case forUser:
		p.fromOther(m)
	case PlaceTiles:
		s.chargesOfOther(m)
	case TilesPlaced:
		p.root.Send(p.shards[m.Shard], m)
	case tilesPublished:
		for _, batch := range m.Batches {
			p.toFeed(batch)
		}
	case BlockImages:
		p.toFeed(m)
	case PullBlock:
		if p.ownsBlock(m.Block) { // otherwise whoever asks will ask the right one
			p.toBlock(m.Block, m)
		}
	case nodeTold:
		s.nodeTold(from, m)
	case tileAsked:
		reply := func(k TileKnown) { p.send(m.To.Node, "region", tileTold{To: m.To, Known: k}) }
		if p.ownsBlock(m.At.Block()) {
			p.toBlock(m.At.Block(), GetTile{At: m.At, Reply: reply})
		} else {
			reply(TileKnown{})
		}
	case jobAsked:
		s.jobOfOther(m)
	case tileTold:
		p.answerWaiter(m.To, func(w waiter) { w.tile(m.Known) })
	case jobsTold:
		p.answerWaiter(m.To, func(w waiter) { w.jobs(m) })
	case toSession:
		p.answerHere(m.to, m.message)
	}
}

// chargesOfOther gives charges of another node's shard to their region. Newer settings than this node's come first: the
// shard sends the charges again.
func (s *System) chargesOfOther(m PlaceTiles) {
	if m.SettingsVersion > s.post.rules.Load().Version() {
		s.needSettings(m.SettingsVersion)
		s.metrics.envelopes.WithLabelValues("newer_settings").Inc()
		return
	}
	p := s.post
	id := m.Block.Region(p.rules.Load().Settings().RegionSize)
	if owner := p.router.RegionOwner(id); owner != p.node.Address && !m.Forwarded {
		m.Forwarded = true
		p.send(owner, "region", m)
		return
	}
	p.root.Send(p.region(id), m)
}

// jobOfOther serves an operator who asked another node.
func (s *System) jobOfOther(m jobAsked) {
	tell := func(jobs []board.Job, err error) {
		told := jobsTold{To: m.To, Jobs: jobs}
		switch {
		case err == nil:
		case errors.Is(err, board.ErrRefused):
			told.Failure = failureRefused
		case errors.Is(err, board.ErrUnknown):
			told.Failure = failureUnknown
		default:
			told.Failure = failureOther
		}
		if err != nil {
			told.Text = err.Error()
		}
		s.post.send(m.To.Node, "shard", told)
	}
	ops := s.post.shards[board.OpsShard]
	switch {
	case s.post.router.ShardOwner(board.OpsShard) != s.node.Address:
		tell(nil, errors.New("actors: the ops shard is moving: try again"))
	case m.List:
		s.root.Send(ops, GetJobs{Reply: func(jobs []board.Job) { tell(jobs, nil) }})
	default:
		s.root.Send(ops, StartJob{Job: m.Job, Reply: func(j board.Job, err error) { tell([]board.Job{j}, err) }})
	}
}

// err returns what went wrong on the other node.
func (t *jobsTold) err() error {
	switch t.Failure {
	case failureNone:
		return nil
	case failureRefused:
		return fmt.Errorf("%w: %s", board.ErrRefused, t.Text)
	case failureUnknown:
		return fmt.Errorf("%w: %s", board.ErrUnknown, t.Text)
	case failureOther:
	}
	return errors.New(t.Text)
}

// needSettings has newer settings read.
func (s *System) needSettings(version uint64) {
	s.root.Send(s.post.settings, SettingsHeard{Version: version})
}

// peers are what the other nodes have told of themselves.
type peers struct {
	mu   sync.Mutex // guards told
	told map[string]peerTold
}

type peerTold struct {
	nodeTold
	atMs   int64 // monotonic
	skewMs int64 // of its clock against this node's
}

// nodeTold takes a digest: newer settings are read, blocks with more placements than here are pulled.
func (s *System) nodeTold(from string, m nodeTold) {
	if m.SettingsVersion > s.post.rules.Load().Version() {
		s.needSettings(m.SettingsVersion)
	}
	if len(m.Blocks) > 0 {
		s.post.toFeed(blocksCounted{m.Blocks})
	}
	if !m.Whole {
		return
	}
	wall, mono := s.guard.clock.Read()
	m.Blocks = nil
	s.peers.mu.Lock()
	if s.peers.told == nil {
		s.peers.told = map[string]peerTold{}
	}
	s.peers.told[from] = peerTold{nodeTold: m, atMs: mono, skewMs: m.WallMs - wall}
	s.peers.mu.Unlock()
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	for _, t := range m.Shards {
		s.state.shards[t.Shard], s.state.older[t.Shard] = t.Version, t.OpenOlder
	}
}

// forgetPeers forgets nodes that are gone.
func (s *System) forgetPeers(alive map[string]bool) {
	s.peers.mu.Lock()
	defer s.peers.mu.Unlock()
	for address := range s.peers.told {
		if !alive[address] {
			delete(s.peers.told, address)
		}
	}
}

// peersNow visits what other nodes have told lately.
func (s *System) peersNow(visit func(address string, told *peerTold)) {
	_, mono := s.guard.clock.Read()
	s.peers.mu.Lock()
	defer s.peers.mu.Unlock()
	for address, told := range s.peers.told {
		if mono-told.atMs <= PeerStaleMs {
			visit(address, &told)
		}
	}
}

// checkClock gives up what the node owns while its clock is further than MaxClockSkewMs from the median of the members'.
func (s *System) checkClock() {
	skews := []int64{0}
	s.peersNow(func(_ string, told *peerTold) { skews = append(skews, told.skewMs) })
	slices.SortFunc(skews, cmp.Compare[int64])
	median := skews[len(skews)/2]
	if len(skews)%2 == 0 {
		median = (median + skews[len(skews)/2-1]) / 2
	}
	off := len(skews) > 2 && (median > MaxClockSkewMs || median < -MaxClockSkewMs)
	if s.clockOff.Swap(off) == off {
		return
	}
	s.log.Warn("this node's clock against the others'", "skew_ms", -median, "owns", !off)
	if !s.draining.Load() {
		s.config.Network.Serve(!off)
	}
}

// tellPeers tells every other node what this one owns and where it stands, after what has been committed.
func (s *System) tellPeers() {
	answer := make(chan []blockCount, 1)
	s.post.toFeed(countBlocks{func(c []blockCount) { offer(answer, c) }})
	var counts []blockCount
	select {
	case counts = <-answer:
	case <-time.After(NodeToldMs * time.Millisecond):
	case <-s.ctx.Done():
		return
	}
	wall, _ := s.guard.now()
	told := nodeTold{
		SettingsVersion: s.post.rules.Load().Version(), WallMs: wall, Whole: true, Online: s.people.count(), Sessions: s.people.connections(),
		Regions: len(s.post.allRegions()), BlocksLoaded: int(max(0, s.blocks.Load())), Users: int(max(0, s.users.Load())),
		Ready: s.Readiness().Ready, Blocks: s.share(counts),
	}
	s.state.mu.Lock()
	for i, version := range s.state.shards {
		if s.post.router.ShardOwner(i) == s.node.Address {
			told.Shards = append(told.Shards, shardTold{Shard: i, Version: version, OpenOlder: s.state.older[i]})
		}
	}
	s.state.mu.Unlock()
	s.post.flushDeltas()
	s.post.toPeers(told)
	s.checkClock()
}

// share leaves the blocks that this node owns; of many it takes some at a time, in turn.
func (s *System) share(counts []blockCount) []blockCount {
	counts = slices.DeleteFunc(counts, func(c blockCount) bool { return !s.post.ownsBlock(c.Block) })
	if len(counts) <= NodeToldBlocksMax {
		return counts
	}
	from := int(s.digests.Add(NodeToldBlocksMax)) % len(counts)
	return slices.Concat(counts[from:], counts[:from])[:NodeToldBlocksMax]
}

// lostTo reports whether a duel was lost to a node that is gone, so that there is nobody to leave the partition to, and says
// so when that node may be alive without being a member.
func (s *System) lostTo(address string) bool {
	if address == "" || s.post.router.Alive(address) {
		return false
	}
	s.stranger(address)
	return s.config.Network != nil
}

// stranger notes that a node which is no member has committed: with two on one board that do not know each other, both lose
// time, though nothing else.
func (s *System) stranger(address string) {
	_, mono := s.guard.clock.Read()
	said := s.strangerMs.Swap(max(mono, 1))
	s.strangerIs.Store(&address)
	if said == 0 || mono-said > StrangerMs {
		s.log.Warn("a node that this one does not see as a member has written to the board; nodes of one board have to join each other (--join)", "node", address)
	}
}

// forwardCharges sends charges on to the owner that the block's head names.
func (s *System) forwardCharges(e ForwardCharges) {
	if !s.post.router.Alive(e.Address) {
		s.metrics.undeliverable.WithLabelValues("region").Inc()
		return
	}
	id := e.Message.Block.Region(s.post.rules.Load().Settings().RegionSize)
	s.post.toRegionAt(e.Address, id, e.Message)
}

// deltas are the committed placements that wait for the next message to the other nodes.
type deltas struct {
	mu      sync.Mutex // guards the fields below
	batches []TilesApplied
	counts  []blockCount
	tiles   int
}

// publish gives committed placements to every node's feed. The other nodes come first, so that no digest made of this node's
// feed runs ahead of what they have been sent.
func (p *post) publish(m TilesApplied) {
	if p.network != nil {
		p.deltas.mu.Lock()
		if p.deltas.tiles+len(m.Tiles) <= DeltaTilesMax {
			p.deltas.batches = append(p.deltas.batches, m)
			p.deltas.tiles += len(m.Tiles)
		} else {
			p.metrics.envelopes.WithLabelValues("deltas_full").Inc()
		}
		p.deltas.mu.Unlock()
	}
	p.toFeed(m)
}

// publishImages gives a block's chunks to the feed that asked, or to this node's: then the others hear how many placements
// there are, and pull what they lack.
func (p *post) publishImages(e PublishImages) {
	if e.To != "" && e.To != p.node.Address {
		p.send(e.To, "feed", e.Message)
		return
	}
	if p.network != nil {
		count := blockCount{Block: e.Message.Block}
		for _, c := range e.Message.Chunks {
			count.Placements += c.Sequence
		}
		p.deltas.mu.Lock()
		if len(p.deltas.counts) < NodeToldBlocksMax {
			p.deltas.counts = append(p.deltas.counts, count)
		}
		p.deltas.mu.Unlock()
	}
	p.toFeed(e.Message)
}

// flushDeltas sends what waits, one message a peer.
func (p *post) flushDeltas() {
	p.deltas.mu.Lock()
	batches, counts := p.deltas.batches, p.deltas.counts
	p.deltas.batches, p.deltas.counts, p.deltas.tiles = nil, nil, 0
	p.deltas.mu.Unlock()
	if len(batches) > 0 {
		p.toPeers(tilesPublished{batches})
	}
	if len(counts) > 0 {
		p.toPeers(nodeTold{SettingsVersion: p.rules.Load().Version(), Blocks: counts})
	}
}

// toPeers sends a message to every other member.
func (p *post) toPeers(message any) {
	var b []byte
	for _, peer := range p.network.Peers() {
		if peer.Address == p.node.Address {
			continue
		}
		if b == nil {
			b = encodeEnvelope(message)
		}
		if !p.network.Send(peer.Address, b) {
			p.metrics.undeliverable.WithLabelValues("feed").Inc()
		}
	}
}
