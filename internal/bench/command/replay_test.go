package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/archive"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/internal/bench/measure"
)

func historyFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.csv")
	if err := os.WriteFile(path, []byte(historyHeader+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHistoryIsReadInOrderOfTime(t *testing.T) {
	settings := board.DefaultSettings()
	settings.Palette[4].Closed = true
	path := historyFile(t, "1490918690000,bob,1,2,3", "1490918688000,ann,999,0,15", "1490918689000,bob,1000,0,1", "1490918689500,ann,0,0,16",
		"no row", "1490918689600,ann,0,0,4", "1490918750000,zoe,5,5,5")
	h, err := readHistory([]string{path}, &settings, span{})
	if err != nil {
		t.Fatal(err)
	}
	h.assign(10, 2, time.Minute)
	var got []measure.Event
	for e := range h.Events() {
		got = append(got, e)
	}
	want := []measure.Event{{X: 999, User: 0, Colour: 15}, {At: time.Second, User: 1, X: 1, Y: 2, Colour: 3}, {At: 31 * time.Second, User: 2, X: 5, Y: 5, Colour: 5}}
	if fmt.Sprint(got) != fmt.Sprint(want) || h.duration() != 32*time.Second {
		t.Errorf("events %v in %v, want %v", got, h.duration(), want)
	}
	var bad *archive.RowError
	if h.bad != 3 || !errors.As(h.badRow, &bad) || bad.Line != 4 || h.outside != 1 {
		t.Errorf("%d bad rows, the first %v; %d beyond the board", h.bad, h.badRow, h.outside)
	}
	for s, rows := range map[span]int{{most: 2 * time.Second}: 1, {most: 2001 * time.Millisecond}: 2, {skip: time.Second}: 2, {skip: time.Minute, most: time.Hour}: 1} {
		if h, err := readHistory([]string{path}, &settings, s); err != nil || len(h.rows) != rows {
			t.Errorf("span %v: %v, want %d rows", s, err, rows)
		}
	}
	if _, err := readHistory([]string{path}, &settings, span{skip: time.Hour}); err == nil {
		t.Error("a span without rows passes")
	}
}

// TestSessionsPlayOneUserAfterAnother gives 3 sessions to 9 users: each plays one until that one's cooldown is over.
func TestSessionsPlayOneUserAfterAnother(t *testing.T) {
	settings := board.DefaultSettings()
	const cooldown = 10 * time.Second
	var lines []string
	for i := range 9 { // a user each 4 s: three within a cooldown and the rest after it
		lines = append(lines, fmt.Sprintf("%d,user%d,%d,0,1", 1490918688000+4000*i, i, i))
	}
	lines = append(lines, fmt.Sprintf("%d,user8,100,0,1", 1490918688000+4000*8+500)) // too early
	h, err := readHistory([]string{historyFile(t, lines...)}, &settings, span{})
	if err != nil {
		t.Fatal(err)
	}
	h.assign(3, 1, cooldown)
	var sessions []int
	for e := range h.Events() {
		sessions = append(sessions, e.User)
	}
	if fmt.Sprint(sessions) != "[0 1 2 0 1 2 0 1 2 2]" || h.early != 1 || h.noneYet != 0 || h.used != 3 || h.sent != 10 {
		t.Errorf("sessions %v, %d early, %d without one, %d used", sessions, h.early, h.noneYet, h.used)
	}
	h.used, h.sent, h.early = 0, 0, 0
	h.assign(2, 1, cooldown)
	last := map[int]measure.Event{}
	for e := range h.Events() {
		if before, ok := last[e.User]; ok && e.At-before.At < cooldown && e.X != 100 {
			t.Errorf("session %d plays two users within a cooldown", e.User)
		}
		last[e.User] = e
	}
	if h.noneYet == 0 || h.sent+h.noneYet != 10 {
		t.Errorf("%d left out, %d sent", h.noneYet, h.sent)
	}
}

// TestReplayThroughRealSessions replays a small history to a node of bench's own, and writes the page.
func TestReplayThroughRealSessions(t *testing.T) {
	lines := []string{"1490918688000,ann,1,1,1", "1490918689000,ann,2,2,2"} // the second is too early
	for i := range 200 {
		lines = append(lines, fmt.Sprintf("%d,user%d,%d,%d,%d", 1490918688000+int64(i)*1000, i, i, i, i%16))
	}
	page := filepath.Join(t.TempDir(), "report.html")
	code, stdout, stderr := bench(t, "replay", historyFile(t, lines...), "--speed", "100", "--sessions", "300", "--listeners", "2", "--results", "", "--report", page)
	if code != measure.ExitPass && code != measure.ExitInvalid { // a busy machine may slow the generator, never break a board
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, line := range []string{"extra tiles", "divergent boards", "own replay of its journals", "left out: no session was free", "refused: cooldown"} {
		if !strings.Contains(stdout, line) {
			t.Errorf("no line on %s:\n%s", line, stdout)
		}
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"<svg", "Rate", "Acknowledgement", "Fan-out", "extra tiles", "PASS"} {
		if !strings.Contains(string(b), part) {
			t.Errorf("the page has no %q", part)
		}
	}
}

func TestReplayRefusesBadFiles(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.csv")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := bench(t, "replay", empty)
	if code != measure.ExitFail || !strings.Contains(stderr, "empty.csv") || stdout != "" {
		t.Errorf("an empty file: %d %q %q", code, stdout, stderr)
	}
}
