package accumulator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// flushing runs AwaitFlush in a goroutine of the bubble; it must wait.
func (r *rig) flushing() chan error {
	r.t.Helper()
	done := make(chan error, 1)
	go func() { done <- r.a.AwaitFlush(r.t.Context()) }()
	synctest.Wait()
	require.Empty(r.t, done)
	return done
}

// ACC-11, S-71: a flush makes everything sendable in spite of an endless linger, and the sender is told; when all is
// completed nothing is left, and batches linger again.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withLinger(1000*time.Hour))
		r.lead(orders, 1, 1, 2)
		for p := range int32(3) {
			r.put(p, 100)
		}
		assert.Empty(t, r.readyNodes())
		wakes := r.wakes.Load()
		r.a.BeginFlush()
		assert.True(t, r.a.Flushing())
		assert.Greater(t, r.wakes.Load(), wakes)
		done := r.flushing()
		assert.Equal(t, []int32{1, 2}, r.readyNodes())
		batches := append(r.drain(1), r.drain(2)...)
		assert.False(t, r.a.HasUndrained())
		assert.True(t, r.a.HasIncomplete())
		r.completeAll(batches[:2])
		synctest.Wait()
		require.Empty(t, done)
		r.completeAll(batches[2:])
		require.NoError(t, <-done)
		r.a.EndFlush()
		assert.False(t, r.a.Flushing())
		r.empty()
		r.put(0, 1)
		assert.Empty(t, r.readyNodes())
	})
}

// S-67: a flush waits for exactly the batches that exist when it begins to wait, also for one that is open and takes more
// records; what is opened later is not its business.
func TestFlushWaitsForWhatExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withBatch(1))
		r.lead(orders, 1, 1)
		require.NoError(t, r.a.AwaitFlush(t.Context()), "nothing to wait for")
		r.put(0, 1)
		first := r.flushing()
		r.put(0, 1)
		second := r.flushing()
		r.put(1, 1)
		batches := r.drain(1)
		require.Equal(t, []int32{0, 1}, partitionsOf(batches))
		r.a.Complete(batches[0], 0, -1)
		require.NoError(t, <-first)
		require.Empty(t, second)
		r.requeue(batches[1]) // which neither waits for
		r.a.Fail(r.drainOne(1), errors.New("failed"), nil)
		require.NoError(t, <-second, "failed is as good as written")
		assert.True(t, r.a.HasIncomplete())
	})
}

// ACC-12: a flush whose context ends stops waiting, with the context's error, and leaves nothing behind; those beside it go
// on.
func TestFlushIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead(orders, 1)
		r.put(0, 1)
		other := r.flushing()
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() {
			r.a.BeginFlush()
			defer r.a.EndFlush()
			done <- r.a.AwaitFlush(ctx)
		}()
		synctest.Wait()
		assert.True(t, r.a.Flushing())
		why := errors.New("why")
		cancel(why)
		require.ErrorIs(t, <-done, why)
		synctest.Wait()
		assert.False(t, r.a.Flushing())
		assert.Len(t, r.a.incomplete.waiters, 1)
		r.completeAll(r.drain(1))
		require.NoError(t, <-other)
		assert.Empty(t, r.a.incomplete.waiters)
		require.NoError(t, r.a.AwaitFlush(ctx), "a context that has ended is no matter where nothing has to be waited for")
	})
}

// Two flushes at a time end one by one.
func TestFlushesNest(t *testing.T) {
	r := newRig(t, withLinger(time.Hour))
	r.lead(orders, 1)
	r.a.BeginFlush()
	r.a.BeginFlush()
	r.a.EndFlush()
	r.put(0, 1)
	assert.Equal(t, []int32{1}, r.readyNodes())
	r.a.EndFlush()
	assert.False(t, r.a.Flushing())
}

