package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/hashicorp/memberlist"
)

// Cluster is this node's part in the cluster.
type Cluster struct {
	config  Config
	address string
	metrics *metrics
	system  *actor.ActorSystem // of the remote package alone
	remote  *remote.Remote
	gate    *gate
	list    *memberlist.Memberlist
	keyring *memberlist.Keyring

	state      atomic.Uint32 // State of this node
	view       atomic.Pointer[View]
	kick       chan struct{} // of one: look at the members
	strangerAt atomic.Int64  // when one was logged last
	ctx        context.Context
	stop       context.CancelFunc
	running    sync.WaitGroup

	looking sync.Mutex // held while a view is made and told

	gossip string // address of the own gossip listener

	mu     sync.Mutex        // guards the fields below
	others map[string]Member // alive, by name, as memberlist told: its own records change under its lock
	seen   map[string]bool
}

// Start listens, and joins the others as a member that does not serve yet. Nobody there is no error: Start goes on trying. A
// node of another board or protocol at an address to join is one.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c := &Cluster{config: config, metrics: newMetrics(config.Metrics), kick: make(chan struct{}, 1), seen: map[string]bool{}, others: map[string]Member{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.view.Store(&View{})
	c.gate = newGate(c)
	if err := c.startRemote(); err != nil {
		c.stop()
		return nil, err
	}
	if err := c.startGossip(); err != nil {
		c.close()
		return nil, err
	}
	if err := c.joinMissing(ctx); errors.Is(err, ErrOtherBoard) || errors.Is(err, ErrOtherProtocol) {
		c.close()
		return nil, err
	}
	c.look()
	c.running.Go(c.watch)
	c.running.Go(c.rejoin)
	c.running.Go(c.feelPauses)
	return c, nil
}

func (c *Cluster) startGossip() error {
	m := memberlist.DefaultLANConfig()
	host, port, err := net.SplitHostPort(c.config.GossipListen)
	if err != nil {
		return err
	}
	if m.BindPort, err = strconv.Atoi(port); err != nil {
		return err
	}
	bind, err := resolveOne(host)
	if err != nil {
		return err
	}
	m.Name, m.BindAddr, m.AdvertisePort = c.address, bind, m.BindPort
	if c.config.Advertise != "" {
		if m.AdvertiseAddr, err = resolveOne(c.config.Advertise); err != nil {
			return err
		}
	}
	m.ProbeInterval, m.ProbeTimeout, m.GossipInterval = c.config.ProbeInterval, c.config.ProbeTimeout, c.config.GossipInterval
	m.SuspicionMult, m.SuspicionMaxTimeoutMult, m.TCPTimeout = c.config.SuspicionMult, 2, joinTimeout
	m.GossipToTheDeadTime, m.DeadNodeReclaimTime, m.PushPullInterval = wakeTold, reclaimAfter, pushPullEvery
	if len(c.config.Keys) > 0 {
		if c.keyring, err = memberlist.NewKeyring(c.config.Keys, c.config.Keys[0]); err != nil {
			return fmt.Errorf("cluster: gossip keys: %w", err)
		}
		m.Keyring = c.keyring
	}
	d := delegate{c}
	m.Delegate, m.Events, m.Alive, m.Merge, m.Conflict = d, d, d, d, d
	m.Logger = newGossipLog(c)
	if c.list, err = memberlist.Create(m); err != nil {
		return fmt.Errorf("cluster: listen for gossip on %s: %w", c.config.GossipListen, err)
	}
	c.gossip = c.list.LocalNode().Address()
	return nil
}

// resolveOne returns an IP address of a host; "" stands for every interface.
func resolveOne(host string) (string, error) {
	if host == "" {
		return "0.0.0.0", nil
	}
	if net.ParseIP(host) != nil {
		return host, nil
	}
	ip, err := net.ResolveIPAddr("ip", host)
	if err != nil {
		return "", fmt.Errorf("cluster: %w", err)
	}
	return ip.String(), nil
}

// Address returns where other nodes reach this one. It names the node.
func (c *Cluster) Address() string { return c.address }

// GossipAddress returns the host:port that others may join.
func (c *Cluster) GossipAddress() string { return c.gossip }

// View returns the newest view.
func (c *Cluster) View() *View { return c.view.Load() }

// Send lets a payload wait for the next packet to a node and reports whether it will be sent; it may be lost all the same. It
// never blocks and does not keep the payload.
func (c *Cluster) Send(to string, payload []byte) bool { return c.gate.send(to, payload) }

