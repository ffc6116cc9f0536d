package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/wire"
)

// roundDone tells how long a subscriber took to write a frame. From: a subscriber.
type roundDone struct{ took time.Duration }

// watchFeed asks the feed to tell every placement. From: System.WatchPlacements.
type watchFeed struct{}

// feedActor is the shell around Feed. It keeps the pace of the ticks and the newest board body.
type feedActor struct {
	sys        *System
	core       *Feed
	intervalMs int64
	lastMs     int64           // monotonic time of the last tick
	heard      []board.BlockID // blocks whose images the next frame shows for the first time
	rates      blockRates
}

// Receive implements actor.Actor.
func (a *feedActor) Receive(ctx actor.Context) {
	wallMs, _ := a.sys.guard.now()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.core = NewFeed(a.sys.meta.Epoch, a.sys.node.Incarnation, a.sys.tick.Load(), a.sys.post.rules.Load())
		a.intervalMs = FeedTickMs
		if a.sys.watchers.any() {
			a.core.Watch()
		}
		go a.sys.touchBlocks()
	case *actor.Restarting:
		a.sys.metrics.restarts.WithLabelValues("feed").Inc()
	case watchFeed:
		a.core.Watch()
	case roundDone:
		a.pace(m.took)
	case FeedTick:
		if a.due() {
			effects := a.core.Receive(wallMs, m)
			a.sys.frameMade(a.core.Tick(), a.core) // first: who has seen the frame must not be served the board before it
			a.do(effects)
			for _, block := range a.heard {
				a.sys.blockReady(block)
			}
			a.heard = a.heard[:0]
		}
	case TilesApplied:
		a.rates.add(a.second(), m.Block, len(m.Tiles))
		a.do(a.core.Receive(wallMs, m))
	case getRates:
		m.reply(a.core.counts(), a.rates.perSecond(a.second()))
	case BlockImages:
		a.do(a.core.Receive(wallMs, m))
		a.heard = append(a.heard, m.Block)
	case FeedMessage:
		a.do(a.core.Receive(wallMs, m))
	}
}

// second returns the monotonic time in seconds.
func (a *feedActor) second() int64 {
	_, mono := a.sys.guard.clock.Read()
	return mono / 1000
}

// due reports whether the interval since the last tick is over.
func (a *feedActor) due() bool {
	_, mono := a.sys.guard.clock.Read()
	if mono-a.lastMs < a.intervalMs {
		return false
	}
	a.lastMs = mono
	return true
}

// pace stretches the ticks when a round of writes takes over half of one, and relaxes them again.
func (a *feedActor) pace(took time.Duration) {
	half := time.Duration(a.intervalMs) * time.Millisecond / 2
	switch {
	case took > half:
		a.intervalMs = min(FeedTickMsMax, a.intervalMs+FeedPaceMs)
	case took < half/2:
		a.intervalMs = max(FeedTickMs, a.intervalMs-FeedPaceMs)
	}
}

// FeedPaceMs is the step by which ticks are stretched and relaxed.
const FeedPaceMs = 25

func (a *feedActor) do(effects []FeedEffect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case ToSubscribers:
			if _, ok := e.Message.(FrameMade); ok {
				a.sys.metrics.frames.Inc()
			}
			a.sys.post.toSubscribers(e.Message)
		case ToSubscriber:
			a.sys.post.toSubscriber(e.Subscriber, e.Message)
		case AskBlock:
			a.sys.post.pull(e.Block)
		case TellWatchers:
			a.sys.watchers.tell(e)
		}
	}
}

// subscriberActor is the shell around Subscriber.
type subscriberActor struct {
	index int
	sys   *System
	core  *Subscriber
	conns *connections
}

// connections are the open connections of a subscriber. They outlive a panic of the actor, so that they can be closed.
type connections struct{ open map[wire.SessionID]wire.Conn }

// Receive implements actor.Actor.
func (a *subscriberActor) Receive(ctx actor.Context) {
	wallMs, _ := a.sys.guard.now()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.start()
	case *actor.Restarting:
		a.sys.metrics.restarts.WithLabelValues("subscriber").Inc()
	case SessionOpened:
		a.conns.open[m.Session] = m.Conn
		a.do(a.core.Receive(wallMs, m))
	case SessionClosed:
		delete(a.conns.open, m.Session)
		a.do(a.core.Receive(wallMs, m))
	case FrameMade:
		start := time.Now()
		a.do(a.core.Receive(wallMs, m))
		took := time.Since(start)
		a.sys.metrics.roundSeconds.Observe(took.Seconds())
		a.sys.root.Send(a.sys.post.feed, roundDone{took})
	case SubscriberTick:
		a.do(a.core.Receive(wallMs, m))
		a.sys.subscriberCounted(a.index, a.core)
	case SubscriberMessage:
		a.do(a.core.Receive(wallMs, m))
	}
}

// start makes a fresh core. After a panic the sessions of the one before are closed: their clients connect again.
func (a *subscriberActor) start() {
	for id, conn := range a.conns.open {
		conn.Close(wire.CloseRestart, "subscriber restarted")
		delete(a.conns.open, id)
	}
	a.core = NewSubscriber(a.index, a.sys.node, NodeHello{Epoch: a.sys.meta.Epoch, Incarnation: a.sys.node.Incarnation},
		a.sys.post.rules.Load(), 0)
	a.sys.post.toFeed(GetTable{Subscriber: a.index})
}

func (a *subscriberActor) do(effects []SubscriberEffect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case ToFeed:
			a.sys.post.toFeed(e.Message)
		case ToShard:
			a.sys.post.toUser(e.User, e.Message)
		}
	}
}

// settingsActor is the shell around SettingsKeeper.
type settingsActor struct {
	sys  *System
	core *SettingsKeeper
}

// Receive implements actor.Actor.
func (a *settingsActor) Receive(ctx actor.Context) {
	wallMs, trusted := a.sys.guard.now()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.core = NewSettingsKeeper(a.sys.node, a.sys.post.rules.Load(), a.sys.random)
		ctx.Send(ctx.Self(), SettingsTick{}) // what was due while no node ran
	case *actor.Restarting:
		a.sys.metrics.restarts.WithLabelValues("settings").Inc()
	case SettingsTick:
		if trusted {
			a.do(ctx, a.core.Receive(wallMs, m))
		}
	case SettingsMessage:
		a.do(ctx, a.core.Receive(wallMs, m))
	}
}

func (a *settingsActor) do(ctx actor.Context, effects []SettingsEffect) {
	self, root, sys := ctx.Self(), a.sys.root, a.sys
	for _, effect := range effects {
		switch e := effect.(type) {
		case MakeSettingsCommit:
			attempt := e.Commit.Head.Attempt
			sys.storing.commit(e.Commit, false, func(r store.Result) {
				root.Send(self, SettingsCommitDone{Attempt: attempt, Result: r})
			})
		case ReadSettings:
			go func() {
				records, err := readSettings(sys.ctx, sys.store, e.From)
				if err != nil {
					sys.storing.failed("read_settings", "settings", err)
				}
				root.Send(self, SettingsRead{Records: records, Failed: err != nil})
			}()
		case AnnounceSettings:
			sys.announce(e.Rules)
		case PlanStepDone:
			sys.planStep(e)
		}
	}
}
