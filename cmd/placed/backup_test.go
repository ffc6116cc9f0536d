package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
)

// TestBackupAndRestore goes the way of an operator: back up a running node and a stopped one, restore into an empty directory
// and over a board, and be refused where that would do harm.
func TestBackupAndRestore(t *testing.T) {
	s := serve(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--width", "200", "--height", "300")
	dir := t.TempDir()
	running, stopped := filepath.Join(dir, "running.tar"), filepath.Join(dir, "stopped.tar")
	works := func(r result, words ...string) {
		t.Helper()
		if r.code != 0 || r.stderr != "" {
			t.Fatalf("%+v", r)
		}
		for _, word := range words {
			if !strings.Contains(r.stdout, word) {
				t.Errorf("%q does not speak of %q", r.stdout, word)
			}
		}
	}
	call := func(args ...string) result { return callLine(t.Context(), args...) }
	works(call("backup", running, "--admin", s.admin, "--data-dir", s.dir), running)
	failsWith(t, call("backup", running, "--admin", s.admin, "--data-dir", s.dir), running, "exists")
	failsWith(t, call("restore", running, "--data-dir", s.dir, "--yes"), "in use")
	failsWith(t, call("backup", filepath.Join(dir, "x.tar"), "--admin", "http://127.0.0.1:1", "--data-dir", s.dir), "127.0.0.1:1")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("failed backups have left %v, %v", entries, err)
	}
	s.stop()
	works(call("backup", stopped, "--data-dir", s.dir), stopped)

	fresh := filepath.Join(t.TempDir(), "data")
	works(call("restore", running, "--data-dir", fresh, "--by", "zoe"), "placed ctl verify")
	works(call("restore", stopped, "--data-dir", fresh, "--yes", "--by", "zoe", "--why", "moved"), "replaced-")
	if r := call("restore", running, "--data-dir", fresh); r.code != 2 && !strings.Contains(r.stderr, "not confirmed") {
		t.Errorf("a restore that nobody confirmed: %+v", r)
	}
	damaged := filepath.Join(dir, "damaged.tar")
	b, err := os.ReadFile(running)
	if err == nil {
		err = os.WriteFile(damaged, b[:len(b)/2], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	failsWith(t, call("restore", damaged, "--data-dir", fresh, "--yes"), "damaged")

	t.Setenv("PLACED_DATA_DIR", fresh)
	again := serve(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	var history []board.SettingsRecord
	decode(t, again.ctl("-o", "json", "settings", "history"), &history)
	if len(history) != 2 || history[1].Why != "restored: moved" || history[1].By != "zoe" || history[1].Height != 300 {
		t.Errorf("the history is %+v", history)
	}
	var report board.VerifyReport
	if decode(t, again.ctl("-o", "json", "verify"), &report); report.Count != 0 {
		t.Errorf("verify finds %+v", report)
	}
}

// TestBoardResetInMemory: a board in memory can be neither backed up nor, therefore, reset.
func TestBoardResetInMemory(t *testing.T) {
	s := serve(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--width", "200", "--height", "200", "--store", "mem")
	failsWith(t, s.ctl("board", "reset", "--yes", "--backup", filepath.Join(t.TempDir(), "x.tar")), "mem", "not reset")
}

// TestBoardResetKeepsBans resets a running board: who is banned stays so, and the settings stay as they are.
func TestBoardResetKeepsBans(t *testing.T) {
	s := serve(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--width", "200", "--height", "200")
	for _, args := range [][]string{{"ban", "eve", "--why", "spam", "--unseen"}, {"ban", "ann", "--unseen"}, {"unban", "ann"}, {"settings", "set", "--cooldown", "7s", "--frozen"}} {
		if r := s.ctl(args...); r.code != 0 {
			t.Fatalf("%v: %+v", args, r)
		}
	}
	r := s.ctl("board", "reset", "--yes", "--backup", filepath.Join(t.TempDir(), "x.tar"))
	if r.code != 0 || !strings.Contains(r.stdout, "replaced") {
		t.Fatalf("%+v", r)
	}
	var bans []board.Ban
	decode(t, s.ctl("-o", "json", "ban", "list", "--all"), &bans)
	if len(bans) != 1 || bans[0].User != "eve" || bans[0].Why != "spam" || bans[0].UntilMs != board.BannedForever {
		t.Errorf("banned are %+v", bans)
	}
	var record board.SettingsRecord
	decode(t, s.ctl("-o", "json", "settings", "get"), &record)
	if record.Version != 1 || record.CooldownMs != 7000 || !record.Frozen || record.Width != 200 || record.Why != "reset" {
		t.Errorf("the settings are %+v", record)
	}
}
