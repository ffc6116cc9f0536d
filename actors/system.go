package actors

// In:  a decoded message of a session, from transport.
// Out: Place goes to the shard of the session's user, everything else to the session's subscriber.
// The System is the door of this package: it starts the actors of a node, routes to them and stops them. Who owns a user, here
// or elsewhere, is known to actors/router.go.
// Next: actors/user.go.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/wire"
)

// Config is what a System needs. All fields without a default must be set.
type Config struct {
	Node        Node
	Store       store.Store
	Router      Router  // nil: that of Network, or Alone
	Network     Network // nil: no other nodes
	Clock       Clock   // nil: the machine's
	Logger      *slog.Logger
	Metrics     prometheus.Registerer
	Version     string // of the program, for the status
	Subscribers int    // subscriber actors, 1 to 1024; one a processor by default
	TickMs      int    // between looks of the shards at what is overdue, 10 to 1000
	// Board is what a board that does not exist yet begins with.
	Board board.Settings
	// CrashPoint is called at every one of CrashPoints with its name, for tests that end the process there; nil: nothing is.
	CrashPoint func(point string)
}

// Times of a System.
const (
	ShardTickMs  = 100
	RegionTickMs = 250
	FeedPollMs   = 10
	SubscribeMs  = 250 // between looks of the subscribers at lagging sessions
	HealthMs     = 1000
	LoadsMax     = 16 // blocks loaded, or their snapshots written, at once
	DrainLookMs  = 20 // between looks at the open charges of a node that drains
	// OpenWait is how long a shard is waited for when its open charges are counted; a busy one counts as one.
	OpenWait = time.Second
)

// DefaultConfig returns a Config with every default set.
func DefaultConfig() Config {
	return Config{Clock: NewSystemClock(), Subscribers: runtime.GOMAXPROCS(0), TickMs: ShardTickMs, Board: board.DefaultSettings()}
}

// Validate returns what is missing or impossible.
func (c *Config) Validate() error {
	var errs []error
	if c.Store == nil || c.Logger == nil || c.Metrics == nil {
		errs = append(errs, errors.New("store, logger and metrics must be set"))
	}
	if c.Node.Address == "" || len(c.Node.Address) > store.OwnerAddressMax {
		errs = append(errs, fmt.Errorf("node address must have 1..%d bytes", store.OwnerAddressMax))
	}
	if c.Subscribers < 1 || c.Subscribers > 1024 {
		errs = append(errs, fmt.Errorf("%d subscribers are not within 1..1024", c.Subscribers))
	}
	if c.TickMs < 10 || c.TickMs > 1000 {
		errs = append(errs, fmt.Errorf("tick of %d ms is not within 10..1000", c.TickMs))
	}
	return errors.Join(append(errs, c.Board.Validate())...)
}

// System runs the actors of one node.
type System struct {
	config  Config
	node    Node
	store   store.Store
	log     *slog.Logger
	metrics *metrics
	guard   *clockGuard
	meta    store.Meta
	actors  *actor.ActorSystem
	root    *actor.RootContext
	post    *post
	storing *storing
	loads   *slots
	workers *workers
	ctx     context.Context
	stop    context.CancelFunc
	timers  sync.WaitGroup

	sessions    sessionTable
	lastSession atomic.Uint64
	people      people
	userProps   *actor.Props
	lives       atomic.Uint64               // of user cores
	generations [board.Shards]atomic.Uint64 // of the shards' memories, for users that start
	users       atomic.Int64                // user actors alive
	blocks      atomic.Int64                // blocks of the living regions
	tick        atomic.Uint64
	body        bodyCache
	watchers    watchers
	bodyRules   atomic.Uint64 // settings version of the feed
	refuse      atomic.Uint32 // board.Code
	draining    atomic.Bool
	state       systemState
	counted     []atomic.Pointer[SubscriberCounters]

	viewing    sync.Mutex // held while a new view is followed
	peers      peers
	digests    atomic.Int64 // where the next one begins
	clockOff   atomic.Bool
	strangerMs atomic.Int64 // monotonic, of the newest commit of a node that is no member
	strangerIs atomic.Pointer[string]
}

