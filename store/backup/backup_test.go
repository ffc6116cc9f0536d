package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/store/pebble"
)

var quiet = slog.New(slog.DiscardHandler)

func open(t testing.TB, dir string) *pebble.Store {
	t.Helper()
	config := pebble.DefaultConfig(dir)
	config.Logger, config.MemTableBytes = quiet, 256<<10 // so small that there are tables
	st, err := pebble.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func shut(t testing.TB, st store.Store) {
	t.Helper()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

const oldEpoch = 77

// newBoard makes a store with a first version of the settings.
func newBoard(t testing.TB, dir string) *pebble.Store {
	t.Helper()
	st := open(t, dir)
	if err := st.Create(t.Context(), store.Meta{Format: store.FormatVersion, Epoch: oldEpoch, Shards: board.UserShards}); err != nil {
		t.Fatal(err)
	}
	first := board.SettingsRecord{Settings: board.DefaultSettings(), By: "placed", Why: "created", AtMs: 1}
	if err := commitSettings(t.Context(), st, first); err != nil {
		t.Fatal(err)
	}
	return st
}

var block = store.Block(board.NewBlockID(3, 4))

// commits appends to the block's journal up to a version.
func commits(ctx context.Context, st store.Store, from, to uint64) error {
	for v := from; v <= to; v++ {
		r, err := st.Commit(ctx, &store.Commit{Partition: block, Head: store.Head{Version: v, Attempt: v}, Rows: []store.Row{{Value: value(v)}}})
		if err != nil || !r.Applied {
			return fmt.Errorf("commit %d: %+v, %w", v, r, err)
		}
	}
	return nil
}

func value(v uint64) []byte { return bytes.Repeat(fmt.Appendf(nil, "%08d", v), 500) }

// whole checks that the journal has no gap, and returns its version.
func whole(t testing.TB, st store.Store) uint64 {
	t.Helper()
	version := uint64(0)
	for e, err := range st.Journal(t.Context(), block, 1) {
		if version++; err != nil || e.Version != version || !bytes.Equal(e.Value, value(version)) {
			t.Fatalf("journal at %d: %d, %v", version, e.Version, err)
		}
	}
	return version
}

// TestBackupOfABusyStoreComesBack writes an archive while commits flow: everything that was answered before is in it, nothing
// is torn, and the board that comes back is another one that says why.
func TestBackupOfABusyStoreComesBack(t *testing.T) {
	home := Home{t.TempDir()}
	st := newBoard(t, home.Board())
	const before, most = 300, 3000
	if err := commits(t.Context(), st, 1, before); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var flow sync.WaitGroup
	flow.Go(func() { _ = commits(ctx, st, before+1, most) })
	var archive bytes.Buffer
	if err := Write(t.Context(), &archive, st, "test"); err != nil {
		t.Fatal(err)
	}
	stop()
	flow.Wait()
	shut(t, st)
	m, err := Check(bytes.NewReader(archive.Bytes()))
	if err != nil || m.Epoch != fmt.Sprintf("%016x", oldEpoch) || m.Version != "test" || m.Bytes() == 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if exists(home.Board() + ".checkpoint") {
		t.Error("the checkpoint is still there")
	}

	other := Home{filepath.Join(t.TempDir(), "data")}
	lock, err := other.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := other.Restore(t.Context(), bytes.NewReader(archive.Bytes()), Audit{"op", "restored"}, quiet, nil); err != nil {
		t.Fatal(err)
	}
	if exists(other.Board()) {
		t.Error("the board is there before Settle")
	}
	if replaced, err := other.Settle(); err != nil || replaced != "" {
		t.Fatalf("settle: %q, %v", replaced, err)
	}
	back := open(t, other.Board())
	if got := whole(t, back); got < before || got > most {
		t.Errorf("%d commits came back, at least %d were answered", got, before)
	}
	meta, err := back.Meta(t.Context())
	if err != nil || meta.Epoch == oldEpoch || meta.Shards != board.UserShards {
		t.Errorf("restored is %+v, %v", meta, err)
	}
	var records []board.SettingsRecord
	for e, err := range back.Journal(t.Context(), store.Settings(), 1) {
		var r board.SettingsRecord
		if err := errors.Join(err, json.Unmarshal(e.Value, &r)); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	if len(records) != 2 || records[1].Version != 2 || records[1].By != "op" || records[1].Why != "restored" || records[1].Width != 1000 {
		t.Errorf("the settings are %+v", records)
	}
	if err := commits(t.Context(), back, whole(t, back)+1, whole(t, back)+5); err != nil {
		t.Error(err)
	}
	shut(t, back)
}

// smallArchive returns an archive and a home with another board.
func smallArchive(t *testing.T) ([]byte, Home) {
	t.Helper()
	st := newBoard(t, filepath.Join(t.TempDir(), "board"))
	if err := commits(t.Context(), st, 1, 3); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := Write(t.Context(), &archive, st, "test"); err != nil {
		t.Fatal(err)
	}
	shut(t, st)
	home := Home{t.TempDir()}
	st = newBoard(t, home.Board())
	if err := commits(t.Context(), st, 1, 1); err != nil {
		t.Fatal(err)
	}
	shut(t, st)
	return archive.Bytes(), home
}

func (h Home) names(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(h.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestDamagedArchivesChangeNothing: whatever is wrong with an archive, the board stays as it is and nothing is left behind.
func TestDamagedArchivesChangeNothing(t *testing.T) {
	archive, home := smallArchive(t)
	restore := func(b []byte) error {
		_, err := home.Restore(t.Context(), bytes.NewReader(b), Audit{"op", ""}, quiet, nil)
		return err
	}
	damaged := map[string][]byte{"nothing": nil, "text": []byte("no archive"), "a manifest alone": archive[:2048]}
	end := bytes.LastIndex(archive, contents(t, archive)[sumsName]) + len(contents(t, archive)[sumsName]) - 1
	for i := range 41 { // the zeros behind the sums say nothing
		damaged[fmt.Sprintf("cut after %d/40", i)] = archive[:end*i/40]
	}
	for name, content := range contents(t, archive) {
		if len(content) > 0 {
			at := bytes.Index(archive, content)
			b := slices.Clone(archive)
			b[at+len(content)/2] ^= 0x20
			damaged["a bit of "+name] = b
		}
	}
	for name, b := range damaged {
		if err := restore(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", name, err)
		}
		if _, err := Check(bytes.NewReader(b)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: checked with %v, want ErrDamaged", name, err)
		}
	}
	refused := errors.New("no")
	if _, err := home.Restore(t.Context(), bytes.NewReader(archive), Audit{}, quiet, func(*Manifest) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("not confirmed: %v", err)
	}
	if names := home.names(t); !slices.Equal(names, []string{"board"}) {
		t.Errorf("left behind: %v", names)
	}
	st := open(t, home.Board())
	if whole(t, st) != 1 {
		t.Error("the old board has changed")
	}
	shut(t, st)
	if err := restore(archive); err != nil {
		t.Errorf("the whole archive: %v", err)
	}
}

// contents returns the files of an archive, up to 4 KiB of each.
func contents(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		b, err2 := io.ReadAll(io.LimitReader(r, 4096))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		files[h.Name] = b
	}
}

// TestForgedArchives: an archive writes nowhere but into its own directory, and promises nothing that it does not hold.
func TestForgedArchives(t *testing.T) {
	home := Home{t.TempDir()}
	forge := func(m Manifest, content string) []byte {
		var b bytes.Buffer
		a := &writer{tar: tar.NewWriter(&b)}
		if err := a.manifest(&m); err != nil {
			t.Fatal(err)
		}
		for _, f := range m.Files {
			w, h, err := a.entry(f.Name, int64(len(content)))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(w, content)
			a.sum(f.Name, h)
		}
		if err := a.close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	good := Manifest{Format: 1, Store: "pebble", StoreFormat: 1}
	with := func(change func(*Manifest)) []byte {
		m := good
		change(&m)
		return forge(m, "hello")
	}
	for name, c := range map[string]struct {
		archive []byte
		want    error
	}{
		"up and away":     {with(func(m *Manifest) { m.Files = []File{{"../evil", 5}} }), ErrDamaged},
		"absolute":        {with(func(m *Manifest) { m.Files = []File{{"/tmp/evil", 5}} }), ErrDamaged},
		"hidden":          {with(func(m *Manifest) { m.Files = []File{{".evil", 5}} }), ErrDamaged},
		"twice":           {with(func(m *Manifest) { m.Files = []File{{"a", 5}, {"a", 5}} }), ErrDamaged},
		"the lock":        {with(func(m *Manifest) { m.Files = []File{{lockName, 5}} }), ErrDamaged},
		"another size":    {with(func(m *Manifest) { m.Files = []File{{"a", 6}} }), ErrDamaged},
		"a newer archive": {with(func(m *Manifest) { m.Format = 99 }), store.ErrFormat},
		"a newer store":   {with(func(m *Manifest) { m.StoreFormat = 99 }), store.ErrFormat},
		"another store":   {with(func(m *Manifest) { m.Store = "cassandra" }), ErrDamaged},
		"too large":       {with(func(m *Manifest) { m.Files = []File{{"a", 1 << 60}} }), store.ErrFull},
		"no store in it":  {with(func(m *Manifest) { m.Files = []File{{"MANIFEST-000001", 5}} }), store.ErrCorrupt},
	} {
		if _, err := home.Restore(t.Context(), bytes.NewReader(c.archive), Audit{}, quiet, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if names := home.names(t); len(names) > 0 {
			t.Errorf("%s: left behind %v", name, names)
		}
	}
}

// TestInterruptedRestores: a restore that ends anywhere leaves the old board or the new one once the next start has settled.
func TestInterruptedRestores(t *testing.T) {
	archive, _ := smallArchive(t)
	for name, c := range map[string]struct {
		cut  func(h Home) error
		want uint64 // commits of the board afterwards: 1 is the old one, 3 the new
		kept bool   // the old board is kept
	}{
		"while it filled": {func(h Home) error {
			return errors.Join(os.Rename(h.restored(), h.restoring()), os.Remove(filepath.Join(h.restoring(), "FORMAT")))
		}, 1, false},
		"before it was decided":   {func(h Home) error { return os.Rename(h.restored(), h.restoring()) }, 1, false},
		"after it was decided":    {func(Home) error { return nil }, 3, true},
		"between the two renames": {func(h Home) error { return os.Rename(h.Board(), h.Board()+".replaced-1") }, 3, true},
	} {
		_, home := smallArchive(t)
		if _, err := home.Restore(t.Context(), bytes.NewReader(archive), Audit{"op", "test"}, quiet, nil); err != nil {
			t.Fatal(err)
		}
		if err := c.cut(home); err != nil {
			t.Fatal(err)
		}
		for range 2 { // and again
			if _, err := home.Settle(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		st := open(t, home.Board())
		if got := whole(t, st); got != c.want {
			t.Errorf("%s: a board of %d commits, want %d", name, got, c.want)
		}
		shut(t, st)
		kept := slices.ContainsFunc(home.names(t), func(name string) bool { return strings.Contains(name, ".replaced-") })
		if kept != c.kept || exists(home.restoring()) || exists(home.restored()) {
			t.Errorf("%s: left are %v", name, home.names(t))
		}
	}
}

// TestBackupThatCannotBe: refused before the first byte, and a board in use is locked.
func TestBackupThatCannotBe(t *testing.T) {
	st := mem.New()
	if err := st.Create(t.Context(), store.Meta{Format: 1, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Write(t.Context(), &out, st, "test"); !errors.Is(err, ErrUnable) || out.Len() > 0 || !strings.Contains(err.Error(), "mem") {
		t.Errorf("a store in memory: %v, %d bytes", err, out.Len())
	}
	p := newBoard(t, filepath.Join(t.TempDir(), "board"))
	_, release, err := p.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), &out, p, "test"); !errors.Is(err, store.ErrBusy) || out.Len() > 0 {
		t.Errorf("a second backup at once: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Write(ctx, &out, p, "test"); !errors.Is(err, context.Canceled) {
		t.Errorf("a backup that nobody waits for: %v", err)
	}
	home := Home{t.TempDir()}
	lock, err := home.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := home.Lock(); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a second lock: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(home.Dir, lockName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestResetKeepsWhoMayCome: an empty board with the settings, the bans that hold and the invites.
func TestResetKeepsWhoMayCome(t *testing.T) {
	home := Home{t.TempDir()}
	st := newBoard(t, home.Board())
	if err := commits(t.Context(), st, 1, 3); err != nil {
		t.Fatal(err)
	}
	for v := range uint64(3) {
		c := &store.Commit{Partition: store.Invites(), Head: store.Head{Version: v + 1, Attempt: 9}, Rows: []store.Row{{Value: value(v)}}}
		if _, err := st.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	var bans []board.Ban
	for i := range 200 { // some shards get several
		bans = append(bans, board.Ban{User: board.UserID(fmt.Sprintf("user %d", i)), UntilMs: board.BannedForever, By: "op", Why: "spam", AtMs: 5})
	}
	bans = append(bans, board.Ban{User: "lifted"}, board.Ban{User: "ended", UntilMs: 1})
	settings := board.SettingsRecord{Settings: board.DefaultSettings()}
	settings.CooldownMs, settings.Version = 7, 44
	if err := home.Reset(t.Context(), st, settings, bans, Audit{"op", "again"}, quiet); err != nil {
		t.Fatal(err)
	}
	shut(t, st)
	if replaced, err := home.Settle(); err != nil || replaced == "" {
		t.Fatalf("%q, %v", replaced, err)
	}
	st = open(t, home.Board())
	if n := whole(t, st); n != 0 {
		t.Errorf("the new board has %d commits", n)
	}
	banned := 0
	for shard := range board.UserShards {
		for row, err := range st.Rows(t.Context(), store.Shard(shard)) {
			if err != nil {
				t.Fatal(err)
			}
			r, err := store.DecodeUserRow(row.Value)
			if err != nil || board.UserID(row.Key).Shard() != shard || r.BannedUntilMs != board.BannedForever || r.BanNote.Why != "spam" || r.Turn != 0 {
				t.Errorf("row %q in shard %d: %+v, %v", row.Key, shard, r, err)
			}
			banned++
		}
	}
	invites := uint64(0)
	for e, err := range st.Journal(t.Context(), store.Invites(), 1) {
		if err != nil || !bytes.Equal(e.Value, value(invites)) {
			t.Fatalf("invite %d: %v", invites, err)
		}
		invites++
	}
	if banned != 200 || invites != 3 {
		t.Errorf("%d bans, %d invites", banned, invites)
	}
	shut(t, st)
}

// TestBoardInUseIsNotReplaced: not even when whoever uses it does not know of the lock of the data directory.
func TestBoardInUseIsNotReplaced(t *testing.T) {
	archive, home := smallArchive(t)
	st := open(t, home.Board())
	if _, err := home.Restore(t.Context(), bytes.NewReader(archive), Audit{}, quiet, nil); !errors.Is(err, store.ErrLocked) {
		t.Errorf("restored under a node: %v", err)
	}
	if err := home.Reset(t.Context(), st, board.SettingsRecord{Settings: board.DefaultSettings()}, nil, Audit{}, quiet); err != nil {
		t.Fatal(err)
	}
	if _, err := home.Settle(); !errors.Is(err, store.ErrLocked) {
		t.Errorf("settled under a node: %v", err)
	}
	if n := whole(t, st); n != 1 {
		t.Errorf("the board has %d commits", n)
	}
	shut(t, st)
	if replaced, err := home.Settle(); err != nil || replaced == "" {
		t.Errorf("%q, %v", replaced, err)
	}
}
