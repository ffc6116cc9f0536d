package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/placed-board/placed/actors"
	"github.com/placed-board/placed/archive"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client/web"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/cassandra"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/transport"
)

// Times of a stop.
const (
	drainTimeout = 10 * time.Second
	stopTimeout  = 10 * time.Second // to write snapshots
	cutTimeout   = time.Second      // the same, when the drain has used up its time: what hangs then, as on a full disk, goes on hanging
	openTimeout  = 60 * time.Second
)

type serveCommand struct {
	Listen      string `default:"localhost:8080" help:"Address of the public listener."`
	AdminListen string `default:"localhost:8081" help:"Address of the operators' listener; empty for none."`
	DataDir     string `default:"./placed-data" type:"path" help:"Directory of the embedded store, the admin token and the session key."`

	Store             string   `default:"pebble" enum:"pebble,cassandra,mem" help:"Where the board is kept: ${enum}. mem loses it at the end."`
	CassandraHosts    []string `default:"127.0.0.1:9042" help:"Contact points."`
	CassandraKeyspace string   `default:"placed" help:"Keyspace of the board."`
	CreateSchema      bool     `help:"Create the keyspace and the tables before serving, if they are missing."`

	clusterFlags `embed:"" group:"Several nodes on Cassandra:"`
	faceFlags    `embed:"" group:"Signing in and the way here:"`

	Width      int           `default:"1000" group:"A board that does not exist yet:" help:"Tiles, 1 to 10000."`
	Height     int           `default:"1000" group:"A board that does not exist yet:" help:"Tiles, 1 to 10000."`
	Cooldown   time.Duration `default:"5m" group:"A board that does not exist yet:" help:"Between two tiles of a user, 0 to 24h."`
	RegionSize int           `default:"100" group:"A board that does not exist yet:" help:"Tiles, a multiple of 100."`

	Unlimited             []addresses `default:"127.0.0.0/8,::1/128" group:"Limits:" help:"Addresses and prefixes that no limit is for."`
	ConnectionsPerAddress int         `default:"64" group:"Limits:" help:"Open connections of one address (IPv6: a /64)."`
	RequestsPerSecond     int         `default:"100" group:"Limits:" help:"HTTP requests of one address."`
	SignInsPerHour        int         `default:"100" group:"Limits:" help:"New guests of one IPv4 /24 or IPv6 /48."`
	MessagesPerSecond     int         `default:"20" group:"Limits:" help:"Messages of one session."`
	SessionsMax           int         `default:"100000" group:"Limits:" help:"Sessions of this node."`

	AllowedOrigins []string `help:"Origins besides the own host that may open sessions, as https://example.org."`
	BasePath       string   `help:"Path below which everything public is served, as /board; a proxy passes it on unchanged."`
	EmbedOrigins   []string `help:"Origins whose pages may show the board in a frame, as https://example.org."`
	SecureCookies  bool     `help:"Mark cookies as fit for TLS only: set it when people come through a TLS proxy."`
	PublicMetrics  bool     `help:"Serve /metrics on the public listener too."`
	LogLevel       string   `default:"info" enum:"debug,info,warn,error" help:"${enum}."`
}

// Run serves until SIGTERM or an interrupt, then parts from everybody in peace.
func (c *serveCommand) Run(ctx context.Context, s *streams) error {
	for {
		again, err := c.live(ctx, s)
		if err != nil || !again || ctx.Err() != nil {
			return err
		}
	}
}

