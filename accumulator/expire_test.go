package accumulator

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/protocol"
)

func withDelivery(d time.Duration) func(*Config) {
	return func(c *Config) { c.DeliveryTimeout = d }
}

// ACC-15, S-84: a batch whose delivery timeout is over is given out to be ended, wherever it is: open, full, held by
// idempotence, in back-off, muted, without a leader, in flight. Not a moment before. Those that wait leave their queue.
func TestExpired(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, math.MaxInt32 * ms} {
		for _, codec := range []protocol.Codec{protocol.CodecNone, protocol.CodecGzip} {
			for where, put := range map[string]func(r *rig){
				"open":   func(r *rig) { r.put(0, 10) },
				"full":   func(r *rig) { r.record(orders, Record{Timestamp: -1, Value: noise(20 * kib)}, nil) },
				"closed": func(r *rig) { r.put(0, 10); r.a.deque(r.a.Topic(orders), 0, 2).closeForTest(r.a) },
				"muted":  func(r *rig) { r.put(0, 10); r.a.Mute(r.a.deque(r.a.Topic(orders), 0, 2).front()) },
				"held": func(r *rig) {
					r.put(0, 20*kib)
					g := newGate()
					g.closed[0] = true
					r.drainUpToWith(1, 1<<20, g)
				},
				"in back-off": func(r *rig) {
					r.put(0, 20*kib)
					b := r.drainOne(1)
					b.attempts = 100
					r.requeue(b)
				},
				"without a leader": func(r *rig) {
					r.record(orders, Record{Partition: 1, Timestamp: -1}, nil)
					r.ready()
				},
				"in flight": func(r *rig) { r.put(0, 20*kib); r.drainOne(1).Hold() },
			} {
				t.Run(fmt.Sprintf("%s/codec=%v/timeout=%v", where, codec, timeout), func(t *testing.T) {
					r := newRig(t, withDelivery(timeout), withLinger(2000*time.Hour), withCodec(codec), func(c *Config) {
						c.RetryBackoff, c.RetryBackoffMax = 2000*time.Hour, 2000*time.Hour
					})
					r.lead(orders, 1, -1)
					put(r)
					r.ready()
					now := r.peek()
					assert.Equal(t, now.Add(timeout), r.a.NextExpiry(now))
					r.clock.advance(timeout - 1)
					assert.Empty(t, r.a.Expired(r.peek()), "ACC-16")
					r.clock.advance(1)
					expired := r.a.Expired(r.peek())
					require.Len(t, expired, 1)
					b := expired[0]
					assert.Equal(t, where == "in flight", b.InFlight())
					assert.Zero(t, b.d.len())
					cb := &told{}
					b.slots[0].cb, b.callbacks = cb.OnCompletion, true
					r.a.Fail(b, errExpired, nil)
					assert.Equal(t, []error{errExpired}, cb.errs)
					assert.Empty(t, r.a.Expired(r.peek()))
					assert.True(t, r.a.NextExpiry(r.peek()).IsZero())
					assert.Empty(t, r.readyNodes())
					if where == "in flight" {
						assert.Less(t, r.pool.Available(), r.pool.Total())
						r.a.Unhold(b, r.peek())
						b.Landed()
						b.Forget()
					}
					r.empty()
				})
			}
		}
	}
}

// closeForTest closes the open batch and leaves it to be sealed, as an append does before it goes on to that.
func (d *deque) closeForTest(a *RecordAccumulator) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.closeLocked(d, d.tail())
	a.signal(d)
}

// ACC-16, PB-07: age counts from the first record, whatever happened to the batch since.
func TestAgeCountsFromTheFirstRecord(t *testing.T) {
	r := newRig(t, withDelivery(time.Second), withLinger(100*ms), noJitter)
	r.lead(orders, 1)
	r.put(0, 1)
	for range 4 {
		r.clock.advance(100 * ms)
		r.put(0, 1)
		b := r.drainOne(1)
		assert.EqualValues(t, 2, b.Count())
		r.a.Complete(b, 0, -1)
		r.put(0, 1)
	}
	created := r.peek()
	r.clock.advance(100 * ms)
	b := r.drainOne(1)
	r.clock.advance(500 * ms)
	r.requeue(b)
	assert.Equal(t, created, b.Created())
	assert.Equal(t, created.Add(time.Second), r.a.NextExpiry(r.peek()))
	r.clock.advance(400 * ms)
	assert.Equal(t, []*ProducerBatch{b}, r.a.Expired(r.peek()))
	assert.Empty(t, r.drain(1))
}

// ACC-23: a batch that was sent again and is overdue now: whoever asks first has it. Drained, it is not lost; expired, it is
// not drained.
func TestExpiredOrDrained(t *testing.T) {
	r := newRig(t, withDelivery(time.Second), noJitter)
	r.lead(orders, 1)
	r.put(0, 1)
	b := r.drainOne(1)
	r.requeue(b)
	r.clock.advance(time.Second)
	assert.Same(t, b, r.drainOne(1))
	r.requeue(b)
	r.a.Mute(b)
	r.clock.advance(time.Second)
	assert.Equal(t, []*ProducerBatch{b}, r.a.Expired(r.peek()))
	r.a.Unmute(b, r.peek())
	assert.Empty(t, r.drain(1))
	r.a.Fail(b, errExpired, nil)
	r.empty()
}

