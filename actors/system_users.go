package actors

import (
	"context"
	"errors"
	"fmt"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// KnownUser reports whether the board has ever seen a user: a row in the store, which the first charge or ban makes, or a
// session on this node now.
func (s *System) KnownUser(ctx context.Context, user board.UserID) (bool, error) {
	if s.people.has(user) {
		return true, nil
	}
	_, err := s.store.Row(ctx, store.Shard(user.Shard()), string(user))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("actors: look for user %q: %w", user, err)
	}
	return true, nil
}

// FindUsers returns known users that match, at most limit of them. It reads the keys of every user's row: for operators.
func (s *System) FindUsers(ctx context.Context, match func(board.UserID) bool, limit int) ([]board.UserID, error) {
	found := s.people.find(match, limit)
	seen := map[board.UserID]bool{}
	for _, user := range found {
		seen[user] = true
	}
	for shard := range board.UserShards {
		for row, err := range s.store.Rows(ctx, store.Shard(shard)) {
			if err != nil {
				return nil, fmt.Errorf("actors: find users: %w", err)
			}
			if len(found) >= limit {
				return found, nil
			}
			if user := board.UserID(row.Key); !seen[user] && match(user) {
				found = append(found, user)
			}
		}
	}
	return found, nil
}

func (p *people) has(user board.UserID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions[user] > 0
}

// find calls match under the lock: it must be quick.
func (p *people) find(match func(board.UserID) bool, limit int) []board.UserID {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []board.UserID
	for user := range p.sessions {
		if len(found) < limit && match(user) {
			found = append(found, user)
		}
	}
	return found
}
