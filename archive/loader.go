package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// Bounds of writing.
const (
	commitPlacements = (store.CommitRowBytesMax - 32) / store.PlacementBytesMax // of an import's commit, whatever their size
	loadersMax       = 8                                                        // goroutines that commit, each for its share of the blocks
	loaderQueue      = 16                                                       // sealed commits that wait for each; then the merge waits
	commitTries      = 20                                                       // of a commit of unknown outcome, then the import ends and can go on later
	commitPause      = 500 * time.Millisecond                                   // between them
)

// importOwner is the owner in the heads that an import makes.
const importOwner = "import"

// loader makes commits of sorted placements. The merge runs in one goroutine, which knows every block and every user's newest
// placement; committers write what it has sealed, each block's commits in their order.
//
// Everything that it writes follows from the input alone, attempt ids aside: after an interruption it makes the same commits
// again, passes over those that a block's journal has, and checks the last of them byte by byte.
type loader struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	im     *importer
	blocks map[board.BlockID]*loading
	newest []board.Entry // of each user
	queues [loadersMax]chan sealed
	wait   sync.WaitGroup
}

// loading is a block that is being filled.
type loading struct {
	id      board.BlockID
	state   *store.BlockState
	written uint64 // version of the journal when the import began
	pending []board.Placement
	maybe   [64]uint64 // bits of the users in pending, by their numbers: a bit that is not set saves a look
}

// holds reports whether the commit that the block is at has a placement of the user.
func (b *loading) holds(user uint32, name board.UserID) bool {
	if b.maybe[user/64%64]&(1<<(user%64)) == 0 {
		return false
	}
	return slices.ContainsFunc(b.pending, func(p board.Placement) bool { return p.User == name })
}

// sealed is a commit on its way.
type sealed struct {
	block   board.BlockID
	version uint64
	commit  store.BlockCommit
	written bool // the last one of an earlier run: compare instead of committing
}

func newLoader(ctx context.Context, im *importer) *loader {
	l := &loader{im: im, blocks: map[board.BlockID]*loading{}, newest: make([]board.Entry, len(im.users))}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	for i := range l.queues {
		l.queues[i] = make(chan sealed, loaderQueue)
		l.wait.Go(func() { l.commits(l.queues[i]) })
	}
	return l
}

// load writes all blocks, their snapshots and the users' rows.
func (l *loader) load(records *merge) error {
	err := l.merge(records)
	for _, q := range l.queues {
		close(q)
	}
	if err != nil {
		l.cancel(err)
	}
	l.wait.Wait()
	if err := context.Cause(l.ctx); err != nil {
		return err
	}
	defer l.cancel(nil)
	l.im.report.Blocks = len(l.blocks)
	for _, b := range l.blocks {
		if err := l.im.store.PutSnapshot(l.ctx, b.id, store.Snapshot{Version: b.state.Version, Data: b.state.AppendTo(nil)}); err != nil {
			return err
		}
	}
	return l.userRows()
}

