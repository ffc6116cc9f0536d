// Package command is the command line of bench: one file a command. It measures placed from outside, and the baselines that
// it is held against, and says PASS or FAIL.
//
// Exit codes: 0 all checks passed, 1 a check failed or the command could not be carried out, 2 unknown flag or impossible
// value, 3 the load generator fell behind its schedule, so that the figures say nothing about the server.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/placed-board/placed/bench/baseline"
	"github.com/placed-board/placed/internal/bench/measure"
)

// commands is the command line. Kong makes the names of commands and flags from those of the fields.
type commands struct {
	Storm       stormCommand       `cmd:"" help:"A placement storm: rate, latency, and whether the board is right."`
	Replay      replayCommand      `cmd:"" help:"A recorded history through real sessions, faster than it was."`
	Board       boardCommand       `cmd:"" help:"Full boards over HTTP: against nginx serving the same bytes, and during a storm."`
	TileDetails tileDetailsCommand `cmd:"" help:"Details of random tiles during a storm, and what asking costs the storm."`
	Memory      memoryCommand      `cmd:"" help:"Resident memory per idle session."`
	BigBoard    bigBoardCommand    `cmd:"" help:"Resident memory of a large board that is hardly used."`
	Bytes       bytesCommand       `cmd:"" help:"Bytes on the wire per placement and session."`
	Restart     restartCommand     `cmd:"" help:"Time to be ready again with long journals, after a clean stop and after kill -9."`
	SlowReaders slowReadersCommand `cmd:"" help:"What stopped readers cost the others."`
	Import      importCommand      `cmd:"" help:"Import and export of a history of the size of 2017: time, memory, and whether the board is right."`
	Generate    generateCommand    `cmd:"" help:"Write a history in the shape of 2017, for import."`
	Echo        echoCommand        `cmd:"" help:"Baseline: round trips of a bare websocket echo."`
	Pebble      pebbleCommand      `cmd:"" help:"Baseline: the embedded store alone, two durable commits per placement."`
	Cassandra   cassandraCommand   `cmd:"" help:"Baseline: plain conditional inserts into a running Cassandra."`
	Fanout      fanoutCommand      `cmd:"" help:"Baseline: a raw loop of sends of one frame to many sockets; or the same through placed, against it."`

	EchoServer echoServerCommand `cmd:"" hidden:"" help:"The echo baseline's server; started by bench itself."`
	Sink       sinkCommand       `cmd:"" hidden:"" help:"A process full of reading sockets; started by bench itself."`
}

// output is where a command writes: people's text and the file of results.
type output struct {
	out      io.Writer
	progress io.Writer // how far a long run is, a line a step
	results  string    // path of results.json; empty for none
	page     string    // path of a page for people; empty for none
	code     int       // exit code, set by finish
}

// say tells how far a long run is.
func (o *output) say(format string, a ...any) { fmt.Fprintf(o.progress, "bench: "+format+"\n", a...) }

// finish prints the report and keeps its exit code.
func (o *output) finish(report *measure.Report) error {
	code, err := report.Finish(o.out, o.results)
	o.code = code
	if err == nil && o.page != "" {
		err = report.WritePage(o.page)
	}
	return err
}

// start makes a report of this command line and prints its header.
func (o *output) start(notes ...string) *measure.Report {
	report := measure.NewReport("bench "+strings.Join(os.Args[1:], " "), time.Now())
	report.Notes = notes
	report.PrintHeader(o.out)
	return report
}

// resultsFlag is part of every command that measures.
type resultsFlag struct {
	Results string `help:"File for the figures as JSON; empty for none." default:"results.json" placeholder:"FILE"`
}

// reportFlag is part of commands that can draw what they measure.
type reportFlag struct {
	Report string `help:"File for a page with curves of rate, latency and fan-out; it needs no other file." placeholder:"FILE.html"`
}

// errUsage marks values that no run can start with.
var errUsage = errors.New("usage")

func usageError(err error) error { return fmt.Errorf("%w: %w", errUsage, err) }

// Main runs the command line of the process and ends it.
func Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var cli commands
	exit := -1
	parser, err := kong.New(&cli, kong.Name("bench"), kong.Writers(stdout, stderr),
		kong.Description("Measures placed from outside, and the baselines it is held against."),
		kong.Exit(func(code int) { exit = code }), kong.UsageOnError())
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return measure.ExitFail
	}
	out := &output{out: stdout, progress: stderr, code: measure.ExitPass}
	parsed, err := parser.Parse(args)
	if exit >= 0 { // --help has been printed
		return exit
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return measure.ExitUsage
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	switch err := parsed.Run(out); {
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "bench:", err)
		return measure.ExitUsage
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return measure.ExitFail
	}
	return out.code
}

// selfEcho and selfSink are the arguments with which this binary plays a helper.
var (
	selfEcho   = []string{"echo-server"}
	selfAccept = []string{"echo-server", "--accept"}
	selfSink   = []string{"sink"}
)

type echoServerCommand struct {
	AnswerBytes int  `default:"24"`
	Accept      bool // answers placements as accepted
}

func (c *echoServerCommand) Run() error {
	talk := baseline.SameAnswer(c.AnswerBytes)
	if c.Accept {
		talk = acceptAll()
	}
	return baseline.ServeEcho(os.Stdin, os.Stdout, talk)
}

type sinkCommand struct{}

func (c *sinkCommand) Run() error { return baseline.RunSink(os.Stdin, os.Stdout) }
