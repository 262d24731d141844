package accumulator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/protocol"
)

// sizeOf is what a record with a value of n bytes takes as record i of a batch, when all have one timestamp.
func sizeOf(i, n int) int {
	return protocol.RecordSize(protocol.RecordBodySize(0, int32(i), nil, make([]byte, n), nil))
}

// ACC-02, S-57, S-60, S-63, S-81: records go into the open batch as long as they fit; one more begins a second
// batch, and only then has the node something to be sent: the first batch, with its records in order.
func TestAppendFillsBatches(t *testing.T) {
	r := newRig(t, withBatch(1*kib), withLinger(time.Second))
	r.lead(orders, 1)
	r.put(0, 10) // so that the sender knows the node
	r.ready()
	n := 1 + func() int {
		size, count := protocol.BatchHeaderSize+sizeOf(0, 10), 1
		for size+sizeOf(count, 10) < 1*kib {
			size += sizeOf(count, 10)
			r.record(orders, Record{Timestamp: -1, Value: fmt.Appendf(nil, "value%05d", count)}, nil)
			count++
		}
		return count - 1
	}()
	assert.Empty(t, r.readyNodes(), "one batch, not full")
	assert.Equal(t, 1, r.a.deque(r.a.Topic(orders), 0, 1).len())

	r.put(0, 10)
	assert.Equal(t, 2, r.a.deque(r.a.Topic(orders), 0, 1).len())
	assert.Equal(t, []int32{1}, r.readyNodes())
	b := r.drainOne(1)
	h, records := r.read(b)
	assert.EqualValues(t, n, h.Count)
	for i, rec := range records[1:] {
		assert.Equal(t, fmt.Sprintf("value%05d", i+1), string(rec.Value))
	}
	assert.Empty(t, r.drain(1), "the second batch is open and young")
	r.completeAll([]*ProducerBatch{b})
}

// S-31, S-71, PB-08: a batch that is exactly full takes no more and need not linger, however the last record
// came in.
func TestExactlyFullBatchIsClosed(t *testing.T) {
	for _, last := range []int{0, 1, 5} { // records before the one that fills
		t.Run(fmt.Sprintf("records=%d", last), func(t *testing.T) {
			limit := protocol.BatchHeaderSize + sizeOf(last, 100)
			for i := range last {
				limit += sizeOf(i, 100)
			}
			r := newRig(t, withBatch(limit), withLinger(time.Hour))
			r.lead(orders, 1)
			for range last {
				r.put(0, 100)
			}
			assert.Empty(t, r.readyNodes())
			r.put(0, 100)
			assert.Equal(t, []int32{1}, r.readyNodes())
			b := r.drainOne(1)
			assert.Equal(t, limit, b.Size())
			assert.EqualValues(t, last+1, b.Count())
			r.completeAll([]*ProducerBatch{b})
			r.empty()
		})
	}
}

// ACC-03, ACC-30, MRB-10, MRB-11: the first record is taken however large it is; it then has its batch for itself,
// which is sendable at once. That holds compressed or not, for a record that does not compress.
func TestLargeRecordHasABatchOfItsOwn(t *testing.T) {
	for _, codec := range []protocol.Codec{protocol.CodecNone, protocol.CodecLZ4} {
		for _, size := range []int{2 * kib, 40 * kib, 200 * kib} {
			t.Run(fmt.Sprintf("codec=%v/size=%d", codec, size), func(t *testing.T) {
				r := newRig(t, withBatch(1*kib), withLinger(time.Hour), withCodec(codec))
				r.lead(orders, 1)
				value := noise(size)
				cb := &told{}
				r.record(orders, Record{Timestamp: 1234, Key: []byte("k"), Value: value}, cb.OnCompletion)
				assert.Equal(t, []int32{1}, r.readyNodes())
				r.record(orders, Record{Timestamp: 5, Value: []byte("x")}, nil)
				b := r.drainOne(1)
				h, records := r.read(b)
				require.Len(t, records, 1)
				assert.Equal(t, value, records[0].Value)
				assert.EqualValues(t, 1234, h.Timestamp(records[0]))
				r.a.Complete(b, 0, -1)
				assert.Equal(t, []Result{{Topic: orders, Offset: 0, Timestamp: time.UnixMilli(1234), KeySize: 1, ValueSize: size}}, cb.results)
			})
		}
	}
}

