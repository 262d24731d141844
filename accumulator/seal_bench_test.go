package accumulator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// BenchmarkSeal is what becomes of a full batch before it goes out: compression, unless codec=none, then CRC and header. Records have 500
// bytes, of text that compresses as logs and JSON do, or of none that does. The batches differ: the processor learns a
// single one by heart, and then the fast codecs seem faster by half. The copy that gives a compressed batch its records back is
// counted too; it is a thirtieth of the fastest codec's time for text, a quarter of it for random bytes.
func BenchmarkSeal(b *testing.B) {
	const batches, most = 32, 48 * kib
	text := make([]byte, 0, batches*most+200)
	for i := 0; len(text) < batches*most; i++ {
		text = fmt.Appendf(text, `{"id":%d,"user":"user-%d","action":"click","page":"/products/%d","ok":true}`, i*7919, i*i%97, i*i*31%1000)
	}
	random := make([]byte, batches*most)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(random)
	for _, codec := range append([]protocol.Codec{protocol.CodecNone}, codecs...) {
		for _, name := range []string{"text", "random"} {
			data := text
			if name == "random" {
				data = random
			}
			for _, size := range []int{2 * kib, 14 * kib, most} {
				if codec == protocol.CodecNone && name == "random" {
					continue // it is all the same to a CRC
				}
				b.Run(fmt.Sprintf("codec=%v/data=%s/size=%d", codec, name, size), func(b *testing.B) {
					r := newRig(b, withCodec(codec), withBatch(64*kib), withPool(32<<20), withLinger(time.Hour))
					r.lead(orders, make([]int32, batches)...)
					var full [batches]*ProducerBatch
					var raw [batches][]byte
					for i := range full {
						for at := 0; at < size; at += 500 {
							value := data[i*size+at : i*size+min(at+500, size)]
							r.record(orders, Record{Partition: int32(i), Timestamp: -1, Value: value}, nil)
						}
						full[i] = r.a.deque(r.a.Topic(orders), int32(i), batches).tail()
						full[i].isSplit = true // its slabs are not given back
						raw[i] = joined(full[i])
					}
					slabs, w := make([][]byte, 4), &sealer{}
					for i := range slabs {
						slabs[i] = make([]byte, 16*kib)
					}
					i := 0
					b.ReportAllocs()
					b.SetBytes(int64(len(raw[0])))
					for b.Loop() {
						batch := full[i%batches]
						if codec != protocol.CodecNone {
							batch.codec, batch.size, batch.slabs = codec, len(raw[i%batches]), batch.slabs[:0]
							for rest := raw[i%batches]; len(rest) > 0; {
								batch.at = len(batch.slabs)
								slab := slabs[batch.at]
								n := copy(slab, rest)
								batch.slabs, rest = append(batch.slabs, slab[:n]), rest[n:]
							}
							r.a.compress(w, batch)
						}
						i++
						batch.crc, batch.summed, batch.summedTo = 0, 0, 0
						batch.state.Store(int32(stateSealed))
						batch.writeHeader()
					}
				})
			}
		}
	}
}
