package producer_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
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
	"github.com/kafka-reservoir/producer/protocol"
)

// Callbacks: how often, in what order, where, and what they may do.

// S-28, EXT-07: exactly once for each record, and in the order of Send within a partition, whatever happens on the way:
// refusals, lost answers, lost requests, splits.
func TestCallbacksComeOnceAndInOrder(t *testing.T) {
	var n atomic.Int64
	fault := func(r *testbroker.Request) testbroker.Verdict {
		if r.API != protocol.KeyProduce {
			return testbroker.Verdict{}
		}
		switch n.Add(1) % 7 {
		case 1:
			return testbroker.Answer(protocol.NotLeaderOrFollower)
		case 3:
			return testbroker.DropAfter()
		case 5:
			return testbroker.DropBefore()
		}
		return testbroker.Verdict{}
	}
	inLab(t, testbroker.Config{Nodes: 2, Fault: fault, Topics: []testbroker.Topic{{Name: "t", Partitions: 4, MaxMessageBytes: 4000}}}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.BatchSize = 6000 })
		told := newLedger()
		const records = 2000
		for i := range records {
			p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Key: fmt.Sprint(i % 50), Value: fmt.Sprintf("%0100d", i)}, told.callback(i))
			if i%100 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		end(t, p)
		told.check(t, records)
		assert.Empty(t, told.failures())
		for i := range int32(4) {
			all := values(l.Cluster(), "t", i)
			assert.IsIncreasing(t, all, "partition %d", i)
			assert.Len(t, told.order[i], len(all))
		}
		assert.Greater(t, n.Load(), int64(20))
	})
}

// A callback may be nil: the record goes the same way.
func TestNilCallback(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		for range 10 {
			p.SendFunc(t.Context(), text("t", "v"), nil)
		}
		p.SendFunc(t.Context(), text("", "v"), nil)
		require.NoError(t, p.Flush(t.Context()))
		assert.Len(t, l.Cluster().Records("t", 0), 10)
		end(t, p)
	})
}

// KAFKA-10790, KAFKA-10335: a callback that blocks holds up other callbacks and nothing else: records go on being
// acknowledged, futures settled, connections served.
func TestBlockedCallbackDoesNotStopTheSender(t *testing.T) {
	inLab(t, testbroker.Config{Partitions: 2}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "t")
		release := make(chan struct{})
		var order []int
		for i := range 3 {
			p.SendFunc(t.Context(), text("t", "v"), func(producer.RecordMetadata, error) {
				if i == 0 {
					<-release
				}
				order = append(order, i)
			})
		}
		for range 5 {
			_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
			require.NoError(t, err)
			time.Sleep(10 * time.Minute) // idle connections end, metadata are refreshed
		}
		assert.Empty(t, order)
		whole(t, p) // what is acknowledged is free, told or not
		flushed := async(func() { assert.NoError(t, p.Flush(context.Background())) })
		synctest.Wait()
		assert.False(t, returned(flushed), "Flush waits for callbacks")
		close(release)
		<-flushed
		assert.Equal(t, []int{0, 1, 2}, order)
		end(t, p)
	})
}

// Once more than BufferMemory of records waits behind a blocked callback, Send waits too, instead of the backlog growing
// for ever.
func TestBacklogOfCallbacksIsBounded(t *testing.T) {
	inLab(t, testbroker.Config{RetentionBytes: 1 << 20}, func(t *testing.T, l *lab) {
		const memory, size = 128 << 10, 1000
		p := l.texts(t, func(c *producer.Config) { c.BufferMemory, c.MaxBlock = memory, time.Minute })
		release := make(chan struct{})
		var told, failed atomic.Int64
		value := strings.Repeat("x", size)
		p.SendFunc(t.Context(), text("t", value), func(producer.RecordMetadata, error) { <-release })
		began := time.Now()
		sent := 1
		for ; time.Since(began) < time.Minute; sent++ {
			p.SendFunc(t.Context(), text("t", value), func(_ producer.RecordMetadata, err error) {
				if told.Add(1); err != nil {
					assert.ErrorIs(t, err, producer.ErrBufferExhausted)
					failed.Add(1)
				}
			})
		}
		assert.Greater(t, sent*size, memory)
		assert.Less(t, sent*size, 4*memory, "the buffer, and as much behind the callback")
		close(release)
		_, err := p.Send(t.Context(), text("t", value)).Wait(t.Context())
		assert.NoError(t, err, "all is well again")
		require.NoError(t, p.Flush(t.Context()))
		assert.EqualValues(t, sent-1, told.Load())
		assert.EqualValues(t, 1, failed.Load())
		end(t, p)
	})
}

