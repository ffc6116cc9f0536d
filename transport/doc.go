// Package transport is the outer face of a node: the HTTP routes, the websocket sessions, signing in, the limits on what a
// stranger may send, and the operators' listener. It owns no state of the board: what it needs of the board it asks through
// the interfaces Sessions, Placer, BoardReader and Admin.
//
// gorilla/websocket is used for the upgrade and for reading only. Everything that goes out after the upgrade, pongs and
// closes included, goes through one non-blocking path (conn.go), so that no reader can hold up anybody.
package transport
