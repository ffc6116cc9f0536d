package cassandra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocql/gocql"

	"github.com/placed-board/placed/store"
)

// Open connects to the cluster and checks that everything is there: hosts, data centre, keyspace, tables, and, if the board
// exists, its format (an error wraps store.ErrFormat) and its data centre. It creates nothing. Each error is one line.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	first, dc, err := firstSession(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	err = checkSchema(ctx, first, cfg.Keyspace)
	first.Close()
	if err != nil {
		return nil, err
	}
	session, err := connect(ctx, &cfg, cfg.Keyspace, dc.name)
	if err != nil {
		return nil, err
	}
	s := newStore(session, &cfg, dc.name)
	if err := errors.Join(s.prepare(ctx), s.checkBoard(ctx)); err != nil {
		session.Close()
		return nil, err
	}
	return s, nil
}

// prepare has the statements of guarded data prepared, so that a commit is one request from the first on, and lets the
// driver learn where their partition keys are. It would do so at first use too, but when no connection is up at that moment
// it remembers the failure for ever and no longer finds the replicas.
func (s *Store) prepare(ctx context.Context) error {
	for _, stmt := range []string{
		shardHead, shardFirst, shardUpdate, shardRowWrite, shardRow,
		journalHead, journalFirst, journalUpdate, journalRowWrite, journalPage,
	} {
		b := s.session.NewBatch(gocql.LoggedBatch).WithContext(ctx)
		b.Query(stmt, make([]any, strings.Count(stmt, "?"))...)
		if _, err := b.GetRoutingKey(); err != nil {
			return fmt.Errorf("cassandra: prepare the statements: %s", oneLine(err.Error()))
		}
	}
	return nil
}

// checkBoard refuses a board that this placed cannot read or that lives in another data centre.
func (s *Store) checkBoard(ctx context.Context) error {
	m, err := s.Meta(ctx)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case m.DataCentre != s.dataCentre:
		// Conditional writes are ordered within one data centre only: a second one would be a second referee.
		return fmt.Errorf("cassandra: the board lives in data centre %s, this node's is %s: only nodes of one data centre may share a board",
			m.DataCentre, s.dataCentre)
	}
	return nil
}

// localDC is the data centre in use.
type localDC struct {
	name  string
	nodes int
}

// firstSession connects without a keyspace, by the contact points alone, and settles the local data centre.
func firstSession(ctx context.Context, cfg *Config) (*gocql.Session, localDC, error) {
	session, err := connect(ctx, cfg, "", "")
	if err != nil {
		return nil, localDC{}, err
	}
	dc, err := findDC(ctx, session, cfg.DataCentre)
	if err != nil {
		session.Close()
		return nil, localDC{}, err
	}
	return session, dc, nil
}

func findDC(ctx context.Context, session *gocql.Session, want string) (localDC, error) {
	nodes := map[string]int{}
	for _, from := range []string{"system.local", "system.peers"} {
		it := session.Query("SELECT data_center FROM " + from).WithContext(ctx).Consistency(gocql.One).Iter()
		for name := ""; it.Scan(&name); {
			if from == "system.local" || name != "" {
				nodes[name]++
			}
		}
		if err := it.Close(); err != nil {
			return localDC{}, fmt.Errorf("cassandra: look for data centres: %s", oneLine(err.Error()))
		}
	}
	var names []string
	for name := range nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	switch {
	case want != "" && nodes[want] == 0:
		return localDC{}, fmt.Errorf("cassandra: no host in data centre %s, there is %s", want, strings.Join(names, ", "))
	case want != "":
		return localDC{want, nodes[want]}, nil
	case len(names) != 1:
		return localDC{}, fmt.Errorf("cassandra: the cluster has the data centres %s: name the local one", strings.Join(names, ", "))
	}
	return localDC{names[0], nodes[names[0]]}, nil
}

// connect opens a session. The driver's own call cannot be cancelled, so that when ctx ends first the session is closed
// as soon as it is there.
func connect(ctx context.Context, cfg *Config, keyspace, dataCentre string) (*gocql.Session, error) {
	cl, err := cfg.cluster(keyspace, dataCentre)
	if err != nil {
		return nil, err
	}
	type opened struct {
		session *gocql.Session
		err     error
	}
	done := make(chan opened, 1)
	go func() {
		session, err := cl.CreateSession()
		done <- opened{session, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, fmt.Errorf("cassandra: cannot use any of %s: %s", strings.Join(cfg.Hosts, ", "), connectFault(o.err))
		}
		return o.session, nil
	case <-ctx.Done():
		go func() {
			if o := <-done; o.session != nil {
				o.session.Close()
			}
		}()
		return nil, fmt.Errorf("cassandra: connect to %s: %w", strings.Join(cfg.Hosts, ", "), ctx.Err())
	}
}

// connectFault takes the driver's wrappings off.
func connectFault(err error) string {
	text := oneLine(err.Error())
	for _, wrapping := range []string{"gocql: ", "unable to create session: ", "unable to connect to initial hosts: ", "gocql: "} {
		text = strings.TrimPrefix(text, wrapping)
	}
	return text
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
