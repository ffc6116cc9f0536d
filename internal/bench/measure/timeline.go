package measure

import (
	"math"
	"sync"
	"time"
)

// Histograms of a Timeline: eight buckets an octave from 1 us to over 60 s, so a percentile is right to 9%.
const (
	timelineOctaves = 26
	timelineSteps   = 8
	// timelineSecondsMax bounds a timeline; what is later counts for its last second.
	timelineSecondsMax = 24 * 60 * 60
)

// Timeline counts events and keeps their durations second by second of a run. Use it by pointer; the zero value is empty.
type Timeline struct {
	mu      sync.Mutex
	seconds []*timelineSecond // guarded by mu
}

type timelineSecond struct {
	count   int64
	buckets [timelineOctaves * timelineSteps]uint32
}

// Add notes an event at a time since the start of the run, which took so long; 0 is for events that take no time.
func (l *Timeline) Add(at, took time.Duration) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(max(0, int(at/time.Second)), timelineSecondsMax-1)
	for len(l.seconds) <= n {
		l.seconds = append(l.seconds, nil)
	}
	if l.seconds[n] == nil {
		l.seconds[n] = &timelineSecond{}
	}
	s := l.seconds[n]
	s.count++
	s.buckets[timelineBucket(took)]++
}

func timelineBucket(took time.Duration) int {
	us := max(1, float64(took)/float64(time.Microsecond))
	return min(int(math.Log2(us)*timelineSteps), timelineOctaves*timelineSteps-1)
}

// Rate is the count of each second, as points of a curve.
func (l *Timeline) Rate() []Point {
	l.mu.Lock()
	defer l.mu.Unlock()
	points := make([]Point, len(l.seconds))
	for i, s := range l.seconds {
		points[i] = Point{X: float64(i)}
		if s != nil {
			points[i].Y = float64(s.count)
		}
	}
	return points
}

// Percentile is that percentile of the durations of each second, in milliseconds; seconds without events have no point.
func (l *Timeline) Percentile(p float64) []Point {
	l.mu.Lock()
	defer l.mu.Unlock()
	var points []Point
	for i, s := range l.seconds {
		if s == nil {
			continue
		}
		rank, seen := int64(math.Ceil(float64(s.count)*p/100)), int64(0)
		for bucket, n := range s.buckets {
			if seen += int64(n); seen >= rank {
				us := math.Exp2((float64(bucket) + 0.5) / timelineSteps)
				points = append(points, Point{X: float64(i), Y: us / 1000})
				break
			}
		}
	}
	return points
}
