package archive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/store/pebble"
)

func importConfig(paths ...string) ImportConfig {
	return ImportConfig{Paths: paths, Settings: board.DefaultSettings(), By: "test", NowMs: 1_700_000_000_000, BadRowsMax: -1}
}

// history returns the lines of a history of 2017 in a random order of times.
func history(n int, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	b.WriteString(Header2017 + "\n")
	for range n {
		fmt.Fprintf(&b, "%d,user%d,%d,%d,%d\n", 1490991480000+r.Int64N(100)*1000, r.IntN(50), 90+r.IntN(30), 40+r.IntN(80), r.IntN(16))
	}
	return b.String()
}

// verified checks every invariant of the store's board.
func verified(t *testing.T, st store.Store) board.VerifyReport {
	t.Helper()
	report, err := store.Verify(t.Context(), st, store.VerifyOptions{
		Settings: func(ctx context.Context) ([]board.SettingsRecord, error) { return ReadSettings(ctx, st) },
	})
	if err != nil || report.Count > 0 {
		t.Fatalf("verify: %+v, %v", report.Violations, err)
	}
	return report
}

// content is everything that an import writes, attempt ids aside.
func content(t *testing.T, st store.Store) (out []string) {
	t.Helper()
	blocks, err := st.Blocks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		for e, err := range st.Journal(t.Context(), store.Block(b), 1) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%v %d %x", store.Block(b), e.Version, e.Value))
		}
		s, err := st.Snapshot(t.Context(), b, 1<<62)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("snapshot %d %x", s.Version, s.Data))
	}
	for shard := range board.UserShards {
		for r, err := range st.Rows(t.Context(), store.Shard(shard)) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%s %x", r.Key, r.Value))
		}
	}
	return out
}

