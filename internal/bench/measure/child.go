package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// How long a child may take to end after its standard input closed, and how long one answer of it may be.
const (
	childEndWait     = 20 * time.Second
	childLineBytes   = 1 << 20
	childAnswerQueue = 16
)

// Child is a helper process of a bench run: a second copy of this binary, or a server. It lives no longer than the run,
// because its standard input closes when the run ends, however it ends.
type Child struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	answers chan string   // lines of its standard output
	done    chan struct{} // closed when it has ended
	err     error         // how it ended; read after done
}

// StartSelf starts this same binary with the arguments.
func StartSelf(args ...string) (*Child, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this binary: %w", err)
	}
	return StartChild(exec.Command(binary, args...))
}

// StartChild starts the command. Its standard output is read line by line with Answer; its standard error is the run's
// unless the command sets another.
func StartChild(cmd *exec.Cmd) (*Child, error) {
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	c := &Child{cmd: cmd, stdin: stdin, answers: make(chan string, childAnswerQueue), done: make(chan struct{})}
	go c.read(stdout)
	return c, nil
}

func (c *Child) read(stdout io.Reader) {
	defer close(c.done)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, childLineBytes)
	for lines.Scan() {
		select {
		case c.answers <- lines.Text():
		default: // nobody asks: a server's own lines
		}
	}
	c.err = c.cmd.Wait()
	close(c.answers)
}

// PID of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Ask sends one line of JSON and decodes the one line that answers it. A nil question only waits for a line; a nil
// answer leaves the line unread.
func (c *Child) Ask(ctx context.Context, question, answer any) error {
	if question != nil {
		line, err := json.Marshal(question)
		if err != nil {
			return fmt.Errorf("ask child: %w", err)
		}
		if _, err := c.stdin.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("ask child: %w", err)
		}
	}
	if answer == nil {
		return nil
	}
	select {
	case line, ok := <-c.answers:
		if !ok {
			return fmt.Errorf("child ended without an answer: %w", errors.Join(c.err, io.ErrUnexpectedEOF))
		}
		if err := json.Unmarshal([]byte(line), answer); err != nil {
			return fmt.Errorf("answer of child %q: %w", line, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for child: %w", ctx.Err())
	}
}

// Signal sends a signal to the process.
func (c *Child) Signal(signal os.Signal) error { return c.cmd.Process.Signal(signal) }

// Close closes the standard input, which ends a helper, and kills what has not ended 20 s later.
func (c *Child) Close() error {
	_ = c.stdin.Close() // an error means it has ended already
	return c.wait()
}

// Stop sends the signal and waits for the end like Close: the way to stop a server.
func (c *Child) Stop(signal os.Signal) error {
	if err := c.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop child: %w", err)
	}
	return c.wait()
}

func (c *Child) wait() error {
	select {
	case <-c.done:
	case <-time.After(childEndWait):
		_ = c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("%s did not end within %v and was killed", c.cmd.Path, childEndWait)
	}
	return c.err
}
