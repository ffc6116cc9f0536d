package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
)

func TestWhen(t *testing.T) {
	start := time.UnixMilli(1_000_000)
	for text, want := range map[string]int64{"+2s": 1_002_000, "+1h30m": 6_400_000, "1970-01-01T01:00:00Z": 3_600_000, "1970-01-01T01:00:00.5+01:00": 500} {
		var w when
		if err := w.UnmarshalText([]byte(text)); err != nil || !w.set() || w.ms(start) != want {
			t.Errorf("%s: %d, %v", text, w.ms(start), err)
		}
	}
	for _, text := range []string{"", "+", "+0s", "+-1h", "tomorrow", "2026-12-01", "20:00", "+2"} {
		var w when
		if err := w.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for %+v", text, w)
		}
	}
}

// TestPlan plans, shows, takes back, and sees a plan come true, across a restart too.
func TestPlan(t *testing.T) {
	t.Setenv("PLACED_DATA_DIR", filepath.Join(t.TempDir(), "data"))
	args := []string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--width", "200", "--height", "200"}
	s := serve(t, args...)
	ctl := func(args ...string) board.SettingsRecord {
		t.Helper()
		var r board.SettingsRecord
		decode(t, s.ctl(append([]string{"-o", "json", "settings"}, args...)...), &r)
		return r
	}
	r := ctl("set", "--frozen-until", "+2h", "--frozen-from", "+3h", "--announcement", "soon", "--announcement-until", "+1h", "--why", "tonight")
	if !r.Frozen || len(r.Plan) != 2 || r.Plan[0].ID != "2.1" || *r.Plan[0].Patch.Frozen || !*r.Plan[1].Patch.Frozen || r.AnnouncementUntilMs == 0 || r.Plan[0].Why != "tonight" || r.Plan[0].By == "" {
		t.Fatalf("the settings are %+v", r)
	}
	r = ctl("plan", "add", "--at", "+90m", "--cooldown", "10s", "--width", "400", "--announcement", "faster", "--announcement-until", "+10m", "--why", "speed")
	if c := r.Plan[0]; c.ID != "3" || *c.Patch.AnnouncementUntilMs-c.AtMs != 600_000 {
		t.Errorf("planned is %+v", r.Plan)
	}
	ctl("plan", "remove", "2.2", "--why", "longer")
	list := s.ctl("settings", "plan", "list")
	for _, words := range []string{"3 ", "cooldown 10s", "size 400x200", `announcement "faster" until`, "2.1", "no longer frozen", "speed"} {
		if !strings.Contains(list.stdout, words) {
			t.Errorf("the list does not speak of %q:\n%s", words, list.stdout)
		}
	}
	for words, args := range map[string][]string{
		"in the past":  {"plan", "add", "--at", "2001-01-01T00:00:00Z", "--cooldown", "1s"},
		"a year ahead": {"plan", "add", "--at", "2201-01-01T00:00:00Z", "--cooldown", "1s"},
		"impossible":   {"plan", "add", "--at", "+1m", "--width", "0"},
	} {
		if r := s.ctl(append([]string{"settings"}, args...)...); r.code != 2 || !oneLineOnly(r.stderr) || !strings.Contains(r.stderr, words) {
			t.Errorf("%s: %+v", words, r)
		}
	}
	failsWith(t, s.ctl("settings", "plan", "remove", "99"), "99")
	history := s.ctl("settings", "history")
	for _, words := range []string{"planned 2.1 at ", "no longer planned 2.2", `announcement "soon" until`, "longer"} {
		if !strings.Contains(history.stdout, words) {
			t.Errorf("the history does not speak of %q:\n%s", words, history.stdout)
		}
	}

	ctl("plan", "add", "--at", "+1s", "--cooldown", "77s", "--why", "in a moment")
	await(t, "the plan to come true", func() bool { return ctl("get").CooldownMs == 77_000 })
	dueMs := ctl("plan", "add", "--at", "+1s", "--cooldown", "88s").Plan[0].AtMs
	s.stop()
	await(t, "its time", func() bool { return time.Now().UnixMilli() > dueMs })
	s = serve(t, args...)
	await(t, "what was due meanwhile", func() bool { return ctl("get").CooldownMs == 88_000 })
	if r := ctl("get"); len(r.Plan) != 2 || !strings.HasPrefix(r.Why, "planned as ") {
		t.Errorf("after the restart %+v", r)
	}
}
