package measure

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadSleep blocks the thread; it may return early.
func threadSleep(d time.Duration) {
	rest := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&rest, nil) // interrupted: the caller looks at the clock again
}