// An append can close two batches at once: the open one, which has no room for it, and its own, which it fills. Both
// are compressed.
func TestAppendMayCloseTwoBatches(t *testing.T) {
	r := newRig(t, withBatch(1*kib), withLinger(time.Hour), withCodec(protocol.CodecZstd))
	r.lead(orders, 1)
	r.put(0, 10)
	r.put(0, 2*kib)
	for range 2 {
		b := r.drainOne(1)
		assert.EqualValues(t, 1, b.Count())
		r.a.Complete(b, 0, -1)
	}
	r.empty()
}

// MRB-10: with the smallest batch size each record has a batch.
func TestTinyBatchSize(t *testing.T) {
	r := newRig(t, withBatch(0), withLinger(time.Hour))
	r.lead(orders, 1)
	for range 3 {
		r.put(0, 0)
	}
	for range 3 {
		b := r.drainOne(1)
		assert.EqualValues(t, 1, b.Count())
		r.a.Complete(b, -1, -1)
	}
	r.empty()
}

// S-55: concurrent first appends to a partition find one deque, topics too; a look-up takes no lock.
func TestOneDequePerPartition(t *testing.T) {
	r := newRig(t)
	const goroutines = 8
	got := make([]*deque, goroutines)
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() { got[i] = r.a.deque(r.a.Topic(orders), 3, 5) })
	}
	wg.Wait()
	for _, d := range got {
		assert.Same(t, got[0], d)
	}

	r.a.topics.mu.Lock() // would block a look-up that needs it
	assert.Same(t, got[0], r.a.deque(r.a.Topic(orders), 3, 5))
	r.a.topics.mu.Unlock()

	// A topic that grew keeps its deques.
	other := r.a.deque(r.a.Topic(orders), 11, 12)
	assert.Same(t, got[0], r.a.deque(r.a.Topic(orders), 3, 12))
	assert.NotSame(t, got[0], other)
}

// S-57: appends to an open batch never touch the pool: they go on while somebody waits for memory.
func TestAppendToOpenBatchNeedsNoMemory(t *testing.T) {
	r := newRig(t, withPool(16*kib), withBatch(16*kib), withLinger(time.Hour))
	r.lead(orders, 1, 1)
	r.put(0, 3*kib) // takes the only slab there is room for
	require.Zero(t, r.pool.Available())
	for range 100 {
		r.put(0, 50)
	}
	_, err := r.try(orders, Record{Partition: 1, Timestamp: -1, Value: []byte("x")}, nil, 0)
	require.ErrorIs(t, err, bufferpool.ErrExhausted)
	r.put(0, 50)
	assert.Zero(t, r.pool.Available())
}

// S-58, S-59, S-61, BP-03: a wait for memory in one partition blocks neither appends to the same partition nor its
// drain; two that waited for the same partition make one batch, and what the second was granted goes back.
func TestWaitForMemoryHoldsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withPool(32*kib), withBatch(8*kib))
		r.lead(orders, 1, 1)
		r.put(1, 30*kib) // a batch of its own; all the memory
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				_, err := r.try(orders, Record{Timestamp: -1, Value: fmt.Append(nil, i)}, nil, time.Hour)
				assert.NoError(t, err)
			})
		}
		synctest.Wait()
		assert.Equal(t, 2, r.pool.Waiting())

		d := r.a.deque(r.a.Topic(orders), 0, 2)
		assert.True(t, d.mu.TryLock(), "an append that waits holds its partition's lock")
		d.mu.Unlock()
		r.completeAll(r.drain(1))
		wg.Wait()
		assert.Equal(t, 1, d.len(), "the two made one batch")
		assert.EqualValues(t, 2, d.tail().Count())
		assert.EqualValues(t, 16*kib, r.pool.Available(), "the second's slab went back")
		r.completeAll(r.drain(1))
		r.empty()
	})
}

