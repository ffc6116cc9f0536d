//go:build !linux

package baseline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

var errOnlyLinux = fmt.Errorf("the raw fan-out needs epoll and non-blocking sends, so Linux: %w", errors.ErrUnsupported)

// RawFanout is a loop of non-blocking sends over bare file descriptors.
type RawFanout struct{}

// Burst sends the frame to every connection once.
func (f *RawFanout) Burst(frame []byte) BurstResult { return BurstResult{} }

// Close closes all sockets.
func (f *RawFanout) Close() {}

// OpenRawFanout listens, starts the sinks and accepts all their connections.
func OpenRawFanout(ctx context.Context, connections int, sinkArgs ...string) (*RawFanout, *Sinks, error) {
	return nil, nil, errOnlyLinux
}

// RunSink is the body of the hidden command `bench sink`.
func RunSink(in *os.File, out io.Writer) error { return errOnlyLinux }
