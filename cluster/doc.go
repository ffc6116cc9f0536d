// Package cluster lets the nodes of a board find each other and tells who owns what: gossip membership by memberlist, rendezvous
// hashing of keys over the members that serve, and delivery of bytes to another node over protoactor's remote package. It
// knows nothing of boards: keys and payloads are the caller's.
//
// Nothing here is a promise. Views differ between nodes, messages are lost, a paused node takes itself for alive: the store is
// the referee (docs/adr/0001). Delivery is at most once and unordered between nodes that die.
package cluster
