package producer_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
)

func startBroker(t testing.TB, cfg testbroker.Config) *testbroker.Server {
	t.Helper()
	s, err := testbroker.Start(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSendAndReadBack(t *testing.T) {
	for _, codec := range []producer.Compression{producer.None, producer.Gzip, producer.Snappy, producer.LZ4, producer.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			s := startBroker(t, testbroker.Config{Nodes: 3, Partitions: 6})
			require.NoError(t, s.Cluster().CreateTopic(testbroker.Topic{Name: "orders"}))
			p, err := producer.New(producer.Config{BootstrapServers: s.Addrs(), Compression: codec}, producer.String(), producer.Bytes())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			var done, failed atomic.Int64
			const n = 20000
			for i := range n {
				p.SendFunc(ctx, producer.Record[string, []byte]{Topic: "orders", Key: fmt.Sprint(i % 100), Value: []byte(fmt.Sprintf("value %d of some length, so that there is something to compress", i))},
					func(m producer.RecordMetadata, err error) {
						done.Add(1)
						if err != nil {
							if failed.Add(1) < 5 {
								t.Error(err)
							}
						}
					})
			}
			m, err := p.Send(ctx, producer.Record[string, []byte]{Topic: "orders", Key: "k", Value: []byte("v"), Partition: producer.OnPartition(3)}).Wait(ctx)
			require.NoError(t, err)
			require.Equal(t, int32(3), m.Partition)
			require.NoError(t, p.Flush(ctx))
			require.Equal(t, int64(n), done.Load())
			require.NoError(t, p.Close(ctx))
			s.Cluster().Check(t)
			total := 0
			for _, part := range s.Cluster().AllRecords("orders") {
				total += len(part)
			}
			require.Equal(t, n+1, total)
		})
	}
}
