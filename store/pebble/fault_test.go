package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/placed-board/placed/store"
)

// logSync reports whether an operation syncs the engine's log.
func logSync(op errorfs.Op) bool {
	return strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData)
}

// exits counts what would end the process.
type exits struct{ codes atomic.Int64 }

func (e *exits) exit(code int) { e.codes.Add(int64(code)) }

func TestFailedSyncEndsTheProcess(t *testing.T) {
	const writers = 16
	disk := vfs.NewCrashableMem()
	var broken atomic.Bool
	c := testConfig(t, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && logSync(op) {
			return syscall.EIO
		}
		return nil
	})), "data/store")
	var ended exits
	var lines log
	c.Exit, c.Logger = ended.exit, lines.logger()
	s := mustOpen(t, c)
	for i := range writers {
		mustCommit(t, s, testCommit(store.Shard(i), 1, 1, 0))
	}
	broken.Store(true)
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		wg.Go(func() { _, errs[i] = s.Commit(t.Context(), testCommit(store.Shard(i), 2, 2, 0)) })
	}
	wg.Wait()
	unknown := 0
	for i, err := range errs {
		if err == nil {
			t.Fatalf("writer %d got an acknowledgement after a failed sync", i)
		}
		if errors.Is(err, store.ErrUnknown) {
			unknown++
		}
	}
	if unknown == 0 {
		t.Fatal("no commit was under way")
	}
	if ended.codes.Load() != 1 {
		t.Fatalf("exit codes sum up to %d, want one exit with 1", ended.codes.Load())
	}
	if got := lines.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "the process ends") || !strings.Contains(got, "data/store") || !strings.Contains(got, syscall.EIO.Error()) {
		t.Fatalf("log:\n%s", got)
	}
	broken.Store(false)
	if _, err := s.Commit(t.Context(), testCommit(store.Shard(40), 1, 1, 0)); err == nil {
		t.Fatal("a commit succeeded after a failed sync")
	}
	if h, err := s.Head(t.Context(), store.Shard(0)); err == nil {
		t.Fatalf("a read shows version %d after a failed sync", h.Version)
	}
	if h := s.Health(t.Context()); h.Err == nil {
		t.Fatalf("health %+v", h)
	}
	mustClose(t, s)
	s = mustOpen(t, testConfig(t, disk.CrashClone(vfs.CrashCloneCfg{}), "data/store"))
	defer mustClose(t, s)
	for i := range writers {
		if h := mustHead(t, s, store.Shard(i)); h.Version != 1 {
			t.Fatalf("shard %d is at version %d, want the acknowledged 1", i, h.Version)
		}
	}
}

// TestErrorAtEveryWrite lets every single operation that writes fail once, one run each, and cuts the power when the store
// has ended the process or come to its end.
func TestErrorAtEveryWrite(t *testing.T) {
	const rounds = 6
	survived, ended := 0, 0
	for fail := int64(1); ; fail++ {
		l, disk := newLedger(), vfs.NewCrashableMem()
		var writes atomic.Int64
		var failed atomic.Value
		end := make(chan error, 2)
		c := crashConfig(t, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose && writes.Add(1) == fail {
				failed.Store(fmt.Sprintf("%v of %s", op.Kind, op.Path))
				return syscall.EIO
			}
			return nil
		})))
		exited := errors.New("exit")
		c.Logger = slog.New(slog.DiscardHandler)
		c.Exit = func(code int) {
			if code == 1 {
				end <- exited
			}
			select {} // nothing runs after the end of a process
		}
		go func() {
			s, err := Open(c)
			if err == nil {
				l.tidy = s.db.Flush
				err = errors.Join(l.work(s, rounds), s.Close())
			}
			end <- err
		}()
		err := <-end
		if failed.Load() == nil {
			if err != nil {
				t.Fatalf("a run without a fault: %v", err)
			}
			break
		}
		if err == exited {
			ended++
		} else {
			survived++
		}
		acked, created := l.known()
		for _, percent := range []int{0, 50} {
			left := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: seeded(fail)})
			if err := openAfterCrash(t, l, left, acked, created, false); err != nil {
				t.Errorf("write %d failed, %v: %v", fail, failed.Load(), err)
			}
		}
	}
	t.Logf("survived %d faults, ended the process at %d", survived, ended)
	if survived == 0 || ended == 0 {
		t.Fatalf("survived %d faults, ended the process at %d: one of them was never seen", survived, ended)
	}
}

