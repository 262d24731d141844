package clients

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

type franz struct {
	client   *kgo.Client
	promises []func(*kgo.Record, error)
}

// openFranz leaves the partitioner (sticky, a new partition every 64 KiB) and the limit of 50,000 buffered records at
// their defaults: a higher limit made it slower, since more is live when the garbage collector runs.
func openFranz(j Job) (Producer, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(j.Brokers...),
		kgo.DefaultProduceTopic(j.Topic),
		kgo.ProducerBatchCompression(codecs[j.Codec]), // its default is snappy
		kgo.MaxBufferedBytes(workload.BufferMemory),
	}
	if !j.OwnDefaults() {
		opts = append(opts, kgo.ProducerLinger(j.Linger), kgo.ProducerBatchMaxBytes(int32(j.Batch)))
	}
	if !j.Idempotent() {
		// Without idempotence it has one request in flight unless told otherwise.
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(),
			kgo.MaxProduceRequestsInflightPerBroker(workload.MaxInFlight))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	f := &franz{client: client, promises: make([]func(*kgo.Record, error), Slots+1)}
	for i := range f.promises {
		slot := slotOf(i)
		f.promises[i] = func(_ *kgo.Record, err error) {
			if err != nil {
				j.Deliveries.Fail(slot, err)
				return
			}
			j.Deliveries.Ack(slot)
		}
	}
	return f, nil
}

func (f *franz) Send(key, value []byte, slot Slot) {
	f.client.Produce(context.Background(), &kgo.Record{Key: key, Value: value}, f.promises[indexOf(slot)])
}

func (f *franz) SendWait(_ int, key, value []byte) error {
	return f.client.ProduceSync(context.Background(), &kgo.Record{Key: key, Value: value}).FirstErr()
}

func (f *franz) Flush() error { return f.client.Flush(context.Background()) }

func (f *franz) Close() error {
	f.client.Close()
	return nil
}
