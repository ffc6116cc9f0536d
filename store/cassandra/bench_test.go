package cassandra

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// benchPlacements is how many placements a commit carries.
const benchPlacements = 16

// BenchmarkCommit measures commits as a storm makes them, 16 in flight against the one node, each with 16 placements: of
// shards (16 user rows and a head with 16 open charges) and of blocks (16 placements in one journal row); and, for
// comparison, a plain conditional insert of 24 bytes by the driver, as many at a time.
//
//	go test ./store/cassandra -run '^$' -bench Commit -benchtime 5s
func BenchmarkCommit(b *testing.B) {
	cfg := freshSchema(b)
	s := mustOpen(b, cfg)
	session := rawSession(b, cfg)
	mustExec(b, session, "CREATE TABLE plain (key bigint PRIMARY KEY, value blob)")
	shards, blocks := make([]uint64, cfg.Slots), make([]uint64, cfg.Slots) // the versions of each worker's own partitions
	var inserted atomic.Int64
	for _, c := range []struct {
		name   string
		commit func(worker int) error
	}{
		{"insert", func(int) error {
			n := inserted.Add(1)
			_, err := session.Query("INSERT INTO plain (key, value) VALUES (?, ?) IF NOT EXISTS", n, make([]byte, 24)).SerialConsistency(s.serial).
				MapScanCAS(map[string]any{})
			return err
		}},
		{"shard", func(w int) error {
			shards[w]++
			return benchApply(b, s, benchShard(w, shards[w]))
		}},
		{"block", func(w int) error {
			blocks[w]++
			return benchApply(b, s, benchBlock(board.NewBlockID(w, 0), blocks[w]))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var left atomic.Int64
			left.Store(int64(b.N))
			var workers sync.WaitGroup
			errs := make(chan error, cfg.Slots)
			for w := range cfg.Slots {
				workers.Go(func() {
					for left.Add(-1) >= 0 {
						if err := c.commit(w); err != nil {
							errs <- err
							return
						}
					}
				})
			}
			workers.Wait()
			close(errs)
			if err := <-errs; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

func benchApply(b *testing.B, s *Store, c *store.Commit) error {
	r, err := s.Commit(b.Context(), c)
	if err == nil && !r.Applied {
		err = fmt.Errorf("commit %d of %s refused, head %d", c.Head.Version, c.Partition, r.Head.Version)
	}
	return err
}

func benchHead(version uint64) store.Head {
	return store.Head{Version: version, Attempt: rand.Uint64() | 1, Owner: store.Owner{Address: "192.168.100.10:7000", Incarnation: rand.Uint64(), SettingsVersion: 3}}
}

func benchShard(shard int, version uint64) *store.Commit {
	c := &store.Commit{Partition: store.Shard(shard), Head: benchHead(version)}
	state := store.ShardState{LastAtMs: 1_700_000_000_000}
	for i := range benchPlacements {
		user := fmt.Sprintf("user-%08d", rand.IntN(20_000))
		at := board.Point{X: rand.IntN(1000), Y: rand.IntN(1000)}
		row := store.UserRow{Turn: version, Nonce: rand.Uint64(), At: at, Colour: 5, AtMs: state.LastAtMs, SettingsVersion: 3, Node: 7, Sequence: 1000}
		c.Rows = append(c.Rows, store.Row{Key: fmt.Sprintf("%s-%d", user, i), Value: row.AppendTo(nil)})
		state.Open = append(state.Open, store.Charge{
			Ticket: board.Ticket{Shard: uint8(shard), Commit: version, Index: uint16(i)}, User: board.UserID(user), Turn: version, Nonce: row.Nonce,
			At: at, Colour: 5, AtMs: state.LastAtMs, SettingsVersion: 3, Node: 7,
		})
	}
	c.Head.State = state.AppendTo(nil)
	return c
}

func benchBlock(id board.BlockID, version uint64) *store.Commit {
	var entry store.BlockCommit
	for i := range benchPlacements {
		entry.Placements = append(entry.Placements, board.Placement{
			Chunk: id.Chunk(i % 4), Tile: uint16(rand.IntN(board.ChunkTiles)), Sequence: version, User: board.UserID(fmt.Sprintf("user-%08d", rand.IntN(20_000))),
			Turn: version, Nonce: rand.Uint64(), AtMs: 1_700_000_000_000, SettingsVersion: 3, Node: 7, Colour: 5,
			Ticket: board.Ticket{Shard: uint8(rand.IntN(64)), Commit: version, Index: uint16(i)},
		})
	}
	return &store.Commit{Partition: store.Block(id), Head: benchHead(version), Rows: []store.Row{{Value: entry.AppendTo(nil)}}}
}