// SetState tells the others what this node does. It returns when the change is on its way, or ctx ends.
func (c *Cluster) SetState(ctx context.Context, s State) {
	if State(c.state.Swap(uint32(s))) == s {
		return
	}
	c.look()
	timeout := leaveTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Millisecond, time.Until(deadline)))
	}
	if err := c.list.UpdateNode(timeout); err != nil {
		c.config.Logger.Warn("not everybody may have heard of this node's state yet", "state", s.String(), "error", err)
	}
}

// SetKeys replaces the gossip keys: the first for sending, all for reading. A cluster without keys cannot get some.
func (c *Cluster) SetKeys(keys [][]byte) error {
	if c.keyring == nil || len(keys) == 0 {
		return errors.New("cluster: gossip keys cannot come or go while the node runs: restart it")
	}
	for _, key := range keys {
		if err := c.keyring.AddKey(key); err != nil {
			return fmt.Errorf("cluster: gossip key: %w", err)
		}
	}
	if err := c.keyring.UseKey(keys[0]); err != nil {
		return fmt.Errorf("cluster: gossip key: %w", err)
	}
	for _, old := range c.keyring.GetKeys() {
		if !slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(key, old) }) {
			if err := c.keyring.RemoveKey(old); err != nil {
				return fmt.Errorf("cluster: gossip key: %w", err)
			}
		}
	}
	return nil
}

// Leave says goodbye and stops. The caller has given up what it owns before.
func (c *Cluster) Leave() {
	if err := c.list.Leave(leaveTimeout); err != nil {
		c.config.Logger.Warn("the others may take this node for dead instead of gone", "error", err)
	}
	c.close()
}

// close stops without a word.
func (c *Cluster) close() {
	c.stop()
	c.gate.close()
	if c.list != nil {
		if err := c.list.Shutdown(); err != nil {
			c.config.Logger.Warn("gossip did not stop in peace", "error", err)
		}
	}
	c.running.Wait()
	if c.remote != nil {
		for _, m := range c.View().Members { // closes our ends of the connections
			c.system.EventStream.Publish(&remote.EndpointTerminatedEvent{Address: m.Address})
		}
		c.remote.Shutdown(false)
		c.system.Shutdown()
	}
}

// watch keeps the view new.
func (c *Cluster) watch() {
	again := time.NewTicker(viewEvery)
	defer again.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.kick:
		case <-again.C:
		}
		c.look()
	}
}

// look makes a new view if anything has changed, and tells of it.
func (c *Cluster) look() {
	c.looking.Lock()
	defer c.looking.Unlock()
	own := c.ownMeta()
	members := []Member{{Address: c.address, Gossip: c.gossip, Incarnation: own.Incarnation, State: own.State}}
	c.mu.Lock()
	for _, m := range c.others {
		members = append(members, m)
	}
	c.mu.Unlock()
	old := c.View()
	v := newView(old.Number+1, members)
	if v.same(old) {
		return
	}
	c.view.Store(v)
	c.gate.viewChanged(v)
	c.metrics.views.Inc()
	counts := map[State]int{}
	for i := range v.Members {
		counts[v.Members[i].State]++
	}
	for _, state := range []State{Joining, Serving, Draining} {
		c.metrics.members.WithLabelValues(state.String()).Set(float64(counts[state]))
	}
	c.config.Logger.Info("members changed", "view", v.Number, "serving", counts[Serving], "joining", counts[Joining], "draining", counts[Draining])
	if c.config.Changed != nil {
		c.config.Changed(v)
	}
}

// feelPauses finds out that the process stood still: stopped, starved, or its machine suspended.
func (c *Cluster) feelPauses() {
	tick := time.NewTicker(pauseTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		// The monotonic clock stands still while a machine is suspended, the wall clock does not.
		gap := max(now.Sub(last), now.Round(0).Sub(last.Round(0))) - pauseTick
		last = now
		if gap < c.config.PausedAfter {
			continue
		}
		c.metrics.pauses.Inc()
		c.config.Logger.Warn("this process stood still", "for", gap.Round(time.Millisecond))
		if c.config.Paused != nil {
			c.config.Paused(gap)
		}
	}
}

func (c *Cluster) ownMeta() meta {
	return meta{Board: c.config.Board, Protocol: c.config.Protocol, Incarnation: c.config.Incarnation, State: State(c.state.Load())}
}
