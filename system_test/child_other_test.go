//go:build unix && !linux

package system_test

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }
