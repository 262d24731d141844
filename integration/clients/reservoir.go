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
	c.p.SendFunc(ctx, reservoirRecord(r), func(m producer.RecordMetadata, err error) { cb(reservoirAck(r, m, err)) })
}

func (c *reservoir) SendSync(ctx context.Context, r *Record) Ack {
	m, err := c.p.Send(ctx, reservoirRecord(r)).Wait(ctx)
	return reservoirAck(r, m, err)
}

func (c *reservoir) Flush(ctx context.Context) error { return c.p.Flush(ctx) }
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

// reservoirAck checks what only our metadata say, besides.
func reservoirAck(r *Record, m producer.RecordMetadata, err error) Ack {
	if err == nil && (m.Topic != r.Topic || m.KeySize != size(r.Key) || m.ValueSize != size(r.Value)) {
		err = fmt.Errorf("record metadata %+v of a record for %s with a key of %d and a value of %d bytes", m, r.Topic, size(r.Key), size(r.Value))
	}
	return Ack{Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp, Err: err}
}

// size is what RecordMetadata says of the size of b: -1 for null.
func size(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}
