//go:build unix

package system_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	engine "github.com/cockroachdb/pebble/v2"

	"github.com/placed-board/placed/wire"
)

// refusedWithin bounds a start that is refused.
const refusedWithin = 20 * time.Second

// awaitRefusal starts a process that must not serve: it says why in one line, and ends with code 1.
func (n *node) awaitRefusal(words ...string) {
	n.t.Helper()
	n.launch()
	if code := n.awaitEnd(refusedWithin); code != 1 {
		n.t.Errorf("code %d, want 1", code)
	}
	said := n.stderr.String()
	if !oneLine(said) || n.stdout.String() != "" {
		n.t.Errorf("want one line on stderr and none on stdout, got %q and %q", said, n.stdout.String())
	}
	for _, word := range words {
		if !strings.Contains(said, word) {
			n.t.Errorf("%q does not speak of %q", said, word)
		}
	}
}

// TestSecondProcessOnTheSameData is refused, and the first goes on.
func TestSecondProcessOnTheSameData(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--width", "100", "--height", "100", "--cooldown", "50ms")
	s := startStorm(t, n, smallLoad())
	second := newNode(t)
	second.dir = n.dir
	second.awaitRefusal(n.dir, "in use", "another placed")
	s.everyone()
	s.judge()
}

// smallLoad is for tests about something else than load.
func smallLoad() load {
	l := stormy()
	l.users, l.mirrors, l.area.Width, l.area.Height = 8, 2, 100, 100
	return l
}

// TestNewerDataIsRefused: a data directory of a newer placed, or of a newer engine, is left alone.
func TestNewerDataIsRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--width", "100", "--height", "100", "--cooldown", "50ms")
	s := startStorm(t, n, smallLoad())
	s.more(50)
	s.judge()
	path := filepath.Join(n.dir, "board", "FORMAT")
	ours, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"format", "pebble"} {
		var newer map[string]uint64
		if err := json.Unmarshal(ours, &newer); err != nil {
			t.Fatal(err)
		}
		newer[member] += 100
		b, err := json.Marshal(newer)
		if err == nil {
			err = os.WriteFile(path, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		before := listing(t, n.dir)
		n.awaitRefusal(n.dir, "newer")
		if after := listing(t, n.dir); before != after {
			t.Errorf("the refused start changed the data directory from\n%sto\n%s", before, after)
		}
	}
	if err := os.WriteFile(path, ours, 0o600); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.verify()
	n.stop()
}

// listing names every file in a directory with its time, but for the lock.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "LOCK" {
			return err
		}
		info, err := e.Info()
		if err == nil {
			out.WriteString(path + " " + info.ModTime().String() + " " + info.Mode().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestCorruptSnapshots: snapshots are derived. Whichever of them are damaged, the journal gives the same board.
func TestCorruptSnapshots(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--width", "200", "--height", "100", "--cooldown", "0s")
	load := smallLoad()
	load.area.Width = 200
	s := startStorm(t, n, load)
	s.more(500)
	n.stop() // writes snapshots
	n.start()
	s.more(500)
	want := s.freeze()
	n.stop()
	for _, keep := range []int{1, 0} { // the older of two snapshots, then none
		if damaged := damageSnapshots(t, n.dir, keep); damaged == 0 {
			t.Fatal("there was no snapshot to damage")
		}
		n.start()
		got, err := n.api().Board(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !sameBoard(got, want) {
			t.Errorf("with %d snapshots a block left the board is another one", keep)
		}
		n.verify()
		n.stop()
	}
	n.start()
	n.set("--no-frozen")
	s.everyone()
	s.judge()
}

// freeze stops all placing on the board, while the users go on trying, and returns the board.
func (s *storm) freeze() *wire.BoardBody {
	s.t.Helper()
	s.node.set("--frozen")
	eventually(s.t, moreWithin, "the board to be frozen", func() bool {
		status := s.node.status()
		return status.FrozenFully && status.OpenCharges == 0
	})
	return s.converged(s.node.verify().Placements)
}

// sameBoard compares boards but for what tells their processes apart.
func sameBoard(a, b *wire.BoardBody) bool {
	plain := func(body *wire.BoardBody) []byte {
		copied := *body
		copied.Incarnation, copied.Tick = 0, 0
		return wire.AppendBoard(nil, &copied)
	}
	return bytes.Equal(plain(a), plain(b))
}

// damageSnapshots flips bytes of the snapshots in a stopped store, all but the oldest few of each block, and returns how
// many it damaged. Keys of snapshots are 's', the block in two bytes, and a slot; values begin with a checksum and the
// version, both little-endian.
func damageSnapshots(t *testing.T, dataDir string, keep int) (damaged int) {
	t.Helper()
	db, err := engine.Open(filepath.Join(dataDir, "board"), &engine.Options{
		FormatMajorVersion: engine.FormatNewest, Logger: quiet{},
	})
	if err != nil {
		t.Fatal(err)
	}
	slots := map[string][][]byte{} // keys by block
	values := map[string][]byte{}
	iter, err := db.NewIter(&engine.IterOptions{LowerBound: []byte{'s'}, UpperBound: []byte{'s' + 1}})
	if err != nil {
		t.Fatal(err)
	}
	for iter.First(); iter.Valid(); iter.Next() {
		key := bytes.Clone(iter.Key())
		slots[string(key[:3])] = append(slots[string(key[:3])], key)
		values[string(key)] = bytes.Clone(iter.Value())
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	for _, keys := range slots {
		newest := keys[0]
		for _, key := range keys {
			if versionOf(values[string(key)]) > versionOf(values[string(newest)]) {
				newest = key
			}
		}
		for _, key := range keys {
			if keep > 0 && !bytes.Equal(key, newest) {
				continue
			}
			value := values[string(key)]
			for i := 12; i < len(value); i += 97 {
				value[i] ^= 0x55
			}
			if err := db.Set(key, value, engine.Sync); err != nil {
				t.Fatal(err)
			}
			damaged++
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return damaged
}

func versionOf(snapshot []byte) (version uint64) {
	for i := 11; i >= 4; i-- {
		version = version<<8 | uint64(snapshot[i])
	}
	return version
}

// quiet takes the engine's lines.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}

func (quiet) Fatalf(format string, args ...any) {
	slog.Error("store engine", "format", format, "args", args)
	os.Exit(1)
}
