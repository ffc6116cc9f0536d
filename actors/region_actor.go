package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// RegionTick lets time pass in a region.
type RegionTick struct{}

// retireRegion tells a region that regions have another size now: it finishes what is in flight and stops.
type retireRegion struct{}

// regionRules brings newer settings to a region.
type regionRules struct{ rules *Rules }

// viewChanged tells a region that other nodes are alive now.
type viewChanged struct{}

// regionActor is the shell around the blocks of one region.
type regionActor struct {
	id      board.RegionID
	sys     *System
	blocks  map[board.BlockID]*Block
	retired bool
	settled []func() // wait until every block is settled
	usedMs  int64    // when it last got work
}

func newRegionActor(id board.RegionID, sys *System) *regionActor {
	return &regionActor{id: id, sys: sys, blocks: map[board.BlockID]*Block{}}
}

// Receive implements actor.Actor.
func (a *regionActor) Receive(ctx actor.Context) {
	wallMs, _ := a.sys.guard.now()
	switch m := ctx.Message().(type) {
	case *actor.Restarting:
		a.sys.metrics.restarts.WithLabelValues("region").Inc()
		a.sys.blocks.Add(-int64(len(a.blocks)))
	case *actor.Stopped:
		a.sys.blocks.Add(-int64(len(a.blocks)))
	case RegionTick:
		for _, b := range a.blocks {
			a.do(ctx, b.Tick(wallMs))
		}
		a.checkSettled()
		a.giveUp(ctx, wallMs)
	case viewChanged:
		for _, b := range a.blocks {
			a.do(ctx, b.ViewChanged(wallMs))
		}
	case regionRules:
		for _, b := range a.blocks {
			b.SetRules(m.rules)
		}
	case retireRegion:
		a.retire(ctx)
	case SnapshotBlocks:
		a.settled = append(a.settled, m.Reply)
		for _, b := range a.blocks {
			a.do(ctx, b.Receive(wallMs, m))
		}
		a.checkSettled()
	case RegionMessage:
		a.receive(ctx, wallMs, m)
	}
}

// receive gives a message to its block. A retired region passes new work on to the region of today's size.
func (a *regionActor) receive(ctx actor.Context, wallMs int64, m RegionMessage) {
	id := blockOf(m)
	if a.retired && isWork(m) {
		a.sys.post.toBlock(id, m)
		return
	}
	if isWork(m) {
		a.usedMs = wallMs
	}
	b := a.blocks[id]
	if b == nil {
		b = NewBlock(id, a.sys.node, a.sys.post.rules.Load(), a.sys.random)
		a.blocks[id] = b
		a.sys.blocks.Add(1)
	}
	generation, dropped := b.generation, b.Dropped()
	a.do(ctx, b.Receive(wallMs, m))
	a.sys.metrics.dropped.Add(float64(b.Dropped() - dropped))
	if b.generation != generation {
		a.sys.metrics.reloads.WithLabelValues("block").Inc()
		if a.sys.lostTo(b.duel.winner) {
			a.do(ctx, b.ViewChanged(wallMs))
		}
	}
	if a.retired {
		a.retire(ctx)
	}
	a.checkSettled()
}

// isWork tells new work from answers to what the region has asked.
func isWork(m RegionMessage) bool {
	switch m.(type) {
	case PlaceTiles, TouchBlock, PullBlock, GetTile:
		return true
	case BlockLoaded, BlockSlotGranted, BlockCommitDone, SnapshotDone, SnapshotBlocks:
	}
	return false
}

func blockOf(message RegionMessage) board.BlockID {
	switch m := message.(type) {
	case PlaceTiles:
		return m.Block
	case BlockLoaded:
		return m.Block
	case BlockSlotGranted:
		return m.Block
	case BlockCommitDone:
		return m.Block
	case SnapshotDone:
		return m.Block
	case TouchBlock:
		return m.Block
	case PullBlock:
		return m.Block
	case GetTile:
		return m.At.Block()
	case SnapshotBlocks:
	}
	return 0
}

// do carries out what a block core wants done.
func (a *regionActor) do(ctx actor.Context, effects []RegionEffect) {
	self, root, sys := ctx.Self(), a.sys.root, a.sys
	for _, effect := range effects {
		switch e := effect.(type) {
		case AnswerShard:
			sys.post.toShardAt(e.To, e.Message.Shard, e.Message)
		case LoadBlock:
			sys.loads.take(func() {
				go func() {
					loaded := sys.storing.loadBlock(e.Block, e.Generation)
					sys.loads.release()
					root.Send(self, loaded)
				}()
			})
		case TakeBlockSlot:
			sys.storing.slots.take(func() { root.Send(self, BlockSlotGranted(e)) })
		case DropBlockSlot:
			sys.storing.slots.release()
		case MakeBlockCommit:
			block, attempt := e.Block, e.Commit.Head.Attempt
			sys.storing.commit(e.Commit, true, func(r store.Result) {
				root.Send(self, BlockCommitDone{Block: block, Attempt: attempt, Result: r})
			})
		case Publish:
			sys.post.publish(e.Message)
		case PublishImages:
			sys.post.publishImages(e)
		case RegionNeedsSettings:
			sys.needSettings(e.Version)
		case WriteSnapshot:
			sys.loads.take(func() {
				go func() {
					done := sys.storing.writeSnapshot(e.Block, e.Snapshot)
					sys.loads.release()
					root.Send(self, done)
				}()
			})
		case ForwardCharges:
			sys.forwardCharges(e)
		}
	}
}

// retire stops the region once nothing is in flight: unsealed work is dropped, its shards send it again.
func (a *regionActor) retire(ctx actor.Context) {
	a.retired = true
	busy := false
	for _, b := range a.blocks {
		busy = b.Retire() || busy
	}
	if !busy { // otherwise the fate of what is in flight comes first
		ctx.Poison(ctx.Self())
	}
}

// giveUp stops a region of another node that has had no work for a while: it was spawned for what somebody forwarded.
func (a *regionActor) giveUp(ctx actor.Context, wallMs int64) {
	if a.retired || a.sys.post.router.RegionOwner(a.id) == a.sys.node.Address || waits(wallMs, a.usedMs+StrayMs, StrayMs) {
		return
	}
	a.sys.post.forgetRegion(a.id)
	a.retire(ctx)
}

func (a *regionActor) checkSettled() {
	if len(a.settled) == 0 {
		return
	}
	for _, b := range a.blocks {
		if !b.Settled() {
			return
		}
	}
	for _, reply := range a.settled {
		reply()
	}
	a.settled = nil
}
