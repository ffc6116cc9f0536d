package cassandra

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/placed-board/placed/store"
)

func TestHeadComesBack(t *testing.T) {
	for _, h := range []store.Head{
		{Version: 1, Attempt: 1},
		{Version: math.MaxInt64, Attempt: math.MaxUint64, Owner: store.Owner{
			Address: strings.Repeat("a", store.OwnerAddressMax), Incarnation: math.MaxUint64, SettingsVersion: math.MaxUint64,
		}, State: bytes.Repeat([]byte{7}, store.HeadStateBytesMax)},
		{Version: 5, Attempt: 9, Owner: store.Owner{Address: "10.0.0.1:7000", Incarnation: 3, SettingsVersion: 300}, State: []byte{0}},
	} {
		got, err := decodeHead(int64(h.Version), appendHead(nil, &h))
		if err != nil || got.Version != h.Version || got.Attempt != h.Attempt || got.Owner != h.Owner || !bytes.Equal(got.State, h.State) {
			t.Errorf("%+v, %v, want %+v", got, err, h)
		}
	}
}

func TestHeadFaults(t *testing.T) {
	good := appendHead(nil, &store.Head{Attempt: 1, Owner: store.Owner{Address: "n1", SettingsVersion: 300}})
	for n := range len(good) {
		if _, err := decodeHead(1, good[:n]); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v, want ErrCorrupt", n, len(good), err)
		}
	}
	if _, err := decodeHead(-1, good); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("version -1: %v, want ErrCorrupt", err)
	}
	good[0] = headFormat + 1
	if _, err := decodeHead(1, good); !errors.Is(err, store.ErrFormat) {
		t.Errorf("a newer head: %v, want ErrFormat", err)
	}
}

func FuzzDecodeHead(f *testing.F) {
	f.Add(int64(1), appendHead(nil, &store.Head{Attempt: 1, Owner: store.Owner{Address: "n1", SettingsVersion: 300}, State: []byte("state")}))
	f.Add(int64(0), []byte{})
	f.Fuzz(func(t *testing.T, version int64, b []byte) {
		h, err := decodeHead(version, b)
		if err != nil || version == 0 {
			return
		}
		again, err := decodeHead(version, appendHead(nil, &h))
		if err != nil || again.Attempt != h.Attempt || again.Owner != h.Owner || !bytes.Equal(again.State, h.State) {
			t.Fatalf("%+v came back as %+v, %v", h, again, err)
		}
	})
}

func FuzzOpenSnapshot(f *testing.F) {
	f.Add(uint64(7), sealSnapshot(&store.Snapshot{Version: 7, Data: []byte("data")}))
	f.Fuzz(func(t *testing.T, version uint64, b []byte) {
		if s, ok := openSnapshot(version, b); ok && !bytes.Equal(sealSnapshot(&s), b) {
			t.Fatalf("snapshot %d does not come back", version)
		}
	})
}
