//go:build unix

package system_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
)

// Sizes of the tests of import and export.
const (
	importedRows    = 200_000
	exportsInAStorm = 3
	importWithin    = 2 * time.Minute
	killRounds      = 3
	writtenAtOnce   = 2 << 20 // bytes of the store that an import gets to write more, each time before it is killed
)

// historyLines are rows of the shape of 2017 in no order, no two alike.
func historyLines(rows int) []string {
	r := rand.New(rand.NewPCG(17, 4))
	lines := make([]string, rows)
	for i := range lines {
		lines[i] = fmt.Sprintf("%d,user%d,%d,%d,%d\n", 1490991480000+r.Int64N(250_000_000), i%5000, r.IntN(1000), r.IntN(1000), i%16)
	}
	return lines
}

// TestKilledImportGoesOn kills an import while it writes, more than once. The same command ends it, and the board is right
// and has every row.
func TestKilledImportGoesOn(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	lines := historyLines(importedRows)
	path := filepath.Join(t.TempDir(), "history.csv")
	if err := os.WriteFile(path, []byte("ts,user,x_coordinate,y_coordinate,color\n"+strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	killed := 0
	for round := range killRounds {
		if killImport(t, n, path, int64(round+1)*writtenAtOnce) {
			killed++
		}
	}
	if killed == 0 {
		t.Error("no import was killed: the test says nothing")
	}
	n.launch()
	if code := n.awaitEnd(stopWithin); code != 1 || !strings.Contains(n.stderr.String(), "has not ended") {
		t.Fatalf("a server on half a board: code %d, %s", code, n.stderr.String())
	}
	if out := n.tool("import", "--data-dir", n.dir, path); !strings.Contains(out, "went on with an interrupted import") {
		t.Errorf("the import said %q", out)
	}
	n.start()
	if report := n.verify(); report.Placements != importedRows || report.Users != 5000 {
		t.Errorf("verify counted %d placements of %d users", report.Placements, report.Users)
	}
	back := strings.SplitAfter(n.tool("export", "--names", "--admin", n.adminURL, "--data-dir", n.dir), "\n")
	slices.Sort(back)
	slices.Sort(lines)
	if got := back[1 : len(back)-1]; !slices.Equal(got, lines) { // without the header and what follows the last line end
		t.Errorf("%d rows came back of %d, or others", len(got), len(lines))
	}
	n.stop()
}

// killImport begins or goes on with an import and kills it when its store has taken so many bytes; false when it ended before.
func killImport(t *testing.T, n *node, path string, bytesMin int64) bool {
	t.Helper()
	cmd := exec.Command(n.binary, "import", "--quiet", "--data-dir", n.dir, path)
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	limit, tick := time.NewTimer(importWithin), time.NewTicker(2*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("the import failed by itself: %v", err)
			}
			return false
		case <-limit.C:
			_ = cmd.Process.Kill()
			t.Fatalf("the import has not written %d bytes within %v", bytesMin, importWithin)
		case <-tick.C:
		}
		if written(filepath.Join(n.dir, "board")) >= bytesMin {
			_ = cmd.Process.Kill()
			<-ended
			return true
		}
	}
}

// written is how many bytes the files of a store have.
func written(dir string) (sum int64) {
	entries, _ := os.ReadDir(dir) // none yet: nothing is written
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// tool runs a command of the program that must succeed, and returns what it prints.
func (n *node) tool(args ...string) string {
	n.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(n.t.Context(), n.binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		n.t.Fatalf("placed %s: %v: %s", strings.Join(args, " "), err, tail(errs.String(), 1000))
	}
	return out.String()
}

// TestExportInAStorm exports a board while people place on it: what comes out is whole, in order, and can be imported.
func TestExportInAStorm(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--width", "200", "--height", "200", "--cooldown", "20ms")
	s := startStorm(t, n, load{users: 20, mirrors: 2, area: board.Rect{Width: 200, Height: 200}, colours: 16})
	before := 0
	for i := range exportsInAStorm {
		s.more(100)
		path := filepath.Join(t.TempDir(), "export.csv.gz")
		n.tool("export", "-o", path, "--admin", n.adminURL, "--data-dir", n.dir)
		out := n.tool("import", "--quiet", "--data-dir", filepath.Join(t.TempDir(), "imported"), "--width", "200", "--height", "200", path)
		placements := 0
		if _, err := fmt.Sscanf(out, "imported %d placements", &placements); err != nil || placements < before+100 || !strings.Contains(out, " 0 rows left out") {
			t.Errorf("export %d was imported as %q, after %d placements before", i, out, before)
		}
		before = placements
	}
	s.judge()
}
