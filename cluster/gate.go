package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// gate packs the messages for the same node into packets: a storm costs one gRPC message a Linger instead of one a message.
type gate struct {
	cluster *Cluster

	mu     sync.Mutex // guards the fields below
	peers  map[string]*peer
	closed bool
}

// peer is what waits for one run of one node.
type peer struct {
	gate   *gate
	member Member
	pid    *actor.PID
	signal chan struct{} // of one: something waits
	gone   chan struct{} // closed when the member is gone

	mu    sync.Mutex // guards buf and count
	buf   []byte     // encoded messages
	count int

	// queued are the bytes given to protoactor and not on the wire yet, of the connection of the moment: its own queue has no
	// bound.
	queued atomic.Pointer[atomic.Int64]
}

func newGate(c *Cluster) *gate { return &gate{cluster: c, peers: map[string]*peer{}} }

// send lets a message wait for the next packet to a node. It never blocks; what cannot be sent is dropped and counted.
func (g *gate) send(to string, message []byte) bool {
	p := g.peer(to)
	if p == nil {
		g.cluster.metrics.dropped.WithLabelValues(dropUnknown).Inc()
		return false
	}
	p.mu.Lock()
	if int64(len(p.buf)+len(message))+p.queued.Load().Load() > int64(g.cluster.config.PeerBytesMax) {
		p.mu.Unlock()
		g.cluster.metrics.dropped.WithLabelValues(dropFull).Inc()
		return false
	}
	p.buf = appendBytes(p.buf, message)
	p.count++
	first := p.count == 1
	p.mu.Unlock()
	if first {
		select {
		case p.signal <- struct{}{}:
		default:
		}
	}
	return true
}

// peer returns what waits for the member at an address, nil when there is no such member.
func (g *gate) peer(address string) *peer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.peers[address]; p != nil || g.closed {
		return p
	}
	member := g.cluster.View().Member(address)
	if member == nil || address == g.cluster.address {
		return nil
	}
	p := &peer{
		gate: g, member: *member, pid: actor.NewPID(address, receiverName), signal: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	p.queued.Store(new(atomic.Int64))
	g.peers[address] = p
	g.cluster.running.Go(p.run)
	return p
}

// viewChanged forgets those who are gone, or are another run of their process by now.
func (g *gate) viewChanged(v *View) {
	var left []string
	g.mu.Lock()
	for address, p := range g.peers {
		if m := v.Member(address); m == nil || m.Incarnation != p.member.Incarnation {
			delete(g.peers, address)
			close(p.gone)
			left = append(left, address)
		}
	}
	g.mu.Unlock()
	for _, address := range left { // the connection goes too, with what waits in it; disconnected hears of it
		g.cluster.system.EventStream.Publish(&remote.EndpointTerminatedEvent{Address: address})
	}
}

// disconnected says that the connection to an address ended with everything that waited in it.
func (g *gate) disconnected(address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.peers[address]; p != nil {
		p.queued.Store(new(atomic.Int64))
	}
}

// close ends all sending.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for address, p := range g.peers {
		delete(g.peers, address)
		close(p.gone)
	}
}

// run sends packets until the member is gone.
func (p *peer) run() {
	linger := time.NewTimer(0)
	defer linger.Stop()
	<-linger.C
	for {
		select {
		case <-p.gone:
			return
		case <-p.signal:
		}
		linger.Reset(p.gate.cluster.config.Linger)
		select {
		case <-p.gone:
			return
		case <-linger.C:
		}
		p.flush()
	}
}

// flush gives what waits to protoactor as one packet.
func (p *peer) flush() {
	c := p.gate.cluster
	head := packet{board: c.config.Board, protocol: c.config.Protocol, from: c.address, fromRun: c.config.Incarnation, toRun: p.member.Incarnation}
	p.mu.Lock()
	messages, count := p.buf, p.count
	p.buf, p.count = nil, 0
	p.mu.Unlock()
	if count == 0 {
		return
	}
	b := append(head.appendHead(make([]byte, 0, len(messages)+256)), messages...)
	queued := p.queued.Load()
	queued.Add(int64(len(b)))
	c.metrics.sentPackets.Inc()
	c.metrics.sentMessages.Add(float64(count))
	c.metrics.sentBytes.Add(float64(len(b)))
	c.system.Root.Send(p.pid, &outgoing{bytes: b, queued: queued})
}

// outgoing is a packet on its way through protoactor. It is encoded at the moment at which it leaves the queue.
type outgoing struct {
	bytes  []byte
	queued *atomic.Int64
}

// Serialize implements remote.RootSerializable.
func (o *outgoing) Serialize() (remote.RootSerialized, error) {
	o.queued.Add(-int64(len(o.bytes)))
	return wirePacket{wrapperspb.Bytes(o.bytes)}, nil
}

// wirePacket is a packet as protobuf: a well-known type, so that every node can decode it.
type wirePacket struct{ *wrapperspb.BytesValue }

// Deserialize implements remote.RootSerialized. Nothing calls it: what arrives is a plain BytesValue.
func (w wirePacket) Deserialize() (remote.RootSerializable, error) {
	return &outgoing{bytes: w.Value, queued: new(atomic.Int64)}, nil
}
