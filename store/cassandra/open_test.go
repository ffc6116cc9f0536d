package cassandra

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/placed-board/placed/store"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	cfg := freshSchema(t)
	session := rawSession(t, cfg)
	fails := func(c Config, parts ...string) error {
		t.Helper()
		s, err := Open(t.Context(), c)
		if err == nil {
			s.Close()
		}
		wantOneLine(t, err, parts...)
		return err
	}
	wrong := cfg
	wrong.Keyspace = "no_such_keyspace"
	fails(wrong, "keyspace no_such_keyspace does not exist", "--create-schema")
	wrong = cfg
	wrong.DataCentre = "atlantis"
	fails(wrong, "no host in data centre atlantis", testDC)
	if err := CreateSchema(t.Context(), wrong); err == nil {
		t.Error("a schema for a data centre that does not exist")
	}
	wrong = cfg
	wrong.Slots = 0
	fails(wrong, "0 slots")
	wrong = cfg
	wrong.TLSCAFile = filepath.Join(t.TempDir(), "ca.pem")
	fails(wrong, "TLS", "ca.pem")

	mustExec(t, session, "DROP TABLE snapshots")
	fails(cfg, "table "+cfg.Keyspace+".snapshots does not exist", "--create-schema")
	if err := CreateSchema(t.Context(), cfg); err != nil { // it fills the gap
		t.Fatal(err)
	}
	s := mustOpen(t, cfg)
	if _, err := s.Meta(t.Context()); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("meta: %v, want ErrNotFound: Open creates no board", err)
	}
	mustExec(t, session, "ALTER TABLE snapshots DROP data")
	fails(cfg, "snapshots has no column data", "another version")
}

func TestOpenRefusesTheBoard(t *testing.T) {
	cfg := freshSchema(t)
	s := mustOpen(t, cfg)
	if err := s.Create(t.Context(), store.Meta{Format: store.FormatVersion, Epoch: 1 << 63, Shards: 65, DataCentre: "atlantis"}); !errors.Is(err, store.ErrInvalid) {
		t.Fatalf("a board of another data centre: %v, want ErrInvalid", err)
	}
	if err := s.Create(t.Context(), store.Meta{Format: store.FormatVersion, Epoch: 1 << 63, Shards: 65}); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Meta(t.Context()); err != nil || m.DataCentre != testDC || m.Epoch != 1<<63 {
		t.Fatalf("%+v, %v, want the local data centre's name in it", m, err)
	}
	session := rawSession(t, cfg)
	set := func(what string, value any) {
		t.Helper()
		q := session.Query("UPDATE board SET "+what+" = ? WHERE id = ? IF EXISTS", value, boardID).WithContext(t.Context())
		if applied, err := q.MapScanCAS(map[string]any{}); err != nil || !applied {
			t.Fatal(applied, err)
		}
	}
	set("data_centre", "atlantis")
	if s, err := Open(t.Context(), cfg); err == nil {
		s.Close()
		t.Fatal("opened a board of another data centre")
	} else {
		wantOneLine(t, err, "data centre atlantis", testDC)
	}
	set("data_centre", testDC)
	set("format", store.FormatVersion+1)
	if _, err := Open(t.Context(), cfg); !errors.Is(err, store.ErrFormat) {
		t.Fatalf("a board of a newer format: %v, want ErrFormat", err)
	} else {
		wantOneLine(t, err, fmt.Sprint("format ", store.FormatVersion+1), fmt.Sprint("knows ", store.FormatVersion))
	}
	if _, err := s.Meta(t.Context()); !errors.Is(err, store.ErrFormat) {
		t.Fatalf("meta of a newer format: %v, want ErrFormat", err)
	}
}

