package command

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/placed-board/placed/bench/baseline"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/bench/load"
	"github.com/placed-board/placed/internal/bench/measure"
	"github.com/placed-board/placed/wire"
)

// acceptAll is the talk of a bare echo that the storm's own sessions understand: every placement is accepted at once, and
// nothing is looked at, kept or told to anybody else.
func acceptAll() baseline.EchoTalk {
	settings := board.DefaultSettings()
	settings.CooldownMs = 0
	hello := wire.AppendServer(nil, &wire.Hello{Protocol: wire.Protocol, Epoch: 1, Incarnation: 1, Settings: settings, User: "echo", Known: true, Turn: 1})
	var sequence atomic.Uint64
	return baseline.EchoTalk{Hello: hello, Answer: func(before, message []byte) []byte {
		m, err := wire.DecodeClient(message)
		place, ok := m.(*wire.Place)
		if err != nil || !ok {
			return before[:0] // an empty message: the client counts it as undecodable
		}
		at := board.Point{X: place.X, Y: place.Y}
		return wire.AppendServer(before[:0], &wire.Placed{PlaceOutcome: board.PlaceOutcome{
			Verdict: board.VerdictAccepted, Turn: place.Turn, Nonce: place.Nonce, At: at, Colour: board.Colour(place.Colour),
			Chunk: at.Chunk(), Sequence: sequence.Add(1), NextTurn: place.Turn + 1,
		}})
	}}
}

// sessionsEcho is the rate of round trips that the storm's own sessions, doing all that they do in a storm, reach against a
// bare echo without a cooldown, per second.
func (c *stormCommand) sessionsEcho(ctx context.Context, st *stage) (perSecond float64, err error) {
	server, address, err := baseline.StartEcho(ctx, selfAccept...)
	if err != nil {
		return 0, err
	}
	defer server.Close()
	plan := c.plan(st)
	plan.Doublers, plan.RetryShare, plan.Cooldown = 0, 0, 0
	s := load.New(load.Config{Plan: plan, Closed: true, Connections: 1, Wait: measure.PreciseWait})
	sessions, err := load.OpenSessions(ctx, s, "http://"+address, load.SessionOptions{Token: "echo"})
	if err != nil {
		return 0, err
	}
	defer sessions.Close()
	if err := s.Run(ctx); err != nil {
		return 0, err
	}
	result := s.Result()
	if other := result.SendFail + result.Unknown + result.Notices; other > 0 || result.InWindow == 0 {
		return 0, fmt.Errorf("echo: %d round trips, %d of them without their answer", result.InWindow, other)
	}
	return float64(result.InWindow) / c.Duration.Seconds(), nil
}

// echo is the rate of round trips of as many bare sessions against a bare echo, per second.
func (c *stormCommand) echo(ctx context.Context) (perSecond float64, err error) {
	result, err := baseline.Echo(ctx, baseline.EchoConfig{
		Sessions: c.Users, PlaceBytes: baseline.PlaceBytes, AnswerBytes: baseline.AnswerBytes, Warmup: c.Warmup, Duration: c.Duration,
	}, selfEcho...)
	return result.PerSecond, err
}
