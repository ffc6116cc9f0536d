//go:build unix

package system_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
)

// heardWithin is how soon after the call of placed ctl every session has to hear of new settings. On top of it comes what
// the machine takes at that moment to run placed ctl itself: twice the time of a `placed ctl settings get` right before,
// for the change is one question more than that.
const heardWithin = time.Second

// hearWithin bounds the wait for those that are late.
const hearWithin = 30 * time.Second

// news is when which session heard of which version of the settings.
type news struct {
	mu    sync.Mutex // guards heard
	heard map[uint64]map[int]time.Time
}

func newNews() *news { return &news{heard: map[uint64]map[int]time.Time{}} }

func (w *news) hear(session int, settings board.Settings) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard[settings.Version] == nil {
		w.heard[settings.Version] = map[int]time.Time{}
	}
	w.heard[settings.Version][session] = time.Now()
}

// of returns how many sessions have heard of a version, and when the last of them did.
func (w *news) of(version uint64) (sessions int, last time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.heard[version] {
		if at.After(last) {
			last = at
		}
	}
	return len(w.heard[version]), last
}

// TestLiveSettings changes every setting while many place: every session hears of each change within a second, nothing is
// lost, and nobody connects anew (I1, I5, I9). It runs beside no other test, for it measures.
func TestLiveSettings(t *testing.T) {
	n := startNode(t, "--width", "300", "--height", "250", "--cooldown", "0s")
	told := newNews()
	load := stormy()
	load.onSettings = told.hear
	s := startStorm(t, n, load)
	change := func(args ...string) {
		t.Helper()
		s.change(told, args...)
		s.more(50)
	}
	s.everyone()

	bounds := s.ledger.answered("bounds")
	change("--width", "150", "--height", "100", "--yes")
	eventually(t, moreWithin, "somebody to place off the shrunk board", func() bool { return s.ledger.answered("bounds") > bounds })
	change("--width", "520", "--height", "430")
	s.everyone()
	change("--cooldown", "1s")
	change("--cooldown", "0s")
	s.everyone()

	change("--palette-file", paletteFile(t, 40))
	s.colours.Store(40)
	s.everyone()
	s.frozen(told)
	for _, size := range []string{"300", "1000", "100"} {
		change("--region-size", size)
		s.everyone()
	}
	change("--announcement", "Hello, everybody")
	for _, session := range s.sessions() {
		if stats := session.Stats(); stats.Losses > 0 || stats.Connects != 1 || stats.Fetches > 1 {
			t.Errorf("a session of %q was disconnected %d times and fetched the board %d times", session.User(), stats.Losses, stats.Fetches)
		}
		if got := session.Settings(); got.Announcement != "Hello, everybody" || len(got.Palette) != 40 || got.Width != 520 || got.RegionSize != 100 {
			t.Errorf("a session of %q ends with the settings %+v", session.User(), got)
		}
	}
	s.judge()
}

// change changes settings by placed ctl and measures until every session has heard of it.
func (s *storm) change(told *news, args ...string) board.SettingsRecord {
	s.t.Helper()
	began := time.Now()
	s.node.settings()
	limit := heardWithin + 2*time.Since(began)
	began = time.Now()
	record := s.node.set(args...)
	all := len(s.sessions())
	eventually(s.t, hearWithin, fmt.Sprintf("all sessions to hear of %v", args), func() bool {
		heard, _ := told.of(record.Version)
		return heard == all
	})
	_, last := told.of(record.Version)
	s.t.Logf("%v: ctl took %v, the last of %d sessions heard after %v of %v", args[0],
		time.Since(began).Round(time.Millisecond), all, last.Sub(began).Round(time.Millisecond), limit.Round(time.Millisecond))
	if took := last.Sub(began); took > limit {
		s.t.Errorf("%v: the last session heard of it after %v, the limit was %v", args, took, limit)
	}
	return record
}

// frozen freezes the board: once ctl calls it frozen nothing changes any more, and all boards are equal in the middle of
// the storm.
func (s *storm) frozen(told *news) {
	s.t.Helper()
	s.change(told, "--frozen")
	eventually(s.t, moreWithin, "the board to be frozen", func() bool {
		status := s.node.status()
		return status.FrozenFully && status.OpenCharges == 0
	})
	placements := s.node.verify().Placements
	refused := s.ledger.answered("frozen")
	s.converged(placements)
	eventually(s.t, moreWithin, "everybody to be refused", func() bool { return s.ledger.answered("frozen") > refused+len(s.users) })
	if now := s.node.verify().Placements; now != placements {
		s.t.Errorf("a frozen board went on from %d to %d placements", placements, now)
	}
	s.change(told, "--no-frozen")
	s.everyone()
}

// paletteFile returns a file with a palette: that of a new board, and more colours.
func paletteFile(t *testing.T, colours int) string {
	t.Helper()
	palette := board.DefaultPalette()
	for i := len(palette); i < colours; i++ {
		palette = append(palette, board.PaletteEntry{Name: fmt.Sprintf("colour %d", i), RGB: uint32(i) * 0x010305})
	}
	b, err := json.Marshal(palette)
	path := filepath.Join(t.TempDir(), "palette.json")
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}
