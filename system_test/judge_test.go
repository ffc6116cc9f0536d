//go:build unix

package system_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/pebble"
	"github.com/placed-board/placed/wire"
)

// Bounds of the judgement.
const (
	equalWithin   = 30 * time.Second // from the last answer until all boards are equal
	detailsLooked = 25               // tiles whose details are asked for
)

// judge ends a scenario: the storm stops, all boards become equal, verify finds nothing, the node stops in peace, and its
// journals hold what the users were told.
func (s *storm) judge() {
	s.t.Helper()
	s.stop()
	s.settle()
	report := s.node.verify()
	body := s.converged(report.Placements)
	s.details()
	for _, session := range s.sessions() {
		if stats := session.Stats(); stats.Undecodable > 0 || stats.Divergences > 0 {
			s.t.Errorf("a session of %q met %d undecodable messages and %d divergences", session.User(), stats.Undecodable, stats.Divergences)
		}
		_ = session.Close()
	}
	s.node.stop()
	j := readJournals(s.t, s.node.dir)
	j.judge(s.t, s.ledger, body)
	if int(report.Placements) != len(j.placements) {
		s.t.Errorf("ctl verify counts %d placements, the journals hold %d", report.Placements, len(j.placements))
	}
	s.t.Logf("%d placements on the board, answers %v", len(j.placements), s.ledger.answers)
}

// settle waits until nothing that any session has sent can change the board any more: what the users' second sessions send
// by hand is behind it when the node answers a placement off the board that was sent after it, and no charge is open.
func (s *storm) settle() {
	s.t.Helper()
	for _, u := range s.users {
		if u.second == nil {
			continue
		}
		nonce := u.random.Uint64()
		s.ledger.sent(u.name, 0, nonce, board.Point{X: -1, Y: -1}, 0)
		var again time.Time
		eventually(s.t, moreWithin, "the second session to be answered", func() bool {
			if now := time.Now(); now.After(again) {
				again = now.Add(retryAfter)
				_ = u.second.PlaceAs(0, nonce, board.Point{X: -1, Y: -1}, 0)
			}
			return s.ledger.refused(u.name, nonce)
		})
	}
	eventually(s.t, moreWithin, "every charge to be placed", func() bool { return s.node.status().OpenCharges == 0 })
}

// converged waits until the board as it is fetched shows so many placements and every mirror equals it, and returns it.
func (s *storm) converged(placements uint64) *wire.BoardBody {
	s.t.Helper()
	var body *wire.BoardBody
	why := awaitThat(equalWithin, func() string {
		var err error
		if body, err = s.node.api().Board(s.t.Context()); err != nil {
			return err.Error()
		}
		shown := uint64(0)
		for _, c := range body.Chunks {
			shown += c.Sequence
		}
		if shown != placements {
			return fmt.Sprintf("the board shows %d placements of %d", shown, placements)
		}
		for i, session := range s.mirroring() {
			if why := differs(session, body); why != "" {
				return fmt.Sprintf("mirror %d: %s", i, why)
			}
		}
		return ""
	})
	if why != "" {
		s.t.Fatalf("boards are not equal after %v: %s", equalWithin, why)
	}
	return body
}

// differs says how a session's mirror differs from a board; "" when it does not.
func differs(session *client.Session, body *wire.BoardBody) (why string) {
	state := session.State()
	err := session.View(func(m *client.Mirror) {
		switch settings := m.Settings(); {
		case m.Epoch() != body.Epoch:
			why = fmt.Sprintf("epoch %x, the board's is %x", m.Epoch(), body.Epoch)
		case settings.Width != body.Width || settings.Height != body.Height:
			why = fmt.Sprintf("%dx%d, the board has %dx%d", settings.Width, settings.Height, body.Width, body.Height)
		case len(m.Diff(body)) > 0:
			why = fmt.Sprintf("chunks %v differ, the session is %v", m.Diff(body), state)
		}
	})
	if err != nil {
		return err.Error()
	}
	return why
}

