package actors

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
)

// keeperRig is a settings core on a store that answers when the test says so.
type keeperRig struct {
	t       *testing.T
	keeper  *SettingsKeeper
	store   *mem.Core
	answers []keeperAnswer
}

type keeperAnswer struct {
	record board.SettingsRecord
	err    error
}

func newKeeperRig(t *testing.T) *keeperRig {
	r := &keeperRig{t: t, store: mem.NewCore()}
	rules := testRules(nil, nil)
	r.put(rules.Record, 1)
	r.keeper = NewSettingsKeeper(nodeA, rules, testRandom())
	return r
}

// put lets somebody make the next version.
func (r *keeperRig) put(record board.SettingsRecord, attempt uint64) {
	r.t.Helper()
	value, err := store.EncodeSettings(record)
	if err != nil {
		r.t.Fatal(err)
	}
	c := &store.Commit{Partition: store.Settings(), Head: store.Head{Version: record.Version, Attempt: attempt}, Rows: []store.Row{{Value: value}}}
	if !r.store.Commit(c).Applied {
		r.t.Fatal("not applied")
	}
}

func (r *keeperRig) send(m SettingsMessage) []SettingsEffect {
	return slices.Clone(r.keeper.Receive(testStartMs, m))
}

func (r *keeperRig) change(base uint64, change func(*board.Settings)) []SettingsEffect {
	next := *r.keeper.rules.Settings()
	change(&next)
	return r.send(ChangeSettings{Base: base, Next: next, By: "op", Why: "because", Reply: func(record board.SettingsRecord, err error) {
		r.answers = append(r.answers, keeperAnswer{record, err})
	}})
}

func (r *keeperRig) apply(effects []SettingsEffect) []SettingsEffect {
	r.t.Helper()
	c := one[MakeSettingsCommit](r.t, effects).Commit
	return r.send(SettingsCommitDone{Attempt: c.Head.Attempt, Result: r.store.Commit(c)})
}

// read answers ReadSettings from the store.
func (r *keeperRig) read(effects []SettingsEffect) []SettingsEffect {
	r.t.Helper()
	var m SettingsRead
	for _, e := range r.store.Journal(store.Settings(), one[ReadSettings](r.t, effects).From) {
		record, err := store.DecodeSettings(e.Value)
		if err != nil {
			r.t.Fatal(err)
		}
		m.Records = append(m.Records, record)
	}
	return r.send(m)
}

func (r *keeperRig) answer(i int) keeperAnswer {
	r.t.Helper()
	if len(r.answers) <= i {
		r.t.Fatalf("%d answers", len(r.answers))
	}
	return r.answers[i]
}

func frozen(s *board.Settings) { s.Frozen = true }

func hello(s *board.Settings) { s.Announcement = "hello" }

func TestSettingsCompareAndSet(t *testing.T) {
	r := newKeeperRig(t)
	effects := r.change(1, frozen)
	if len(r.answers) != 0 {
		t.Fatal("answered before it is durable")
	}
	rules := one[AnnounceSettings](t, r.apply(effects)).Rules
	if rules.Version() != 2 || !rules.Settings().Frozen || rules.Record.By != "op" || rules.Record.Why != "because" || rules.Cooldowns.Newest() != 2 {
		t.Fatalf("announced %+v", rules.Record)
	}
	if a := r.answer(0); a.err != nil || a.record.Version != 2 || a.record.AtMs != testStartMs {
		t.Fatalf("answer %+v", a)
	}
	none[MakeSettingsCommit](t, r.change(1, hello))
	if a := r.answer(1); !errors.Is(a.err, board.ErrConflict) || a.record.Version != 2 {
		t.Fatalf("an old base: %+v", a)
	}
	for i, bad := range []func(*board.Settings){
		func(s *board.Settings) { s.Width = 0 },
		func(s *board.Settings) { s.Palette = s.Palette[:3] },
		func(s *board.Settings) { s.RegionSize = 150 },
		func(s *board.Settings) { s.CooldownMs = board.CooldownMsMax + 1 },
	} {
		none[MakeSettingsCommit](t, r.change(2, bad))
		if a := r.answer(2 + i); a.err == nil || errors.Is(a.err, board.ErrConflict) {
			t.Errorf("impossible settings %d: %+v", i, a)
		}
	}
	if r.store.Head(store.Settings()).Version != 2 {
		t.Error("a refused change was written")
	}
}

