package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// ledger is what the world outside of a store knows of its commits: which were answered, and which were sent. Commit n of a
// partition is always the same, so that what is found can be compared.
type ledger struct {
	mu          sync.Mutex
	acked, sent map[store.Partition]uint64
	created     bool
	atOnce      bool         // commit in all partitions at the same time
	tidy        func() error // called between commits, to make the engine flush
}

var crashPartitions = []store.Partition{store.Shard(0), store.Shard(64), store.Block(board.NewBlockID(7, 3)), store.Settings()}

func newLedger() *ledger {
	return &ledger{acked: map[store.Partition]uint64{}, sent: map[store.Partition]uint64{}}
}

func ledgerCommit(p store.Partition, version uint64) *store.Commit {
	return testCommit(p, version, version*1000+uint64(p.Class), 500)
}

func (l *ledger) commit(s store.Store, p store.Partition) error {
	l.mu.Lock()
	l.sent[p]++
	v := l.sent[p]
	l.mu.Unlock()
	r, err := s.Commit(nobodyWaits, ledgerCommit(p, v))
	if err != nil {
		return err
	}
	if !r.Applied {
		return fmt.Errorf("commit %d of %s: conflict with %+v", v, p, r.Head)
	}
	l.mu.Lock()
	l.acked[p] = v
	l.mu.Unlock()
	return nil
}

// work makes rounds of commits, and snapshots of the block between.
func (l *ledger) work(s store.Store, rounds int) error {
	if err := s.Create(nobodyWaits, store.Meta{Format: 1, Epoch: 77}); err != nil {
		return err
	}
	l.mu.Lock()
	l.created = true
	l.mu.Unlock()
	for round := range rounds {
		if round%3 == 2 && l.tidy != nil {
			if err := l.tidy(); err != nil {
				return err
			}
		}
		if err := l.round(s); err != nil {
			return err
		}
		if round%4 == 3 {
			if err := s.PutSnapshot(nobodyWaits, board.BlockID(crashPartitions[2].Index), ledgerSnapshot(uint64(round+1))); err != nil {
				return err
			}
		}
	}
	return nil
}

// round makes a commit in each partition.
func (l *ledger) round(s store.Store) error {
	errs := make([]error, len(crashPartitions))
	var wg sync.WaitGroup
	for i, p := range crashPartitions {
		wg.Go(func() { errs[i] = l.commit(s, p) })
		if !l.atOnce {
			wg.Wait()
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

func ledgerSnapshot(version uint64) store.Snapshot {
	return store.Snapshot{Version: version, Data: ledgerCommit(crashPartitions[2], version).Rows[0].Value}
}

// known returns what has been answered up to now.
func (l *ledger) known() (acked map[store.Partition]uint64, created bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.acked), l.created
}

// check compares a store after a crash with what was known before it: everything answered is there (I2), heads and rows
// belong to the same commit, and nothing is there that was not sent. It returns the versions found.
func (l *ledger) check(s *Store, acked map[store.Partition]uint64, created bool) (map[store.Partition]uint64, error) {
	l.mu.Lock()
	sent := maps.Clone(l.sent)
	l.mu.Unlock()
	if m, err := s.Meta(nobodyWaits); (err == nil && m.Epoch != 77) || (err != nil && created) {
		return nil, fmt.Errorf("meta %+v, %w", m, err)
	}
	found := map[store.Partition]uint64{}
	for _, p := range crashPartitions {
		h, err := s.Head(nobodyWaits, p)
		if err != nil {
			return nil, err
		}
		if h.Version < acked[p] || h.Version > sent[p] {
			return nil, fmt.Errorf("%s: version %d, acknowledged %d, sent %d", p, h.Version, acked[p], sent[p])
		}
		found[p] = h.Version
		if h.Version > 0 {
			if want := ledgerCommit(p, h.Version).Head; fmt.Sprint(h) != fmt.Sprint(want) {
				return nil, fmt.Errorf("%s: version %d has another head", p, h.Version)
			}
		}
		if p.Journal() {
			err = checkJournal(s, p, h.Version)
		} else {
			err = checkRows(s, p, h.Version)
		}
		if err != nil {
			return nil, fmt.Errorf("%s at version %d: %w", p, h.Version, err)
		}
	}
	snap, err := s.Snapshot(nobodyWaits, board.BlockID(crashPartitions[2].Index), 1<<62)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return nil, err
	case snap.Version > found[crashPartitions[2]] || string(snap.Data) != string(ledgerSnapshot(snap.Version).Data):
		return nil, fmt.Errorf("snapshot of version %d with the block at %d, or other data", snap.Version, found[crashPartitions[2]])
	}
	return found, nil
}

func checkJournal(s *Store, p store.Partition, version uint64) error {
	next := uint64(1)
	for e, err := range s.Journal(nobodyWaits, p, 1) {
		if err != nil {
			return err
		}
		if e.Version != next || string(e.Value) != string(ledgerCommit(p, next).Rows[0].Value) {
			return fmt.Errorf("entry %d where %d should be, or another value", e.Version, next)
		}
		next++
	}
	if next != version+1 {
		return fmt.Errorf("%d entries", next-1)
	}
	return nil
}

func checkRows(s *Store, p store.Partition, version uint64) error {
	n := uint64(0)
	for r, err := range s.Rows(nobodyWaits, p) {
		if err != nil {
			return err
		}
		v := version
		if r.Key != "last" {
			if _, err := fmt.Sscanf(r.Key, "user %d", &v); err != nil {
				return fmt.Errorf("row %q: %w", r.Key, err)
			}
			n++
		}
		if v > version || string(r.Value) != string(ledgerCommit(p, v).Rows[0].Value) {
			return fmt.Errorf("row %q is not of this version", r.Key)
		}
	}
	if n != version {
		return fmt.Errorf("%d rows of users", n)
	}
	return nil
}

// crashConfig is the smallest store, which flushes and compacts as often as it can.
func crashConfig(t testing.TB, fs vfs.FS) Config {
	c := testConfig(t, fs, "data/store")
	c.MemTableBytes, c.CacheBytes = memTableBytesMin, 0
	return c
}

// TestPowerCutAtEveryWrite cuts the power before every single operation that writes, from the first start to the end of
// Close, once losing everything that was not synced and once keeping a random part of it, and opens what is left.
func TestPowerCutAtEveryWrite(t *testing.T) {
	for name, atOnce := range map[string]bool{"one by one": false, "at once": true} {
		t.Run(name, func(t *testing.T) { powerCutAtEveryWrite(t, atOnce) })
	}
}

func powerCutAtEveryWrite(t *testing.T, atOnce bool) {
	const rounds = 40
	l, disk := newLedger(), vfs.NewCrashableMem()
	l.atOnce = atOnce
	random := seeded(1)
	var mu sync.Mutex
	cuts := 0
	fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFileClose {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		cuts++
		acked, created := l.known()
		for _, percent := range []int{0, 10 + random.IntN(90)} {
			left := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: random})
			if err := openAfterCrash(t, l, left, acked, created, cuts%16 == 0); err != nil {
				t.Errorf("power cut %d before %v of %s, %d%% of the unsynced left: %v", cuts, op.Kind, op.Path, percent, err)
			}
		}
		return nil
	}))
	s := mustOpen(t, crashConfig(t, fs))
	l.tidy = s.db.Flush
	if err := l.work(s, rounds); err != nil {
		t.Fatal(err)
	}
	m := s.db.Metrics()
	mustClose(t, s)
	if m.Flush.Count < 5 || m.Compact.Count < 1 || cuts < 2*rounds {
		t.Fatalf("%d cuts, %d flushes, %d compactions: too few to mean something", cuts, m.Flush.Count, m.Compact.Count)
	}
	t.Logf("%d power cuts, %d flushes, %d compactions", cuts, m.Flush.Count, m.Compact.Count)
}

