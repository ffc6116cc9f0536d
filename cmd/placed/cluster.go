package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/placed-board/placed/actors"
	"github.com/placed-board/placed/cluster"
)

// clusterFlags are those of a node among others.
type clusterFlags struct {
	GossipListen string   `help:"Address of gossip between nodes, as 10.0.0.1:7946, UDP and TCP; empty for a node alone."`
	RemoteListen string   `default:"localhost:7947" help:"Address of messages between nodes."`
	Advertise    string   `help:"Host under which the other nodes reach both (default: the host of the listeners)."`
	Join         []string `placeholder:"HOST:PORT,..." help:"Gossip addresses of other nodes; a DNS name stands for all its addresses. Nodes start in any order."`
	GossipKeys   string   `type:"path" help:"File with gossip keys, one a line, base64 or hexadecimal; the first sends, all read. SIGHUP reads it again."`
	ClusterCert  string   `type:"path" help:"Certificate of this node for messages between nodes, PEM; read at every handshake."`
	ClusterKey   string   `type:"path" help:"Key of that certificate."`
	ClusterCA    string   `name:"cluster-ca" type:"path" help:"Authority that signs the nodes' certificates."`
	ClusterName  string   `default:"placed" help:"DNS name that every node's certificate is for."`
	Insecure     bool     `help:"Let nodes talk off the loopback interface without keys and certificates: whoever reaches the ports may then join."`
}

// checkCluster refuses flags that do not go together, before anything is written.
func (c *clusterFlags) checkCluster(storeName string) error {
	several := c.GossipListen != "" || len(c.Join) > 0
	switch {
	case several && storeName != "cassandra":
		return usageError{fmt.Errorf("--store %s keeps a board for one node alone, so it cannot join others: several nodes share a board through --store cassandra", storeName)}
	case len(c.Join) > 0 && c.GossipListen == "":
		return usageError{errors.New("--join needs --gossip-listen, the address under which this node gossips itself")}
	case (c.ClusterCert == "") != (c.ClusterKey == "") || (c.ClusterCert == "") != (c.ClusterCA == ""):
		return usageError{errors.New("--cluster-cert, --cluster-key and --cluster-ca belong together")}
	}
	return nil
}

// node is this process's part in a cluster; nil for a node alone, whose methods do nothing.
type node struct {
	*cluster.Cluster
	log      *slog.Logger
	keysFile string
	system   atomic.Pointer[actors.System]
	peers    atomic.Pointer[seenPeers]
	stop     context.CancelFunc
}

// joinCluster joins the others before the actors start, so that their first view is right, and puts the cluster into the
// actors' settings. Without --gossip-listen there is none.
func (c *clusterFlags) joinCluster(ctx context.Context, a *actors.Config) (*node, error) {
	if c.GossipListen == "" {
		return nil, nil
	}
	meta, err := actors.OpenMeta(ctx, a.Store, time.Now().UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("open the board: %w", err)
	}
	n := &node{log: a.Logger, keysFile: c.GossipKeys}
	config := cluster.DefaultConfig()
	config.GossipListen, config.RemoteListen, config.Advertise, config.Join, config.Insecure = c.GossipListen, c.RemoteListen, c.Advertise, c.Join, c.Insecure
	config.Board, config.Protocol, config.Incarnation = fmt.Sprintf("%016x", meta.Epoch), actors.EnvelopeVersion, a.Node.Incarnation
	config.Logger, config.Metrics = a.Logger, a.Metrics
	if c.GossipKeys != "" {
		if config.Keys, err = cluster.ReadKeys(c.GossipKeys); err != nil {
			return nil, err
		}
	}
	if c.ClusterCert != "" {
		if config.TLS, err = cluster.LoadTLS(c.ClusterCert, c.ClusterKey, c.ClusterCA, c.ClusterName); err != nil {
			return nil, err
		}
	}
	// What comes before the actors are there is lost, and sent again.
	config.Receive = func(from string, payload []byte) {
		if s := n.system.Load(); s != nil {
			s.Deliver(from, payload)
		}
	}
	config.Changed = func(*cluster.View) {
		if s := n.system.Load(); s != nil {
			s.ViewChanged()
		}
	}
	config.Paused = func(gap time.Duration) {
		if s := n.system.Load(); s != nil {
			s.Paused(gap)
		}
	}
	if n.Cluster, err = cluster.Start(ctx, config); err != nil {
		return nil, err
	}
	a.Network, a.Node.Address, a.Node.ID = n, n.Address(), xxhash.Sum64String(n.Address())
	return n, nil
}

// serveWith lets the actors have what the cluster brings, and the others know that this node serves.
func (n *node) serveWith(s *actors.System) {
	if n == nil {
		return
	}
	n.system.Store(s)
	s.ViewChanged() // as it was before the actors listened
	n.Serve(true)
	if n.keysFile == "" {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangup)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				n.readKeys()
			}
		}
	}()
}

// readKeys takes the gossip keys that the file holds now.
func (n *node) readKeys() {
	keys, err := cluster.ReadKeys(n.keysFile)
	if err == nil {
		err = n.SetKeys(keys)
	}
	if err != nil {
		n.log.Error("the gossip keys stay as they were", "error", err)
		return
	}
	n.log.Info("gossip keys read again", "keys", len(keys))
}

// leave parts from the cluster.
func (n *node) leave() {
	if n == nil {
		return
	}
	if n.stop != nil {
		n.stop()
	}
	n.Leave()
}

// announce prints where others join.
func (n *node) announce(s *streams) {
	if n != nil {
		fmt.Fprintf(s.out, "  cluster    gossip %s, messages %s, %d members (placed ctl cluster status)\n", n.GossipAddress(), n.Address(), len(n.Peers()))
	}
}

// Owner implements actors.Network.
func (n *node) Owner(key string) string { return n.View().Owner(key) }

// Serve implements actors.Network.
func (n *node) Serve(on bool) {
	state := cluster.Draining
	if on {
		state = cluster.Serving
	}
	n.SetState(context.Background(), state)
}

// seenPeers are the peers of one view.
type seenPeers struct {
	view  *cluster.View
	peers []actors.Peer
}

// Peers implements actors.Network.
func (n *node) Peers() []actors.Peer {
	v := n.View()
	if seen := n.peers.Load(); seen != nil && seen.view == v {
		return seen.peers
	}
	seen := &seenPeers{view: v}
	for _, m := range v.Members {
		seen.peers = append(seen.peers, actors.Peer{Address: m.Address, Incarnation: m.Incarnation, Serving: m.State == cluster.Serving})
	}
	n.peers.Store(seen)
	return seen.peers
}
