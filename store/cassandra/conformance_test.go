package cassandra

import (
	"context"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/store/storetest"
)

// keyspaceOpener is a keyspace of the node, as storetest wants it.
type keyspaceOpener struct{ cfg Config }

// inDC1 renames the node's data centre: the suite makes boards in "dc1", and this store refuses all but its own.
type inDC1 struct{ store.Store }

func (s inDC1) Create(ctx context.Context, m store.Meta) error {
	m.DataCentre = strings.Replace(m.DataCentre, "dc1", testDC, 1)
	return s.Store.Create(ctx, m)
}

func (s inDC1) Meta(ctx context.Context) (store.Meta, error) {
	m, err := s.Store.Meta(ctx)
	m.DataCentre = strings.Replace(m.DataCentre, testDC, "dc1", 1)
	return m, err
}

func (o keyspaceOpener) Open(t testing.TB) store.Store {
	s, err := Open(t.Context(), o.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return inDC1{s}
}

func (o keyspaceOpener) CorruptSnapshot(t testing.TB, b board.BlockID, version uint64) {
	session := rawSession(t, o.cfg)
	var slot int
	var stamp int64
	var data []byte
	it := session.Query("SELECT slot, version, data, WRITETIME(data) FROM snapshots WHERE block = ?", int(b)).WithContext(t.Context()).Iter()
	found := false
	for v := int64(0); it.Scan(&slot, &v, &data, &stamp); {
		if uint64(v) != version {
			continue
		}
		found = true
		data[len(data)/2] ^= 0x10
		mustExec(t, session, "UPDATE snapshots USING TIMESTAMP ? SET data = ? WHERE block = ? AND slot = ?", stamp+1, data, int(b), slot)
	}
	if err := it.Close(); err != nil || !found {
		t.Fatalf("snapshot %d of block %d: found %t, %v", version, b, found, err)
	}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener { return keyspaceOpener{freshSchema(t)} }, mem.NewCore())
}
