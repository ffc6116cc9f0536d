// Package pebble keeps a board in an embedded Pebble store: one process, one directory. It is the default store.
//
// # Promises
//
// A commit is answered after its bytes are synced to the disk (pebble.Sync; the engine syncs the commits that wait at the
// same time together). Nothing is shown by a read that a power cut could still take back: reads of a partition wait for its
// commit under way. A failed sync ends the process with one clear line and nothing more is acknowledged, because what the
// disk holds is not known any more. A full disk makes commits wait, answers store.ErrUnknown and store.ErrFull, and heals by
// itself when space is back; see guard.go. Block snapshots are derived data: they are written without a sync and reach the
// disk with the next commit, or at Close.
//
// # Directory
//
// FORMAT holds the format of everything in the directory as JSON: {"format": store.FormatVersion, "pebble": the engine's
// own format}. It is written before anything else, as FORMAT.first until the first start is through, and checked before
// anything else is opened. LOCK is locked by the process that uses the directory. All other files are the engine's. The
// directory with .checkpoint after its name holds a checkpoint while somebody reads it.
//
// # Keys
//
// Numbers in keys are big endian, so that keys sort by number. An index is that of store.Partition.
//
//	'm'                                   the board: store.Meta as JSON
//	'h' class(1) index(2)                 a partition's head, see encodeHead
//	'r' index(2) key                      a shard's row, as it was given
//	'j' class(1) index(2) version(8)      a journal's entry, as it was given
//	's' block(2) slot(1)                  a block's snapshot in slot 0 or 1: CRC-32C over key and rest (4), version (8), data
//
// There are no deletes. The buckets of other stores (store.BucketCommits) have no meaning here: a journal is one range.
package pebble
