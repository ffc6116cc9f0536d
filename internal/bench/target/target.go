// Package target runs a placed node of the bench's own: it builds the program, starts it on free ports with a folder of
// its own, waits until it is ready, and stops or kills it.
package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/placed-board/placed/client"
)

// Waits of a node's life.
const (
	readyWait      = 60 * time.Second
	readyPollEvery = 2 * time.Millisecond
	readyPollWait  = 2 * time.Second // of one request
	stopWait       = 30 * time.Second
	logTailBytes   = 4096
)

// Options of a node.
type Options struct {
	Binary         string   // path of placed; empty: built from this module, which needs its source
	DataDir        string   // empty: a temporary one, removed at the end
	Store          string   // pebble, cassandra or mem; empty for the program's own default
	CassandraHosts []string // with the store cassandra
	Keyspace       string   // with the store cassandra
	Cooldown       time.Duration
	Width, Height  int // of the board, in tiles; 0 for the program's own default
}

// Node is a running placed.
type Node struct {
	URL      string // of the public listener
	AdminURL string
	DataDir  string
	// ReadyAfter is the time from the start of the process to the first 200 of /readyz.
	ReadyAfter time.Duration

	options   Options
	binary    string
	temporary []string // folders to remove
	cmd       *exec.Cmd
	log       *os.File
	ended     chan struct{} // closed when the process has ended
	endErr    error         // read after ended
}

// Start builds the program if need be, starts it and waits until it is ready, for at most a minute.
func Start(ctx context.Context, o Options) (*Node, error) {
	n := &Node{options: o, DataDir: o.DataDir}
	fail := func(err error) (*Node, error) {
		_ = n.Close()
		return nil, fmt.Errorf("start a node: %w", err)
	}
	work, err := os.MkdirTemp("", "bench-node-")
	if err != nil {
		return fail(err)
	}
	n.temporary = append(n.temporary, work)
	if n.DataDir == "" {
		n.DataDir = filepath.Join(work, "data")
	}
	if n.binary, err = Binary(ctx, o.Binary, work); err != nil {
		return fail(err)
	}
	if n.log, err = os.Create(filepath.Join(work, "log")); err != nil {
		return fail(err)
	}
	if err := n.Start(ctx); err != nil {
		return fail(err)
	}
	return n, nil
}

// Binary returns the binary that is named, or builds one in dir.
func Binary(ctx context.Context, named, dir string) (string, error) {
	if named != "" {
		return named, nil
	}
	binary := filepath.Join(dir, "placed")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/placed-board/placed/cmd/placed")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build placed (run inside its module, or name a binary with --placed): %w\n%s", err, out)
	}
	return binary, nil
}

// Start starts the node again after Stop or Kill, with the same folder and on the same ports, and waits until it is ready.
func (n *Node) Start(ctx context.Context) error {
	if n.URL == "" {
		ports, err := freePorts(2)
		if err != nil {
			return err
		}
		n.URL, n.AdminURL = "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	}
	n.cmd = exec.Command(n.binary, n.arguments()...)
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	start := time.Now()
	if err := n.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	n.ended = ended
	go func() {
		n.endErr = n.cmd.Wait()
		close(ended)
	}()
	if err := n.awaitReady(ctx); err != nil {
		return fmt.Errorf("%w; the end of its log:\n%s", err, n.logTail())
	}
	n.ReadyAfter = time.Since(start)
	return nil
}

func (n *Node) arguments() []string {
	o := n.options
	args := []string{
		"serve", "--listen=" + strings.TrimPrefix(n.URL, "http://"), "--admin-listen=" + strings.TrimPrefix(n.AdminURL, "http://"),
		"--data-dir=" + n.DataDir, "--cooldown=" + o.Cooldown.String(),
	}
	if o.Store != "" {
		args = append(args, "--store="+o.Store)
	}
	if o.Store == "cassandra" {
		args = append(args, "--cassandra-hosts="+strings.Join(o.CassandraHosts, ","), "--cassandra-keyspace="+o.Keyspace, "--create-schema")
	}
	if o.Width > 0 && o.Height > 0 {
		args = append(args, fmt.Sprintf("--width=%d", o.Width), fmt.Sprintf("--height=%d", o.Height))
	}
	return args
}

func freePorts(n int) (ports []string, err error) {
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer listener.Close()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

func (n *Node) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	hc := &http.Client{Timeout: readyPollWait, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL+"/readyz", nil)
		if err != nil {
			return err
		}
		if answer, err := hc.Do(request); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-n.ended:
			return fmt.Errorf("the node ended before it was ready: %w", errors.Join(n.endErr))
		case <-ctx.Done():
			return fmt.Errorf("the node is not ready: %w", ctx.Err())
		case <-time.After(readyPollEvery):
		}
	}
}

func (n *Node) logTail() string {
	body, err := os.ReadFile(n.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(body[max(0, len(body)-logTailBytes):]))
}

// PID of the process.
func (n *Node) PID() int { return n.cmd.Process.Pid }

// Admin returns the operators' API with the token that the node has made.
func (n *Node) Admin() (*client.Admin, error) {
	token, err := os.ReadFile(filepath.Join(n.DataDir, "admin-token"))
	if err != nil {
		return nil, fmt.Errorf("read the admin token: %w", err)
	}
	return &client.Admin{URL: n.AdminURL, Token: string(bytes.TrimSpace(token)), By: "bench"}, nil
}

// Stop asks the process to end in good order and waits for it.
func (n *Node) Stop() error { return n.end(syscall.SIGTERM) }

// Kill ends the process at once.
func (n *Node) Kill() error { return n.end(syscall.SIGKILL) }

func (n *Node) end(signal os.Signal) error {
	if err := n.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end the node: %w", err)
	}
	select {
	case <-n.ended:
	case <-time.After(stopWait):
		_ = n.cmd.Process.Kill()
		<-n.ended
		return fmt.Errorf("the node did not end within %v and was killed; the end of its log:\n%s", stopWait, n.logTail())
	}
	if n.endErr != nil && signal != syscall.SIGKILL {
		return fmt.Errorf("the node ended badly: %w; the end of its log:\n%s", n.endErr, n.logTail())
	}
	return nil
}

// Close stops the node if it runs and removes its temporary folders.
func (n *Node) Close() error {
	var errs []error
	if n.cmd != nil && n.cmd.Process != nil {
		select {
		case <-n.ended:
		default:
			errs = append(errs, n.Stop())
		}
	}
	if n.log != nil {
		errs = append(errs, n.log.Close())
	}
	for _, dir := range n.temporary {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}
