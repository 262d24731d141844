package accumulator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// ACC-01, S-78: when the size ends a drain after one batch, the next one begins with the partition after it, and so
// on round the node; a muted partition is skipped.
func TestDrainGoesRoundThePartitions(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1, 1, 1, 1)
	for range 3 {
		for p := range int32(4) {
			r.put(p, 20*kib)
		}
	}
	r.ready()
	var got []int32
	for range 6 {
		got = append(got, partitionsOf(r.drainUpTo(1, 30*kib))...)
	}
	assert.Equal(t, []int32{0, 1, 2, 3, 0, 1}, got)
	r.a.Mute(r.a.deque(r.a.Topic(orders), 2, 4).front())
	assert.Equal(t, []int32{3}, partitionsOf(r.drainUpTo(1, 30*kib)))
	assert.Equal(t, []int32{0, 1, 3}, partitionsOf(r.drainUpTo(1, 1<<20)))
}

// ACC-01, S-78: one that was passed over because there was no room keeps its turn.
func TestDrainKeepsTheTurn(t *testing.T) {
	r := newRig(t, withBatch(64*kib))
	r.lead(orders, 1, 1, 1)
	r.put(0, 1*kib)
	r.put(1, 50*kib)
	r.put(2, 1*kib)
	r.ready()
	assert.Equal(t, []int32{0}, partitionsOf(r.drainUpTo(1, 40*kib)), "the order holds although partition 2 would fit")
	r.put(0, 1*kib)
	r.ready()
	assert.Equal(t, []int32{1}, partitionsOf(r.drainUpTo(1, 40*kib)))
	assert.Equal(t, []int32{2, 0}, partitionsOf(r.drainUpTo(1, 40*kib)))
}

// ACC-05, S-77: as many batches as fit, at most one of each partition.
func TestDrainBounds(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1, 1, 2)
	for range 2 {
		for p := range int32(3) {
			r.put(p, 20*kib)
		}
	}
	r.ready()
	assert.Equal(t, []int32{0}, partitionsOf(r.drainUpTo(1, 40*kib)))
	assert.Equal(t, []int32{1, 0}, partitionsOf(r.drainUpTo(1, 42*kib)))
	assert.Equal(t, []int32{2}, partitionsOf(r.drainUpTo(2, 1<<20)))
	assert.Equal(t, []int32{1}, partitionsOf(r.drainUpTo(1, 1<<20)))
}

// S-79: a batch that is larger than a request may be goes alone.
func TestLargeBatchGoesAlone(t *testing.T) {
	for _, codec := range []protocol.Codec{protocol.CodecNone, protocol.CodecGzip} {
		r := newRig(t, withCodec(codec))
		r.lead(orders, 1, 1, 1)
		r.record(orders, Record{Partition: 0, Timestamp: -1, Value: noise(150 * kib)}, nil)
		r.record(orders, Record{Partition: 1, Timestamp: -1, Value: noise(150 * kib)}, nil)
		r.put(2, 10)
		r.ready()
		assert.Equal(t, []int32{0}, partitionsOf(r.drainUpTo(1, 100*kib)))
		assert.Equal(t, []int32{1}, partitionsOf(r.drainUpTo(1, 100*kib)))
		assert.Equal(t, []int32{2}, partitionsOf(r.drainUpTo(1, 100*kib)))
	}
}

// ACC-29: a node that leads nothing, or that nobody has heard of, has nothing to be drained; what the caller has
// drained already stays.
func TestDrainOfANodeWithoutPartitions(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1)
	r.put(0, 1)
	r.ready()
	b := &ProducerBatch{}
	for _, id := range []int32{2, -1, 77} {
		assert.Equal(t, []*ProducerBatch{b}, r.a.Drain([]*ProducerBatch{b}, id, 1<<20, r.clock.peek(), nil))
	}
	assert.Len(t, r.a.Drain([]*ProducerBatch{b}, 1, 1<<20, r.clock.peek(), nil), 2)
}

