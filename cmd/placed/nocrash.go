//go:build !crashpoints

package main

// crashPoint returns nothing: only the tests' build of the program can be told to crash.
func crashPoint() func(point string) { return nil }