// ACC-34, BP-04, S-61: what does not come free in time fails the append, which then holds nothing. The first attempt is
// always made, the error tells what was waited for, and the batch that was too full stays as it was.
func TestAppendGivesUpWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withPool(16*kib), withBatch(16*kib), func(c *Config) { c.Now = time.Now })
		r.lead(orders, 1, 1)
		h := r.put(1, 10*kib)
		began := time.Now()
		rec := Record{Timestamp: -1, Value: []byte("x")}
		_, err := r.try(orders, rec, nil, time.Second)
		require.ErrorIs(t, err, bufferpool.ErrExhausted)
		assert.ErrorContains(t, err, "append to orders-0: ")
		assert.Equal(t, time.Second, time.Since(began))
		for _, maxWait := range []time.Duration{0, -1} {
			_, err = r.try(orders, rec, nil, maxWait)
			require.ErrorIs(t, err, bufferpool.ErrExhausted)
		}
		assert.Equal(t, time.Second, time.Since(began))
		assert.Zero(t, r.pool.Available())
		assert.Zero(t, r.a.deque(r.a.Topic(orders), 0, 2).len())
		assert.False(t, h.Settled())
		r.completeAll(r.drain(1))
		r.empty()
		_, err = r.try(orders, rec, nil, -1)
		require.NoError(t, err, "no time to wait is no reason to fail where nothing has to be waited for")
	})
}

// ACC-33: a bound of for ever does not overflow.
func TestWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withPool(16*kib), func(c *Config) { c.Now = time.Now })
		r.lead(orders, 1, 1)
		r.put(1, 10*kib)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := r.try(orders, Record{Timestamp: -1, Value: []byte("x")}, nil, math.MaxInt64)
			assert.NoError(t, err)
		})
		time.Sleep(100 * 24 * time.Hour)
		r.completeAll(r.a.Drain(nil, 1, 1<<20, time.Now(), nil))
		r.ready()
		r.completeAll(r.drain(1))
		wg.Wait()
	})
}

// EXT-05, BP-06: an append whose context ends while it waits for memory leaves the queue at once, with the context's
// error and with nothing kept; those behind it go on.
func TestContextEndsAWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withPool(32*kib), withBatch(16*kib))
		md := r.lead(orders, 1, 1, 1)
		r.put(1, 30*kib)
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(context.Background())
		errs := make(chan error, 2)
		go func() { // wants everything
			rec := Record{Partition: 0, Timestamp: -1, Value: make([]byte, 30*kib)}
			_, _, err := r.a.Append(ctx, r.a.Topic(orders), md, &rec, nil, false, time.Hour)
			errs <- err
		}()
		synctest.Wait()
		cancel(why)
		err := <-errs
		require.ErrorIs(t, err, why)
		assert.ErrorContains(t, err, "append to orders-0: ")
		assert.Zero(t, r.pool.Waiting())
		r.completeAll(r.drain(1))
		r.empty()

		// A context that has ended does not keep a record out that has to wait for nothing.
		rec := Record{Partition: 0, Timestamp: -1, Value: []byte("x")}
		_, p, err := r.a.Append(ctx, r.a.Topic(orders), md, &rec, nil, false, time.Hour)
		require.NoError(t, err)
		assert.Zero(t, p)
	})
}

// BP-02, S-06: a record that the whole buffer could not hold fails at once, however long it might wait.
func TestRecordLargerThanThePool(t *testing.T) {
	r := newRig(t, withPool(32*kib))
	r.lead(orders, 1)
	_, err := r.try(orders, Record{Timestamp: -1, Value: make([]byte, 33*kib)}, nil, math.MaxInt64)
	var tooLarge *bufferpool.TooLargeError
	require.ErrorAs(t, err, &tooLarge)
	r.empty()
}

