package actors

import (
	"flag"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var simSeed = flag.Uint64("sim.seed", 1, "the seed that TestSimSeed replays")

// simSeedsDefault is how many seeds TestSim runs when PLACED_SIM_SEEDS does not say otherwise.
const simSeedsDefault = 1000

func simSeeds(t *testing.T) uint64 {
	text := os.Getenv("PLACED_SIM_SEEDS")
	if text == "" {
		return simSeedsDefault
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		t.Fatalf("PLACED_SIM_SEEDS=%q: want a number of seeds", text)
	}
	return n
}

// firstFailure runs seeds from..to on all processors and returns the lowest that fails, or 0.
func firstFailure(from, to uint64, m *mutant) (seed uint64, placements int64) {
	var next, failed, total atomic.Int64
	next.Store(int64(from))
	failed.Store(int64(to) + 1)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for {
				seed := next.Add(1) - 1
				if seed > int64(to) || seed >= failed.Load() {
					return
				}
				r := runSeed(uint64(seed), m, false)
				total.Add(int64(r.placements))
				if r.failure == nil {
					continue
				}
				for {
					lowest := failed.Load()
					if seed >= lowest || failed.CompareAndSwap(lowest, seed) {
						break
					}
				}
			}
		})
	}
	group.Wait()
	if lowest := failed.Load(); lowest <= int64(to) {
		seed = uint64(lowest)
	}
	return seed, total.Load()
}

// report replays a failing seed and prints how it came to fail.
func report(t *testing.T, seed uint64, m *mutant) {
	t.Helper()
	r := runSeed(seed, m, true)
	if r.failure == nil {
		t.Fatalf("seed %d failed, and does not when it is run again: the simulation is not deterministic", seed)
	}
	trace := r.trace
	if len(trace) > simTraceMax && os.Getenv("PLACED_SIM_TRACE") != "all" {
		trace = trace[len(trace)-simTraceMax:]
	}
	t.Fatalf("seed %d: %s: %s\n%s\n%s\nreplay: go test ./actors -run 'TestSimSeed$' -sim.seed=%d",
		seed, r.failure.invariant, r.failure.what, strings.Join(trace, "\n"), r.stack, seed)
}

// simTraceMax is how many events are printed of a failing seed; PLACED_SIM_TRACE=all prints every one.
const simTraceMax = 60

// TestSim runs the cores under faults and checks every invariant.
func TestSim(t *testing.T) {
	seeds := simSeeds(t)
	failed, placements := firstFailure(1, seeds, nil)
	if failed != 0 {
		report(t, failed, nil)
	}
	if placements < int64(seeds) {
		t.Fatalf("%d seeds made %d placements only", seeds, placements)
	}
	t.Logf("%d seeds, %d placements", seeds, placements)
}

// TestSimSeed replays the seed of -sim.seed twice: it must go the same way, event by event.
func TestSimSeed(t *testing.T) {
	if r := runSeed(*simSeed, nil, false); r.failure != nil {
		report(t, *simSeed, nil)
	}
	first, second := runSeed(*simSeed, nil, true), runSeed(*simSeed, nil, true)
	for i := range min(len(first.trace), len(second.trace)) {
		if simPointers.ReplaceAllString(first.trace[i], "") != simPointers.ReplaceAllString(second.trace[i], "") {
			t.Fatalf("seed %d goes two ways:\n%s\n%s", *simSeed, first.trace[i], second.trace[i])
		}
	}
	if len(first.trace) != len(second.trace) {
		t.Fatalf("seed %d takes %d events, and %d when run again", *simSeed, len(first.trace), len(second.trace))
	}
}

// simPointers are what two runs may differ in.
var simPointers = regexp.MustCompile(`0x[0-9a-f]+`)
