package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says how a node takes part. All fields without a default must be set.
type Config struct {
	GossipListen string // host:port, UDP and TCP; port 0 takes a free one
	RemoteListen string // host:port of messages between nodes
	// Advertise is the host under which others reach both listeners; "" for the host that they listen on.
	Advertise string
	// Join are host:port of nodes' gossip listeners. A DNS name stands for all its addresses and is looked up again and again.
	Join []string

	Board       string // what the members have in common, at most boardBytesMax bytes; others are refused
	Protocol    uint16 // version of the payloads; members with another one are refused
	Incarnation uint64 // random, of this run of the process

	// Keys encrypt gossip, 16, 24 or 32 bytes each: the first for sending, all for reading. None: gossip is readable.
	Keys [][]byte
	// TLS of the messages between nodes, both ways; nil: none.
	TLS *TLS
	// Insecure permits listeners off the loopback interface without Keys or TLS.
	Insecure bool

	ProbeInterval  time.Duration // between probes of a random member; a missing answer makes it suspect
	ProbeTimeout   time.Duration // of one probe
	SuspicionMult  int           // a suspect that does not speak up for about so many ProbeIntervals is dead
	GossipInterval time.Duration
	RejoinEvery    time.Duration // between tries to reach those of Join who are no members
	PausedAfter    time.Duration // a gap of the node's own clock ticks that counts as a pause
	Linger         time.Duration // how long a message may wait for others to the same node
	PeerBytesMax   int           // bytes that wait for one node; further messages are dropped and counted

	Logger  *slog.Logger
	Metrics prometheus.Registerer

	// Receive gets each payload from another node, one at a time. It must not block or keep the payload.
	Receive func(from string, payload []byte)
	// Changed gets every new view, one at a time. May be nil.
	Changed func(*View)
	// Paused hears that the process stood still for so long. May be nil.
	Paused func(gap time.Duration)
}

// Limits of a Config and of what is exchanged.
const (
	boardBytesMax   = 64
	addressBytesMax = 128
	joinMax         = 64
	joinTimeout     = 2 * time.Second // of one address
	leaveTimeout    = 2 * time.Second // until the others must have heard a leave
	pauseTick       = 100 * time.Millisecond
	viewEvery       = 2 * time.Second // between looks at the members besides those at every event
	seenMax         = 64              // gossip addresses of former members that are tried again
	gossipLogEvery  = time.Second     // between log lines about gossip's troubles
	messageBytesMax = 64 << 20        // of one gRPC message
	writerBatch     = 4               // packets of one gRPC message
	writerQueue     = 64              // packets that a new connection has room for without growing; PeerBytesMax bounds it
	keepaliveEvery  = 5 * time.Second
	keepaliveWait   = 3 * time.Second
	wakeTold        = 30 * time.Second      // how long the dead are still gossiped to, so that a node that wakes up hears of it
	reclaimAfter    = time.Millisecond      // then a node that restarts at another address has its old name
	pushPullEvery   = 10 * time.Second      // between whole exchanges with a random member
	redialMin       = 50 * time.Millisecond // between tries to connect to a node, doubling
	redialMax       = time.Second
)

// DefaultConfig returns a Config with the shipped settings (docs/adr/0011-gossip-and-one-packet-type.md).
func DefaultConfig() Config {
	return Config{
		GossipListen: "127.0.0.1:7946", RemoteListen: "127.0.0.1:7947",
		ProbeInterval: 300 * time.Millisecond, ProbeTimeout: 200 * time.Millisecond, SuspicionMult: 3, GossipInterval: 50 * time.Millisecond,
		RejoinEvery: 2 * time.Second, PausedAfter: time.Second, Linger: time.Millisecond, PeerBytesMax: 8 << 20,
	}
}

// Validate returns what is missing, impossible or unsafe.
func (c *Config) Validate() error {
	var errs []error
	fault := func(broken bool, format string, args ...any) {
		if broken {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(c.Logger == nil || c.Metrics == nil || c.Receive == nil, "logger, metrics and receive must be set")
	fault(c.Board == "" || len(c.Board) > boardBytesMax, "the board's name must have 1..%d bytes", boardBytesMax)
	fault(c.Protocol == 0 || c.Incarnation == 0, "protocol and incarnation must not be 0")
	fault(len(c.Join) > joinMax, "%d addresses to join, at most %d", len(c.Join), joinMax)
	for _, address := range c.Join {
		if err := checkAddress(address); err != nil {
			errs = append(errs, fmt.Errorf("join %q: %w", address, err))
		}
	}
	for _, key := range c.Keys {
		fault(len(key) != 16 && len(key) != 24 && len(key) != 32, "a gossip key of %d bytes: 16, 24 or 32", len(key))
	}
	fault(c.ProbeInterval < 10*time.Millisecond || c.ProbeTimeout <= 0 || c.ProbeTimeout > c.ProbeInterval,
		"probe interval %v must be at least 10ms, and the probe timeout %v within it", c.ProbeInterval, c.ProbeTimeout)
	fault(c.SuspicionMult < 1 || c.SuspicionMult > 20, "suspicion multiplier %d is not within 1..20", c.SuspicionMult)
	fault(c.GossipInterval <= 0 || c.RejoinEvery <= 0 || c.PausedAfter < 2*pauseTick, "gossip and rejoin intervals must be above 0, a pause at least %v", 2*pauseTick)
	fault(c.Linger < 0 || c.PeerBytesMax < 1<<16 || c.PeerBytesMax > messageBytesMax/writerBatch-1<<16,
		"linger must not be negative, bytes of a peer within %d..%d", 1<<16, messageBytesMax/writerBatch-1<<16)
	return errors.Join(append(errs, c.checkListeners()...)...)
}

func (c *Config) checkListeners() []error {
	var errs []error
	for _, l := range []struct{ what, address string }{{"gossip", c.GossipListen}, {"remote", c.RemoteListen}} {
		if err := checkAddress(l.address); err != nil {
			errs = append(errs, fmt.Errorf("%s listener %q: %w", l.what, l.address, err))
			continue
		}
		host, _, _ := net.SplitHostPort(l.address)
		if isLoopback(host) {
			continue
		}
		if ip := net.ParseIP(host); c.Advertise == "" && (host == "" || ip != nil && ip.IsUnspecified()) {
			errs = append(errs, fmt.Errorf("%s listener %q is on every interface: say under which host others reach it (advertise)", l.what, l.address))
		}
		if !c.Insecure && (len(c.Keys) == 0 || c.TLS == nil) {
			errs = append(errs, fmt.Errorf("%s listener %q is not on the loopback interface: it needs a gossip key and TLS for the messages between nodes, "+
				"or the explicit permission to go without (insecure)", l.what, l.address))
		}
	}
	return errs
}

// checkAddress returns what is wrong with a host:port.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("port %q is not within 0..65535", port)
	}
	if len(address) > addressBytesMax {
		return fmt.Errorf("longer than %d bytes", addressBytesMax)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
