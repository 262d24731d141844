package producer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// BenchmarkSendFunc is the whole client against the test broker in the same process.
func BenchmarkSendFunc(b *testing.B) {
	for _, tt := range []struct {
		name string
		key  []byte
	}{{"key=none", nil}, {"key=same", []byte("0123456789abcdef")}} {
		b.Run(tt.name+"/value=100", func(b *testing.B) {
			s := startBroker(b, testbroker.Config{Nodes: 3, Partitions: 12, DiscardRecords: true, JournalLimit: -1})
			require.NoError(b, s.Cluster().CreateTopic(testbroker.Topic{Name: "t"}))
			p, err := producer.New(producer.Config{BootstrapServers: s.Addrs()}, producer.Bytes(), producer.Bytes())
			require.NoError(b, err)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			value := make([]byte, 100)
			cb := func(producer.RecordMetadata, error) {}
			p.SendFunc(ctx, producer.Record[[]byte, []byte]{Topic: "t", Key: tt.key, Value: value}, cb)
			require.NoError(b, p.Flush(ctx))
			b.ReportAllocs()
			b.SetBytes(100)
			for b.Loop() {
				p.SendFunc(ctx, producer.Record[[]byte, []byte]{Topic: "t", Key: tt.key, Value: value}, cb)
			}
			require.NoError(b, p.Flush(ctx))
			b.StopTimer()
			require.NoError(b, p.Close(ctx))
		})
	}
}
