// Package board holds the values of a pixel board and the rules that need nothing else: places and grids, colours and
// images, hashes, settings, the cooldown formula, users, placements and the closed list of refusals.
//
// Everything here is a pure value or a pure function: no goroutine, no clock, no context, no log, standard library only.
// Times are Unix milliseconds (int64), durations are milliseconds (int64), and every name ends with its unit.
package board
