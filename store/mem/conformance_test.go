package mem_test

import (
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/mem"
	"github.com/placed-board/placed/store/storetest"
)

type opener struct{ core *mem.Core }

func (o opener) Open(testing.TB) store.Store { return mem.Open(o.core) }

func (o opener) CorruptSnapshot(t testing.TB, b board.BlockID, version uint64) {
	if !o.core.CorruptSnapshot(b, version) {
		t.Fatalf("no snapshot %d of block %d", version, b)
	}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opener { return opener{mem.NewCore()} }, mem.NewCore())
}
