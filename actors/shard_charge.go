package actors

// What a shard counts for each charge, from the queue until its closing is committed: room for it (I7), its place in the head
// and the floor that it holds down. The steps that a charge takes are in actors/shard.go.

import (
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// charge is a charge from the queue until its closing is committed.
type charge struct {
	store.Charge
	before   store.UserRow // the user's row that the checks at sealing use
	older    *charge       // of the same user: placed, its closing not sealed yet when this one was queued
	banned   store.Ban     // the user's ban, carried into the row of the closing
	state    chargeState
	sequence uint64 // of the placement, 0 until it is known
	version  uint64 // the block's commit with the placement
	sentAtMs int64
	askedMs  int64 // by the wall clock of this node, for UnknownMs
	unsure   bool  // the user has heard that nobody knows
	madeAtMs int64 // for OverdueMs
	overdue  bool
	job      *job   // ops only
	cursor   cursor // ops only: behind this charge
}

type chargeState uint8

const (
	chargeQueued chargeState = iota
	chargeSealed
	chargeOpen
	chargePlaced
	chargeClosing // its closing is in flight
	chargeClosed
)

// blockLoad is what a shard has under way for one block.
type blockLoad struct {
	unclosed int
	head     []*charge // of the committed head, in the order of their tickets
	tickets  []uint64  // commits of the tickets at or above the floor
}

// room reports whether one more charge for the block may join the queue (I7: refused before anything is charged).
func (s *Shard) room(b board.BlockID) bool {
	load := s.blocks[b]
	return s.unclosed < ShardOpenMax &&
		(load == nil || load.unclosed < ShardBlockOpenMax && len(load.tickets)+load.unclosed < ShardBlockTicketsMax)
}

func (s *Shard) enqueue(c *charge) {
	s.queue = append(s.queue, c)
	s.unclosed++
	s.load(c.At.Block()).unclosed++
	if c.Kind == board.KindUser {
		c.older = s.users[c.User]
		s.users[c.User] = c
	}
}

func (s *Shard) load(b board.BlockID) *blockLoad {
	l := s.blocks[b]
	if l == nil {
		l = new(blockLoad)
		s.blocks[b] = l
	}
	return l
}

// release ends what a charge counts for.
func (s *Shard) release(c *charge) {
	s.unclosed--
	b := c.At.Block()
	l := s.blocks[b]
	l.unclosed--
	if l.unclosed == 0 && len(l.head) == 0 && len(l.tickets) == 0 {
		delete(s.blocks, b)
	}
}

func (s *Shard) addToHead(c *charge) {
	s.head = append(s.head, c)
	l := s.load(c.At.Block())
	l.head = append(l.head, c)
	l.tickets = append(l.tickets, c.Ticket.Commit)
}

// dropClosed takes committed closings out of the head and lifts the floors that they held down.
func (s *Shard) dropClosed(closings []*charge) {
	if len(closings) == 0 {
		return
	}
	gone := func(c *charge) bool { return c.state >= chargeClosing }
	s.head = slices.DeleteFunc(s.head, gone)
	for _, c := range closings {
		b := c.At.Block()
		if l := s.blocks[b]; l != nil {
			l.head = slices.DeleteFunc(l.head, gone)
			floor := s.floor(b)
			l.tickets = slices.DeleteFunc(l.tickets, func(commit uint64) bool { return commit < floor })
			if l.unclosed == 0 && len(l.head) == 0 && len(l.tickets) == 0 {
				delete(s.blocks, b)
			}
		}
		c.state = chargeClosed
		if s.users[c.User] == c {
			delete(s.users, c.User)
		}
		if known := s.reads[c.User]; known != nil && c.Turn >= known.row.Turn {
			banned := known.row.Ban
			known.row, known.charge = chargeRow(c), true
			known.row.Ban = banned
		}
	}
	s.closings -= len(closings)
}

// floor returns the commit below which every ticket of this shard for the block is placed: that of the lowest ticket in the
// COMMITTED head, or the next commit. A floor from uncommitted memory could hide a charge that a crash brings back.
func (s *Shard) floor(b board.BlockID) uint64 {
	if l := s.blocks[b]; l != nil && len(l.head) > 0 {
		return l.head[0].Ticket.Commit
	}
	return s.commits.version + 1
}

// chargeRow returns the user's row as the charge leaves it.
func chargeRow(c *charge) store.UserRow {
	newest := c.UserPrevious
	if c.sequence != 0 {
		newest = board.Entry{Block: c.At.Block(), Version: c.version}
	}
	return store.UserRow{
		Turn: c.Turn, Nonce: c.Nonce, At: c.At, Colour: c.Colour, AtMs: c.AtMs, SettingsVersion: c.SettingsVersion,
		Node: c.Node, Sequence: c.sequence, Newest: newest, Ban: c.banned,
	}
}
