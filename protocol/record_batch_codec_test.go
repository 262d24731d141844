package protocol_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/compress"
	"github.com/kafka-reservoir/producer/protocol"
)

// DRB-10, DRB-06: with every codec, the records that come out of a batch are those that went in, and a count
// that does not match them is an invalid record, though the checksum is right.
func TestCompressedBatches(t *testing.T) {
	for codec := protocol.CodecNone; codec <= protocol.CodecZstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			var records []byte
			const n = 50
			value := func(i int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("value %d ", i)), 20) }
			for i := range int32(n) {
				key := []byte{byte(i)}
				headers := []protocol.Header{{Key: "n", Value: key}}
				body := protocol.RecordBodySize(int64(i), i, key, value(int(i)), headers)
				records = protocol.AppendRecord(records, body, int64(i), i, key, value(int(i)), headers)
			}
			payload := records
			if codec != protocol.CodecNone {
				_, _, level := compress.Levels(codec)
				c, err := compress.New(codec, level)
				require.NoError(t, err)
				payload, err = c.Compress(nil, [][]byte{records[:100], records[100:]})
				require.NoError(t, err)
				require.Less(t, len(payload), len(records))
			}
			stamp := protocol.BatchStamp{Codec: codec, Count: n, MaxTimestamp: n - 1, Producer: protocol.NoProducerID, BaseSequence: -1}
			chain := [][]byte{make([]byte, protocol.BatchHeaderSize), payload}
			protocol.StampBatch(chain, protocol.BatchHeaderSize+len(payload), stamp)
			b := bytes.Join(chain, nil)

			require.NoError(t, protocol.VerifyCRC(b))
			h, err := protocol.ReadBatchHeader(b)
			require.NoError(t, err)
			assert.Equal(t, codec, h.Codec())
			plain := b[protocol.BatchHeaderSize:]
			if codec != protocol.CodecNone {
				plain, err = compress.Decompress(codec, nil, plain, 1<<20)
				require.NoError(t, err)
			}
			r := protocol.NewRecordReader(plain, h.Count)
			for i := range int32(n) {
				v, err := r.Next()
				require.NoError(t, err)
				require.Equal(t, protocol.RecordView{
					TimestampDelta: int64(i), OffsetDelta: i, Key: []byte{byte(i)}, Value: value(int(i)),
					Headers: []protocol.Header{{Key: "n", Value: []byte{byte(i)}}},
				}, v)
			}
			_, err = r.Next()
			require.ErrorIs(t, err, io.EOF)

			for _, count := range []int32{n - 1, n + 1} {
				r := protocol.NewRecordReader(plain, count)
				for err = nil; err == nil; {
					_, err = r.Next()
				}
				require.ErrorIs(t, err, protocol.InvalidRecord)
			}
		})
	}
}
