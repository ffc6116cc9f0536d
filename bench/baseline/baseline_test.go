package baseline

import (
	"os"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// helper is the argument with which this test binary plays a helper process instead of running tests.
const (
	helperEcho = "play-echo-server"
	helperSink = "play-sink"
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == helperEcho:
		err = ServeEcho(os.Stdin, os.Stdout, SameAnswer(AnswerBytes))
	case len(os.Args) > 1 && os.Args[1] == helperSink:
		err = RunSink(os.Stdin, os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
}

func TestEchoMeasuresRoundTrips(t *testing.T) {
	config := EchoConfig{
		Sessions: 20, PlaceBytes: PlaceBytes, AnswerBytes: AnswerBytes, Warmup: 50 * time.Millisecond, Duration: 200 * time.Millisecond,
	}
	result, err := Echo(t.Context(), config, helperEcho)
	if err != nil {
		t.Fatal(err)
	}
	if result.Latency.Count < 1 || result.Latency.P50 <= 0 {
		t.Fatalf("%d round trips with a median of %v", result.Latency.Count, result.Latency.P50)
	}
	if want := float64(result.Latency.Count) / 0.2; result.PerSecond != want {
		t.Errorf("%v round trips per second, want %v: the warm-up must not count", result.PerSecond, want)
	}
	config.AnswerBytes++
	if _, err := Echo(t.Context(), config, helperEcho); err == nil {
		t.Error("answers of the wrong size went unnoticed")
	}
}

func TestPebbleCommitsTwicePerPlacement(t *testing.T) {
	db, err := pebble.Open(t.TempDir(), &pebble.Options{Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p := newPebbleLoad(db)
	config := PebbleConfig{InFlight: 400, Slots: 2, Duration: 300 * time.Millisecond, Seed: 1}
	if _, err := p.run(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	placed, rows, commits := p.placed.Load(), p.rows.Load(), p.commits.Load()
	if placed < int64(config.InFlight) || rows != 2*placed {
		t.Errorf("%d placements in %d commit rows, want two each", placed, rows)
	}
	// 400 wait for 164 partitions and two slots: what waits for one partition shares a commit.
	if commits >= rows {
		t.Errorf("%d commits for %d rows", commits, rows)
	}
}

func TestPebbleLeavesNothingBehind(t *testing.T) {
	config := PebbleConfig{Dir: t.TempDir(), InFlight: 4, Slots: 4, Duration: 50 * time.Millisecond, Seed: 1}
	if _, err := Pebble(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(config.Dir)
	if err != nil || len(left) != 0 {
		t.Errorf("%d files are left behind, error %v", len(left), err)
	}
}

func TestFsyncSamples(t *testing.T) {
	summary, err := Fsync(t.Context(), t.TempDir())
	if err != nil || summary.Count != fsyncSamples {
		t.Fatalf("%d samples, error %v; want %d", summary.Count, err, fsyncSamples)
	}
}

func TestBestStep(t *testing.T) {
	if _, ok := BestStep(nil); ok {
		t.Error("no steps have a best one")
	}
	best, ok := BestStep([]CassandraStep{{Concurrency: 1, PerSecond: 300}, {Concurrency: 8, PerSecond: 900}, {Concurrency: 64, PerSecond: 700}})
	if !ok || best.Concurrency != 8 {
		t.Errorf("best step %+v", best)
	}
}

func TestSpread(t *testing.T) {
	if median, lowest, highest := Spread([]float64{3, 9, 1}); median != 3 || lowest != 1 || highest != 9 {
		t.Errorf("spread %v %v %v, want 3 1 9", median, lowest, highest)
	}
}
