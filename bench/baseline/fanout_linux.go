package baseline

import (
	"context"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	rawBacklog       = 4096
	rawAcceptSeconds = 20
)

// RawFanout is the least that sending one frame to many sockets can cost: a loop of non-blocking sends over bare file
// descriptors. Not safe for concurrent use.
type RawFanout struct {
	listeners []int
	addresses []string
	conns     []int
}

// ListenRaw listens on 127.0.0.1, 127.0.0.2 and so on, one address for every 4,000 connections to come.
func ListenRaw(connections int) (*RawFanout, error) {
	f := &RawFanout{}
	for i := 0; i*sinkSocketsPerAddress < connections; i++ {
		if err := f.listen(byte(i + 1)); err != nil {
			f.Close()
			return nil, fmt.Errorf("raw fan-out: listen on 127.0.0.%d: %w", i+1, err)
		}
	}
	return f, nil
}

func (f *RawFanout) listen(host byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f.listeners = append(f.listeners, fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: rawAcceptSeconds}); err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, host}}); err != nil {
		return err
	}
	if err := unix.Listen(fd, rawBacklog); err != nil {
		return err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	f.addresses = append(f.addresses, fmt.Sprintf("127.0.0.%d:%d", host, name.(*unix.SockaddrInet4).Port))
	return nil
}

// Addresses to connect to; each takes 4,000 connections.
func (f *RawFanout) Addresses() []string { return f.addresses }

// Accept takes the connections: 4,000 at each address, the rest at the last.
func (f *RawFanout) Accept(connections int) error {
	for i, listener := range f.listeners {
		for range min(connections-i*sinkSocketsPerAddress, sinkSocketsPerAddress) {
			fd, err := accept(listener)
			if err != nil {
				return fmt.Errorf("raw fan-out: accept connection %d: %w", len(f.conns), err)
			}
			f.conns = append(f.conns, fd)
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
				return fmt.Errorf("raw fan-out: %w", err)
			}
		}
	}
	return nil
}

// accept takes one connection. A call with a time-out is not started again after a signal, and the runtime sends many.
func accept(listener int) (fd int, err error) {
	for {
		if fd, _, err = unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC); err != unix.EINTR {
			return fd, err
		}
	}
}

// Burst sends the frame to every connection once, without waiting for any.
func (f *RawFanout) Burst(frame []byte) BurstResult {
	runtime.LockOSThread() // so that the thread's CPU time is this loop's alone
	defer runtime.UnlockOSThread()
	var result BurstResult
	before, start := threadCPU(), time.Now()
	for _, fd := range f.conns {
		// A raw system call does not tell the scheduler, which would take the processor away in a loop as tight as this.
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(frame))), uintptr(len(frame)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		if errno == 0 && int(n) == len(frame) {
			result.Sent++
		} else {
			result.Refused++
		}
	}
	result.Wall, result.CPU = time.Since(start), threadCPU()-before
	runtime.KeepAlive(frame)
	return result
}

func threadCPU() time.Duration {
	var now unix.Timespec
	// The clock exists on every Linux; getrusage would lag behind by a scheduler tick.
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	return time.Duration(now.Nano())
}

// Close closes all sockets.
func (f *RawFanout) Close() {
	for _, fd := range append(f.listeners, f.conns...) {
		_ = unix.Close(fd)
	}
	f.listeners, f.conns = nil, nil
}

// OpenRawFanout listens, starts the sinks and accepts all their connections.
func OpenRawFanout(ctx context.Context, connections int, sinkArgs ...string) (*RawFanout, *Sinks, error) {
	fanout, err := ListenRaw(connections)
	if err != nil {
		return nil, nil, err
	}
	accepted := make(chan error, 1)
	go func() { accepted <- fanout.Accept(connections) }()
	sinks, err := OpenSinks(ctx, SinkConfig{Addresses: fanout.addresses, Connections: connections}, sinkArgs...)
	acceptErr := <-accepted
	if err == nil {
		err = acceptErr
	}
	if err != nil {
		if sinks != nil {
			_ = sinks.Close()
		}
		fanout.Close()
		return nil, nil, fmt.Errorf("raw fan-out: %w", err)
	}
	return fanout, sinks, nil
}
