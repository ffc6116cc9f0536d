package pebble

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/placed-board/placed/store"
)

const (
	slowOperation     = 5 * time.Second // of the disk, worth a line in the log
	slots             = 32              // commits in flight that keep the disk busy without waiting on each other
	memTables         = 4               // written memtables that may wait for their flush before writes wait too
	maxOpenFiles      = 500
	bloomBits         = 10 // a key: about 1% of the lookups of absent rows read a table in vain
	compactionsMax    = 2
	journalPage       = 1000     // entries read at once
	journalPageGrowth = 16       // from a page of one entry on
	journalPageSize   = 64 << 10 // bytes after which a page ends: a merge of all journals holds one of each
	rowsPage          = 1000     // rows read at once
)

// Store is a store.Store in a directory of this process.
type Store struct {
	config  Config
	db      *engine.DB
	lock    *engine.Lock
	guard   *guard
	slowFS  io.Closer // the watch over slow disk operations
	failed  atomic.Bool
	ended   chan struct{} // closed when Exit has returned, which it does in tests alone
	closing sync.RWMutex  // write-locked to set closed
	closed  bool
	calls   sync.WaitGroup // running calls, and commits that go on after their call

	create     sync.Mutex // held by Meta, Create and Renew
	checkpoint sync.Mutex // held from Checkpoint to its release
	partitions sync.Map   // store.Partition -> *partition
	snapshots  [64]sync.Mutex
}

// partition is what the process knows of a partition. Holding the lock means having a place in the channel: unlike a mutex
// it can be waited for under a context. A commit holds it until its outcome is on the disk.
type partition struct {
	lock    chan struct{}
	loaded  bool   // version is that of the store
	version uint64 // of the newest commit
}

var (
	_ store.Store        = (*Store)(nil)
	_ store.Checkpointer = (*Store)(nil)
)

// Open opens the store in c.Dir, or makes a fresh one there. Errors: store.ErrLocked when another process uses it,
// store.ErrFormat when it has another format, store.ErrCorrupt when it is something else.
func Open(c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Store{config: c, ended: make(chan struct{})}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("store/pebble: open: %w", err)
	}
	return s, nil
}

func (s *Store) open() (err error) {
	c := s.config
	if err := makeDir(c.FS, c.Dir); err != nil {
		return fmt.Errorf("make directory %s: %w", c.Dir, err)
	}
	if s.lock, err = lockDir(c.FS, c.Dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.lock.Close())
		}
	}()
	version, fresh, err := checkFormat(c.FS, c.Dir)
	if err != nil {
		return err
	}
	if err := c.FS.RemoveAll(c.Dir + checkpointSuffix); err != nil { // of a backup that was cut short
		return err
	}
	if s.db, err = openEngine(c.Dir, s.options(version)); err == nil && s.hasFailed() {
		err = errors.New("the engine failed while it opened")
	}
	if err != nil {
		return errors.Join(err, s.slowFS.Close())
	}
	if fresh {
		if err := finishFormat(c.FS, c.Dir); err != nil {
			return errors.Join(err, s.db.Close(), s.slowFS.Close())
		}
	}
	s.guard.active.Store(true)
	return nil
}

// openEngine opens the engine; its panics (at a failed sync of the directory, for one) become errors.
func openEngine(dir string, o *engine.Options) (db *engine.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, fmt.Errorf("engine: %v", r)
		}
	}()
	return engine.Open(dir, o)
}

