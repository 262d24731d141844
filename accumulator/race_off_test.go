//go:build !race

package accumulator

const raceEnabled = false