// details asks for some of the tiles that were accepted last.
func (s *storm) details() {
	s.t.Helper()
	looked := 0
	for at, key := range s.ledger.newest() {
		if looked++; looked > detailsLooked {
			return
		}
		s.ledger.mu.Lock()
		want := *s.ledger.entries[key].accepted
		s.ledger.mu.Unlock()
		got, err := s.node.api().Tile(s.t.Context(), at.X, at.Y)
		if err != nil {
			s.t.Errorf("tile %v: %v", at, err)
			continue
		}
		later := got.Sequence > want.Sequence // by an operator, or by somebody who never heard of it
		if !got.Placed || got.Sequence < want.Sequence || !later && (got.User != key.user || got.Colour != want.Colour || got.Kind != "user") {
			s.t.Errorf("tile %v was accepted as %+v of %s, its details are %+v", at, want, key.user, got)
		}
	}
}

// journals are everything that a stopped store holds of the board's history.
type journals struct {
	placements []board.Placement // block by block, in their order
	settings   []board.SettingsRecord
}

// readJournals reads the store of a node that does not run.
func readJournals(t testing.TB, dataDir string) *journals {
	t.Helper()
	return readStore(t, filepath.Join(dataDir, "board"))
}

// readStore reads a store that nobody has open.
func readStore(t testing.TB, dir string) *journals {
	t.Helper()
	config := pebble.DefaultConfig(dir)
	config.Logger = slog.New(slog.DiscardHandler)
	st, err := pebble.Open(config)
	if err != nil {
		t.Fatalf("open the stopped store: %v", err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	}()
	return journalsOf(t, st)
}

// journalsOf reads everything that a store holds of the board's history.
func journalsOf(t testing.TB, st store.Store) *journals {
	t.Helper()
	j := &journals{}
	entries := func(p store.Partition, take func(b []byte) error) {
		version := uint64(0)
		for entry, err := range st.Journal(context.Background(), p, 1) {
			if err == nil {
				err = take(entry.Value)
			}
			if version++; err != nil || entry.Version != version {
				t.Fatalf("journal of %v: commit %d at place %d: %v", p, entry.Version, version, err)
			}
		}
	}
	entries(store.Settings(), func(b []byte) error {
		var r board.SettingsRecord
		err := json.Unmarshal(b, &r)
		j.settings = append(j.settings, r)
		return err
	})
	blocks, err := st.Blocks(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		entries(store.Block(b), func(b []byte) error {
			commit, err := store.DecodeBlockCommit(b)
			j.placements = append(j.placements, commit.Placements...)
			return err
		})
	}
	return j
}

// judge compares the journals with what the users were told (I2, I3), with themselves (I1, I4), and with the board (I5).
func (j *journals) judge(t testing.TB, l *ledger, body *wire.BoardBody) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	j.told(l)
	j.throttle(l)
	j.replay(l, body)
	l.heardTooSoon(j.settings)
	for i, fault := range l.faults {
		if i == faultsMax {
			t.Errorf("and %d more", len(l.faults)-i)
			break
		}
		t.Error(fault)
	}
}

// told compares every placement with the answers that it got.
func (j *journals) told(l *ledger) {
	found := map[attempt]bool{}
	for i := range j.placements {
		p := &j.placements[i]
		if p.Kind != board.KindUser {
			continue
		}
		key := attempt{p.User, p.Nonce}
		e := l.entries[key]
		switch {
		case e == nil:
			l.fault("user %s: nobody asked for the placement %+v", p.User, *p)
		case found[key]:
			l.fault("user %s: turn %d nonce %x is on the board twice", p.User, p.Turn, p.Nonce)
		case p.Point() != e.at || p.Colour != e.colour || e.turn != 0 && p.Turn != e.turn:
			l.fault("user %s: asked for turn %d %v colour %d, on the board is %+v", p.User, e.turn, e.at, e.colour, *p)
		case e.accepted != nil && (p.Sequence != e.accepted.Sequence || p.Turn != e.accepted.Turn):
			l.fault("user %s: accepted as %+v, on the board is %+v", p.User, *e.accepted, *p)
		case e.accepted == nil && e.copies > 0 && e.refusals >= e.copies:
			l.fault("user %s: every copy of turn %d was refused, on the board is %+v", p.User, e.turn, *p)
		case e.accepted == nil && e.copies == 0:
			l.fault("user %s: the final answer was no acceptance, on the board is %+v", p.User, *p)
		}
		found[key] = true
	}
	for key, e := range l.entries {
		if e.accepted != nil && !found[key] {
			l.fault("user %s: lost, though accepted: %+v", key.user, *e.accepted)
		}
	}
}

