package cassandra

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy stands between a Store and the node and can hold back what either side says, as a slow network does.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex // guards what follows
	conns []net.Conn
	gates [2]chan struct{} // by direction; not nil: held until it is closed
}

// The directions of a proxy.
const (
	toNode = iota
	toClient
)

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target}
	var accepting sync.WaitGroup
	accepting.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		accepting.Wait()
		p.release(toNode)
		p.release(toClient)
		p.cut()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp4", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		go p.pump(server, client, toNode)
		go p.pump(client, server, toClient)
	}
}

func (p *proxy) pump(to, from net.Conn, direction int) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		p.wait(direction)
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err == io.EOF || err != nil {
			return
		}
	}
}

func (p *proxy) wait(direction int) {
	p.mu.Lock()
	gate := p.gates[direction]
	p.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

// hold keeps back everything that goes in that direction from now on.
func (p *proxy) hold(direction int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gates[direction] == nil {
		p.gates[direction] = make(chan struct{})
	}
}

// release lets it all go on.
func (p *proxy) release(direction int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gates[direction] != nil {
		close(p.gates[direction])
		p.gates[direction] = nil
	}
}

// cut breaks all connections; new ones are accepted.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}
