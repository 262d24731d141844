package accumulator

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/metadata"
)

// inTurn is a random source that draws 1, 2, 0, 1, 2, ... of three.
func inTurn() func(*Config) {
	next := 0
	return func(c *Config) {
		c.Rand = func(n int) int {
			next++
			return next % n
		}
	}
}

// goes appends a record of n bytes without a partition, and tells where it went.
func (r *rig) goes(n int) int32 {
	r.t.Helper()
	_, p, err := r.a.Append(context.Background(), r.a.Topic(orders), r.snap.Topic(orders), &Record{Partition: anyOf, Timestamp: -1, Value: make([]byte, n)}, nil, false, 0)
	require.NoError(r.t, err)
	return p
}

// ACC-24, S-35, S-57: records without a partition stay on one until batch.size bytes went there and the batch is complete:
// passing the limit alone is no reason, since it would leave a half-full batch behind. Then they move on, in the
// order of the random source, with the record that found the batch full.
func TestStickyUntilTheBatchIsComplete(t *testing.T) {
	r := newRig(t, withBatch(10*kib), withLinger(time.Hour), inTurn(), func(c *Config) { c.StickyThreshold = 10 * kib })
	r.lead(orders, 1, 1, 1)
	var went []int32
	for range 40 {
		went = append(went, r.goes(1*kib))
	}
	// Nine records of 1 KiB and framing fit into a batch. They are fewer bytes than the limit: the tenth record, in a
	// second batch, passes the limit, and only when that batch is complete it goes on (at most twice the limit).
	want := slices.Concat(slices.Repeat([]int32{1}, 18), slices.Repeat([]int32{2}, 18), slices.Repeat([]int32{0}, 4))
	assert.Equal(t, want, went)

	r = newRig(t, withBatch(9*kib+300), withLinger(time.Hour), inTurn(), func(c *Config) { c.StickyThreshold = 9 * kib })
	r.lead(orders, 1, 1, 1)
	went = nil
	for range 30 {
		went = append(went, r.goes(1*kib))
	}
	want = slices.Concat(slices.Repeat([]int32{1}, 9), slices.Repeat([]int32{2}, 9), slices.Repeat([]int32{0}, 9), slices.Repeat([]int32{1}, 3))
	assert.Equal(t, want, went, "a batch of more than the limit is enough")
	assert.Equal(t, []int32{1}, r.readyNodes())
	for _, b := range r.drain(1) {
		assert.EqualValues(t, 9, b.Count())
	}
}

// ACC-24 (deviation): where batches may be larger than the limit, records move on at the limit and leave the batch
// half full, to be filled when they come back. (Java's limit is its batch size.)
func TestStickyThresholdBelowBatchSize(t *testing.T) {
	r := newRig(t, withBatch(64*kib), withLinger(time.Hour), inTurn(), func(c *Config) { c.StickyThreshold = 4 * kib })
	r.lead(orders, 1, 1, 1)
	var went []int32
	for range 13 {
		went = append(went, r.goes(1*kib))
	}
	assert.Equal(t, []int32{1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0, 1}, went)
	assert.EqualValues(t, 5, r.a.deque(r.a.Topic(orders), 1, 3).tail().Count())
}

// S-57: the choice is looked at again under the partition's lock: a record never goes to a partition that others have
// left.
func TestStickyChoiceIsCheckedUnderTheLock(t *testing.T) {
	r := newRig(t, withLinger(time.Hour), inTurn())
	md := r.lead(orders, 1, 1, 1)
	topic := r.a.Topic(orders)
	assert.EqualValues(t, 1, r.goes(1))
	d := r.a.deque(topic, 1, 3)
	d.mu.Lock()
	went := make(chan int32)
	go func() { went <- r.goes(1) }() // waits for the lock, unless it is late: then it sees the new choice at once
	topic.sticky.first.SwitchFrom(topic.sticky.first.Peek(md), md)
	d.mu.Unlock()
	assert.EqualValues(t, 2, <-went)
	assert.EqualValues(t, 1, d.tail().Count())
}

// FC-057: records without a partition leave one that lost its leader as soon as the sender knows, however few they are.
func TestFC057LeaderlessPartitionIsLeft(t *testing.T) {
	r := newRig(t, withLinger(time.Hour), inTurn())
	r.lead(orders, 1, 1, 1)
	r.ready()
	assert.EqualValues(t, 1, r.goes(1))
	r.move(orders, 1, -1, 1)
	assert.EqualValues(t, 1, r.goes(1), "the sender does not know")
	r.ready()
	assert.EqualValues(t, 0, r.goes(1))
	r.move(orders, 1, 1, 2)
	r.ready()
	assert.EqualValues(t, 0, r.goes(1), "nothing is left without a reason")
	for p := range int32(3) {
		r.move(orders, p, -1, 3)
	}
	r.ready()
	assert.EqualValues(t, 0, r.goes(1), "nor for nothing better")
}