// EXT-01, S-80: a partition that idempotence holds back holds up nobody else (Java ends the node's drain there). It
// is looked at again when told so, and is neither stamped nor asked about meanwhile.
func TestGateHoldsOnlyItsPartition(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1, 1, 1)
	for p := range int32(3) {
		r.put(p, 20*kib)
	}
	g := newGate()
	g.closed[0], g.closed[1] = true, true
	drain := func() []int32 {
		r.ready()
		return partitionsOf(r.a.Drain(nil, 1, 1<<20, r.clock.peek(), g))
	}
	assert.Equal(t, []int32{2}, drain())
	assert.Equal(t, map[int32]int32{2: 1}, g.next)
	g.asked = nil
	assert.Empty(t, r.readyNodes())
	assert.Empty(t, drain())
	assert.Empty(t, g.asked)
	assert.True(t, r.a.HasUndrained())

	g.closed[1] = false
	d := r.a.deque(r.a.Topic(orders), 1, 3)
	r.a.Recheck(d.front(), r.clock.peek())
	assert.Equal(t, []int32{1}, r.readyNodes())
	assert.Equal(t, []int32{1}, drain())
	g.closed[0] = false
	r.a.RecheckAll(r.clock.peek())
	assert.Equal(t, []int32{0}, drain())
	r.a.RecheckAll(r.clock.peek())
	assert.False(t, r.a.HasUndrained())
}

// A partition that is held back goes on collecting: its open batch is not closed for a drain that does not come.
// (Closing it first made a small batch each time that an acknowledgement was awaited.)
func TestHeldPartitionGoesOnFilling(t *testing.T) {
	for _, codec := range []protocol.Codec{protocol.CodecNone, protocol.CodecLZ4} {
		r := newRig(t, withCodec(codec))
		r.lead(orders, 1)
		g := newGate()
		g.closed[0] = true
		for range 10 {
			r.put(0, 10)
			r.ready()
			assert.Empty(t, r.a.Drain(nil, 1, 1<<20, r.clock.peek(), g))
		}
		g.closed[0] = false
		r.a.RecheckAll(r.clock.peek())
		got := r.a.Drain(nil, 1, 1<<20, r.clock.peek(), g)
		require.Len(t, got, 1)
		assert.EqualValues(t, 10, got[0].Count())
		r.completeAll(got)
		r.empty()
	}
}

// Batches whose linger is more than half over go along with a request that goes anyway (Java lets them linger on).
func TestDrainTakesAlongWhatIsAlmostDue(t *testing.T) {
	r := newRig(t, withLinger(10*ms))
	r.lead(orders, 1, 1, 1, 1, 2)
	r.put(1, 10)
	r.put(4, 10)
	r.clock.advance(ms)
	r.put(2, 50*kib) // closed: too large
	r.put(3, 10)
	assert.Equal(t, []int32{2}, partitionsOf(r.drain(1)), "nothing is half due")
	r.put(0, 50*kib)
	r.clock.advance(4 * ms)
	assert.Equal(t, []int32{0, 1}, partitionsOf(r.drainUpToWith(1, 1<<20, newGate())))
	r.clock.advance(ms)
	r.put(0, 50*kib)
	r.ready()
	assert.Equal(t, []int32{0}, partitionsOf(r.drainUpTo(1, 50*kib)), "no room")
	r.put(0, 50*kib)
	g := newGate()
	g.closed[3] = true
	assert.Equal(t, []int32{0}, partitionsOf(r.drainUpToWith(1, 1<<20, g)), "held back")
	assert.Equal(t, []int32{2}, r.after(5*ms))
}

func (r *rig) drainUpToWith(node int32, maxBytes int, g Gate) []*ProducerBatch {
	r.ready()
	return r.a.Drain(nil, node, maxBytes, r.clock.peek(), g)
}

// after are the nodes that are ready in a while.
func (r *rig) after(d time.Duration) []int32 {
	r.clock.advance(d)
	return r.readyNodes()
}

// S-77: also of what goes along, one batch of a partition: Produce takes no second one.
func TestDrainNeverTakesTwoOfAPartition(t *testing.T) {
	r := newRig(t, withLinger(10*ms))
	r.lead(orders, 1, 1, 1)
	r.put(0, 10*kib)
	r.put(0, 10*kib) // the first is closed, the second open
	r.put(1, 10)
	r.clock.advance(6 * ms)
	assert.Equal(t, []int32{0, 1}, partitionsOf(r.drain(1)))
	assert.Equal(t, []int32{}, partitionsOf(r.drain(1)))
	assert.Equal(t, []int32{1}, r.after(4*ms), "the second is due with its linger")
	assert.Equal(t, []int32{0}, partitionsOf(r.drain(1)))
}

