package producer_test

import (
	"context"
	"errors"
	"fmt"
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

// KP-34, S-67: Flush makes everything sendable at once, whatever the linger, and returns when all of it is settled and told.
func TestFlush(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 3, Partitions: 6}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.Linger, c.DeliveryTimeout = time.Hour, 2*time.Hour })
		warmUp(t, p, "t")
		var told atomic.Int64
		var futures []producer.Future
		began := time.Now()
		for i := range 300 {
			r := producer.Record[string, string]{Topic: "t", Key: fmt.Sprint(i), Value: "v"}
			p.SendFunc(t.Context(), r, func(_ producer.RecordMetadata, err error) {
				assert.NoError(t, err)
				told.Add(1)
			})
			futures = append(futures, p.Send(t.Context(), r))
		}
		require.NoError(t, p.Flush(t.Context()))
		assert.Zero(t, time.Since(began))
		assert.EqualValues(t, 300, told.Load())
		for _, f := range futures {
			assert.True(t, returned(f.Done()))
		}
		whole(t, p)
		end(t, p)
	})
}

// KP-35, MET-01: the flush time is the sum of all Flushes; one with nothing to do takes none, even with a ctx that is over.
func TestFlushTime(t *testing.T) {
	inLab(t, testbroker.Config{Fault: on(protocol.KeyProduce, testbroker.Hold(2*time.Second))}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		over, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("over"))
		require.NoError(t, p.Flush(t.Context()))
		assert.Zero(t, p.Metrics().FlushTime)
		for i := range 3 {
			p.SendFunc(t.Context(), text("t", "v"), nil)
			assert.ErrorContains(t, p.Flush(over), "over")
			require.NoError(t, p.Flush(t.Context()))
			assert.Equal(t, time.Duration(i+1)*2*time.Second, p.Metrics().FlushTime)
		}
		end(t, p)
	})
}

// S-67: Flush waits for what was there when it began, and for nothing that others send meanwhile: it ends, however much
// and however slowly that is.
func TestFlushDoesNotWaitForOthers(t *testing.T) {
	inLab(t, testbroker.Config{Partitions: 2}, func(t *testing.T, l *lab) {
		l.Cluster().SetFault(on(protocol.KeyProduce, testbroker.Hold(time.Second)))
		p := l.texts(t, func(c *producer.Config) { c.Linger = producer.NoLinger })
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for part := range int32(2) {
			wg.Go(func() {
				for ctx.Err() == nil {
					r := text("t", "others")
					r.Partition = producer.OnPartition(part)
					p.SendFunc(t.Context(), r, nil)
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		for range 5 {
			f := p.Send(t.Context(), text("t", "mine"))
			began := time.Now()
			require.NoError(t, p.Flush(t.Context()))
			assert.LessOrEqual(t, time.Since(began), 3*time.Second, "mine, behind one request or two of the same connection")
			assert.True(t, returned(f.Done()))
		}
		stop()
		wg.Wait()
		end(t, p)
	})
}

// Several Flushes at once end together; one whose ctx ends does not end the others.
func TestConcurrentFlushes(t *testing.T) {
	inLab(t, testbroker.Config{Fault: on(protocol.KeyProduce, testbroker.Hold(5*time.Second))}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		p.SendFunc(t.Context(), text("t", "v"), nil)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if i == 0 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					assert.ErrorIs(t, p.Flush(ctx), context.DeadlineExceeded)
					assert.Equal(t, time.Second, time.Since(began))
					return
				}
				assert.NoError(t, p.Flush(t.Context()))
				assert.Equal(t, 5*time.Second, time.Since(began))
			})
		}
		wg.Wait()
		end(t, p)
	})
}

// Flush ends with the delivery timeout where all brokers are gone, or before with its ctx: it never hangs. Failed records
// are no error of Flush's.
func TestFlushWithoutBrokers(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 3, Partitions: 3}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "t")
		for node := range int32(3) {
			require.NoError(t, l.StopNode(node+1))
		}
		time.Sleep(time.Second) // until that is noticed: nothing is written to a dead connection
		told := newLedger()
		began := time.Now()
		for i := range 30 {
			p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Key: fmt.Sprint(i), Value: "v"}, told.callback(i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		assert.ErrorIs(t, p.Flush(ctx), context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second, time.Since(began))
		require.NoError(t, p.Flush(t.Context()))
		assert.GreaterOrEqual(t, time.Since(began), 2*time.Minute)
		assert.LessOrEqual(t, time.Since(began), 2*time.Minute+250*time.Millisecond, "delivery.md 4")
		told.check(t, 30)
		require.Len(t, told.failures(), 30)
		for _, err := range told.failures() {
			assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
			assert.False(t, producer.MayHaveBeenWritten(err), "never sent: %v", err)
			assert.True(t, producer.IsRetriable(err))
		}
		end(t, p)
	})
}

// KAFKA-19479: the parts of a split batch are waited for as their batch was, by a Flush that began before the split.
func TestFlushCoversSplitBatches(t *testing.T) {
	inLab(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "t", MaxMessageBytes: 2000}}}, func(t *testing.T, l *lab) {
		l.Cluster().SetFault(on(protocol.KeyProduce, testbroker.Hold(100*time.Millisecond)))
		p := l.texts(t, func(c *producer.Config) { c.Linger = time.Second })
		var told atomic.Int64
		for range 100 {
			p.SendFunc(t.Context(), text("t", strings.Repeat("x", 150)), func(_ producer.RecordMetadata, err error) {
				assert.NoError(t, err)
				told.Add(1)
			})
		}
		flushed := async(func() { assert.NoError(t, p.Flush(t.Context())) })
		synctest.Wait()
		<-flushed
		assert.EqualValues(t, 100, told.Load())
		assert.Positive(t, p.Metrics().BatchSplit.Total)
		whole(t, p)
		end(t, p)
	})
}

// Flush after Close has nothing to wait for; a Flush that is waiting when the producer is closed ends with it.
func TestFlushAndClose(t *testing.T) {
	inLab(t, testbroker.Config{Fault: on(protocol.KeyProduce, testbroker.Hold(5*time.Second))}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		p.SendFunc(t.Context(), text("t", "v"), nil)
		flushed := async(func() { assert.NoError(t, p.Flush(t.Context())) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, p.Close(ctx), context.DeadlineExceeded)
		<-flushed
		assert.NoError(t, p.Flush(t.Context()))
		end(t, p)
	})
}

// Flush obeys its ctx too, and leaves the records alone.
func TestFlushObeysItsContext(t *testing.T) {
	inLab(t, testbroker.Config{Fault: on(protocol.KeyProduce, testbroker.Hold(10*time.Second))},
		func(t *testing.T, l *lab) {
			p := l.texts(t, nil)
			f := p.Send(t.Context(), text("t", "v"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			assert.ErrorIs(t, p.Flush(ctx), context.DeadlineExceeded)
			assert.Equal(t, time.Second, time.Since(began))
			_, err := f.Wait(t.Context())
			assert.NoError(t, err)
			end(t, p)
		})
}