func TestFormat(t *testing.T) {
	write := func(t *testing.T, fs vfs.FS, content string) {
		t.Helper()
		f, err := fs.Create("data/"+formatFile, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]struct {
		content string
		err     error
		says    string
	}{
		"newer format":       {`{"format":3,"pebble":13,"more":true}`, store.ErrFormat, "format 3, this placed knows up to 2"},
		"older format":       {`{"format":1,"pebble":13}`, store.ErrFormat, "format 1, from before the first release"},
		"newer engine":       {`{"format":2,"pebble":9000}`, store.ErrFormat, "engine format 9000"},
		"no format":          {`{}`, store.ErrCorrupt, "does not tell a format"},
		"something else":     {`hello`, store.ErrCorrupt, "does not tell a format"},
		"nothing in it":      {``, store.ErrCorrupt, "does not tell a format"},
		"the format of ours": {fmt.Sprintf(`{"format":2,"pebble":%d}`, 20), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			s := mustOpen(t, testConfig(t, disk, "data"))
			mustCommit(t, s, testCommit(store.Shard(0), 1, 1, 0))
			mustClose(t, s)
			write(t, disk, want.content)
			s, err := Open(testConfig(t, disk, "data"))
			if want.err == nil {
				if err != nil {
					t.Fatal(err)
				}
				mustClose(t, s)
				return
			}
			if !errors.Is(err, want.err) || !strings.Contains(err.Error(), want.says) || !strings.Contains(err.Error(), "data") {
				t.Fatalf("%v, want %v that says %q", err, want.err, want.says)
			}
		})
	}
	t.Run("a store of somebody else", func(t *testing.T) {
		disk := vfs.NewMem()
		s := mustOpen(t, testConfig(t, disk, "data"))
		mustCommit(t, s, testCommit(store.Shard(0), 1, 1, 0))
		mustClose(t, s)
		if err := disk.Remove("data/" + formatFile); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(testConfig(t, disk, "data")); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "not a store of placed") {
			t.Fatalf("%v, want a refusal", err)
		}
	})
	t.Run("a first start cut short", func(t *testing.T) {
		disk := vfs.NewMem()
		mustClose(t, mustOpen(t, testConfig(t, disk, "data")))
		if err := disk.Rename("data/"+formatFile, "data/"+formatFileFirst); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, testConfig(t, disk, "data"))
		mustCommit(t, s, testCommit(store.Shard(0), 1, 1, 0))
		mustClose(t, s)
		s = mustOpen(t, testConfig(t, disk, "data"))
		defer mustClose(t, s)
		if h := mustHead(t, s, store.Shard(0)); h.Version != 1 {
			t.Fatalf("version %d", h.Version)
		}
	})
}

// fullDisk is a file system that can be made full, and that tells how much is free.
type fullDisk struct {
	vfs.FS
	mem    *vfs.MemFS
	isFull atomic.Bool
}

func newFullDisk() *fullDisk {
	d := &fullDisk{mem: vfs.NewCrashableMem()}
	d.FS = errorfs.Wrap(d.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileWrite, errorfs.OpCreate:
			if d.isFull.Load() {
				return syscall.ENOSPC
			}
		}
		return nil
	}))
	d.setFree(1 << 40)
	return d
}

func (d *fullDisk) setFree(bytes uint64) {
	d.mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: bytes, TotalBytes: 1 << 41})
}

func TestLowSpaceIsTold(t *testing.T) {
	disk := newFullDisk()
	c := testConfig(t, disk, "data")
	s := mustOpen(t, c)
	defer mustClose(t, s)
	for _, step := range []struct {
		free  int64
		tight bool
	}{{1 << 40, false}, {c.LowWaterBytes, false}, {c.LowWaterBytes - 1, true}, {1, true}, {c.LowWaterBytes + 1, false}} {
		disk.setFree(uint64(step.free))
		if h := s.Health(t.Context()); h.Tight != step.tight || h.FreeBytes != uint64(step.free) || h.Err != nil {
			t.Fatalf("%d bytes free: health %+v, want tight %t", step.free, h, step.tight)
		}
		v := mustHead(t, s, store.Shard(0)).Version + 1
		mustCommit(t, s, testCommit(store.Shard(0), v, v, 0)) // commits land however little is left
	}
}

