package baseline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/placed-board/placed/internal/bench/measure"
)

// Shape of the load: what a board of 1000x1000 tiles would ask of its store, with the sizes of keys and rows about right.
const (
	pebbleShards     = 64
	pebbleBlocks     = 100
	pebbleCommitRows = 256 // placements in one commit at most
	pebbleUserRow    = 64  // bytes of a user's row
	pebbleOpenCharge = 96  // bytes of an open charge in a shard's head
	pebbleHead       = 64  // bytes of a head besides its charges
	pebblePlacement  = 64  // bytes of a placement in a block's journal
	pebbleCache      = 64 << 20
	pebbleMemTable   = 32 << 20
	fsyncSamples     = 400
	fsyncAppendBytes = 512
	pebbleUsers      = 1 << 20 // distinct user rows
)

// PebbleConfig describes one run of the store alone.
type PebbleConfig struct {
	Dir      string // an existing directory on the disk to measure; files are made and removed in it
	InFlight int    // placements under way at a time, in a closed loop
	Slots    int    // commits under way at a time
	Warmup   time.Duration
	Duration time.Duration
	Seed     uint64
}

// PebbleResult is what the store alone reached.
type PebbleResult struct {
	PerSecond           float64         // placements
	CommitsPerSecond    float64         // Sync commits, two kinds together
	PlacementsPerCommit float64         // placements in one commit, on average
	Latency             measure.Summary // of one placement: both commits and the waits for their slots
}

// Pebble runs placements that cost two Sync commits each: one in the partition of a random shard, then one in that of a
// random block. A commit is sealed when it gets one of the slots, with everything that waits for its partition then;
// each partition has one commit under way.
func Pebble(ctx context.Context, config PebbleConfig) (PebbleResult, error) {
	dir, err := os.MkdirTemp(config.Dir, "bench-pebble-")
	if err != nil {
		return PebbleResult{}, fmt.Errorf("pebble baseline: %w", err)
	}
	defer os.RemoveAll(dir)
	cache := pebble.NewCache(pebbleCache)
	defer cache.Unref()
	db, err := pebble.Open(dir, &pebble.Options{Cache: cache, MemTableSize: pebbleMemTable, Logger: quiet{}})
	if err != nil {
		return PebbleResult{}, fmt.Errorf("pebble baseline: %w", err)
	}
	p := newPebbleLoad(db)
	result, err := p.run(ctx, config)
	return result, errors.Join(err, db.Close())
}

// quiet drops Pebble's chatter; what is fatal to it ends the process with its message.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "pebble: "+format+"\n", args...)
	os.Exit(measure.ExitFail)
}

type pebbleLoad struct {
	db      *pebble.DB
	shards  []*pebblePartition
	blocks  []*pebblePartition
	ready   chan *pebblePartition // partitions with something to seal; each is in it at most once
	commits atomic.Int64
	rows    atomic.Int64 // placements in them
	placed  atomic.Int64 // placements done, both commits
	latency *measure.Recorder
}

type pebblePartition struct {
	kind    byte // 's' or 'b'
	number  uint16
	version uint64 // touched only by the slot that holds the partition

	mu      sync.Mutex
	waiting []chan<- error // guarded by mu
	queued  bool           // guarded by mu: in ready, or held by a slot
}

func newPebbleLoad(db *pebble.DB) *pebbleLoad {
	p := &pebbleLoad{db: db, ready: make(chan *pebblePartition, pebbleShards+pebbleBlocks), latency: measure.NewRecorder()}
	for i := range pebbleShards {
		p.shards = append(p.shards, &pebblePartition{kind: 's', number: uint16(i)})
	}
	for i := range pebbleBlocks {
		p.blocks = append(p.blocks, &pebblePartition{kind: 'b', number: uint16(i)})
	}
	return p
}

