package producer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kafka-reservoir/producer/accumulator"
)

// KafkaProducer sends records to Kafka (Java's class of the same name). Its methods may be called from any
// number of goroutines at once.
type KafkaProducer[K, V any] struct {
	*engine
	key   Serializer[K]
	value Serializer[V]
	// direct: keys and values hold their bytes already, see bytesOf. No scratch buffer is needed then (5-6 ns a record).
	direct       bool
	interceptors interceptors[K, V]
}

// New makes a producer and starts its goroutines; Close ends them. A Config that cannot be used is refused with
// everything that is wrong with it: one [*ConfigError] each, joined. It does not wait for a broker: the first Send does.
func New[K, V any](cfg Config, key Serializer[K], value Serializer[V], in ...Interceptor[K, V]) (*KafkaProducer[K, V], error) {
	var bad complaints
	if key == nil {
		bad.add("", "key.serializer", "New needs a Serializer for keys: producer.Null() if there are none")
	}
	if value == nil {
		bad.add("", "value.serializer", "New needs a Serializer for values")
	}
	for i, c := range in {
		if c == nil {
			bad.add("", "interceptor.classes", "Interceptor %d is nil", i)
		}
	}
	_, directKey := key.(direct)
	_, directValue := value.(direct)
	if directKey && directValue {
		bytesOf(new(K)) // one that it does not know is found here, where nothing runs yet, not in the first Send
		bytesOf(new(V))
	}
	e, err := newEngine(cfg, bad.join())
	if err != nil {
		return nil, err
	}
	return &KafkaProducer[K, V]{
		engine: e, key: key, value: value, direct: directKey && directValue, interceptors: append(interceptors[K, V](nil), in...),
	}, nil
}

// Send hands over a record and returns its Future at once, but for waiting for the topic's metadata and for room in
// the buffer, at most MaxBlock and while ctx lasts. It returns no error: every failure is the Future's. Key, value
// and headers are copied before it returns.
//
// ctx bounds nothing else: a record that was accepted ends by DeliveryTimeout alone.
func (p *KafkaProducer[K, V]) Send(ctx context.Context, r Record[K, V]) Future {
	return p.send(ctx, &r, nil, true)
}

// SendFunc is Send with a callback in place of the Future; cb may be nil. cb runs exactly once for every call, also for a
// record that was never accepted. A cb that is the same for many records costs no allocation.
func (p *KafkaProducer[K, V]) SendFunc(ctx context.Context, r Record[K, V], cb Callback) {
	p.send(ctx, &r, cb, false)
}

// intercept runs the interceptors and returns what they leave. The copy keeps what send is given from escaping in the ordinary case.
func (p *KafkaProducer[K, V]) intercept(ctx context.Context, changed Record[K, V], cb Callback) (*Record[K, V], Callback) {
	own := p.interceptors.onSend(ctx, &changed)
	return &changed, p.interceptors.callback(own, cb)
}

// scratch is what serializers append to. It is pooled: a stack array would escape through the interface.
type scratch struct {
	key, value []byte
	headers    []Header
}

var scratches = sync.Pool{New: func() any { return &scratch{key: make([]byte, 0, 64), value: make([]byte, 0, 512)} }}

// maxScratch is the largest buffer that the pool keeps.
const maxScratch = 64 << 10

func (s *scratch) put() {
	s.headers = nil
	if cap(s.key) > maxScratch || cap(s.value) > maxScratch {
		return
	}
	scratches.Put(s)
}

// send is the one path of a record: metadata, serializers, partition, sizes, append (S-23). r goes by pointer
// because copies of it were a fifth of the time; it does not escape. To look for interceptors here keeps Send and SendFunc small enough to be
// inlined (internal/archtest holds them to it), which is a call less.
func (p *KafkaProducer[K, V]) send(ctx context.Context, r *Record[K, V], cb Callback, future bool) Future {
	if len(p.interceptors) > 0 {
		r, cb = p.intercept(ctx, *r, cb)
	}
	var rec accumulator.Record // a literal would be made elsewhere and copied: 8 ns, waiting for its own stores
	rec.Partition, rec.Timestamp, rec.Headers = r.Partition.plusOne-1, -1, r.Headers
	view, maxWait, err := p.topic(ctx, r.Topic, r.Partition)
	if err != nil {
		return p.refuse(r.Topic, rec.Partition, cb, err, future)
	}
	if !r.Timestamp.IsZero() {
		if rec.Timestamp = r.Timestamp.UnixMilli(); rec.Timestamp < 0 {
			return p.refuse(r.Topic, rec.Partition, cb, fmt.Errorf("record for topic %s: timestamp %v is before 1970, which Kafka cannot store: %w", r.Topic, r.Timestamp.Format(time.RFC3339), InvalidTimestamp), future)
		}
	}
	if p.direct {
		rec.Key, rec.Value = bytesOf(&r.Key), bytesOf(&r.Value)
		return p.append(ctx, view, &rec, cb, future, maxWait)
	}
	s := scratches.Get().(*scratch)
	s.headers = slices.Clip(r.Headers) // a serializer must not append into spare room of the caller's slice
	if rec.Key, err = p.key.Serialize(s.key[:0], r.Topic, &s.headers, r.Key); err != nil {
		s.put()
		return p.refuse(r.Topic, rec.Partition, cb, &SerializationError{Topic: r.Topic, Part: "key", Err: err}, future)
	}
	if rec.Value, err = p.value.Serialize(s.value[:0], r.Topic, &s.headers, r.Value); err != nil {
		s.put()
		return p.refuse(r.Topic, rec.Partition, cb, &SerializationError{Topic: r.Topic, Part: "value", Err: err}, future)
	}
	rec.Headers = s.headers
	f := p.append(ctx, view, &rec, cb, future, maxWait)
	s.put()
	return f
}

// Flush makes everything accepted before the call sendable at once and returns when it is settled, callbacks run
// included, or when ctx ends, whose cause it then returns. What others send meanwhile may or may not be covered. It does
// not tell whether records failed: their futures and callbacks do.
func (p *KafkaProducer[K, V]) Flush(ctx context.Context) error { return p.flush(ctx) }

// Close refuses new records, waits for what was accepted to be settled and its callbacks to have run, and ends
// everything that New started. When ctx ends first, what is left fails with [ErrForceClosed], and the error that is
// returned says how many records that were, and wraps the ctx's cause. Closing again waits for the same. After it returned nil nothing of
// the producer runs.
//
// A callback that does not return keeps Close waiting until ctx ends: Close inside a callback is of that kind.
func (p *KafkaProducer[K, V]) Close(ctx context.Context) error { return p.close(ctx) }

// PartitionsFor returns what is known of a topic's partitions, in their order, after waiting for metadata where
// needed, at most MaxBlock and while ctx lasts.
func (p *KafkaProducer[K, V]) PartitionsFor(ctx context.Context, topic string) ([]PartitionInfo, error) {
	return p.partitionsFor(ctx, topic)
}

// Metrics returns what the producer has counted so far.
func (p *KafkaProducer[K, V]) Metrics() Metrics { return p.metrics() }