// S-18: a callback may send, to its own partition and to a topic that nobody knows yet, and with no memory left: what
// it waits for is brought by goroutines that do not wait for callbacks, however many of those are due. The new record's
// callback comes later.
func TestSendInsideCallback(t *testing.T) {
	inLab(t, testbroker.Config{AutoCreate: testbroker.AutoCreateLikeKafka}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.BufferMemory = 16 << 10 })
		const chains, depth = 20, 10
		value := strings.Repeat("x", 3000)
		var done sync.WaitGroup
		done.Add(chains)
		running := 0
		var next func(chain, n int) producer.Callback
		next = func(chain, n int) producer.Callback {
			return func(_ producer.RecordMetadata, err error) {
				running++
				assert.Equal(t, 1, running, "one at a time")
				defer func() { running-- }()
				assert.NoError(t, err)
				if n == depth {
					done.Done()
					return
				}
				topic := "t"
				if n == depth/2 {
					topic = fmt.Sprint("new-", chain)
				}
				p.SendFunc(context.Background(), text(topic, value), next(chain, n+1))
			}
		}
		for i := range chains {
			p.SendFunc(t.Context(), text("t", value), next(i, 0))
		}
		done.Wait()
		end(t, p)
		assert.Len(t, l.Cluster().Records("t", 0), chains*depth)
		assert.Len(t, l.Cluster().Records("new-7", 0), 1)
	})
}

// S-18: with more callbacks due than the bound allows, so that Sends from elsewhere are held up, a callback can still send
// and wait for the result: nothing that it needs is held up by its own slowness.
func TestSendAndWaitInsideCallback(t *testing.T) {
	inLab(t, testbroker.Config{Partitions: 2}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.BufferMemory = 64 << 10 })
		value := strings.Repeat("x", 1000)
		var nested, told atomic.Int64
		began := time.Now()
		for range 300 {
			p.SendFunc(t.Context(), text("t", value), func(_ producer.RecordMetadata, err error) {
				assert.NoError(t, err)
				_, err = p.Send(context.Background(), text("t", value)).Wait(context.Background())
				assert.NoError(t, err)
				nested.Add(1)
				time.Sleep(time.Millisecond) // slower than the broker
				told.Add(1)
			})
		}
		require.NoError(t, p.Flush(t.Context()))
		assert.EqualValues(t, 300, told.Load())
		assert.EqualValues(t, 300, nested.Load())
		assert.Less(t, time.Since(began), 5*time.Second)
		end(t, p)
	})
}

// A Send that is held up by callbacks ends with its ctx, with MaxBlock, and when the producer is closed.
func TestSendsHeldUpByCallbacks(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.BufferMemory, c.MaxBlock = 64<<10, 5*time.Second })
		value := strings.Repeat("x", 1000)
		release := make(chan struct{})
		callback := func(producer.RecordMetadata, error) { <-release }
		for {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, assert.AnError)
			f := p.Send(ctx, text("t", value))
			cancel()
			p.SendFunc(t.Context(), text("t", value), callback)
			if returned(f.Done()) {
				if _, err := f.Wait(t.Context()); err != nil {
					assert.ErrorIs(t, err, assert.AnError)
					break
				}
			}
			synctest.Wait()
		}
		whole(t, p)
		began := time.Now()
		m, err := p.Send(t.Context(), text("t", value)).Wait(t.Context())
		assert.ErrorIs(t, err, producer.ErrBufferExhausted)
		assert.ErrorContains(t, err, "callbacks")
		assert.False(t, m.HasOffset())
		assert.Equal(t, 5*time.Second, time.Since(began))

		held := async(func() {
			_, err := p.Send(context.Background(), text("t", value)).Wait(context.Background())
			assert.ErrorIs(t, err, producer.ErrClosed)
		})
		synctest.Wait()
		began = time.Now()
		closed := async(func() { assert.NoError(t, p.Close(context.Background())) })
		<-held
		assert.Zero(t, time.Since(began))
		close(release)
		<-closed
		end(t, p)
	})
}

