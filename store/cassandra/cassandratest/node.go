// Package cassandratest runs one real Cassandra node on this machine, for tests and for development. It is no
// imitation: the jars come from Maven, the process is a JVM of its own, and it can be killed, paused, resumed,
// stopped and started again on the same data, which is what tests of a durable store have to do to it.
//
// A node never outlives the process that started it (on Linux; elsewhere it is stopped by Stop or Kill only), and
// is only ever signalled by the process id that Start got: a Cassandra that somebody else runs is left alone.
//
// It needs a JDK 17, and Maven the first time: `make deps` installs both on Debian.
package cassandratest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	readyWaitMax  = 120 * time.Second      // from the start of the process to the answer to a query
	readyPoll     = 100 * time.Millisecond // between two looks at the CQL port
	stopWaitMax   = 60 * time.Second       // from SIGTERM to SIGKILL; an idle node takes 2 to 10 s
	killWaitMax   = 10 * time.Second       // from SIGKILL to the end of the process
	logTailLines  = 25                     // of the node's log, in an error
	logTailBytes  = 16 << 10               // read for them
	defaultListen = "127.0.0.1"
)

// Options say where a node runs. The zero value of each field but Dir is usable.
type Options struct {
	// Dir keeps everything of the node: configuration, data, log. It is made if absent, and used again if it holds
	// the data of an earlier run. One node at a time: a second one is refused. Required.
	Dir string
	// ListenAddress is an IPv4 address of this machine, for clients and for other nodes; "" is 127.0.0.1.
	ListenAddress string
	// CQLPort is the port for clients; 0 picks a free one, which the node then keeps over restarts.
	CQLPort int
	// StoragePort is the port for other nodes; 0 picks a free one.
	StoragePort int
	// JMXPort lets nodetool in, from this machine only; 0 leaves JMX off.
	JMXPort int
	// Log hears of downloads and of each start and end; nil is silence. The node's own log is Dir/cassandra.log.
	Log *slog.Logger
}

// Node is one Cassandra node. Its methods are for one goroutine at a time, except Addr.
type Node struct {
	opts Options
	java string // a JDK 17's java
	lib  string // the folder of the jars

	unlock func() // gives Dir back; nil when it is not held
	proc   *process
}

// process is one run of the JVM.
type process struct {
	handle *os.Process
	done   chan struct{} // closed when the process is gone and reaped
	err    error         // how it ended; read after done
}

// Start brings a node up and returns when it answers a query, within 120 s of its start. The first Start on a
// machine also downloads the jars (67 MB). When it fails, or ctx ends before, nothing is left running, and the
// error says what is missing on this machine or how the node's log ends.
func Start(ctx context.Context, opts Options) (*Node, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.ListenAddress == "" {
		opts.ListenAddress = defaultListen
	}
	if opts.Dir == "" {
		return nil, errors.New("cassandratest: Options.Dir is empty")
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("cassandratest: %w", err)
	}
	opts.Dir = dir
	n := &Node{opts: opts}
	if n.java, err = findJava(ctx, javaCandidates()); err != nil {
		return nil, fmt.Errorf("cassandratest: %w", err)
	}
	if n.lib, err = Fetch(ctx, opts.Log); err != nil {
		return nil, err
	}
	if err := n.start(ctx); err != nil {
		return nil, fmt.Errorf("cassandratest: start: %w", err)
	}
	return n, nil
}

// Addr is the address for clients, as "host:port". It does not change over restarts.
func (n *Node) Addr() string {
	return net.JoinHostPort(n.opts.ListenAddress, strconv.Itoa(n.opts.CQLPort))
}

// PID is the process id of the node, 0 while it is down.
func (n *Node) PID() int {
	if !n.running() {
		return 0
	}
	return n.proc.handle.Pid
}

// Exited is closed when the present run of the node has ended, for whatever reason.
func (n *Node) Exited() <-chan struct{} {
	if n.proc == nil {
		gone := make(chan struct{})
		close(gone)
		return gone
	}
	return n.proc.done
}

// Kill ends the node at once, as a crash does (SIGKILL), and returns when the process is gone. A node that is down
// is left so.
func (n *Node) Kill() error {
	defer n.release()
	if !n.running() {
		return nil
	}
	if err := n.proc.kill(); err != nil {
		return fmt.Errorf("cassandratest: kill: %w", err)
	}
	n.opts.Log.Info("cassandra killed", "pid", n.proc.handle.Pid)
	return nil
}

// Pause freezes the node (SIGSTOP): its connections stay open and nothing answers. It returns when the process
// stands still. Linux only.
func (n *Node) Pause() error {
	if !n.running() {
		return errors.New("cassandratest: pause: the node is down")
	}
	if err := pauseProcess(n.proc.handle); err != nil {
		return fmt.Errorf("cassandratest: pause: %w", err)
	}
	return nil
}

