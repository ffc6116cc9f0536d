package baseline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/placed-board/placed/internal/bench/measure"
)

// Nginx is a running nginx that serves one folder of files.
type Nginx struct {
	Address string
	child   *measure.Child
	dir     string
}

// nginxConfig serves a folder with what Debian's own configuration sets (sendfile, tcp_nopush) and in one process, so that its
// processor time is easily read; connections are never recycled and nothing is logged. It is filled in with its own folder,
// its address and the folder of files.
const nginxConfig = `daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log stderr error;
events { worker_connections 1024; }
http {
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_timeout 60s;
	keepalive_requests 100000000;
	default_type application/octet-stream;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	server {
		listen %[2]s;
		root %[3]s;
		location / { gzip_static on; }
	}
}
`

// StartNginx serves the files of a folder.
func StartNginx(ctx context.Context, binary, files string) (*Nginx, error) {
	dir, err := os.MkdirTemp("", "bench-nginx-")
	if err != nil {
		return nil, fmt.Errorf("start nginx: %w", err)
	}
	n := &Nginx{dir: dir}
	fail := func(err error) (*Nginx, error) {
		return nil, errors.Join(fmt.Errorf("start nginx: %w", err), n.Close())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fail(err)
	}
	n.Address = listener.Addr().String()
	listener.Close()
	config := dir + "/nginx.conf"
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, n.Address, files), 0o644); err != nil {
		return fail(err)
	}
	if n.child, err = measure.StartChild(exec.Command(binary, "-p", dir, "-e", "stderr", "-c", config)); err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, httpWait)
	defer cancel()
	for {
		if conn, err := net.Dial("tcp", n.Address); err == nil {
			return n, conn.Close()
		}
		select {
		case <-n.child.Done():
			return fail(errors.New("it ended at once"))
		case <-ctx.Done():
			return fail(ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// PID of the one process.
func (n *Nginx) PID() int { return n.child.PID() }

// Close ends it and removes its folder.
func (n *Nginx) Close() error {
	var err error
	if n.child != nil {
		err = n.child.Stop(os.Interrupt)
	}
	return errors.Join(err, os.RemoveAll(n.dir))
}
