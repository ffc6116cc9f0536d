//go:build unix

package measure

import (
	"os"
	"runtime"
	"syscall"
)

// residentMax returns the most memory that an ended process has held at once, in bytes.
func residentMax(state *os.ProcessState) int64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(usage.Maxrss)
	}
	return int64(usage.Maxrss) << 10
}
