// Package reload keeps what was made of files, and makes it anew when one of them changes. It needs no signal and no watcher:
// whoever asks looks at the files, at most once in a while. A file that is half written or wrong changes nothing: what was made
// before stays, and every later look tries again.
package reload

import (
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Every is the least time between two looks at the files.
const Every = time.Second

// Kept is a value made of files. Its methods may be called from many goroutines.
type Kept[T any] struct {
	value atomic.Pointer[T]
	next  atomic.Int64 // Unix ns of the next look

	looking sync.Mutex // guards the fields below
	paths   []string
	load    func() (T, error)
	told    func(error)
	seen    []fs.FileInfo // when value was made
	failed  []fs.FileInfo // when making another one last failed; nil when it did not
}

// Open makes the first value; its error is Open's. told hears of every later one, with nil, and of every failure to make one,
// once for each state of the files.
func Open[T any](load func() (T, error), told func(error), paths ...string) (*Kept[T], error) {
	k := &Kept[T]{paths: paths, load: load, told: told}
	seen, err := k.stat()
	if err != nil {
		return nil, err
	}
	value, err := load()
	if err != nil {
		return nil, err
	}
	k.seen = seen
	k.value.Store(&value)
	k.next.Store(time.Now().Add(Every).UnixNano())
	return k, nil
}

// Get returns the newest value that could be made, after a look at the files when the last one is Every ago.
func (k *Kept[T]) Get() T {
	if time.Now().UnixNano() >= k.next.Load() && k.looking.TryLock() {
		k.look()
		k.next.Store(time.Now().Add(Every).UnixNano())
		k.looking.Unlock()
	}
	return *k.value.Load()
}

// look makes a new value when the files are others than those that the newest one was made of. The caller holds looking.
func (k *Kept[T]) look() {
	now, err := k.stat() // before the load: what changes meanwhile is seen the next time
	if err == nil && same(now, k.seen) {
		k.failed = nil
		return
	}
	var value T
	if err == nil {
		value, err = k.load()
	}
	if err != nil {
		if k.failed == nil || !same(now, k.failed) {
			k.told(err)
		}
		k.failed = append([]fs.FileInfo{}, now...)
		return
	}
	k.value.Store(&value)
	k.seen, k.failed = now, nil
	k.told(nil)
}

func (k *Kept[T]) stat() ([]fs.FileInfo, error) {
	var all []fs.FileInfo
	for _, path := range k.paths {
		info, err := os.Stat(path)
		if err != nil {
			return all, fmt.Errorf("reload: %w", err)
		}
		all = append(all, info)
	}
	return all, nil
}

func same(a, b []fs.FileInfo) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !os.SameFile(a[i], b[i]) || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size() {
			return false
		}
	}
	return true
}
