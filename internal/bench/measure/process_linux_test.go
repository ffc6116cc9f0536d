package measure

import (
	"os"
	"testing"
	"time"
)

func TestProcessFiguresOfThisProcess(t *testing.T) {
	before, err := ProcessCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for after := before; after < before+5*clockTick; {
		if time.Now().After(deadline) {
			t.Fatalf("20 s of work added only %v of CPU time", after-before)
		}
		if after, err = ProcessCPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	rss, err := ProcessRSS(os.Getpid())
	if err != nil || rss < 1<<20 || rss > 1<<34 {
		t.Fatalf("resident memory %d, error %v; want something between 1 MiB and 16 GiB", rss, err)
	}
	if slab, err := KernelSlab(); err != nil || slab < 1<<20 {
		t.Fatalf("slab %d, error %v; want more than 1 MiB", slab, err)
	}
	if _, err := ProcessCPU(-1); err == nil {
		t.Fatal("a process that does not exist has CPU time")
	}
}
