//go:build unix

package system_test

import (
	"syscall"
	"testing"
	"time"
)

// pauseFor is longer than any retry, and shorter than what sessions take for the death of a node.
const pauseFor = 5 * time.Second

// TestPauseInAStorm is SIGSTOP and SIGCONT, as a paused virtual machine or a long swap-in looks to everybody else: what was
// sent meanwhile is answered afterwards, once, and nobody connects anew (I1, I3, I9).
func TestPauseInAStorm(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--width", "300", "--height", "250", "--cooldown", "100ms")
	s := startStorm(t, n, stormy())
	s.everyone()
	s.more(200)
	n.signal(syscall.SIGSTOP)
	was := s.ledger.acceptances()
	pause(t.Context(), pauseFor) // the fault itself takes this long
	if now := s.ledger.acceptances(); now > was+len(s.users) {
		t.Errorf("%d acceptances were heard of a node that is stopped", now-was)
	}
	n.signal(syscall.SIGCONT)
	s.everyone()
	s.more(200)
	resent := uint64(0)
	for _, session := range s.sessions() {
		stats := session.Stats()
		resent += stats.PlacesResent
		if stats.Losses > 0 || stats.Connects != 1 {
			t.Errorf("a session of %q lost its connection %d times", session.User(), stats.Losses)
		}
	}
	if resent == 0 {
		t.Error("nobody sent a placement again")
	}
	s.judge()
}
