package actors

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Bounds of a supervision.
const (
	// RestartsMax is how many panics of an actor within RestartsWithinMs are followed by a new start at once; the next one waits
	// for RestartPauseMs.
	RestartsMax      = 10
	RestartsWithinMs = 10_000
	RestartPauseMs   = 1000
)

// supervision starts an actor again after a panic, with a fresh core, which loads before it accepts anything. It never gives one
// up: what is sent to a shard or region that is gone would be lost without an answer, for ever (I8).
type supervision struct{ log *slog.Logger }

// HandleFailure implements actor.SupervisorStrategy.
func (s supervision) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID, past *actor.RestartStatistics, reason, _ any) {
	past.Fail()
	again := past.NumberOfFailures(RestartsWithinMs*time.Millisecond) > RestartsMax
	s.log.Error("actor panicked", "actor", child.GetId(), "reason", fmt.Sprint(reason), "again_and_again", again)
	if again {
		past.Reset()
		time.AfterFunc(RestartPauseMs*time.Millisecond, func() { supervisor.RestartChildren(child) })
		return
	}
	supervisor.RestartChildren(child)
}
