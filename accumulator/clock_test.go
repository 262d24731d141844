package accumulator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reading counts how often f asks the clock.
func (r *rig) reading(f func()) int {
	before := r.clock.reads.Load()
	f()
	return int(r.clock.reads.Load() - before)
}

// Performance design (a reading costs half of an append): while a batch fills fast, its opening reads the clock and then
// every sixteenth record.
func TestClockIsReadEverySixteenthRecord(t *testing.T) {
	for _, linger := range []time.Duration{0, 5 * ms, 10 * ms} {
		r := newRig(t, withLinger(linger))
		r.lead(orders, 1)
		for i := range 100 {
			want := 0
			if i%clockEvery == 0 {
				want = 1
			}
			assert.Equal(t, want, r.reading(func() { r.put(0, 10) }), "record %d", i)
		}
	}
}

// With a linger beyond 10 ms a shared reading could be as old as that: every record reads the clock.
func TestClockIsPreciseWithALongLinger(t *testing.T) {
	r := newRig(t, withLinger(10*ms+1))
	r.lead(orders, 1)
	for i := range 50 {
		assert.Equal(t, 1, r.reading(func() { r.put(0, 10) }), "record %d", i)
		r.clock.advance(ms / 10)
	}
	r.a.StartClosing()
	h, records := r.read(r.drainOne(1))
	for i, rec := range records {
		assert.Equal(t, t0.Add(time.Duration(i)*ms/10).UnixMilli(), h.Timestamp(rec))
	}
}

// Records that bring a time of their own do not ask: only the age of their batch counts.
func TestClockIsNotReadForRecordsWithATime(t *testing.T) {
	for _, linger := range []time.Duration{0, time.Second} {
		r := newRig(t, withLinger(linger))
		r.lead(orders, 1)
		for i := range 50 {
			want := 0
			if i == 0 {
				want = 1
			}
			assert.Equal(t, want, r.reading(func() { r.record(orders, Record{Timestamp: 5}, nil) }))
		}
	}
}

// A batch that stays open beyond its linger, because its node cannot take it, may stay so for long: it reads the clock for
// each record. So does one without a linger, whose node can take nothing when it begins.
func TestClockIsPreciseWhenOverdue(t *testing.T) {
	t.Run("linger", func(t *testing.T) {
		r := newRig(t, withLinger(5*ms))
		r.lead(orders, 1)
		r.put(0, 10)
		r.full[1] = true
		r.ready()
		r.clock.advance(ms)
		assert.Zero(t, r.reading(func() { r.put(0, 10) }))
		r.clock.advance(4 * ms)
		r.ready()
		r.staysPrecise()
	})
	t.Run("no linger", func(t *testing.T) {
		r := newRig(t)
		r.lead(orders, 1)
		r.put(0, 10)
		r.completeAll(r.drain(1))
		r.full[1] = true
		r.put(0, 10)
		r.ready()
		r.staysPrecise()
	})
}

func (r *rig) staysPrecise() {
	for range 20 {
		r.clock.advance(time.Second)
		assert.Equal(r.t, 1, r.reading(func() { r.put(0, 10) }))
		d := r.a.deque(r.a.Topic(orders), 0, 1)
		assert.Equal(r.t, r.peek().UnixMilli(), d.tail().slots[len(d.tail().slots)-1].timestamp)
	}
}

// An append that waits for nothing reads the clock once at most, whatever it meets: the end of a slab, a full batch, a
// switch to another partition. A record's time lies between its batch's opening and now.
func TestClockIsReadOnceAtMost(t *testing.T) {
	for _, linger := range []time.Duration{0, 5 * ms, time.Second} {
		t.Run(fmt.Sprint(linger), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, 3))
			r := newRig(t, withLinger(linger), withBatch(40*kib), withPool(256<<20), func(c *Config) { c.StickyThreshold = 10 * kib })
			r.lead(orders, 1, 1, 1)
			records, reads := 0, 0
			for range 5000 {
				rec := Record{Partition: int32(rng.IntN(4)) - 1, Timestamp: -1, Value: make([]byte, []int{0, 10, 100, 3000, 17_000, 50_000}[rng.IntN(6)])}
				n := r.reading(func() {
					_, p, err := r.a.Append(t.Context(), r.a.Topic(orders), r.snap.Topic(orders), &rec, nil, false, time.Hour)
					require.NoError(t, err)
					b := r.a.deque(r.a.Topic(orders), p, 3).tail()
					ts := b.slots[len(b.slots)-1].timestamp
					require.LessOrEqual(t, ts, r.peek().UnixMilli())
					require.GreaterOrEqual(t, ts, b.created.UnixMilli())
				})
				require.LessOrEqual(t, n, 1)
				records, reads = records+1, reads+n
				r.clock.advance(ms / 50)
				for rng.IntN(20) == 0 {
					r.completeAll(r.drain(1))
				}
			}
			if linger <= 10*ms {
				assert.Less(t, reads, records/2)
			}
		})
	}
}

// S-27: a record that had to wait for memory has the time at which it got in.
func TestTimeAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withPool(16*kib), withBatch(32*kib))
		r.lead(orders, 1, 1)
		r.put(1, 10*kib)
		done := r.waiting(Record{Partition: 0, Timestamp: -1}, time.Hour)
		r.clock.advance(time.Second)
		r.completeAll(r.drain(1))
		require.NoError(t, <-done)
		b := r.drainOne(1)
		h, _ := r.read(b)
		assert.Equal(t, r.peek().UnixMilli(), h.BaseTimestamp)
		r.a.Complete(b, 0, -1)

		// The same for an open batch that had to wait for a slab, with the record whose turn to read the clock it was.
		r = newRig(t, withPool(34*kib), withBatch(32*kib), withLinger(10*ms))
		r.lead(orders, 1, 1)
		for range clockEvery {
			r.put(0, 200)
		}
		others, ok := r.pool.TryAllocate(nil, 16*kib, false)
		require.True(t, ok)
		done = r.waiting(Record{Partition: 0, Timestamp: -1, Value: make([]byte, 20*kib)}, time.Hour)
		r.clock.advance(5 * ms)
		r.pool.Release(others)
		require.NoError(t, <-done)
		tail := r.a.deque(r.a.Topic(orders), 0, 2).tail()
		require.Len(t, tail.slots, clockEvery+1)
		assert.Equal(t, r.peek().UnixMilli(), tail.slots[clockEvery].timestamp)
	})
}
