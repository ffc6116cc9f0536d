package system_test

import "syscall"

// childAttributes let a node end with the tests, however those end.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
