package invites

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Bounds of a keeper.
const (
	// queueMax is how many changes wait for the one under way; beyond: refused.
	queueMax = 64
	// pollEvery is how often the events of other nodes are read, where the store is shared.
	pollEvery = 400 * time.Millisecond
	// commitTimeout is when one try of a commit is given up: its outcome is unknown then, and it is sent again.
	commitTimeout = 5 * time.Second
	// retryMin and retryMax are the pauses before a commit is sent again, doubling.
	retryMin = 20 * time.Millisecond
	retryMax = time.Second
)

// Config is what a keeper needs.
type Config struct {
	Store store.Store
	Owner store.Owner // of this node's commits
	Log   *slog.Logger
}

// Keeper serves the invites of one node. Its methods may be called from many goroutines; one goroutine of its own makes the
// changes, one after the other.
type Keeper struct {
	cfg    Config
	queue  chan change
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}

	mu       sync.RWMutex // guards the fields below; only the keeper's goroutine changes them
	book     *Book
	watchers []func([]board.UserID)
}

// change is one wish: decide says what it is in the light of all events before, and gets asked again when others came first.
type change struct {
	decide func(b *Book, nowMs int64) (*event, error)
	done   chan error
}

// Open reads all invites and starts the keeper. ctx bounds the reading.
func Open(ctx context.Context, cfg Config) (*Keeper, error) {
	k := &Keeper{cfg: cfg, queue: make(chan change, queueMax), ended: make(chan struct{}), book: NewBook()}
	if _, err := k.read(ctx, nil); err != nil {
		return nil, err
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	go k.run()
	return k, nil
}

// Close ends the keeper. Changes under way end with an unknown outcome.
func (k *Keeper) Close() {
	k.cancel()
	<-k.ended
}

func (k *Keeper) run() {
	defer close(k.ended)
	var poll <-chan time.Time
	if k.cfg.Store.Capabilities().Shared {
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		poll = ticker.C
	}
	for {
		select {
		case <-k.ctx.Done():
			return
		case c := <-k.queue:
			c.done <- k.carryOut(c)
		case <-poll:
			if _, err := k.read(k.ctx, nil); err != nil && k.ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
				k.cfg.Log.Warn("invites of other nodes cannot be read", "err", err)
			}
		}
	}
}

// ask has a change made and waits for its end.
func (k *Keeper) ask(ctx context.Context, decide func(b *Book, nowMs int64) (*event, error)) error {
	c := change{decide: decide, done: make(chan error, 1)}
	select {
	case k.queue <- c:
	default:
		return fmt.Errorf("invites: %w: too many changes at once: try again", board.ErrRefused)
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("invites: %w: %w", board.ErrUnknown, ctx.Err())
	case <-k.ended:
		return fmt.Errorf("invites: %w: the node is stopping", board.ErrUnknown)
	}
}

// carryOut decides, commits, and decides again when another node's event came first.
func (k *Keeper) carryOut(c change) error {
	for {
		e, err := c.decide(k.book, time.Now().UnixMilli())
		if err != nil || e == nil {
			return err
		}
		e.Attempt = randomHex(8)
		value, err := e.encode()
		if err != nil {
			return err
		}
		done, err := k.commit(value)
		if err != nil || done {
			return err
		}
	}
}

// commit makes the value the next version, and reports false when another one became that. The bytes are sent again until
// their fate is known: an event that was thought lost and came later would be obeyed by all nodes but this one.
func (k *Keeper) commit(value []byte) (bool, error) {
	commit := &store.Commit{
		Partition: store.Invites(), Rows: []store.Row{{Value: value}},
		Head: store.Head{Version: k.book.version + 1, Attempt: randomAttempt(), Owner: k.cfg.Owner},
	}
	pause, sent := retryMin, false // sent: it may have been applied, or may yet be
	for {
		ctx, cancel := context.WithTimeout(k.ctx, commitTimeout)
		result, err := k.cfg.Store.Commit(ctx, commit)
		if err == nil {
			var own bool
			own, err = k.read(ctx, value)
			if err == nil {
				cancel()
				return own || result.Applied, nil
			}
			if errors.Is(err, store.ErrCorrupt) {
				cancel()
				return false, err
			}
			sent = true
		}
		cancel()
		if !sent && !errors.Is(err, store.ErrUnknown) && !errors.Is(err, context.DeadlineExceeded) {
			return false, fmt.Errorf("invites: %w", err)
		}
		sent = true
		select {
		case <-time.After(pause):
			pause = min(2*pause, retryMax)
		case <-k.ctx.Done():
			return false, fmt.Errorf("invites: %w: %w", board.ErrUnknown, k.ctx.Err())
		}
	}
}

