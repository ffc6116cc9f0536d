//go:build !linux

package measure

import (
	"errors"
	"time"
)

var errOnlyLinux = errors.New("the figures of a process are read from /proc: Linux only")

// ProcessCPU is the user and system time that a process has used so far.
func ProcessCPU(pid int) (time.Duration, error) { return 0, errOnlyLinux }

// ProcessRSS is the resident memory of a process, in bytes.
func ProcessRSS(pid int) (int64, error) { return 0, errOnlyLinux }

// KernelSlab is the kernel's slab memory of the whole machine, in bytes.
func KernelSlab() (int64, error) { return 0, errOnlyLinux }