// openAfterCrash checks what a crash left. With again it cuts the power once more, after the store was read: what a reader
// saw must survive that too.
func openAfterCrash(t testing.TB, l *ledger, left *vfs.MemFS, acked map[store.Partition]uint64, created, again bool) error {
	s, err := Open(crashConfig(t, left))
	if err != nil {
		return err
	}
	found, err := l.check(s, acked, created)
	if err == nil && again {
		var second *Store
		if second, err = Open(crashConfig(t, left.CrashClone(vfs.CrashCloneCfg{}))); err == nil {
			_, err = l.check(second, found, created)
			err = errors.Join(err, second.Close())
		}
	}
	if err == nil { // and it goes on
		p := crashPartitions[0]
		var r store.Result
		if r, err = s.Commit(nobodyWaits, ledgerCommit(p, found[p]+1)); err == nil && !r.Applied {
			err = fmt.Errorf("the next commit finds head %+v", r.Head)
		}
	}
	return errors.Join(err, s.Close())
}

// TestSeenAfterRestart kills the process between the write and the sync of a commit. The next process finds the commit in
// the kernel's memory; once it has shown it, a power cut must not take it back.
func TestSeenAfterRestart(t *testing.T) {
	disk := vfs.NewCrashableMem()
	gate := newSyncGate(disk)
	c := crashConfig(t, gate)
	c.Exit = func(int) {}
	c.Logger = slog.New(slog.DiscardHandler)
	killed := mustOpen(t, c)
	gate.shut()
	defer gate.open()
	p := store.Shard(0)
	go func() { _, _ = killed.Commit(nobodyWaits, ledgerCommit(p, 1)) }()
	gate.waitForSyncs(t, 1)
	for range 2 { // ours and the engine's hold of the lock end with the process; its goroutines stay behind the gate
		if err := killed.lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, crashConfig(t, disk))
	defer mustClose(t, s)
	if h := mustHead(t, s, p); h.Version != 1 {
		t.Fatalf("version %d after a restart without a power cut: the test shows nothing", h.Version)
	}
	after := mustOpen(t, crashConfig(t, disk.CrashClone(vfs.CrashCloneCfg{})))
	defer mustClose(t, after)
	if h := mustHead(t, after, p); h.Version != 1 {
		t.Fatalf("version %d after the power cut, a reader had seen 1", h.Version)
	}
}

func seeded(seed int64) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 1)) }