func (s *Store) options(version engine.FormatMajorVersion) *engine.Options {
	c := s.config
	// Both events come from the goroutine that flushes, one after the other, under the engine's mutex.
	var flushError error
	listener := &engine.EventListener{
		FlushEnd: func(i engine.FlushInfo) { flushError = i.Err },
		BackgroundError: func(err error) {
			if err == flushError { // written memory that cannot be put into a table would pile up
				s.fail(fmt.Sprintf("flush failed: %v", err))
				return
			}
			c.Logger.Error("store: compaction failed, it will be tried again", "dir", c.Dir, "error", err)
		},
		DataCorruption: func(i engine.DataCorruptionInfo) {
			c.Logger.Error("store: corrupt table, its reads fail", "dir", c.Dir, "path", i.Path, "error", i.Details)
		},
		DiskSlow: func(i engine.DiskSlowInfo) {
			c.Logger.Warn("store: disk is slow", "dir", c.Dir, "operation", i.String())
		},
		WriteStallBegin: func(i engine.WriteStallBeginInfo) {
			c.Logger.Warn("store: commits wait for the engine", "dir", c.Dir, "reason", i.Reason)
		},
	}
	slow, closer := vfs.WithDiskHealthChecks(c.FS, slowOperation, nil, func(i vfs.DiskSlowInfo) { listener.DiskSlow(i) })
	s.slowFS, s.guard = closer, newGuard(c, slow, s.fail)
	o := &engine.Options{
		FS: s.guard, Lock: s.lock, FormatMajorVersion: version,
		Logger: logger{s}, EventListener: listener,
		CacheSize: c.CacheBytes, MemTableSize: uint64(c.MemTableBytes), MemTableStopWritesThreshold: memTables,
		MaxOpenFiles:               maxOpenFiles,
		CompactionConcurrencyRange: func() (int, int) { return 1, compactionsMax },
		// A storm outruns compactions for a while: reads suffer a little before commits wait.
		L0StopWritesThreshold: 24,
	}
	// Filters answer for users that have no row yet, and skip tables of other partitions for point reads.
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
	}
	return o
}

// fail ends the process: what the disk holds is not known any more. No call returns after that, so that nobody else ends the
// process without the reason; where Exit returns (in tests) every call answers an error.
func (s *Store) fail(cause string) {
	if s.failed.Swap(true) {
		return
	}
	s.config.Logger.Error("store failed, the process ends: no placement was or will be acknowledged that the disk may not hold",
		"dir", s.config.Dir, "cause", cause)
	s.config.Exit(1)
	close(s.ended)
}

// hasFailed reports whether fail was called, once Exit has returned.
func (s *Store) hasFailed() bool {
	if !s.failed.Load() {
		return false
	}
	<-s.ended
	return true
}

// logger takes the engine's lines.
type logger struct{ s *Store }

// Infof implements engine.Logger.
func (l logger) Infof(f string, args ...any) {
	if l.s.config.Logger.Enabled(context.Background(), slog.LevelDebug) {
		l.s.config.Logger.Debug("store engine: " + fmt.Sprintf(f, args...))
	}
}

// Errorf implements engine.Logger.
func (l logger) Errorf(f string, args ...any) {
	l.s.config.Logger.Warn("store engine: " + fmt.Sprintf(f, args...))
}

// Fatalf implements engine.Logger: the engine cannot go on, as after a failed sync.
func (l logger) Fatalf(f string, args ...any) { l.s.fail(fmt.Sprintf(f, args...)) }

// begin counts a call in; every successful begin needs s.calls.Done.
func (s *Store) begin(ctx context.Context) error {
	s.closing.RLock()
	defer s.closing.RUnlock()
	switch err := ctx.Err(); {
	case s.closed:
		return fmt.Errorf("store/pebble: %w", store.ErrClosed)
	case s.hasFailed():
		return errFailed
	case err != nil:
		return fmt.Errorf("store/pebble: not started: %w", err)
	}
	s.calls.Add(1)
	return nil
}

var errFailed = errors.New("store/pebble: the store has failed and the process is ending")

// acquire returns the partition, locked and loaded.
func (s *Store) acquire(ctx context.Context, id store.Partition) (*partition, error) {
	v, ok := s.partitions.Load(id)
	if !ok {
		v, _ = s.partitions.LoadOrStore(id, &partition{lock: make(chan struct{}, 1)})
	}
	p := v.(*partition)
	select {
	case p.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("store/pebble: not started: %w", ctx.Err())
	}
	if s.hasFailed() { // what a read would show now may not be on the disk
		p.release()
		return nil, errFailed
	}
	if !p.loaded {
		h, err := s.readHead(id)
		if err != nil {
			p.release()
			return nil, err
		}
		p.version, p.loaded = h.Version, true
	}
	return p, nil
}

func (p *partition) release() { <-p.lock }

