package baseline

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placed-board/placed/internal/bench/measure"
)

// Buffers and waits of the raw HTTP loop.
const (
	httpReadBuffer = 256 << 10 // a whole board takes few reads
	httpWait       = 20 * time.Second
)

// HTTPConfig describes a closed loop of requests over kept-alive connections, the same for every server.
type HTTPConfig struct {
	Address     string                     // host:port
	Path        string                     // of GET
	PathOf      func(request int64) string // of the request with this number, from 0, instead of Path; nil for equal requests
	Header      []string                   // further lines, as "Name: value"
	Status      int                        // that every answer must have
	Connections int                        // each with one request under way
	Warmup      time.Duration
	Duration    time.Duration
	PID         int           // of the serving process
	Every       time.Duration // above 0: an open loop, one request each time over all connections, timed from when it was due
}

func (c *HTTPConfig) request(path string) []byte {
	lines := append([]string{"GET " + path + " HTTP/1.1", "Host: " + c.Address}, c.Header...)
	return []byte(strings.Join(lines, "\r\n") + "\r\n\r\n")
}

// HTTPResult is what a loop reached.
type HTTPResult struct {
	Requests    int64           // answered within the measured time
	PerSecond   float64         // the same per second
	CPU         time.Duration   // of the serving process per request, user and system; 0 where it cannot be read
	Latency     measure.Summary // of one request
	BodyBytes   int64           // of one answer
	Unfulfilled int64           // open loop: requests that were due and never sent
}

// PerCore is how many requests one second of processor time serves.
func (r HTTPResult) PerCore() float64 {
	if r.CPU <= 0 {
		return 0
	}
	return float64(time.Second) / float64(r.CPU)
}

// HTTPLoop sends the request again and again and reads every answer to its end.
func HTTPLoop(ctx context.Context, config HTTPConfig) (HTTPResult, error) {
	start := time.Now()
	loop := &httpLoop{
		config: config, request: config.request(config.Path), start: start, latency: measure.NewRecorder(),
		measureFrom: start.Add(config.Warmup), end: start.Add(config.Warmup + config.Duration),
	}
	errs := make([]error, config.Connections)
	var workers sync.WaitGroup
	for i := range config.Connections {
		workers.Go(func() { errs[i] = loop.run(ctx, i) })
	}
	waitUntil(ctx, loop.measureFrom)
	before, _ := measure.ProcessCPU(config.PID)
	counted := loop.answered.Load()
	began := time.Now()
	waitUntil(ctx, loop.end)
	after, _ := measure.ProcessCPU(config.PID)
	counted = loop.answered.Load() - counted
	took := time.Since(began)
	workers.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return HTTPResult{}, fmt.Errorf("GET %s of %s: %w", config.Path, config.Address, err)
	}
	result := HTTPResult{Requests: counted, Latency: loop.latency.Summary(), BodyBytes: loop.bodyBytes.Load()}
	if counted > 0 {
		result.PerSecond, result.CPU = float64(counted)/took.Seconds(), (after-before)/time.Duration(counted)
	}
	if config.Every > 0 {
		result.Unfulfilled = max(0, int64((config.Warmup+config.Duration)/config.Every)-loop.due.Load())
	}
	return result, nil
}

type httpLoop struct {
	config                  HTTPConfig
	request                 []byte
	start, measureFrom, end time.Time
	latency                 *measure.Recorder
	answered                atomic.Int64
	bodyBytes               atomic.Int64
	due                     atomic.Int64 // number of the next request
}

func (l *httpLoop) run(ctx context.Context, worker int) error {
	conn, err := net.DialTimeout("tcp", l.config.Address, httpWait)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(l.end.Add(httpWait)) // one for all: the loop ends by the clock well before it
	in := bufio.NewReaderSize(conn, httpReadBuffer)
	for ctx.Err() == nil {
		sent, number, ok := l.next(ctx)
		if !ok {
			return nil
		}
		request := l.request
		if l.config.PathOf != nil {
			request = l.config.request(l.config.PathOf(number))
		}
		if _, err := conn.Write(request); err != nil {
			return err
		}
		answer, err := ReadHTTPAnswer(in)
		if err != nil {
			return err
		}
		if answer.Status != l.config.Status {
			return fmt.Errorf("status %d instead of %d", answer.Status, l.config.Status)
		}
		l.answered.Add(1)
		l.bodyBytes.Store(answer.BodyBytes)
		if now := time.Now(); !sent.Before(l.measureFrom) && now.Before(l.end) {
			l.latency.Record(worker, now.Sub(sent))
		}
	}
	return nil
}

// next returns when the next request counts as sent, and its number; false when the time is over. In an open loop it waits
// until it is due.
func (l *httpLoop) next(ctx context.Context) (sent time.Time, number int64, ok bool) {
	now := time.Now()
	number = l.due.Add(1) - 1
	if l.config.Every <= 0 {
		return now, number, now.Before(l.end)
	}
	at := l.start.Add(time.Duration(number) * l.config.Every)
	if !at.Before(l.end) || now.After(l.end) {
		return at, number, false
	}
	waitUntil(ctx, at)
	return at, number, ctx.Err() == nil
}

// HTTPAnswer is what the loop looks at in an answer.
type HTTPAnswer struct {
	Status    int
	ETag      string
	Encoding  string
	BodyBytes int64
}

var errNoLength = errors.New("the answer does not say how long it is")

// ReadHTTPAnswer reads one answer to its end and keeps nothing of its body.
func ReadHTTPAnswer(in *bufio.Reader) (HTTPAnswer, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return HTTPAnswer{}, err
	}
	var answer HTTPAnswer
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return answer, fmt.Errorf("not an answer: %q", line)
	}
	if answer.Status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return answer, fmt.Errorf("not an answer: %q", line)
	}
	length := int64(-1)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return answer, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
				return answer, fmt.Errorf("length %q: %w", value, err)
			}
		case bytes.EqualFold(name, []byte("ETag")):
			answer.ETag = string(value)
		case bytes.EqualFold(name, []byte("Content-Encoding")):
			answer.Encoding = string(value)
		}
	}
	if answer.Status == 304 {
		return answer, nil
	}
	if length < 0 {
		return answer, errNoLength
	}
	answer.BodyBytes = length
	_, err = in.Discard(int(length))
	return answer, err
}

// AskHTTP sends one such request over a connection of its own, and writes the body to out unless that is nil.
func AskHTTP(config HTTPConfig, out io.Writer) (HTTPAnswer, error) {
	conn, err := net.DialTimeout("tcp", config.Address, httpWait)
	if err != nil {
		return HTTPAnswer{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(httpWait))
	config.Header = append([]string{"Connection: close"}, config.Header...)
	if _, err := conn.Write(config.request(config.Path)); err != nil {
		return HTTPAnswer{}, err
	}
	var all bytes.Buffer
	if _, err := all.ReadFrom(conn); err != nil {
		return HTTPAnswer{}, err
	}
	raw := all.Bytes()
	answer, err := ReadHTTPAnswer(bufio.NewReader(bytes.NewReader(raw)))
	if err == nil && out != nil {
		_, err = out.Write(raw[int64(len(raw))-answer.BodyBytes:])
	}
	return answer, err
}
