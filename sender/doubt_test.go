package sender_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/sim"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sender"
)

// A leader that loses its office while it waits for the in-sync replicas answers NOT_LEADER after it has appended the batch. With an
// earlier batch of the partition expired, batches refused like that must not be sent again under a new epoch before their fate is known: they
// would be in the log twice.
func TestNotLeaderAfterTheAppend(t *testing.T) {
	cfg := small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
		2: {Code: protocol.NotLeaderOrFollower, Append: true, Hold: 350 * time.Millisecond},
		3: {Code: protocol.NotLeaderOrFollower, Append: true},
		4: {Code: protocol.NotLeaderOrFollower, Append: true},
	})})
	cfg.Linger = time.Millisecond
	cfg.DeliveryTimeout = 300 * time.Millisecond
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.send("t", 0, "warm")
	w.Settle(time.Second)
	w.send("t", 0, "z")
	w.Run(100*time.Millisecond, func() bool { return false })
	w.send("t", 0, "a")
	w.send("t", 0, "b")
	w.settle() // checks that nothing is stored twice
	require.ErrorIs(t, w.book["z"].err, sender.ErrDeliveryTimeout)
}

// The same refusal, again and again, and then the delivery timeout: the record is in the log, and its error says that it may be.
func TestNotLeaderLeavesADoubt(t *testing.T) {
	n := 0
	cfg := small(testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
		if r.API != protocol.KeyProduce {
			return testbroker.Verdict{}
		}
		if n++; n == 1 {
			return testbroker.Verdict{}
		}
		return testbroker.Verdict{Code: protocol.NotLeaderOrFollower, Append: n == 2}
	}})
	cfg.DeliveryTimeout = 300 * time.Millisecond
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.send("t", 0, "warm")
	w.Settle(time.Second)
	w.send("t", 0, "z")
	w.settle()
	require.Equal(t, []string{"warm", "z"}, w.values("t", 0))
	require.ErrorIs(t, w.book["z"].err, sender.ErrDeliveryTimeout)
	require.ErrorContains(t, w.book["z"].err, "may have been written")
}

// A bump is wanted, the first batch in line is known not to be written, and a later one is in doubt: what stands before it goes out
// again under the old epoch, so that the doubt can be resolved. Nothing may stand still until the delivery timeout.
func TestDoubtBehindACertainRefusal(t *testing.T) {
	cfg := small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
		2: {Code: protocol.UnknownServerError},
		3: {Code: protocol.NotEnoughReplicas},
		4: {Skip: true, Drop: testbroker.DropFIN},
	})})
	cfg.Linger = time.Millisecond
	cfg.DeliveryTimeout = 20 * time.Second
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.send("t", 0, "warm")
	w.Settle(time.Second)
	began := w.Now()
	w.sendN("t", 0, 0, 3)
	w.Run(2*time.Second, func() bool { return len(w.produces()) >= 4 })
	w.sendN("t", 0, 3, 6)
	w.settle()
	require.Less(t, w.Now().Sub(began), 2*time.Second)
	for v, e := range w.book {
		if v == "t-0-00000" {
			require.ErrorIs(t, e.err, protocol.UnknownServerError)
			continue
		}
		require.NoError(t, e.err, v)
	}
}

// A batch that was answered NOT_LEADER may be in the log of the next leader, unless that says that what stands before it is
// missing: an attempt that was answered is not on its way any more. It goes out again under the next epoch. (Simulation: it failed.)
func TestDoubtEndsWithAGap(t *testing.T) {
	stepDown := testbroker.Verdict{Code: protocol.NotLeaderOrFollower}
	cfg := small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
		2: {Code: protocol.UnknownServerError}, 3: stepDown, 4: stepDown,
	})})
	cfg.Linger = time.Millisecond
	cfg.DeliveryTimeout = 20 * time.Second
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.send("t", 0, "warm")
	w.Settle(time.Second)
	w.sendN("t", 0, 0, 3)
	w.settle()
	require.Equal(t, []string{"warm", "t-0-00001", "t-0-00002"}, w.values("t", 0))
	require.ErrorIs(t, w.book["t-0-00000"].err, protocol.UnknownServerError)
	require.NoError(t, w.book["t-0-00001"].err)
	require.NoError(t, w.book["t-0-00002"].err)
}

