package actors

import (
	"context"
	"sync"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// sessionTable tells which user a session belongs to. It is split so that sessions rarely wait for each other.
type sessionTable [64]struct {
	mu    sync.RWMutex // guards users
	users map[wire.SessionID]board.UserID
}

func (t *sessionTable) add(id wire.SessionID, user board.UserID) {
	part := &t[id%wire.SessionID(len(t))]
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.users == nil {
		part.users = map[wire.SessionID]board.UserID{}
	}
	part.users[id] = user
}

func (t *sessionTable) user(id wire.SessionID) board.UserID {
	part := &t[id%wire.SessionID(len(t))]
	part.mu.RLock()
	defer part.mu.RUnlock()
	return part.users[id]
}

func (t *sessionTable) remove(id wire.SessionID) (board.UserID, bool) {
	part := &t[id%wire.SessionID(len(t))]
	part.mu.Lock()
	defer part.mu.Unlock()
	user, ok := part.users[id]
	delete(part.users, id)
	return user, ok
}

// Connect gives a connection to a subscriber and returns the session's id. user "" is a spectator.
func (s *System) Connect(conn wire.Conn, user board.UserID) wire.SessionID {
	id := wire.SessionID(s.lastSession.Add(1))
	s.sessions.add(id, user)
	s.people.add(user)
	s.post.toSubscriber(s.post.subscriberOf(id), SessionOpened{Session: id, Conn: conn, User: user})
	return id
}

// Disconnect forgets a session.
func (s *System) Disconnect(id wire.SessionID) {
	if user, ok := s.sessions.remove(id); ok {
		s.people.remove(user)
		s.post.toSubscriber(s.post.subscriberOf(id), SessionClosed{Session: id})
	}
}

// Receive takes a client's decoded message. It never blocks.
func (s *System) Receive(id wire.SessionID, message wire.ClientMessage) {
	place, ok := message.(*wire.Place)
	if !ok {
		s.post.toSubscriber(s.post.subscriberOf(id), SessionSent{Session: id, Message: message})
		return
	}
	to := SessionRef{Node: s.node.Address, Session: id}
	user := s.sessions.user(id)
	request := board.PlaceRequest{User: user, Turn: place.Turn, Nonce: place.Nonce, At: board.Point{X: place.X, Y: place.Y}}
	if code := s.precheck(user, place.Colour); code != board.CodeOK {
		s.post.answer(to, board.PlaceOutcome{Verdict: board.VerdictRefused, Code: code, Turn: place.Turn, Nonce: place.Nonce, At: request.At})
		return
	}
	request.Colour = board.Colour(place.Colour)
	s.post.toUser(user, PlaceTile{Request: request, ReplyTo: to})
}

// precheck refuses what no user actor has to see.
func (s *System) precheck(user board.UserID, colour int) board.Code {
	switch {
	case user == "":
		return board.CodeSignIn
	case colour < 0 || colour >= board.PaletteMax:
		return board.CodeColour
	case s.draining.Load() && !s.OthersServe():
		return board.CodeDraining
	}
	return board.CodeOK
}

// Place asks for a placement and waits for its answer: accepted or refused, charged once it is overdue, unknown when ctx
// ends first.
func (s *System) Place(ctx context.Context, r board.PlaceRequest) board.PlaceOutcome {
	if code := s.precheck(r.User, int(r.Colour)); code != board.CodeOK {
		return board.PlaceOutcome{Verdict: board.VerdictRefused, Code: code, Turn: r.Turn, Nonce: r.Nonce, At: r.At}
	}
	answers := make(chan board.PlaceOutcome, 1)
	to, done := s.wait(waiter{outcome: func(o board.PlaceOutcome) { offer(answers, o) }})
	defer done()
	s.post.toUser(r.User, PlaceTile{Request: r, ReplyTo: to})
	select {
	case o := <-answers:
		return s.withTrueColour(ctx, o)
	case <-ctx.Done():
		return board.PlaceOutcome{Verdict: board.VerdictUnknown, Turn: r.Turn, Nonce: r.Nonce, At: r.At, WaitMs: BusyRetryMs}
	}
}

// withTrueColour fills in what the board shows at the tile of a refusal.
func (s *System) withTrueColour(ctx context.Context, o board.PlaceOutcome) board.PlaceOutcome {
	if o.Verdict != board.VerdictRefused || !s.post.rules.Load().Settings().Bounds().Contains(o.At) {
		return o
	}
	if image, ok := s.chunk(ctx, o.At.Chunk()); ok {
		o.TrueColour = true
		if image.Tiles != nil {
			o.Colour = image.Tiles[o.At.Tile()]
		}
	}
	return o
}

// UserStatus returns a user's turn and cooldown.
func (s *System) UserStatus(ctx context.Context, user board.UserID) (board.UserStatus, error) {
	answers := make(chan board.UserStatus, 1)
	to, done := s.wait(waiter{outcome: func(board.PlaceOutcome) {}, status: func(u board.UserStatus) { offer(answers, u) }})
	defer done()
	s.post.toUser(user, RegisterSession{User: user, Session: to})
	defer s.post.toUser(user, ForgetSession{User: user, Session: to})
	select {
	case status := <-answers:
		return status, nil
	case <-ctx.Done():
		return board.UserStatus{}, ctx.Err()
	}
}

// wait registers a request that waits for an answer.
func (s *System) wait(w waiter) (SessionRef, func()) {
	if w.status == nil {
		w.status = func(board.UserStatus) {}
	}
	id := wire.SessionID(s.lastSession.Add(1)) | waiterBit
	s.post.waiters.Store(id, w)
	return SessionRef{Node: s.node.Address, Session: id}, func() { s.post.waiters.Delete(id) }
}

// offer gives a value to a channel of one without blocking; later values are dropped.
func offer[T any](c chan T, v T) {
	select {
	case c <- v:
	default:
	}
}

// openCharges counts what the shards have under way, as they last reported. They are asked all at once, so that it takes
// OpenWait at most.
func (s *System) openCharges() int {
	answers := make(chan int, len(s.post.shards))
	for shard := range s.post.shards {
		s.root.Send(s.post.shards[shard], getOpen{func(n int) { offer(answers, n) }})
	}
	open := 0
	late := time.NewTimer(OpenWait)
	defer late.Stop()
	for heard := range s.post.shards {
		select {
		case n := <-answers:
			open += n
		case <-late.C: // the others are busy: something is under way
			return open + len(s.post.shards) - heard
		case <-s.ctx.Done():
			return 0
		}
	}
	return open
}