// When a flush has returned, the callbacks of what it waited for were handed over: whoever queues behind them comes after.
func TestFlushComesAfterCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handed []*ProducerBatch
		r := newRig(t, func(c *Config) { c.Done = func(b *ProducerBatch) { handed = append(handed, b) } })
		r.lead(orders, 1)
		cb := &told{}
		r.record(orders, Record{Timestamp: -1}, cb.OnCompletion)
		done := make(chan int)
		go func() {
			_ = r.a.AwaitFlush(t.Context())
			done <- len(handed)
		}()
		synctest.Wait()
		r.completeAll(r.drain(1))
		assert.Equal(t, 1, <-done)
		assert.Empty(t, cb.errs)
		handed[0].Run()
		assert.Len(t, cb.errs, 1)
	})
}

// ACC-13: a forced close gives out everything that is not done, drained or not; each record is told once, and nothing is
// incomplete. What a connection holds comes back when it lets go.
func TestForcedClose(t *testing.T) {
	r := newRig(t, withBatch(4*kib))
	r.lead(orders, 1, 1, -1)
	cb := &told{}
	const records = 30
	for i := range records {
		r.record(orders, Record{Partition: int32(i % 3), Timestamp: -1, Value: make([]byte, 700)}, cb.OnCompletion)
	}
	drained := r.drain(1)
	require.Len(t, drained, 2)
	drained[0].Hold()
	r.a.Close()
	batches := r.a.Incomplete(r.peek())
	assert.Contains(t, batches, drained[0])
	n := int32(0)
	for _, b := range batches {
		n += b.Count()
		r.a.Fail(b, errForced, nil)
	}
	assert.EqualValues(t, records, n)
	assert.Len(t, cb.errs, records)
	for _, err := range cb.errs {
		assert.Equal(t, errForced, err)
	}
	assert.False(t, r.a.HasIncomplete())
	assert.False(t, r.a.HasUndrained())
	assert.Empty(t, r.a.Incomplete(r.peek()))
	assert.Less(t, r.pool.Available(), r.pool.Total())
	r.a.Unhold(drained[0], r.peek())
	drained[0].Landed()
	drained[0].Forget()
	r.empty()
}

// ACC-14: only what waits is given out when what is in flight may still succeed; that stays incomplete.
func TestUndrained(t *testing.T) {
	r := newRig(t, withBatch(4*kib), noJitter)
	r.lead(orders, 1, 1, -1)
	why := errors.New("why")
	inFlight, failed := &told{}, &told{}
	r.record(orders, Record{Partition: 0, Timestamp: -1}, inFlight.OnCompletion)
	b := r.drainOne(1)
	r.record(orders, Record{Partition: 1, Timestamp: -1}, failed.OnCompletion)
	again := r.drainOne(1)
	r.requeue(again)                                                                                       // in back-off
	r.record(orders, Record{Partition: 0, Timestamp: -1, Value: make([]byte, 5*kib)}, failed.OnCompletion) // full
	r.record(orders, Record{Partition: 0, Timestamp: -1}, failed.OnCompletion)                             // open
	r.record(orders, Record{Partition: 1, Timestamp: -1}, failed.OnCompletion)                             // behind another
	r.record(orders, Record{Partition: 2, Timestamp: -1}, failed.OnCompletion)                             // without a leader
	r.ready()
	assert.Empty(t, r.a.Undrained("other", r.peek()))
	batches := r.a.Undrained("", r.peek())
	assert.Len(t, batches, 5)
	assert.NotContains(t, batches, b)
	for _, x := range batches {
		r.a.Fail(x, why, nil)
	}
	assert.Equal(t, []error{why, why, why}, failed.errs, "those of partition 0 come after what is in flight there")
	assert.Empty(t, inFlight.errs)
	assert.True(t, r.a.HasIncomplete())
	assert.False(t, r.a.HasUndrained())
	assert.Empty(t, r.a.Undrained(orders, r.peek()))
	r.put(0, 1)
	r.a.Complete(b, 5, -1)
	assert.EqualValues(t, 5, inFlight.results[0].Offset)
	assert.Equal(t, []error{why, why, why, why, why}, failed.errs)
	r.completeAll(r.drain(1))
	r.empty()
}