// ACC-25, FC-053: the partition that is drawn next is the one with the shortest queue. It takes no change of metadata to be told. (The weights of KIP-794
// are what chance favours in the first place; see partitioner.Load.)
func TestAdaptiveChoice(t *testing.T) {
	r := newRig(t, withBatch(1), withLinger(time.Hour), adaptive)
	r.lead(orders, 1, 1, 1)
	r.ready()
	for p, n := range []int{1, 7, 2} {
		for range n {
			r.put(int32(p), 1)
		}
	}
	r.clock.advance(loadEvery)
	r.ready()
	assert.Equal(t, []int{14, 0, 0}, r.draws(14))
	for range 2 {
		r.put(0, 1)
	}
	assert.Equal(t, []int{0, 0, 14}, r.draws(14), "now, not at the next look")

	// When all queues are of one length again, all partitions are drawn alike.
	r.a.StartClosing()
	for len(r.drain(1)) > 0 {
	}
	r.clock.advance(loadEvery)
	r.ready()
	for _, n := range r.draws(3000) {
		assert.InDelta(t, 1000, n, 150)
	}
}

// ACC-25: the weights of KIP-794 are the queues' as of the last look, 1, 7 and 2 batches: 7, 1 and 6 draws of 14, where nothing waits now.
func TestAdaptiveChoiceByWeight(t *testing.T) {
	r := newRig(t, withBatch(1), withLinger(time.Hour), adaptive)
	r.lead(orders, 1, 1, 1)
	for p, n := range []int{1, 7, 2} {
		for range n {
			r.put(int32(p), 1)
		}
	}
	r.clock.advance(loadEvery)
	r.ready()
	r.a.StartClosing()
	for len(r.drain(1)) > 0 {
	}
	for p, n := range r.draws(14_000) {
		assert.InDelta(t, []int{7000, 1000, 6000}[p], n, 300, "partition %d", p)
	}
}

// adaptive has chance be the same in each run.
func adaptive(c *Config) {
	c.Adaptive, c.Rand = true, rand.New(rand.NewPCG(1, 2)).IntN
}

// draws counts which partitions the sticky partitioner draws.
func (r *rig) draws(n int) []int {
	md := r.snap.Topic(orders)
	sticky := r.a.Topic(orders).sticky.first
	counts := make([]int, md.Count())
	for range n {
		// As if to leave a partition that there is none of, so that no draw is put off to its neighbour.
		c := sticky.Peek(md)
		sticky.Advance(c, 1<<30, false, md)
		counts[sticky.Peek(md).Partition]++
	}
	return counts
}

// Without adaptive partitioning lengths do not matter (partitioner.adaptive.partitioning.enable).
func TestNotAdaptive(t *testing.T) {
	draw := 0
	r := newRig(t, withBatch(1), withLinger(time.Hour), func(c *Config) {
		c.Rand = func(n int) int { draw++; return (draw - 1) % n }
	})
	r.lead(orders, 1, 1)
	r.put(0, 1)
	r.put(1, 1)
	r.put(1, 1)
	r.ready()
	draw = 0
	assert.Equal(t, []int{3, 3}, r.draws(6))
}

// FC-056: a topic that has grown has no load until every partition has a queue: the old one would keep the new
// partitions out. So it is with one that shrinks.
func TestLoadOfATopicThatGrows(t *testing.T) {
	r := newRig(t, withBatch(1), withLinger(time.Hour), adaptive)
	r.lead(orders, 1, 1)
	r.put(0, 1)
	r.put(1, 1)
	r.put(1, 1)
	r.ready()
	assert.Equal(t, []int{6, 0}, r.draws(6))
	r.lead(orders, 1, 1, 1, 1)
	r.ready()
	got := r.draws(800)
	assert.Equal(t, []int{0, 0}, got[:2], "the new ones, for which nothing waits")
	assert.InDelta(t, got[2], got[3], 120)
}

// BIP-05, BIP-06, KIP-1123: with a rack of our own, records stay on leaders in it, and the queues of these alone count.
func TestAdaptiveChoiceWithinTheRack(t *testing.T) {
	r := newRig(t, withBatch(1), withLinger(time.Hour), adaptive)
	r.md = metadata.New(metadata.Config{Rack: "odd"})
	r.lead(orders, 1, 2, 3, 4)
	for p, n := range []int{5, 1, 3, 2} {
		for range n {
			r.put(int32(p), 1)
		}
	}
	r.ready()
	assert.Equal(t, []int{0, 0, 8, 0}, r.draws(8))
	r.move(orders, 0, 2, 2)
	r.move(orders, 2, 4, 2)
	r.ready() // none is left in the rack
	assert.Equal(t, []int{0, 8, 0, 0}, r.draws(8))
}

