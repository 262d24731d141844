package clients

import (
	"context"

	"github.com/kafka-reservoir/producer"

	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

type reservoir struct {
	p         *producer.KafkaProducer[[]byte, []byte]
	topic     string
	callbacks []producer.Callback // for each slot, and the last one for Unmeasured
}

// openReservoir sets what the workload says; BufferMemory and MaxInFlight are at their defaults.
func openReservoir(j Job) (Producer, error) {
	compression := map[string]producer.Compression{
		"none": producer.None, "gzip": producer.Gzip, "snappy": producer.Snappy, "lz4": producer.LZ4, "zstd": producer.Zstd,
	}
	cfg := producer.Config{
		BootstrapServers: j.Brokers,
		BufferMemory:     workload.BufferMemory,
		Compression:      compression[j.Codec],
		BatchSize:        j.Batch, // 0 is its default
	}
	switch {
	case j.Linger == 0:
		cfg.Linger = producer.NoLinger
	case !j.OwnDefaults():
		cfg.Linger = j.Linger
	}
	if !j.Idempotent() {
		cfg.Acks = producer.AcksLeader
	}
	if j.Batch >= 1<<20 {
		cfg.MaxRequestSize = j.Batch + 64<<10 // a full batch and what surrounds it
	}
	p, err := producer.New(cfg, producer.Bytes(), producer.Bytes())
	if err != nil {
		return nil, err
	}
	r := &reservoir{p: p, topic: j.Topic, callbacks: make([]producer.Callback, Slots+1)}
	for i := range r.callbacks {
		slot := slotOf(i)
		r.callbacks[i] = func(_ producer.RecordMetadata, err error) {
			if err != nil {
				j.Deliveries.Fail(slot, err)
				return
			}
			j.Deliveries.Ack(slot)
		}
	}
	return r, nil
}

func (r *reservoir) record(key, value []byte) producer.Record[[]byte, []byte] {
	return producer.Record[[]byte, []byte]{Topic: r.topic, Key: key, Value: value}
}

func (r *reservoir) Send(key, value []byte, slot Slot) {
	r.p.SendFunc(context.Background(), r.record(key, value), r.callbacks[indexOf(slot)])
}

func (r *reservoir) SendWait(_ int, key, value []byte) error {
	_, err := r.p.Send(context.Background(), r.record(key, value)).Wait(context.Background())
	return err
}

func (r *reservoir) Flush() error { return r.p.Flush(context.Background()) }

func (r *reservoir) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return r.p.Close(ctx)
}
