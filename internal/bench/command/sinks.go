package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/placed-board/placed/bench/baseline"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/wire"
)

// websocketPath is where a node takes sessions.
const websocketPath = "/api/v1/ws"

// signInsAtOnce is how many identities are asked for at a time.
const signInsAtOnce = 32

// openSinks opens sessions that read the whole board as cheaply as sockets can be read. With signedIn every session has an
// identity of its own; otherwise all are spectators.
func openSinks(ctx context.Context, st *stage, sessions int, signedIn bool, name string) (*baseline.Sinks, error) {
	u, err := url.Parse(st.url)
	if err != nil {
		return nil, err
	}
	config := baseline.SinkConfig{
		Addresses: []string{u.Host}, Connections: sessions, Path: websocketPath, Protocol: client.Subprotocol,
		Hello: clientFrame(wire.AppendClient(nil, &wire.Subscribe{Whole: true})),
	}
	if signedIn {
		if config.Tokens, err = signIn(ctx, st, sessions, name); err != nil {
			return nil, err
		}
	}
	return baseline.OpenSinks(ctx, config, selfSink...)
}

// clientFrame wraps a message below 126 bytes into a websocket frame, with a mask of zeros.
func clientFrame(message []byte) []byte {
	const binaryFinal, masked = 0x82, 0x80
	return append([]byte{binaryFinal, masked | byte(len(message)), 0, 0, 0, 0}, message...)
}

// signIn gets n identities.
func signIn(ctx context.Context, st *stage, n int, name string) ([]string, error) {
	tokens := make([]string, n)
	errs := make([]error, signInsAtOnce)
	var next atomic.Int64
	var workers sync.WaitGroup
	for worker := range signInsAtOnce {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[worker] == nil; i = int(next.Add(1)) - 1 {
				api := &client.API{URL: st.url}
				_, errs[worker] = api.Login(ctx, fmt.Sprintf("%s-%d", name, i))
				tokens[i] = api.Token()
			}
		})
	}
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("sign in: %w", err)
	}
	return tokens, nil
}

// tickFrames counts the frames of ticks among what sinks received; the rest are hellos, bases and heartbeats.
func tickFrames(stats baseline.SinkStats) int64 {
	total := int64(0)
	for kind, n := range stats.Frames {
		if first, err := strconv.Atoi(kind); err == nil && wire.IsFrame([]byte{byte(first)}) {
			total += n
		}
	}
	return total
}
