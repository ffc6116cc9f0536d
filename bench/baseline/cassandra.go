package baseline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocql/gocql"

	"github.com/placed-board/placed/internal/bench/measure"
)

// Waits and sizes of the Cassandra baseline.
const (
	cassandraTimeout      = 12 * time.Second // of one statement; above the server's own
	cassandraPayloadBytes = 24
	cassandraKeyspace     = "placed_bench_baseline"
)

// CassandraConfig describes a sweep of plain conditional inserts.
type CassandraConfig struct {
	Hosts         []string      // host or host:port
	Concurrencies []int         // statements under way at a time, one sweep step each
	Warmup        time.Duration // of each step, not measured
	Duration      time.Duration // of each step, measured
	Seed          uint64
}

// CassandraStep is what one concurrency reached.
type CassandraStep struct {
	Concurrency int
	PerSecond   float64 // applied inserts
	Latency     measure.Summary
	Unknown     int64 // statements whose outcome the driver could not tell; not in PerSecond
}

// Cassandra runs `INSERT ... IF NOT EXISTS` of small rows, each in a partition of its own, at each concurrency. It makes
// a keyspace of its own with one replica and drops it at the end.
func Cassandra(ctx context.Context, config CassandraConfig) (steps []CassandraStep, err error) {
	session, err := openCassandra(ctx, config.Hosts)
	if err != nil {
		return nil, fmt.Errorf("cassandra baseline: %w", err)
	}
	defer func() {
		dropErr := session.Query("DROP KEYSPACE IF EXISTS " + cassandraKeyspace).WithContext(context.WithoutCancel(ctx)).Exec()
		session.Close()
		if dropErr != nil {
			err = errors.Join(err, fmt.Errorf("drop the baseline's keyspace: %w", dropErr))
		}
	}()
	for i, concurrency := range config.Concurrencies {
		step, err := conditionalInserts(ctx, session, config, uint64(i), concurrency)
		if err != nil {
			return steps, fmt.Errorf("cassandra baseline at concurrency %d: %w", concurrency, err)
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// BestStep is the step with the highest rate, and false when there is none.
func BestStep(steps []CassandraStep) (CassandraStep, bool) {
	var best CassandraStep
	for _, step := range steps {
		if step.PerSecond > best.PerSecond {
			best = step
		}
	}
	return best, best.PerSecond > 0
}

func openCassandra(ctx context.Context, hosts []string) (*gocql.Session, error) {
	cluster := gocql.NewCluster(hosts...)
	cluster.ProtoVersion = 4
	cluster.Timeout, cluster.ConnectTimeout = cassandraTimeout, cassandraTimeout
	cluster.Consistency, cluster.SerialConsistency = gocql.LocalQuorum, gocql.LocalSerial
	session, err := cluster.CreateSession()
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", hosts, err)
	}
	for _, statement := range []string{
		"DROP KEYSPACE IF EXISTS " + cassandraKeyspace,
		"CREATE KEYSPACE " + cassandraKeyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE " + cassandraKeyspace + ".rows (id bigint PRIMARY KEY, payload blob)",
	} {
		if err := session.Query(statement).WithContext(ctx).Exec(); err != nil {
			session.Close()
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	return session, nil
}

func conditionalInserts(ctx context.Context, session *gocql.Session, config CassandraConfig, step uint64, concurrency int) (CassandraStep, error) {
	start := time.Now()
	measureFrom, end := start.Add(config.Warmup), start.Add(config.Warmup+config.Duration)
	latency := measure.NewRecorder()
	var unknown atomic.Int64
	errs := make([]error, concurrency)
	var writers sync.WaitGroup
	for writer := range concurrency {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(config.Seed, step<<32+uint64(writer)))
			payload := make([]byte, cassandraPayloadBytes)
			for sent := time.Now(); sent.Before(end) && ctx.Err() == nil; {
				applied, err := session.Query("INSERT INTO "+cassandraKeyspace+".rows (id, payload) VALUES (?, ?) IF NOT EXISTS", rng.Int64(), payload).
					WithContext(ctx).MapScanCAS(map[string]any{})
				answered := time.Now()
				switch {
				case isTimeout(err):
					unknown.Add(1)
				case err != nil:
					errs[writer] = err
					return
				case applied && !sent.Before(measureFrom) && answered.Before(end):
					latency.Record(writer, answered.Sub(sent))
				}
				sent = answered
			}
		})
	}
	writers.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return CassandraStep{}, err
	}
	summary := latency.Summary()
	return CassandraStep{
		Concurrency: concurrency, PerSecond: float64(summary.Count) / config.Duration.Seconds(), Latency: summary, Unknown: unknown.Load(),
	}, nil
}

func isTimeout(err error) bool {
	var writeTimeout *gocql.RequestErrWriteTimeout
	return errors.Is(err, gocql.ErrTimeoutNoResponse) || errors.As(err, &writeTimeout)
}
