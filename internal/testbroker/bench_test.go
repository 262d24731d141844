package testbroker

import (
	"fmt"
	"testing"

	"github.com/kafka-reservoir/producer/internal/compress"
	"github.com/kafka-reservoir/producer/protocol"
)

// BenchmarkProduce is what one request of 150 records of 100 bytes costs the core.
func BenchmarkProduce(b *testing.B) {
	for _, codec := range []protocol.Codec{protocol.CodecNone, protocol.CodecLZ4} {
		b.Run(fmt.Sprintf("codec=%v/records=150", codec), func(b *testing.B) {
			c := NewCluster(Config{Topics: []Topic{{Name: "t"}}, DiscardRecords: true, JournalLimit: -1})
			spec := batchSpec{codec: codec, producer: protocol.NoProducerID, sequence: -1}
			for range 150 {
				spec.values = append(spec.values, string(make([]byte, 100)))
			}
			if codec != protocol.CodecNone {
				z, err := compress.New(codec, compress.DefaultLevel)
				if err != nil {
					b.Fatal(err)
				}
				spec.compress = func(in []byte) []byte {
					out, err := z.Compress(nil, [][]byte{in})
					if err != nil {
						b.Fatal(err)
					}
					return out
				}
			}
			frame := frameOf(produce(-1, "t", 0, spec.build()), 12, 1)
			b.ReportAllocs()
			for b.Loop() {
				c.Handle(1, 1, frame, epoch)
			}
			if v := c.Violations(); len(v) > 0 {
				b.Fatal(v[0])
			}
		})
	}
}
