// Command run keeps one real Cassandra node in the foreground until Ctrl-C, SIGTERM or a lost terminal ends it in good
// order. It is behind `make cassandra`; with -fetch it only downloads the jars.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/placed-board/placed/store/cassandra/cassandratest"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var opts cassandratest.Options
	flag.StringVar(&opts.Dir, "dir", ".cache/cassandra", "`folder` of the node's data, kept between runs")
	flag.StringVar(&opts.ListenAddress, "address", "127.0.0.1", "IPv4 `address` to listen on")
	flag.IntVar(&opts.CQLPort, "port", 9042, "`port` for clients, 0 for a free one")
	flag.IntVar(&opts.StoragePort, "storage-port", 0, "`port` for other nodes, 0 for a free one")
	flag.IntVar(&opts.JMXPort, "jmx-port", 0, "`port` for nodetool, 0 for none")
	fetchOnly := flag.Bool("fetch", false, "download the jars and end")
	flag.Parse()
	opts.Log = log
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	var err error
	if *fetchOnly {
		_, err = cassandratest.Fetch(ctx, log)
	} else {
		err = run(ctx, opts)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run holds a node up until ctx ends; an end of its own is an error.
func run(ctx context.Context, opts cassandratest.Options) error {
	node, err := cassandratest.Start(ctx, opts)
	if err != nil {
		return err
	}
	fmt.Printf("Cassandra answers on %s. Ctrl-C stops it.\n", node.Addr())
	select {
	case <-ctx.Done():
		return node.Stop()
	case <-node.Exited():
		return fmt.Errorf("the node ended by itself: see %s/cassandra.log", opts.Dir)
	}
}