func TestSchemaIsCreatedOnceOnly(t *testing.T) {
	cfg := testConfig(t)
	if s, err := Open(t.Context(), cfg); err == nil {
		s.Close()
		t.Fatal("Open created a schema")
	}
	for range 2 {
		if err := CreateSchema(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, cfg)
		if err := s.Create(t.Context(), store.Meta{Format: store.FormatVersion, Epoch: 1}); err != nil && !errors.Is(err, store.ErrExists) {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, cfg)
	if m, err := s.Meta(t.Context()); err != nil || m.Epoch != 1 {
		t.Fatalf("the board after a second CreateSchema: %+v, %v", m, err)
	}
	session := rawSession(t, cfg)
	var replication map[string]string
	err := session.Query("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?", cfg.Keyspace).WithContext(t.Context()).Scan(&replication)
	if err != nil || replication[testDC] != "1" {
		t.Fatalf("replication %v, %v, want one copy on the only node", replication, err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Hosts = []string{l.Addr().String()}
	cfg.Timeout = time.Second
	_, err = Open(t.Context(), cfg) // it is accepted and nobody speaks
	wantOneLine(t, err, cfg.Hosts[0])
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	cfg.Timeout = timeoutMax
	if _, err := Open(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("open under a context that ends: %v", err)
	}
	l.Close()
	_, err = Open(t.Context(), cfg)
	wantOneLine(t, err, cfg.Hosts[0], "refused")
}

func TestConfigFaults(t *testing.T) {
	ok := DefaultConfig()
	if err := ok.Validate(); err != nil {
		t.Fatalf("the default: %v", err)
	}
	for _, c := range []struct {
		says string
		set  func(*Config)
	}{
		{"no hosts", func(c *Config) { c.Hosts = nil }},
		{"host name is empty", func(c *Config) { c.Hosts = []string{"a", ""} }},
		{"keyspace", func(c *Config) { c.Keyspace = "" }},
		{"keyspace", func(c *Config) { c.Keyspace = "Board; DROP" }},
		{"keyspace", func(c *Config) { c.Keyspace = "a23456789012345678901234567890123456789012345678x" }},
		{"replication -1", func(c *Config) { c.Replication = -1 }},
		{"replication 10", func(c *Config) { c.Replication = 10 }},
		{"0 slots", func(c *Config) { c.Slots = 0 }},
		{"257 slots", func(c *Config) { c.Slots = 257 }},
		{"timeout 0s", func(c *Config) { c.Timeout = 0 }},
		{"timeout 1h", func(c *Config) { c.Timeout = time.Hour }},
		{`consistency "ONE"`, func(c *Config) { c.Consistency = "ONE" }},
		{`serial consistency "QUORUM"`, func(c *Config) { c.SerialConsistency = "QUORUM" }},
		{"password without", func(c *Config) { c.Password = "secret" }},
		{"belong together", func(c *Config) { c.TLSCAFile, c.TLSCertFile = "ca", "cert" }},
		{"certificate authority", func(c *Config) { c.TLSCertFile, c.TLSKeyFile = "cert", "key" }},
	} {
		cfg := DefaultConfig()
		c.set(&cfg)
		wantOneLine(t, cfg.Validate(), c.says)
		if _, err := Open(t.Context(), cfg); err == nil {
			t.Errorf("%s: opened", c.says)
		}
	}
}

func TestTLSFilesMustHoldCertificates(t *testing.T) {
	cfg := DefaultConfig()
	cfg.TLSCAFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(cfg.TLSCAFile, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), cfg)
	wantOneLine(t, err)
}

// Health tells of a node that stopped answering although nobody commits, and of its return.
func TestHealthFollowsTheNode(t *testing.T) {
	cfg := freshSchema(t)
	s, p := behindProxy(t, cfg)
	mustApply(t, s, shardCommit(1, 1, 1))
	if h := s.Health(t.Context()); h.Err != nil {
		t.Fatalf("health %v", h.Err)
	}
	p.hold(toNode)
	until(t, "health tells of the silence", settleMax, func() bool { return s.Health(t.Context()).Err != nil })
	p.release(toNode)
	until(t, "health tells of the return", settleMax, func() bool { return s.Health(t.Context()).Err == nil })
	ctx, cancel := context.WithCancel(t.Context())
	p.hold(toNode)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Commit(ctx, shardCommit(1, 2, 2))
		ended <- err
	}()
	until(t, "the commit is under way", settleMax, func() bool { return len(s.writes) == 1 })
	cancel()
	<-ended
	if h := s.Health(t.Context()); h.Err != nil {
		t.Errorf("health %v: what a caller gives up says nothing of the node", h.Err)
	}
	p.release(toNode)
}
