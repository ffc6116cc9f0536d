package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// BodyWait bounds how long a reader waits for the feed.
const BodyWait = 2 * time.Second

// bodyCache holds the newest encoded board body, made at most once a tick and only when somebody reads.
type bodyCache struct {
	mu     sync.Mutex // held by the one reader that asks the feed
	newest atomic.Pointer[cachedBody]
}

// cachedBody is a body with the version of the settings that the feed had at least when it made it.
type cachedBody struct {
	PublishedBody
	version uint64
}

// BoardBody returns the encoded board body (package wire, BoardBody) as of the newest frame, and that frame's tick. Nobody
// may change it. It is nil until every block is loaded, and when the feed does not answer.
func (s *System) BoardBody() (body []byte, tick uint64) {
	if b := s.newestBody(); b != nil {
		return b.Body, b.Tick
	}
	if s.blocksLoading() > 0 {
		return nil, 0
	}
	s.body.mu.Lock()
	defer s.body.mu.Unlock()
	if b := s.newestBody(); b != nil {
		return b.Body, b.Tick
	}
	version := s.bodyRules.Load()
	answer := make(chan PublishedBody, 1)
	s.post.toFeed(GetBody{Reply: func(b PublishedBody) { offer(answer, b) }})
	select {
	case b := <-answer:
		s.body.newest.Store(&cachedBody{b, version})
		return b.Body, b.Tick
	case <-time.After(BodyWait):
		return nil, 0
	}
}

// newestBody returns the body at hand if neither a frame nor new settings came since it was made.
func (s *System) newestBody() *cachedBody {
	if b := s.body.newest.Load(); b != nil && b.Tick == s.tick.Load() && b.version == s.bodyRules.Load() {
		return b
	}
	return nil
}

// Loaded tells whether every block is loaded: BoardBody has something to encode then.
func (s *System) Loaded() bool { return s.blocksLoading() == 0 }

func (s *System) blocksLoading() int {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	return len(s.state.blocks)
}

// frameMade notes the tick and the settings of the newest frame. Settings may change the body, by the board's size or
// palette, without a new tick.
func (s *System) frameMade(tick uint64, f *Feed) {
	s.bodyRules.Store(f.rules.Version())
	s.tick.Store(tick)
}

// chunk returns a chunk as the feed has it.
func (s *System) chunk(ctx context.Context, c board.ChunkID) (ChunkImage, bool) {
	answer := make(chan ChunkImage, 1)
	s.post.toFeed(GetTiles{Chunk: c, Reply: func(i ChunkImage) { offer(answer, i) }})
	select {
	case i := <-answer:
		return i, true
	case <-ctx.Done():
	case <-time.After(BodyWait):
	}
	return ChunkImage{}, false
}

// ChunkImage returns a chunk's sequence and packed image; false when the chunk does not meet the board or the feed does not
// answer.
func (s *System) ChunkImage(c board.ChunkID) (sequence uint64, width board.Width, image []byte, ok bool) {
	settings := s.post.rules.Load().Settings()
	if !c.Valid() || !settings.HasChunk(c) {
		return 0, 0, nil, false
	}
	found, ok := s.chunk(context.Background(), c)
	if !ok {
		return 0, 0, nil, false
	}
	tiles := found.Tiles
	if tiles == nil {
		tiles = new(board.Tiles)
	}
	width = settings.ColourWidth()
	return found.Sequence, width, tiles.AppendImage(nil, width), true
}

// ErrBounds says that a tile does not lie on the board.
var ErrBounds = errors.New("actors: tile outside the board")

// Tile tells who placed a tile and when: the block knows which of its commits placed the tile last, and the journal holds
// that commit, so the answer never contradicts the board (I6).
func (s *System) Tile(ctx context.Context, p board.Point) (board.TileDetails, error) {
	details := board.TileDetails{X: p.X, Y: p.Y}
	known, err := s.tileKnown(ctx, p)
	if err != nil {
		return details, err
	}
	details.Colour = known.Colour
	if known.Version == 0 {
		return details, nil
	}
	placement, err := placementAt(ctx, s.store, p, known.Version)
	if err != nil {
		s.storing.failed("read_tile", store.Block(p.Block()).String(), err)
		return details, fmt.Errorf("actors: tile %v: %w", p, err)
	}
	details.Placed, details.User, details.AtMs = true, placement.User, placement.AtMs
	details.Kind, details.Sequence = placement.Kind.String(), placement.Sequence
	return details, nil
}

// tileKnown asks the tile's block for its colour and the commit that placed it last.
func (s *System) tileKnown(ctx context.Context, p board.Point) (TileKnown, error) {
	if !s.post.rules.Load().Settings().Bounds().Contains(p) {
		return TileKnown{}, ErrBounds
	}
	answer := make(chan TileKnown, 1)
	s.post.toBlock(p.Block(), GetTile{At: p, Reply: func(k TileKnown) { offer(answer, k) }})
	select {
	case known := <-answer:
		if !known.OK {
			return known, fmt.Errorf("actors: tile %v: block is not loaded", p)
		}
		return known, nil
	case <-ctx.Done():
		return TileKnown{}, ctx.Err()
	}
}

