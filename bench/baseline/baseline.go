// Package baseline measures what placed is held against, each without any code of placed: a bare websocket echo, the
// embedded store alone, plain conditional inserts, and a loop of raw sends. It may use gorilla, Pebble, gocql and raw
// sockets directly; nothing else in bench may.
package baseline
