package sender_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/sim"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sender"
)

// TXN-10, DRB-11, FC-015, KAFKA-7693: after sequence 2147483647 comes 0, within a batch and between two, also when batches around it are
// in flight together and sent again.
func TestFC015SequencesWrap(t *testing.T) {
	cfg := sim.Config{Linger: time.Millisecond, Cluster: testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
		2: {Hold: 20 * time.Millisecond},
		3: {Hold: 20 * time.Millisecond},
		5: {Drop: testbroker.DropFIN, Skip: true}, // the one across the wrap, between others
		9: {Drop: testbroker.DropFIN},
	})}}
	w := newWorld(t, cfg)
	w.topic("t", 2)
	w.send("t", 1, "t-1-first")
	w.Settle(time.Second)
	id := w.Sender.Sequences().ID()
	tp := protocol.TopicPartition{Topic: "t", Partition: 0}
	const first = 2147483640
	require.NoError(t, w.Cluster.PrimeProducer("t", 0, id, first))
	w.Sender.Sequences().SetNext(tp, first)
	most, n := 0, 0
	for i, size := range []int{3, 1, 2, 3, 2, 1, 3, 3, 1, 2, 3, 1, 1, 2, 3, 2, 1, 3, 2, 1} {
		w.sendN("t", 0, n, n+size)
		n += size
		pause := 2 * time.Millisecond
		if i == 0 {
			pause = 40 * time.Millisecond // acknowledged: from now on five may be in flight
		}
		w.Run(pause, func() bool { most = max(most, w.Client.InFlight()); return false })
	}
	w.settle()
	require.Equal(t, w.sentTo("t", 0), w.values("t", 0))
	require.Greater(t, most, 2)
	across := 0
	for _, r := range w.produces()[1:] {
		b := r.Batches[0]
		require.GreaterOrEqual(t, b.BaseSequence, int32(0))
		require.Equal(t, int16(0), b.ProducerEpoch)
		if b.BaseSequence == math.MaxInt32-1 && b.Count == 3 {
			across++
		}
	}
	require.Greater(t, across, 1, "the batch with 2147483646, 2147483647 and 0 was sent again")
	for i, r := range w.Cluster.Records("t", 0) {
		require.Equal(t, protocol.AddSequence(first, int32(i)), r.Sequence)
	}
}

// SND-29, SND-30, SND-43, TXN-13: at the last epoch a bump needs a new producer id, and all partitions go on under it.
func TestEpochOverflow(t *testing.T) {
	w := newWorld(t, small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
		3: {Code: protocol.MessageTooLarge},
	})}))
	w.topic("t", 2)
	w.send("t", 0, "warm")
	w.Settle(time.Second)
	id := w.Sender.Sequences().ID()
	w.Sender.Sequences().SetID(protocol.ProducerID{ID: id.ID, Epoch: math.MaxInt16})
	w.send("t", 0, "a")
	w.Settle(time.Second)
	w.send("t", 0, "refused")
	w.Settle(time.Second)
	require.ErrorIs(t, w.book["refused"].err, protocol.MessageTooLarge)
	w.send("t", 0, "b")
	w.send("t", 1, "c")
	w.settle()
	require.Equal(t, []string{"warm", "a", "b"}, w.values("t", 0))
	require.Equal(t, []string{"c"}, w.values("t", 1))
	for _, r := range w.Cluster.Records("t", 1) {
		require.NotEqual(t, id.ID, r.ProducerID)
		require.Equal(t, int16(0), r.ProducerEpoch)
	}
}

