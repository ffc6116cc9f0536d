package store

import (
	"fmt"

	"github.com/placed-board/placed/board"
)

// entryKey is a board.Entry in one word: the block, and 48 bits of the version.
type entryKey uint64

const entryVersionBits = 48

func keyOf(e board.Entry) entryKey {
	if e.Version == 0 {
		return 0
	}
	return entryKey(e.Block)<<entryVersionBits | entryKey(e.Version&(1<<entryVersionBits-1))
}

// String returns the entry as "block/3/4 commit 17".
func (k entryKey) String() string {
	if k == 0 {
		return "no commit"
	}
	return fmt.Sprintf("%v commit %d", Block(board.BlockID(k>>entryVersionBits)), uint64(k&(1<<entryVersionBits-1)))
}

// mix spreads a key over 64 bits, 0 for no commit: sums of mixed keys are equal, in practice, only for equal sets.
func (k entryKey) mix() uint64 {
	x := uint64(k)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// userChain adds up the links of one user's history. Every placement but the newest is named once as the one before, so the
// sum over all of (their own commit - the commit that they name) is the newest one's commit: a proof that needs two words of
// a user, however many placements there are.
type userChain struct {
	turned, imported uint64 // sums over the kinds user and import
	turns            uint64 // placements of kind user
	linked           bool   // an import names a placement before
}

func (c *userChain) add(kind board.Kind, entry, previous entryKey) {
	if kind == board.KindImport {
		c.imported += entry.mix() - previous.mix()
		c.linked = c.linked || previous != 0
		return
	}
	c.turned += entry.mix() - previous.mix()
	c.turns++
}

// compareChain checks that a walk from the user's row finds every placement of the user. Imports that were made without a
// chain, none of them, are in no history.
func (v *verifier) compareChain(user board.UserID, r *UserRow, id uint32) {
	c, newest := &v.chains[id], v.newest[id]
	if r.Turn != newest.turn || c.turns != newest.turn {
		return // placements flow meanwhile, or turns are missing, which is said elsewhere
	}
	key := keyOf(r.Newest)
	if r.Turn > 0 && r.Sequence == 0 { // on the board, not closed yet: the row names the placement before
		if key != newest.previous {
			v.violate("I6", "user %q: the row names %v as the placement before turn %d, the journal %v", user, key, r.Turn, newest.previous)
		}
		key = newest.entry
	}
	if c.turned+c.imported == key.mix() || !c.linked && c.turned == key.mix() {
		return
	}
	v.violate("I6", "user %q: a walk back from %v does not find exactly the user's placements", user, key)
}

// circles checks the placements of a user that stand in one commit, as an import's may: each but the first names this very
// commit. A walk comes to a commit and takes the newest of them; one that named another commit in between would lead it back
// here for ever, which the sums of a chain do not show.
func (v *verifier) circles(b board.BlockID, version uint64, commit *BlockCommit) {
	if len(commit.Placements) < 2 {
		return
	}
	if v.here == nil {
		v.here = map[board.UserID]bool{}
	}
	clear(v.here)
	for i := range commit.Placements {
		p := &commit.Placements[i]
		if p.Kind != board.KindUser && p.Kind != board.KindImport {
			continue
		}
		if v.here[p.User] && p.UserPrevious.Version != 0 && p.UserPrevious != (board.Entry{Block: b, Version: version}) {
			v.violate("I6", "user %q: %v commit %d has two of the user's placements, and another commit's between them", p.User, Block(b), version)
		}
		v.here[p.User] = true
	}
}
