package cassandra

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/cassandra/cassandratest"
)

// One real node serves all tests of the package; each test has keyspaces of its own. Tests that stop the node bring it
// back, and none of them runs in parallel with others.
var theNode struct {
	once sync.Once
	node *cassandratest.Node
	dir  string
	err  error
}

// testDC is the data centre of the node.
const testDC = "datacenter1"

// settleMax bounds the wait for something that takes milliseconds on a quiet machine.
const settleMax = 20 * time.Second

var keyspaces atomic.Int64

func TestMain(m *testing.M) {
	code := m.Run()
	if theNode.node != nil {
		if err := theNode.node.Kill(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if theNode.dir != "" {
		_ = os.RemoveAll(theNode.dir)
	}
	os.Exit(code)
}

func node(t testing.TB) *cassandratest.Node {
	t.Helper()
	theNode.once.Do(func() {
		if theNode.dir, theNode.err = os.MkdirTemp("", "placed-cassandra-"); theNode.err == nil {
			theNode.node, theNode.err = cassandratest.Start(context.Background(), cassandratest.Options{Dir: theNode.dir})
		}
	})
	if theNode.err != nil {
		t.Fatal(theNode.err)
	}
	return theNode.node
}

// testConfig is a Config for the node and a keyspace that does not exist yet.
func testConfig(t testing.TB) Config {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Hosts = []string{node(t).Addr()}
	cfg.Keyspace = fmt.Sprintf("test%d", keyspaces.Add(1))
	return cfg
}

// freshSchema is a Config for an empty keyspace with all tables.
func freshSchema(t testing.TB) Config {
	t.Helper()
	cfg := testConfig(t)
	if err := CreateSchema(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func mustOpen(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// rawSession is a way around the Store.
func rawSession(t testing.TB, cfg Config) *gocql.Session {
	t.Helper()
	session, err := connect(t.Context(), &cfg, cfg.Keyspace, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

func mustExec(t testing.TB, session *gocql.Session, stmt string, args ...any) {
	t.Helper()
	if err := session.Query(stmt, args...).WithContext(t.Context()).Exec(); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

// until waits for a condition that others bring about.
func until(t testing.TB, what string, atMost time.Duration, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(atMost)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ; !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", atMost, what)
		}
	}
}

func blockCommit(b board.BlockID, version, attempt uint64) *store.Commit {
	return &store.Commit{
		Partition: store.Block(b),
		Head:      store.Head{Version: version, Attempt: attempt, Owner: store.Owner{Address: "127.0.0.1:7000", Incarnation: attempt}},
		Rows:      []store.Row{{Value: fmt.Appendf(nil, "%d by %d", version, attempt)}},
	}
}

func shardCommit(shard int, version, attempt uint64, rows ...store.Row) *store.Commit {
	return &store.Commit{
		Partition: store.Shard(shard),
		Head:      store.Head{Version: version, Attempt: attempt, Owner: store.Owner{Address: "127.0.0.1:7000", Incarnation: attempt}, State: []byte("state")},
		Rows:      rows,
	}
}

// mustApply sends a commit that nothing competes with until it is known; on a busy machine an answer may come too late.
func mustApply(t testing.TB, s *Store, c *store.Commit) {
	t.Helper()
	r, unknown, err := settle(t.Context(), s, c)
	found := unknown > 0 && r.Head.Version == c.Head.Version && r.Head.Attempt == c.Head.Attempt
	if err != nil || !r.Applied && !found {
		t.Fatalf("commit %d of %s: %+v, %v, want it applied", c.Head.Version, c.Partition, r, err)
	}
}

// mustRefuse sends a commit and wants it refused with the head of that version and attempt.
func mustRefuse(t testing.TB, s *Store, c *store.Commit, version, attempt uint64) {
	t.Helper()
	r, _, err := settle(t.Context(), s, c)
	if err != nil || r.Applied || r.Head.Version != version || r.Head.Attempt != attempt {
		t.Fatalf("commit %d of %s: %+v, %v, want the head of version %d, attempt %d", c.Head.Version, c.Partition, r, err, version, attempt)
	}
}

// settle sends a commit until its outcome is known, at most settleMax.
func settle(ctx context.Context, s *Store, c *store.Commit) (r store.Result, unknown int, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleMax)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		if r, err = s.Commit(ctx, c); !errors.Is(err, store.ErrUnknown) || ctx.Err() != nil {
			return r, unknown, err
		}
		unknown++
		<-pause.C
	}
}

func mustUnknown(t testing.TB, s *Store, c *store.Commit) {
	t.Helper()
	if r, err := s.Commit(t.Context(), c); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("commit %d of %s: %+v, %v, want ErrUnknown", c.Head.Version, c.Partition, r, err)
	}
}

// wantEntries checks a block's journal against the attempts that made it, from version 1 on.
func wantEntries(t testing.TB, s *Store, b board.BlockID, attempts ...uint64) {
	t.Helper()
	n := 0
	for e, err := range s.Journal(t.Context(), store.Block(b), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if n >= len(attempts) || e.Version != uint64(n+1) || string(e.Value) != fmt.Sprintf("%d by %d", n+1, attempts[n]) {
			t.Fatalf("entry %d is version %d, %q; the attempts are %v", n+1, e.Version, e.Value, attempts)
		}
		n++
	}
	if n != len(attempts) {
		t.Fatalf("%d entries, want %d", n, len(attempts))
	}
}

func wantOneLine(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range append(parts, "cassandra: ") {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q does not say %q", err, p)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}
