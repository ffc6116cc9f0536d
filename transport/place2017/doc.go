// Package place2017 is the second face of a node: the HTTP and websocket API of r/place in 2017, for the programs that were
// written for it (docs/api-2017.md). It decides nothing about the board: it says in the words of that time what the node says.
// The transport package mounts its routes, tells it who asks, and upgrades its websockets.
package place2017
