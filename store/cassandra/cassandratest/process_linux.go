package cassandratest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const (
	stopPoll  = time.Millisecond
	standMax  = 5 * time.Second // from SIGSTOP to a process that stands still
	stateStop = 'T'
)

// childAttr lets the JVM die with this process, and keeps a Ctrl-C at the terminal away from it: its end is for Stop.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// pauseProcess sends SIGSTOP and waits until the process stands still: the signal alone only asks for it.
func pauseProcess(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	tick := time.NewTicker(stopPoll)
	defer tick.Stop()
	for deadline := time.Now().Add(standMax); time.Now().Before(deadline); <-tick.C {
		state, err := processState(p.Pid)
		if err != nil {
			return err
		}
		if state == stateStop {
			return nil
		}
	}
	return fmt.Errorf("process %d still runs %v after SIGSTOP", p.Pid, standMax)
}

func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// processState is the kernel's letter for the state of a process; an error when there is no such process.
func processState(pid int) (byte, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// "pid (name) state ...", where the name may hold anything.
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	if !ok || len(rest) == 0 {
		return 0, fmt.Errorf("process %d: state not understood: %q", pid, stat)
	}
	return rest[0], nil
}

// tryLock takes a lock file for as long as this process lives or until unlock. ok is false when another process, or
// another caller in this one, holds it.
func tryLock(path string) (unlock func(), ok bool, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return func() { _ = f.Close() }, true, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("lock %s: %w", path, err)
}