func TestFullDiskHeals(t *testing.T) {
	disk := newFullDisk()
	c := testConfig(t, disk, "data")
	var lines log
	c.Logger = lines.logger()
	s := mustOpen(t, c)
	p := store.Shard(0)
	mustCommit(t, s, testCommit(p, 1, 1, 0))
	disk.isFull.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() {
		_, err := s.Commit(ctx, testCommit(p, 2, 2, 0))
		answer <- err
	}()
	await(t, "the disk to be full", s.guard.full)
	cancel()
	wantUnknown(t, <-answer)
	if h := s.Health(t.Context()); !errors.Is(h.Err, store.ErrFull) || !h.Tight || !strings.Contains(h.Err.Error(), "data") {
		t.Fatalf("health %+v", h)
	}
	if r, err := s.Commit(t.Context(), testCommit(store.Shard(1), 1, 1, 0)); !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrUnknown) {
		t.Fatalf("commit on a full disk: %+v, %v, want ErrFull", r, err)
	}
	if err := s.PutSnapshot(t.Context(), 0, store.Snapshot{Version: 1}); !errors.Is(err, store.ErrFull) {
		t.Fatalf("snapshot on a full disk: %v, want ErrFull", err)
	}
	disk.isFull.Store(false)
	await(t, "the store to go on", func() bool { return !s.guard.full() })
	if h := mustHead(t, s, p); h.Version != 2 || h.Attempt != 2 { // the one whose outcome was unknown has landed
		t.Fatalf("head %+v", h)
	}
	mustCommit(t, s, testCommit(p, 3, 3, 0))
	mustCommit(t, s, testCommit(store.Shard(1), 1, 1, 0))
	if h := s.Health(t.Context()); h.Err != nil || h.Tight {
		t.Fatalf("health %+v", h)
	}
	if got := lines.String(); strings.Count(got, "disk full") != 1 || strings.Count(got, "disk has space again") != 1 {
		t.Fatalf("log:\n%s", got)
	}
	mustClose(t, s)
	s = mustOpen(t, testConfig(t, disk.mem.CrashClone(vfs.CrashCloneCfg{}), "data"))
	defer mustClose(t, s)
	if h := mustHead(t, s, p); h.Version != 3 {
		t.Fatalf("version %d after a restart", h.Version)
	}
}

// TestFullDiskAtClose closes a store whose disk stays full: it must neither hang nor acknowledge.
func TestFullDiskAtClose(t *testing.T) {
	disk := newFullDisk()
	c := testConfig(t, disk, "data")
	var ended exits
	c.Exit, c.Logger = ended.exit, slog.New(slog.DiscardHandler)
	s := mustOpen(t, c)
	mustCommit(t, s, testCommit(store.Shard(0), 1, 1, 0))
	disk.isFull.Store(true)
	answer := make(chan error)
	go func() {
		_, err := s.Commit(nobodyWaits, testCommit(store.Shard(0), 2, 2, 0))
		answer <- err
	}()
	await(t, "the disk to be full", s.guard.full)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	wantUnknown(t, <-answer)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if ended.codes.Load() != 1 {
		t.Fatalf("exit codes sum up to %d, want one exit with 1", ended.codes.Load())
	}
	disk.isFull.Store(false)
	s = mustOpen(t, testConfig(t, disk.mem.CrashClone(vfs.CrashCloneCfg{}), "data"))
	defer mustClose(t, s)
	if h := mustHead(t, s, store.Shard(0)); h.Version != 1 {
		t.Fatalf("version %d", h.Version)
	}
}

// TestCompactionsLeaveSpace checks that a compaction waits while little space is left, that commits do not, and that Close
// does not wait for it.
func TestCompactionsLeaveSpace(t *testing.T) {
	disk := newFullDisk()
	c := crashConfig(t, disk)
	c.Logger = slog.New(slog.DiscardHandler)
	s := mustOpen(t, c)
	disk.setFree(uint64(c.LowWaterBytes) - 1)
	p := store.Shard(0)
	v := uint64(0)
	commit := func() {
		v++
		mustCommit(t, s, testCommit(p, v, v, 5000))
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for s.guard.held.Load() == 0 {
		if commit(); v > 100 {
			t.Fatal("no compaction waited")
		}
	}
	commit()
	if n := s.db.Metrics().Compact.Count; n != 0 {
		t.Fatalf("%d compactions ran with little space", n)
	}
	disk.setFree(1 << 40)
	await(t, "the compaction to go on", func() bool { return s.db.Metrics().Compact.Count > 0 && s.guard.held.Load() == 0 })
	disk.setFree(1)
	for s.guard.held.Load() == 0 {
		if commit(); v > 200 {
			t.Fatal("no compaction waited")
		}
	}
	mustClose(t, s)
	s = mustOpen(t, c)
	defer mustClose(t, s)
	if h := mustHead(t, s, p); h.Version != v {
		t.Fatalf("version %d, want %d", h.Version, v)
	}
}