// placementAt returns the last placement of a tile in one commit of its block.
func placementAt(ctx context.Context, st store.Store, p board.Point, version uint64) (*board.Placement, error) {
	for entry, err := range st.Journal(ctx, store.Block(p.Block()), version) {
		if err != nil {
			return nil, err
		}
		commit, err := store.DecodeBlockCommit(entry.Value)
		if err != nil {
			return nil, err
		}
		for i := len(commit.Placements) - 1; i >= 0; i-- {
			if c := &commit.Placements[i]; c.Point() == p {
				return c, nil
			}
		}
		break
	}
	return nil, fmt.Errorf("commit %d does not place the tile: %w", version, store.ErrCorrupt)
}

// watchers are those who hear of every placement.
type watchers struct {
	mu  sync.RWMutex // guards all
	all []func(placed []board.PlacedTile, lost bool)
}

func (w *watchers) any() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.all) > 0
}

func (w *watchers) tell(e TellWatchers) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, told := range w.all {
		told(e.Placed, e.Lost)
	}
}

// WatchPlacements calls told after each frame that shows something new, from this moment on and until the system stops, with
// the placements in it, each chunk's in their order. BoardBody shows them by then. Where the feed has seen only the result of
// several placements, each tile that differs comes once, without a user; lost says that not even those are known and the board
// has to be read anew. told is called by the feed: it must not block or ask for the board, and not keep placed.
func (s *System) WatchPlacements(told func(placed []board.PlacedTile, lost bool)) {
	s.watchers.mu.Lock()
	s.watchers.all = append(s.watchers.all, told)
	s.watchers.mu.Unlock()
	s.root.Send(s.post.feed, watchFeed{})
}

// Settings returns the newest settings of this node.
func (s *System) Settings() board.SettingsRecord { return s.post.rules.Load().Record }

// Epoch returns the board's epoch.
func (s *System) Epoch() uint64 { return s.meta.Epoch }

// Incarnation returns the process's random number.
func (s *System) Incarnation() uint64 { return s.node.Incarnation }

// Online returns how many people are connected to all nodes: each user once a node, each spectator connection once.
func (s *System) Online() int {
	online := s.people.count()
	s.peersNow(func(_ string, told *peerTold) { online += told.Online })
	return online
}

// people counts who is connected.
type people struct {
	mu         sync.Mutex // guards the fields below
	sessions   map[board.UserID]int
	spectators int
}

func (p *people) add(user board.UserID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if user == "" {
		p.spectators++
		return
	}
	if p.sessions == nil {
		p.sessions = map[board.UserID]int{}
	}
	p.sessions[user]++
}

func (p *people) remove(user board.UserID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if user == "" {
		p.spectators--
		return
	}
	if p.sessions[user]--; p.sessions[user] <= 0 {
		delete(p.sessions, user)
	}
}

func (p *people) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sessions) + p.spectators
}

func (p *people) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.spectators
	for _, sessions := range p.sessions {
		n += sessions
	}
	return n
}

// Readiness tells whether the node serves: every shard and every touched block is loaded, the clock is trusted and the store
// takes writes.
func (s *System) Readiness() board.Readiness {
	r := board.Readiness{Reasons: []string{}}
	say := func(format string, a ...any) { r.Reasons = append(r.Reasons, fmt.Sprintf(format, a...)) }
	s.state.mu.Lock()
	if n := len(s.state.blocks); n > 0 {
		say("%d blocks are loading", n)
	}
	waiting := 0
	for i, version := range s.state.shards {
		if version == 0 && s.post.router.ShardOwner(i) == s.node.Address {
			waiting++
		}
	}
	if waiting > 0 {
		say("%d shards are loading", waiting)
	}
	health := s.state.health
	s.state.mu.Unlock()
	if health.Err != nil {
		say("store: %v", health.Err)
	} else if health.Tight {
		say("store: only %d MiB are free: new placements are refused", health.FreeBytes>>20)
	}
	if _, trusted := s.guard.now(); !trusted {
		say("clock: the wall clock leapt ahead and is not trusted yet")
	}
	if s.clockOff.Load() {
		say("clock: more than %d ms from the other nodes' clocks: this node owns nothing until that is mended", MaxClockSkewMs)
	}
	if _, mono := s.guard.clock.Read(); s.strangerMs.Load() != 0 && mono-s.strangerMs.Load() < StrangerMs {
		say("node %s writes to this board and is no member: nodes of one board have to join each other", *s.strangerIs.Load())
	}
	if s.draining.Load() {
		say("draining")
	}
	r.Ready = len(r.Reasons) == 0
	return r
}
