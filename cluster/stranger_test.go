package cluster

import (
	"context"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// dial opens a stream to a node as protoactor does.
func dial(t testing.TB, address string, creds credentials.TransportCredentials) remote.Remoting_ReceiveClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	stream, err := remote.NewRemotingClient(conn).Receive(ctx)
	if err != nil {
		return nil
	}
	return stream
}

func batch(target *actor.PID, typeName string, data []byte, change func(*remote.MessageEnvelope)) *remote.RemoteMessage {
	e := &remote.MessageEnvelope{MessageData: data}
	if change != nil {
		change(e)
	}
	return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: &remote.MessageBatch{
		TypeNames: []string{typeName}, Targets: []*actor.PID{target}, Envelopes: []*remote.MessageEnvelope{e},
	}}}
}

// sendRaw sends bytes to a node's gate without encryption.
func sendRaw(t testing.TB, address string, b []byte) {
	t.Helper()
	data, err := proto.Marshal(wrapperspb.Bytes(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := dial(t, address, insecure.NewCredentials()).Send(batch(actor.NewPID(address, receiverName), packetType, data, nil)); err != nil {
		t.Fatal(err)
	}
}

// TestStrangersMessages sends what protoactor would crash at, obey or pass on.
func TestStrangersMessages(t *testing.T) {
	a := startNode(t)
	b := startNode(t, a.GossipAddress())
	see(t, a, b)
	gate := actor.NewPID(a.Address(), receiverName)
	for what, message := range map[string]*remote.RemoteMessage{
		"a type that nobody knows": batch(gate, "evil.Message", nil, nil),
		"a system message":         batch(gate, "actor.Stop", nil, nil),
		"another actor":            batch(actor.NewPID(a.Address(), "activator"), packetType, nil, nil),
		"another node":             batch(actor.NewPID(b.Address(), receiverName), packetType, nil, nil),
		"no such target":           batch(gate, packetType, nil, func(e *remote.MessageEnvelope) { e.Target = 7 }),
		"no such type":             batch(gate, packetType, nil, func(e *remote.MessageEnvelope) { e.TypeId = -1 }),
		"no such sender":           batch(gate, packetType, nil, func(e *remote.MessageEnvelope) { e.Sender = 3 }),
		"another serializer":       batch(gate, packetType, nil, func(e *remote.MessageEnvelope) { e.SerializerId = 1 }),
		"a header":                 batch(gate, packetType, nil, func(e *remote.MessageEnvelope) { e.MessageHeader = &remote.MessageHeader{} }),
	} {
		before := a.counted(t, "placed_cluster_refused_total", "message")
		stream := dial(t, a.Address(), insecure.NewCredentials())
		if err := stream.Send(message); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err == nil {
			t.Errorf("%s: the stream goes on", what)
		}
		if after := a.counted(t, "placed_cluster_refused_total", "message"); after != before+1 {
			t.Errorf("%s: %v strangers counted", what, after-before)
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+a.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := remote.NewRemotingClient(conn).ListProcesses(context.Background(), &remote.ListProcessesRequest{}); err == nil {
		t.Error("a stranger may list processes")
	}
	exchange(t, a, b)
}

// TestStrangersGossip throws random bytes at the gossip listener.
func TestStrangersGossip(t *testing.T) {
	a := startNode(t)
	for _, network := range []string{"udp", "tcp"} {
		conn, err := net.Dial(network, a.GossipAddress())
		if err != nil {
			t.Fatal(err)
		}
		junk := make([]byte, 1000)
		for range 50 {
			_, _ = rand.Read(junk)
			if _, err := conn.Write(junk); err != nil {
				break // closed by the node
			}
		}
		_ = conn.Close()
	}
	b := startNode(t, a.GossipAddress())
	see(t, a, b)
	exchange(t, a, b)
}

// TestGossipKeys keeps nodes with another key, or none, out, and changes the key under way.
func TestGossipKeys(t *testing.T) {
	old, next := make([]byte, 32), []byte("0123456789abcdef0123456789abcdef")
	keyed := func(join string, keys ...[]byte) func(*Config) {
		return func(c *Config) {
			c.Keys = keys
			if join != "" {
				c.Join = []string{join}
			}
		}
	}
	a := startWith(t, keyed("", old))
	b := startWith(t, keyed(a.GossipAddress(), old))
	see(t, a, b)
	c := startWith(t, keyed(a.GossipAddress(), next))
	d := startWith(t, keyed(a.GossipAddress()))
	eventually(t, "the strangers to be noticed", func() bool { return a.counted(t, "placed_cluster_gossip_errors_total", "") > 0 })
	if len(a.View().Members) != 2 || len(c.View().Members) != 1 || len(d.View().Members) != 1 {
		t.Error("a node without the key became a member")
	}
	for _, keys := range [][][]byte{{old, next}, {next, old}, {next}} {
		for _, n := range []*testNode{a, b} {
			if err := n.SetKeys(keys); err != nil {
				t.Fatal(err)
			}
		}
	}
	see(t, a, b, c) // which has had the new key all the time, and goes on trying
	if d.SetKeys([][]byte{next}) == nil {
		t.Error("a node without keys got some")
	}
}

// TestMutualTLS lets only nodes with a certificate for the right name of the right authority talk.
func TestMutualTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	good, err := ours.load("placed")
	if err != nil {
		t.Fatal(err)
	}
	secured := func(n *TLS, join ...string) func(*Config) {
		return func(c *Config) { c.TLS, c.Join = n, join }
	}
	a := startWith(t, secured(good))
	b := startWith(t, secured(good, a.GossipAddress()))
	see(t, a, b)
	exchange(t, a, b)

	if _, err := ours.load("elsewhere"); err == nil || !strings.Contains(err.Error(), "own certificate would be refused") {
		t.Errorf("a certificate for another name: %v", err)
	}
	foreign, err := theirs.load("placed")
	if err != nil {
		t.Fatal(err)
	}
	wrongName := *good
	wrongName.CertFile, wrongName.KeyFile = filepath.Join(ours.dir, "elsewhere.pem"), filepath.Join(ours.dir, "elsewhere.key")
	for what, creds := range map[string]credentials.TransportCredentials{
		"plain text": insecure.NewCredentials(), "another authority": foreign.client(), "another name": wrongName.client(),
	} {
		before := a.counted(t, "placed_cluster_refused_total", "handshake")
		if stream := dial(t, a.Address(), creds); stream != nil {
			if _, err := stream.Recv(); err == nil {
				t.Errorf("%s: the node answers", what)
			}
		}
		eventually(t, what, func() bool {
			// The client of another authority refuses first, and the node hears of it.
			return a.counted(t, "placed_cluster_refused_total", "handshake") > before
		})
	}
	exchange(t, a, b)
}

func TestReadKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# the new one first\n000102030405060708090a0b0c0d0e0f\n\nAAECAwQFBgcICQoLDA0ODw==\n")
	keys, err := ReadKeys(file)
	if err != nil || len(keys) != 2 || string(keys[0]) != string(keys[1]) || keys[0][15] != 15 {
		t.Errorf("%v, %v", keys, err)
	}
	for text, want := range map[string]string{"": "no gossip key", "\nabc\n": "line 2"} {
		write(text)
		if _, err := ReadKeys(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
