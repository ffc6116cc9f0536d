package cassandra

import (
	"testing"

	"github.com/gocql/gocql"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// smallBuckets opens the data of cfg with three commits to a bucket.
func smallBuckets(t *testing.T, cfg Config) *Store {
	t.Helper()
	s := mustOpen(t, cfg)
	s.bucketCommits = 3
	return s
}

// An owner that believes the bucket before to be full, and is wrong, must not open the next one: two lines of versions
// would begin. It learns the true head instead.
func TestBucketOpensOnlyAfterAFullOne(t *testing.T) {
	cfg := freshSchema(t)
	s, other := smallBuckets(t, cfg), smallBuckets(t, cfg)
	b := board.NewBlockID(1, 1)
	mustRefuse(t, other, blockCommit(b, 4, 90), 0, 0) // nothing there at all
	mustApply(t, s, blockCommit(b, 1, 1))
	mustApply(t, s, blockCommit(b, 2, 2))
	mustRefuse(t, other, blockCommit(b, 4, 91), 2, 2)
	mustRefuse(t, other, blockCommit(b, 7, 92), 2, 2) // even when it skips a bucket
	mustRefuse(t, s, blockCommit(b, 4, 93), 2, 2)     // what this process has proved does not suffice either
	mustRefuse(t, s, blockCommit(b, 5, 94), 2, 2)     // the middle of a bucket that does not exist
	session := rawSession(t, cfg)
	var rows int
	if err := session.Query("SELECT COUNT(*) FROM journals").WithContext(t.Context()).Scan(&rows); err != nil || rows != 2 {
		t.Fatalf("%d rows, %v, want 2", rows, err)
	}
	mustApply(t, s, blockCommit(b, 3, 3))
	mustApply(t, other, blockCommit(b, 4, 4)) // this process learns of the full bucket by a read
	mustRefuse(t, s, blockCommit(b, 4, 95), 4, 4)
	mustRefuse(t, s, blockCommit(b, 3, 96), 4, 4) // an owner that lags by a bucket hears of the newest head
	mustRefuse(t, s, blockCommit(b, 1, 97), 4, 4)
	mustRefuse(t, s, blockCommit(b, 7, 98), 4, 4)
	for v := uint64(5); v <= 13; v++ {
		mustApply(t, s, blockCommit(b, v, v))
	}
	mustRefuse(t, other, blockCommit(b, 4, 4), 13, 13) // its own commit again, long overtaken
	wantEntries(t, other, b, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)
}

// The head is found whatever a process knows or believes to know, at every fill of the last bucket.
func TestHeadIsFoundFromAnyHint(t *testing.T) {
	cfg := freshSchema(t)
	writer, reader := smallBuckets(t, cfg), smallBuckets(t, cfg)
	p := store.Block(board.NewBlockID(5, 5))
	const versions = 13
	for v := uint64(0); v <= versions; v++ {
		if v > 0 {
			mustApply(t, writer, blockCommit(board.BlockID(p.Index), v, v))
		}
		for _, hint := range []uint64{0, v / 2, v, v + 1, v + 3, v + 1000} {
			reader.journals = map[store.Partition]progress{p: {hint: hint}}
			if h, err := reader.Head(t.Context(), p); err != nil || h.Version != v || h.Attempt != v {
				t.Fatalf("from hint %d: head %+v, %v, want version %d", hint, h, err, v)
			}
			if got := reader.progress(p); got.proved != v {
				t.Fatalf("from hint %d: proved %d, want %d", hint, got.proved, v)
			}
		}
	}
}

// A snapshot saves the search from the first bucket, but never proves a bucket full: it was a plain write.
func TestSnapshotIsOnlyAHint(t *testing.T) {
	cfg := freshSchema(t)
	s := smallBuckets(t, cfg)
	b := board.NewBlockID(1, 1)
	mustApply(t, s, blockCommit(b, 1, 1))
	other := smallBuckets(t, cfg)
	if err := other.PutSnapshot(t.Context(), b, store.Snapshot{Version: 6, Data: []byte("wrong")}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Snapshot(t.Context(), b, 6); err != nil {
		t.Fatal(err)
	}
	if got := other.progress(store.Block(b)); got != (progress{proved: 0, hint: 6}) {
		t.Fatalf("learnt %+v", got)
	}
	mustRefuse(t, other, blockCommit(b, 7, 70), 1, 1)
	mustApply(t, other, blockCommit(b, 2, 2))
}

// A block is in the list from before its first commit on, and out of what Blocks answers until it has one.
func TestBlocksAreListedBeforeTheirFirstCommit(t *testing.T) {
	cfg := freshSchema(t)
	s := mustOpen(t, cfg)
	session := rawSession(t, cfg)
	// A first commit that ends without effect, here because another head is there already, leaves the block listed: it was
	// listed before.
	b, only := board.NewBlockID(3, 1), board.NewBlockID(4, 1)
	cas := session.Query("UPDATE journals SET head_version = 1, head = ? WHERE journal = ? AND bucket = 0 IF head_version = null",
		appendHead(nil, &store.Head{Attempt: 5}), store.Block(b).String()).WithContext(t.Context())
	if applied, err := cas.MapScanCAS(map[string]any{}); err != nil || !applied {
		t.Fatal(applied, err)
	}
	mustRefuse(t, s, blockCommit(b, 1, 6), 1, 5)
	if err := s.touch(t.Context(), only); err != nil { // as far as a process came that died between the two steps
		t.Fatal(err)
	}
	for range 2 { // the second time the note that the block has a commit is there
		blocks, err := s.Blocks(t.Context())
		if err != nil || len(blocks) != 1 || blocks[0] != b {
			t.Fatalf("blocks %v, %v, want %v", blocks, err, b)
		}
	}
	if got := seen(t, session, b); !got {
		t.Error("the note that the block has a commit is missing")
	}
	mustApply(t, s, blockCommit(only, 1, 7))
	if got := seen(t, session, only); !got {
		t.Error("the note is missing after a first commit")
	}
}

func seen(t *testing.T, session *gocql.Session, b board.BlockID) (seen bool) {
	t.Helper()
	err := session.Query("SELECT seen FROM blocks WHERE board = ? AND block = ?", boardID, int(b)).WithContext(t.Context()).Scan(&seen)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}