// merge seals the commits of all blocks, in the order of time.
func (l *loader) merge(records *merge) error {
	for n := int64(0); ; n++ {
		if n%progressRows == 0 {
			l.im.progress(PhaseWrite, n, l.im.report.Placements)
			if err := l.ctx.Err(); err != nil {
				return context.Cause(l.ctx)
			}
		}
		r, err := records.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		b, err := l.block(r.at().Block())
		if err != nil {
			return err
		}
		if l.newest[r.user()].Block != b.id && b.holds(r.user(), l.im.users[r.user()]) {
			// The user has placed here, elsewhere and here again. A walk backwards comes to a commit, not to a placement in it
			// (ADR 0010): both in one commit, it would go round in a circle.
			if err := l.seal(b); err != nil {
				return err
			}
		}
		l.place(b, &r)
		if len(b.pending) == commitPlacements {
			if err := l.seal(b); err != nil {
				return err
			}
		}
	}
	l.im.progress(PhaseWrite, l.im.report.Placements, l.im.report.Placements)
	for _, b := range l.blocks {
		if len(b.pending) > 0 {
			if err := l.seal(b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loader) block(id board.BlockID) (*loading, error) {
	if b := l.blocks[id]; b != nil {
		return b, nil
	}
	head, err := l.im.store.Head(l.ctx, store.Block(id))
	if err != nil {
		return nil, err
	}
	b := &loading{id: id, state: store.NewBlockState(), written: head.Version}
	l.blocks[id] = b
	return b, nil
}

// place adds a placement to the commit that the block is at, and to the block's state.
func (l *loader) place(b *loading, r *record) {
	at, version := r.at(), b.state.Version+1
	p := board.Placement{
		Chunk: at.Chunk(), Tile: uint16(at.Tile()), Colour: r.colour(), Kind: board.KindImport, User: l.im.users[r.user()],
		Nonce: r.position(), AtMs: r.atMs(), SettingsVersion: 1, UserPrevious: l.newest[r.user()],
	}
	l.newest[r.user()] = board.Entry{Block: b.id, Version: version}
	b.maybe[r.user()/64%64] |= 1 << (r.user() % 64)
	chunk := b.state.Chunks[p.Chunk.Slot()]
	if chunk == nil {
		chunk = new(store.ChunkState)
		b.state.Chunks[p.Chunk.Slot()] = chunk
	}
	chunk.Sequence++
	p.Sequence, p.PreviousVersion = chunk.Sequence, chunk.Versions[p.Tile]
	chunk.Tiles[p.Tile], chunk.Versions[p.Tile] = p.Colour, version
	if b.pending == nil {
		b.pending = make([]board.Placement, 0, commitPlacements)
	}
	b.pending = append(b.pending, p)
}

// seal hands the block's commit to its committer.
func (l *loader) seal(b *loading) error {
	b.state.Version++
	clear(b.maybe[:])
	s := sealed{block: b.id, version: b.state.Version, commit: store.BlockCommit{Placements: b.pending}, written: b.state.Version == b.written}
	if b.state.Version < b.written {
		b.pending = b.pending[:0]
		return nil
	}
	b.pending = nil
	select {
	case l.queues[(b.id.Row()*31+b.id.Col())%loadersMax] <- s:
		return nil
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

// commits writes what was sealed until the queue is closed; after a failure it only empties it.
func (l *loader) commits(queue <-chan sealed) {
	var value []byte
	for s := range queue {
		if l.ctx.Err() != nil {
			continue
		}
		value = s.commit.AppendTo(value[:0])
		err := l.write(&s, value)
		if err != nil {
			l.cancel(fmt.Errorf("%v commit %d: %w", store.Block(s.block), s.version, err))
		}
	}
}

func (l *loader) write(s *sealed, value []byte) error {
	if s.written {
		for entry, err := range l.im.store.Journal(l.ctx, store.Block(s.block), s.version) {
			if err != nil {
				return err
			}
			if !bytes.Equal(entry.Value, value) {
				return ErrOtherImport
			}
		}
		return nil
	}
	return commit(l.ctx, l.im.store, &store.Commit{
		Partition: store.Block(s.block), Head: store.Head{Version: s.version, Attempt: attempt(), Owner: store.Owner{Address: importOwner, SettingsVersion: 1}},
		Rows: []store.Row{{Value: value}},
	})
}

// userRows writes each user's row, so that a walk through the user's placements begins at the newest. Nobody has a turn yet.
func (l *loader) userRows() error {
	byShard := make([][]uint32, board.UserShards)
	for number, user := range l.im.users {
		byShard[user.Shard()] = append(byShard[user.Shard()], uint32(number))
	}
	done := int64(0)
	for shard, users := range byShard {
		head, err := l.im.store.Head(l.ctx, store.Shard(shard))
		if err != nil {
			return err
		}
		for version := uint64(1); len(users) > 0; version++ {
			some := users[:min(len(users), store.CommitRowsMax)]
			users = users[len(some):]
			done += int64(len(some))
			l.im.progress(PhaseUsers, done, l.im.report.Users)
			if version <= head.Version {
				continue
			}
			if err := commit(l.ctx, l.im.store, l.userCommit(shard, version, some)); err != nil {
				return fmt.Errorf("%v commit %d: %w", store.Shard(shard), version, err)
			}
		}
	}
	return nil
}

func (l *loader) userCommit(shard int, version uint64, users []uint32) *store.Commit {
	c := &store.Commit{
		Partition: store.Shard(shard),
		Head:      store.Head{Version: version, Attempt: attempt(), Owner: store.Owner{Address: importOwner, SettingsVersion: 1}},
	}
	for _, number := range users {
		row := store.UserRow{Newest: l.newest[number]}
		c.Rows = append(c.Rows, store.Row{Key: string(l.im.users[number]), Value: row.AppendTo(nil)})
	}
	return c
}

func attempt() uint64 { return max(rand.Uint64(), 1) }

// commit makes a commit, and sends it again while its outcome is unknown.
func commit(ctx context.Context, st store.Store, c *store.Commit) error {
	for try := 1; ; try++ {
		result, err := st.Commit(ctx, c)
		switch {
		case err == nil && (result.Applied || result.Head.Attempt == c.Head.Attempt):
			return nil
		case err == nil:
			return errors.New("somebody else writes to the board")
		case !errors.Is(err, store.ErrUnknown) || try == commitTries || ctx.Err() != nil:
			return err
		}
		select {
		case <-time.After(commitPause):
		case <-ctx.Done():
		}
	}
}
