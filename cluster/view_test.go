package cluster

import (
	"fmt"
	"testing"
)

// TestOwners checks that shares are even, also for addresses that differ in their last digit, and that only the share of a
// member that comes or goes moves.
func TestOwners(t *testing.T) {
	const keys = 6000
	members := func(n int) []Member {
		var list []Member
		for i := range n {
			list = append(list, Member{Address: fmt.Sprintf("127.0.0.1:%d", 8090+i), State: Serving})
		}
		return list
	}
	three, four := newView(1, members(3)), newView(2, members(4))
	share, moved := map[string]int{}, 0
	for i := range keys {
		key := fmt.Sprintf("shard-%d", i)
		before, after := three.Owner(key), four.Owner(key)
		share[before]++
		if before != after {
			moved++
			if after != "127.0.0.1:8093" {
				t.Fatalf("%s moved from %s to %s, which did not join", key, before, after)
			}
		}
	}
	for address, n := range share {
		if n < keys/3*9/10 || n > keys/3*11/10 {
			t.Errorf("%s owns %d of %d keys", address, n, keys)
		}
	}
	if moved < keys/4*9/10 || moved > keys/4*11/10 {
		t.Errorf("%d of %d keys moved to the fourth member", moved, keys)
	}
}

func TestOnlyServingMembersOwn(t *testing.T) {
	v := newView(1, []Member{{Address: "b:1", State: Draining}, {Address: "a:1", State: Joining}})
	if owner := v.Owner("x"); owner != "" {
		t.Errorf("%s owns, and nobody serves", owner)
	}
	v = newView(1, []Member{{Address: "b:1", State: Serving}, {Address: "a:1", State: Draining}})
	for i := range 100 {
		if owner := v.Owner(fmt.Sprint(i)); owner != "b:1" {
			t.Fatalf("%q owns", owner)
		}
	}
	if v.Member("a:1") == nil || v.Member("c:1") != nil {
		t.Error("members are looked up wrongly")
	}
}
