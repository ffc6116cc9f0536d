package transport

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/placed-board/placed/board"
)

// suggestionsMax is how many users the answer about an unknown one names.
const suggestionsMax = 5

// shortPartChars is how much pages show of the random part of an anonymous user's name.
const shortPartChars = 4

// knownUser returns the user that an operator names, who has to be known: a slip of the pen would else look like a deed.
// The short name of an anonymous user, as pages show it, is taken when only one begins so. An error that wraps
// board.ErrRefused names those who may be meant.
func (s *Server) knownUser(ctx context.Context, user board.UserID) (board.UserID, error) {
	known, err := s.deps.Admin.KnownUser(ctx, user)
	if err != nil || known {
		return user, err
	}
	prefix, short := anonymousPrefixOf(string(user))
	found, err := s.deps.Admin.FindUsers(ctx, func(other board.UserID) bool {
		return strings.EqualFold(string(other), string(user)) || short && strings.HasPrefix(string(other), prefix)
	}, suggestionsMax)
	if err != nil {
		return user, err
	}
	if short && len(found) == 1 && strings.HasPrefix(string(found[0]), prefix) {
		return found[0], nil
	}
	if len(found) == 0 {
		return user, fmt.Errorf("%w: nobody called %q has placed anything or is here now; the name has to be exact", board.ErrRefused, user)
	}
	slices.Sort(found)
	names := make([]string, len(found))
	for i, other := range found {
		names[i] = fmt.Sprintf("%q", other)
	}
	return user, fmt.Errorf("%w: nobody called %q has placed anything or is here now; did you mean %s?", board.ErrRefused, user, strings.Join(names, " or "))
}

// anonymousPrefixOf returns how the full name begins of an anonymous user with this short one: "anon xk67" as an English page shows
// it, "anonym xk67" or "anón. xk67" as those in other languages do, or "anon-xk67".
func anonymousPrefixOf(name string) (string, bool) {
	lower := strings.ToLower(name)
	part, ok := strings.CutPrefix(lower, AnonymousPrefix)
	if !ok {
		var word string
		word, part, ok = strings.Cut(lower, " ")
		ok = ok && (strings.HasPrefix(word, "anon") || strings.HasPrefix(word, "anón"))
	}
	return AnonymousPrefix + part, ok && len(part) >= shortPartChars
}
