package actors

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// forUser is a message for a user actor on its way through the shard.
type forUser struct {
	user    board.UserID
	message UserMessage
}

// getOpen asks how many charges are queued, in flight or open.
type getOpen struct{ reply func(int) }

// IdleSweepMs is the time between a shard's looks for idle users, and UserIdleMs how long a user actor is left alone before
// it is asked.
const (
	IdleSweepMs = 5_000
	UserIdleMs  = 10_000
)

// shardActor is the shell around Shard: it carries messages in, and effects out. It is the parent of the user actors.
type shardActor struct {
	index int
	sys   *System
	core  *Shard
	users map[board.UserID]*child
	// parked are the sessions of users without an actor: most people watch most of the time, and an actor costs 1.5 KiB.
	parked map[board.UserID][]SessionRef

	spawned uint64     // user actors so far
	refused board.Code // what the core was told last
	sweptMs int64
}

// child is a living user actor. messages counts what was sent to it, so that it is stopped only when nothing is under way.
type child struct {
	pid      *actor.PID
	messages uint64
	usedMs   int64
}

func newShardActor(index int, sys *System) *shardActor {
	return &shardActor{index: index, sys: sys, users: map[board.UserID]*child{}, parked: map[board.UserID][]SessionRef{}}
}

// Receive implements actor.Actor.
func (a *shardActor) Receive(ctx actor.Context) {
	wallMs, trusted := a.sys.guard.now()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.core = NewShard(a.index, a.sys.node, a.sys.post.rules.Load(), a.sys.random)
		a.sys.generations[a.index].Store(a.core.Generation())
		a.owned(ctx, wallMs, a.sys.post.router.ShardOwner(a.index) == a.sys.node.Address)
		a.do(ctx, wallMs, a.core.Receive(wallMs, Tick{}))
	case *actor.Restarting:
		a.sys.metrics.restarts.WithLabelValues("shard").Inc()
		a.sys.post.toSubscribers(RegisterAgain{Shard: a.index})
		a.sys.users.Add(-int64(len(a.users))) // children end with their parent
	case ownerChanged:
		a.owned(ctx, wallMs, m.owned)
	case forgetAll:
		a.do(ctx, wallMs, a.core.Forget(wallMs))
	case forUser:
		a.watch(ctx, wallMs, trusted)
		if a.passOn(m) {
			return
		}
		if a.users[m.user] == nil && a.withoutActor(ctx, m) {
			return
		}
		a.do(ctx, wallMs, a.core.ForUser(wallMs, m.user, m.message))
	case parkedRow:
		a.parkedRow(ctx, wallMs, m)
	case getOpen:
		m.reply(a.core.Open())
	case UserIdle:
		a.idle(ctx, m)
	case UserEffect:
		a.watch(ctx, wallMs, trusted)
		a.do(ctx, wallMs, a.core.FromUser(wallMs, m))
	case Tick:
		a.watch(ctx, wallMs, trusted)
		a.sweep(ctx, wallMs)
		effects := a.core.Receive(wallMs, m)
		a.sys.metrics.resends.Add(float64(charges(effects))) // what is sent at a tick was sent before
		a.do(ctx, wallMs, effects)
	case ShardMessage:
		a.watch(ctx, wallMs, trusted)
		generation := a.core.Generation()
		a.do(ctx, wallMs, a.core.Receive(wallMs, m))
		if a.core.Generation() != generation && a.sys.lostTo(a.core.duel.winner) {
			a.do(ctx, wallMs, a.core.ViewChanged(wallMs))
		}
	}
}

// owned follows a change of the view.
func (a *shardActor) owned(ctx actor.Context, wallMs int64, owned bool) {
	a.do(ctx, wallMs, a.core.SetOwned(wallMs, owned))
	for user, sessions := range a.parked {
		if a.parked[user] = slices.DeleteFunc(sessions, func(s SessionRef) bool { return !a.sys.post.router.Alive(s.Node) }); len(a.parked[user]) == 0 {
			delete(a.parked, user)
		}
	}
}

// passOn sends a user's message on to the shard's owner, when that is another node by now and nobody has forwarded it yet.
func (a *shardActor) passOn(m forUser) bool {
	owner := a.sys.post.router.ShardOwner(a.index)
	if owner == a.sys.node.Address {
		return false
	}
	onward, again := forwarded(m.message)
	if !again {
		a.sys.post.toShardAt(owner, a.index, forUser{m.user, onward})
	}
	return !again
}

