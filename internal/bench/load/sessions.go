package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/internal/bench/measure"
	"github.com/placed-board/placed/wire"
)

// Waits of the doublers' coming and going connections.
const (
	churnPauseMax   = 250 * time.Millisecond // between two of one user
	churnDropShare  = 4                      // every so many, a lasting connection is dropped instead
	churnDialWait   = 10 * time.Second
	sessionReadSize = 512 // bytes of a session's own read buffer
)

// quickBackoff brings a dropped connection back within a move or two.
var quickBackoff = client.Backoff{Base: 5 * time.Millisecond, Max: 50 * time.Millisecond}

// Sessions are the open connections of a storm's users.
type Sessions struct {
	url      string
	doublers []*doubler
	all      []*client.Session
}

// doubler is a user with several connections.
type doubler struct {
	user     int
	sessions []*client.Session
	draws    *measure.Draws
}

// SessionOptions say who the users are.
type SessionOptions struct {
	// Prefix begins the name that every user signs in under. The names of two storms against one board must differ, or
	// users start with turns of their past.
	Prefix string
	// Token, where it is set, is everybody's, and nobody signs in.
	Token string
}

// OpenSessions signs every user in and opens its connections.
func OpenSessions(ctx context.Context, s *Storm, url string, o SessionOptions) (*Sessions, error) {
	plan := s.config.Plan
	open := &Sessions{url: url}
	sessions := make([][]*client.Session, plan.Users)
	err := parallel(plan.Users, func(user int) error {
		connections := 1
		if user < plan.Doublers {
			connections = max(1, s.config.Connections)
		}
		for range connections {
			options := client.Options{Name: fmt.Sprintf("%s-%d", o.Prefix, user), ReadBufferBytes: sessionReadSize, Backoff: quickBackoff}
			if o.Token != "" {
				options.Name, options.Token = "", o.Token
			}
			if len(sessions[user]) > 0 {
				options.Name, options.Token = "", sessions[user][0].Token()
			}
			connection, answered := s.Connect(user, nil)
			options.Hooks.OnPlaced = answered
			options.Hooks.OnNotice = func(wire.Notice) { s.counts.notices.Add(1) }
			session, err := client.Dial(ctx, url, options)
			if err != nil {
				return fmt.Errorf("user %d: %w", user, err)
			}
			s.Attach(user, connection, session)
			sessions[user] = append(sessions[user], session)
		}
		return nil
	})
	for user, list := range sessions {
		open.all = append(open.all, list...)
		if user < plan.Doublers && len(list) > 1 {
			open.doublers = append(open.doublers, &doubler{user: user, sessions: list, draws: plan.Draws(1<<32 + uint64(user))})
		}
	}
	if err != nil {
		open.Close()
		return nil, fmt.Errorf("open sessions: %w", err)
	}
	return open, nil
}

// parallel calls do for 0..n-1 from a bounded number of goroutines; the first error ends it.
func parallel(n int, do func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Bool
	errs := make([]error, dialersAtOnce)
	var workers sync.WaitGroup
	for worker := range dialersAtOnce {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !failed.Load(); i = int(next.Add(1)) - 1 {
				if errs[worker] = do(i); errs[worker] != nil {
					failed.Store(true)
					return
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// Churn opens and closes further connections of every doubler, and now and then drops a lasting one, until the context
// ends. It returns how many connections came and went, and how many could not be opened.
func (s *Sessions) Churn(ctx context.Context) (churned, failed int64) {
	var came, missed atomic.Int64
	var workers sync.WaitGroup
	for _, d := range s.doublers {
		workers.Go(func() {
			for round := 1; sleep(ctx, d.draws.Up(churnPauseMax)) == nil; round++ {
				if round%churnDropShare == 0 {
					// Never the first: it is the one that late answers and retries travel on.
					d.sessions[1+int(d.draws.Uint64()%uint64(len(d.sessions)-1))].Drop()
					continue
				}
				switch err := comeAndGo(ctx, s.url, d.sessions[0].Token()); {
				case err == nil:
					came.Add(1)
				case ctx.Err() == nil:
					missed.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return came.Load(), missed.Load()
}

func comeAndGo(ctx context.Context, url, token string) error {
	ctx, cancel := context.WithTimeout(ctx, churnDialWait)
	defer cancel()
	session, err := client.Dial(ctx, url, client.Options{Token: token, ReadBufferBytes: sessionReadSize})
	if err != nil {
		return err
	}
	return session.Close()
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Losses is how many connections ended other than by Close.
func (s *Sessions) Losses() uint64 {
	total := uint64(0)
	for _, session := range s.all {
		total += session.Stats().Losses
	}
	return total
}

// Close ends all sessions.
func (s *Sessions) Close() {
	_ = parallel(len(s.all), func(i int) error { return s.all[i].Close() })
}
