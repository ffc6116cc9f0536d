package baseline

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/placed-board/placed/internal/bench/measure"
)

// Sockets of one sink process: well below the 20,000 files that a process may hold.
const sinkSocketsMax = 5000

// SinkConfig is what a sink process connects to: its first line of standard input.
type SinkConfig struct {
	Addresses   []string `json:"addresses"`   // host:port, taken in turn, for 4,000 connections each
	Connections int      `json:"connections"` // sockets to open
	First       int      `json:"first"`       // number of the first of them among those of all processes
	Path        string   `json:"path"`        // of the websocket; empty: a bare TCP connection without any handshake
	Protocol    string   `json:"protocol"`    // subprotocol asked for; empty for none
	Tokens      []string `json:"tokens"`      // bearer tokens of the handshakes, taken in turn; none: no identity
	Hello       []byte   `json:"hello"`       // bytes to send after the handshake, already framed and masked
}

// sinkCommand is each later line of standard input; every one is answered with a line of SinkStats.
type sinkCommand struct {
	Do    string `json:"do"`    // "stats"; "stop" and "resume" reading on the first Count sockets
	Count int    `json:"count"` // sockets concerned, from the first
}

// SinkStats counts what the sockets of a sink, or of several, received so far.
type SinkStats struct {
	Connected int              `json:"connected"` // sockets open now
	Closed    int              `json:"closed"`    // sockets that the other side ended
	Bytes     int64            `json:"bytes"`     // everything after the handshake, framing included
	Frames    map[string]int64 `json:"frames"`    // data frames by the first byte of their payload, in decimal; only with a Path
	Error     string           `json:"error"`     // why it gives up; empty while it does not
}

func (s *SinkStats) add(other SinkStats) {
	s.Connected += other.Connected
	s.Closed += other.Closed
	s.Bytes += other.Bytes
	for kind, n := range other.Frames {
		s.Frames[kind] += n
	}
	if s.Error == "" {
		s.Error = other.Error
	}
}

// Sinks are processes that open many sockets to a server and read them as cheaply as the kernel allows, so that the
// machine's other core is left to the server.
type Sinks struct{ children []*measure.Child }

// OpenSinks starts as many sink processes (this binary with sinkArgs) as the connections need and waits until all are
// connected.
func OpenSinks(ctx context.Context, config SinkConfig, sinkArgs ...string) (*Sinks, error) {
	s := &Sinks{}
	for first := 0; first < config.Connections; first += sinkSocketsMax {
		child, err := measure.StartSelf(sinkArgs...)
		if err != nil {
			_ = s.Close()
			return nil, fmt.Errorf("start sink: %w", err)
		}
		s.children = append(s.children, child)
		part := config
		part.First, part.Connections = first, min(config.Connections-first, sinkSocketsMax)
		if err := child.Ask(ctx, part, nil); err != nil {
			_ = s.Close()
			return nil, fmt.Errorf("start sink: %w", err)
		}
	}
	stats, err := s.ask(ctx, nil)
	if err == nil && stats.Connected != config.Connections {
		err = fmt.Errorf("%d of %d sockets connected", stats.Connected, config.Connections)
	}
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open sinks: %w", err)
	}
	return s, nil
}

// Stats of all sinks together.
func (s *Sinks) Stats(ctx context.Context) (SinkStats, error) {
	return s.ask(ctx, sinkCommand{Do: "stats"})
}

// StopReading makes the first count sockets of every process stop reading, or all when there are fewer; their receive
// buffers fill up then.
func (s *Sinks) StopReading(ctx context.Context, count int) error {
	_, err := s.ask(ctx, sinkCommand{Do: "stop", Count: count})
	return err
}

// ResumeReading ends StopReading for all sockets.
func (s *Sinks) ResumeReading(ctx context.Context) error {
	_, err := s.ask(ctx, sinkCommand{Do: "resume", Count: sinkSocketsMax})
	return err
}

func (s *Sinks) ask(ctx context.Context, question any) (SinkStats, error) {
	parts := make([]SinkStats, len(s.children))
	errs := make([]error, len(s.children))
	var waits sync.WaitGroup
	for i, child := range s.children {
		waits.Go(func() { errs[i] = child.Ask(ctx, question, &parts[i]) })
	}
	waits.Wait()
	all := SinkStats{Frames: map[string]int64{}}
	for i, part := range parts {
		if errs[i] != nil {
			return all, errs[i]
		}
		all.add(part)
	}
	if all.Error != "" {
		return all, fmt.Errorf("sink: %s", all.Error)
	}
	return all, nil
}

// AwaitBytes waits until the sinks have received at least want bytes in all.
func (s *Sinks) AwaitBytes(ctx context.Context, want int64) (SinkStats, error) {
	for {
		stats, err := s.Stats(ctx)
		if err != nil || stats.Bytes >= want {
			return stats, err
		}
		if err := sleep(ctx, sinkPollEvery); err != nil {
			return stats, fmt.Errorf("%d of %d bytes arrived: %w", stats.Bytes, want, err)
		}
	}
}

const sinkPollEvery = 10 * time.Millisecond

func sleep(ctx context.Context, d time.Duration) error {
	waitUntil(ctx, time.Now().Add(d))
	return ctx.Err()
}

// Close ends the processes and with them their sockets.
func (s *Sinks) Close() error {
	var first error
	for _, child := range s.children {
		if err := child.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func encodeStats(stats SinkStats, kinds *[256]int64) ([]byte, error) {
	stats.Frames = map[string]int64{}
	for kind, n := range kinds {
		if n > 0 {
			stats.Frames[fmt.Sprint(kind)] = n
		}
	}
	line, err := json.Marshal(stats)
	return append(line, '\n'), err
}