// S-61: an append that was granted memory for its open batch, and meanwhile needs more for a new one, gives back
// what it has before it waits again: two that did not would each wait for what the other holds.
func TestWaitHoldsNoEarlierGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withPool(48*kib), withBatch(40*kib), func(c *Config) { c.Now = time.Now })
		r.lead(orders, 1, 1)
		d := r.a.deque(r.a.Topic(orders), 0, 2)
		r.put(1, 30*kib) // two slabs
		inFlight := r.drainOne(1)
		r.put(0, 3*kib) // the third, with 13 KiB left
		done := make(chan error)
		go func() {
			_, err := r.try(orders, Record{Timestamp: -1, Value: make([]byte, 20*kib)}, nil, time.Minute)
			done <- err
		}()
		synctest.Wait()
		require.Equal(t, 1, r.pool.Waiting(), "wants one slab more for the open batch")

		d.mu.Lock()
		r.a.Complete(inFlight, 0, -1) // and is granted it,
		r.a.closeLocked(d, d.tail())  // but the batch is closed before it can use it,
		r.a.signal(d)
		others, ok := r.pool.TryAllocate(nil, 16*kib, false) // and somebody else takes what is left.
		d.mu.Unlock()
		require.True(t, ok)
		synctest.Wait()
		require.Equal(t, 1, r.pool.Waiting(), "wants two slabs for a batch of its own")
		r.completeAll(r.drain(1)) // frees one; the other is the one it had
		require.NoError(t, <-done)
		r.completeAll(r.drain(1))
		r.pool.Release(others)
		r.empty()
	})
}

// S-56, S-62: after Close nothing is accepted, and what was stays.
func TestAppendAfterClose(t *testing.T) {
	r := newRig(t, withLinger(time.Hour))
	r.lead(orders, 1)
	h := r.put(0, 10)
	r.a.Close()
	assert.True(t, r.a.Closed())
	for _, p := range []int32{0, anyOf} {
		_, err := r.try(orders, Record{Partition: p, Timestamp: -1}, nil, time.Hour)
		assert.ErrorIs(t, err, ErrClosed)
	}
	r.a.StartClosing()
	b := r.drainOne(1)
	assert.EqualValues(t, 1, b.Count())
	r.a.Complete(b, 3, -1)
	res, err := h.Wait(context.Background())
	require.NoError(t, err)
	assert.EqualValues(t, 3, res.Offset)
	r.empty()
}

// S-62, BP-11: Close ends waits for memory, whoever may still be granted some.
func TestCloseEndsWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withPool(16*kib))
		r.lead(orders, 1, 1)
		r.put(1, 10*kib)
		errs := make(chan error)
		go func() {
			_, err := r.try(orders, Record{Timestamp: -1, Value: []byte("x")}, nil, time.Hour)
			errs <- err
		}()
		synctest.Wait()
		r.a.Close()
		require.ErrorIs(t, <-errs, ErrClosed)
		r.a.StartClosing()
		r.completeAll(r.drain(1))
		r.empty()
	})
}

// S-65: a record's future and callback carry its sizes, -1 for a null, its time and its place; key, value and
// headers are copied, so that the caller may use its own again.
func TestResultCarriesSizesAndPlace(t *testing.T) {
	r := newRig(t, withLinger(time.Second))
	r.lead(orders, 1)
	key, value := []byte("key"), []byte("value")
	header := []protocol.Header{{Key: "h", Value: []byte("v")}}
	var handles []Handle
	cb := &told{}
	for i, rec := range []Record{
		{Timestamp: 1000, Key: key, Value: value, Headers: header},
		{Timestamp: 900, Key: nil, Value: []byte{}},
		{Timestamp: -1, Key: []byte{}, Value: nil},
	} {
		handles = append(handles, r.record(orders, rec, cb.OnCompletion))
		assert.True(t, handles[i].Valid())
		assert.False(t, handles[i].Settled())
		copy(key, "###")
		copy(value, "#####")
		copy(header[0].Value, "#")
		header[0].Key = "#"
	}
	assert.False(t, Handle{}.Valid())
	r.clock.advance(time.Second)
	b := r.drainOne(1)
	_, records := r.read(b)
	assert.Equal(t, []protocol.Header{{Key: "h", Value: []byte("v")}}, records[0].Headers)
	assert.Equal(t, "key value", strings.Join([]string{string(records[0].Key), string(records[0].Value)}, " "))
	r.a.Complete(b, 40, -1)
	want := []Result{
		{Topic: orders, Offset: 40, Timestamp: time.UnixMilli(1000), KeySize: 3, ValueSize: 5},
		{Topic: orders, Offset: 41, Timestamp: time.UnixMilli(900), KeySize: -1, ValueSize: 0},
		{Topic: orders, Offset: 42, Timestamp: t0, KeySize: 0, ValueSize: -1},
	}
	assert.Equal(t, want, cb.results)
	for i, h := range handles {
		res, err := h.Wait(context.Background())
		require.NoError(t, err)
		assert.Equal(t, want[i], res)
	}
}

