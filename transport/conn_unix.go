//go:build unix && (!linux || 386 || s390x)

package transport

import (
	"net"
	"syscall"
)

// socketSender sends on the non-blocking descriptor through its RawConn, whose function returns after one try.
type socketSender struct {
	tcp *net.TCPConn
	raw syscall.RawConn
}

func newSocketSender(tcp *net.TCPConn) sender {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	return &socketSender{tcp: tcp, raw: raw}
}

func (s *socketSender) trySend(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	var n int
	var err error
	if rawErr := s.raw.Write(func(fd uintptr) bool {
		for {
			if n, err = syscall.Write(int(fd), b); err != syscall.EINTR {
				return true
			}
		}
	}); rawErr != nil {
		return 0, rawErr
	}
	switch err {
	case nil:
		return n, nil
	case syscall.EAGAIN:
		return 0, nil
	}
	return 0, err
}

func (s *socketSender) finish() { s.tcp.CloseWrite() }

func (s *socketSender) stop() {}