// FC-006: a topic that metadata says is gone, and that comes back, goes on with its sequences.
func TestSequencesOutliveMetadata(t *testing.T) {
	gone := false
	w := newWorld(t, sim.Config{MetadataMaxAge: 20 * time.Millisecond, Cluster: testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
		if gone && r.API == protocol.KeyMetadata {
			return testbroker.Verdict{Code: protocol.UnknownTopicOrPartition}
		}
		return testbroker.Verdict{}
	}}})
	w.topic("t", 1)
	for _, v := range []string{"a", "b", "c"} {
		w.send("t", 0, v)
		w.Settle(time.Second)
	}
	gone = true
	w.send("t", 0, "d") // appended while it is thought to be there
	w.Run(300*time.Millisecond, func() bool { return false })
	gone = false
	w.settle()
	require.Equal(t, []string{"a", "b", "c", "d"}, w.values("t", 0))
	last := w.Cluster.Records("t", 0)[3]
	require.True(t, last.Sequence == 3 && last.ProducerEpoch == 0 || last.Sequence == 0 && last.ProducerEpoch > 0)
}

// SND-28, TXN-54, FC-003, FC-004: all batches of a partition that were sent expire: the next one begins anew under the next epoch.
func TestAllSentBatchesExpire(t *testing.T) {
	cfg := small(testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
		if r.API == protocol.KeyProduce && r.Batches[0].BaseSequence > 0 && r.Batches[0].ProducerEpoch == 0 {
			return testbroker.Verdict{Skip: true, Drop: testbroker.DropFIN}
		}
		return testbroker.Verdict{}
	}})
	cfg.DeliveryTimeout = 300 * time.Millisecond
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.Settle(time.Second)
	w.sendN("t", 0, 0, 3)
	w.Settle(time.Second)
	w.send("t", 0, "b")
	w.settle()
	require.Equal(t, []string{"a", "b"}, w.values("t", 0))
	require.Equal(t, int16(1), w.Cluster.Records("t", 0)[1].ProducerEpoch)
	require.Equal(t, int32(0), w.Cluster.Records("t", 0)[1].Sequence)
}

// FC-004: what follows a batch that has expired in flight, here under an epoch that moved on elsewhere, waits for that batch's answer, also where later ones
// have been acknowledged. (Simulation: two batches were in flight to a leader that had acknowledged none.)
func TestFC004EpochWaitsForExpiredBatches(t *testing.T) {
	cfg := small(testbroker.Config{Nodes: 2, Fault: func() func(*testbroker.Request) testbroker.Verdict {
		times := 0
		return func(r *testbroker.Request) testbroker.Verdict {
			switch {
			case r.API != protocol.KeyProduce:
			case r.Node == 2:
				return testbroker.Verdict{Code: protocol.MessageTooLarge}
			case r.Batches[0].BaseSequence == 1:
				if times++; times == 1 {
					v := testbroker.AnswerAfterAppend(protocol.RequestTimedOut)
					v.Hold = 20 * time.Millisecond // the next two are on their way when it comes
					return v
				}
				return testbroker.Verdict{Hold: 2 * time.Second}
			}
			return testbroker.Verdict{}
		}
	}()})
	cfg.Linger, cfg.DeliveryTimeout, cfg.RequestTimeout = time.Millisecond, time.Second, 10*time.Second
	w := newWorld(t, cfg)
	w.topic("t", 2, 1, 2)
	w.send("t", 0, "a")
	w.Settle(time.Second)
	for _, v := range []string{"b", "c", "d"} {
		w.send("t", 0, v)
		w.Run(2*time.Millisecond, never)
	}
	w.send("t", 1, "refused")
	w.Run(1500*time.Millisecond, never)
	require.ErrorIs(t, w.book["b"].err, sender.ErrDeliveryTimeout)
	require.ErrorIs(t, w.book["refused"].err, protocol.MessageTooLarge)
	w.send("t", 0, "e")
	w.settle()
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, w.values("t", 0))
	var before, after time.Time
	for _, r := range w.produces() {
		switch {
		case r.Node == 2:
		case r.Batches[0].BaseSequence == 1:
			before = r.At
		case r.Batches[0].ProducerEpoch == 1:
			after = r.At
		}
	}
	require.GreaterOrEqual(t, after.Sub(before), 2*time.Second, "sent under the next epoch before the answer had come")
}

func never() bool { return false }