// systemState is what the actors report of themselves.
type systemState struct {
	mu     sync.Mutex             // guards the fields below
	blocks map[board.BlockID]bool // touched blocks that the feed has not heard of yet
	shards [board.Shards]uint64   // settings version in force
	older  [board.Shards]int      // open charges under older settings
	health store.Health
	begun  time.Time
}

// Start opens the board in the store, creating it when there is none, and starts the actors. The store stays the caller's
// to close, after Stop.
func Start(ctx context.Context, config Config) (*System, error) {
	if config.Router == nil && config.Network != nil {
		config.Router = newNetworkRouter(config.Network)
	} else if config.Router == nil {
		config.Router = Alone{config.Node.Address}
	}
	if config.Clock == nil {
		config.Clock = NewSystemClock()
	}
	if config.CrashPoint == nil {
		config.CrashPoint = func(string) {}
	}
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("actors: %w", err)
	}
	s := &System{
		config: config, node: config.Node, store: config.Store, log: config.Logger, metrics: newMetrics(config.Metrics),
		guard: newClockGuard(config.Clock), loads: newSlots(LoadsMax), workers: newWorkers(),
		counted: make([]atomic.Pointer[SubscriberCounters], config.Subscribers),
	}
	s.state.blocks, s.state.begun = map[board.BlockID]bool{}, time.Now()
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.storing = &storing{store: s.store, slots: newSlots(s.store.Capabilities().Slots), rows: newSlots(RowReadsMax), metrics: s.metrics, log: s.log, crash: config.CrashPoint, ctx: s.ctx}
	rules, err := s.openBoard(ctx)
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("actors: open board: %w", err)
	}
	blocks, err := s.store.Blocks(ctx)
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("actors: list blocks: %w", err)
	}
	for _, b := range blocks {
		s.state.blocks[b] = true
	}
	s.bodyRules.Store(rules.Version())
	s.spawn(rules)
	s.registerGauges(config.Metrics)
	s.startTimers()
	return s, nil
}

// OpenMeta returns what a store's board is, made first when the store is empty: the nodes of a cluster know each other by its
// epoch before they start. wallMs is the time, Unix milliseconds.
func OpenMeta(ctx context.Context, st store.Store, wallMs int64) (store.Meta, error) {
	meta, err := st.Meta(ctx)
	if !errors.Is(err, store.ErrNotFound) {
		return meta, err
	}
	meta = store.Meta{Format: store.FormatVersion, Epoch: rand.Uint64(), Shards: board.UserShards, CreatedAtMs: wallMs}
	if err = st.Create(ctx, meta); err != nil && !errors.Is(err, store.ErrExists) {
		return meta, err
	}
	return st.Meta(ctx)
}

// openBoard returns the rules of the board, made first when the store is empty.
func (s *System) openBoard(ctx context.Context) (*Rules, error) {
	wallMs, _ := s.guard.now()
	meta, err := OpenMeta(ctx, s.store, wallMs)
	if err != nil {
		return nil, err
	}
	s.meta = meta
	records, err := readSettings(ctx, s.store, 1)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		if records, err = s.firstSettings(ctx); err != nil {
			return nil, err
		}
	}
	var rules *Rules
	for _, r := range records {
		rules = rules.Next(r)
	}
	if rules.Settings().State == board.StateLoading {
		return nil, ErrLoading
	}
	return rules, nil
}

// ErrLoading says that an import or a restore has not ended: no actor starts on such a board.
var ErrLoading = errors.New("the board is being filled by an import or a restore that has not ended: run the same command again, or discard what it has left")

// firstSettings makes version 1 of the settings.
func (s *System) firstSettings(ctx context.Context) ([]board.SettingsRecord, error) {
	wallMs, _ := s.guard.now()
	first := board.SettingsRecord{Settings: s.config.Board, By: "placed", Why: "created", AtMs: wallMs}
	first.Version = 1
	value, err := store.EncodeSettings(first)
	if err != nil {
		return nil, err
	}
	c := committer{partition: store.Settings(), random: s.random, owner: store.Owner{Address: s.node.Address, Incarnation: s.node.Incarnation}}
	if _, err := s.store.Commit(ctx, c.seal(1, nil, []store.Row{{Value: value}})); err != nil {
		return nil, err
	}
	return readSettings(ctx, s.store, 1)
}

