package protocol

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What is done for each record, batch and request allocates nothing, once buffers have their size.
const ceiling = 0.0

func TestAppendRecordAllocs(t *testing.T) {
	key, value := make([]byte, 16), make([]byte, 100)
	headers := []Header{{Key: "trace-id", Value: make([]byte, 16)}, {Key: "null"}}
	slab := make([]byte, BatchHeaderSize, 16<<10)
	chain := [][]byte{slab}
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		b := slab
		for i := range int32(50) {
			body := RecordBodySize(3, i, key, value, headers)
			b = AppendRecord(b, body, 3, i, key, value, headers)
		}
		chain[0] = b
		StampBatch(chain, len(b), BatchStamp{Count: 50})
	}), ceiling)
}

// A producer in steady state writes requests and reads their responses without allocating.
func TestProduceEncoderAllocs(t *testing.T) {
	for _, v := range []int16{3, 9, 13} {
		m := produceRequest(5, 10, v)
		h := RequestHeader{Key: KeyProduce, Version: v, CorrelationID: 9, ClientID: ptr("client")}
		chains := make([][][]byte, 10)
		for j := range chains {
			records := m.Topics[0].Partitions[j].Records
			chains[j] = [][]byte{records[:20], records[20:]}
		}
		var e ProduceEncoder
		var f Frame
		encodeOnce := func() {
			e.Begin(h, m.TransactionalID, m.Acks, m.TimeoutMs, len(m.Topics))
			for i := range m.Topics {
				topic := &m.Topics[i]
				e.Topic(topic.Name, topic.ID, len(topic.Partitions))
				for j := range topic.Partitions {
					e.Partition(topic.Partitions[j].Index, chains[j], len(topic.Partitions[j].Records))
				}
			}
			f = e.Finish()
			e.Reset()
		}
		assert.LessOrEqual(t, testing.AllocsPerRun(100, encodeOnce), ceiling, "v%d", v)
		assert.Positive(t, f.Size)
	}
}

func TestProduceResponseAllocs(t *testing.T) {
	for _, v := range []int16{3, 8, 9, 13} {
		var want, got ProduceResponse
		for i := range 5 {
			topic := ProduceResponseTopic{}
			if v >= 13 {
				topic.ID = UUID{byte(i)}
			} else {
				topic.Name = fmt.Appendf(nil, "topic-%d", i)
			}
			for j := range 10 {
				topic.Partitions = append(topic.Partitions, ProduceResponsePartition{
					Index: int32(j), BaseOffset: 100, LogAppendTimeMs: -1, LogStartOffset: -1, CurrentLeader: NoLeader,
				})
			}
			want.Topics = append(want.Topics, topic)
		}
		b := want.AppendTo(nil, v)
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			if err := got.ReadFrom(b, v); err != nil {
				t.Error(err)
			}
		}), ceiling, "v%d", v)
		assert.Equal(t, want, got)
	}
}
