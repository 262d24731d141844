package producer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
)

// The buffer: what waits for it, for how long, and that every way out gives back what was taken.

// S-06, S-26: a record that the whole buffer could not hold is refused at once; one that just fits goes, also while the
// buffer is in use, and however often.
func TestRecordAsLargeAsTheBuffer(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		const memory = 20_000 // no multiple of anything
		c := l.config
		c.BufferMemory = memory
		p, err := producer.New(c, producer.Null(), producer.Bytes())
		require.NoError(t, err)
		send := func(size int) producer.Future {
			return p.Send(t.Context(), producer.Record[struct{}, []byte]{Topic: "t", Value: make([]byte, size)})
		}
		_, err = send(1).Wait(t.Context())
		require.NoError(t, err)
		fits := memory - (protocol.MaxRecordSize(nil, make([]byte, memory), nil) - memory)

		began := time.Now()
		_, err = send(fits + 1).Wait(t.Context())
		var tooLarge *producer.RecordTooLargeError
		require.ErrorAs(t, err, &tooLarge)
		assert.Equal(t, producer.RecordTooLargeError{Topic: "t", Size: memory + 1, Limit: memory, Setting: "BufferMemory"}, *tooLarge)
		assert.ErrorContains(t, err, "buffer.memory")
		assert.Zero(t, time.Since(began))

		var futures []producer.Future
		for i := range 20 {
			futures = append(futures, send(fits), send(i*100))
		}
		for _, f := range futures {
			_, err := f.Wait(t.Context())
			require.NoError(t, err)
		}
		whole(t, p)
		end(t, p)
	})
}

// A buffer that is small for its load is a brake and not a trap: with a healthy broker no Send waits for long, whatever
// the order in which requests are written, answered and let go.
func TestSmallBufferNeverStalls(t *testing.T) {
	for _, codec := range []producer.Compression{producer.None, producer.LZ4} {
		for _, size := range []int{100, 1000, 15_000} {
			t.Run(fmt.Sprintf("%v/%d", codec, size), func(t *testing.T) {
				inLab(t, testbroker.Config{Partitions: 3, RetentionBytes: 1 << 20}, func(t *testing.T, l *lab) {
					p := l.texts(t, func(c *producer.Config) { c.BufferMemory, c.Compression = 64<<10, codec })
					warmUp(t, p, "t")
					var wg sync.WaitGroup
					value := strings.Repeat("x", size)
					began := time.Now()
					for s := range 4 {
						wg.Go(func() {
							for i := range 200 {
								p.SendFunc(context.Background(), producer.Record[string, string]{Topic: "t", Key: fmt.Sprint(s, i), Value: value}, func(_ producer.RecordMetadata, err error) {
									assert.NoError(t, err)
								})
							}
						})
					}
					wg.Wait()
					require.NoError(t, p.Flush(t.Context()))
					assert.Less(t, time.Since(began), 10*time.Second, "800 times a linger of 5 ms, and more")
					end(t, p)
				})
			})
		}
	}
}

// fill sends until nothing more goes in, and returns how many records went.
func fill(t *testing.T, p *producer.KafkaProducer[string, string], value string) int {
	t.Helper()
	for n := 0; ; n++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		f := p.Send(ctx, text("t", value))
		cancel()
		if returned(f.Done()) {
			_, err := f.Wait(t.Context())
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return n
		}
	}
}

// S-69: when no memory comes free, Send fails after MaxBlock, to the point, or at once with NoMaxBlock; the metrics tell.
// The record was not accepted.
func TestExhaustedBuffer(t *testing.T) {
	for _, maxBlock := range []time.Duration{3 * time.Second, producer.NoMaxBlock} {
		t.Run(maxBlock.String(), func(t *testing.T) {
			inLab(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "t"}}}, func(t *testing.T, l *lab) {
				p := l.texts(t, func(c *producer.Config) { c.BufferMemory, c.MaxBlock, c.BatchSize = 64<<10, maxBlock, 16<<10 })
				for {
					if _, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context()); err == nil {
						break
					}
					time.Sleep(time.Second) // with NoMaxBlock the topic has to become known first
				}
				refused := p.Metrics().RecordError.Total
				l.Cluster().SetFault(on(protocol.KeyProduce, testbroker.Hold(time.Minute)))
				value := strings.Repeat("x", 5000)
				told := newLedger()
				began := time.Now()
				n := 0
				for ; len(told.failures()) == 0; n++ {
					began = time.Now()
					p.SendFunc(t.Context(), text("t", value), told.callback(n))
					synctest.Wait()
				}
				assert.Equal(t, max(maxBlock, 0), time.Since(began))
				err := told.failures()[0]
				assert.ErrorIs(t, err, producer.ErrBufferExhausted)
				assert.ErrorContains(t, err, "t-0")
				assert.True(t, producer.IsRetriable(err))
				assert.False(t, producer.MayHaveBeenWritten(err))
				m := p.Metrics()
				assert.EqualValues(t, 1, m.BufferExhausted.Total)
				assert.EqualValues(t, 1, m.RecordError.Total-refused)
				assert.Zero(t, m.WaitingThreads)
				if maxBlock > 0 {
					assert.GreaterOrEqual(t, m.BufferPoolWaitTime, maxBlock)
				}
				end(t, p)
				told.once(t, n)
				assert.Len(t, l.Cluster().Records("t", 0), n) // the warm-up, and all but one
			})
		})
	}
}

