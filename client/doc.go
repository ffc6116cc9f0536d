// Package client speaks to a placed node from Go: sessions over the binary websocket protocol with a mirror of the board
// that stays right across lost connections, placements with turns that survive retries, the public HTTP API and the
// operators' API. Bots, ctl, bench and the system tests are built on it.
//
//	s, err := client.Dial(ctx, "http://localhost:8080", client.Options{Name: "ada", Whole: true, Mirror: true})
//	...
//	outcome, err := s.Place(ctx, board.Point{X: 3, Y: 4}, 5)
//
// A process may hold thousands of sessions: each costs one goroutine, no timers, and read buffers that are shared while
// nothing arrives. A session keeps a copy of the board only when Options.Mirror asks for one.
//
// The parts, from the wire inwards: connection.go (dial, read, watch, back off), receive.go (take a message in), sync.go
// (which messages bring a mirror to date; a pure core without I/O), mirror.go (tiles, sequences, hashes), place.go (turns and
// retries), api.go and admin.go (HTTP). Sockets are those of gorilla/websocket, as in package transport; no name of it is part
// of this package's API.
package client
