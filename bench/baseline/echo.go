package baseline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/placed-board/placed/internal/bench/measure"
)

// Sizes of the frames of a placement and of its answer, in bytes of websocket payload.
const (
	PlaceBytes  = 24
	AnswerBytes = 24
)

// Waits of the echo baseline.
const (
	echoDialWait    = 10 * time.Second
	echoDialers     = 32 // connections opened at a time
	echoReadBuffer  = 512
	echoWriteBuffer = 512
)

// EchoConfig describes a closed loop of round trips.
type EchoConfig struct {
	Sessions    int           // connections, each with one message under way
	PlaceBytes  int           // payload of a message
	AnswerBytes int           // payload of its answer
	Warmup      time.Duration // not measured
	Duration    time.Duration // measured
}

// EchoResult is what the closed loop reached.
type EchoResult struct {
	PerSecond float64         // round trips per second
	Latency   measure.Summary // of one round trip
	ServerCPU time.Duration   // user and system time of the server's process per round trip; 0 where it cannot be read
	ClientCPU time.Duration   // the same for the clients' process
}

// echoReady is the line with which the server's process tells its address.
type echoReady struct {
	Address string `json:"address"`
}

// EchoTalk is what a bare echo server says.
type EchoTalk struct {
	Hello []byte // sent first on every connection; nil for nothing
	// Answer returns the answer to a message; it may use the memory of the answer before, which is nil at first.
	Answer func(before, message []byte) []byte
}

// SameAnswer answers every message with as many bytes.
func SameAnswer(answerBytes int) EchoTalk {
	answer := bytes.Repeat([]byte{1}, answerBytes)
	return EchoTalk{Answer: func([]byte, []byte) []byte { return answer }}
}

// ServeEcho answers every message until in ends. It prints its address as one line of JSON to out: the body of the hidden
// command `bench echo-server`.
func ServeEcho(in io.Reader, out io.Writer, talk EchoTalk) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("echo server: %w", err)
	}
	upgrader := websocket.Upgrader{ReadBufferSize: echoReadBuffer, WriteBufferSize: echoWriteBuffer}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // Upgrade has answered
		}
		defer conn.Close()
		if talk.Hello != nil && conn.WriteMessage(websocket.BinaryMessage, talk.Hello) != nil {
			return
		}
		var answer []byte
		for {
			_, message, err := conn.ReadMessage()
			if err != nil {
				return
			}
			answer = talk.Answer(answer, message)
			if err := conn.WriteMessage(websocket.BinaryMessage, answer); err != nil {
				return
			}
		}
	})}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = server.Close()
	}()
	if err := json.NewEncoder(out).Encode(echoReady{listener.Addr().String()}); err != nil {
		return fmt.Errorf("echo server: %w", err)
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("echo server: %w", err)
	}
	return nil
}

// StartEcho starts an echo server in a process of its own, this binary with serverArgs, and returns its address.
func StartEcho(ctx context.Context, serverArgs ...string) (server *measure.Child, address string, err error) {
	server, err = measure.StartSelf(serverArgs...)
	if err != nil {
		return nil, "", err
	}
	var ready echoReady
	readyCtx, cancel := context.WithTimeout(ctx, echoDialWait)
	defer cancel()
	if err := server.Ask(readyCtx, nil, &ready); err != nil {
		return nil, "", errors.Join(fmt.Errorf("start echo server: %w", err), server.Close())
	}
	return server, ready.Address, nil
}

// Echo starts an echo server in a process of its own (this binary with serverArgs) and measures round trips against it.
func Echo(ctx context.Context, config EchoConfig, serverArgs ...string) (EchoResult, error) {
	server, address, err := StartEcho(ctx, serverArgs...)
	if err != nil {
		return EchoResult{}, err
	}
	defer server.Close()
	return echoAgainst(ctx, config, address, server.PID())
}

// echoAgainst measures against a running echo server.
func echoAgainst(ctx context.Context, config EchoConfig, address string, serverPID int) (EchoResult, error) {
	conns, err := dialEcho(ctx, address, config.Sessions)
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	if err != nil {
		return EchoResult{}, err
	}
	start := time.Now()
	loop := echoLoop{
		message: make([]byte, config.PlaceBytes), answerBytes: config.AnswerBytes,
		measureFrom: start.Add(config.Warmup), end: start.Add(config.Warmup + config.Duration), latency: measure.NewRecorder(),
	}
	var workers sync.WaitGroup
	for i, conn := range conns {
		workers.Go(func() { loop.run(ctx, i, conn) })
	}
	var cpu cpuPair
	waitUntil(ctx, loop.measureFrom)
	before := readCPU(serverPID)
	waitUntil(ctx, loop.end)
	cpu = readCPU(serverPID).minus(before)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return EchoResult{}, err
	}
	if failures := loop.failures.Load(); failures > 0 {
		return EchoResult{}, fmt.Errorf("%d of %d echo sessions failed", failures, config.Sessions)
	}
	result := EchoResult{Latency: loop.latency.Summary()}
	if n := result.Latency.Count; n > 0 {
		result.PerSecond = float64(n) / config.Duration.Seconds()
		result.ServerCPU, result.ClientCPU = cpu.server/time.Duration(n), cpu.client/time.Duration(n)
	}
	return result, nil
}

func dialEcho(ctx context.Context, address string, sessions int) ([]*websocket.Conn, error) {
	dialer := websocket.Dialer{ReadBufferSize: echoReadBuffer, WriteBufferSize: echoWriteBuffer, HandshakeTimeout: echoDialWait}
	conns := make([]*websocket.Conn, sessions)
	errs := make([]error, echoDialers)
	var workers sync.WaitGroup
	for worker := range echoDialers {
		workers.Go(func() {
			for i := worker; i < sessions && errs[worker] == nil; i += echoDialers {
				conns[i], _, errs[worker] = dialer.DialContext(ctx, "ws://"+address+"/", nil)
			}
		})
	}
	workers.Wait()
	opened := conns[:0]
	for _, conn := range conns {
		if conn != nil {
			opened = append(opened, conn)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return opened, fmt.Errorf("open echo sessions: %w", err)
	}
	return opened, nil
}

type echoLoop struct {
	message          []byte
	answerBytes      int
	measureFrom, end time.Time
	latency          *measure.Recorder
	failures         atomic.Int64
}

func (l *echoLoop) run(ctx context.Context, session int, conn *websocket.Conn) {
	// One absolute deadline instead of one per message: the loop ends by the clock well before it.
	_ = conn.SetReadDeadline(l.end.Add(echoDialWait))
	for sent := time.Now(); sent.Before(l.end) && ctx.Err() == nil; {
		if err := conn.WriteMessage(websocket.BinaryMessage, l.message); err != nil {
			l.failures.Add(1)
			return
		}
		if _, answer, err := conn.ReadMessage(); err != nil || len(answer) != l.answerBytes {
			l.failures.Add(1)
			return
		}
		answered := time.Now()
		if !sent.Before(l.measureFrom) && answered.Before(l.end) {
			l.latency.Record(session, answered.Sub(sent))
		}
		sent = answered
	}
}

type cpuPair struct{ server, client time.Duration }

// readCPU reads both sides; what cannot be read stays 0.
func readCPU(serverPID int) cpuPair {
	server, _ := measure.ProcessCPU(serverPID)
	client, _ := measure.ProcessCPU(os.Getpid())
	return cpuPair{server, client}
}

func (p cpuPair) minus(q cpuPair) cpuPair { return cpuPair{p.server - q.server, p.client - q.client} }

func waitUntil(ctx context.Context, at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