// live is one life of the node, from opening the store to closing it. again says that another is to follow, with the board that
// replaces this one.
func (c *serveCommand) live(ctx context.Context, s *streams) (again bool, err error) {
	log := c.logger(s)
	initial, err := c.board()
	if err != nil {
		return false, err
	}
	if err := errors.Join(c.checkAddresses(), c.checkCluster(c.Store)); err != nil {
		return false, err // before anything is written
	}
	config, err := c.transportConfig()
	if err != nil {
		return false, err
	}
	st, err := c.openStore(ctx, log)
	if err != nil {
		return false, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	actorsConfig := actors.DefaultConfig()
	actorsConfig.Node = actors.Node{ID: xxhash.Sum64String(c.Listen), Address: c.Listen, Incarnation: rand.Uint64()}
	if c.Store != "cassandra" {
		actorsConfig.Node.ID, actorsConfig.Node.Address = 1, "alone" // an embedded store has one node, wherever it listens
	}
	actorsConfig.Store, actorsConfig.Logger, actorsConfig.Metrics = st, log, registry
	actorsConfig.Board, actorsConfig.Version, actorsConfig.CrashPoint = initial, version(), crashPoint()
	net, err := c.joinCluster(ctx, &actorsConfig)
	if err != nil {
		return false, errors.Join(err, st.Close())
	}
	defer net.leave()
	system, err := actors.Start(ctx, actorsConfig)
	if err != nil {
		return false, errors.Join(err, st.Close())
	}
	net.serveWith(system)
	keeper := &keeper{dir: c.DataDir, store: st, system: system, log: log, again: make(chan struct{}, 1)}
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	deps := transport.Deps{
		Sessions: system, Placer: system, Board: system, Admin: system, Fleet: system, Drain: drain, History: system,
		Past: archive.NewPast(st, system.SettingsHistory), Keeper: keeper, Exporter: exporter{st}, Log: log, Registry: registry,
		Face: face2017(config, system, registry),
	}
	closeInvites, err := c.openInvites(ctx, st, actorsConfig.Node, &deps)
	defer closeInvites()
	var server *transport.Server
	if err == nil {
		server, err = transport.New(config, deps)
	}
	if err == nil {
		err = c.listen(server)
	}
	if err != nil {
		system.Stop(context.Background())
		return false, errors.Join(err, st.Close())
	}
	c.announce(s, server, system)
	net.announce(s)
	err = c.serve(ctx, server, keeper)
	c.stay(server)
	return len(keeper.again) > 0, err
}

// stay keeps the ports that the kernel chose for the next life.
func (c *serveCommand) stay(server *transport.Server) {
	c.Listen = server.Addr().String()
	if a := server.AdminAddr(); a != nil {
		c.AdminListen = a.String()
	}
}

// serve runs until ctx ends or the board is replaced, then drains: whatever is in flight gets its answer, or an honest "unknown,
// send it again".
func (c *serveCommand) serve(ctx context.Context, server *transport.Server, k *keeper) error {
	log, system, st := k.log, k.system, k.store
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-k.again:
			k.again <- struct{}{} // live looks at it
			cancel()
		case <-over.Done():
		}
	}()
	failed := make(chan error, 1)
	go func() { failed <- server.Run(context.Background()) }()
	var err error
	patience := stopTimeout
	select {
	case err = <-failed:
	case <-over.Done():
		log.Info("stopping", "timeout", drainTimeout)
		drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			system.Drain(drain)
		}()
		if err := server.Drain(drain); err != nil {
			log.Warn("drain was cut short", "error", err)
		}
		<-drained
		if drain.Err() != nil {
			patience = cutTimeout
		}
	}
	err = errors.Join(err, server.Close())
	stop, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	system.Stop(stop)
	return errors.Join(err, st.Close())
}

// listen binds both addresses; an error names the flag to change.
func (c *serveCommand) listen(server *transport.Server) error {
	err := server.Listen()
	if err == nil {
		return nil
	}
	flag := "--listen"
	if errors.Is(err, transport.ErrAdminListen) {
		flag = "--admin-listen"
	}
	return fmt.Errorf("%w; is another placed running? Choose another address with %s", err, flag)
}

// addresses is a prefix of addresses; a bare address stands for itself alone.
type addresses struct{ netip.Prefix }

// UnmarshalText reads "10.0.0.0/8", "10.0.0.1" or "::1".
func (a *addresses) UnmarshalText(text []byte) error {
	if address, err := netip.ParseAddr(string(text)); err == nil {
		address = address.Unmap().WithZone("")
		a.Prefix = netip.PrefixFrom(address, address.BitLen())
		return nil
	}
	return a.Prefix.UnmarshalText(text)
}

func prefixes(list []addresses) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range list {
		out = append(out, a.Prefix)
	}
	return out
}

