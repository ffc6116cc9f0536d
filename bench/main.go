// Command bench measures placed from outside and the baselines that it is held against, and says PASS or FAIL.
// README.md in this folder lists every command with the figure it prints; the commands are in internal/bench/command, the
// baselines in bench/baseline.
package main

import "github.com/placed-board/placed/internal/bench/command"

func main() { command.Main() }
