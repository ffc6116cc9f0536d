package baseline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// A source address has ephemeral ports for about 28,000 connections to one destination, and finding one gets slow long
// before that: so every destination address takes this many.
const sinkSocketsPerAddress = 4000

const (
	sinkHandshakeSeconds = 20
	sinkReadBytes        = 64 << 10
	sinkEvents           = 512
)

// pongFrame answers a ping: final, masked with a mask of zeros, no payload.
var pongFrame = []byte{0x8a, 0x80, 0, 0, 0, 0}

// sink is one process full of sockets: one thread, one epoll set, no goroutine per socket.
type sink struct {
	config SinkConfig
	epoll  int
	fds    []int // -1 once closed
	frames []frameCounter
	index  map[int32]int // fd to its place in fds
	bytes  int64
	closed int
	kinds  [256]int64
}

// RunSink is the body of the hidden command `bench sink`: it connects as its first line of input says, answers each later
// line with its counts, and ends when its input does.
func RunSink(in *os.File, out io.Writer) error {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("sink: read its configuration: %w", err)
	}
	s := &sink{index: map[int32]int{}}
	if err := json.Unmarshal(first, &s.config); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	if s.epoll, err = unix.EpollCreate1(0); err != nil {
		return fmt.Errorf("sink: epoll: %w", err)
	}
	defer s.close()
	if err := s.connectAll(); err != nil {
		line, encodeErr := encodeStats(SinkStats{Error: err.Error()}, &s.kinds)
		_, writeErr := out.Write(line)
		return errors.Join(err, encodeErr, writeErr)
	}
	if err := s.answer(out); err != nil {
		return err
	}
	input := int32(in.Fd())
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, int(input), &unix.EpollEvent{Events: unix.EPOLLIN, Fd: input}); err != nil {
		return fmt.Errorf("sink: watch its input: %w", err)
	}
	return s.loop(lines, input, out)
}

func (s *sink) loop(lines *bufio.Reader, input int32, out io.Writer) error {
	events := make([]unix.EpollEvent, sinkEvents)
	buffer := make([]byte, sinkReadBytes)
	for {
		n, err := unix.EpollWait(s.epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("sink: wait: %w", err)
		}
		for _, event := range events[:max(n, 0)] {
			if event.Fd != input {
				s.read(event.Fd, buffer)
				continue
			}
			line, err := lines.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("sink: read command: %w", err)
			}
			if err := s.obey(line, out); err != nil {
				return err
			}
		}
	}
}

func (s *sink) obey(line []byte, out io.Writer) error {
	var command sinkCommand
	if err := json.Unmarshal(line, &command); err != nil {
		return fmt.Errorf("sink: command %q: %w", line, err)
	}
	events := uint32(unix.EPOLLIN)
	switch command.Do {
	case "stats":
		return s.answer(out)
	case "stop":
		events = 0
	case "resume":
	default:
		return fmt.Errorf("sink: unknown command %q", command.Do)
	}
	for i, fd := range s.fds {
		if i < command.Count && fd >= 0 {
			if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
				return fmt.Errorf("sink: %s: %w", command.Do, err)
			}
		}
	}
	return s.answer(out)
}

func (s *sink) answer(out io.Writer) error {
	line, err := encodeStats(SinkStats{Connected: len(s.index), Closed: s.closed, Bytes: s.bytes}, &s.kinds)
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	_, err = out.Write(line)
	return err
}

func (s *sink) read(fd int32, buffer []byte) {
	i, ok := s.index[fd]
	if !ok {
		return
	}
	n, err := unix.Read(int(fd), buffer)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return
	case err != nil || n == 0:
		s.drop(i, fd)
		return
	}
	s.received(i, fd, buffer[:n])
}

func (s *sink) received(i int, fd int32, p []byte) {
	s.bytes += int64(len(p))
	if s.config.Path == "" {
		return
	}
	closed := s.frames[i].feed(p,
		func(first byte) { s.kinds[first]++ },
		func() { _, _ = unix.Write(int(fd), pongFrame) }) // a full send buffer: the next ping will do
	if closed {
		s.drop(i, fd)
	}
}

func (s *sink) drop(i int, fd int32) {
	delete(s.index, fd)
	s.fds[i] = -1
	s.closed++
	_ = unix.Close(int(fd))
}

func (s *sink) close() {
	for fd := range s.index {
		_ = unix.Close(int(fd))
	}
	_ = unix.Close(s.epoll)
}

func (s *sink) connectAll() error {
	s.frames = make([]frameCounter, s.config.Connections)
	for i := range s.config.Connections {
		address := s.config.Addresses[((s.config.First+i)/sinkSocketsPerAddress)%len(s.config.Addresses)]
		fd, rest, err := s.connect(s.config.First+i, address)
		if err != nil {
			return fmt.Errorf("connection %d to %s: %w", i, address, err)
		}
		s.fds = append(s.fds, fd)
		s.index[int32(fd)] = i
		s.received(i, int32(fd), rest)
		if err := unix.SetNonblock(fd, true); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	return nil
}

// connect opens one socket and upgrades it. rest is what came in the same read as the end of the server's answer.
func (s *sink) connect(number int, address string) (fd int, rest []byte, err error) {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return -1, nil, err
	}
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: sinkHandshakeSeconds}); err != nil {
		return -1, nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(target.Port()), Addr: target.Addr().As4()}); err != nil {
		return -1, nil, err
	}
	if s.config.Path != "" {
		if rest, err = s.handshake(fd, number, address); err != nil {
			return -1, nil, err
		}
	}
	if len(s.config.Hello) > 0 {
		if _, err := unix.Write(fd, s.config.Hello); err != nil {
			return -1, nil, fmt.Errorf("first message: %w", err)
		}
	}
	return fd, rest, nil
}

func (s *sink) handshake(fd, number int, address string) (rest []byte, err error) {
	request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n", s.config.Path, address)
	if s.config.Protocol != "" {
		request += "Sec-WebSocket-Protocol: " + s.config.Protocol + "\r\n"
	}
	if n := len(s.config.Tokens); n > 0 {
		request += "Authorization: Bearer " + s.config.Tokens[number%n] + "\r\n"
	}
	if _, err := unix.Write(fd, []byte(request+"\r\n")); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	var answer []byte
	buffer := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buffer)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("handshake: %w", err)
		}
		if n == 0 {
			return nil, fmt.Errorf("handshake: closed after %q", answer)
		}
		answer = append(answer, buffer[:n]...)
		if head, rest, ok := bytes.Cut(answer, []byte("\r\n\r\n")); ok {
			if !bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
				return nil, fmt.Errorf("handshake answered with %q", answer)
			}
			return rest, nil
		}
	}
}
