package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestNodesFindEachOther lets three nodes join, agree on owners, talk, drain, leave and die.
func TestNodesFindEachOther(t *testing.T) {
	a := startNode(t)
	b := startNode(t, a.GossipAddress())
	c := startNode(t, b.GossipAddress())
	see(t, a, b, c)
	exchange(t, a, b, c)
	for i := range 200 {
		key := fmt.Sprint(i)
		if o := a.View().Owner(key); o != b.View().Owner(key) || o != c.View().Owner(key) || o == "" {
			t.Fatalf("%s: owners differ in equal views", key)
		}
	}

	b.SetState(context.Background(), Draining)
	eventually(t, "nothing to belong to a node that drains", func() bool {
		for i := range 200 {
			if o := a.View().Owner(fmt.Sprint(i)); o == b.Address() {
				return false
			}
		}
		return a.View().Member(b.Address()) != nil
	})
	b.Leave()
	see(t, a, c)
	if a.Send(b.Address(), []byte("x")) || a.counted(t, "placed_cluster_dropped_total", dropUnknown) != 1 {
		t.Error("a message for a node that has left was not dropped and counted")
	}

	c.close() // without a word
	see(t, a)
}

// TestRejoinAfterFullStop starts the nodes in an order in which nobody is there to join at first, and one at its old address.
func TestRejoinAfterFullStop(t *testing.T) {
	first := startNode(t)
	gossip, remote := first.GossipAddress(), first.Address()
	first.close()
	second := startNode(t, gossip)
	if n := len(second.View().Members); n != 1 {
		t.Fatalf("%d members", n)
	}
	again := startWith(t, func(c *Config) { c.GossipListen, c.RemoteListen = gossip, remote })
	see(t, again, second)
	exchange(t, again, second)

	// A killed process that comes back at once, before anybody has noticed, is a new run for the others.
	run := second.View().Member(remote).Incarnation
	again.close()
	third := startWith(t, func(c *Config) {
		c.GossipListen, c.RemoteListen, c.Join = gossip, remote, []string{second.GossipAddress()}
	})
	eventually(t, "the new run to be known", func() bool {
		m := second.View().Member(remote)
		return m != nil && m.Incarnation != run
	})
	see(t, third, second)
	exchange(t, third, second)
}

// TestJoinByName joins by a name that stands for several addresses.
func TestJoinByName(t *testing.T) {
	a := startNode(t)
	port := a.GossipAddress()[strings.LastIndex(a.GossipAddress(), ":"):]
	b := startNode(t, "localhost"+port)
	see(t, a, b)
}

// TestOtherBoardsAreRefused lets a node try to join the nodes of another board, and of another protocol.
func TestOtherBoardsAreRefused(t *testing.T) {
	a := startNode(t)
	for want, change := range map[string]func(*Config){
		"it serves another board: board-1, this node serves board-2":              func(c *Config) { c.Board = "board-2" },
		"it speaks another version of the protocol between nodes: 1, this node 2": func(c *Config) { c.Protocol = 2 },
	} {
		_, err := tryNode(t, func(c *Config) {
			c.Join = []string{a.GossipAddress()}
			change(c)
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if len(a.View().Members) != 1 {
		t.Error("a node of another board became a member")
	}
}

// TestPacketsOfOthersAreDropped sends packets that a stale or foreign process would.
func TestPacketsOfOthersAreDropped(t *testing.T) {
	a := startNode(t)
	b := startNode(t, a.GossipAddress())
	see(t, a, b)
	for reason, change := range map[string]func(*packet){
		dropBoard:       func(p *packet) { p.board = "board-2" },
		dropProtocol:    func(p *packet) { p.protocol = 9 },
		dropIncarnation: func(p *packet) { p.toRun++ },
	} {
		head := packet{board: "board-1", protocol: 1, from: b.Address(), fromRun: b.config.Incarnation, toRun: a.config.Incarnation}
		change(&head)
		sendRaw(t, a.Address(), appendBytes(head.appendHead(nil), "x"))
		eventually(t, reason, func() bool { return a.counted(t, "placed_cluster_dropped_total", reason) == 1 })
	}
	sendRaw(t, a.Address(), []byte("nonsense"))
	eventually(t, "malformed", func() bool { return a.counted(t, "placed_cluster_dropped_total", dropMalformed) == 1 })
	exchange(t, a, b)
	if a.got(b.Address() + " x") {
		t.Error("a packet of another board or run was delivered")
	}
}

// TestPeersAreBounded fills what waits for one node.
func TestPeersAreBounded(t *testing.T) {
	change := func(c *Config) { c.Linger, c.PeerBytesMax = time.Hour, 1<<16 }
	a := startWith(t, change)
	b := startWith(t, func(c *Config) {
		change(c)
		c.Join = []string{a.GossipAddress()}
	})
	see(t, a, b)
	sent := 0
	for a.Send(b.Address(), make([]byte, 1000)) {
		sent++
	}
	if sent < 60 || sent > 65 {
		t.Errorf("%d messages of 1000 bytes fit into 65536", sent)
	}
	if a.counted(t, "placed_cluster_dropped_total", dropFull) != 1 {
		t.Error("the message that did not fit was not counted")
	}
}

func TestConfigIsChecked(t *testing.T) {
	key := make([]byte, 32)
	for want, change := range map[string]func(*Config){
		"not on the loopback interface":       func(c *Config) { c.RemoteListen = "192.0.2.1:7947" },
		"listener \"0.0.0.0:7946\" is not on": func(c *Config) { c.GossipListen, c.Advertise = "0.0.0.0:7946", "192.0.2.1"; c.Keys = [][]byte{key} },
		"say under which host":                func(c *Config) { c.GossipListen, c.Insecure = ":7946", true },
		"a gossip key of 5 bytes":             func(c *Config) { c.Keys = [][]byte{[]byte("short")} },
		"join \"nowhere\"":                    func(c *Config) { c.Join = []string{"nowhere"} },
		"port \"x\"":                          func(c *Config) { c.RemoteListen = "127.0.0.1:x" },
		"the board's name":                    func(c *Config) { c.Board = "" },
		"protocol and incarnation":            func(c *Config) { c.Protocol = 0 },
		"suspicion multiplier":                func(c *Config) { c.SuspicionMult = 0 },
		"probe interval":                      func(c *Config) { c.ProbeTimeout = time.Second },
	} {
		_, err := tryNode(t, change)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestAddressesInUse names what cannot be listened on.
func TestAddressesInUse(t *testing.T) {
	a := startNode(t)
	if _, err := tryNode(t, func(c *Config) { c.RemoteListen = a.Address() }); err == nil || !strings.Contains(err.Error(), "listen for messages on "+a.Address()) {
		t.Errorf("error %v", err)
	}
	if _, err := tryNode(t, func(c *Config) { c.GossipListen = a.GossipAddress() }); err == nil || !strings.Contains(err.Error(), "listen for gossip on "+a.GossipAddress()) {
		t.Errorf("error %v", err)
	}
}