// A batch in doubt is split; the one behind it, in doubt too, is sent past the parts, and is refused retriably. It backs off.
func TestRetryPastPartsBacksOff(t *testing.T) {
	n := 0
	lost := testbroker.Verdict{Skip: true, Drop: testbroker.DropFIN}
	cfg := sim.Config{BatchSize: 16 << 10, Linger: time.Millisecond, RetryBackoff: 100 * time.Millisecond, RetryBackoffMax: time.Second,
		DeliveryTimeout: 20 * time.Second,
		Cluster: testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
			if r.API != protocol.KeyProduce {
				return testbroker.Verdict{}
			}
			switch n++; n {
			case 1:
				return testbroker.Verdict{}
			case 2:
				return testbroker.Verdict{Skip: true, Hold: 50 * time.Millisecond, Drop: testbroker.DropFIN}
			case 3:
				return lost
			case 4:
				return testbroker.Verdict{Code: protocol.MessageTooLarge}
			}
			return testbroker.Verdict{Code: protocol.NotEnoughReplicas}
		}}}
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.send("t", 0, "warm")
	w.Settle(time.Second)
	w.sendN("t", 0, 0, 4)
	w.Run(20*time.Millisecond, func() bool { return n >= 2 })
	w.sendN("t", 0, 4, 6)
	w.Run(2*time.Second, func() bool { return n >= 5 })
	require.Equal(t, 5, n)
	past := w.produces()[4].Batches[0]
	require.Equal(t, []int32{5, 2}, []int32{past.BaseSequence, past.Count}, "the world is not what the test is about")
	w.Run(time.Second, func() bool { return n > 100 })
	require.InDelta(t, 9, n, 4, "100, 200, 400, 800 ms, give or take")
}

// UNKNOWN_PRODUCER_ID from a broker that cannot tell where its log begins (Produce before v5): the partition begins anew at once.
func TestUnknownProducerIDOfAnOldBroker(t *testing.T) {
	w := newWorld(t, small(testbroker.Config{Nodes: 1, Generation: testbroker.Kafka011, Fault: nth(map[int]testbroker.Verdict{
		2: {Code: protocol.UnknownProducerID},
	})}))
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.Settle(time.Second)
	w.send("t", 0, "b")
	w.settle()
	require.Equal(t, []string{"a", "b"}, w.values("t", 0))
	require.Len(t, w.produces(), 3)
}

// UNKNOWN_PRODUCER_ID for a batch that may have been written: whether it was can no longer be found out, and sending it again could
// double it. It ends as one that may have been written.
func TestUnknownProducerIDOfABatchInDoubt(t *testing.T) {
	w := newWorld(t, small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
		2: {Drop: testbroker.DropFIN},
		3: {Code: protocol.UnknownProducerID, Edit: func(m protocol.Message) {
			m.(*protocol.ProduceResponse).Topics[0].Partitions[0].LogStartOffset = 0
		}},
	})}))
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.Settle(time.Second)
	w.send("t", 0, "b")
	w.Settle(time.Second)
	w.send("t", 0, "c")
	w.settle()
	require.Equal(t, []string{"a", "b", "c"}, w.values("t", 0))
	require.ErrorIs(t, w.book["b"].err, protocol.UnknownProducerID)
	require.ErrorContains(t, w.book["b"].err, "may have been written")
}

// The epoch runs out, and the new producer id is refused: retries that wait end with that, and leave nothing behind. Records sent later go
// out once an id is to be had.
func TestProducerIDRefusedWithRetriesWaiting(t *testing.T) {
	refuse := false
	n := 0
	w := newWorld(t, small(testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
		if r.API == protocol.KeyInitProducerID && refuse {
			return testbroker.Verdict{Code: protocol.ClusterAuthorizationFailed}
		}
		if r.API == protocol.KeyProduce {
			switch n++; n {
			case 2:
				return testbroker.Verdict{Code: protocol.InvalidTimestamp}
			case 3, 4, 5:
				return testbroker.Verdict{Code: protocol.NotEnoughReplicas}
			}
		}
		return testbroker.Verdict{}
	}}))
	w.topic("t", 2)
	w.send("t", 1, "warm")
	w.Settle(time.Second)
	id := w.Sender.Sequences().ID()
	w.Sender.Sequences().SetID(protocol.ProducerID{ID: id.ID, Epoch: 1<<15 - 1})
	refuse = true
	w.send("t", 0, "refused") // burns the last epoch's sequence
	w.send("t", 1, "retried")
	w.Settle(time.Second)
	refuse = false
	w.send("t", 0, "x")
	w.send("t", 1, "y")
	w.settle()
	require.NoError(t, w.book["x"].err)
	require.NoError(t, w.book["y"].err)
}

