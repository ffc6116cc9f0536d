//go:build linux && !386 && !s390x

package transport

import (
	"net"
	"syscall"
	"unsafe"
)

// socketSender sends on the bare descriptor with one raw system call. An ordinary call would let the scheduler take the
// processor away from a loop that sends to thousands of sockets, over and over; a raw one costs a quarter less. It cannot
// block: MSG_DONTWAIT. The owner sees to it that the descriptor is open (see conn).
type socketSender struct {
	tcp *net.TCPConn
	fd  uintptr
}

func newSocketSender(tcp *net.TCPConn) sender {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socketSender{tcp: tcp}
	if err := raw.Control(func(fd uintptr) { s.fd = fd }); err != nil {
		return nil
	}
	return s
}

func (s *socketSender) trySend(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, s.fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, nil
		default:
			return 0, errno
		}
	}
}

func (s *socketSender) finish() { s.tcp.CloseWrite() }

func (s *socketSender) stop() {}
