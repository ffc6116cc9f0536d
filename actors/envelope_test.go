package actors

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

var updateEnvelopes = flag.Bool("update-envelopes", false, "rewrite testdata/envelopes.txt")

// envelopeCases are one message of each kind and more, by name.
func envelopeCases() map[string]any {
	tile := board.Point{X: 199, Y: 101}
	ref := SessionRef{Node: "10.0.0.1:7947", Session: 1<<63 | 5}
	chunk := tile.Block().Chunk(1)
	var narrow, wide board.Tiles
	narrow[7], wide[2499] = 15, 200
	charge := func(shard uint8, commit uint64, at board.Point) store.Charge {
		return store.Charge{
			Ticket: board.Ticket{Shard: shard, Commit: commit, Index: 3}, User: "ann", Turn: 9, Nonce: 1 << 60, At: at, Colour: 4,
			Kind: board.KindUser, AtMs: 1_700_000_000_000, SettingsVersion: 2, Node: 77, UserPrevious: board.Entry{Block: 1, Version: 5},
		}
	}
	return map[string]any{
		"place": forUser{"ann", PlaceTile{Request: board.PlaceRequest{User: "ann", Turn: 3, Nonce: 42, At: tile, Colour: 7}, ReplyTo: ref}},
		"place forwarded": forUser{"ann", PlaceTile{
			Request: board.PlaceRequest{User: "ann", At: board.Point{X: -1, Y: 1 << 31}}, ReplyTo: ref, Forwarded: true,
		}},
		"register": forUser{"ann", RegisterSession{User: "ann", Session: ref}},
		"forget":   forUser{"ann", ForgetSession{User: "ann", Session: ref, Forwarded: true}},
		"ban":      forUser{"ann", SetBan{User: "ann", UntilMs: board.BannedForever, ReplyTo: ref, Note: &store.BanNote{By: "op", Why: "spam", AtMs: 5}}},
		"unban":    forUser{"ann", SetBan{User: "ann", ReplyTo: ref}},
		"answered": toSession{to: 5, message: Answered{Session: 5, Outcome: board.PlaceOutcome{
			Verdict: board.VerdictAccepted, Turn: 3, Nonce: 42, At: tile, Colour: 7, Chunk: chunk, Sequence: 1 << 40, WaitMs: 300_000, NextTurn: 4,
		}}},
		"refused": toSession{to: 5, message: Answered{Session: 5, Outcome: board.PlaceOutcome{
			Verdict: board.VerdictRefused, Code: board.CodeCooldown, At: tile, TrueColour: true, Colour: 200, WaitMs: -1,
		}}},
		"status":  toSession{to: 5, message: StatusChanged{Session: 5, Status: board.UserStatus{User: "ann", Turn: 4, WaitMs: 9, BannedUntil: 1}}},
		"charges": PlaceTiles{Shard: 64, Block: tile.Block(), Floor: 8, SettingsVersion: 2, From: "h:1", Forwarded: true, Charges: []store.Charge{charge(64, 8, tile), charge(64, 9, tile)}},
		"placed": TilesPlaced{Shard: 5, Block: tile.Block(), Results: []TicketPlaced{
			{Ticket: board.Ticket{Shard: 5, Commit: 8, Index: 1}, Sequence: 300, Version: 7}, {Ticket: board.Ticket{Shard: 5, Commit: 9}, Settled: true},
		}},
		"applied": tilesPublished{Batches: []TilesApplied{
			{Block: tile.Block(), Version: 3, Tiles: []AppliedTile{{Chunk: chunk, Tile: 2499, Colour: 3, Kind: board.KindUser, Sequence: 9, User: "ann"}}},
			{Block: 0, Version: 4, Tiles: []AppliedTile{{Kind: board.KindClear, Sequence: 1, User: "op"}}},
		}},
		"images": BlockImages{Block: tile.Block(), Version: 3, Chunks: []ChunkImage{
			{Chunk: tile.Block().Chunk(0), Sequence: 9, Tiles: &narrow}, {Chunk: chunk, Sequence: 10, Tiles: &wide},
		}},
		"pull": PullBlock{Block: tile.Block(), From: "h:1"},
		"node": nodeTold{
			SettingsVersion: 3, WallMs: 1_700_000_000_000, Whole: true, Online: 5, Sessions: 6, Regions: 7, BlocksLoaded: 8, Users: 9, OpenCharges: 10,
			Ready: true, Shards: []shardTold{{Shard: 64, Version: 2, OpenOlder: 1}}, Blocks: []blockCount{{Block: tile.Block(), Placements: 1 << 33}},
		},
		"tile asked": tileAsked{At: tile, To: ref},
		"tile told":  tileTold{To: ref, Known: TileKnown{OK: true, Colour: 3, Version: 9}},
		"job asked":  jobAsked{Job: board.Job{Kind: "clear", By: "op", Why: "test", Rect: board.Rect{X: 1, Y: 2, Width: 3, Height: 4}, AtMs: 5}, To: ref},
		"jobs told":  jobsTold{To: ref, Jobs: []board.Job{{ID: "1", Done: true}}, Failure: failureUnknown, Text: "lost"},
	}
}

