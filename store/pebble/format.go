package pebble

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/placed-board/placed/store"
)

// formatFile is the name of the file that tells the format of everything in the directory.
const formatFile = "FORMAT"

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

// checkFormat reads the format file and returns the engine's format; it makes the file in a directory without a store.
func checkFormat(f vfs.FS, dir string) (engine.FormatMajorVersion, error) {
	path := f.PathJoin(dir, formatFile)
	file, err := f.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newFormat(f, dir)
	}
	if err != nil {
		return 0, err
	}
	data, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	var found format
	if err := json.Unmarshal(data, &found); err != nil || found.Format < 1 {
		return 0, fmt.Errorf("%s does not tell a format (%q): %w", path, data, store.ErrCorrupt)
	}
	if found.Format > store.FormatVersion {
		return 0, fmt.Errorf("directory %s: %w: format %d, this placed knows up to %d; start the newer placed", dir, store.ErrFormat, found.Format, store.FormatVersion)
	}
	if found.Pebble > uint64(engine.FormatNewest) {
		return 0, fmt.Errorf("directory %s: %w: engine format %d, this placed knows up to %d; start the newer placed", dir, store.ErrFormat, found.Pebble, engine.FormatNewest)
	}
	return engine.FormatMajorVersion(found.Pebble), nil
}

// newFormat writes the format file of a fresh store, before the engine writes anything.
func newFormat(f vfs.FS, dir string) (engine.FormatMajorVersion, error) {
	names, err := f.List(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST-") || strings.HasPrefix(name, "marker.") || name == "CURRENT" {
			return 0, fmt.Errorf("directory %s holds %s but no %s: it is not a store of placed: %w", dir, name, formatFile, store.ErrCorrupt)
		}
	}
	data, err := json.Marshal(format{Format: store.FormatVersion, Pebble: uint64(engine.FormatNewest)})
	if err != nil {
		return 0, err
	}
	temporary := f.PathJoin(dir, formatFile+".tmp")
	file, err := f.Create(temporary, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	_, err = file.Write(append(data, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return 0, fmt.Errorf("write %s: %w", temporary, err)
	}
	if err := f.Rename(temporary, f.PathJoin(dir, formatFile)); err != nil {
		return 0, err
	}
	return engine.FormatNewest, syncDir(f, dir)
}
