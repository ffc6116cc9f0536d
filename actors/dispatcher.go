package actors

import "sync/atomic"

// Bounds of the dispatcher.
const (
	// WorkersMax is how many idle goroutines wait for actors to run.
	WorkersMax = 256
	// ActorThroughput is how many messages an actor handles before it lets others run.
	ActorThroughput = 300
)

// workers runs actors on goroutines that are used again. protoactor's own dispatcher starts a goroutine for every burst of
// messages, whose stack then grows by copying: a fifth of the time of a placement.
type workers struct {
	idle   chan chan func()
	closed atomic.Bool
}

func newWorkers() *workers { return &workers{idle: make(chan chan func(), WorkersMax)} }

// Schedule implements actor.Dispatcher: it runs fn soon, on another goroutine.
func (w *workers) Schedule(fn func()) {
	select {
	case worker := <-w.idle:
		worker <- fn
	default:
		go w.work(fn)
	}
}

// Throughput implements actor.Dispatcher.
func (w *workers) Throughput() int { return ActorThroughput }

// work runs fn and then whatever comes, until there are enough idle workers.
func (w *workers) work(fn func()) {
	next := make(chan func(), 1)
	for {
		fn()
		select {
		case w.idle <- next:
		default:
			return
		}
		if w.closed.Load() {
			w.close() // this worker may have come after the others were ended
		}
		if fn = <-next; fn == nil {
			return
		}
	}
}

// close ends the idle workers, and the busy ones once they are idle.
func (w *workers) close() {
	w.closed.Store(true)
	for {
		select {
		case worker := <-w.idle:
			worker <- nil
		default:
			return
		}
	}
}

// inline runs an actor at once, on the goroutine of whoever sends to it. User actors run so: only their shard sends to them,
// what they send goes into a mailbox that its own run will empty, and a hand-over to another goroutine would cost more than
// all they do.
type inline struct{}

// Schedule implements actor.Dispatcher.
func (inline) Schedule(fn func()) { fn() }

// Throughput implements actor.Dispatcher.
func (inline) Throughput() int { return ActorThroughput }
