package conformance

import (
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-reservoir/producer/protocol"
)

// DRB-02, DRC-01: batches of random records that ours writes are read by kmsg, and the other way round.
func TestRecordBatchesAgainstKmsg(t *testing.T) {
	random := filler{rand.New(rand.NewPCG(3, 3))}
	nullable := func() []byte {
		if random.IntN(4) == 0 {
			return nil
		}
		return random.bytes()
	}
	for range 500 {
		stamp := protocol.BatchStamp{
			Count: int32(random.IntN(20)), BaseTimestamp: random.int(64), MaxTimestamp: random.int(64),
			Transactional: random.IntN(2) == 0,
			Producer:      protocol.ProducerID{ID: random.int(64), Epoch: int16(random.int(16))}, BaseSequence: int32(random.int(32)),
		}
		b := make([]byte, protocol.BatchHeaderSize)
		var records []kmsg.Record
		for i := range stamp.Count {
			r := kmsg.Record{TimestampDelta64: random.int(64), OffsetDelta: i, Key: nullable(), Value: nullable()}
			var headers []protocol.Header
			for range random.IntN(3) {
				h := protocol.Header{Key: string(random.bytes()), Value: nullable()}
				headers = append(headers, h)
				r.Headers = append(r.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
			}
			body := protocol.RecordBodySize(r.TimestampDelta64, i, r.Key, r.Value, headers)
			r.Length = int32(body)
			records = append(records, r)
			theirs := r.AppendTo(nil)
			ours := protocol.AppendRecord(nil, body, r.TimestampDelta64, i, r.Key, r.Value, headers)
			require.Equal(t, theirs, ours)
			b = append(b, ours...)
		}
		protocol.StampBatch([][]byte{b}, len(b), stamp)

		var theirs kmsg.RecordBatch
		require.NoError(t, theirs.ReadFrom(b))
		require.Equal(t, b, theirs.AppendTo(nil))
		h, err := protocol.ReadBatchHeader(b)
		require.NoError(t, err)
		require.NoError(t, protocol.VerifyCRC(b))
		require.Equal(t, theirs, kmsg.RecordBatch{
			FirstOffset: h.BaseOffset, Length: h.BatchLength, PartitionLeaderEpoch: h.PartitionLeaderEpoch, Magic: h.Magic,
			CRC: int32(h.CRC), Attributes: h.Attributes, LastOffsetDelta: h.LastOffsetDelta, FirstTimestamp: h.BaseTimestamp,
			MaxTimestamp: h.MaxTimestamp, ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, FirstSequence: h.BaseSequence,
			NumRecords: h.Count, Records: b[protocol.BatchHeaderSize:],
		})

		r := protocol.NewRecordReader(theirs.Records, theirs.NumRecords)
		for i := range records {
			v, err := r.Next()
			require.NoError(t, err)
			want := &records[i]
			require.Equal(t, protocol.RecordView{
				TimestampDelta: want.TimestampDelta64, OffsetDelta: want.OffsetDelta, Key: want.Key, Value: want.Value, Headers: v.Headers,
			}, v)
			require.True(t, slices.EqualFunc(want.Headers, v.Headers, func(a kmsg.Header, b protocol.Header) bool {
				return a.Key == b.Key && (a.Value == nil) == (b.Value == nil) && string(a.Value) == string(b.Value)
			}))
		}
		_, err = r.Next()
		require.ErrorIs(t, err, io.EOF)
	}
}
