package actors

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
)

// historyOf reads a whole history in pages.
func historyOf(t *testing.T, limit int, page func(board.HistoryCursor, int) ([]board.HistoryItem, board.HistoryCursor, error)) []board.HistoryItem {
	t.Helper()
	var all []board.HistoryItem
	for at := (board.HistoryCursor{}); ; {
		items, next, err := page(at, limit)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, items...); next.End() {
			return all
		}
		if len(items) != limit {
			t.Fatalf("a page of %d, and another one behind it", len(items))
		}
		at = next
	}
}

// journalOf returns every placement of the journals, by block and in their order.
func journalOf(t *testing.T, st store.Store) []board.Placement {
	t.Helper()
	var all []board.Placement
	blocks, err := st.Blocks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		for entry, err := range st.Journal(t.Context(), store.Block(b), 1) {
			if err != nil {
				t.Fatal(err)
			}
			commit, err := store.DecodeBlockCommit(entry.Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, commit.Placements...)
		}
	}
	return all
}

// compareHistories compares every tile's and user's history, in pages of several sizes, with the journals (I6).
func compareHistories(n *node) {
	t := n.t
	t.Helper()
	<-time.After(5 * time.Second) // closings are committed
	tiles, turns := map[board.Point][]board.HistoryItem{}, map[board.UserID][]board.Placement{}
	for _, p := range journalOf(t, n.store) {
		tiles[p.Point()] = append(tiles[p.Point()], p.HistoryItem())
		if p.Kind == board.KindUser {
			turns[p.User] = append(turns[p.User], p)
		}
	}
	for p, want := range tiles {
		slices.Reverse(want)
		for _, limit := range []int{1, 3, 100} {
			got := historyOf(t, limit, func(c board.HistoryCursor, limit int) ([]board.HistoryItem, board.HistoryCursor, error) {
				return n.TileHistory(t.Context(), p, c, limit)
			})
			if !slices.Equal(got, want) {
				t.Errorf("tile %v in pages of %d: %+v, the journal has %+v", p, limit, got, want)
			}
		}
	}
	for user, list := range turns {
		slices.SortFunc(list, func(a, b board.Placement) int { return cmp.Compare(b.Turn, a.Turn) })
		var want []board.HistoryItem
		for i := range list {
			want = append(want, list[i].HistoryItem())
		}
		for _, limit := range []int{1, 3, 100} {
			got := historyOf(t, limit, func(c board.HistoryCursor, limit int) ([]board.HistoryItem, board.HistoryCursor, error) {
				return n.UserHistory(t.Context(), user, c, limit)
			})
			if !slices.Equal(got, want) {
				t.Errorf("user %s in pages of %d: %+v, the journal has %+v", user, limit, got, want)
			}
		}
	}
}

func TestHistoriesAreTheJournals(t *testing.T) {
	st := mem.New()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, st, func(c *Config) { c.Board.CooldownMs = 100 })
		var wait sync.WaitGroup
		for u := range 8 {
			wait.Go(func() {
				for i := range uint64(20) { // few tiles of two blocks, many of them in the same commit
					o := n.place(fmt.Sprintf("user-%d", u), i+1, i+1, 98+(u+int(i)*7)%4, int(i)%2)
					if o.Verdict != board.VerdictAccepted {
						t.Errorf("user %d: %+v", u, o)
					}
					<-time.After(time.Duration(o.WaitMs) * time.Millisecond)
				}
			})
		}
		wait.Wait()
		if _, err := n.Clear(t.Context(), board.Rect{X: 99, Width: 1, Height: 1}, "ops", "test"); err != nil {
			t.Error(err)
		}
		n.until("cleared", func() bool {
			jobs, err := n.Jobs(t.Context())
			return err == nil && len(jobs) == 1 && jobs[0].Done
		})
		compareHistories(n)
		n.stopClean()
		n = start(t, st, nil) // another process goes on with the chains
		n.want(n.place("user-3", 21, 21, 98, 0), board.VerdictAccepted, board.CodeOK)
		compareHistories(n)
		n.stopClean()
	})
}

func TestHistoryRefusesStrangePlaces(t *testing.T) {
	bubble(t, mem.New(), nil, func(n *node) {
		n.want(n.place("alice", 1, 1, 5, 5), board.VerdictAccepted, board.CodeOK)
		n.want(n.place("bob", 1, 1, 6, 6), board.VerdictAccepted, board.CodeOK)
		at := func(block board.BlockID, version uint64, index uint16) board.HistoryCursor {
			return board.HistoryCursor{Entry: board.Entry{Block: block, Version: version}, Index: index}
		}
		for _, c := range []board.HistoryCursor{at(0, 9, 0), at(0, 2, 0), at(1, 1, 0), at(9999, 1, 0), at(0, 1<<63, 3)} {
			if _, _, err := n.TileHistory(n.t.Context(), board.Point{X: 5, Y: 5}, c, 5); !errors.Is(err, board.ErrCursor) {
				t.Errorf("tile from %+v: %v, want ErrCursor", c, err)
			}
			if _, _, err := n.UserHistory(n.t.Context(), "alice", c, 5); !errors.Is(err, board.ErrCursor) {
				t.Errorf("user from %+v: %v, want ErrCursor", c, err)
			}
		}
		if _, _, err := n.TileHistory(n.t.Context(), board.Point{X: 300}, board.HistoryCursor{}, 5); !errors.Is(err, ErrBounds) {
			t.Errorf("a tile off the board: %v, want ErrBounds", err)
		}
		for what, read := range map[string]func() ([]board.HistoryItem, board.HistoryCursor, error){
			"tile": func() ([]board.HistoryItem, board.HistoryCursor, error) {
				return n.TileHistory(n.t.Context(), board.Point{X: 7, Y: 7}, board.HistoryCursor{}, 5)
			},
			"user": func() ([]board.HistoryItem, board.HistoryCursor, error) {
				return n.UserHistory(n.t.Context(), "nobody", board.HistoryCursor{}, 5)
			},
		} {
			if items, next, err := read(); len(items) != 0 || !next.End() || err != nil {
				t.Errorf("%s without placements: %+v, %+v, %v", what, items, next, err)
			}
		}
	})
}