// get returns a copy of the value, or nil when there is none.
func (s *Store) get(key []byte) ([]byte, error) {
	v, closer, err := s.db.Get(key)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, readError(err)
	}
	out := append(make([]byte, 0, len(v)), v...)
	return out, closer.Close()
}

// readError marks an error of the engine's reads.
func readError(err error) error {
	if engine.IsCorruptionError(err) {
		return fmt.Errorf("store/pebble: %w: %w", store.ErrCorrupt, err)
	}
	return fmt.Errorf("store/pebble: read: %w", err)
}

func (s *Store) readHead(p store.Partition) (store.Head, error) {
	v, closer, err := s.db.Get(headKey(p))
	if errors.Is(err, engine.ErrNotFound) {
		return store.Head{}, nil
	}
	if err != nil {
		return store.Head{}, readError(err)
	}
	h, err := decodeHead(v)
	if err = errors.Join(err, closer.Close()); err != nil {
		return store.Head{}, fmt.Errorf("store/pebble: %s: %w", p, err)
	}
	return h, nil
}

// Meta returns the board's description.
func (s *Store) Meta(ctx context.Context) (store.Meta, error) {
	if err := s.begin(ctx); err != nil {
		return store.Meta{}, err
	}
	defer s.calls.Done()
	s.create.Lock()
	defer s.create.Unlock()
	v, err := s.get(metaKey())
	if err != nil {
		return store.Meta{}, err
	}
	if v == nil {
		return store.Meta{}, fmt.Errorf("store/pebble: board: %w", store.ErrNotFound)
	}
	var m store.Meta
	if err := json.Unmarshal(v, &m); err != nil {
		return store.Meta{}, fmt.Errorf("store/pebble: board: %w: %w", store.ErrCorrupt, err)
	}
	return m, nil
}

// Create writes the board's description.
func (s *Store) Create(ctx context.Context, m store.Meta) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	s.create.Lock()
	defer s.create.Unlock()
	if v, err := s.get(metaKey()); err != nil {
		return err
	} else if v != nil {
		return fmt.Errorf("store/pebble: %w", store.ErrExists)
	}
	v, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("store/pebble: %w", err)
	}
	b := s.db.NewBatch()
	if err := b.Set(metaKey(), v, nil); err != nil {
		return fmt.Errorf("store/pebble: %w", err)
	}
	if err := s.apply(b, engine.Sync); err != nil {
		return fmt.Errorf("store/pebble: create: %w", err)
	}
	return nil
}

// Health tells how much space is left and whether commits wait for it.
func (s *Store) Health(context.Context) store.Health {
	free, known := s.guard.free()
	h := store.Health{FreeBytes: free, Tight: known && free < uint64(s.config.LowWaterBytes)}
	switch {
	case s.hasFailed():
		h.Err = errFailed
	case s.guard.full():
		h.Tight, h.Err = true, fmt.Errorf("directory %s: %w", s.config.Dir, store.ErrFull)
	}
	return h
}

// Capabilities describes the embedded store.
func (s *Store) Capabilities() store.Capabilities {
	return store.Capabilities{Name: "pebble", Slots: slots}
}

// Close waits for running calls, writes everything to tables so that the next Open is quick, and gives the directory free.
// On a full disk it does not wait for space: the process then ends as after a failed sync.
func (s *Store) Close() error {
	s.closing.Lock()
	if s.closed {
		s.closing.Unlock()
		return nil
	}
	s.closed = true
	s.closing.Unlock()
	s.guard.stop()
	s.calls.Wait()
	var err error
	if s.hasFailed() {
		return errors.Join(s.slowFS.Close(), s.lock.Close()) // the engine's state is not to be trusted, not even to close
	}
	// Flushed data makes the next start quicker; the log has it all anyway. Where space is low the engine would make a new log
	// in vain, and panic.
	if !s.guard.tight() {
		if err = s.db.Flush(); err != nil {
			err = fmt.Errorf("flush: %w", err)
		}
	}
	if s.hasFailed() {
		return errors.Join(err, s.slowFS.Close(), s.lock.Close())
	}
	if err = errors.Join(err, s.db.Close(), s.slowFS.Close(), s.lock.Close()); err != nil {
		return fmt.Errorf("store/pebble: close: %w", err)
	}
	return nil
}