func (p *pebbleLoad) run(ctx context.Context, config PebbleConfig) (PebbleResult, error) {
	var slots, writers sync.WaitGroup
	for slot := range config.Slots {
		slots.Go(func() { p.slot(rand.New(rand.NewPCG(config.Seed, uint64(slot)))) })
	}
	start := time.Now()
	measureFrom, end := start.Add(config.Warmup), start.Add(config.Warmup+config.Duration)
	errs := make([]error, config.InFlight)
	for writer := range config.InFlight {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(config.Seed, 1<<32+uint64(writer)))
			done := make(chan error, 1)
			for sent := time.Now(); sent.Before(end) && ctx.Err() == nil && errs[writer] == nil; {
				errs[writer] = p.place(rng, done)
				p.placed.Add(1)
				answered := time.Now()
				if !sent.Before(measureFrom) && answered.Before(end) {
					p.latency.Record(writer, answered.Sub(sent))
				}
				sent = answered
			}
		})
	}
	waitUntil(ctx, measureFrom)
	commitsBefore, rowsBefore := p.commits.Load(), p.rows.Load()
	waitUntil(ctx, end)
	commits, rows := p.commits.Load()-commitsBefore, p.rows.Load()-rowsBefore
	writers.Wait()
	close(p.ready)
	slots.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return PebbleResult{}, fmt.Errorf("pebble baseline: %w", err)
	}
	result := PebbleResult{Latency: p.latency.Summary()}
	result.PerSecond = float64(result.Latency.Count) / config.Duration.Seconds()
	result.CommitsPerSecond = float64(commits) / config.Duration.Seconds()
	if commits > 0 {
		result.PlacementsPerCommit = float64(rows) / float64(commits)
	}
	return result, nil
}

func (p *pebbleLoad) place(rng *rand.Rand, done chan error) error {
	for _, partition := range []*pebblePartition{p.shards[rng.IntN(pebbleShards)], p.blocks[rng.IntN(pebbleBlocks)]} {
		p.submit(partition, done)
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}

func (p *pebbleLoad) submit(partition *pebblePartition, done chan<- error) {
	partition.mu.Lock()
	defer partition.mu.Unlock()
	partition.waiting = append(partition.waiting, done)
	if !partition.queued {
		partition.queued = true
		p.ready <- partition
	}
}

// slot seals and commits one partition after the other.
func (p *pebbleLoad) slot(rng *rand.Rand) {
	for partition := range p.ready {
		partition.mu.Lock()
		sealed := partition.waiting
		if len(sealed) > pebbleCommitRows {
			sealed = sealed[:pebbleCommitRows]
		}
		sealed = slices.Clone(sealed)
		partition.waiting = append(partition.waiting[:0], partition.waiting[len(sealed):]...)
		partition.mu.Unlock()

		err := p.commit(rng, partition, len(sealed))
		p.commits.Add(1)
		p.rows.Add(int64(len(sealed)))

		partition.mu.Lock()
		if partition.queued = len(partition.waiting) > 0; partition.queued {
			p.ready <- partition
		}
		partition.mu.Unlock()
		for _, done := range sealed {
			done <- err
		}
	}
}

func (p *pebbleLoad) commit(rng *rand.Rand, partition *pebblePartition, placements int) error {
	partition.version++
	batch := p.db.NewBatch()
	defer batch.Close()
	prefix := binary.BigEndian.AppendUint16([]byte{partition.kind}, partition.number)
	var err error
	set := func(key []byte, size int) {
		value := make([]byte, size)
		binary.BigEndian.PutUint64(value, partition.version)
		for i := 8; i+8 <= size; i += 8 { // incompressible, as attempt ids and nonces are
			binary.BigEndian.PutUint64(value[i:], rng.Uint64())
		}
		err = errors.Join(err, batch.Set(key, value, nil))
	}
	if partition.kind == 's' {
		set(append(prefix, 'h'), pebbleHead+placements*pebbleOpenCharge)
		for range placements {
			set(binary.BigEndian.AppendUint64(append(prefix, 'u'), rng.Uint64N(pebbleUsers)), pebbleUserRow)
		}
	} else {
		set(append(prefix, 'h'), pebbleHead)
		set(binary.BigEndian.AppendUint64(append(prefix, 'j'), partition.version), placements*pebblePlacement)
	}
	if err != nil {
		return err
	}
	return batch.Commit(pebble.Sync)
}

// Fsync measures what one durable append costs on the disk of dir: a few hundred bytes added to a file, then a sync of
// its data.
func Fsync(ctx context.Context, dir string) (measure.Summary, error) {
	file, err := os.CreateTemp(dir, "bench-fsync-")
	if err != nil {
		return measure.Summary{}, fmt.Errorf("measure fsync: %w", err)
	}
	defer os.Remove(filepath.Clean(file.Name()))
	defer file.Close()
	recorder := measure.NewRecorder()
	block := make([]byte, fsyncAppendBytes)
	for i := range fsyncSamples {
		if err := ctx.Err(); err != nil {
			return measure.Summary{}, err
		}
		start := time.Now()
		if _, err := file.Write(block); err != nil {
			return measure.Summary{}, fmt.Errorf("measure fsync: %w", err)
		}
		if err := syncData(file); err != nil {
			return measure.Summary{}, fmt.Errorf("measure fsync: %w", err)
		}
		recorder.Record(i, time.Since(start))
	}
	return recorder.Summary(), nil
}
