// Command placed serves a collaborative pixel board, and is the operators' tool for a running one.
//
//	placed [serve]   serve a board: alone on an embedded store, or on Cassandra
//	placed ctl ...   settings, bans, clearing, status, verification
//	placed import    make a board of placement histories in CSV files
//	placed export    write a board's history, pictures of it, or a film
//	placed backup    the board in one archive
//	placed restore   and back
//	placed version   the program's version
//
// Every flag of serve also comes from an environment variable, PLACED_ and the flag's name. Exit codes: 0 done, 1 failed,
// 2 wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

type commands struct {
	Serve   serveCommand   `cmd:"" default:"withargs" help:"Serve a board (the default)."`
	Ctl     ctlCommand     `cmd:"" help:"Operate a running board."`
	Import  importCommand  `cmd:"" help:"Make a board of placement histories in CSV files."`
	Export  exportCommand  `cmd:"" help:"Write a board's history, pictures of it, or a film."`
	Backup  backupCommand  `cmd:"" help:"Write the board into one archive, of a running node or of a stopped one."`
	Restore restoreCommand `cmd:"" help:"Put an archive in the place of the board of a stopped node."`
	Version versionCommand `cmd:"" help:"Print the version."`

	ShowVersion kong.VersionFlag `name:"version" env:"-" help:"Print the version and end."`
}

// errUsage marks an error that is the caller's: exit code 2.
var errUsage = errors.New("")

type usageError struct{ error }

func (usageError) Is(target error) bool { return target == errUsage }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run parses and carries out one command line, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c commands
	parser, err := kong.New(&c, kong.Name("placed"), kong.Description("A collaborative pixel board."),
		kong.DefaultEnvars("PLACED"), kong.Vars{"version": "placed " + version()}, kong.Writers(stdout, stderr), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(&streams{stdout, stderr}, &c), kong.Exit(func(code int) { panic(exitCode(code)) }))
	if err != nil {
		fmt.Fprintln(stderr, "placed:", err)
		return 1
	}
	return parseAndRun(parser, args, stderr)
}

// exitCode carries the exit of --help out of the parser.
type exitCode int

func parseAndRun(parser *kong.Kong, args []string, stderr io.Writer) (code int) {
	defer func() {
		if r := recover(); r != nil {
			exit, ok := r.(exitCode)
			if !ok {
				panic(r)
			}
			code = int(exit)
		}
	}()
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "placed: %s (see placed --help)\n", oneLine(err))
		return 2
	}
	if err := command.Run(); err != nil {
		fmt.Fprintf(stderr, "placed: %s\n", oneLine(err))
		if errors.Is(err, errUsage) {
			return 2
		}
		return 1
	}
	return 0
}

// oneLine puts joined errors on one line.
func oneLine(err error) string { return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ") }

// streams are where a command prints.
type streams struct{ out, err io.Writer }

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(s *streams) error {
	_, err := fmt.Fprintln(s.out, "placed", version())
	return err
}

// version returns the module's version, or the revision that the program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
