package actors

import (
	"testing"

	"github.com/placed-board/placed/store"
)

// The fate of a commit follows from the store's answer alone (rules of commits, 2).
func TestCommitterResult(t *testing.T) {
	for _, c := range []struct {
		name   string
		result func(own uint64) store.Result
		want   fate
	}{
		{"applied", func(uint64) store.Result { return store.Result{Applied: true} }, fateApplied},
		{"applied before, the answer was lost", func(own uint64) store.Result { return store.Result{Head: store.Head{Version: 5, Attempt: own}} }, fateApplied},
		{"somebody else made this version", func(uint64) store.Result { return store.Result{Head: store.Head{Version: 5, Attempt: 1}} }, fateMoved},
		{"somebody else went on", func(uint64) store.Result { return store.Result{Head: store.Head{Version: 9, Attempt: 1}} }, fateMoved},
		{"nobody has made this version", func(uint64) store.Result { return store.Result{Head: store.Head{Version: 4, Attempt: 1}} }, fateUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := committer{partition: store.Shard(3), random: testRandom(), version: 4}
			if !k.askSlot() || k.askSlot() {
				t.Fatal("a slot is asked for once")
			}
			k.wantsSlot = false
			sealed := k.seal(7, nil, nil)
			if sealed.Head.Version != 5 || sealed.Head.Owner.SettingsVersion != 7 || sealed.Head.Attempt == 0 || k.askSlot() {
				t.Fatalf("sealed %+v", sealed)
			}
			if got := k.result(sealed.Head.Attempt+1, store.Result{Applied: true}); got != fateStale {
				t.Fatalf("an answer to another commit: %v", got)
			}
			if got := k.result(sealed.Head.Attempt, c.result(sealed.Head.Attempt)); got != c.want {
				t.Fatalf("fate %v, want %v", got, c.want)
			}
			wantVersion := uint64(4)
			if c.want == fateApplied {
				wantVersion = 5
			}
			if k.version != wantVersion || (k.inFlight != nil) != (c.want == fateUnknown) {
				t.Errorf("version %d, in flight %v", k.version, k.inFlight)
			}
			if c.want != fateUnknown && k.result(sealed.Head.Attempt, store.Result{Applied: true}) != fateStale {
				t.Error("the same answer counts twice")
			}
		})
	}
}
