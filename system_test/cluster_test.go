//go:build unix

package system_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store/cassandra"
	"github.com/placed-board/placed/store/cassandra/cassandratest"
	"github.com/placed-board/placed/wire"
)

// Bounds of a cluster on a busy machine.
const (
	cassandraWithin = 3 * time.Minute
	takeOverWithin  = 30 * time.Second // of a dead node's share; on a quiet machine about 2 s
	clusterNodes    = 3
)

// clusterKills is how often a node of a cluster is killed; PLACED_SYSTEM_KILLS sets it.
var clusterKills = func() int {
	if n, err := strconv.Atoi(os.Getenv("PLACED_SYSTEM_KILLS")); err == nil {
		return max(n, 1)
	}
	return 1
}()

// nodesOfBoard is one Cassandra node with several placed nodes on it.
type nodesOfBoard struct {
	t         *testing.T
	cassandra *cassandratest.Node
	keyspace  string
	list      []*node
}

// startNodes starts a Cassandra and nodes that find each other, one after the other the first time: the first makes the board.
func startNodes(t *testing.T, flags ...string) *nodesOfBoard {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cassandraWithin)
	defer cancel()
	server, err := cassandratest.Start(ctx, cassandratest.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	c := &nodesOfBoard{t: t, cassandra: server, keyspace: "system_test"}
	var gossip []string
	for range clusterNodes {
		gossip = append(gossip, freeAddress(t))
	}
	for i := range clusterNodes {
		n := newNode(t, append([]string{
			"--store", "cassandra", "--cassandra-hosts", server.Addr(), "--cassandra-keyspace", c.keyspace, "--create-schema",
			"--gossip-listen", gossip[i], "--remote-listen", freeAddress(t), "--join", strings.Join(gossip, ","),
		}, flags...)...)
		n.env = append(n.env, "PLACED_SESSION_KEY="+strings.Repeat("ab", 32))
		n.start()
		c.list = append(c.list, n)
	}
	for _, n := range c.list {
		c.sees(n, clusterNodes)
	}
	return c
}

// sees waits until a node sees so many members that serve.
func (c *nodesOfBoard) sees(n *node, members int) {
	c.t.Helper()
	eventually(c.t, takeOverWithin, fmt.Sprintf("%d members", members), func() bool {
		return n.metrics()[`placed_cluster_members{state="serving"}`] == float64(members)
	})
}

// usersOf returns the users who place through other nodes than one.
func (c *nodesOfBoard) usersOf(s *storm, without *node) []*user {
	var users []*user
	for _, u := range s.users {
		if u.first.HTTP().URL != without.url {
			users = append(users, u)
		}
	}
	return users
}

// judge ends a scenario as storm.judge does, for every node, with the journals read from Cassandra.
func (c *nodesOfBoard) judge(s *storm) {
	c.t.Helper()
	s.stop()
	s.settle()
	for _, n := range c.list {
		eventually(c.t, moreWithin, "every charge to be placed", func() bool { return n.status().OpenCharges == 0 })
	}
	report := s.node.verify()
	body := s.converged(report.Placements)
	s.details()
	for _, n := range c.list[1:] {
		if why := awaitThat(equalWithin, func() string { return unlike(n, body) }); why != "" {
			c.t.Errorf("%s: %s", n.url, why)
		}
		n.verify()
	}
	for _, session := range s.sessions() {
		if stats := session.Stats(); stats.Undecodable > 0 || stats.Divergences > 0 {
			c.t.Errorf("a session of %q met %d undecodable messages and %d divergences", session.User(), stats.Undecodable, stats.Divergences)
		}
		_ = session.Close()
	}
	for _, n := range c.list {
		n.stop()
	}
	j := c.journals()
	j.judge(c.t, s.ledger, body)
	c.t.Logf("%d placements on the board, answers %v", len(j.placements), s.ledger.answers)
}

// unlike says how a node's board differs from a body.
func unlike(n *node, body *wire.BoardBody) string {
	other, err := n.api().Board(n.t.Context())
	switch {
	case err != nil:
		return err.Error()
	case other.Epoch != body.Epoch || len(other.Chunks) != len(body.Chunks):
		return fmt.Sprintf("epoch %x with %d chunks, the first node's is %x with %d", other.Epoch, len(other.Chunks), body.Epoch, len(body.Chunks))
	}
	for i, c := range other.Chunks {
		if want := body.Chunks[i]; c.Chunk != want.Chunk || c.Sequence != want.Sequence || string(c.Image) != string(want.Image) {
			return fmt.Sprintf("chunk %d at %d differs from the first node's at %d", c.Chunk, c.Sequence, want.Sequence)
		}
	}
	return ""
}

