package baseline

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func syncData(file *os.File) error { return unix.Fdatasync(int(file.Fd())) }

// InMemory says whether dir lies on a file system that has no disk under it: figures of a store are worthless there.
func InMemory(dir string) (bool, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return false, fmt.Errorf("file system of %s: %w", dir, err)
	}
	return stat.Type == unix.TMPFS_MAGIC || stat.Type == unix.RAMFS_MAGIC, nil
}
