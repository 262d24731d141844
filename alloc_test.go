//go:build !race

package producer_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/invariants"
)

// Allocations of the whole producer for each record of 100 bytes, from Send to the end of its callback or Wait, its goroutines and its
// connections included (the brokers allocate nothing, see sink). The race detector has sync.Pool drop some of what it is given, and the
// checks under the invariants tag allocate. A garbage collection empties the pools: that is what the ceilings leave room for.
const (
	// A record costs nothing. Per 64 KiB there is one allocation when unkeyed records change their partition, and now and then one for the
	// queues' lengths, by which they are spread. Measured: 0.001 keyed, 0.004 unkeyed.
	ceilingRecord = 0.01
	// The futures of a batch share a result that outlives it, with the sizes and times of its records: two for each batch. Measured: 0.006.
	ceilingFuture = 0.015
	// A record that is waited for is a batch by itself: its result is one of 32 that are made at a time, and its channel is pooled. Measured: 0.036.
	ceilingWait = 0.06
	// Of several that are waited for together, some share a batch, and its sizes and times: a result for each batch, and room for records, made many at a time.
	// Measured: 0.016.
	ceilingWaitTogether = 0.06
	// An interceptor gets the record by pointer, so that it escapes; the contexts it returns are kept, and the callback that brings them back.
	ceilingIntercepted = 3.02
)

func TestAllocationCeilings(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks allocate")
	}
	bytes := func(in ...producer.Interceptor[[]byte, []byte]) *producer.KafkaProducer[[]byte, []byte] {
		return newSinking(t, producer.Bytes(), producer.Bytes(), in...)
	}
	ctx, value := t.Context(), make([]byte, 100)
	headers := []producer.Header{{Key: "trace-id", Value: make([]byte, 16)}}
	unkeyed := producer.Record[[]byte, []byte]{Topic: "t", Value: value, Headers: headers}
	keyed := producer.Record[[]byte, []byte]{Topic: "t", Key: make([]byte, 16), Value: value, Headers: headers}
	ok := func(_ producer.RecordMetadata, err error) {
		if err != nil {
			panic(err)
		}
	}
	const many, few = 20_000, 2000
	t.Run("SendFunc", func(t *testing.T) {
		p := bytes()
		ceiling(t, p, many, ceilingRecord, func() { p.SendFunc(ctx, unkeyed, ok) })
	})
	t.Run("SendFunc, keyed", func(t *testing.T) {
		p := bytes()
		ceiling(t, p, many, ceilingRecord, func() {
			keyed.Key[0]++
			p.SendFunc(ctx, keyed, ok)
		})
	})
	t.Run("SendFunc, scratch buffers", func(t *testing.T) { // of serializers that need one
		p := newSinking(t, producer.Int64(), producer.UUID())
		n := int64(0)
		ceiling(t, p, many, ceilingRecord, func() {
			n++
			p.SendFunc(ctx, producer.Record[int64, [16]byte]{Topic: "t", Key: n, Value: [16]byte{1}}, ok)
		})
	})
	t.Run("SendFunc, strings", func(t *testing.T) {
		p := newSinking(t, producer.Null(), producer.String())
		ceiling(t, p, many, ceilingRecord, func() {
			p.SendFunc(ctx, producer.Record[struct{}, string]{Topic: "t", Value: "a value of no great length"}, ok)
		})
	})
	t.Run("SendFunc, interceptor", func(t *testing.T) {
		p := bytes(idle{})
		ceiling(t, p, many, ceilingIntercepted, func() { p.SendFunc(ctx, unkeyed, ok) })
	})
	t.Run("SendFunc, 16 topics in turn", func(t *testing.T) {
		p := bytes()
		r, names, n := keyed, make([]string, 16), 0
		for i := range names {
			names[i] = fmt.Sprint("topic-", i)
		}
		ceiling(t, p, many, ceilingRecord, func() {
			n++
			r.Topic = names[n%len(names)]
			p.SendFunc(ctx, r, ok)
		})
	})
	t.Run("Send", func(t *testing.T) {
		p := bytes()
		ceiling(t, p, many, ceilingFuture, func() { p.Send(ctx, unkeyed) })
	})
	t.Run("Send and Wait", func(t *testing.T) {
		p := bytes()
		ceiling(t, p, few, ceilingWait, func() {
			if _, err := p.Send(ctx, unkeyed).Wait(ctx); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("Send four and Wait for them", func(t *testing.T) {
		p := bytes()
		var four [4]producer.Future
		ceiling(t, p, few, 4*ceilingWaitTogether, func() {
			for i := range four {
				four[i] = p.Send(ctx, unkeyed)
			}
			for i := range four {
				if _, err := four[i].Wait(ctx); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

func newSinking[K, V any](t *testing.T, key producer.Serializer[K], value producer.Serializer[V], in ...producer.Interceptor[K, V]) *producer.KafkaProducer[K, V] {
	p, err := producer.New(toSink(t, 12), key, value, in...)
	require.NoError(t, err)
	return p
}

// ceiling sends n records at a time, since AllocsPerRun gives whole numbers, and fails if they made more than limit allocations each.
func ceiling[K, V any](t *testing.T, p *producer.KafkaProducer[K, V], n int, limit float64, send func()) {
	t.Helper()
	run := func() {
		for range n {
			send()
		}
		require.NoError(t, p.Flush(t.Context()))
	}
	for range 3 { // what is pooled
		run()
	}
	got := testing.AllocsPerRun(5, run) / float64(n)
	t.Logf("%.5f allocations a record", got)
	assert.LessOrEqual(t, got, limit)
	require.NoError(t, p.Close(t.Context()))
}