// throttle checks each user's turns: all there, and none sooner than the smallest cooldown of the versions between.
func (j *journals) throttle(l *ledger) {
	byUser := map[board.UserID][]*board.Placement{}
	for i := range j.placements {
		if p := &j.placements[i]; p.Kind == board.KindUser {
			byUser[p.User] = append(byUser[p.User], p)
		}
	}
	for user, turns := range byUser {
		slices.SortFunc(turns, func(a, b *board.Placement) int { return cmp.Compare(a.Turn, b.Turn) })
		for i, p := range turns {
			if p.Turn != uint64(i+1) {
				l.fault("user %s: turn %d where %d is due", user, p.Turn, i+1)
				break
			}
			if i == 0 {
				continue
			}
			before := turns[i-1]
			if wait := leastCooldown(j.settings, before.SettingsVersion, p.SettingsVersion); p.AtMs < before.AtMs+wait {
				l.fault("user %s: turn %d came %d ms after the one before, the cooldown was %d ms", user, p.Turn, p.AtMs-before.AtMs, wait)
			}
		}
	}
}

// leastCooldown returns the smallest cooldown in milliseconds of a range of settings versions.
func leastCooldown(records []board.SettingsRecord, from, to uint64) int64 {
	least := int64(1 << 62)
	for _, r := range records {
		if r.Version >= from && r.Version <= to {
			least = min(least, r.CooldownMs)
		}
	}
	return least
}

// heardTooSoon checks the throttle from outside: between sending a placement and hearing that the user's next one is
// accepted lies at least the smallest cooldown that the board ever had.
func (l *ledger) heardTooSoon(records []board.SettingsRecord) {
	least := time.Duration(leastCooldown(records, 0, 1<<62)) * time.Millisecond
	byUser := map[board.UserID][]*entry{}
	for key, e := range l.entries {
		if e.accepted != nil && !e.sentAt.IsZero() {
			byUser[key.user] = append(byUser[key.user], e)
		}
	}
	for user, list := range byUser {
		slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.accepted.Turn, b.accepted.Turn) })
		for i := 1; i < len(list); i++ {
			if took := list[i].heardAt.Sub(list[i-1].sentAt); took < least {
				l.fault("user %s: turn %d was sent and the next one accepted within %v, the cooldown is %v", user, list[i-1].accepted.Turn, took, least)
			}
		}
	}
}

// replay checks the order in every chunk and compares what it leads to with the board.
func (j *journals) replay(l *ledger, body *wire.BoardBody) {
	tiles, sequences := map[board.ChunkID]*board.Tiles{}, map[board.ChunkID]uint64{}
	for i := range j.placements {
		p := &j.placements[i]
		if sequences[p.Chunk]++; p.Sequence != sequences[p.Chunk] {
			l.fault("chunk %d: sequence %d where %d is due", p.Chunk, p.Sequence, sequences[p.Chunk])
			return
		}
		if tiles[p.Chunk] == nil {
			tiles[p.Chunk] = &board.Tiles{}
		}
		tiles[p.Chunk][p.Tile] = p.Colour
	}
	bounds := board.Rect{Width: body.Width, Height: body.Height}
	served := map[board.ChunkID]bool{}
	for _, c := range body.Chunks {
		served[c.Chunk] = true
		var shown board.Tiles
		if err := shown.SetImage(c.Image, body.ColourWidth); err != nil {
			l.fault("chunk %d: %v", c.Chunk, err)
		}
		if want := tiles[c.Chunk]; want == nil || *want != shown || sequences[c.Chunk] != c.Sequence {
			l.fault("chunk %d: shown at sequence %d, the journal comes to %d, or to other tiles", c.Chunk, c.Sequence, sequences[c.Chunk])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tiles)) {
		if id.Rect().Meets(bounds) && !served[id] {
			l.fault("chunk %d has placements and is not served", id)
		}
	}
}

// oneLine reports whether text is exactly one line that is not empty.
func oneLine(text string) bool {
	return strings.TrimSpace(text) != "" && strings.Count(text, "\n") == 1 && strings.HasSuffix(text, "\n")
}
