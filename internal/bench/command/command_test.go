package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/bench/baseline"
	"github.com/placed-board/placed/internal/bench/measure"
	"github.com/placed-board/placed/internal/bench/target"
	"github.com/placed-board/placed/wire"
)

// TestMain lets this test binary play the helpers that a command starts as further copies of its own binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == selfEcho[0] || os.Args[1] == selfSink[0]) {
		Main()
	}
	os.Exit(m.Run())
}

// bench runs a command line and returns its exit code and output.
func bench(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsageErrorsAreOneLineAndCode2(t *testing.T) {
	for _, args := range [][]string{
		{"strom"},
		{},
		{"storm", "--user", "5"},
		{"storm", "--users", "many"},
		{"storm", "--duration", "0s"},
		{"storm", "--duration", "-1s"},
		{"storm", "--listeners", "-1"},
		{"storm", "--users", "1000000"},
		{"storm", "--store", "sqlite"},
		{"echo", "--sessions", "0"},
		{"pebble", "--in-flight", "0"},
		{"pebble", "--slots", "0"},
		{"cassandra", "--concurrencies", "0"},
		{"fanout", "--connections", "0"},
		{"fanout", "--against-placed", "--pairs", "0"},
		{"board", "--pairs", "0"},
		{"replay"},
		{"replay", "no-such-file.csv"},
		{"replay", "command.go", "--speed", "0"},
		{"replay", "command.go", "--sessions", "0"},
		{"storm", "--pairs", "2", "--report", "x.html"},
		{"board", "--read-rate", "0"},
		{"memory", "--sessions", "0"},
		{"big-board", "--touched", "2"},
		{"bytes", "--rate", "0"},
		{"restart", "--placements", "0"},
		{"tile-details", "--pairs", "0"},
		{"tile-details", "--read-rate", "-1"},
		{"slow-readers", "--readers", "4", "--stopped", "4"},
	} {
		code, stdout, stderr := bench(t, args...)
		if code != measure.ExitUsage || strings.Count(strings.TrimSpace(stderr), "\n") != 0 || !strings.HasPrefix(stderr, "bench: ") || stdout != "" {
			t.Errorf("bench %s: exit code %d, output %q, message %q; want 2 and one line", strings.Join(args, " "), code, stdout, stderr)
		}
	}
}

func TestHelpNamesEveryCommandButTheHelpers(t *testing.T) {
	code, stdout, _ := bench(t, "--help")
	if code != measure.ExitPass {
		t.Fatalf("exit code %d", code)
	}
	for _, command := range []string{"storm", "replay", "board", "tile-details", "memory", "big-board", "bytes", "restart", "slow-readers", "echo", "pebble", "cassandra", "fanout"} {
		if !strings.Contains(stdout, "\n  "+command+" ") {
			t.Errorf("help does not name %s", command)
		}
	}
	if strings.Contains(stdout, "echo-server") {
		t.Error("help names a helper")
	}
}

func TestUnreachableServerFailsWithAMessage(t *testing.T) {
	code, _, stderr := bench(t, "storm", "--url", "http://127.0.0.1:1", "--results", "")
	if code != measure.ExitFail || !strings.Contains(stderr, "http://127.0.0.1:1") {
		t.Errorf("exit code %d, message %q; want 1 and the address", code, stderr)
	}
}

func TestBaselinesPrintAndWriteTheirFigures(t *testing.T) {
	results := filepath.Join(t.TempDir(), "results.json")
	for figure, args := range map[string][]string{
		"echoRoundTripsPerSecond":      {"echo", "--sessions", "10", "--duration", "200ms", "--warmup", "50ms"},
		"pebblePlacementsPerSecondAt8": {"pebble", "--in-flight", "8", "--duration", "200ms", "--warmup", "50ms", "--dir", t.TempDir()},
	} {
		code, stdout, stderr := bench(t, append(args, "--results", results)...)
		if code != measure.ExitPass || !strings.Contains(stdout, "PASS") {
			t.Fatalf("bench %s: exit code %d\n%s%s", args[0], code, stdout, stderr)
		}
		body, err := os.ReadFile(results)
		if err != nil {
			t.Fatal(err)
		}
		var report measure.Report
		if err := json.Unmarshal(body, &report); err != nil || report.Figures[figure] <= 0 {
			t.Errorf("%s is %v in the results, error %v", figure, report.Figures[figure], err)
		}
	}
}

// TestBoardAgainstNginx goes the whole way of `bench board` in a second or two; its figures say nothing on a busy machine.
func TestBoardAgainstNginx(t *testing.T) {
	results := filepath.Join(t.TempDir(), "results.json")
	code, stdout, stderr := bench(t, "board", "--pairs", "1", "--duration", "300ms", "--warmup", "50ms", "--connections", "4",
		"--storm-rate", "200", "--storm-time", "1s", "--read-rate", "50", "--results", results)
	if stderr != "" { // a figure off its limit is no error
		t.Fatalf("exit code %d (nginx missing? run make deps)\n%s%s", code, stdout, stderr)
	}
	body, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	var report measure.Report
	if err := json.Unmarshal(body, &report); err != nil {
		t.Fatal(err)
	}
	for _, figure := range []string{"boardPlainRatio", "boardGzipRatio", "boardKnownRatio", "boardPlainStormP99Ns", "boardGzipStormP99Ns"} {
		if report.Figures[figure] <= 0 {
			t.Errorf("%s is %v\n%s", figure, report.Figures[figure], stdout)
		}
	}
	for _, check := range report.Checks {
		if check.Invariant && check.Outcome != measure.Pass {
			t.Errorf("%+v", check)
		}
	}
}

func TestMergeChecksKeepsWhatDidNotPass(t *testing.T) {
	fine, broken := measure.Zero("extra tiles", 0, ""), measure.Zero("extra tiles", 2, "user 1")
	other := measure.Zero("sequence gaps", 0, "")
	merged := mergeChecks([][]measure.Check{{fine, other}, {broken, other}, {fine, other}})
	if len(merged) != 2 || merged[0].Outcome != measure.Fail || !strings.Contains(merged[0].Detail, "run 2 of 3: user 1") || merged[1].Outcome != measure.Pass {
		t.Errorf("merged to %+v", merged)
	}
}

func TestClientFrameIsASubscribeThatTheServerReads(t *testing.T) {
	message := wire.AppendClient(nil, &wire.Subscribe{Whole: true})
	frame := clientFrame(message)
	if frame[0] != 0x82 || frame[1] != 0x80|byte(len(message)) || !bytes.Equal(frame[2:6], make([]byte, 4)) || !bytes.Equal(frame[6:], message) {
		t.Errorf("frame % x of message % x", frame, message)
	}
}

func TestTickFramesLeavesOtherMessagesOut(t *testing.T) {
	frame := wire.AppendServer(nil, &wire.Frame{Tick: 1})
	heartbeat := wire.AppendServer(nil, &wire.Heartbeat{Tick: 1})
	stats := baseline.SinkStats{Frames: map[string]int64{}}
	stats.Frames[decimal(frame[0])] += 5
	stats.Frames[decimal(heartbeat[0])] += 3
	if got := tickFrames(stats); got != 5 {
		t.Errorf("%d tick frames, want 5", got)
	}
}

func decimal(b byte) string {
	text, _ := json.Marshal(b)
	return string(text)
}

// One node, and the commands that judge a board against it: the whole way from intended send to verdict.
func TestStormAgainstARealNode(t *testing.T) {
	node, err := target.Start(t.Context(), target.Options{Cooldown: 50 * time.Millisecond, Store: "mem", Width: 300, Height: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	}()
	admin, err := node.Admin()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PLACED_ADMIN_TOKEN", admin.Token)
	results := filepath.Join(t.TempDir(), "results.json")
	for _, loop := range []string{"--cooldown-aware", "--closed-loop"} {
		code, stdout, stderr := bench(t, "storm", "--url", node.URL, "--admin", node.AdminURL, loop, "--duration", "2s", "--warmup", "500ms",
			"--users", "100", "--rate", "300", "--listeners", "5", "--doublers", "4", "--results", results)
		if code != measure.ExitPass && code != measure.ExitInvalid { // a busy machine may slow the generator, never break a board
			t.Fatalf("%s: exit code %d\n%s%s", loop, code, stdout, stderr)
		}
		for _, line := range []string{"extra tiles", "lost acknowledgements", "sequence gaps", "divergent boards", "own replay of its journals"} {
			if !strings.Contains(stdout, line) {
				t.Errorf("%s: no line on %s:\n%s", loop, line, stdout)
			}
		}
	}
}

// TestImport goes through a small history: everything but the rate, which a moment's work says nothing about, passes.
func TestImport(t *testing.T) {
	code, stdout, stderr := bench(t, "import", "--rows", "20000", "--results", filepath.Join(t.TempDir(), "results.json"))
	for _, line := range []string{"bytes resident during the import", "violations found by the server's own replay of its journals  0 in 20000 placements"} {
		if !strings.Contains(stdout, line) {
			t.Errorf("code %d: no line %q in\n%s%s", code, line, stdout, stderr)
		}
	}
	if strings.Contains(stdout, "FAIL     violations") {
		t.Errorf("a broken invariant:\n%s", stdout)
	}
}

// TestGenerateRepeats: a seed makes one history.
func TestGenerateRepeats(t *testing.T) {
	_, one, _ := bench(t, "generate", "--out", "-", "--rows", "1000", "--users", "50")
	_, two, _ := bench(t, "generate", "--out", "-", "--rows", "1000", "--users", "50")
	_, other, _ := bench(t, "generate", "--out", "-", "--rows", "1000", "--users", "50", "--seed", "2")
	if one != two || one == other || strings.Count(one, "\n") != 1001 {
		t.Errorf("histories of %d, %d and %d bytes", len(one), len(two), len(other))
	}
}
