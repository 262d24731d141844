package prefetch

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// A hint is one, whatever it is given.
func TestHints(t *testing.T) {
	Value(new(int))
	Value(&[10000]byte{})
	Value[struct{}](nil)
	Value[[4]int](nil)
	Bytes(unsafe.SliceData([]byte("a few bytes")), 1<<20) // far beyond the end
	Bytes(nil, 0)
	Slice([]int{1, 2, 3}, 1<<20)
	Slice[int](nil, 64)
}

func TestHintsDoNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		var v [8]uint64 // stays where it is
		Value(&v)
		Slice(v[:], 64)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkWalk goes through values of which no cache holds anything, in an order that nobody can guess, as the sender goes through partitions.
func BenchmarkWalk(b *testing.B) {
	const n = 1 << 18
	values := make([]*[128]byte, n)
	for i, at := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		values[at] = &make([][128]byte, 1)[0]
		values[at][0] = byte(i)
	}
	for _, ahead := range []int{0, 1, 4, 8, 16} {
		b.Run(fmt.Sprintf("ahead=%d", ahead), func(b *testing.B) {
			i, sum := 0, 0
			for b.Loop() {
				if ahead > 0 {
					Value(values[(i+ahead)%n])
				}
				for _, c := range values[i%n] {
					sum += int(c)
				}
				i++
			}
			if sum == 0 {
				b.Fatal("nothing was read")
			}
		})
	}
}
