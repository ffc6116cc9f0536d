//go:build !linux

package cassandratest

import (
	"errors"
	"os"
	"syscall"
)

var errPause = errors.New("only on Linux")

func childAttr() *syscall.SysProcAttr { return nil }

func pauseProcess(*os.Process) error { return errPause }

func resumeProcess(*os.Process) error { return errPause }

// tryLock does not guard anything here: one node in a folder, and one download at a time, are up to the caller.
func tryLock(string) (unlock func(), ok bool, err error) { return func() {}, true, nil }
