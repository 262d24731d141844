package leak

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// A sender outside of every bubble, about to return, with the one that the caller's bubble has and another bubble's.
const stacks = `:
main.test()
	/x/test.go:1 +0x1

goroutine 197 [runnable]:
github.com/kafka-reservoir/producer/sender.(*Sender).Run(0xc0, {0xc2, 0x6c, 0x12})
	/x/sender.go:140 +0x374
created by github.com/kafka-reservoir/producer.newEngine in goroutine 161
	/x/engine.go:172 +0x29

goroutine 198 [select (durable), 2 minutes, synctest bubble 9]:
runtime.gopark()
	/go/proc.go:1 +0x1
github.com/kafka-reservoir/producer/sender.(*Sender).Run(0xc0, {0xc2, 0x6c, 0x12})
	/x/sender.go:120 +0x374
created by github.com/kafka-reservoir/producer.newEngine in goroutine 9
	/x/engine.go:172 +0x29

goroutine 199 [select (durable), synctest bubble 99]:
github.com/kafka-reservoir/producer/netclient.read()
	/x/conn.go:1 +0x374
created by github.com/kafka-reservoir/producer/netclient.open in goroutine 99
	/x/conn.go:2 +0x29`

func TestOnlyTheCallersBubbleCounts(t *testing.T) {
	for caller, want := range map[string]string{
		"goroutine 9 [running, synctest bubble 9]":   "goroutine 198 ",
		"goroutine 99 [running, synctest bubble 99]": "goroutine 199 ",
		"goroutine 1 [running]":                      "goroutine 197 ",
	} {
		got := own(caller + stacks)
		if assert.Len(t, got, 1, caller) {
			assert.Contains(t, got[0], want)
		}
	}
}

// The runtime writes the first lines as they are matched.
func TestBubbleOfAStack(t *testing.T) {
	here := func() string {
		b := make([]byte, 1<<10)
		return bubble(string(b[:runtime.Stack(b, false)]))
	}
	assert.Empty(t, here())
	synctest.Test(t, func(t *testing.T) { assert.Regexp(t, `^, synctest bubble \d+$`, here()) })
}
