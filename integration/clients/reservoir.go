package clients

import (
	"context"
	"fmt"

	"github.com/kafka-reservoir/producer"
)

type reservoir struct {
	p *producer.KafkaProducer[[]byte, []byte]
}

func newReservoir(s Settings) (Client, error) {
	cfg := producer.Config{BootstrapServers: s.Bootstrap, BatchSize: s.BatchSize}
	acks, ok := map[string]producer.Acks{"all": producer.AcksAll, "1": producer.AcksLeader, "0": producer.AcksNone}[s.Acks]
	if !ok {
		return nil, fmt.Errorf("acks %q: want all, 1 or 0", s.Acks)
	}
	cfg.Acks = acks
	codec, ok := map[string]producer.Compression{
		"none": producer.None, "gzip": producer.Gzip, "snappy": producer.Snappy, "lz4": producer.LZ4, "zstd": producer.Zstd,
	}[s.Codec]
	if !ok {
		return nil, fmt.Errorf("codec %q: want none, gzip, snappy, lz4 or zstd", s.Codec)
	}
	cfg.Compression = codec
	p, err := producer.New(cfg, producer.Bytes(), producer.Bytes())
	if err != nil {
		return nil, err
	}
	return &reservoir{p}, nil
}

func (c *reservoir) Send(ctx context.Context, r *Record, cb func(Ack)) {
	check := metadataOf(r) // r may be another record by the time of the callback
	c.p.SendFunc(ctx, reservoirRecord(r), func(m producer.RecordMetadata, err error) { cb(check.ack(m, err)) })
}

func (c *reservoir) SendSync(ctx context.Context, r *Record) Ack {
	m, err := c.p.Send(ctx, reservoirRecord(r)).Wait(ctx)
	return metadataOf(r).ack(m, err)
}

func (c *reservoir) Flush(ctx context.Context) error { return c.p.Flush(ctx) }
func (c *reservoir) Retried() int                    { return int(c.p.Metrics().RecordRetry.Total) }
func (c *reservoir) Close(ctx context.Context) error { return c.p.Close(ctx) }

func reservoirRecord(r *Record) producer.Record[[]byte, []byte] {
	p := producer.Record[[]byte, []byte]{Topic: r.Topic, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	if r.Partition != AnyPartition {
		p.Partition = producer.OnPartition(r.Partition)
	}
	for _, h := range r.Headers {
		p.Headers = append(p.Headers, producer.Header(h))
	}
	return p
}

// metadata is what only our RecordMetadata say of a record.
type metadata struct {
	topic              string
	keySize, valueSize int
}

func metadataOf(r *Record) metadata {
	size := func(b []byte) int {
		if b == nil {
			return -1 // null
		}
		return len(b)
	}
	return metadata{topic: r.Topic, keySize: size(r.Key), valueSize: size(r.Value)}
}

// ack is the result of a record with this metadata; any other is an error.
func (w metadata) ack(m producer.RecordMetadata, err error) Ack {
	if got := (metadata{m.Topic, m.KeySize, m.ValueSize}); err == nil && got != w {
		err = fmt.Errorf("got record metadata %+v, want %+v", got, w)
	}
	return Ack{Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp, Err: err}
}
