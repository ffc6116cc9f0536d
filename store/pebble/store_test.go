package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/store/storetest"
)

// testConfig is a small store that fails the test when it wants to end the process.
func testConfig(t testing.TB, fs vfs.FS, dir string) Config {
	c := DefaultConfig(dir)
	c.FS, c.CacheBytes, c.MemTableBytes, c.LowWaterBytes = fs, 1<<20, 4<<20, 1<<20
	c.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	c.Exit = func(code int) { t.Errorf("the store ends the process with code %d", code) }
	return c
}

func mustOpen(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// log collects what a store logs.
type log struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

type opener struct{ config Config }

func (o opener) Open(t testing.TB) store.Store { return mustOpen(t, o.config) }

func (o opener) CorruptSnapshot(t testing.TB, b board.BlockID, version uint64) {
	t.Helper()
	corruptSnapshot(t, o.config, b, version)
}

// corruptSnapshot flips a byte of a stored snapshot. No store is open meanwhile.
func corruptSnapshot(t testing.TB, c Config, b board.BlockID, version uint64) {
	t.Helper()
	db, err := engine.Open(c.Dir, &engine.Options{FS: c.FS, FormatMajorVersion: engine.FormatNewest, Logger: logger{&Store{config: c}}})
	if err != nil {
		t.Fatal(err)
	}
	done := false
	for slot := range snapshotSlots {
		key := snapshotKey(b, slot)
		v, closer, err := db.Get(key)
		if err != nil {
			continue
		}
		v = bytes.Clone(v)
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
		if s, ok := decodeSnapshot(key, v); ok && s.Version == version {
			v[len(v)/2] ^= 0x40
			if err := db.Set(key, v, engine.Sync); err != nil {
				t.Fatal(err)
			}
			done = true
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if !done {
		t.Fatalf("no snapshot %d of block %d", version, b)
	}
}

func TestConformance(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Opener { return opener{testConfig(t, vfs.NewMem(), "data/store")} }, mem.NewCore())
	})
	t.Run("disk", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Opener {
			return opener{testConfig(t, vfs.Default, t.TempDir()+"/data/store")}
		}, mem.NewCore())
	})
	t.Run("smallest", func(t *testing.T) { // flushes and compacts all the time
		storetest.Run(t, func(t *testing.T) storetest.Opener {
			c := testConfig(t, vfs.NewMem(), "data")
			c.MemTableBytes, c.CacheBytes = memTableBytesMin, 0
			return opener{c}
		}, mem.NewCore())
	})
}

// testCommit is a commit whose rows and head tell its version and attempt.
func testCommit(p store.Partition, version, attempt uint64, bytesMore int) *store.Commit {
	value := fmt.Appendf(nil, "%d of %d", version, attempt)
	for x := version; bytesMore > 0; bytesMore-- { // does not compress
		x = x*6364136223846793005 + 1442695040888963407
		value = append(value, byte(x>>56))
	}
	c := &store.Commit{Partition: p, Head: store.Head{Version: version, Attempt: attempt, Owner: store.Owner{Address: "n1", Incarnation: attempt}}}
	if p.Journal() {
		c.Rows = []store.Row{{Value: value}}
		return c
	}
	c.Head.State = bytes.Clone(value)
	c.Rows = []store.Row{{Key: "last", Value: value}, {Key: fmt.Sprintf("user %d", version), Value: value}}
	return c
}

func mustCommit(t testing.TB, s store.Store, c *store.Commit) {
	t.Helper()
	if r, err := s.Commit(t.Context(), c); err != nil || !r.Applied {
		t.Fatalf("commit %d of %s: %+v, %v", c.Head.Version, c.Partition, r, err)
	}
}

func mustHead(t testing.TB, s store.Store, p store.Partition) store.Head {
	t.Helper()
	h, err := s.Head(t.Context(), p)
	if err != nil {
		t.Fatalf("head of %s: %v", p, err)
	}
	return h
}

func TestConfigValidate(t *testing.T) {
	if err := DefaultConfig("data").Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"Dir":           func(c *Config) { c.Dir = "" },
		"FS":            func(c *Config) { c.FS = nil },
		"Logger":        func(c *Config) { c.Logger = nil },
		"Exit":          func(c *Config) { c.Exit = nil },
		"CacheBytes":    func(c *Config) { c.CacheBytes = -1 },
		"MemTableBytes": func(c *Config) { c.MemTableBytes = 1 },
		"LowWaterBytes": func(c *Config) { c.LowWaterBytes = -1 },
	} {
		c := DefaultConfig("data")
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("bad %s: %v", name, err)
		}
		if s, err := Open(c); err == nil {
			t.Errorf("opened with a bad %s: %v", name, s.Close())
		}
	}
}

func TestHeadCodec(t *testing.T) {
	for _, h := range []store.Head{
		{Version: 1, Attempt: 1},
		{Version: 1 << 60, Attempt: 1<<64 - 1, Owner: store.Owner{Address: "10.0.0.1:7000", Incarnation: 1<<64 - 1, SettingsVersion: 1 << 50}, State: []byte("state")},
	} {
		b := encodeHead(nil, &h)
		got, err := decodeHead(b)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(h) {
			t.Fatalf("%+v became %+v, %v", h, got, err)
		}
		for n := range len(b) - len(h.State) {
			if got, err := decodeHead(b[:n]); err == nil {
				t.Fatalf("%d of %d bytes decode to %+v", n, len(b), got)
			}
		}
	}
}

