//go:build crashpoints

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/placed-board/placed/actors"
)

// crashPoint returns what kills the process, as kill -9 does, at the crash point that PLACED_CRASH_AT names: "name", or "name:n" for
// the nth time that it is passed. Only the tests' build of the program has this.
func crashPoint() func(point string) {
	name, count, _ := strings.Cut(os.Getenv("PLACED_CRASH_AT"), ":")
	if name == "" {
		return nil
	}
	times := 1
	if count != "" {
		times, _ = strconv.Atoi(count)
	}
	if times < 1 || !slices.Contains(actors.CrashPoints, name) {
		panic(fmt.Sprintf("PLACED_CRASH_AT: no crash point %q", os.Getenv("PLACED_CRASH_AT")))
	}
	left := atomic.Int64{}
	left.Store(int64(times))
	return func(point string) {
		if point != name || left.Add(-1) != 0 {
			return
		}
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(err)
		}
		select {}
	}
}
