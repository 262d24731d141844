package accumulator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// BenchmarkSeal is what becomes of a full batch of text-like records before it goes out: compression, unless codec=none, then CRC and header.
// The copy that gives a compressed batch its records back is counted too; it is a fiftieth of the fastest codec's time.
func BenchmarkSeal(b *testing.B) {
	const size = 14 * kib
	text := make([]byte, 0, 16*kib)
	for i := 0; len(text) < size; i++ {
		text = fmt.Appendf(text, `{"id":%d,"user":"user-%d","action":"click","page":"/products/%d","ok":true}`, i*7919, i%97, i*31%1000)
	}
	text = text[:size]
	for _, codec := range append([]protocol.Codec{protocol.CodecNone}, codecs...) {
		b.Run(fmt.Sprintf("codec=%v/size=%d", codec, size), func(b *testing.B) {
			r := newRig(b, withCodec(codec), withBatch(16*kib), withPool(8<<20), withLinger(time.Hour))
			r.lead(orders, 1)
			for i := 0; i < len(text); i += 500 {
				r.record(orders, Record{Timestamp: -1, Value: text[i:min(i+500, len(text))]}, nil)
			}
			batch := r.a.deque(r.a.Topic(orders), 0, 1).tail()
			raw := joined(batch)
			require.Greater(b, len(raw), size)
			slab, w := make([]byte, 0, 16*kib), &sealer{}
			batch.isSplit = true // its slab is not the pool's
			restore := func() {
				batch.codec, batch.size, batch.at = codec, len(raw), 0
				batch.slabs = append(batch.slabs[:0], append(slab, raw...))
			}
			restore()
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if codec != protocol.CodecNone {
					restore()
					r.a.compress(w, batch)
				}
				batch.crc, batch.summed, batch.summedTo = 0, 0, 0
				batch.state.Store(int32(stateSealed))
				batch.writeHeader()
			}
		})
	}
}
