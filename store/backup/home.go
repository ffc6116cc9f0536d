package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/pebble"
)

// Home is a data directory: the board of the embedded store, beside what is to replace it and what it has replaced.
//
//	board            the board
//	board.restoring  being filled; worthless
//	board.restored   complete and on the disk: the next Settle puts it in the place of board
//	board.replaced-* boards that were replaced, for the operator to delete
//	LOCK             held by the process that works here
//
// Giving board.restoring its second name decides a restore: before it the old board is the board, after it the new one,
// whatever is cut short where.
type Home struct{ Dir string }

const lockName = "LOCK"

// Board returns the directory of the board's store.
func (h Home) Board() string { return filepath.Join(h.Dir, "board") }

func (h Home) restoring() string { return h.Board() + ".restoring" }
func (h Home) restored() string  { return h.Board() + ".restored" }

// Lock takes the data directory for this process until it is closed; store.ErrLocked when another one has it. The directory
// is made when it is missing.
func (h Home) Lock() (io.Closer, error) {
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return pebble.Lock(h.Dir)
}

// Settle ends what was cut short, under the lock: a replacement that is decided is carried out, one that is not is dropped. It
// returns where the board that was replaced is kept, "" when none was.
func (h Home) Settle() (replaced string, err error) {
	if err := os.RemoveAll(h.restoring()); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	if !exists(h.restored()) {
		return "", nil
	}
	if exists(h.Board()) {
		if err := h.idle(); err != nil {
			return "", err
		}
		replaced = h.Board() + ".replaced-" + time.Now().UTC().Format("20060102T150405.000")
		if err := os.Rename(h.Board(), replaced); err != nil {
			return "", fmt.Errorf("data directory: %w", err)
		}
	}
	if err := os.Rename(h.restored(), h.Board()); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	return replaced, h.sync()
}

