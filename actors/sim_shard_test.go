package actors

import (
	"fmt"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

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
		if !s.passOn(m) && !s.withoutActor(m) {
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

// passOn forwards once what is for another node in this one's view, as the shell does.
func (s *simShard) passOn(m forUser) bool {
	onward, again := forwarded(m.message)
	if !s.core.away || again {
		return false
	}
	w := s.n.w
	w.send("pass on", func() { w.owner(store.Shard(s.index)).toUser(m.user, onward) })
	return true
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
		case ShardNeedsSettings:
			n.needSettings()
		case StopUsers: // once they have done what they have got
			for _, u := range slices.Clone(s.users) {
				for len(u.box.queue) > 0 {
					m := u.box.queue[0]
					u.box.queue = u.box.queue[1:]
					u.receive(m)
				}
			}
			s.users = nil
			clear(s.parked)
			for _, other := range w.nodes {
				other.sub.box.put(RegisterAgain{Shard: s.index})
			}
		case ShardInForce:
			w.check.inForce(e)
		case NeedChunk:
			n.feed.box.put(GetTiles{Chunk: e.Chunk, Reply: func(i ChunkImage) { s.box.put(ChunkRead{Chunk: i.Chunk, Tiles: i.Tiles}) }})
		case NeedPlan:
			planned := w.plan(e)
			w.send("plan", func() { s.box.put(planned) })
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

func (u *simUser) start() {
	u.core = NewUser(u.id, u.s.n.node, u.s.core.Generation(), u.s.n.w.nextLife())
}

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
