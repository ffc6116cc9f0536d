package actors

import "sync"

// slots are the store slots of a node: how many conditional writes may be in flight (I7). A partition seals its commit when
// it gets a slot, so a storm batches by itself and a lone placement waits for nobody.
type slots struct {
	mu      sync.Mutex // guards the fields below
	free    int
	waiting []func() // grants, in the order in which they were asked for: at most one a partition
}

func newSlots(n int) *slots { return &slots{free: n} }

// take calls grant once a slot is free: at once, or from a later release. grant must not block.
func (s *slots) take(grant func()) {
	s.mu.Lock()
	if s.free == 0 {
		s.waiting = append(s.waiting, grant)
		s.mu.Unlock()
		return
	}
	s.free--
	s.mu.Unlock()
	grant()
}

// release gives a slot to the next who waits, or back.
func (s *slots) release() {
	s.mu.Lock()
	if len(s.waiting) == 0 {
		s.free++
		s.mu.Unlock()
		return
	}
	grant := s.waiting[0]
	s.waiting = s.waiting[1:]
	s.mu.Unlock()
	grant()
}

// queued returns how many partitions wait for a slot.
func (s *slots) queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