// Callbacks run in the order of the records of a partition, also where the answers came in another.
func TestCallbacksKeepTheirOrder(t *testing.T) {
	for name, verdicts := range map[string]map[int]testbroker.Verdict{
		"the first is in doubt":     {2: {Code: protocol.NotEnoughReplicasAfterAppend, Append: true}},
		"a later one is refused":    {2: {Code: protocol.NotEnoughReplicas}, 3: {Code: protocol.MessageTooLarge}},
		"the first one's is lost":   {2: {Drop: testbroker.DropFIN}},
		"the second one's is wrong": {3: {Rewrite: func(b []byte) []byte { b[5] ^= 1; return b }}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small(testbroker.Config{Nodes: 1, Fault: nth(verdicts)})
			cfg.Linger = time.Millisecond
			w := newWorld(t, cfg)
			w.topic("t", 1)
			w.send("t", 0, "warm")
			w.Settle(time.Second)
			w.sendN("t", 0, 0, 4)
			w.settle()
			require.Equal(t, w.sent, w.done)
		})
	}
}

// An answer about thousands of partitions is matched in time proportional to them, in whatever order the broker names them.
func TestAnswerInAnotherOrder(t *testing.T) {
	w := newWorld(t, small(testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
		return testbroker.Verdict{Edit: func(m protocol.Message) {
			if p, ok := m.(*protocol.ProduceResponse); ok {
				for _, t := range p.Topics {
					for i, j := 0, len(t.Partitions)-1; i < j; i, j = i+1, j-1 {
						t.Partitions[i], t.Partitions[j] = t.Partitions[j], t.Partitions[i]
					}
				}
				for i, j := 0, len(p.Topics)-1; i < j; i, j = i+1, j-1 {
					p.Topics[i], p.Topics[j] = p.Topics[j], p.Topics[i]
				}
			}
		}}
	}}))
	w.topic("t", 5)
	w.topic("u", 5)
	for p := int32(0); p < 5; p++ {
		w.sendN("t", p, 0, 1)
		w.sendN("u", p, 0, 1)
	}
	w.settle()
	for p := int32(0); p < 5; p++ {
		require.Equal(t, w.sentTo("t", p), w.values("t", p))
		require.Equal(t, w.sentTo("u", p), w.values("u", p))
	}
}

// A broker that recognises a repeated batch names the batch's last time as the append time. The records keep their own.
func TestTimestampOfARepeatedBatch(t *testing.T) {
	w := newWorld(t, sim.Config{Linger: 20 * time.Millisecond, Cluster: testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
		1: {Drop: testbroker.DropFIN},
		2: {Edit: func(m protocol.Message) {
			m.(*protocol.ProduceResponse).Topics[0].Partitions[0].LogAppendTimeMs = sim.Start.UnixMilli() + 1000 + 10
		}},
	})}})
	w.topic("t", 1)
	for i, v := range []string{"a", "b"} {
		e := &entry{}
		w.Selector.At(sim.Start.Add(time.Second+time.Duration(i*10)*time.Millisecond), func() { require.NoError(t, w.appendEntry("t", 0, v, e)) })
	}
	w.Run(1100*time.Millisecond, func() bool { return false })
	w.settle()
	require.Len(t, w.produces(), 2)
	require.NotEqual(t, w.book["a"].result.Timestamp, w.book["b"].result.Timestamp)
	require.Equal(t, sim.Start.Add(time.Second).UnixMilli(), w.book["a"].result.Timestamp.UnixMilli())
}