func (s *System) random() uint64 { return rand.Uint64() }

// spawn starts the actors: subscribers, feed, settings, shards. Regions are spawned at first use.
func (s *System) spawn(rules *Rules) {
	quiet := func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
	s.actors = actor.NewActorSystem(actor.WithLoggerFactory(quiet))
	s.root = s.actors.Root
	s.post = &post{
		root: s.root, node: s.node, router: s.config.Router, network: s.config.Network, metrics: s.metrics, regions: map[board.RegionID]*actor.PID{},
		waiterID: func() wire.SessionID { return wire.SessionID(s.lastSession.Add(1)) | waiterBit },
	}
	s.lastSession.Store(rand.Uint64() >> 2) // an answer for a session of an earlier process at this address finds nobody
	s.post.rules.Store(rules)
	s.post.spawnRegion = func(id board.RegionID) *actor.PID {
		return s.named("region-"+id.String(), func() actor.Actor { return newRegionActor(id, s) })
	}
	s.userProps = actor.PropsFromProducer(func() actor.Actor { return &userActor{sys: s} },
		actor.WithMailbox(actor.UnboundedLockfree()), actor.WithDispatcher(inline{}))
	// Every address is known before the first actor starts and sends.
	s.post.feed, s.post.settings = s.actors.NewLocalPID("feed"), s.actors.NewLocalPID("settings")
	for i := range board.Shards {
		s.post.shards = append(s.post.shards, s.actors.NewLocalPID(shardName(i)))
	}
	for i := range s.config.Subscribers {
		s.post.subscribers = append(s.post.subscribers, s.actors.NewLocalPID(subscriberName(i)))
	}
	s.named("settings", func() actor.Actor { return &settingsActor{sys: s} })
	s.named("feed", func() actor.Actor { return &feedActor{sys: s} })
	for i := range s.config.Subscribers { // after the feed, which tells them where every chunk stands
		conns := &connections{open: map[wire.SessionID]wire.Conn{}}
		s.named(subscriberName(i), func() actor.Actor { return &subscriberActor{index: i, sys: s, conns: conns} })
	}
	for i := range board.Shards {
		s.named(shardName(i), func() actor.Actor { return newShardActor(i, s) })
	}
}

// named spawns a top-level actor.
func (s *System) named(name string, producer func() actor.Actor) *actor.PID {
	panicked := supervision{s.log}
	pid, err := s.root.SpawnNamed(actor.PropsFromProducer(producer, actor.WithGuardian(panicked), actor.WithSupervisor(panicked),
		actor.WithDispatcher(s.workers)), name)
	if err != nil {
		panic(fmt.Sprintf("actors: spawn %s: %v", name, err)) // a name is used twice
	}
	return pid
}

// startTimers lets time pass in the actors.
func (s *System) startTimers() {
	every := func(ms int, do func()) {
		s.timers.Go(func() {
			t := time.NewTicker(time.Duration(ms) * time.Millisecond)
			defer t.Stop()
			for {
				select {
				case <-s.ctx.Done():
					return
				case <-t.C:
					do()
				}
			}
		})
	}
	every(s.config.TickMs, func() {
		for _, pid := range s.post.shards {
			s.root.Send(pid, Tick{})
		}
	})
	every(RegionTickMs, func() {
		for _, pid := range s.post.allRegions() {
			s.root.Send(pid, RegionTick{})
		}
	})
	every(FeedPollMs, func() { s.root.Send(s.post.feed, FeedTick{}) })
	every(SubscribeMs, func() { s.post.toSubscribers(SubscriberTick{Online: s.Online()}) })
	every(SettingsTickMs, func() { s.root.Send(s.post.settings, SettingsTick{}) })
	every(HealthMs, s.checkHealth)
	if s.config.Network != nil {
		every(DeltaMs, s.post.flushDeltas)
		every(NodeToldMs, s.tellPeers)
		s.timers.Go(s.awaitBlocks)
	}
	s.checkHealth()
}

