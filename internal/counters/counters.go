// Package counters registers Prometheus counters all of whose series exist from the start, so that zero shows.
package counters

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Set registers collectors and keeps what goes wrong for the end. Its zero value with a registry is ready.
type Set struct {
	Registry prometheus.Registerer
	errs     []error
}

// Add registers a collector of any kind.
func (s *Set) Add(c prometheus.Collector) { s.errs = append(s.errs, s.Registry.Register(c)) }

// Counter makes and registers a counter.
func (s *Set) Counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	s.Add(c)
	return c
}

// Vec makes and registers a counter for each of the values of one label.
func (s *Set) Vec(name, help, label string, values ...string) map[string]prometheus.Counter {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	s.Add(v)
	m := make(map[string]prometheus.Counter, len(values))
	for _, value := range values {
		m[value] = v.WithLabelValues(value)
	}
	return m
}

// Err returns every registration that failed, joined, or nil.
func (s *Set) Err() error { return errors.Join(s.errs...) }
