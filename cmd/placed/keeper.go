package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/placed-board/placed/actors"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
	"github.com/placed-board/placed/store/backup"
)

// keeper backs the board up and resets it. It implements transport.Keeper.
type keeper struct {
	dir    string // the data directory
	store  store.Store
	system *actors.System
	log    *slog.Logger
	again  chan struct{} // has one when the node is to start anew, with the board that replaces this one
}

// Backup implements transport.Keeper.
func (k *keeper) Backup(ctx context.Context, w io.Writer) error {
	return refusedBy(backup.Write(ctx, w, k.store, version()))
}

// refusedBy marks what a store refuses, having done nothing.
func refusedBy(err error) error {
	if errors.Is(err, backup.ErrUnable) || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrFull) {
		return fmt.Errorf("%w: %w", board.ErrRefused, err)
	}
	return err
}

// Reset implements transport.Keeper. The next life of the node finds the new board; bans that hold go on holding there.
func (k *keeper) Reset(ctx context.Context, by, why string) error {
	if _, ok := k.store.(*homeStore); !ok {
		return fmt.Errorf("%w: a board kept in %s is not reset: start placed on another keyspace", board.ErrRefused, k.store.Capabilities().Name)
	}
	bans, err := k.system.BansInForce(ctx)
	if err != nil {
		return err
	}
	audit := backup.Audit{By: by, Why: "reset"}
	if why != "" {
		audit.Why += ": " + why
	}
	if err := (backup.Home{Dir: k.dir}).Reset(ctx, k.store, k.system.Settings(), bans, audit, k.log); err != nil {
		return refusedBy(err)
	}
	k.log.Info("the board is reset: the node starts anew", "by", by, "why", why)
	select {
	case k.again <- struct{}{}:
	default: // it is to start anew already
	}
	return nil
}