// TestEnvelopes pins the bytes: another build of the same version has to understand them.
func TestEnvelopes(t *testing.T) {
	file := filepath.Join("testdata", "envelopes.txt")
	cases := envelopeCases()
	if *updateEnvelopes {
		var out strings.Builder
		for _, name := range sortedKeys(cases) {
			fmt.Fprintf(&out, "%s: %x\n", name, encodeEnvelope(cases[name]))
		}
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[byte]bool{}
	for line := range strings.Lines(string(golden)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		want, ok := cases[name]
		if !ok {
			t.Errorf("golden envelope %q is no case", name)
			continue
		}
		delete(cases, name)
		if got := hex.EncodeToString(encodeEnvelope(want)); got != text {
			t.Errorf("%s:\n %s, golden\n %s", name, got, text)
		}
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		kinds[b[1]] = true
		back, err := decodeEnvelope(b)
		if err != nil || !reflect.DeepEqual(back, want) {
			t.Errorf("%s: decoded\n %+v, %v, want\n %+v", name, back, err, want)
		}
		for n := range b { // every truncation is refused
			if _, err := decodeEnvelope(b[:n]); err == nil {
				t.Errorf("%s: the first %d bytes decode", name, n)
			}
		}
	}
	if len(cases) > 0 || len(kinds) != int(kindJobsTold) {
		t.Errorf("%d cases are not golden, %d kinds of %d are", len(cases), len(kinds), kindJobsTold)
	}
}

func sortedKeys(cases map[string]any) []string {
	var names []string
	for name := range cases {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestEnvelopesOfOthers refuses another version, an unknown kind, bytes too many and charges of another block.
func TestEnvelopesOfOthers(t *testing.T) {
	good := encodeEnvelope(PullBlock{Block: 1, From: "h:1"})
	other := envelopeCases()["charges"].(PlaceTiles)
	other.Block = 0
	for what, b := range map[string][]byte{
		"nothing": nil, "another version": append([]byte{EnvelopeVersion + 1}, good[1:]...), "an unknown kind": {EnvelopeVersion, 200, 1},
		"bytes too many": append(good, 0), "charges of another block": encodeEnvelope(other),
	} {
		if m, err := decodeEnvelope(b); err == nil {
			t.Errorf("%s: %+v", what, m)
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	for _, m := range envelopeCases() {
		f.Add(encodeEnvelope(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeEnvelope(b)
		if err != nil {
			return
		}
		back, err := decodeEnvelope(encodeEnvelope(m))
		if err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%+v became %+v, %v", m, back, err)
		}
	})
}