// Resume lets a paused node go on (SIGCONT). Linux only.
func (n *Node) Resume() error {
	if !n.running() {
		return errors.New("cassandratest: resume: the node is down")
	}
	if err := resumeProcess(n.proc.handle); err != nil {
		return fmt.Errorf("cassandratest: resume: %w", err)
	}
	return nil
}

// Stop ends the node in good order (SIGTERM; a paused node is resumed for it) and returns when the process is gone,
// which takes up to 10 s. One that has not ended after 60 s is killed, and that is an error. A node that is down is
// left so; Dir stays as it is.
func (n *Node) Stop() error {
	defer n.release()
	if !n.running() {
		return nil
	}
	p := n.proc
	if err := p.handle.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(fmt.Errorf("cassandratest: stop: %w", err), p.kill())
	}
	_ = resumeProcess(p.handle) // a paused process does not see SIGTERM; for one that runs this changes nothing
	select {
	case <-p.done:
		n.opts.Log.Info("cassandra stopped", "pid", p.handle.Pid)
		return nil
	case <-time.After(stopWaitMax):
		return errors.Join(fmt.Errorf("cassandratest: stop: still there %v after SIGTERM%s", stopWaitMax, n.logTail()), p.kill())
	}
}

// Restart brings the node up again on the same data and ports, after Kill, Stop or an end of its own; a running one is
// stopped first. It waits and fails as Start does.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Stop(); err != nil {
		return err
	}
	if err := n.start(ctx); err != nil {
		return fmt.Errorf("cassandratest: restart: %w", err)
	}
	return nil
}

func (n *Node) running() bool {
	if n.proc == nil {
		return false
	}
	select {
	case <-n.proc.done:
		return false
	default:
		return true
	}
}

func (n *Node) release() {
	if n.unlock != nil && !n.running() {
		n.unlock()
		n.unlock = nil
	}
}

// start takes Dir and the ports, runs the JVM and waits until it answers.
func (n *Node) start(ctx context.Context) (err error) {
	if err := os.MkdirAll(n.opts.Dir, 0o755); err != nil {
		return err
	}
	unlock, ok, err := tryLock(filepath.Join(n.opts.Dir, "lock"))
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("another node runs in %s", n.opts.Dir)
	}
	n.unlock = unlock
	defer func() {
		if err != nil {
			n.release()
		}
	}()
	freePorts, err := takePorts(n.opts.ListenAddress, &n.opts.CQLPort, &n.opts.StoragePort)
	if err != nil {
		return err
	}
	defer freePorts()
	if err := writeConfig(n.opts); err != nil {
		return err
	}
	args, err := javaArgs(n.opts, n.lib)
	if err != nil {
		return err
	}
	freePorts()
	began := time.Now()
	if n.proc, err = run(n.java, args, n.logPath()); err != nil {
		return err
	}
	n.opts.Log.Info("cassandra starts", "pid", n.proc.handle.Pid, "address", n.Addr(), "log", n.logPath())
	if err := n.waitReady(ctx); err != nil {
		return errors.Join(fmt.Errorf("%w%s", err, n.logTail()), n.proc.kill())
	}
	n.opts.Log.Info("cassandra is ready", "pid", n.proc.handle.Pid, "address", n.Addr(), "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// waitReady returns nil once the node answers a query.
func (n *Node) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWaitMax, fmt.Errorf("no answer on %s after %v", n.Addr(), readyWaitMax))
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if err := probe(ctx, n.Addr()); err == nil {
			return nil
		}
		select {
		case <-n.proc.done:
			return fmt.Errorf("the process ended by itself: %w", n.proc.err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (n *Node) logPath() string { return filepath.Join(n.opts.Dir, "cassandra.log") }

// logTail is the end of the node's log, ready to be appended to a sentence.
func (n *Node) logTail() string {
	f, err := os.Open(n.logPath())
	if err != nil {
		return ""
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-logTailBytes), io.SeekStart)
	}
	data, _ := io.ReadAll(f)
	lines := strings.Split(string(bytes.TrimSpace(data)), "\n")
	return fmt.Sprintf("; the end of %s:\n%s", n.logPath(), strings.Join(lines[max(0, len(lines)-logTailLines):], "\n"))
}

// run starts the JVM with its output appended to the log file.
//
// Linux ties a child's death signal to the thread that forked it, not to the process, so that thread must live as long
// as the child: the goroutine that starts it stays locked to its thread until the child is reaped.
func run(java string, args []string, logPath string) (*process, error) {
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(java, args...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = childAttr()
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer logFile.Close()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.handle = cmd.Process
		started <- nil
		p.err = cmd.Wait()
		if p.err == nil {
			p.err = errors.New("exit status 0")
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// kill ends the process and waits until it is gone.
func (p *process) kill() error {
	if err := p.handle.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(killWaitMax):
		return fmt.Errorf("process %d is still there %v after SIGKILL", p.handle.Pid, killWaitMax)
	}
}
