package main

import (
	"errors"
	"io"
	"log/slog"

	"github.com/placed-board/placed/store/backup"
	"github.com/placed-board/placed/store/pebble"
)

// homeStore is the embedded store in a data directory that this process has locked.
type homeStore struct {
	*pebble.Store
	lock io.Closer
}

// Close implements store.Store.
func (h *homeStore) Close() error { return errors.Join(h.Store.Close(), h.lock.Close()) }

// openHome opens the board of a data directory, after a replacement that is decided and not carried out yet.
func openHome(dir string, log *slog.Logger) (_ *homeStore, err error) {
	home := backup.Home{Dir: dir}
	lock, err := home.Lock()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	replaced, err := home.Settle()
	if err != nil {
		return nil, err
	}
	if replaced != "" {
		log.Info("the board was replaced: delete the old one when nobody misses it", "old", replaced)
	}
	config := pebble.DefaultConfig(home.Board())
	config.Logger = log
	st, err := pebble.Open(config)
	if err != nil {
		return nil, err
	}
	return &homeStore{st, lock}, nil
}