func FuzzDecodeHead(f *testing.F) {
	f.Add(encodeHead(nil, &store.Head{Version: 7, Attempt: 9, Owner: store.Owner{Address: "a"}, State: []byte("s")}))
	f.Add([]byte{headVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHead(b)
		if err != nil {
			return
		}
		again, err := decodeHead(encodeHead(nil, &h))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(h) {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
	})
}

func TestRowsSeeOneMomentPerPage(t *testing.T) {
	s := mustOpen(t, testConfig(t, vfs.NewMem(), "data"))
	defer mustClose(t, s)
	p := store.Shard(1)
	mustCommit(t, s, testCommit(p, 1, 1, 0))
	seen := 0
	for range s.Rows(t.Context(), p) {
		mustCommit(t, s, testCommit(p, uint64(seen+2), 1, 0)) // commits go on while a reader is in the middle
		seen++
	}
	if seen != 2 {
		t.Fatalf("%d rows of the first commit's two", seen)
	}
}

func TestCancelledCommitGoesOn(t *testing.T) {
	gate := newSyncGate(vfs.NewMem())
	s := mustOpen(t, testConfig(t, gate, "data"))
	p := store.Shard(1)
	gate.shut()
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() {
		_, err := s.Commit(ctx, testCommit(p, 1, 1, 0))
		answer <- err
	}()
	gate.waitForSyncs(t, 1)
	cancel()
	wantUnknown(t, <-answer)
	// Its outcome is open, so nobody may see it: a read waits.
	short, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if h, err := s.Head(short, p); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a read showed version %d (%v) before it was on the disk", h.Version, err)
	}
	if v, err := s.Row(short, p, "last"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a read showed %q (%v) before it was on the disk", v, err)
	}
	gate.open()
	if h := mustHead(t, s, p); h.Version != 1 || h.Attempt != 1 {
		t.Fatalf("head %+v", h)
	}
	mustClose(t, s)
}

// TestGroupCommit checks that commits which wait at the same time share a sync.
func TestGroupCommit(t *testing.T) {
	const writers = 32
	gate := newSyncGate(vfs.NewMem())
	s := mustOpen(t, testConfig(t, gate, "data"))
	defer mustClose(t, s)
	gate.shut()
	before := gate.syncs()
	var wg sync.WaitGroup
	errs := make([]error, writers)
	commit := func(i int) {
		wg.Go(func() {
			r, err := s.Commit(context.Background(), testCommit(store.Shard(i), 1, 1, 0))
			if err == nil && !r.Applied {
				err = fmt.Errorf("conflict with %+v", r.Head)
			}
			errs[i] = err
		})
	}
	commit(0)
	gate.waitForSyncs(t, 1) // the first one's sync is under way
	for i := 1; i < writers; i++ {
		commit(i)
	}
	await(t, "all commits to wait for a sync", func() bool { return visibleHeads(t, s) == writers })
	gate.open()
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("writer %d: %v", i, err)
		}
	}
	if n := gate.syncs() - before; n > 3 {
		t.Fatalf("%d syncs for %d commits, of which %d waited together", n, writers, writers-1)
	}
}

// visibleHeads counts the shards' heads that the engine shows, synced or not.
func visibleHeads(t testing.TB, s *Store) int {
	t.Helper()
	it, err := s.db.NewIter(&engine.IterOptions{LowerBound: headKey(store.Shard(0)), UpperBound: headsEnd(store.ClassShard)})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestVirtualTime runs the store in a bubble of virtual time, where tests of others put it on a memory file system.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig(t, vfs.NewMem(), "data")
		for v := uint64(1); v <= 3; v++ {
			s := mustOpen(t, c)
			mustCommit(t, s, testCommit(store.Shard(0), v, v, 0))
			<-time.After(time.Hour) // costs nothing here: the bubble's clock leaps
			mustCommit(t, s, testCommit(store.Block(0), v, v, 0))
			mustClose(t, s)
		}
	})
}

// TestMissingEntry takes an entry out of a journal: a reader is told instead of being led over the gap.
func TestMissingEntry(t *testing.T) {
	s := mustOpen(t, testConfig(t, vfs.NewMem(), "data"))
	defer mustClose(t, s)
	p := store.Block(0)
	for v := uint64(1); v <= 5; v++ {
		mustCommit(t, s, testCommit(p, v, v, 0))
	}
	if err := s.db.Delete(journalKey(p, 3), engine.Sync); err != nil {
		t.Fatal(err)
	}
	for _, from := range []uint64{1, 2, 3} {
		next := from
		var failure error
		for e, err := range s.Journal(t.Context(), p, from) {
			if failure = err; err != nil {
				break
			}
			if e.Version != next {
				t.Fatalf("from %d: entry %d where %d should be", from, e.Version, next)
			}
			next++
		}
		if next != 3 || !errors.Is(failure, store.ErrCorrupt) {
			t.Fatalf("from %d: the journal ended before %d with %v, want ErrCorrupt at 3", from, next, failure)
		}
	}
}

// BenchmarkCommit commits from 32 goroutines, each in a partition of its own, to a real directory.
func BenchmarkCommit(b *testing.B) {
	const writers, bytesMore = 32, 200
	c := DefaultConfig(b.TempDir())
	c.Logger = slog.New(slog.DiscardHandler)
	s := mustOpen(b, c)
	defer mustClose(b, s)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range writers {
		p := store.Shard(w)
		if w%2 == 1 {
			p = store.Block(board.NewBlockID(w, w))
		}
		wg.Go(func() {
			for v := uint64(1); next.Add(1) <= int64(b.N); v++ {
				if r, err := s.Commit(b.Context(), testCommit(p, v, v, bytesMore)); err != nil || !r.Applied {
					b.Errorf("commit %d of %s: %+v, %v", v, p, r, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}