// EXT-05: a Send whose ctx ends while it waits for memory leaves the queue, and what those behind it wait for is not lost.
func TestContextEndsTheWaitForMemory(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.BufferMemory, c.BatchSize = 64<<10, 16<<10 })
		warmUp(t, p, "t")
		l.Cluster().SetFault(on(protocol.KeyProduce, testbroker.Hold(time.Minute)))
		value := strings.Repeat("x", 15_000)
		accepted := fill(t, p, value)
		why := errors.New("enough of that")
		var wg sync.WaitGroup
		var gaveUp, sent atomic.Int64
		for i := range 20 {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if i%2 == 0 {
				time.AfterFunc(time.Duration(i)*100*time.Millisecond, func() { cancel(why) })
			}
			wg.Go(func() {
				_, err := p.Send(ctx, text("t", value)).Wait(t.Context())
				if i%2 == 0 {
					assert.ErrorIs(t, err, why)
					gaveUp.Add(1)
				} else if assert.NoError(t, err) {
					sent.Add(1)
				}
			})
		}
		synctest.Wait()
		assert.Equal(t, 20-1, p.Metrics().WaitingThreads, "the first one's time is up at once")
		time.Sleep(10 * time.Second)
		assert.EqualValues(t, 10, gaveUp.Load())
		assert.Equal(t, 10, p.Metrics().WaitingThreads)
		l.Cluster().SetFault(nil)
		wg.Wait()
		assert.EqualValues(t, 10, sent.Load())
		end(t, p)
		assert.Len(t, l.Cluster().Records("t", 0), 1+accepted+10)
	})
}

// A broker that takes nothing cannot use up the memory of those that do, neither by what waits for it nor by what is on its way to it: five
// requests of 1 MiB each are all of a small buffer.
func TestStuckBrokerLeavesRoomForOthers(t *testing.T) {
	for _, memory := range []int64{1 << 20, 4 << 20, 16 << 20} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			inLab(t, testbroker.Config{Nodes: 2, Topics: []testbroker.Topic{{Name: "t", Leaders: []int32{1}}, {Name: "other", Leaders: []int32{2}}}}, func(t *testing.T, l *lab) {
				p := l.texts(t, func(c *producer.Config) { c.BufferMemory = memory })
				warmUp(t, p, "t")
				warmUp(t, p, "other")
				l.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
					if r.API == protocol.KeyProduce && r.Node == 1 {
						return testbroker.Hold(20 * time.Second)
					}
					return testbroker.Verdict{}
				})
				value := strings.Repeat("x", 50_000)
				assert.Positive(t, fill(t, p, value))
				for range 100 {
					began := time.Now()
					p.SendFunc(t.Context(), text("other", value), nil)
					assert.Zero(t, time.Since(began))
				}
				end(t, p)
				assert.Len(t, l.Cluster().Records("other", 0), 101)
			})
		})
	}
}

