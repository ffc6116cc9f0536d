package cluster

import "github.com/prometheus/client_golang/prometheus"

// Reasons for which a message between nodes is dropped.
const (
	dropFull        = "full"        // too much waits for the node
	dropUnknown     = "unknown"     // no member at that address
	dropMalformed   = "malformed"   // no packet of ours
	dropBoard       = "board"       // of another board
	dropProtocol    = "protocol"    // of another version
	dropIncarnation = "incarnation" // from or for another run of the process
)

var dropReasons = []string{dropFull, dropUnknown, dropMalformed, dropBoard, dropProtocol, dropIncarnation}

// metrics are the cluster's counters. Every label value is made at start, so that a zero shows.
type metrics struct {
	dropped      *prometheus.CounterVec
	members      *prometheus.GaugeVec
	sentPackets  prometheus.Counter
	sentMessages prometheus.Counter
	sentBytes    prometheus.Counter
	received     prometheus.Counter
	views        prometheus.Counter
	pauses       prometheus.Counter
	gossipErrors prometheus.Counter
	refused      *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "placed_cluster_dropped_total", Help: "Messages between nodes that were dropped, by reason.",
		}, []string{"reason"}),
		members: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "placed_cluster_members", Help: "Members that this node sees alive, itself included, by state.",
		}, []string{"state"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "placed_cluster_refused_total", Help: "Strangers that were refused: TLS handshakes, messages that no node of ours sends, gossip of others.",
		}, []string{"what"}),
		sentPackets:  counter("placed_cluster_sent_packets_total", "Packets sent to other nodes."),
		sentMessages: counter("placed_cluster_sent_messages_total", "Messages in these packets."),
		sentBytes:    counter("placed_cluster_sent_bytes_total", "Bytes of these packets."),
		received:     counter("placed_cluster_received_messages_total", "Messages received from other nodes."),
		views:        counter("placed_cluster_view_changes_total", "Changes of the view of the members."),
		pauses:       counter("placed_cluster_pauses_total", "Times that the process stood still."),
		gossipErrors: counter("placed_cluster_gossip_errors_total", "Troubles that memberlist reported."),
	}
	r.MustRegister(m.dropped, m.members, m.refused, m.sentPackets, m.sentMessages, m.sentBytes, m.received, m.views, m.pauses, m.gossipErrors)
	for _, reason := range dropReasons {
		m.dropped.WithLabelValues(reason)
	}
	for _, state := range []State{Joining, Serving, Draining} {
		m.members.WithLabelValues(state.String())
	}
	for _, what := range []string{"handshake", "message", "gossip"} {
		m.refused.WithLabelValues(what)
	}
	return m
}
