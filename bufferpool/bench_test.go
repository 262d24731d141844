package bufferpool

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// BenchmarkAllocate lends slabs for so many bytes and takes them back. first=small begins with a small slab.
func BenchmarkAllocate(b *testing.B) {
	for _, tt := range []struct {
		size  int
		first string
	}{{100, "small"}, {SlabSize, "whole"}, {1 << 20, "whole"}} {
		b.Run(fmt.Sprintf("size=%d/first=%s", tt.size, tt.first), func(b *testing.B) {
			p := New(Config{Total: 32 << 20})
			chain := make([][]byte, 0, 64)
			b.ReportAllocs()
			for b.Loop() {
				chain, _ = p.TryAllocate(chain[:0], tt.size, tt.first == "small")
				p.Release(chain)
			}
		})
	}
}

// BenchmarkAllocateParallel has as many goroutines as cores take a slab each, of a pool with room for all.
func BenchmarkAllocateParallel(b *testing.B) {
	p := New(Config{Total: 32 << 20})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		chain := make([][]byte, 0, 64)
		for pb.Next() {
			chain, _ = p.TryAllocate(chain[:0], SlabSize, false)
			p.Release(chain)
		}
	})
}

// BenchmarkAllocateExhausted is the hand-over of a slab where a pool has room for one of its goroutines.
func BenchmarkAllocateExhausted(b *testing.B) {
	const goroutines = 16
	b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
		p := New(Config{Total: SlabSize})
		b.ReportAllocs()
		b.SetParallelism(goroutines / 2)
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
