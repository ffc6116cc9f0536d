package actors

import (
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the actors' counters. Every label value is made at start, so that a zero shows.
type metrics struct {
	placements    *prometheus.CounterVec // by result
	commits       *prometheus.CounterVec // by class and outcome
	commitSeconds *prometheus.HistogramVec
	commitRows    *prometheus.HistogramVec
	storeErrors   *prometheus.CounterVec
	restarts      *prometheus.CounterVec
	reloads       *prometheus.CounterVec
	undeliverable *prometheus.CounterVec
	envelopes     *prometheus.CounterVec
	resends       prometheus.Counter
	dropped       prometheus.Counter
	plan          *prometheus.CounterVec
	problems      prometheus.Counter
	frames        prometheus.Counter
	roundSeconds  prometheus.Histogram
}

var (
	resultLabels = func() []string {
		labels := []string{"accepted", "charged", "unknown"}
		for _, r := range board.Refusals[1:] {
			labels = append(labels, r.Label)
		}
		return labels
	}()
	kindLabels    = []string{"shard", "user", "region", "feed", "subscriber", "settings"}
	classLabels   = []string{"shard", "block", "settings"}
	outcomeLabels = []string{"applied", "moved", "unknown"}
	opLabels      = []string{"load_shard", "read_row", "load_block", "put_snapshot", "read_settings", "read_tile", "tile_history", "user_history", "plan_rollback", "list_blocks"}
)

func newMetrics(r prometheus.Registerer) *metrics {
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 13)
	m := &metrics{
		placements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "placed_placements_total", Help: "Answers to placements, by result.",
		}, []string{"result"}),
		commits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "placed_store_commits_total", Help: "Conditional writes, by class of partition and outcome.",
		}, []string{"class", "outcome"}),
		commitSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "placed_store_operation_duration_seconds", Help: "Duration of conditional writes.", Buckets: buckets,
		}, []string{"op"}),
		commitRows: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "placed_store_commit_rows", Help: "Rows of a commit.", Buckets: prometheus.ExponentialBuckets(1, 2, 9),
		}, []string{"class"}),
		storeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "placed_store_errors_total", Help: "Failed store operations, by operation.",
		}, []string{"op"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "placed_actor_restarts_total", Help: "Actors that were started again after a panic, by kind.",
		}, []string{"kind"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "placed_partition_reloads_total", Help: "Partitions whose owner lost a duel and reloaded, by class.",
		}, []string{"class"}),
		undeliverable: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "placed_undeliverable_total", Help: "Messages for actors of a node that cannot be reached, by kind.",
		}, []string{"kind"}),
		envelopes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "placed_envelopes_total", Help: "Messages of other nodes, by what became of them.",
		}, []string{"result"}),
		plan: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "placed_settings_plan_total", Help: "Planned changes of settings whose time has come, and announcements that have ended, by what became of them.",
		}, []string{"result"}),
		resends:      prometheus.NewCounter(prometheus.CounterOpts{Name: "placed_charges_resent_total", Help: "Charges sent to their region again."}),
		dropped:      prometheus.NewCounter(prometheus.CounterOpts{Name: "placed_charges_dropped_total", Help: "Charges that a block had no room for; their shards send them again."}),
		problems:     prometheus.NewCounter(prometheus.CounterOpts{Name: "placed_stored_data_problems_total", Help: "Stored data that could not be used."}),
		frames:       prometheus.NewCounter(prometheus.CounterOpts{Name: "placed_frames_total", Help: "Frames made."}),
		roundSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "placed_fanout_round_seconds", Help: "Time a subscriber took to write a frame to its sessions.", Buckets: buckets}),
	}
	r.MustRegister(m.envelopes, m.placements, m.commits, m.commitSeconds, m.commitRows, m.storeErrors, m.restarts, m.reloads, m.undeliverable,
		m.plan, m.resends, m.dropped, m.problems, m.frames, m.roundSeconds)
	makeZero(m.placements, resultLabels)
	makeZero(m.storeErrors, opLabels)
	makeZero(m.restarts, kindLabels)
	makeZero(m.undeliverable, kindLabels)
	makeZero(m.reloads, classLabels)
	makeZero(m.plan, []string{"carried_out", "dropped", "announcement_ended"})
	makeZero(m.envelopes, []string{"taken", "malformed", "newer_settings", "deltas_full"})
	for _, class := range classLabels {
		for _, outcome := range outcomeLabels {
			m.commits.WithLabelValues(class, outcome)
		}
	}
	return m
}

func makeZero(v *prometheus.CounterVec, labels []string) {
	for _, l := range labels {
		v.WithLabelValues(l)
	}
}

func className(c store.Class) string {
	switch c {
	case store.ClassShard:
		return "shard"
	case store.ClassBlock:
		return "block"
	case store.ClassSettings:
		return "settings"
	}
	return "unknown"
}

func (m *metrics) commit(c *store.Commit, took time.Duration, r store.Result, err error) {
	class, outcome := className(c.Partition.Class), "moved"
	switch {
	case err != nil:
		outcome = "unknown"
	case r.Applied || r.Head.Attempt == c.Head.Attempt:
		outcome = "applied"
	}
	m.commits.WithLabelValues(class, outcome).Inc()
	m.commitSeconds.WithLabelValues("commit_" + class).Observe(took.Seconds())
	m.commitRows.WithLabelValues(class).Observe(float64(len(c.Rows)))
}

func (m *metrics) storeError(op string) { m.storeErrors.WithLabelValues(op).Inc() }

func (m *metrics) answer(o *board.PlaceOutcome) {
	switch o.Verdict {
	case board.VerdictRefused:
		m.placements.WithLabelValues(o.Code.String()).Inc()
	case board.VerdictAccepted, board.VerdictCharged, board.VerdictUnknown:
		m.placements.WithLabelValues(o.Verdict.String()).Inc()
	}
}