// Inside a callback Wait works for records that need no callback to be settled, and Close, like Flush, ends with its ctx,
// whereupon the callback goroutine goes on and Close from elsewhere succeeds (KP-65).
func TestWaitAndCloseInsideCallback(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		finished := make(chan struct{})
		p.SendFunc(t.Context(), text("t", "1"), func(m producer.RecordMetadata, err error) {
			defer close(finished)
			assert.NoError(t, err)
			m, err = p.Send(context.Background(), text("t", "2")).Wait(context.Background())
			assert.NoError(t, err)
			assert.EqualValues(t, 1, m.Offset)
			f := p.Send(context.Background(), text("t", "3"))
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			began := time.Now()
			assert.ErrorIs(t, p.Close(ctx), context.DeadlineExceeded)
			assert.LessOrEqual(t, time.Since(began), 1100*time.Millisecond)
			_, err = f.Wait(context.Background())
			assert.NoError(t, err, "it was settled before the time was up")
			_, err = p.Send(context.Background(), text("t", "4")).Wait(context.Background())
			assert.ErrorIs(t, err, producer.ErrClosed)
		})
		<-finished
		end(t, p)
		assert.Equal(t, []string{"1", "2", "3"}, values(l.Cluster(), "t", 0))
	})
}

// Callbacks of records that were never accepted come on the callback goroutine too, and none is lost when the producer
// is closed at that moment.
func TestCallbacksOfRefusedRecords(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		var told atomic.Int64
		var wg sync.WaitGroup
		const senders, each = 8, 50
		for range senders {
			wg.Go(func() {
				for range each {
					p.SendFunc(context.Background(), text("", "no topic"), func(_ producer.RecordMetadata, err error) {
						told.Add(1)
						assert.Error(t, err)
					})
				}
			})
		}
		end(t, p)
		wg.Wait()
		assert.EqualValues(t, senders*each, told.Load())
	})
}

// Delivery rule 8: a panic in a callback is not hidden: it ends the program, with the callback's stack.
func TestPanicInCallbackEndsTheProgram(t *testing.T) {
	if os.Getenv("PRODUCER_TEST_PANIC") != "" {
		inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
			p := l.texts(t, nil)
			p.SendFunc(t.Context(), text("t", "v"), func(producer.RecordMetadata, error) { panic("of the callback's own") })
			_ = p.Flush(t.Context())
			fmt.Println("still alive")
		})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPanicInCallbackEndsTheProgram$")
	cmd.Env = append(os.Environ(), "PRODUCER_TEST_PANIC=1")
	out, err := cmd.CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "panic: of the callback's own")
	assert.Contains(t, string(out), "callback_test.go")
	assert.NotContains(t, string(out), "still alive")
}

// KP-65, S-02: inside a callback, Send works, and Flush and Wait end with their ctx instead of never.
func TestCallbacksMayCallTheProducer(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		errs := make(chan error, 3)
		p.SendFunc(t.Context(), text("t", "1"), func(producer.RecordMetadata, error) {
			p.SendFunc(context.Background(), text("t", "2"), func(_ producer.RecordMetadata, err error) { errs <- err })
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			errs <- p.Flush(ctx)
		})
		assert.ErrorIs(t, <-errs, context.DeadlineExceeded)
		assert.NoError(t, <-errs)
		end(t, p)
		assert.Len(t, l.Cluster().Records("t", 0), 2)
	})
}
