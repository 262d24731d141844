// Package leak finds goroutines that producers left behind.
package leak

import (
	"regexp"
	"runtime"
	"strings"
)

// ofOurs matches a function of the producer, as a stack has it.
var ofOurs = regexp.MustCompile(`^github\.com/kafka-reservoir/producer(/(accumulator|bufferpool|metadata|netclient|sender))?\.`)

// Goroutines are the stacks of the goroutines that producers have started: those that have a function of the producer at
// their bottom. In a synctest bubble, call synctest.Wait before, so that those about to return have returned.
func Goroutines() []string {
	b := make([]byte, 1<<20)
	b = b[:runtime.Stack(b, true)]
	var own []string
	for _, g := range strings.Split(string(b), "\n\n") {
		bottom := ""
		for _, line := range strings.Split(g, "\n")[1:] {
			if strings.HasPrefix(line, "created by ") {
				break
			}
			if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "sync.(*WaitGroup).Go") {
				bottom = line
			}
		}
		if ofOurs.MatchString(bottom) {
			own = append(own, g)
		}
	}
	return own
}