func TestImportKeepsTimesUsersAndOrder(t *testing.T) {
	st, err := pebble.Open(pebble.DefaultConfig(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	first, second := history(3000, 1), history(2000, 2)
	c := importConfig(write(t, "a.csv", first), write(t, "b.csv.gz", packed(second)))
	report, err := Import(t.Context(), st, c)
	if err != nil {
		t.Fatal(err)
	}
	if report.Placements != 5000 || report.Rows != 5000 || report.BadRows != 0 || report.Users != 50 || report.Blocks != 4 || report.Resumed || report.Shape != Shape2017 {
		t.Errorf("report %+v", report)
	}
	if v := verified(t, st); v.Placements != 5000 || v.Users != 50 {
		t.Errorf("verify counted %+v", v)
	}
	var want []string
	for _, content := range []string{first, second} {
		want = append(want, strings.Split(strings.TrimSpace(content), "\n")[1:]...)
	}
	slices.SortStableFunc(want, func(a, b string) int { return strings.Compare(a[:13], b[:13]) })
	var got []string
	byTile := map[string]string{}
	for p, err := range Placements(t.Context(), st, Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		at := p.Point()
		line := fmt.Sprintf("%d,%s,%d,%d,%d", p.AtMs, p.User, at.X, at.Y, p.Colour)
		byTile[at.String()] += line + "\n"
		got = append(got, line)
		if p.Kind != board.KindImport || p.Turn != 0 || p.Ticket != (board.Ticket{}) {
			t.Fatalf("placement %+v", p)
		}
	}
	for _, line := range want { // placements of one time may stand in another order when their tiles lie in other blocks
		f := strings.Split(line, ",")
		tile := "(" + f[2] + "," + f[3] + ")"
		if !strings.HasPrefix(byTile[tile], line+"\n") {
			t.Fatalf("tile %s: next is %.60q, want %q", tile, byTile[tile], line)
		}
		byTile[tile] = strings.TrimPrefix(byTile[tile], line+"\n")
	}
	if len(got) != len(want) {
		t.Fatalf("%d placements, want %d", len(got), len(want))
	}
	walkHistories(t, st, want)
	settings, err := ReadSettings(t.Context(), st)
	if err != nil || len(settings) != 2 || settings[0].State != board.StateLoading || settings[1].State != board.StateOpen || settings[1].Why != settings[0].Why {
		t.Fatalf("settings %+v, %v", settings, err)
	}
}

// walkHistories walks each user's history backwards, page by page: it is that of the sorted rows.
func walkHistories(t *testing.T, st store.Store, rows []string) {
	t.Helper()
	byUser := map[board.UserID][]string{}
	for _, line := range rows {
		user := board.UserID(strings.Split(line, ",")[1])
		byUser[user] = append(byUser[user], line)
	}
	for user, want := range byUser {
		value, err := st.Row(t.Context(), store.Shard(user.Shard()), string(user))
		if err != nil {
			t.Fatal(err)
		}
		row, err := store.DecodeUserRow(value)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for at := board.NewestIn(row.Newest); !at.End() && len(got) <= len(want); {
			var page []board.Placement
			if page, at, err = store.UserHistory(t.Context(), st, user, at, 7); err != nil {
				t.Fatal(err)
			}
			for _, p := range page {
				got = append(got, fmt.Sprintf("%d,%s,%d,%d,%d", p.AtMs, p.User, p.Point().X, p.Point().Y, p.Colour))
			}
		}
		slices.Reverse(got)
		if !slices.Equal(got, want) {
			t.Fatalf("the history of %s has %d placements, want %d, or others", user, len(got), len(want))
		}
	}
}

// An import that is cut off at any commit goes on where it was, and makes exactly what an undisturbed one makes.
func TestInterruptedImportGoesOn(t *testing.T) {
	path := write(t, "a.csv", history(4000, 3))
	whole := mem.New()
	if _, err := Import(t.Context(), whole, importConfig(path)); err != nil {
		t.Fatal(err)
	}
	want := content(t, whole)
	cut := errors.New("cut off")
	for at := int64(0); at < 10_000; at += 1 + at/3 {
		core := mem.NewCore()
		st := mem.Open(core)
		var commits atomic.Int64
		st.SetScript(func(call mem.Call) mem.Outcome {
			if call.Commit != nil && commits.Add(1) > at {
				return mem.Refuse(cut)
			}
			return mem.Normal()
		})
		_, err := Import(t.Context(), st, importConfig(path))
		ended := err == nil
		if !ended && !errors.Is(err, cut) {
			t.Fatalf("cut at %d: %v", at, err)
		}
		if settings, err := ReadSettings(t.Context(), st); err != nil || (at > 0 && (len(settings) == 0 || settings[len(settings)-1].State == board.StateLoading) == ended) {
			t.Fatalf("cut at %d: settings %+v, %v", at, settings, err)
		}
		st.SetScript(nil)
		if ended {
			return // there are no more commits
		}
		other := importConfig(write(t, "b.csv", history(4000, 4)))
		if _, err := Import(t.Context(), st, other); at > 0 && !errors.Is(err, ErrOtherImport) {
			t.Fatalf("cut at %d: other files: %v", at, err)
		} else if at == 0 {
			continue // nothing was written: any import may begin
		}
		report, err := Import(t.Context(), st, importConfig(path))
		if err != nil || !report.Resumed || report.Placements != 4000 {
			t.Fatalf("cut at %d: %+v, %v", at, report, err)
		}
		if got := content(t, st); !slices.Equal(got, want) {
			t.Fatalf("cut at %d: another board than without a cut", at)
		}
		verified(t, st)
	}
	t.Fatal("the import has more commits than were cut")
}

func TestImportSendsUnknownOutcomesAgain(t *testing.T) {
	path := write(t, "a.csv", history(1000, 3))
	st := mem.New()
	var n atomic.Int64
	st.SetScript(func(call mem.Call) mem.Outcome {
		if call.Commit != nil && n.Add(1) == 2 {
			return mem.UnknownApplied()
		}
		return mem.Normal()
	})
	if _, err := Import(t.Context(), st, importConfig(path)); err != nil {
		t.Fatal(err)
	}
	verified(t, st)
}

func TestImportOfAreas(t *testing.T) {
	st := mem.New()
	c := importConfig(write(t, "a.csv", header2023+"2023-07-20 13:00:26 UTC,m,\"-5,-5,4,4\",#000000\n"+
		"2023-07-20 13:00:27 UTC,m,\"{X: 0, Y: 0, R: 2}\",#FF4500\n2023-07-20 13:00:25 UTC,u,\"0,0\",#FFFFFF\n"))
	report, err := Import(t.Context(), st, c)
	if err != nil || report.Rows != 3 || report.Placements != 100+13+1 {
		t.Fatalf("%+v, %v", report, err)
	}
	verified(t, st)
	picture, err := BoardAt(t.Context(), st, board.Rect{X: 1490, Y: 990, Width: 20, Height: 20}, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	count := map[board.Colour]int{}
	for _, c := range picture.Colours {
		count[c]++
	}
	if count[28] != 87 || count[3] != 13 || count[0] != 300 {
		t.Errorf("colours %v", count)
	}
}

// Whatever is wrong with the files is found before anything is written.
func TestBadFilesImportNothing(t *testing.T) {
	fine := write(t, "fine.csv", history(100, 1))
	long := history(5000, 1)
	for name, c := range map[string]struct {
		paths []string
		want  error
	}{
		"cut short second":   {[]string{fine, write(t, "b.csv", packed(long)[:1000])}, ErrCut},
		"damaged at its end": {[]string{fine, write(t, "b.csv", packed(long)[:len(packed(long))-1])}, ErrCut},
		"empty second":       {[]string{fine, write(t, "b.csv", "")}, ErrEmpty},
		"wrong header":       {[]string{fine, write(t, "b.csv", "x,y\n")}, ErrHeader},
		"no rows":            {[]string{write(t, "b.csv", Header2017+"\n")}, ErrNoRows},
		"no good rows":       {[]string{write(t, "b.csv", Header2017+"\nnothing\n")}, ErrNoRows},
		"many bad rows":      {[]string{fine, write(t, "b.csv", Header2017+strings.Repeat("\nnothing", 1001))}, ErrBadRows},
	} {
		t.Run(name, func(t *testing.T) {
			st := mem.New()
			if _, err := Import(t.Context(), st, importConfig(c.paths...)); !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if _, err := st.Meta(t.Context()); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a board was begun: %v", err)
			}
		})
	}
	shapes := importConfig(fine, write(t, "c.csv", header2022+"2022-04-01 00:00:00 UTC,a,#FFFFFF,\"1,2\"\n"))
	if _, err := Import(t.Context(), mem.New(), shapes); err == nil || !strings.Contains(err.Error(), "import them apart") {
		t.Errorf("two shapes at once: %v", err)
	}
}

func TestImportCountsBadRows(t *testing.T) {
	content := history(50, 1) + "nothing\n1,a,5000,2,3\n"
	path := write(t, "a.csv", content)
	c := importConfig(path)
	var told []string
	c.BadRow = func(e *RowError) { told = append(told, e.Error()) }
	report, err := Import(t.Context(), mem.New(), c)
	if err != nil || report.BadRows != 2 || report.Rows != 50 || len(told) != 2 || !strings.HasPrefix(told[1], path+":53: coordinate (5000,2)") {
		t.Fatalf("%+v, %q, %v", report, told, err)
	}
	c.BadRowsMax = 1
	if _, err := Import(t.Context(), mem.New(), c); !errors.Is(err, ErrBadRows) || !strings.Contains(err.Error(), path+":52") {
		t.Fatalf("%v", err)
	}
}

func TestImportTakesNoBoardThatExists(t *testing.T) {
	path := write(t, "a.csv", history(50, 1))
	st := mem.New()
	if _, err := Import(t.Context(), st, importConfig(path)); err != nil {
		t.Fatal(err)
	}
	before := content(t, st)
	if _, err := Import(t.Context(), st, importConfig(path)); !errors.Is(err, ErrBoardExists) {
		t.Fatalf("%v", err)
	}
	if !slices.Equal(content(t, st), before) {
		t.Error("the board has changed")
	}
}

func TestSorterMergesRuns(t *testing.T) {
	s, err := newSorter(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 10_000 {
		at := board.Point{X: r.IntN(board.SideMax), Y: r.IntN(board.SideMax)}
		if err := s.add(newRecord(r.Int64N(500), uint64(i), at, board.Colour(r.IntN(256)), r.Uint32())); err != nil {
			t.Fatal(err)
		}
		if i%3000 == 2999 {
			if err := s.spill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	m, err := s.finish()
	if err != nil {
		t.Fatal(err)
	}
	var before record
	n := 0
	for ; ; n++ {
		r, err := m.next()
		if err != nil {
			break
		}
		if n > 0 && before.compare(&r) >= 0 {
			t.Fatalf("record %d (%d ms, row %d) follows %d ms, row %d", n, r.atMs(), r.position(), before.atMs(), before.position())
		}
		before = r
	}
	if n != 10_000 {
		t.Fatalf("%d records", n)
	}
}