// S-81: draining notes when, and how often; the bytes are final.
func TestDrainNotesTheAttempt(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1)
	r.put(0, 10)
	created := r.clock.peek()
	r.clock.advance(7 * ms)
	b := r.drainOne(1)
	assert.Equal(t, created, b.Created())
	assert.Equal(t, created.Add(7*ms), b.Drained())
	assert.Equal(t, 1, b.Attempts())
	assert.Equal(t, orders, b.Topic().Name)
	assert.Equal(t, protocol.TopicPartition{Topic: orders}, b.TopicPartition())
	assert.Equal(t, protocol.CodecNone, b.Codec())
	r.requeue(b)
	r.clock.advance(time.Second)
	assert.Same(t, b, r.drainOne(1))
	assert.Equal(t, 2, b.Attempts())
	assert.Equal(t, created, b.Created(), "PB-07")
}

// A batch whose header has to change while a connection still reads it waits for that; so does its partition, and
// nobody else.
func TestHeaderIsNotRewrittenUnderAWriter(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1, 1)
	g := newGate()
	r.put(0, 10)
	r.ready()
	b := r.a.Drain(nil, 1, 1<<20, r.clock.peek(), g)[0]
	b.Hold()
	before := string(joined(b))
	b.Landed()
	r.requeue(b)
	b.SetProducer(protocol.ProducerID{ID: 7, Epoch: 2}, 0)
	r.put(1, 10)
	r.clock.advance(time.Second)
	assert.Equal(t, []int32{1}, partitionsOf(r.drainUpToWith(1, 1<<20, g)))
	assert.Equal(t, before, string(joined(b)))
	r.a.Unhold(b, r.clock.peek())
	b.Forget()
	assert.Equal(t, []int32{0}, partitionsOf(r.drainUpToWith(1, 1<<20, g)))
	h, _ := r.read(b)
	assert.EqualValues(t, 2, h.ProducerEpoch)
}

// What memory is asked for ahead is that of the batch that will be looked at, and nothing that is gone is held on to.
func TestExpectedIsTheFront(t *testing.T) {
	r := newRig(t, withLinger(time.Hour), withBatch(4*kib))
	r.lead(orders, 1)
	d := r.a.deque(r.a.Topic(orders), 0, 1)
	expects := func(b *ProducerBatch) {
		t.Helper()
		want := expected{}
		if b != nil {
			want = expected{b, &b.slabs[0][0]}
		}
		assert.Equal(t, want, d.expected)
	}
	r.put(0, 10)
	expects(nil)
	r.ready()
	expects(d.front())
	r.put(0, 4*kib) // does not fit any more
	r.put(0, 10)
	require.Equal(t, 3, d.len())
	r.ready()
	expects(d.front())
	second := d.q[d.head+1]
	first := r.drainOne(1)
	expects(second)
	r.requeue(first)
	r.ready()
	expects(d.front())
	for range 3 {
		r.clock.advance(time.Hour)
		r.completeAll(r.drain(1))
	}
	expects(nil)
	r.empty()
}

// Of a batch that a sealer is at nothing is looked at.
func TestNothingOfASealersBatchIsExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, gate := gated(t, 1)
		r.record(orders, Record{Timestamp: -1, Value: make([]byte, 2*kib)}, nil)
		synctest.Wait()
		r.ready()
		d := r.a.deque(r.a.Topic(orders), 0, 2)
		require.NotNil(t, d.front())
		assert.Zero(t, d.expected)
		close(gate)
		synctest.Wait()
		r.ready()
		assert.Same(t, d.front(), d.expected.batch)
		r.completeAll(r.drain(1))
		r.empty()
	})
}

func TestDequeListAt(t *testing.T) {
	var l dequeList
	assert.Nil(t, l.at(0))
	var ds [3]deque
	for i := range ds {
		l.push(&ds[i])
	}
	for i := range ds {
		assert.Same(t, &ds[i], l.at(i))
	}
	assert.Nil(t, l.at(len(ds)))
}
