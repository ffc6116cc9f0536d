package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/placed-board/placed/archive"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/store"
)

// history writes a history of 2017 and returns its path.
func history(t *testing.T, rows ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.csv")
	if err := os.WriteFile(path, []byte(archive.Header2017+"\n"+strings.Join(rows, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestImportThenServe: an imported board is served, with its times and users, and its journals pass verify.
func TestImportThenServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	t.Setenv("PLACED_DATA_DIR", dir)
	path := history(t, "1490991480000,ada,4,33,13", "1490991470000,bob,4,33,5", "1490991490000,ada,999,999,3", "nonsense")
	r := callLine(t.Context(), "import", path, "--quiet")
	if r.code != 0 || !strings.Contains(r.stdout, "imported 3 placements of 2 users from 3 rows") || !strings.Contains(r.stdout, "1 rows left out") ||
		!strings.Contains(r.stderr, path+":5: 1 columns") {
		t.Fatalf("%+v", r)
	}
	if r := callLine(t.Context(), "import", path); r.code != 1 || !strings.Contains(r.stderr, "holds a board already") || !oneLineOnly(lastLine(r.stderr)) {
		t.Errorf("a second import: %+v", r)
	}
	if r := callLine(t.Context(), "import", "--discard"); r.code != 1 || !strings.Contains(r.stderr, "nothing is removed") {
		t.Errorf("discarding an open board: %+v", r)
	}
	s := serve(t, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	tile, err := (&client.API{URL: s.board}).Tile(t.Context(), 4, 33)
	if err != nil || tile.User != "ada" || tile.Colour != 13 || tile.AtMs != 1490991480000 || tile.Kind != "import" {
		t.Errorf("tile %+v, %v", tile, err)
	}
	if r := s.ctl("verify"); r.code != 0 {
		t.Errorf("verify: %+v", r)
	}
}

func lastLine(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return lines[max(0, len(lines)-2)]
}

// TestInterruptedImportIsNotServed: a board that an import has not ended is refused by serve, until the import ended or was
// discarded.
func TestInterruptedImportIsNotServed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	path := history(t, "1490991480000,ada,4,33,13")
	begin(t, dir)
	if r := callLine(t.Context(), "serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--admin-listen", ""); r.code != 1 || !strings.Contains(r.stderr, "has not ended") {
		t.Fatalf("serve: %+v", r)
	}
	if r := callLine(t.Context(), "import", "--data-dir", dir, path); r.code != 1 || !strings.Contains(r.stderr, "placed import --discard") {
		t.Fatalf("import of something else: %+v", r)
	}
	if r := callLine(t.Context(), "import", "--data-dir", dir, "--discard"); r.code != 0 {
		t.Fatalf("discard: %+v", r)
	}
	if r := callLine(t.Context(), "import", "--data-dir", dir, path); r.code != 0 {
		t.Fatalf("import: %+v", r)
	}
}

// begin leaves a board as an import does that was ended after its first commit.
func begin(t *testing.T, dir string) {
	t.Helper()
	st, err := openEmbedded(dir, &streams{os.Stdout, os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	record := board.SettingsRecord{Settings: board.DefaultSettings(), By: "test", Why: "import of something"}
	record.State = board.StateLoading
	value, err := store.EncodeSettings(record)
	if err != nil {
		t.Fatal(err)
	}
	err = st.Create(t.Context(), store.Meta{Format: store.FormatVersion, Epoch: 1, Shards: board.UserShards})
	if err == nil {
		_, err = st.Commit(t.Context(), &store.Commit{Partition: store.Settings(), Head: store.Head{Version: 1, Attempt: 1}, Rows: []store.Row{{Value: value}}})
	}
	if err != nil || st.Close() != nil {
		t.Fatal(err)
	}
}

func TestImportRefuses(t *testing.T) {
	empty := t.TempDir()
	path := history(t, "1490991480000,ada,4,33,13")
	wrong := filepath.Join(empty, "wrong.txt")
	if err := os.WriteFile(wrong, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, c := range map[string]struct {
		code int
		want string
	}{
		"":                                {2, "no files"},
		empty:                             {2, "no *.csv"},
		filepath.Join(empty, "none.csv"):  {1, "no such file"},
		wrong:                             {1, "wrong.txt: line 1"},
		path + " --width 10001":           {2, "width 10001"},
		path + " --origin 5":              {2, "--origin"},
		path + " --origin 99999999,0":     {2, "--origin"},
		path + " --palette " + wrong:      {2, "palette"},
		path + " --cooldown 1us":          {2, "cooldown"},
		path + " --region-size 7":         {2, "region size"},
		path + " --discard":               {2, "name no files"},
		path + " --temp-dir /nowhere/at":  {1, "temporary file"},
		path + " --width 4 --height 1000": {1, "(4,33) is outside of the board"},
	} {
		t.Run(args, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			r := callLine(t.Context(), append([]string{"import", "--data-dir", dir, "--quiet"}, strings.Fields(args)...)...)
			if r.code != c.code || !strings.Contains(r.stderr, c.want) || !oneLineOnly(lastLine(r.stderr)) {
				t.Fatalf("%+v, want code %d and %q", r, c.code, c.want)
			}
		})
	}
}

func TestBadRowsAreShownAndWritten(t *testing.T) {
	rows := []string{"1,a,1,2,3"}
	for i := range 50 {
		rows = append(rows, fmt.Sprintf("bad %d", i))
	}
	path, list := history(t, rows...), filepath.Join(t.TempDir(), "bad.txt")
	r := callLine(t.Context(), "import", "--data-dir", filepath.Join(t.TempDir(), "data"), "--bad-rows-file", list, path)
	written, err := os.ReadFile(list)
	if r.code != 0 || strings.Count(r.stderr, "left out: ") != badRowsShown || err != nil || strings.Count(string(written), "\n") != 50 ||
		!strings.Contains(string(written), path+":52: ") {
		t.Fatalf("%+v, %q, %v", r, written, err)
	}
}