// idle answers store.ErrLocked when a process has the board open: a placed from before data directories were locked does not
// hold that lock.
func (h Home) idle() error {
	if !exists(h.Board()) {
		return nil
	}
	lock, err := pebble.Lock(h.Board())
	if err != nil {
		return err
	}
	return lock.Close()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// sync makes the names in the data directory durable.
func (h Home) sync() error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	d, err := os.Open(h.Dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// stage fills a directory with a whole store and decides that it replaces the board. An error means that nothing has changed.
func (h Home) stage(fill func(dir string) error) error {
	dir := h.restoring()
	if exists(h.restored()) {
		return fmt.Errorf("%w: another board waits to replace this one: start placed", store.ErrBusy)
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	if err := fill(dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := h.sync(); err != nil {
		return err
	}
	if err := os.Rename(dir, h.restored()); err != nil {
		return err
	}
	return h.sync()
}

// Audit says who replaces a board and why; it becomes a version of the settings.
type Audit struct{ By, Why string }

// Restore checks an archive and decides that its board, under a new epoch, replaces the one here; Settle carries it out. It needs
// the lock. confirm (nil: yes) hears of the manifest before anything is written. An error means that nothing has changed.
func (h Home) Restore(ctx context.Context, r io.Reader, audit Audit, log *slog.Logger, confirm func(*Manifest) error) (Manifest, error) {
	var m Manifest
	if err := h.idle(); err != nil {
		return m, fmt.Errorf("restore: %w", err)
	}
	err := h.stage(func(dir string) (err error) {
		m, err = extract(r, dir, func(m *Manifest) error {
			if confirm != nil {
				if err := confirm(m); err != nil {
					return err
				}
			}
			return h.room(m.Bytes())
		})
		if err != nil {
			return err
		}
		return renew(ctx, dir, audit, log)
	})
	if err != nil {
		return m, fmt.Errorf("restore: %w", err)
	}
	return m, nil
}

// room refuses an archive that the disk has no space for.
func (h Home) room(bytes int64) error {
	free, err := pebble.Free(h.Dir)
	if err == nil && free < uint64(bytes) {
		return fmt.Errorf("%w: %d MiB are needed, %d MiB are free", store.ErrFull, bytes>>20, free>>20)
	}
	return nil // where the system does not tell, writing will
}

func openIn(dir string, log *slog.Logger) (*pebble.Store, error) {
	config := pebble.DefaultConfig(dir)
	config.Logger = log
	return pebble.Open(config)
}

// renew makes another board of the one in dir: clients drop what they held, and the settings' history tells why.
func renew(ctx context.Context, dir string, audit Audit, log *slog.Logger) (err error) {
	st, err := openIn(dir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := st.Renew(ctx, rand.Uint64()); err != nil {
		return err
	}
	head, err := st.Head(ctx, store.Settings())
	if err != nil {
		return err
	}
	for entry, err := range st.Journal(ctx, store.Settings(), max(head.Version, 1)) {
		if err != nil {
			return err
		}
		r, err := store.DecodeSettings(entry.Value)
		if err != nil {
			return err
		}
		r.Version, r.By, r.Why, r.AtMs = entry.Version+1, audit.By, audit.Why, max(r.AtMs, time.Now().UnixMilli())
		return commitSettings(ctx, st, r)
	}
	return nil
}

func commitSettings(ctx context.Context, st store.Store, r board.SettingsRecord) error {
	value, err := store.EncodeSettings(r)
	if err != nil {
		return err
	}
	owner := store.Owner{Address: "restore", Incarnation: rand.Uint64(), SettingsVersion: r.Version}
	return commit(ctx, st, store.Settings(), store.Head{Version: r.Version, Owner: owner}, []store.Row{{Value: value}})
}

// commit makes one commit of a board that nobody else writes; a version that is there already is store.ErrCorrupt.
func commit(ctx context.Context, st store.Store, p store.Partition, head store.Head, rows []store.Row) error {
	head.Attempt = rand.Uint64() | 1
	result, err := st.Commit(ctx, &store.Commit{Partition: p, Head: head, Rows: rows})
	if err == nil && !result.Applied {
		err = fmt.Errorf("version %d is there already: %w", head.Version, store.ErrCorrupt)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", p, err)
	}
	return nil
}

// Reset decides that an empty board under a new epoch replaces the one here: with its settings, the bans that hold, and the
// invites of the old store. It needs the lock, under which a node may still run on the board that is there; Settle carries it
// out once that has ended.
func (h Home) Reset(ctx context.Context, old store.Store, settings board.SettingsRecord, bans []board.Ban, audit Audit, log *slog.Logger) error {
	err := h.stage(func(dir string) (err error) {
		st, err := openIn(dir, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, st.Close()) }()
		now := time.Now().UnixMilli()
		meta := store.Meta{Format: store.FormatVersion, Epoch: rand.Uint64(), Shards: board.UserShards, CreatedAtMs: now}
		if err := st.Create(ctx, meta); err != nil {
			return err
		}
		settings.Version, settings.By, settings.Why, settings.AtMs = 1, audit.By, audit.Why, now
		if err := commitSettings(ctx, st, settings); err != nil {
			return err
		}
		if err := commitBans(ctx, st, bans, now); err != nil {
			return err
		}
		return copyInvites(ctx, old, st)
	})
	if err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	return nil
}

// copyInvites copies the journal of the invites: who was invited stays so.
func copyInvites(ctx context.Context, from, to store.Store) error {
	for entry, err := range from.Journal(ctx, store.Invites(), 1) {
		if err != nil {
			return fmt.Errorf("%v: %w", store.Invites(), err)
		}
		owner := store.Owner{Address: "reset", SettingsVersion: 1}
		if err := commit(ctx, to, store.Invites(), store.Head{Version: entry.Version, Owner: owner}, []store.Row{{Value: entry.Value}}); err != nil {
			return err
		}
	}
	return nil
}

// bansOfCommit is how many rows of bans a commit takes: as many as a shard's own commits have room for.
const bansOfCommit = 64

// commitBans writes the rows of users who are banned beyond nowMs.
func commitBans(ctx context.Context, st store.Store, bans []board.Ban, nowMs int64) error {
	rows := map[int][]store.Row{}
	for _, b := range bans {
		if b.UntilMs <= nowMs {
			continue
		}
		row := store.UserRow{Ban: store.Ban{BannedUntilMs: b.UntilMs, BanNote: &store.BanNote{By: b.By, Why: b.Why, AtMs: b.AtMs}}}
		shard := b.User.Shard()
		rows[shard] = append(rows[shard], store.Row{Key: string(b.User), Value: row.AppendTo(nil)})
	}
	state := (&store.ShardState{LastAtMs: nowMs}).AppendTo(nil)
	for shard, list := range rows {
		version := uint64(0)
		for some := range slices.Chunk(list, bansOfCommit) {
			version++
			owner := store.Owner{Address: "reset", Incarnation: rand.Uint64(), SettingsVersion: 1}
			if err := commit(ctx, st, store.Shard(shard), store.Head{Version: version, Owner: owner, State: state}, some); err != nil {
				return fmt.Errorf("bans: %w", err)
			}
		}
	}
	return nil
}