// S-64, PB-08, MRB-06, MRB-12, MRB-13: a record that does not fit closes the batch as it is: nothing of it is lost or added,
// nothing comes into it afterwards, and memory that it had and did not use goes back. (Java's builder raises when it is written
// to out of order or after its end. Here only its deque has it, which counts the records and knows the end.)
func TestClosedBatchKeepsOnlyWhatItUses(t *testing.T) {
	r := newRig(t, withBatch(40*kib), withLinger(time.Hour))
	r.lead(orders, 1)
	r.put(0, 3*kib)
	r.put(0, 30*kib)
	before := r.pool.Available()
	r.put(0, 20*kib) // does not fit
	assert.Equal(t, before-2*bufferpool.SlabSize, r.pool.Available())
	b := r.drainOne(1)
	assert.Equal(t, protocol.BatchHeaderSize+sizeOf(0, 3*kib)+sizeOf(1, 30*kib), b.Size())
	assert.Equal(t, b.Size(), b.RawSize())
	assert.Equal(t, sizeOf(1, 30*kib), b.MaxRecordSize())
	r.read(b)
}

// S-61, S-64: a batch that was granted more than it came to use, because another append had begun it meanwhile, gives that
// back when it is closed.
func TestSurplusGrantGoesBack(t *testing.T) {
	r := newRig(t, withBatch(64*kib), withLinger(time.Hour))
	md := r.lead(orders, 1)
	topic := r.a.Topic(orders)
	r.put(0, 3*kib)
	granted, ok := r.pool.TryAllocate(nil, 48*kib, false)
	require.True(t, ok)
	at := attempt{granted: granted}
	d := r.a.deque(topic, 0, 1)
	d.mu.Lock()
	v := r.a.tryAppend(d, topic, md, nil, &Record{Timestamp: -1, Value: make([]byte, 20*kib)}, &at)
	d.mu.Unlock()
	require.Equal(t, appended, v)
	assert.EqualValues(t, 64*kib, r.pool.Total()-r.pool.Available())
	r.put(0, 20*kib) // which fills what there is of it
	assert.EqualValues(t, 64*kib, r.pool.Total()-r.pool.Available())
	r.a.StartClosing()
	b := r.drainOne(1)
	assert.EqualValues(t, 48*kib, r.pool.Total()-r.pool.Available())
	r.read(b)
	r.a.Complete(b, 0, -1)
	r.empty()
}

// Architecture 3.11, ACC-35: a batch's memory follows its contents, not batch.size: it begins with a small slab, or with what
// the partition's last batch had, and grows slab by slab, the header counted once. (Java takes batch.size for each. Its chunked
// strategy begins another batch where the buffer refuses a chunk; here the append waits for it, since the batch that it
// would close early is what it waits for.)
func TestMemoryFollowsContents(t *testing.T) {
	r := newRig(t, withBatch(512*kib), withLinger(time.Hour))
	r.lead(orders, 1, 1)
	used := func() int { return int(r.pool.Total() - r.pool.Available()) }
	r.put(0, 100)
	assert.Equal(t, bufferpool.SmallSlabSize, used())
	r.put(0, 2*kib)
	assert.Equal(t, bufferpool.SmallSlabSize+bufferpool.SlabSize, used())
	r.a.BeginFlush()
	r.completeAll(r.drain(1))
	r.a.EndFlush()
	assert.Zero(t, used())
	r.put(0, 100) // the last batch had more than a small slab
	assert.Equal(t, bufferpool.SlabSize, used())
	r.put(1, 100) // another partition
	assert.Equal(t, bufferpool.SlabSize+bufferpool.SmallSlabSize, used())
}
