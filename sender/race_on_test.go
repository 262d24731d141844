//go:build race

package sender_test

const raceEnabled = true
