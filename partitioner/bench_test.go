package partitioner

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

var sink int32

func BenchmarkMurmur2(b *testing.B) {
	for _, n := range []int{8, 36, 256} {
		b.Run(fmt.Sprintf("key=%d", n), func(b *testing.B) {
			key := make([]byte, n)
			b.SetBytes(int64(n))
			for b.Loop() {
				sink = Murmur2(key)
			}
		})
	}
}

func BenchmarkDefault(b *testing.B) {
	var d Partitioner = Default{}
	var p Partitions = all(12)
	key := []byte("customer-123456")
	b.ReportAllocs()
	for b.Loop() {
		sink = d.Partition("t", key, nil, p)
	}
}

func BenchmarkRoundRobin(b *testing.B) {
	var r RoundRobin
	var p Partitions = all(12)
	b.ReportAllocs()
	for b.Loop() {
		sink = r.Partition("topic", nil, nil, p)
	}
}

// One record: Peek, Changed, Advance; a move every 64 KiB.
func BenchmarkSticky(b *testing.B) {
	for _, load := range []bool{false, true} {
		b.Run(fmt.Sprintf("record=100/load=%t", load), func(b *testing.B) {
			var p Partitions = all(12)
			s := NewSticky(StickyConfig{Threshold: 64 << 10, Adaptive: true, Rand: rand.IntN})
			if load {
				s.SetLoad(NewLoad([]int32{0, 1, 2, 3, 4, 5}, []int{0, 1, 2, 3, 4, 5}, 12))
			}
			b.ReportAllocs()
			for b.Loop() {
				c := s.Peek(p)
				if s.Changed(c) {
					b.Fatal("changed")
				}
				s.Advance(c, 100, false, p)
			}
		})
	}
}

func BenchmarkNewLoad(b *testing.B) {
	for _, n := range []int{12, 1000} {
		b.Run(fmt.Sprintf("partitions=%d", n), func(b *testing.B) {
			ids, queues := make([]int32, n), make([]int, n)
			for i := range ids {
				ids[i], queues[i] = int32(i), i%7
			}
			b.ReportAllocs()
			for b.Loop() {
				NewLoad(ids, queues, n)
			}
		})
	}
}