// read applies the events that came since, and reports whether one of them has the bytes of value.
func (k *Keeper) read(ctx context.Context, value []byte) (own bool, err error) {
	var gone []board.UserID
	for entry, err := range k.cfg.Store.Journal(ctx, store.Invites(), k.book.version+1) {
		if err != nil {
			return own, fmt.Errorf("invites: read: %w", err)
		}
		e, err := decode(entry.Value)
		if err != nil {
			return own, err
		}
		k.mu.Lock()
		revoked, err := k.book.apply(entry.Version, e)
		k.mu.Unlock()
		if err != nil {
			return own, err
		}
		gone = append(gone, revoked...)
		own = own || bytes.Equal(entry.Value, value)
	}
	if len(gone) > 0 {
		k.mu.RLock()
		watchers := k.watchers
		k.mu.RUnlock()
		for _, tell := range watchers {
			tell(gone)
		}
	}
	return own, nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func randomAttempt() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return max(binary.LittleEndian.Uint64(b[:]), 1) // 0 is no attempt
}

// CreateInvites makes invites, all of them or none.
func (k *Keeper) CreateInvites(ctx context.Context, r board.InviteRequest) ([]board.Invite, error) {
	ids := make([]string, r.Count)
	for i := range ids {
		ids[i] = randomHex(8)
	}
	err := k.ask(ctx, func(b *Book, nowMs int64) (*event, error) { return b.make(&r, ids, nowMs) })
	if err != nil {
		return nil, err
	}
	return k.copies(ids), nil
}

// UseInvite returns the invite with the name of who it is: the given one at the first use of an invite without a name.
func (k *Keeper) UseInvite(ctx context.Context, id string, name board.UserID) (board.Invite, error) {
	k.mu.RLock()
	e, err := k.book.use(id, name, time.Now().UnixMilli())
	k.mu.RUnlock()
	behind := errors.Is(err, board.ErrInviteUnknown) || errors.Is(err, board.ErrNameNeeded) // unless another node knows more
	if (err == nil && e != nil) || (behind && k.cfg.Store.Capabilities().Shared) {
		err = k.ask(ctx, func(b *Book, nowMs int64) (*event, error) {
			if _, err := k.read(k.ctx, nil); err != nil {
				return nil, err
			}
			return b.use(id, name, nowMs)
		})
	}
	if err != nil {
		return board.Invite{}, err
	}
	return k.copies([]string{id})[0], nil
}

// RevokeInvites takes invites back, all of the named ones or none, and returns those that were good until now.
func (k *Keeper) RevokeInvites(ctx context.Context, names []string, by, why string) ([]board.Invite, error) {
	var ids []string
	err := k.ask(ctx, func(b *Book, nowMs int64) (*event, error) {
		e, err := b.revoke(names, by, why, nowMs)
		if e != nil {
			ids = e.IDs
		}
		return e, err
	})
	if err != nil {
		return nil, err
	}
	return k.copies(ids), nil
}

// copies returns the invites with the ids as they are now.
func (k *Keeper) copies(ids []string) []board.Invite {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.book.invites(ids)
}

// ListInvites returns all, in the order in which they were made.
func (k *Keeper) ListInvites() []board.Invite {
	k.mu.RLock()
	defer k.mu.RUnlock()
	list := make([]board.Invite, 0, len(k.book.list))
	for _, invite := range k.book.list {
		list = append(list, *invite)
	}
	return list
}

// Revoked reports whether the user came by an invite that was taken back.
func (k *Keeper) Revoked(user board.UserID) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	_, revoked := k.book.revoked[user]
	return revoked
}

// WatchRevoked has f called with the users of every invite that is taken back from now on, on the keeper's own goroutine: f
// must not ask for a change.
func (k *Keeper) WatchRevoked(f func([]board.UserID)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watchers = append(k.watchers[:len(k.watchers):len(k.watchers)], f)
}
