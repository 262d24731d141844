package protocol

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two parts' checksums make that of the whole, whatever their lengths.
func TestCombineCRC(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for range 300 {
		n := r.IntN(1 << r.IntN(21))
		k := r.IntN(n + 1)
		whole := b[:n]
		require.Equal(t, crc32.Checksum(whole, crc32.MakeTable(crc32.Castagnoli)), combineCRC(RecordsCRC(0, whole[:k]), RecordsCRC(0, whole[k:]), n-k), "%d of %d", k, n)
	}
	for i := range zeros[:27] { // 64 MiB of zeros, a power of two at a time
		a := RecordsCRC(0, b[:40])
		require.Equal(t, combineCRC(combineCRC(a, 0, 1<<i), 0, 1<<i), combineCRC(a, 0, 2<<i), "%d", i)
	}
}

func BenchmarkCombineCRC(b *testing.B) {
	var crc uint32
	for b.Loop() {
		crc = combineCRC(crc, 1, 16323)
	}
	_ = crc
}
