package producer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/leak"
	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// However many partitions there are, goroutines are few: two for the producer, a few that compress, and two for each connection.
func TestGoroutinesAreFew(t *testing.T) {
	const nodes, partitions = 12, 1000
	inLab(t, testbroker.Config{Nodes: nodes, Topics: []testbroker.Topic{{Name: "t", Partitions: partitions}}}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.Compression = producer.LZ4 })
		for range 2 {
			for i := range int32(partitions) {
				p.SendFunc(context.Background(), producer.Record[string, string]{Topic: "t", Partition: producer.OnPartition(i), Value: "v"},
					func(_ producer.RecordMetadata, err error) { assert.NoError(t, err) })
			}
			require.NoError(t, p.Flush(context.Background()))
		}
		got := len(leak.Goroutines())
		t.Logf("%d goroutines", got)
		assert.Positive(t, got)
		assert.LessOrEqual(t, got, 64)
		end(t, p)
	})
}
