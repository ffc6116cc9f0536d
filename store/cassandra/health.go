package cassandra

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/placed-board/placed/store"
)

// pingEvery is how old the last news of the cluster may be before Health asks for fresh ones.
const pingEvery = time.Second

// health remembers how the last request ended.
type health struct {
	failure atomic.Pointer[error] // nil after a success
	newsMs  atomic.Int64          // when the last request ended, by the wall clock
	pinging atomic.Bool
}

// note records the outcome of a request; one that its caller gave up says nothing.
func (h *health) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	if err == nil {
		h.failure.Store(nil)
	} else {
		h.failure.Store(&err)
	}
	h.newsMs.Store(time.Now().UnixMilli())
}

// Health implements store.Store: it answers at once from how the last request ended. When that is over a second ago, it also
// starts a serial read in the background, which needs the same quorum as a commit; the next call knows its outcome.
// The space left on the servers' disks is not known.
func (s *Store) Health(context.Context) store.Health {
	if age := time.Now().UnixMilli() - s.health.newsMs.Load(); age >= pingEvery.Milliseconds() || age < 0 {
		s.ping()
	}
	if err := s.health.failure.Load(); err != nil {
		return store.Health{Err: *err}
	}
	return store.Health{}
}

// ping reads the board's description in the background, one at a time; the driver's timeout bounds it.
func (s *Store) ping() {
	if s.begin() != nil {
		return
	}
	if !s.health.pinging.CompareAndSwap(false, true) {
		s.end()
		return
	}
	go func() {
		defer s.end()
		defer s.health.pinging.Store(false)
		if _, err := s.Meta(context.Background()); errors.Is(err, store.ErrFormat) {
			s.health.note(context.Background(), err)
		}
	}()
}
