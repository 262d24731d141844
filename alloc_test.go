//go:build !race

package producer_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// A record allocates nothing on its way from Send to its result: what is counted is the whole process, the sender, the
// connection and the test broker at the other end included, so that a batch or a request may cost something, and a
// record may not.
func TestRecordsDoNotAllocate(t *testing.T) {
	done := func(_ producer.RecordMetadata, err error) {
		if err != nil {
			panic(err)
		}
	}
	t.Run("SendFunc", func(t *testing.T) {
		ceiling(t, producer.Bytes(), producer.Bytes(), []byte("key"), make([]byte, 100),
			func(p *producer.KafkaProducer[[]byte, []byte], r producer.Record[[]byte, []byte]) {
				p.SendFunc(t.Context(), r, done)
			})
	})
	t.Run("Send", func(t *testing.T) {
		ceiling(t, producer.String(), producer.Bytes(), "key", make([]byte, 100),
			func(p *producer.KafkaProducer[string, []byte], r producer.Record[string, []byte]) {
				p.Send(t.Context(), r)
			})
	})
	t.Run("without a key", func(t *testing.T) {
		ceiling(t, producer.Null(), producer.String(), struct{}{}, "a value of no great length",
			func(p *producer.KafkaProducer[struct{}, string], r producer.Record[struct{}, string]) {
				p.SendFunc(t.Context(), r, done)
			})
	})
	t.Run("with a scratch buffer", func(t *testing.T) {
		ceiling(t, producer.Int64(), producer.UUID(), 42, [16]byte{1},
			func(p *producer.KafkaProducer[int64, [16]byte], r producer.Record[int64, [16]byte]) {
				p.SendFunc(t.Context(), r, done)
			})
	})
}

// ceiling sends many records and fails where they made a tenth of an allocation each.
func ceiling[K, V any](t *testing.T, key producer.Serializer[K], value producer.Serializer[V], k K, v V, send func(*producer.KafkaProducer[K, V], producer.Record[K, V])) {
	t.Helper()
	s, err := testbroker.Start(testbroker.Config{Partitions: 3, DiscardRecords: true, JournalLimit: -1})
	require.NoError(t, err)
	defer s.Close()
	p, err := producer.New(producer.Config{BootstrapServers: s.Addrs()}, key, value)
	require.NoError(t, err)
	r := producer.Record[K, V]{Topic: "t", Key: k, Value: v} // no headers: the test broker makes a slice of those
	const n = 100_000
	run := func() {
		for range n {
			send(p, r)
		}
		require.NoError(t, p.Flush(t.Context()))
	}
	run() // pools are filled
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	assert.Less(t, float64(after.Mallocs-before.Mallocs)/n, 0.1)
	require.NoError(t, p.Close(t.Context()))
}
