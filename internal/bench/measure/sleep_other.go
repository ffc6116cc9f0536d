//go:build !linux

package measure

import "time"

func threadSleep(d time.Duration) { time.Sleep(d) }