// charges counts the charges that go to regions.
func charges(effects []ShardEffect) int {
	n := 0
	for _, effect := range effects {
		if e, ok := effect.(SendCharges); ok {
			n += len(e.Message.Charges)
		}
	}
	return n
}

// watch tells the core when the clock or the node's health changes what it may charge.
func (a *shardActor) watch(ctx actor.Context, wallMs int64, trusted bool) {
	refuse := a.sys.refusing()
	if !trusted {
		refuse = board.CodeClock
	}
	if refuse != a.refused {
		a.refused = refuse
		a.do(ctx, wallMs, a.core.Receive(wallMs, HealthChanged{Refuse: refuse}))
	}
}

// do carries out what the core wants done.
func (a *shardActor) do(ctx actor.Context, wallMs int64, effects []ShardEffect) {
	self, root, sys := ctx.Self(), a.sys.root, a.sys
	for _, effect := range effects {
		switch e := effect.(type) {
		case TellUser:
			a.tell(ctx, wallMs, e.User, e.Message)
		case TellUsers:
			for user := range a.users {
				a.tell(ctx, wallMs, user, e.Message)
			}
			if m, ok := e.Message.(ReloadUser); ok {
				sys.generations[a.index].Store(m.Generation)
				sys.metrics.reloads.WithLabelValues("shard").Inc()
			}
		case SendCharges:
			sys.post.toBlock(e.Message.Block, e.Message)
		case LoadShard:
			go func() { root.Send(self, sys.storing.loadShard(a.index, e.Generation)) }()
		case ReadRow:
			sys.storing.askRow(a.index, e.Generation, e.User, func(r RowRead) { root.Send(self, r) })
		case TakeSlot:
			sys.storing.slots.take(func() { root.Send(self, SlotGranted{}) })
		case DropSlot:
			sys.storing.slots.release()
		case MakeCommit:
			if len(a.core.sealed.closings) > 0 {
				sys.storing.crash(CrashBeforeClosing)
			}
			attempt := e.Commit.Head.Attempt
			sys.storing.commit(e.Commit, true, func(r store.Result) { root.Send(self, CommitDone{Attempt: attempt, Result: r}) })
		case ForwardToOwner:
			sys.post.toShardAt(e.Address, a.index, forUser{e.User, e.Message})
		case ShardNeedsSettings:
			sys.needSettings(e.Version)
		case StopUsers:
			for user := range a.users {
				a.stop(ctx, user)
			}
			clear(a.parked)
		case ShardInForce:
			sys.inForce(e)
		case NeedChunk:
			if sys.blocksLoading() > 0 {
				continue // the feed would call a chunk empty that it has not heard of yet; the core asks again
			}
			sys.post.toFeed(GetTiles{Chunk: e.Chunk, Reply: func(i ChunkImage) { root.Send(self, ChunkRead{Chunk: i.Chunk, Tiles: i.Tiles}) }})
		case NeedPlan:
			go func() { root.Send(self, sys.storing.planChunk(e)) }()
		case ReportProblem:
			sys.problem(e.What, e.Err)
		}
	}
}

func (a *shardActor) tell(ctx actor.Context, wallMs int64, user board.UserID, m UserMessage) {
	c := a.users[user]
	if c == nil {
		c = &child{pid: a.spawn(ctx, user)}
		a.users[user] = c
		a.sys.users.Add(1)
		for _, session := range a.parked[user] {
			c.messages++
			ctx.Send(c.pid, RegisterSession{User: user, Session: session, Rules: a.sys.post.rules.Load()})
		}
		delete(a.parked, user)
	}
	c.messages++
	c.usedMs = wallMs
	ctx.Send(c.pid, m)
}

// spawn starts a user's actor. Its name carries the user, so that one set of props serves all users, and a number, since the
// name of a stopped actor is taken until its mailbox is empty.
func (a *shardActor) spawn(ctx actor.Context, user board.UserID) *actor.PID {
	a.spawned++
	pid, err := ctx.SpawnNamed(a.sys.userProps, strconv.FormatUint(a.spawned, 10)+"/"+string(user))
	if err != nil {
		panic(fmt.Sprintf("actors: spawn user %q: %v", user, err)) // a number is used twice
	}
	return pid
}

// sweep asks users that were not used for a while whether they could be stopped.
func (a *shardActor) sweep(ctx actor.Context, wallMs int64) {
	if wallMs-a.sweptMs < IdleSweepMs && wallMs >= a.sweptMs {
		return
	}
	a.sweptMs = wallMs
	for _, c := range a.users {
		if wallMs-c.usedMs >= UserIdleMs {
			ctx.Send(c.pid, GetIdle{Messages: c.messages, Rules: a.sys.post.rules.Load()})
		}
	}
}