// checkAddresses refuses addresses that nobody can listen on.
func (c *serveCommand) checkAddresses() error {
	for _, a := range []struct{ flag, address string }{{"--listen", c.Listen}, {"--admin-listen", c.AdminListen}} {
		if a.flag == "--admin-listen" && a.address == "" {
			continue
		}
		_, port, err := net.SplitHostPort(a.address)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return usageError{fmt.Errorf("%s %s: %w", a.flag, a.address, err)}
		}
	}
	if _, port, _ := net.SplitHostPort(c.Listen); c.Listen == c.AdminListen && port != "0" {
		return usageError{fmt.Errorf("--listen and --admin-listen are both %s", c.Listen)}
	}
	return nil
}

func (c *serveCommand) logger(s *streams) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level = slog.LevelInfo // the parser lets only the names of levels through
	}
	return slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level}))
}

// board returns what a board that does not exist yet begins with.
func (c *serveCommand) board() (board.Settings, error) {
	b := board.DefaultSettings()
	b.Width, b.Height, b.RegionSize = c.Width, c.Height, c.RegionSize
	var err error
	if b.CooldownMs, err = wholeMs("cooldown", c.Cooldown); err != nil {
		return b, err
	}
	if err := b.Validate(); err != nil {
		return b, usageError{fmt.Errorf("impossible board: %w", err)}
	}
	return b, nil
}

// wholeMs returns a duration in milliseconds; one that is not a whole number of them is a usage error.
func wholeMs(name string, d time.Duration) (int64, error) {
	if d%time.Millisecond != 0 {
		return 0, usageError{fmt.Errorf("%s %v is not a whole number of milliseconds", name, d)}
	}
	return d.Milliseconds(), nil
}

// openStore opens the chosen store, after creating its tables when asked to.
func (c *serveCommand) openStore(ctx context.Context, log *slog.Logger) (store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	switch c.Store {
	case "mem":
		return mem.New(), nil
	case "cassandra":
		config := cassandra.DefaultConfig()
		config.Hosts, config.Keyspace, config.Log = c.CassandraHosts, c.CassandraKeyspace, log
		if c.CreateSchema {
			if err := cassandra.CreateSchema(ctx, config); err != nil {
				return nil, err
			}
		}
		return asStore(cassandra.Open(ctx, config))
	default:
		return asStore(openHome(c.DataDir, log))
	}
}

// asStore turns a store of a concrete type into a Store, and a nil one with an error into a nil Store.
func asStore[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// transportConfig returns the outer face's settings, with the secrets of the data directory or the environment. What is
// impossible is refused before anything is written.
func (c *serveCommand) transportConfig() (transport.Config, error) {
	config := transport.DefaultConfig()
	config.Listen, config.AdminListen, config.Version, config.Web = c.Listen, c.AdminListen, version(), web.FS()
	config.Unlimited, config.ConnectionsPerAddress = prefixes(c.Unlimited), c.ConnectionsPerAddress
	config.RequestsPerSecond, config.SignInsPerHour = c.RequestsPerSecond, c.SignInsPerHour
	config.MessagesPerSecond, config.SessionsMax = c.MessagesPerSecond, c.SessionsMax
	config.BasePath, config.EmbedOrigins = c.BasePath, c.EmbedOrigins
	config.AllowedOrigins, config.SecureCookies, config.PublicMetrics = c.AllowedOrigins, c.SecureCookies, c.PublicMetrics
	if err := c.faceFlags.apply(&config); err != nil {
		return config, err
	}
	config.AdminToken, config.SessionKey = strings.Repeat("0", transport.AdminTokenBytesMin), make([]byte, transport.SessionKeyBytes)
	if err := config.Validate(); err != nil {
		return config, usageError{err}
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return config, fmt.Errorf("data directory: %w", err)
	}
	var err error
	if config.AdminToken, err = adminToken(c.DataDir); err != nil {
		return config, err
	}
	if config.SessionKey, err = sessionKey(c.DataDir); err != nil {
		return config, err
	}
	return config, config.Validate() // the secrets may be too short
}

func buildInfo() prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "placed_build_info", Help: "Always 1."}, []string{"version"})
	g.WithLabelValues(version()).Set(1)
	return g
}
