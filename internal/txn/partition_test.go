package txn

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/protocol"
)

// rig is a manager and an accumulator with one partition, every record a batch. The test plays sender and brokers.
type rig struct {
	*Manager
	t    *testing.T
	a    *accumulator.RecordAccumulator
	snap *metadata.Snapshot
	now  time.Time
}

var tp = protocol.TopicPartition{Topic: "t"}

// newRig has a first batch acknowledged by node 1, so that several may be in flight there.
func newRig(t *testing.T) *rig {
	r := &rig{Manager: New(5, nil), t: t, now: time.UnixMilli(1_700_000_000_000)}
	r.a = accumulator.New(accumulator.Config{
		BatchSize: 1, DeliveryTimeout: time.Hour, RetryBackoff: 100 * time.Millisecond, RetryBackoffMax: time.Second, Now: func() time.Time { return r.now }, Wake: func() {},
		Pool: bufferpool.New(bufferpool.Config{Total: 1 << 20}),
		Done: func(b *accumulator.ProducerBatch) { b.Run() },
	})
	md := metadata.New(metadata.Config{})
	md.AddTopic(tp.Topic, r.now)
	md.NewRequest(r.now)
	require.NoError(t, md.HandleResponse(12, &protocol.MetadataResponse{
		Brokers: []protocol.MetadataResponseBroker{{NodeID: 1, Host: "one"}, {NodeID: 2, Host: "two"}},
		Topics:  []protocol.MetadataResponseTopic{{Name: &tp.Topic, Partitions: []protocol.MetadataResponsePartition{{LeaderID: 1, LeaderEpoch: 1}}}},
	}, r.now))
	r.snap = md.Snapshot()
	r.SetID(protocol.ProducerID{ID: 7})
	warm := r.send()
	r.Landed(warm)
	r.ack(warm)
	return r
}

// send appends a record and hands its batch to node 1.
func (r *rig) send() *accumulator.ProducerBatch {
	r.t.Helper()
	b := r.drain(r.Manager)
	r.Sent(b, 1)
	return b
}

// drain appends a record and takes its batch, which has a sequence if there is a gate.
func (r *rig) drain(gate accumulator.Gate) *accumulator.ProducerBatch {
	r.t.Helper()
	_, _, err := r.a.Append(context.Background(), r.a.Topic(tp.Topic), r.snap.Topic(tp.Topic), &accumulator.Record{Value: []byte("v")}, nil, false, 0)
	require.NoError(r.t, err)
	r.a.Ready(r.snap, r.now)
	got := r.a.Drain(nil, 1, 1<<20, r.now, gate)
	require.Len(r.t, got, 1)
	return got[0]
}

func (r *rig) ack(b *accumulator.ProducerBatch) {
	r.Succeeded(b, int64(b.Sequence()))
	r.a.Complete(b, int64(b.Sequence()), -1)
}

// lose is an attempt whose answer is lost.
func (r *rig) lose(b *accumulator.ProducerBatch) {
	r.Landed(b)
	b.SetMayBeWritten(true)
	b.SetUnanswered(true)
	b.SetLostAt(r.now)
}

const patience = 30 * time.Second