// idle stops a user actor that is idle, unless a message has been sent to it since it was asked.
func (a *shardActor) idle(ctx actor.Context, m UserIdle) {
	if c := a.users[m.User]; c != nil && m.Idle && c.messages == m.Messages {
		if len(m.Sessions) > 0 {
			a.parked[m.User] = m.Sessions
		}
		a.stop(ctx, m.User)
	}
}

// parkedRow brings the row of a user without an actor, for a session that has registered.
type parkedRow struct {
	user    board.UserID
	session SessionRef
	read    RowRead
}

// withoutActor serves what needs no actor: a session of a user who does nothing comes or goes.
func (a *shardActor) withoutActor(ctx actor.Context, m forUser) bool {
	switch message := m.message.(type) {
	case ForgetSession:
		a.unpark(m.user, message.Session)
		return true
	case RegisterSession:
		parked := a.parked[m.user]
		if len(parked) >= UserSessionsMax || slices.Contains(parked, message.Session) {
			return false
		}
		a.parked[m.user] = append(parked, message.Session)
		self, sys, generation := ctx.Self(), a.sys, a.core.Generation()
		sys.storing.askRow(a.index, generation, m.user, func(r RowRead) {
			sys.root.Send(self, parkedRow{user: m.user, session: message.Session, read: r})
		})
		return true
	default: // everything else needs the actor
	}
	return false
}

// parkedRow tells a session where its user stands. A user who is not free to place gets an actor, which tells again when
// that changes.
func (a *shardActor) parkedRow(ctx actor.Context, wallMs int64, m parkedRow) {
	if !slices.Contains(a.parked[m.user], m.session) {
		return // it has left, or an actor knows it now
	}
	rules := a.sys.post.rules.Load()
	nowMs := a.core.Now(wallMs)
	if row := &m.read.Row; !m.read.Failed && row.BannedUntilMs <= nowMs && readyAtMs(row, rules, a.sys.node) <= nowMs {
		a.sys.post.status(m.session, board.UserStatus{User: m.user, Turn: row.Turn + 1})
		return
	}
	a.unpark(m.user, m.session)
	a.do(ctx, wallMs, a.core.ForUser(wallMs, m.user, RegisterSession{User: m.user, Session: m.session}))
}

// unpark forgets a session of a user that has no actor.
func (a *shardActor) unpark(user board.UserID, session SessionRef) {
	left := slices.DeleteFunc(a.parked[user], func(s SessionRef) bool { return s == session })
	if len(left) == 0 {
		delete(a.parked, user)
		return
	}
	a.parked[user] = left
}

func (a *shardActor) stop(ctx actor.Context, user board.UserID) {
	if c := a.users[user]; c != nil {
		delete(a.users, user)
		a.sys.users.Add(-1)
		ctx.Poison(c.pid)
	}
}

// userActor is the shell around User.
type userActor struct {
	sys  *System
	core *User
}

// Receive implements actor.Actor.
func (a *userActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		shard, user := userOf(ctx.Self().GetId())
		a.core = NewUser(user, a.sys.node, a.sys.generations[shard].Load(), a.sys.lives.Add(1))
	case *actor.Restarting:
		a.sys.metrics.restarts.WithLabelValues("user").Inc()
		shard, _ := userOf(ctx.Self().GetId())
		a.sys.post.toSubscribers(RegisterAgain{Shard: shard})
	case UserMessage:
		wallMs, _ := a.sys.guard.now()
		for _, effect := range a.core.Receive(wallMs, m) {
			switch e := effect.(type) {
			case Answer:
				a.sys.post.answer(e.To, e.Outcome)
			case TellStatus:
				a.sys.post.status(e.To, e.Status)
			case AskRow, AskCharge, AskBan, UserIdle:
				ctx.Send(ctx.Parent(), e)
			}
		}
	}
}

// userOf returns the shard and the user that the id of a user actor names: "shard-17/42/alice".
func userOf(id string) (int, board.UserID) {
	parts := strings.SplitN(id, "/", 3)
	shard, err := strconv.Atoi(strings.TrimPrefix(parts[0], "shard-"))
	if err != nil || len(parts) != 3 {
		panic(fmt.Sprintf("actors: %q is not the id of a user actor", id))
	}
	return shard, board.UserID(parts[2])
}

// shardName and subscriberName are the names of the actors on their node.
func shardName(index int) string      { return fmt.Sprintf("shard-%d", index) }
func subscriberName(index int) string { return fmt.Sprintf("subscriber-%d", index) }
