package bufferpool

import (
	"context"
	"fmt"
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

func BenchmarkTryAllocateRelease(b *testing.B) {
	for _, n := range []int{100, SlabSize, 1 << 20} {
		for _, small := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=%d/small=%t", n, small), func(b *testing.B) {
				p := New(Config{Total: 32 << 20})
				chain := make([][]byte, 0, 64)
				b.ReportAllocs()
				for b.Loop() {
					chain, _ = p.TryAllocate(chain[:0], n, small)
					p.Release(chain)
				}
			})
		}
	}
}

func BenchmarkTryAllocateReleaseParallel(b *testing.B) {
	p := New(Config{Total: 32 << 20})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		chain := make([][]byte, 0, 64)
		for pb.Next() {
			chain, _ = p.TryAllocate(chain[:0], 100, false)
			p.Release(chain)
		}
	})
}

// Hand-over under exhaustion: goroutines=N share a pool that has room for one of them.
func BenchmarkAllocateContended(b *testing.B) {
	for _, n := range []int{2, 16} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			p := New(Config{Total: SlabSize})
			b.ReportAllocs()
			b.SetParallelism(max(n/2, 1))
			b.RunParallel(func(pb *testing.PB) {
				chain := make([][]byte, 0, 1)
				for pb.Next() {
					var err error
					if chain, err = p.Allocate(context.Background(), chain[:0], 1, false, time.Minute); err != nil {
						b.Error(err)
						return
					}
					p.Release(chain)
				}
			})
		})
	}
}
