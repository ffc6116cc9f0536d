//go:build !unix

package measure

// FilesMax is how many files and sockets this process may hold open, 0 when nobody knows.
func FilesMax() int { return 0 }
