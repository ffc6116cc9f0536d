// Package measure holds what every bench command shares: an open-loop schedule, latency histograms that count from the
// intended send time, verdicts with their limits, a table printer, results.json, and the CPU and memory of a process.
// It knows nothing of a board or a server.
package measure
