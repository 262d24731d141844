package clients

import (
	"context"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

type kafkaGo struct {
	w *kafka.Writer

	mu       sync.Mutex // guards buffered
	room     *sync.Cond
	buffered int // records that are neither acknowledged nor lost
	limit    int
}

// openKafkaGo: it has no idempotent producer, so that it runs without in every row. Its queue has no bound, so that Send
// here waits while as many records are under way as fit into the buffer of the others. BatchSize is in records and taken
// from memory for every batch: as many as fit into Batch, 2,000 at most, and its default of 100 where many partitions have one. A BatchTimeout of 0 would mean one second. Keys go
// by Java's hash, and records without one round-robin, its default.
func openKafkaGo(j Job) (Producer, error) {
	codecs := map[string]kafka.Compression{
		"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}
	k := &kafkaGo{limit: max(workload.BufferMemory/j.RecordBytes(), 1)}
	k.room = sync.NewCond(&k.mu)
	k.w = &kafka.Writer{
		Addr:         kafka.TCP(j.Brokers...),
		Topic:        j.Topic,
		RequiredAcks: kafka.RequireAll,
		Compression:  codecs[j.Codec],
	}
	if !j.Idempotent() {
		k.w.RequiredAcks = kafka.RequireOne
	}
	if !j.OwnDefaults() {
		k.w.BatchBytes = int64(j.Batch)
		if j.Partitions < 1_000 {
			k.w.BatchSize = min(j.Batch/j.RecordBytes()+1, 2_000)
		}
		k.w.BatchTimeout = max(j.Linger, time.Millisecond)
	}
	if j.Keyed {
		k.w.Balancer = kafka.Murmur2Balancer{Consistent: true}
	}
	if j.Mode == workload.Sync {
		k.w.BatchSize = 1 // or each call waits for BatchTimeout
		return k, nil
	}
	k.w.Async = true
	k.w.Completion = func(ms []kafka.Message, err error) {
		for i := range ms {
			if err != nil {
				j.Deliveries.Fail(slotIn(ms[i].WriterData), err)
			} else {
				j.Deliveries.Ack(slotIn(ms[i].WriterData))
			}
		}
		k.mu.Lock()
		k.buffered -= len(ms)
		k.mu.Unlock()
		k.room.Broadcast()
	}
	return k, nil
}

func (k *kafkaGo) Send(key, value []byte, slot Slot) {
	m := kafka.Message{Key: key, Value: value}
	if slot != Unmeasured {
		m.WriterData = slotField(slot)
	}
	k.mu.Lock()
	for k.buffered >= k.limit {
		k.room.Wait()
	}
	k.buffered++
	k.mu.Unlock()
	if err := k.w.WriteMessages(context.Background(), m); err != nil {
		k.w.Completion([]kafka.Message{m}, err)
	}
}

func (k *kafkaGo) SendWait(_ int, key, value []byte) error {
	return k.w.WriteMessages(context.Background(), kafka.Message{Key: key, Value: value})
}

func (k *kafkaGo) Flush() error { return nil } // it has none, and sends by itself
func (k *kafkaGo) Close() error { return k.w.Close() }