// checkHealth decides whether new charges are refused for the whole node.
func (s *System) checkHealth() {
	h := s.store.Health(s.ctx)
	s.state.mu.Lock()
	before := s.state.health
	s.state.health = h
	s.state.mu.Unlock()
	if (before.Err == nil) != (h.Err == nil) || before.Tight != h.Tight {
		s.log.Warn("store health changed", "free_bytes", h.FreeBytes, "tight", h.Tight, "error", h.Err)
	}
	code := board.CodeOK
	switch {
	case s.draining.Load() && !s.OthersServe():
		code = board.CodeDraining
	case h.Err != nil || h.Tight:
		code = board.CodeStore
	}
	s.refuse.Store(uint32(code))
}

// refusing returns why the node charges nobody at the moment, or CodeOK.
func (s *System) refusing() board.Code { return board.Code(s.refuse.Load()) }

// announce gives newer settings to every actor of the node.
func (s *System) announce(rules *Rules) {
	old := s.post.rules.Load()
	if rules.Version() <= old.Version() {
		return
	}
	s.post.rules.Store(rules)
	for _, pid := range s.post.shards {
		s.root.Send(pid, SettingsMade{Rules: rules})
	}
	s.post.toFeed(FeedSettings{Rules: rules})
	resized := old.Settings().RegionSize != rules.Settings().RegionSize
	for id, pid := range s.post.allRegions() {
		if resized && id.Size != rules.Settings().RegionSize {
			s.post.forgetRegion(id)
			s.root.Send(pid, retireRegion{})
			continue
		}
		s.root.Send(pid, regionRules{rules})
	}
	if s.config.Network != nil {
		s.post.toPeers(nodeTold{SettingsVersion: rules.Version()})
	}
	s.log.Info("settings changed", "version", rules.Version(), "by", rules.Record.By, "why", rules.Record.Why)
}

func (s *System) problem(what string, err error) {
	s.metrics.problems.Inc()
	s.log.Error("stored data could not be used", "what", what, "error", err)
}

// touchBlocks has every block with placements loaded and announced to a feed that starts. It asks until the store answers.
func (s *System) touchBlocks() {
	for {
		ctx, cancel := context.WithTimeout(s.ctx, ReadTimeout)
		blocks, err := s.store.Blocks(ctx)
		cancel()
		if err == nil {
			for _, b := range blocks {
				s.post.toBlock(b, TouchBlock{Block: b})
			}
			return
		}
		s.storing.failed("list_blocks", "the board", err)
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(LoadRetryMs * time.Millisecond):
		}
	}
}

func (s *System) blockReady(b board.BlockID) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	delete(s.state.blocks, b)
}

func (s *System) inForce(e ShardInForce) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.shards[e.Shard], s.state.older[e.Shard] = e.Version, e.OpenOlder
}

// Drain gives up what the node owns, or, when no other node can take it, refuses new placements; it waits until nothing is
// open here or ctx ends. Asking the sessions to move is transport's.
func (s *System) Drain(ctx context.Context) {
	s.draining.Store(true)
	if s.config.Network != nil {
		s.config.Network.Serve(false)
	}
	s.checkHealth()
	for ctx.Err() == nil && s.openCharges() > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(DrainLookMs * time.Millisecond):
		}
	}
}

// Stop writes snapshots of what changed and stops the actors. Placements in flight that have no answer yet get none from
// here: clients send them again.
func (s *System) Stop(ctx context.Context) {
	regions := s.post.allRegions()
	left := make(chan struct{}, len(regions))
	for _, pid := range regions {
		s.root.Send(pid, SnapshotBlocks{Reply: func() { left <- struct{}{} }})
	}
	for range regions {
		select {
		case <-left:
		case <-ctx.Done():
		}
	}
	s.stop()
	s.timers.Wait()
	for _, pid := range s.post.allRegions() {
		s.root.Stop(pid)
	}
	for _, pid := range s.post.shards {
		s.root.Stop(pid)
	}
	for _, pid := range append(s.post.subscribers, s.post.feed, s.post.settings) {
		s.root.Stop(pid)
	}
	s.actors.Shutdown()
	s.workers.close()
}
