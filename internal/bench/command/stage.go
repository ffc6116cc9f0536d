package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/internal/bench/measure"
	"github.com/placed-board/placed/internal/bench/target"
)

// targetFlags say which server a command measures.
type targetFlags struct {
	URL            string        `help:"Node to measure; without it a node of bench's own is built, started and stopped." placeholder:"URL"`
	Admin          string        `help:"Admin listener of that node, for a replay of its journals at the end; the token is read from PLACED_ADMIN_TOKEN." placeholder:"URL"`
	Shared         bool          `help:"Others place tiles on that board meanwhile: placements that no answer explains are theirs."`
	Placed         string        `help:"Binary of bench's own node; built from this module without it." placeholder:"FILE" env:"BENCH_PLACED"`
	DataDir        string        `help:"Data folder of bench's own node; a temporary one without it." placeholder:"DIR"`
	Store          string        `help:"Store of bench's own node." enum:"pebble,cassandra,mem" default:"pebble"`
	CassandraHosts []string      `help:"With --store=cassandra." default:"127.0.0.1"`
	Keyspace       string        `help:"With --store=cassandra; it must not hold a board yet." default:"placed_bench"`
	Cooldown       time.Duration `help:"Cooldown of bench's own node." default:"50ms"`
	Width          int           `help:"Width of its board, in tiles." default:"1000"`
	Height         int           `help:"Height of its board, in tiles." default:"1000"`
}

// stage is the server under test with what bench knows of it.
type stage struct {
	url      string
	api      *client.API
	settings board.Settings
	node     *target.Node  // nil when the server is not ours
	admin    *client.Admin // nil when there is none
	sole     bool          // nobody else places
}

// open starts or finds the server.
func (f *targetFlags) open(ctx context.Context) (*stage, error) {
	st := &stage{url: f.URL, sole: !f.Shared}
	if f.URL == "" {
		node, err := target.Start(ctx, target.Options{
			Binary: f.Placed, DataDir: f.DataDir, Store: f.Store, CassandraHosts: f.CassandraHosts, Keyspace: f.Keyspace,
			Cooldown: f.Cooldown, Width: f.Width, Height: f.Height,
		})
		if err != nil {
			return nil, err
		}
		st.node, st.url = node, node.URL
		if st.admin, err = node.Admin(); err != nil {
			return nil, errors.Join(err, st.close())
		}
	} else if f.Admin != "" {
		st.admin = &client.Admin{URL: f.Admin, Token: os.Getenv("PLACED_ADMIN_TOKEN"), By: "bench"}
	}
	st.api = &client.API{URL: st.url}
	config, err := st.api.Config(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the settings of %s: %w", st.url, err), st.close())
	}
	st.settings = config.Settings
	return st, nil
}

func (st *stage) close() error {
	if st.node == nil {
		return nil
	}
	return st.node.Close()
}

// note says what is measured, for the report's header.
func (st *stage) note() string {
	whose := "at " + st.url
	if st.node != nil {
		whose = "of bench's own at " + st.url
	}
	return fmt.Sprintf("node %s, board %dx%d, cooldown %v", whose, st.settings.Width, st.settings.Height, st.cooldown())
}

func (st *stage) cooldown() time.Duration {
	return time.Duration(st.settings.CooldownMs) * time.Millisecond
}

// cpu is the CPU time of the server's process so far, 0 when it is not ours.
func (st *stage) cpu() time.Duration {
	if st.node == nil {
		return 0
	}
	used, _ := measure.ProcessCPU(st.node.PID())
	return used
}

const verifyWait = 10 * time.Minute

// verify has the server replay its journals.
func (st *stage) verify(ctx context.Context) (measure.Check, bool) {
	if st.admin == nil {
		return measure.Check{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, verifyWait)
	defer cancel()
	const name = "violations found by the server's own replay of its journals"
	report, err := st.admin.Verify(ctx, nil)
	if err != nil {
		check := measure.NotMeasured(name, "0", err.Error())
		check.Invariant = true
		return check, true
	}
	detail := ""
	if len(report.Violations) > 0 {
		detail = report.Violations[0].Invariant + ": " + report.Violations[0].What
	}
	check := measure.Zero(name, report.Count, detail)
	check.Value += fmt.Sprintf(" in %d placements of %d users", report.Placements, report.Users)
	return check, true
}
