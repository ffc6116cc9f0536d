package transport

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Bounds of what is made of the past.
const (
	pastSlots   = 1                // answers that are made at once; beyond: busy
	pastKept    = 24               // answers kept, the oldest goes
	pastFresh   = 10 * time.Second // an answer that may still change is good for so long
	pastTimeout = 2 * time.Minute  // to make one
	pastRetryMs = 2000             // hint of a busy answer
)

// errPastBusy says that every slot is taken.
var errPastBusy = errors.New("transport: other answers about the past are being made")

// pastKey names an answer about the past.
type pastKey struct {
	what string
	at   int64
}

// pastMaker makes an answer, and tells whether it can never change.
type pastMaker func(context.Context) (body []byte, settled bool, err error)

// pastAnswer is an answer that is being made until done is closed, and does not change afterwards.
type pastAnswer struct {
	key     pastKey
	done    chan struct{}
	body    []byte
	settled bool
	err     error
	made    time.Time
}

// pastCache keeps the latest answers about the past. Reading whole journals takes seconds: an answer is made once however many
// ask, goes on when they leave, so that who asks again finds it, and only pastSlots are made at once.
type pastCache struct {
	mu      sync.Mutex // guards the fields below
	answers []*pastAnswer
	making  int
}

// get returns an answer, made or found; the error of making it, errPastBusy, or that of ctx.
func (c *pastCache) get(ctx context.Context, key pastKey, maker pastMaker) (*pastAnswer, error) {
	c.mu.Lock()
	a := c.find(key, time.Now())
	if a == nil {
		if c.making >= pastSlots {
			c.mu.Unlock()
			return nil, errPastBusy
		}
		c.making++
		a = &pastAnswer{key: key, done: make(chan struct{})}
		c.answers = append(c.answers, a)
		if len(c.answers) > pastKept {
			c.answers = slices.Delete(c.answers, 0, 1)
		}
		go c.fill(a, maker)
	}
	c.mu.Unlock()
	select {
	case <-a.done:
		return a, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// find returns the answer that is kept, unless it is too old, and makes it the newest. The caller holds mu.
func (c *pastCache) find(key pastKey, now time.Time) *pastAnswer {
	i := slices.IndexFunc(c.answers, func(a *pastAnswer) bool { return a.key == key })
	if i < 0 {
		return nil
	}
	a := c.answers[i]
	c.answers = slices.Delete(c.answers, i, i+1)
	select {
	case <-a.done:
		if a.err != nil || !a.settled && now.Sub(a.made) > pastFresh {
			return nil
		}
	default: // still being made
	}
	c.answers = append(c.answers, a)
	return a
}

// fill makes an answer.
func (c *pastCache) fill(a *pastAnswer, maker pastMaker) {
	ctx, cancel := context.WithTimeout(context.Background(), pastTimeout)
	defer cancel()
	a.body, a.settled, a.err = maker(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	a.made = time.Now()
	c.making--
	close(a.done)
}
