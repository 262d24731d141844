package accumulator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/protocol"
)

// static is a callback that costs nothing.
func static(Result, error) {}

// cycle is one turn of a sender that completes at once what it drains, of one request to node 1, without allocating
// anything itself.
type cycle struct {
	r     *rig
	dst   []*ProducerBatch
	nodes []int32
}

func (c *cycle) turn() int {
	r := c.r
	now := r.peek()
	r.a.SetNode(1, true, 0)
	r.a.Ready(r.snap, now)
	c.dst = r.a.Drain(c.dst[:0], 1, 1<<20, now, nil)
	for _, b := range c.dst {
		b.Hold()
	}
	r.a.PrepareSleep(now, now.Add(time.Second))
	r.a.Awake()
	for _, b := range c.dst {
		r.a.Unhold(b, now)
		b.Landed()
		r.a.Complete(b, 0, -1)
		r.a.Recheck(b, now)
		b.Forget()
	}
	return len(c.dst)
}

// perRecord are the allocations of a record, from its append to its callback, in the long run. (AllocsPerRun cuts off the
// fraction, hence many at a time.)
func perRecord(r *rig, cb Callback, future, sticky bool, value int) float64 {
	const records = 2000
	topic, md := r.a.Topic(orders), r.snap.Topic(orders)
	c := &cycle{r: r}
	rec := Record{Timestamp: -1, Key: make([]byte, 10), Value: make([]byte, value), Headers: []protocol.Header{{Key: "k", Value: make([]byte, 5)}}}
	ctx := r.t.Context()
	next := int32(0)
	run := func() {
		for i := range records {
			rec.Partition = next % int32(md.Count())
			if sticky {
				rec.Partition = anyOf
			}
			next++
			_, _, err := r.a.Append(ctx, topic, md, &rec, cb, future, 0)
			require.NoError(r.t, err)
			if i%100 == 0 {
				for c.turn() > 0 {
				}
			}
		}
	}
	for range 3 {
		run()
	}
	return testing.AllocsPerRun(5, run) / records
}

// Allocations of a record in the long run, its share of its batch and request included.
const (
	// Nothing is made for a record or a batch that was not made before.
	ceilingAppend = 0
	// One for each change of partition, here every 64 KiB.
	ceilingSticky = 0.003
	// Here 25 records share a batch: a slice of their sizes and times for each, and its share of a chunk of results.
	ceilingFuture = 0.1
	// A batch of one keeps size and time in its result, which is one of 32 that are made at a time.
	ceilingFutureAlone = 0.04
	// A result of its own, since it is large what such a chunk would keep alive.
	ceilingFutureLarge = 1.01
	// Wait needs no channel of its own.
	ceilingWait = 0.04
	// Nor does a list of those who wait for one batch; its result and its records' sizes are made many at a time.
	ceilingWaitShared = 0.015
)

func TestAllocationCeilings(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks allocate")
	}
	if raceEnabled {
		t.Skip("under the race detector sync.Pool drops some of what it is given")
	}
	for _, tt := range []struct {
		name           string
		cb             Callback
		future, sticky bool
		value          int
		set            []func(*Config)
		limit          float64
	}{
		{"nobody asks", nil, false, false, 100, nil, ceilingAppend},
		{"callback", static, false, false, 100, nil, ceilingAppend},
		{"callback, linger", static, false, false, 100, []func(*Config){withLinger(time.Hour)}, ceilingAppend},
		{"callback, larger than a slab", static, false, false, 20_000, nil, ceilingAppend},
		{"callback, lz4", static, false, false, 100, []func(*Config){withCodec(protocol.CodecLZ4)}, ceilingAppend},
		{"callback, sticky", static, false, true, 100, nil, ceilingSticky},
		{"callback, sticky, adaptive", static, false, true, 100, []func(*Config){func(c *Config) { c.Adaptive = true }}, ceilingSticky},
		{"future", nil, true, false, 100, nil, ceilingFuture},
		{"both", static, true, false, 100, nil, ceilingFuture},
		{"future, batches of one", nil, true, false, 100, []func(*Config){withBatch(150)}, ceilingFutureAlone},
		{"future, large batches of one", nil, true, false, 20_000, nil, ceilingFutureLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, append([]func(*Config){withPool(32 << 20), withBatch(16 * kib), func(c *Config) { c.StickyThreshold = 64 * kib }}, tt.set...)...)
			r.lead(orders, 1, 1, 1, 1)
			got := perRecord(r, tt.cb, tt.future, tt.sticky, tt.value)
			t.Logf("%.5f allocations a record", got)
			assert.LessOrEqual(t, got, tt.limit)
			r.a.StartClosing()
			for (&cycle{r: r}).turn() > 0 {
			}
			r.empty()
		})
	}
}

// onePartition is a rig with one, its sender, and an append of a few bytes to it that asks for a future.
func onePartition(t *testing.T) (*rig, *cycle, func() Handle) {
	if invariants.Enabled || raceEnabled {
		t.Skip("the checks allocate") // CI runs it without them too
	}
	r := newRig(t, withPool(32<<20))
	r.lead(orders, 1)
	topic, md, ctx := r.a.Topic(orders), r.snap.Topic(orders), t.Context()
	rec := Record{Timestamp: -1, Value: make([]byte, 10)}
	return r, &cycle{r: r}, func() Handle {
		h, _, err := r.a.Append(ctx, topic, md, &rec, nil, true, 0)
		require.NoError(t, err)
		return h
	}
}

// A wait on a future makes no channel for each call (Done does).
func TestWaitAllocations(t *testing.T) {
	r, c, future := onePartition(t)
	// The sender's turn is taken by the wake-up, which makes this a wait in one goroutine.
	r.a.cfg.Linger, r.a.lingers = time.Hour, true
	sleep := func() {
		now := r.peek()
		require.True(t, r.a.PrepareSleep(now, now.Add(time.Hour)))
	}
	r.a.cfg.Wake = func() {
		for c.turn() > 0 {
		}
		sleep()
	}
	sleep()
	ctx := t.Context()
	const records = 320
	assert.LessOrEqual(t, testing.AllocsPerRun(10, func() {
		for range records {
			res, err := future().Wait(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 10, res.ValueSize)
		}
	})/records, ceilingWait)
}

// Those who wait for records of one batch make no list of themselves: the list for sixteen grew four times.
func TestWaitersOfOneBatchAllocations(t *testing.T) {
	r, c, future := onePartition(t)
	var waiting [16]*waiter
	const batches = 320
	run := func() {
		for range batches {
			for i := range waiting {
				h := future()
				waiting[i] = r.a.waits.Get().(*waiter)
				waiting[i].index = h.i
				require.True(t, h.r.add(waiting[i]))
			}
			require.Equal(t, 1, c.turn())
			for _, w := range waiting {
				<-w.ch
				r.a.waits.Put(w)
			}
		}
	}
	run()
	got := testing.AllocsPerRun(10, run) / batches
	t.Logf("%.5f allocations a batch", got)
	assert.LessOrEqual(t, got, float64(len(waiting))*ceilingWaitShared)
}
