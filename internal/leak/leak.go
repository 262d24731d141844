// Package leak finds goroutines that producers left behind.
package leak

import (
	"regexp"
	"runtime"
	"strings"
)

// ofOurs matches a function of the producer, as a stack has it.
var ofOurs = regexp.MustCompile(`^github\.com/kafka-reservoir/producer(/(accumulator|bufferpool|metadata|netclient|sender))?\.`)

// inBubble matches the part of a goroutine's first line that says which synctest bubble it is in.
var inBubble = regexp.MustCompile(`^goroutine \d+ .*\[.*(, synctest bubble \d+)`)

// Goroutines are the stacks of the goroutines that producers have started: those that have a function of the producer at
// their bottom. In a synctest bubble, call synctest.Wait before, so that those about to return have returned; those that
// are not of the caller's bubble do not count, for one of an earlier test may still be about to.
func Goroutines() []string {
	b := make([]byte, 1<<20)
	return own(string(b[:runtime.Stack(b, true)]))
}

// own picks from stacks, of which the first is the caller's.
func own(stacks string) []string {
	all := strings.Split(stacks, "\n\n")
	var own []string
	for _, g := range all {
		bottom := ""
		for _, line := range strings.Split(g, "\n")[1:] {
			if strings.HasPrefix(line, "created by ") {
				break
			}
			if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "sync.(*WaitGroup).Go") {
				bottom = line
			}
		}
		if ofOurs.MatchString(bottom) && bubble(g) == bubble(all[0]) {
			own = append(own, g)
		}
	}
	return own
}

// bubble names the bubble of a stack's goroutine, "" if it is in none.
func bubble(stack string) string {
	first, _, _ := strings.Cut(stack, "\n")
	if m := inBubble.FindStringSubmatch(first); m != nil {
		return m[1]
	}
	return ""
}
