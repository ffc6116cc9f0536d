package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/placed-board/placed/wire"
)

// receive takes in one message; b is used again afterwards. An error ends the connection.
func (s *Session) receive(b []byte) error {
	s.mu.Lock()
	s.stats.Messages++
	s.stats.Bytes += uint64(len(b))
	isFrame := wire.IsFrame(b)
	if isFrame {
		s.stats.Frames++
	}
	s.mu.Unlock()
	if isFrame {
		return s.receiveFrame(b)
	}
	m, err := wire.DecodeServer(b)
	if err != nil {
		s.mu.Lock()
		s.stats.Undecodable++
		s.mu.Unlock()
		s.log.Warn("undecodable message", "err", err)
		return nil // a newer node may know messages that this client does not
	}
	switch m := m.(type) {
	case *wire.Hello:
		return errors.New("client: a second hello")
	case *wire.Base:
		if s.sync == nil {
			s.setState(StateLive)
			return nil
		}
		return s.synchronise(func(y *syncer) { y.base(m) })
	case *wire.Heartbeat:
		return s.receiveHeartbeat(m)
	case *wire.Me:
		s.receiveMe(m)
	case *wire.Placed:
		s.receivePlaced(m)
	case *wire.SettingsChanged:
		return s.receiveSettings(m)
	case *wire.ChunkHashes:
		if s.sync != nil {
			return s.synchronise(func(y *syncer) { y.hashes(m) })
		}
	case *wire.Notice:
		s.receiveNotice(m)
	case *wire.Move:
		s.mu.Lock()
		s.moveAt = time.Now().Add(time.Duration(rand.Int64N(max(m.WithinMs, 1))) * time.Millisecond)
		s.mu.Unlock()
	case *wire.Frame: // taken in above
	}
	return nil
}

func (s *Session) receiveFrame(b []byte) error {
	h := &s.o.Hooks
	if h.OnFrame != nil || h.OnSection != nil {
		f := FrameInfo{Bytes: len(b), At: time.Now()}
		var err error
		if f.Tick, f.Repair, err = frameTick(b); err == nil && h.OnFrame != nil {
			h.OnFrame(f)
		}
		if err == nil && h.OnSection != nil {
			_, _, _ = wire.DecodeFrame(b, func(section *wire.Section) error { h.OnSection(f, section); return nil })
		}
	}
	if s.sync == nil {
		return nil
	}
	return s.synchronise(func(y *syncer) { _ = y.frame(b) })
}

func (s *Session) receiveHeartbeat(m *wire.Heartbeat) error {
	if f := s.o.Hooks.OnHeartbeat; f != nil {
		f(*m)
	}
	s.mu.Lock()
	s.online = m.Online
	s.mu.Unlock()
	if s.sync == nil {
		return nil
	}
	diverged, have := false, m.Hashes
	err := s.synchronise(func(y *syncer) { have, diverged = y.heartbeat(m) })
	if diverged {
		s.log.Warn("the mirror differs from the node's board", "tick", m.Tick, "want", m.Hashes, "have", have)
		if f := s.o.Hooks.OnDivergence; f != nil {
			f(m.Hashes, have)
		}
	}
	return err
}

func (s *Session) receiveSettings(m *wire.SettingsChanged) error {
	s.mu.Lock()
	if m.Settings.Version > s.current.Version {
		s.current = m.Settings
	}
	s.mu.Unlock()
	var err error
	if s.sync != nil {
		err = s.synchronise(func(y *syncer) { y.settingsChanged(m) })
	}
	if f := s.o.Hooks.OnSettings; f != nil {
		f(m.Settings)
	}
	return err
}

// synchronise tells the mirror's core of an event and does what it asks for. An error ends the connection.
func (s *Session) synchronise(event func(*syncer)) error {
	s.mu.Lock()
	event(s.sync)
	a := s.sync.take()
	state, was := s.sync.state(), s.state
	if s.conn == nil {
		state = was
	}
	if state != was {
		s.state = state
		s.announce()
	}
	var ctx context.Context
	if a.fetch {
		ctx, s.connEnd = context.WithCancel(s.ctx)
	}
	id := s.connID
	s.mu.Unlock()
	for _, m := range a.send {
		_ = s.send(m)
	}
	if a.fetch {
		go s.fetch(ctx, id)
	}
	if f := s.o.Hooks.OnState; f != nil && state != was {
		f(state)
	}
	if a.fault != "" {
		return errors.New("client: " + a.fault)
	}
	return nil
}

// fetchAttemptsMax is how often the board is asked for before its chunks are repaired instead.
const fetchAttemptsMax = 4

// fetch gets the board over HTTP and hands it to the mirror, unless the connection that needed it has ended.
func (s *Session) fetch(ctx context.Context, id uint64) {
	for attempt := range fetchAttemptsMax {
		buffer := boards.Get().(*[]byte)
		b, body, err := s.api.board(ctx, (*buffer)[:0], attempt > 0)
		if err == nil {
			_ = s.synchronise(func(y *syncer) {
				if s.connID == id {
					err = y.body(body)
				}
			})
		}
		*buffer = b
		boards.Put(buffer)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.log.Debug("cannot fetch the board", "err", err)
		pause := s.o.Backoff.delay(attempt)
		if p, ok := errors.AsType[*Problem](err); ok {
			pause = max(pause, p.RetryAfter())
		}
		if wait(ctx, pause) != nil {
			return
		}
	}
	_ = s.synchronise(func(y *syncer) {
		if s.connID == id {
			y.noBody()
		}
	})
}

// boards lends memory for board bodies.
var boards = sync.Pool{New: func() any { return new([]byte) }}