func (c *nodesOfBoard) journals() *journals {
	c.t.Helper()
	config := cassandra.DefaultConfig()
	config.Hosts, config.Keyspace, config.Log = []string{c.cassandra.Addr()}, c.keyspace, slog.New(slog.DiscardHandler)
	st, err := cassandra.Open(c.t.Context(), config)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			c.t.Error(err)
		}
	}()
	return journalsOf(c.t, st)
}

// TestClusterInAStorm lets users place through three nodes while one is killed, one stands still, the region size changes and
// one is drained; each time everybody goes on (I1 to I6, I9).
func TestClusterInAStorm(t *testing.T) {
	t.Parallel()
	c := startNodes(t, "--width", "300", "--height", "250", "--cooldown", "200ms")
	first, second, third := c.list[0], c.list[1], c.list[2]
	s := startStormOn(t, c.list, load{users: 24, mirrors: 6, area: board.Rect{Width: 300, Height: 250}, colours: 16, attack: 0.1})
	s.everyone()

	var outages []time.Duration
	for range clusterKills {
		begin := time.Now()
		third.kill()
		s.all(c.usersOf(s, third))
		outages = append(outages, time.Since(begin).Round(time.Millisecond))
		c.sees(first, 2)
		third.start()
		c.sees(first, 3)
		s.everyone()
	}
	slices.Sort(outages)
	t.Logf("killed: everybody on the other nodes had placed again after %v, median %v", outages, outages[len(outages)/2])

	second.signal(syscall.SIGSTOP)
	c.sees(first, 2)
	s.all(c.usersOf(s, second))
	second.signal(syscall.SIGCONT)
	c.sees(second, 3)
	s.everyone()
	if second.metrics()["placed_cluster_pauses_total"] == 0 {
		t.Error("the node did not notice that it stood still")
	}

	for _, size := range []string{"200", "100"} {
		c.list[len(size)%2].set("--region-size", size)
		s.more(50)
	}

	c.report(s)
	third.ctl(nil, "cluster", "drain")
	if code := third.awaitEnd(stopWithin); code != 0 {
		t.Errorf("a drained node ended with code %d", code)
	}
	if n := s.ledger.answered("draining"); n > 0 {
		t.Errorf("%d placements were refused while others could place them", n)
	}
	s.all(c.usersOf(s, third))
	third.start()
	c.sees(first, 3)
	s.everyone()
	c.judge(s)
}

// report sees that every node reports the same members and regions.
func (c *nodesOfBoard) report(s *storm) {
	c.t.Helper()
	for _, n := range c.list {
		eventually(c.t, moreWithin, "everybody to have told of itself", func() bool {
			var report board.ClusterReport
			n.ctl(&report, "cluster", "status")
			shards, heard := 0, 0
			for _, m := range report.Members {
				shards += m.Shards
				if m.Heard && m.Serving && m.Ready && m.Sessions > 0 {
					heard++
				}
			}
			return heard == clusterNodes && shards == board.Shards
		})
		var regions []board.RegionReport
		n.ctl(&regions, "region", "list")
		owners, rate := map[string]bool{}, 0.0
		for _, r := range regions {
			owners[r.Owner] = true
			rate += r.PerSecond
		}
		if len(regions) != 9 || owners[""] || rate == 0 {
			c.t.Errorf("regions %+v", regions)
		}
	}
	if _, stderr, code := c.list[0].tryCtl("region", "list"); code != 0 {
		c.t.Errorf("region list: %s", stderr)
	}
}

// TestEmbeddedStoreJoinsNobody refuses to share a board that only one node can keep.
func TestEmbeddedStoreJoinsNobody(t *testing.T) {
	t.Parallel()
	for want, flags := range map[string][]string{
		"cannot join others":           {"--gossip-listen", "127.0.0.1:0"},
		"through --store cassandra":    {"--join", "127.0.0.1:7946"},
		"--join needs --gossip-listen": {"--store", "cassandra", "--join", "127.0.0.1:7946"},
		"belong together":              {"--store", "cassandra", "--gossip-listen", "127.0.0.1:0", "--cluster-cert", "x"},
	} {
		n := newNode(t, flags...)
		n.launch()
		if code := n.awaitEnd(readyWithin); code != 2 || !strings.Contains(n.stderr.String(), want) || !oneLine(n.stderr.String()) {
			t.Errorf("%v: code %d, %q", flags, code, n.stderr.String())
		}
	}
}
