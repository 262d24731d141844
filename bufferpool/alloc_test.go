package bufferpool

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kafka-reservoir/producer/internal/invariants"
)

// The append path takes a slab and the sender gives it back without allocating; nor does a wait, once as many have
// waited before.
func TestAllocationCeilings(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks allocate")
	}
	p := New(Config{Total: 1 << 20})
	chain := make([][]byte, 0, 64)
	for _, n := range []int{1, SlabSize, 900 * kib} {
		p.Release(mustTake(t, p, n, false))
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			chain, _ = p.TryAllocate(chain[:0], n, false)
			p.Release(chain)
		}), "n=%d", n)
	}
	p.Release(mustTake(t, p, 1, true))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		chain, _ = p.TryAllocate(chain[:0], 1, true)
		p.Release(chain)
	}))

	// The hook gives the memory back, so this is a whole wait in one goroutine.
	held := make([][]byte, 0, 64)
	var q *BufferPool
	q = New(Config{Total: 1 << 20, OnWait: func() { q.Release(held) }})
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		held, _ = q.TryAllocate(held[:0], 1<<20, false)
		chain, _ = q.Allocate(context.Background(), chain[:0], 1, false, time.Hour)
		q.Release(chain)
	}))
}
