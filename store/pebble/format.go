package pebble

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/placed-board/placed/store"
)

// formatFile is the name of the file that tells the format of everything in the directory.
const formatFile = "FORMAT"

// formatFileFirst is its name until the first start has made the engine's files.
const formatFileFirst = "FORMAT.first"

// format is the content of the format file.
type format struct {
	Format int    `json:"format"` // store.FormatVersion
	Pebble uint64 `json:"pebble"` // the engine's format: that of a fresh store, never raised behind an older placed's back
}

// makeDir makes the directory with its parents and syncs every directory that got an entry.
func makeDir(f vfs.FS, dir string) error {
	if _, err := f.Stat(dir); err == nil {
		return nil
	}
	parent := f.PathDir(dir)
	if parent != dir {
		if err := makeDir(f, parent); err != nil {
			return err
		}
	}
	if err := f.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return syncDir(f, parent)
}

func syncDir(f vfs.FS, dir string) error {
	d, err := f.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lockDir takes the directory for this process, or answers store.ErrLocked.
func lockDir(f vfs.FS, dir string) (*engine.Lock, error) {
	lock, err := engine.LockDirectory(dir, f)
	if err == nil {
		return lock, nil
	}
	if heldElsewhere(err) {
		return nil, fmt.Errorf("directory %s: %w: is another placed running on it? (%w)", dir, store.ErrLocked, err)
	}
	return nil, fmt.Errorf("lock directory %s: %w", dir, err)
}

// windowsSharing is Windows' answer when another process has the file open. No other system's lock answers this number.
const windowsSharing = syscall.Errno(32)

// heldElsewhere tells a lock that somebody holds from a lock that cannot be made.
func heldElsewhere(err error) bool {
	var path *fs.PathError
	if errors.As(err, &path) {
		return false
	}
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) || errors.Is(err, windowsSharing) ||
		strings.Contains(err.Error(), "held by current process")
}

// checkFormat reads the format file and returns the engine's format. In a directory without a store it writes the file
// under its first name, and fresh is true: finishFormat must follow when the engine has made its files.
func checkFormat(f vfs.FS, dir string) (version engine.FormatMajorVersion, fresh bool, err error) {
	path := f.PathJoin(dir, formatFile)
	file, err := f.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return engine.FormatNewest, true, newFormat(f, dir)
	}
	if err != nil {
		return 0, false, err
	}
	data, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, false, fmt.Errorf("read %s: %w", path, err)
	}
	var found format
	switch err := json.Unmarshal(data, &found); {
	case err != nil || found.Format < 1:
		err = fmt.Errorf("%s does not tell a format (%q): %w", path, data, store.ErrCorrupt)
		return 0, false, err
	case found.Format > store.FormatVersion:
		err = fmt.Errorf("directory %s: %w: format %d, this placed knows up to %d; start the newer placed", dir, store.ErrFormat, found.Format, store.FormatVersion)
		return 0, false, err
	case found.Format < store.FormatVersion:
		err = fmt.Errorf("directory %s: %w: format %d, from before the first release, this placed knows %d; start with an empty directory", dir, store.ErrFormat, found.Format, store.FormatVersion)
		return 0, false, err
	case found.Pebble > uint64(engine.FormatNewest):
		err = fmt.Errorf("directory %s: %w: engine format %d, this placed knows up to %d; start the newer placed", dir, store.ErrFormat, found.Pebble, engine.FormatNewest)
		return 0, false, err
	}
	return engine.FormatMajorVersion(found.Pebble), false, nil
}

// newFormat writes the format file of a fresh store under its first name, before the engine writes anything. If that name is
// there already, a first start was cut short: nothing was ever acknowledged, and what the engine left then (a power cut may
// have taken any part of it) goes away.
func newFormat(f vfs.FS, dir string) error {
	names, err := f.List(dir)
	if err != nil {
		return err
	}
	again := slices.Contains(names, formatFileFirst)
	for _, name := range names {
		if !enginesFile(name) {
			continue
		}
		if !again {
			return fmt.Errorf("directory %s holds %s but no %s: it is not a store of placed: %w", dir, name, formatFile, store.ErrCorrupt)
		}
		if err := f.Remove(f.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	data, err := json.Marshal(format{Format: store.FormatVersion, Pebble: uint64(engine.FormatNewest)})
	if err != nil {
		return err
	}
	path := f.PathJoin(dir, formatFileFirst)
	file, err := f.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(append(data, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(f, dir)
}

// finishFormat gives the format file of a fresh store its name: from now on the store may not be made anew.
func finishFormat(f vfs.FS, dir string) error {
	if err := f.Rename(f.PathJoin(dir, formatFileFirst), f.PathJoin(dir, formatFile)); err != nil {
		return err
	}
	return syncDir(f, dir)
}

// enginesFile reports whether the engine makes files of that name, its lock aside.
func enginesFile(name string) bool {
	for _, prefix := range []string{"MANIFEST-", "marker.", "OPTIONS-", "CURRENT", "temporary."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".dbtmp")
}
