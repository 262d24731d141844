//go:build race

package sim

// raceEnabled: a world is one goroutine, in which the race detector finds nothing and takes ten times as long.
const raceEnabled = true
