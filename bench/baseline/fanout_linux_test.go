package baseline

import "testing"

func TestFanoutDeliversEveryFrame(t *testing.T) {
	for _, paused := range []bool{false, true} {
		config := FanoutConfig{Connections: 30, FrameBytes: FrameBytes, Bursts: 2, Paused: paused}
		result, err := Fanout(t.Context(), config, helperSink)
		if err != nil {
			t.Fatal(err)
		}
		if len(result.NsPerDelivery) != 2 || result.NsPerDelivery[0] <= 0 || result.Refused != 0 {
			t.Errorf("paused %v: %+v", paused, result)
		}
	}
}

func TestFanoutSpreadsItsConnectionsOverAddresses(t *testing.T) {
	const connections = 2*sinkSocketsPerAddress + 100 // three addresses, two processes
	fanout, sinks, err := OpenRawFanout(t.Context(), connections, helperSink)
	if err != nil {
		t.Fatal(err)
	}
	defer fanout.Close()
	defer sinks.Close()
	stats, err := sinks.Stats(t.Context())
	if err != nil || stats.Connected != connections || len(fanout.conns) != connections || len(fanout.Addresses()) != 3 {
		t.Fatalf("%d sockets connected, %d accepted at %d addresses, error %v", stats.Connected, len(fanout.conns), len(fanout.Addresses()), err)
	}
}

func TestBurstCountsWhatASocketRefuses(t *testing.T) {
	fanout, sinks, err := OpenRawFanout(t.Context(), 2, helperSink)
	if err != nil {
		t.Fatal(err)
	}
	defer fanout.Close()
	defer sinks.Close()
	if err := sinks.StopReading(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, 1<<20)
	for range 64 { // 64 MiB fill the buffers of a socket that nobody reads
		if result := fanout.Burst(frame); result.Refused > 0 {
			return
		}
	}
	t.Fatal("a socket that nobody reads took 64 MiB")
}