// A log that forgot the producer lacks a, and took b for the first. That a is missing explains nothing of what c meets, whose first attempt may be on
// its way still: neither UNKNOWN_PRODUCER_ID nor OUT_OF_ORDER_SEQUENCE says that it can go out again under the next epoch.
func TestNoGapBelowWhatWasAcknowledged(t *testing.T) {
	for _, answer := range []string{"unknown producer", "out of order"} {
		t.Run(answer, func(t *testing.T) {
			r := newRig(t)
			a, b, c := r.send(), r.send(), r.send()
			r.Landed(a)
			require.True(t, r.OutOfOrder(a, r.now, patience))
			p := r.partition(tp)
			require.True(t, p.hasGap)
			r.Landed(b)
			r.ack(b)
			require.False(t, p.hasGap)
			r.lose(c)
			require.Same(t, a, r.Unplaceable())
			r.Failed(a)
			assert.False(t, p.hasGap)
			require.Nil(t, r.Unplaceable())
			require.False(t, r.Settle(), "c is in doubt")

			require.Same(t, c, r.Next(c, 1))
			r.Sent(c, 1)
			r.Landed(c)
			if answer == "unknown producer" {
				assert.False(t, r.Lost(c, 0, true), "it ends as one that may have been written")
				return
			}
			assert.True(t, r.OutOfOrder(c, r.now.Add(patience-1), patience))
			assert.True(t, c.MayBeWritten())
			assert.False(t, r.Settle())
			assert.Equal(t, int16(0), c.Producer().Epoch)
			assert.True(t, r.OutOfOrder(c, r.now.Add(patience), patience))
			assert.False(t, c.MayBeWritten())
			assert.True(t, r.Settle())
			assert.Equal(t, int16(1), c.Producer().Epoch)
		})
	}
}

// What one leader lacked is asked of the next one before what stands behind it, and counts as absent no longer.
func TestAnotherLeaderIsAskedAnew(t *testing.T) {
	r := newRig(t)
	a, b := r.send(), r.send()
	r.Landed(a)
	require.True(t, r.OutOfOrder(a, r.now, patience))
	r.lose(b)
	require.False(t, r.Settle())
	require.Same(t, b, r.Next(a, 1), "node 1 does not have a")
	require.Same(t, a, r.Next(a, 2))
	r.Sent(a, 2)
	r.Landed(a)
	require.Same(t, a, r.Next(a, 2), "it was refused, for whatever reason")
	require.Same(t, a, r.Next(a, 1), "counted anew as well")
	r.Sent(a, 2)
	r.Landed(a)
	r.ack(a)
	require.Nil(t, r.Unplaceable())
	require.Same(t, b, r.Next(b, 2))
	r.Sent(b, 2)
	r.Landed(b)
	r.ack(b)
	r.Settle()
	require.Equal(t, int16(0), r.ID().Epoch, "nothing is missing")
}

// A batch that has expired in flight, though a later one was acknowledged, still counts as being on its way: another leader, which has
// not acknowledged anything, gets no second one beside it.
func TestNothingBesideWhatExpiredInFlight(t *testing.T) {
	r := newRig(t)
	a, b := r.send(), r.send()
	r.Landed(a)
	a.SetMayBeWritten(true) // NOT_LEADER_OR_FOLLOWER, after the append
	r.Landed(b)
	r.ack(b)
	require.Same(t, a, r.Next(a, 2))
	r.Sent(a, 2)
	r.Failed(a)
	r.Settle()
	c := r.drain(nil)
	assert.Nil(t, r.Next(c, 2))
	r.Landed(a)
	assert.Same(t, c, r.Next(c, 2))
	assert.Equal(t, int16(0), r.ID().Epoch, "nothing is missing")
}

// Several batches in doubt are asked for one after the other. That a log does not have one says all about that one: the next question does not
// wait until its back-off is over.
func TestQuestionsFollowEachOther(t *testing.T) {
	r := newRig(t)
	a, b, c := r.send(), r.send(), r.send()
	for _, x := range []*accumulator.ProducerBatch{a, b, c} {
		r.lose(x)
		r.a.Reenqueue(x, r.now)
	}
	r.now = r.now.Add(patience)
	for _, x := range []*accumulator.ProducerBatch{a, b, c} {
		r.a.Ready(r.snap, r.now)
		require.Equal(t, []*accumulator.ProducerBatch{x}, r.a.Drain(nil, 1, 1<<20, r.now, r.Manager))
		r.Sent(x, 1)
		r.Landed(x)
		require.True(t, r.OutOfOrder(x, r.now, patience))
		r.a.Reenqueue(x, r.now)
		if x == a {
			r.now = a.RetryAt() // the first stands in front, for the new epoch too
		}
	}
	assert.True(t, r.Settle())
	assert.Equal(t, int16(1), r.ID().Epoch)
}
