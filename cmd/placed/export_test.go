package main

import (
	"fmt"
	"image/gif"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// board2017 imports a small history and returns the data directory and the rows by time.
func board2017(t *testing.T) (dir string, rows []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	for i := range 300 {
		rows = append(rows, fmt.Sprintf("%d,user%d,%d,%d,%d", 1490991480000+i*1000, i%7, i%150, i%90, i%16))
	}
	if r := callLine(t.Context(), "import", "--data-dir", dir, "--quiet", history(t, rows...)); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	return dir, rows
}

// TestExportOfAStoppedBoard: what was imported comes out again, whole and in parts.
func TestExportOfAStoppedBoard(t *testing.T) {
	dir, rows := board2017(t)
	export := func(args ...string) result {
		return callLine(t.Context(), append([]string{"export", "--data-dir", dir}, args...)...)
	}
	want := "ts,user,x_coordinate,y_coordinate,color\n" + strings.Join(rows, "\n") + "\n"
	if r := export("--names"); r.code != 0 || r.stdout != want {
		t.Errorf("to standard output: %+v", r)
	}
	if r := export(); r.code != 0 || strings.Contains(r.stdout, "user3") || strings.Count(r.stdout, "\n") != 301 {
		t.Errorf("under pseudonyms: %+v", r)
	}
	if r := export("--names", "--from", "2017-03-31T20:18:00Z", "--to", "1490991481000"); r.code != 0 || strings.Count(r.stdout, "\n") != 2 || !strings.HasSuffix(r.stdout, rows[0]+"\n") {
		t.Errorf("a second of it: %+v", r)
	}
	out := t.TempDir()
	key := filepath.Join(out, "key")
	if err := os.WriteFile(key, []byte("a key of sixteen bytes and more"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, b := export("--pseudonym-key-file", key), export("--pseudonym-key-file", key); a.code != 0 || a.stdout != b.stdout {
		t.Errorf("one key gives two exports: %+v, %+v", a, b)
	}
	packed := filepath.Join(out, "a.csv.gz")
	if r := export("--names", "-o", packed); r.code != 0 || !strings.Contains(r.stdout, "exported 300 placements") {
		t.Errorf("packed: %+v", r)
	}
	again := filepath.Join(t.TempDir(), "again")
	if r := callLine(t.Context(), "import", "--data-dir", again, packed); r.code != 0 {
		t.Fatalf("importing it again: %+v", r)
	}
	if r := callLine(t.Context(), "export", "--data-dir", again, "--names"); r.stdout != want {
		t.Errorf("exported again: %.300s", r.stdout)
	}
	pictures(t, out, export)
}

func pictures(t *testing.T, out string, export func(...string) result) {
	t.Helper()
	if r := export("-o", filepath.Join(out, "at.png"), "--at", "1490991480000", "--rect", "0,0,150,90"); r.code != 0 {
		t.Errorf("png: %+v", r)
	}
	file, err := os.Open(filepath.Join(out, "at.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if img, err := png.Decode(file); err != nil || img.Bounds().Dx() != 150 || img.Bounds().Dy() != 90 {
		t.Errorf("png: %v", err)
	}
	if r := export("-o", filepath.Join(out, "a.gif"), "--frames", "10", "--rect", "0,0,150,90"); r.code != 0 {
		t.Errorf("gif: %+v", r)
	}
	film, err := os.Open(filepath.Join(out, "a.gif"))
	if err != nil {
		t.Fatal(err)
	}
	defer film.Close()
	if g, err := gif.DecodeAll(film); err != nil || len(g.Image) != 10 || g.LoopCount != 0 {
		t.Errorf("gif: %v", err)
	}
	frames := filepath.Join(out, "frames")
	if r := export("-o", frames, "--format", "frames", "--every", "1m"); r.code != 0 || !strings.Contains(r.stdout, "ffmpeg") {
		t.Errorf("frames: %+v", r)
	}
	if list, _ := filepath.Glob(filepath.Join(frames, "frame-*.png")); len(list) != 5 || filepath.Base(list[4]) != "frame-000005.png" {
		t.Errorf("frames: %v", list)
	}
}

// TestExportOfARunningBoard: the operators' listener streams the same bytes, and a film can be made of it.
func TestExportOfARunningBoard(t *testing.T) {
	dir, rows := board2017(t)
	t.Setenv("PLACED_DATA_DIR", dir)
	s := serve(t, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if r := callLine(t.Context(), "export"); r.code != 1 || !strings.Contains(r.stderr, "give --admin") {
		t.Errorf("of the store of a running one: %+v", r)
	}
	export := func(args ...string) result {
		return callLine(t.Context(), append([]string{"export", "--admin", s.admin}, args...)...)
	}
	if r := export("--names"); r.code != 0 || !strings.HasSuffix(r.stdout, strings.Join(rows, "\n")+"\n") {
		t.Errorf("names: %+v", r)
	}
	if r := export("--format", "ndjson", "--rect", "0,0,1,1"); r.code != 0 || !strings.HasPrefix(r.stdout, `{"at_ms":1490991480000,"x":0,"y":0,"colour":0,"user":"`) {
		t.Errorf("ndjson: %+v", r)
	}
	out := t.TempDir()
	if r := export("-o", filepath.Join(out, "now.png")); r.code != 0 {
		t.Errorf("png: %+v", r)
	}
	if r := export("-o", filepath.Join(out, "whole.gif"), "--frames", "5"); r.code != 0 {
		t.Errorf("gif of no span: %+v", r)
	}
	if r := export("-o", filepath.Join(out, "recent.csv"), "--from=-1h"); r.code != 0 || !strings.Contains(r.stdout, "exported 0 placements") {
		t.Errorf("the last hour of an old board: %+v", r)
	}
	if r := export("-o", filepath.Join(out, "a.gif"), "--from", "1490991480000", "--to", "1490991500000", "--rect", "0,0,100,100"); r.code != 0 {
		t.Errorf("gif: %+v", r)
	}
	if r := export("-o", filepath.Join(out, "a.csv"), "--rect", "9999,0,2,1"); r.code == 0 {
		t.Errorf("an impossible rectangle: %+v", r)
	}
	left, err := os.ReadDir(out)
	if err != nil || len(left) != 4 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestExportRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	short := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(short, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, c := range map[string]struct {
		code int
		want string
	}{
		"":                                      {1, "no board to export"},
		"-o a.xyz":                              {2, "--format"},
		"--format frames":                       {2, "directory"},
		"--format xml":                          {2, "--format"},
		"--from tomorrow":                       {2, "--from"},
		"--from 5 --to 5":                       {2, "ends before it begins"},
		"--at 5 --to 9":                         {2, "--at stands alone"},
		"--rect 1,2,3":                          {2, "1,2,3"},
		"--frames 1":                            {2, "--frames"},
		"--pseudonym-key-file " + short:         {2, "shorter than 16"},
		"--names --pseudonym-key-file " + short: {2, "one or the other"},
		"--admin nowhere":                       {2, "--admin"},
		"--admin http://127.0.0.1:1":            {1, "no admin token"},
	} {
		t.Run(args, func(t *testing.T) {
			r := callLine(t.Context(), append([]string{"export", "--data-dir", dir}, strings.Fields(args)...)...)
			if r.code != c.code || !strings.Contains(r.stderr, c.want) || !oneLineOnly(r.stderr) || r.stdout != "" {
				t.Fatalf("%+v, want code %d and %q", r, c.code, c.want)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("the data directory was made")
			}
		})
	}
}
