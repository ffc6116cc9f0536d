// Package actors runs the board: it charges users, orders placements and gives them to everybody who watches.
//
// Every kind of actor is a pair: a core, a plain struct whose methods take a message and the time and return what to do, and a
// shell, a thin protoactor actor that carries messages in and effects out. The cores are User, Shard, Block (a region runs
// one or more), Feed, Subscriber and SettingsKeeper; they import no actor package, read no clock and do no I/O, so the
// simulation in this package's tests runs them all under one seed.
//
// System is the door: Start opens a board in a store.Store and starts the actors, its other methods are what transport asks
// for. The way of a placement is told in docs/life-of-a-placement.md: System.Receive, User, Shard, Block, Feed, Subscriber.
//
// No actor waits for another or for the store: questions are messages, store calls run in goroutines of their own and come
// back as messages. Safety rests on the store's conditional commits alone, not on there being one actor of a name.
package actors
