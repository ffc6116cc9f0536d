package cluster

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"sync/atomic"
	"time"
)

// quiet passes warnings and errors of protoactor on; it tells of every connection at info.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

// gossipLog takes memberlist's lines: errors and warnings are counted, and logged at most every gossipLogEvery.
type gossipLog struct {
	cluster *Cluster
	saidAt  atomic.Int64 // monotonic, since the start
	start   time.Time
}

func newGossipLog(c *Cluster) *log.Logger {
	return log.New(&gossipLog{cluster: c, start: time.Now()}, "", 0)
}

// Write implements io.Writer.
func (g *gossipLog) Write(line []byte) (int, error) {
	c := g.cluster
	text := string(bytes.TrimSpace(line))
	level := slog.LevelDebug
	switch {
	case bytes.HasPrefix(line, []byte("[ERR]")), bytes.HasPrefix(line, []byte("[WARN]")):
		c.metrics.gossipErrors.Inc()
		now, said := int64(time.Since(g.start)), g.saidAt.Load()
		if (said == 0 || now-said >= int64(gossipLogEvery)) && g.saidAt.CompareAndSwap(said, max(now, 1)) {
			level = slog.LevelWarn
		}
	}
	c.config.Logger.Log(context.Background(), level, "gossip", "said", text)
	return len(line), nil
}

// stranger counts somebody who does not belong to the cluster, and says so now and then.
func (c *Cluster) stranger(what string, err error) {
	c.metrics.refused.WithLabelValues(what).Inc()
	now, said := time.Now().UnixNano(), c.strangerAt.Load()
	if (now-said >= int64(gossipLogEvery) || now < said) && c.strangerAt.CompareAndSwap(said, now) {
		c.config.Logger.Warn("a stranger was refused", "what", what, "error", err)
	}
}