func TestSettingsQueue(t *testing.T) {
	r := newKeeperRig(t)
	effects := r.change(1, frozen)
	for i := range SettingsQueueMax - 1 {
		none[MakeSettingsCommit](t, r.change(uint64(2+i), hello)) // one in flight
	}
	r.change(9, hello)
	if a := r.answer(0); !errors.Is(a.err, ErrSettingsBusy) {
		t.Fatalf("beyond %d: %+v", SettingsQueueMax, a)
	}
	for range SettingsQueueMax {
		effects = r.apply(effects)
	}
	if v := r.store.Head(store.Settings()).Version; v != SettingsQueueMax+1 || len(r.answers) != SettingsQueueMax+1 {
		t.Errorf("version %d, %d answers", v, len(r.answers))
	}
}

func TestSettingsLostDuel(t *testing.T) {
	r := newKeeperRig(t)
	effects := r.change(1, frozen)
	other := testRules(r.keeper.rules, hello)
	r.put(other.Record, 77)
	one[ReadSettings](t, r.apply(effects))
	none[MakeSettingsCommit](t, r.change(2, frozen)) // not before it is read what won
	if effects = r.send(SettingsRead{Failed: true}); len(only[ReadSettings](effects)) != 1 {
		t.Fatalf("the store was away: %+v", effects)
	}
	effects = r.read(effects)
	if a := r.answer(0); !errors.Is(a.err, board.ErrConflict) || a.record.Announcement != "hello" {
		t.Fatalf("the loser hears %+v", a)
	}
	if rules := one[AnnounceSettings](t, effects).Rules; rules.Version() != 2 || rules.Settings().Announcement != "hello" {
		t.Fatalf("announced %+v", rules.Record)
	}
	if one[AnnounceSettings](t, r.apply(effects)).Rules.Version() != 3 { // the one that waited has the right base
		t.Error("the next change is lost")
	}
	if e := r.send(SettingsRead{Records: []board.SettingsRecord{{Settings: board.Settings{Version: 4}}}}); len(e) != 0 || r.keeper.rules.Version() != 3 {
		t.Error("an answer that nobody waits for is taken")
	}
}

// A change that was applied, and then another one before its answer came, has not lost.
func TestSettingsFindsItsOwn(t *testing.T) {
	r := newKeeperRig(t)
	c := one[MakeSettingsCommit](t, r.change(1, frozen)).Commit
	r.store.Commit(c) // the answer is lost
	r.put(testRules(&Rules{Record: r.keeper.sealed}, hello).Record, 77)
	r.read(r.send(SettingsCommitDone{Attempt: c.Head.Attempt, Result: r.store.Commit(c)}))
	if a := r.answer(0); a.err != nil || a.record.Version != 2 || !a.record.Frozen {
		t.Fatalf("answer %+v", a)
	}
	if r.keeper.rules.Version() != 3 {
		t.Errorf("version %d", r.keeper.rules.Version())
	}
}

// A base that is not known here yet was made on another node.
func TestSettingsReadsNewerOnes(t *testing.T) {
	r := newKeeperRig(t)
	r.put(testRules(r.keeper.rules, hello).Record, 77)
	effects := r.change(2, frozen)
	none[MakeSettingsCommit](t, effects)
	r.apply(r.read(effects))
	if a := r.answer(0); a.err != nil || a.record.Version != 3 {
		t.Fatalf("answer %+v", a)
	}
	r.read(r.change(9, frozen)) // there is no such version
	if a := r.answer(1); !errors.Is(a.err, board.ErrConflict) {
		t.Errorf("answer %+v", a)
	}
}

func TestSettingsRecords(t *testing.T) {
	record := testRules(nil, frozen).Record
	b, err := store.EncodeSettings(record)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := store.DecodeSettings(b); err != nil || !back.Frozen || back.Version != 1 || back.By != "op" || len(back.Palette) != 16 {
		t.Fatalf("decoded %+v: %v", back, err)
	}
	if _, err := store.DecodeSettings([]byte("{")); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("cut short: %v", err)
	}
	record.Why = strings.Repeat("x", store.CommitRowBytesMax)
	if _, err := store.EncodeSettings(record); err == nil {
		t.Error("a record that no commit can carry is encoded")
	}
}
