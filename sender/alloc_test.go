package sender_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kafka-reservoir/producer/internal/invariants"
)

// A request costs no allocation, from the append of its records over drain, encoding, answer and settlement to their callbacks, once there
// was one like it: everything is made again of what the last one gave back.
const ceilingRequest = 0

func TestAllocationCeilings(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks allocate")
	}
	if raceEnabled {
		t.Skip("under the race detector sync.Pool drops some of what it is given")
	}
	for _, batches := range []int{1, 12, 1000} {
		t.Run(fmt.Sprintf("batches=%d", batches), func(t *testing.T) {
			l := newLoopback(t, batches, 100)
			for range 20 {
				l.round(t)
			}
			before := l.settled
			assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { l.round(t) }), float64(ceilingRequest))
			assert.Equal(t, 101*batches, l.settled-before) // and one run before it counts
		})
	}
}