// S-82: the oldest go first, and those behind that are not due stay; what comes after them in their partition can be sent.
func TestExpiredOldestFirst(t *testing.T) {
	r := newRig(t, withDelivery(time.Second), withBatch(1))
	r.lead(orders, 1, 1)
	for i := range 6 {
		r.put(int32(i%2), 1)
		r.clock.advance(100 * ms)
	}
	r.clock.advance(time.Second - 300*ms)
	expired := r.a.Expired(r.peek())
	assert.Equal(t, []int32{0, 1, 0, 1}, partitionsOf(expired))
	for i, b := range expired {
		assert.Equal(t, t0.Add(time.Duration(i)*100*ms), b.Created())
		r.a.Fail(b, errExpired, nil)
	}
	assert.Equal(t, []int32{0, 1}, partitionsOf(r.drain(1)))
}

// PB-06, FC-050: a clock that goes back makes nothing overdue, and nothing overflows however far it jumps.
func TestClockThatJumps(t *testing.T) {
	r := newRig(t, withDelivery(time.Second), withLinger(10*ms))
	r.lead(orders, 1)
	r.put(0, 1)
	for _, jump := range []time.Duration{-time.Hour, -100 * 365 * 24 * time.Hour} {
		now := r.peek().Add(jump)
		assert.Empty(t, r.a.Expired(now))
		assert.Empty(t, r.a.Ready(r.snap, now).Nodes)
		assert.Equal(t, t0.Add(time.Second), r.a.NextExpiry(now))
	}
	future := r.peek().Add(math.MaxInt64)
	assert.Equal(t, []int32{1}, r.a.Ready(r.snap, future).Nodes)
	expired := r.a.Expired(future)
	require.Len(t, expired, 1)
	r.a.Fail(expired[0], errExpired, nil)
	r.empty()
}

// A delivery timeout of nothing is a very short one, and one of for ever never ends.
func TestDeliveryTimeoutBounds(t *testing.T) {
	r := newRig(t, withDelivery(0))
	r.lead(orders, 1)
	r.put(0, 1)
	assert.Empty(t, r.a.Expired(r.peek()))
	r.clock.advance(1)
	assert.Len(t, r.a.Expired(r.peek()), 1)

	r = newRig(t, withDelivery(math.MaxInt64))
	r.lead(orders, 1)
	r.put(0, 1)
	r.clock.advance(200 * 365 * 24 * time.Hour)
	assert.Empty(t, r.a.Expired(r.peek()))
	assert.True(t, r.a.NextExpiry(r.peek()).After(r.peek()))
}

// EXT-08, KAFKA-19012, FC-014, S-84: the memory of a batch that ended in flight stays where it is until no connection reads
// it: whatever is appended meanwhile lies elsewhere. Then it goes back, once, and the answer, which may come before or
// after, frees nothing more.
func TestMemoryOfABatchInFlight(t *testing.T) {
	for name, end := range map[string]func(r *rig, b *ProducerBatch){
		"released, then answered": func(r *rig, b *ProducerBatch) {
			r.a.Unhold(b, r.peek())
			assert.Equal(t, r.pool.Total()-16*kib, r.pool.Available(), "back in the pool")
			b.Landed()
			b.Forget()
		},
		"answered, then released": func(r *rig, b *ProducerBatch) {
			b.Landed()
			b.Forget()
			assert.Equal(t, r.pool.Total()-32*kib, r.pool.Available(), "still read")
			r.a.Unhold(b, r.peek())
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withDelivery(time.Second), withPool(48*kib))
			r.lead(orders, 1, 1)
			r.record(orders, Record{Partition: 0, Timestamp: 1, Value: noise(10 * kib)}, nil)
			b := r.drainOne(1)
			b.Hold()
			sent := b.Slabs()
			before := joined(b)
			r.clock.advance(time.Second)
			require.Len(t, r.a.Expired(r.peek()), 1)
			r.a.Fail(b, errExpired, nil)
			assert.True(t, b.Done())
			assert.Equal(t, r.pool.Total()-16*kib, r.pool.Available())

			// The pool gives out all it has, and that is written to.
			r.put(1, 10*kib)
			others, ok := r.pool.TryAllocate(nil, 16*kib, false)
			require.True(t, ok)
			for _, s := range others {
				clear(s[:cap(s)])
			}
			_, ok = r.pool.TryAllocate(nil, 1, false)
			require.False(t, ok)
			assert.Equal(t, before, append([]byte(nil), sent[0]...))
			r.pool.Release(others)

			end(r, b)
			r.completeAll(r.drain(1))
			r.empty()
		})
	}
}

// The same for a batch that two connections read: sent, not answered in time, sent again elsewhere.
func TestMemoryOfABatchSentTwice(t *testing.T) {
	r := newRig(t, noJitter)
	r.lead(orders, 1)
	r.put(0, 10)
	b := r.drainOne(1)
	b.Hold()
	b.Landed()
	r.requeue(b)
	b.Forget()
	r.move(orders, 0, 2, 2)
	require.Same(t, b, r.drainOne(2))
	b.Hold()
	assert.True(t, b.InFlight())
	r.a.Complete(b, 0, -1)
	r.a.Unhold(b, r.peek())
	assert.Less(t, r.pool.Available(), r.pool.Total())
	b.Landed()
	r.a.Unhold(b, r.peek())
	assert.Equal(t, r.pool.Total(), r.pool.Available())
	b.Forget()
	r.empty()
}

// What waits for memory gets that of an expired batch.
func TestExpiryFreesMemoryForWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withDelivery(time.Second), withPool(bufferpool.SlabSize))
		r.lead(orders, -1, -1)
		r.put(0, 10*kib)
		done := r.waiting(Record{Partition: 1, Timestamp: -1}, time.Hour)
		r.clock.advance(time.Second)
		for _, b := range r.a.Expired(r.peek()) {
			r.a.Fail(b, errExpired, nil)
		}
		require.NoError(t, <-done)
	})
}
