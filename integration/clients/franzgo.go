package clients

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

type franzGo struct{ cl *kgo.Client }

func newFranzGo(s Settings) (Client, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(s.Bootstrap...), kgo.AllowAutoTopicCreation()}
	switch s.Acks {
	case "all":
		opts = append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, fmt.Errorf("acks %q: want all, 1 or 0", s.Acks)
	}
	codec, ok := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[s.Codec]
	if !ok {
		return nil, fmt.Errorf("codec %q: want none, gzip, snappy, lz4 or zstd", s.Codec)
	}
	opts = append(opts, kgo.ProducerBatchCompression(codec))
	if s.Manual {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	} else {
		opts = append(opts, kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	}
	// s.BatchSize is left out: with franz-go a record larger than that cannot be sent at all.
	cl, err := kgo.NewClient(opts...)
	return &franzGo{cl}, err
}

func (f *franzGo) Send(ctx context.Context, r *Record, cb func(Ack)) {
	f.cl.Produce(ctx, franzRecord(r), func(r *kgo.Record, err error) { cb(franzAck(r, err)) })
}

func (f *franzGo) SendSync(ctx context.Context, r *Record) Ack {
	return franzAck(f.cl.ProduceSync(ctx, franzRecord(r)).First())
}

func (f *franzGo) Flush(ctx context.Context) error { return f.cl.Flush(ctx) }

func (f *franzGo) Retried() int { return 0 }

func (f *franzGo) Close(ctx context.Context) error {
	err := f.cl.Flush(ctx)
	f.cl.Close()
	return err
}

func franzRecord(r *Record) *kgo.Record {
	k := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader(h))
	}
	return k
}

func franzAck(r *kgo.Record, err error) Ack {
	return Ack{Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Err: err}
}
