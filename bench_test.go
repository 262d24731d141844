package producer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
)

// The whole producer, its goroutines included, against brokers that cost next to nothing (see sink). The caller and what sends for it share
// the cores: ns/op is what a Send takes at full speed, cpu-ns/op what the process spent on it on all cores.

// client is a producer and what it takes to use it for a benchmark.
func client[K, V any](b *testing.B, cfg producer.Config, key producer.Serializer[K], value producer.Serializer[V], in ...producer.Interceptor[K, V]) *producer.KafkaProducer[K, V] {
	p, err := producer.New(cfg, key, value, in...)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, p.Close(context.Background())) })
	return p
}

// measure runs send b.N times, until all of it is acknowledged. Some rounds before fill what is pooled.
func measure[K, V any](b *testing.B, p *producer.KafkaProducer[K, V], size int, send func()) {
	ctx := b.Context()
	for range min(8<<20/size, 20_000) {
		send()
	}
	require.NoError(b, p.Flush(ctx))
	b.ReportAllocs()
	b.SetBytes(int64(size))
	spent := cpuTime()
	for b.Loop() {
		send()
	}
	require.NoError(b, p.Flush(ctx))
	b.ReportMetric(float64(cpuTime()-spent)/float64(b.N), "cpu-ns/op")
}

func ignore(producer.RecordMetadata, error) {}

// idle is an interceptor that does nothing.
type idle struct{}

func (idle) OnSend(ctx context.Context, _ *producer.Record[[]byte, []byte]) context.Context {
	return ctx
}

func (idle) OnAcknowledgement(context.Context, producer.RecordMetadata, error) {}

func BenchmarkSendFunc(b *testing.B) {
	for _, size := range []int{100, 1000, 10000} {
		for _, key := range []string{"none", "16"} {
			b.Run(fmt.Sprintf("size=%d/key=%s", size, key), func(b *testing.B) {
				p := client(b, toSink(b, 12), producer.Bytes(), producer.Bytes())
				r := producer.Record[[]byte, []byte]{Topic: "t", Value: make([]byte, size)}
				if key != "none" {
					r.Key = make([]byte, 16)
				}
				ctx, n := b.Context(), byte(0)
				measure(b, p, size, func() {
					if r.Key != nil {
						n++ // 256 keys
						r.Key[0] = n
					}
					p.SendFunc(ctx, r, ignore)
				})
			})
		}
	}
}

// BenchmarkSendFuncVariant is BenchmarkSendFunc of 100 bytes without a key, one thing changed at a time.
func BenchmarkSendFuncVariant(b *testing.B) {
	const size = 100
	value := make([]byte, size)
	record := producer.Record[[]byte, []byte]{Topic: "t", Value: value}
	b.Run("variant=no-callback", func(b *testing.B) {
		p := client(b, toSink(b, 12), producer.Bytes(), producer.Bytes())
		ctx := b.Context()
		measure(b, p, size, func() { p.SendFunc(ctx, record, nil) })
	})
	b.Run("variant=closure", func(b *testing.B) {
		p := client(b, toSink(b, 12), producer.Bytes(), producer.Bytes())
		ctx, n := b.Context(), 0
		measure(b, p, size, func() {
			n++
			mine := n
			p.SendFunc(ctx, record, func(m producer.RecordMetadata, err error) {
				if err != nil {
					b.Errorf("record %d: %v", mine, err)
				}
			})
		})
	})
	b.Run("variant=headers", func(b *testing.B) {
		p := client(b, toSink(b, 12), producer.Bytes(), producer.Bytes())
		ctx, r := b.Context(), record
		r.Headers = []producer.Header{{Key: "trace-id", Value: make([]byte, 16)}, {Key: "source", Value: []byte("checkout")}}
		measure(b, p, size, func() { p.SendFunc(ctx, r, ignore) })
	})
	b.Run("variant=scratch", func(b *testing.B) { // a serializer that needs a buffer
		p := client(b, toSink(b, 12), producer.Int64(), producer.Bytes())
		ctx, n := b.Context(), int64(0)
		measure(b, p, size, func() {
			n++
			p.SendFunc(ctx, producer.Record[int64, []byte]{Topic: "t", Key: n, Value: value}, ignore)
		})
	})
	b.Run("variant=interceptor", func(b *testing.B) {
		p := client(b, toSink(b, 12), producer.Bytes(), producer.Bytes(), producer.Interceptor[[]byte, []byte](idle{}))
		ctx := b.Context()
		measure(b, p, size, func() { p.SendFunc(ctx, record, ignore) })
	})
	b.Run("variant=16-topics", func(b *testing.B) {
		p := client(b, toSink(b, 12), producer.Bytes(), producer.Bytes())
		ctx, r, n := b.Context(), record, 0
		names := make([]string, 16)
		for i := range names {
			names[i] = fmt.Sprintf("topic-%d", i)
			_, err := p.PartitionsFor(ctx, names[i])
			require.NoError(b, err)
		}
		measure(b, p, size, func() {
			n++
			r.Topic = names[n%len(names)]
			p.SendFunc(ctx, r, ignore)
		})
	})
}

// BenchmarkSend is Send of 100 bytes: its Future dropped, kept and asked for when many are under way, or waited for at once, which is two
// wake-ups more than anything else.
func BenchmarkSend(b *testing.B) {
	const size = 100
	r := producer.Record[[]byte, []byte]{Topic: "t", Value: make([]byte, size)}
	for _, wait := range []string{"never", "later", "at-once"} {
		b.Run(fmt.Sprintf("size=%d/wait=%s", size, wait), func(b *testing.B) {
			p := client(b, toSink(b, 12), producer.Bytes(), producer.Bytes())
			ctx := b.Context()
			var ring [4096]producer.Future
			n := 0
			measure(b, p, size, func() {
				f := p.Send(ctx, r)
				switch wait {
				case "later":
					f, ring[n%len(ring)] = ring[n%len(ring)], f
					if n++; n <= len(ring) {
						return
					}
				case "never":
					return
				}
				if _, err := f.Wait(ctx); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
