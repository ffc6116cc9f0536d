//go:build unix

package measure

import "golang.org/x/sys/unix"

// FilesMax is how many files and sockets this process may hold open, 0 when nobody knows.
func FilesMax() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Max), 1<<30))
}