// ACC-26: partitions of a node that has had something to be sent, and could take nothing, for longer than the
// availability time-out are not chosen, until it takes something. A node that is only being connected is not one.
func TestAvailabilityTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		r := newRig(t, withBatch(1), adaptive, func(c *Config) { c.AvailabilityTimeout = timeout })
		r.lead(orders, 1, 2)
		look := func() string {
			r.ready()
			switch got := r.draws(50); {
			case got[0] > 0 && got[1] > 0:
				return "both"
			case got[0] > 0:
				return "the first"
			}
			return "the second"
		}
		r.put(0, 1)
		r.put(1, 1)
		assert.Equal(t, "both", look(), "being connected")
		r.full[2] = true
		assert.Equal(t, "both", look())
		r.clock.advance(time.Second)
		assert.Equal(t, "both", look(), "not longer than that")
		r.clock.advance(ms)
		want := "the first"
		if timeout == 0 {
			want = "both"
		}
		r.clock.advance(loadEvery)
		assert.Equal(t, want, look())
		r.full[2] = false
		r.clock.advance(loadEvery)
		assert.Equal(t, "both", look())
	}
}

// ACC-27: with two thirds of a batch in each time of linger, that is what each batch has: to move on at batch.size bytes,
// in the midst of the second, would leave a third of one behind each time.
func TestNoFractionalBatches(t *testing.T) {
	const size = 16 * kib
	r := newRig(t, withBatch(size), withLinger(10*ms), func(c *Config) { c.StickyThreshold = size })
	r.lead(orders, 1, 1, 1)
	for range 30 {
		for sent := 0; sent < size*2/3; sent += 200 {
			r.goes(200)
		}
		r.clock.advance(10 * ms)
		b := r.drainOne(1)
		assert.Greater(t, b.Size(), size/2)
		assert.Less(t, b.Size(), size)
		r.a.Complete(b, 0, -1)
	}
	r.empty()
}

// S-36, BIP-02: partitions without a leader are not chosen while another has one; when none has, any is.
func TestStickyAvoidsPartitionsWithoutALeader(t *testing.T) {
	r := newRig(t, withBatch(1), withLinger(time.Hour))
	r.lead(orders, -1, 1, -1)
	for range 20 {
		assert.EqualValues(t, 1, r.goes(1))
	}
	r.lead(orders, -1, -1, -1)
	went := map[int32]bool{}
	for range 100 {
		went[r.goes(1)] = true
	}
	assert.Len(t, went, 3)
}

// S-37: a topic that shrinks (deleted and created again) is not written to where it no longer is.
func TestStickyOfATopicThatShrinks(t *testing.T) {
	r := newRig(t, withLinger(time.Hour), func(c *Config) { c.Rand = func(n int) int { return n - 1 } })
	r.lead(orders, 1, 1, 1)
	assert.EqualValues(t, 2, r.goes(1))
	md := r.lead(orders, 1)
	require.Equal(t, 1, md.Count())
	assert.EqualValues(t, 0, r.goes(1))
}

// ACC-34: an append that meets one partition after the other that others leave goes on until it has one; what it was
// granted goes with it.
func TestGrantSurvivesASwitch(t *testing.T) {
	r := newRig(t, withBatch(16*kib), withLinger(time.Hour), inTurn())
	md := r.lead(orders, 1, 1, 1)
	topic := r.a.Topic(orders)
	choice := topic.sticky.first.Peek(md)
	d := r.a.deque(topic, choice.Partition, 3)
	granted, ok := r.pool.TryAllocate(nil, 16*kib, false)
	require.True(t, ok)
	at := attempt{granted: granted}
	d.mu.Lock()
	topic.sticky.first.Advance(choice, 1<<20, true, md) // half full: stays, but is due
	choice = topic.sticky.first.Peek(md)
	v := r.a.tryAppend(d, topic, md, choice, &Record{Timestamp: -1}, &at)
	d.mu.Unlock()
	require.Equal(t, appended, v)
	assert.Nil(t, at.granted)
	assert.EqualValues(t, r.pool.Total()-16*kib, r.pool.Available(), "the grant was used")
}

// The partition that was tried is named also when the append failed after it was chosen.
func TestFailedAppendNamesThePartition(t *testing.T) {
	r := newRig(t, withPool(4*kib))
	r.lead(orders, 1, 1)
	for _, p := range []int32{1, anyOf} {
		_, got, err := r.a.Append(context.Background(), r.a.Topic(orders), r.snap.Topic(orders), &Record{Partition: p, Value: make([]byte, 5*kib)}, nil, false, 0)
		require.Error(t, err)
		assert.GreaterOrEqual(t, got, int32(0))
		if p >= 0 {
			assert.Equal(t, p, got)
		}
	}
}

// The topic's metadata is told of use as often as the clock is read, so that it stays in the interest set; a topic with
// batches that are not done is in use anyway.
func TestInUse(t *testing.T) {
	r := newRig(t, withLinger(time.Hour))
	r.lead(orders, 1)
	assert.False(t, r.a.InUse(orders))
	r.a.Topic(orders)
	assert.False(t, r.a.InUse(orders))
	r.put(0, 1)
	assert.True(t, r.a.InUse(orders))
	assert.False(t, r.a.InUse("other"))
	r.a.BeginFlush()
	b := r.drainOne(1)
	assert.True(t, r.a.InUse(orders))
	r.a.Fail(b, errors.New("failed"), nil)
	assert.False(t, r.a.InUse(orders))
}
