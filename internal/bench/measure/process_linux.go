package measure

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU times in /proc: USER_HZ is 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// ProcessCPU is the user and system time that a process has used so far, to 10 ms.
func ProcessCPU(pid int) (time.Duration, error) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("cpu of process %d: %w", pid, err)
	}
	// The command's name stands in brackets and may hold anything, so fields are counted after the last bracket.
	text := string(body)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("cpu of process %d: stat has %d fields", pid, len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cpu of process %d: %w", pid, err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cpu of process %d: %w", pid, err)
	}
	return time.Duration(user+system) * clockTick, nil
}

// ProcessRSS is the resident memory of a process, in bytes.
func ProcessRSS(pid int) (int64, error) {
	kib, err := procKiB(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:")
	return kib * 1024, err
}

// KernelSlab is the kernel's slab memory of the whole machine, in bytes: sockets of both ends live there.
func KernelSlab() (int64, error) {
	kib, err := procKiB("/proc/meminfo", "Slab:")
	return kib * 1024, err
}

func procKiB(path, key string) (int64, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		}
	}
	return 0, fmt.Errorf("read %s: no line %s", path, key)
}
