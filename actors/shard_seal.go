package actors

import (
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// shardBuilder puts one commit of a shard together at sealing: bans, closings, charges, jobs, in this order. A user has at
// most one row in a commit; a later one takes the place of an earlier one.
type shardBuilder struct {
	s      *Shard
	sealed sealedShard
	rows   []store.Row
	bytes  int
	at     map[string]int             // index in rows by key
	banned map[board.UserID]store.Ban // bans of this very commit
}

func newShardBuilder(s *Shard, atMs int64) *shardBuilder {
	rows := min(s.closings+len(s.queue)+len(s.bans), store.CommitRowsMax)
	return &shardBuilder{
		s: s, sealed: sealedShard{atMs: atMs, version: s.rules.Version()}, rows: make([]store.Row, 0, rows), at: make(map[string]int, rows),
	}
}

// fits reports whether the row may join, and adds it.
func (b *shardBuilder) fits(key string, value []byte) bool {
	size := len(key) + len(value)
	if i, ok := b.at[key]; ok {
		b.bytes += len(value) - len(b.rows[i].Value)
		b.rows[i].Value = value
		return true
	}
	if len(b.rows) >= store.CommitRowsMax || b.bytes+size > store.CommitRowBytesMax {
		return false
	}
	b.at[key] = len(b.rows)
	b.rows = append(b.rows, store.Row{Key: key, Value: value})
	b.bytes += size
	return true
}

// rowBytesLikely is room for nearly every row without a ban's note.
const rowBytesLikely = 80

func encoded(row *store.UserRow) []byte { return row.AppendTo(make([]byte, 0, rowBytesLikely)) }

// ban returns the ban that a row of this commit carries for a user.
func (b *shardBuilder) ban(user board.UserID, known store.Ban) store.Ban {
	if ban, ok := b.banned[user]; ok {
		return ban
	}
	return known
}

// bans writes the rows of bans, each on top of the user's newest durable charge.
func (b *shardBuilder) bans() {
	for _, ban := range b.s.bans {
		if b.banned == nil {
			b.banned = map[board.UserID]store.Ban{}
		}
		b.banned[ban.User] = ban.ban()
		row := ban.Before
		for _, c := range b.s.head {
			if c.User == ban.User && c.Kind == board.KindUser && c.Turn >= row.Turn {
				row = chargeRow(c)
			}
		}
		row.Ban = ban.ban()
		b.fits(string(ban.User), encoded(&row))
	}
	b.sealed.bans, b.s.bans = b.s.bans, nil
}

// closings writes the sequence into the row of each placed charge and leaves the charge out of the head.
func (b *shardBuilder) closings() {
	if b.s.closings == 0 {
		return
	}
	for _, c := range b.s.head {
		if c.state != chargePlaced {
			continue
		}
		if c.Kind == board.KindUser {
			row := chargeRow(c)
			row.Ban = b.ban(c.User, c.banned)
			if !b.fits(string(c.User), encoded(&row)) {
				return
			}
		}
		c.state = chargeClosing
		b.sealed.closings = append(b.sealed.closings, c)
	}
}

// jobs writes the rows of operators' jobs, with the cursor behind the last charge of this commit.
func (b *shardBuilder) jobs() {
	for _, j := range b.s.jobs.dirty() {
		if !b.fits(j.ID, j.encode()) {
			return
		}
		j.isDirty = false
		b.sealed.jobs = append(b.sealed.jobs, j)
	}
}

// charges checks every queued charge again and gives it its ticket and time, as long as rows and head have room. A charge
// never comes before the closing of the user's last one: a head holds one charge a user, and no closing can be written over
// the row of a newer charge.
func (b *shardBuilder) charges() {
	s := b.s
	version := s.commits.version + 1
	for len(s.queue) > 0 && s.refuse == board.CodeOK {
		c := s.queue[0]
		if c.older != nil && c.older.state < chargeClosing {
			return // the commit was full before it came to that closing
		}
		if c.Kind == board.KindUser {
			c.banned = b.ban(c.User, c.banned)
			if code, wait := b.check(c); code != board.CodeOK {
				s.queue = s.queue[1:]
				s.refuseQueued(c, code, wait)
				continue
			}
		}
		c.AtMs, c.SettingsVersion, c.Node = b.sealed.atMs, s.rules.Version(), s.node.ID
		c.Ticket = board.Ticket{Shard: uint8(s.index), Commit: version, Index: uint16(len(b.sealed.charges))}
		if len(b.sealed.charges) >= store.CommitRowsMax {
			return
		}
		if c.Kind == board.KindUser {
			row := chargeRow(c)
			if !b.fits(string(c.User), encoded(&row)) {
				return
			}
		}
		if c.job != nil {
			c.job.sealed, c.job.isDirty = c.cursor, true
			c.job.queued--
			c.job.open++
		}
		c.state, c.older = chargeSealed, nil
		s.queue = s.queue[1:]
		b.sealed.charges = append(b.sealed.charges, c)
	}
}

// check is the last check before a charge: nothing refuses after it.
func (b *shardBuilder) check(c *charge) (board.Code, int64) {
	if code := b.s.rules.Settings().CheckPlacement(c.At, c.Colour); code != board.CodeOK {
		return code, 0
	}
	row := c.before
	row.Ban = c.banned
	return checkRow(b.sealed.atMs, &row, b.s.rules, b.s.node)
}

func (b *shardBuilder) empty() bool {
	return len(b.rows) == 0 && len(b.sealed.closings) == 0 && len(b.sealed.charges) == 0
}

// chargeBytesLikely is room for nearly every charge of a head.
const chargeBytesLikely = 80

// state encodes the head: the open charges that stay, then the new ones.
func (b *shardBuilder) state() []byte {
	state := store.ShardState{LastAtMs: b.sealed.atMs, Open: make([]store.Charge, 0, len(b.s.head)+len(b.sealed.charges))}
	for _, c := range b.s.head {
		if c.state != chargeClosing {
			state.Open = append(state.Open, c.Charge)
		}
	}
	for _, c := range b.sealed.charges {
		state.Open = append(state.Open, c.Charge)
	}
	return state.AppendTo(make([]byte, 0, (len(state.Open)+1)*chargeBytesLikely))
}