// Delivery rule 8: a panic of the program's own code on the way into the buffer leaves nothing behind there: with room for a
// handful of records, hundreds of panics do no harm.
func TestPanicsLeakNothing(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		c := l.config
		c.BufferMemory, c.Linger = 16<<10, producer.NoLinger
		c.Partitioner = partitionerFunc(func(key, _ []byte) int32 {
			if string(key) == "partitioner" {
				panic("partitioner")
			}
			return partitioner.Any
		})
		explode := producer.SerializerFunc[string](func(v string) ([]byte, error) {
			if v == "key" || v == "value" {
				panic(v)
			}
			return []byte(v), nil
		})
		p, err := producer.New[string, string](c, explode, explode, explodingInterceptor{})
		require.NoError(t, err)
		big := strings.Repeat("x", 4000)
		for i := range 300 {
			for want, r := range map[string]producer.Record[string, string]{
				"key":         {Topic: "t", Key: "key", Value: big},
				"value":       {Topic: "t", Key: big, Value: "value"},
				"partitioner": {Topic: "t", Key: "partitioner", Value: big},
				"interceptor": {Topic: "t", Key: big, Value: "interceptor"},
			} {
				assert.PanicsWithValue(t, want, func() { p.Send(t.Context(), r) })
				assert.PanicsWithValue(t, want, func() {
					p.SendFunc(t.Context(), r, func(producer.RecordMetadata, error) { t.Error("of a record that never was") })
				})
			}
			p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Value: big}, func(_ producer.RecordMetadata, err error) { assert.NoError(t, err, "record %d", i) })
		}
		require.NoError(t, p.Flush(t.Context()))
		whole(t, p)
		end(t, p)
		assert.Len(t, l.Cluster().Records("t", 0), 300)
	})
}

type explodingInterceptor struct{}

func (explodingInterceptor) OnSend(ctx context.Context, r *producer.Record[string, string]) context.Context {
	if r.Value == "interceptor" {
		panic("interceptor")
	}
	return ctx
}

func (explodingInterceptor) OnAcknowledgement(context.Context, producer.RecordMetadata, error) {}

// S-07, S-30: MaxBlock is one budget: what metadata took is not there for memory any more.
func TestMaxBlockIsShared(t *testing.T) {
	var refuse atomic.Bool
	fault := func(r *testbroker.Request) testbroker.Verdict {
		switch {
		case r.API == protocol.KeyProduce && refuse.Load():
			return testbroker.Answer(protocol.NotEnoughReplicas)
		case r.API == protocol.KeyMetadata && len(r.Topics) > 0 && strings.Contains(strings.Join(r.Topics, ","), "slow"):
			return testbroker.Verdict{Delay: 60 * time.Millisecond}
		}
		return testbroker.Verdict{}
	}
	topics := []testbroker.Topic{{Name: "t"}, {Name: "slow"}}
	inLab(t, testbroker.Config{Fault: fault, Topics: topics}, func(t *testing.T, l *lab) {
		c := l.config
		c.BufferMemory, c.MaxBlock = 16<<10, 100*time.Millisecond
		c.RetryBackoff, c.RetryBackoffMax = 10*time.Second, 10*time.Second
		p := newStrings(t, c)
		warmUp(t, p, "t")
		refuse.Store(true)
		big := strings.Repeat("x", 6000)
		// Fill the memory: what it has to hold is refused, and waits for ten seconds to be sent again.
		var err error
		for err == nil {
			short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			done := make(chan error, 1)
			p.SendFunc(short, text("t", big), func(_ producer.RecordMetadata, err error) { done <- err })
			synctest.Wait()
			select {
			case err = <-done:
			default:
			}
			cancel()
		}
		assert.ErrorIs(t, err, context.DeadlineExceeded)

		began := time.Now()
		_, err = p.Send(t.Context(), text("slow", big)).Wait(t.Context())
		assert.ErrorIs(t, err, producer.ErrBufferExhausted)
		assert.True(t, producer.IsRetriable(err))
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		assert.EqualValues(t, 1, p.Metrics().BufferExhausted.Total)
		refuse.Store(false)
		end(t, p)
	})
}

// FC-137: what is remembered of a topic is its own: no view of the cluster as it was when the topic was used last. (Each topic
// kept one, with all other topics in it: with ten thousand, used one after the other, gigabytes.)
func TestFC137TopicsKeepNoOldViews(t *testing.T) {
	const topics = 1000
	inLab(t, testbroker.Config{AutoCreate: testbroker.AutoCreateAtOnce, JournalLimit: -1, DiscardRecords: true}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		warmUp(t, p, "t")
		before := heap()
		for i := range topics {
			_, err := p.Send(t.Context(), text(fmt.Sprint("topic-", i), "v")).Wait(t.Context())
			require.NoError(t, err)
		}
		grown := int(heap()-before) / topics
		t.Logf("%d bytes a topic, those of the cluster included", grown)
		assert.Less(t, grown, 12<<10)
		end(t, p)
	})
}
