package board

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestParseUserID(t *testing.T) {
	for _, c := range []struct {
		name string
		want error
	}{
		{"alice", nil},
		{"a", nil},
		{"a b", nil},
		{"Zoë O'Hara-Łukasz", nil},
		{"名前", nil},
		{"🟥", nil},
		{strings.Repeat("x", UserBytesMax), nil},
		{strings.Repeat("é", UserBytesMax/2), nil},
		{"", ErrUserEmpty},
		{strings.Repeat("x", UserBytesMax+1), ErrUserLong},
		{strings.Repeat("é", UserBytesMax/2) + "x", ErrUserLong},
		{" alice", ErrUserChars},
		{"alice ", ErrUserChars},
		{" ", ErrUserChars},
		{"a\tb", ErrUserChars},
		{"a\nb", ErrUserChars},
		{"a\x00b", ErrUserChars},
		{"a\x7fb", ErrUserChars},
		{"a\u00a0b", ErrUserChars}, // a space that looks like one and is another
		{"a\u2028b", ErrUserChars},
		{"a\u202eb", ErrUserChars}, // turns the direction of what follows
		{"a\u200bb", ErrUserChars}, // shows nothing
		{"\ufeffalice", ErrUserChars},
		{"a\xffb", ErrUserChars},
		{"\xc3", ErrUserChars},
	} {
		got, err := ParseUserID(c.name)
		if !errors.Is(err, c.want) || c.want == nil && (err != nil || string(got) != c.name) || c.want != nil && got != "" {
			t.Errorf("%q: %q, %v; want %v", c.name, got, err, c.want)
		}
	}
}

func FuzzParseUserID(f *testing.F) {
	for _, s := range []string{"alice", " x", "é", "\xff", strings.Repeat("x", 49), "a\u202eb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		u, err := ParseUserID(name)
		if err != nil {
			if u != "" {
				t.Errorf("%q and %v", u, err)
			}
			return
		}
		if string(u) != name || name == "" || len(name) > UserBytesMax || !utf8.ValidString(name) || strings.TrimSpace(name) != name ||
			strings.ContainsFunc(name, unicode.IsControl) {
			t.Errorf("%q was taken as %q", name, u)
		}
		if s := u.Shard(); s < 0 || s >= UserShards {
			t.Errorf("%q has shard %d", u, s)
		}
	})
}

func TestUsersSpreadOverTheShards(t *testing.T) {
	const users = 100_000
	for name, format := range map[string]string{"numbered": "user-%d", "hexadecimal": "%016x", "padded": "anon%08d", "short": "%d"} {
		var counts [UserShards]int
		for i := range users {
			counts[UserID(fmt.Sprintf(format, i)).Shard()]++
		}
		for shard, n := range counts {
			if mean := users / UserShards; n < mean*8/10 || n > mean*12/10 {
				t.Errorf("%s names: shard %d has %d of %d users, the mean is %d", name, shard, n, users, mean)
			}
		}
	}
}

// TestShardsNeverMove holds the shards of some names fast: charges are stored by shard, so another hash would lose them.
func TestShardsNeverMove(t *testing.T) {
	for name, want := range map[UserID]int{"alice": 15, "bob": 37, "zoë": 1, "anon-000001": 15, "x": 13} {
		if got := name.Shard(); got != want {
			t.Errorf("%q has moved from shard %d to %d", name, want, got)
		}
	}
}
