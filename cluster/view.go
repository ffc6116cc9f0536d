package cluster

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Member is a node that another one takes for alive.
type Member struct {
	Address     string // where it gets messages; the member's name
	Gossip      string // host:port
	Incarnation uint64
	State       State

	hash uint64 // of Address
}

// View is the members that one node sees alive, itself included, ascending by address. It is never changed after it was made.
type View struct {
	Number  uint64 // grows by one with every change that this node sees
	Members []Member
}

// newView returns a view of the members, sorted.
func newView(number uint64, members []Member) *View {
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Address, b.Address) })
	for i := range members {
		members[i].hash = xxhash.Sum64String(members[i].Address)
	}
	return &View{Number: number, Members: members}
}

// same reports whether the two views hold the same members in the same states.
func (v *View) same(other *View) bool { return slices.Equal(v.Members, other.Members) }

// Member returns the member at an address, nil when there is none.
func (v *View) Member(address string) *Member {
	i, ok := slices.BinarySearchFunc(v.Members, address, func(m Member, a string) int { return strings.Compare(m.Address, a) })
	if !ok {
		return nil
	}
	return &v.Members[i]
}

// Owner returns the address of the member that owns a key: the one that serves whose hash with the key is the highest
// (rendezvous hashing). A member that comes or goes moves only its own share. "" when nobody serves.
func (v *View) Owner(key string) string {
	hash := xxhash.Sum64String(key)
	owner, highest := "", uint64(0)
	for i := range v.Members {
		m := &v.Members[i]
		if m.State != Serving {
			continue
		}
		if score := mix(hash ^ m.hash); owner == "" || score > highest {
			owner, highest = m.Address, score
		}
	}
	return owner
}

// mix is the finaliser of splitmix64: every bit of x moves every bit of the result. Without it the share of addresses that
// differ in their last digit is uneven.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
