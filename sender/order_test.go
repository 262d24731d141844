package sender_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/sim"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// nth makes a Fault that gives its verdicts to the Produce requests in turn.
func nth(verdicts map[int]testbroker.Verdict) func(*testbroker.Request) testbroker.Verdict {
	n := 0
	return func(r *testbroker.Request) testbroker.Verdict {
		if r.API != protocol.KeyProduce {
			return testbroker.Verdict{}
		}
		n++
		return verdicts[n]
	}
}

// small makes every record a batch of its own.
func small(c testbroker.Config) sim.Config {
	return sim.Config{Cluster: c, BatchSize: 1, Linger: -1}
}

// S-17, S-83, SND-06: with one request in flight a partition's second batch waits for the first one's answer, also
// when the leader moves meanwhile.
func TestMaxInFlightOneMutesThePartition(t *testing.T) {
	var w *world
	cfg := small(testbroker.Config{Nodes: 2, Fault: nth(map[int]testbroker.Verdict{
		1: {Hold: 100 * time.Millisecond, After: func() { _ = w.Cluster.MoveLeader("t", 0, 2) }},
	})})
	cfg.MaxInFlight = 1
	cfg.NotIdempotent = true
	cfg.MetadataMaxAge = 20 * time.Millisecond
	w = newWorld(t, cfg)
	w.topic("t", 1, 1)
	w.sendN("t", 0, 0, 3)
	w.Run(90*time.Millisecond, func() bool { return false })
	require.Len(t, w.produces(), 1, "the second batch went out while the first was unanswered")
	w.settle()
	require.Equal(t, w.sent, w.values("t", 0))
	require.Equal(t, w.sent, w.done)
}

// S-17: with more in flight the partition is not muted.
func TestMoreInFlightDoNotMute(t *testing.T) {
	cfg := small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{1: {Hold: 100 * time.Millisecond}})})
	cfg.MaxInFlight = 2
	cfg.NotIdempotent = true
	cfg.Linger = time.Millisecond // linger 0 would make one request of them
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.sendN("t", 0, 0, 3)
	w.Run(50*time.Millisecond, func() bool { return false })
	require.Equal(t, 2, w.Client.InFlight())
	w.settle()
	require.Equal(t, w.sent, w.values("t", 0))
}

// KAFKA-15591, FC-001: one batch of a partition is in flight until its first acknowledgement, five afterwards.
func TestOneInFlightUntilTheFirstAck(t *testing.T) {
	cfg := small(testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
		if r.API == protocol.KeyProduce {
			return testbroker.Verdict{Hold: 10 * time.Millisecond}
		}
		return testbroker.Verdict{}
	}})
	cfg.Linger = time.Millisecond // linger 0 would make one request of them
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.sendN("t", 0, 0, 20)
	most := 0
	w.Run(time.Second, func() bool {
		if len(w.done) == 0 {
			require.LessOrEqual(t, len(w.produces()), 1)
		}
		most = max(most, w.Client.InFlight())
		return !w.Acc.HasIncomplete()
	})
	require.Equal(t, 5, most)
	w.settle()
	require.Equal(t, w.sent, w.values("t", 0))
}

// KAFKA-15591: a new leader that knows nothing of the producer would take any sequence for the first, so that there is one batch in
// flight until that one has acknowledged, too. (Simulation: the second overtook the first, which the new leader had refused.)
func TestOneInFlightUntilTheNewLeadersFirstAck(t *testing.T) {
	cfg := small(testbroker.Config{Nodes: 2, Model: testbroker.Legacy, Fault: nth(map[int]testbroker.Verdict{
		2: {Code: protocol.NotEnoughReplicas},
	})})
	cfg.Linger = time.Millisecond
	w := newWorld(t, cfg)
	w.topic("t", 1, 1)
	w.send("t", 0, "warm")
	w.settle()
	require.NoError(t, w.Cluster.MoveLeader("t", 0, 2))
	w.Metadata.RequestUpdate()
	w.Client.Wakeup()
	require.True(t, w.Run(time.Second, func() bool { return w.Metadata.Snapshot().Topic("t").Leader(0) == 2 }))
	w.sendN("t", 0, 0, 2)
	w.settle()
	require.Equal(t, w.sent, w.values("t", 0))
}

// S-80, SND-17, FC-002: the first of several fails retriably and the others come back out of order; all are sent again one at a
// time, each with the sequence it had, and what was not sent yet waits without one.
func TestRetriesKeepTheirSequence(t *testing.T) {
	cfg := small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
		2: {Code: protocol.NotEnoughReplicas},
	})})
	cfg.Linger = time.Millisecond // linger 0 would make one request of them
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.send("t", 0, "t-first")
	w.Settle(time.Second)
	w.sendN("t", 0, 0, 4)
	w.settle()
	require.Equal(t, w.sent, w.values("t", 0))
	require.Equal(t, w.sent, w.done, "callbacks in order")
	crc := map[int32]uint32{}
	for _, r := range w.produces() {
		for _, b := range r.Batches {
			if c, ok := crc[b.BaseSequence]; ok {
				assert.Equal(t, c, b.CRC, "sequence %d came with other bytes", b.BaseSequence)
			}
			crc[b.BaseSequence] = b.CRC
			assert.Equal(t, int16(0), b.ProducerEpoch)
		}
	}
	require.Len(t, crc, 5)
}

// S-80, SND-32, FC-018: a batch that was stored although its answer was lost comes back as a duplicate, or with no offset, which is
// success. Where it stands is not known, and no offsets are made up.
func TestFC018LostAnswerIsADuplicate(t *testing.T) {
	for name, again := range map[string]testbroker.Verdict{
		"duplicate": {Code: protocol.DuplicateSequenceNumber},
		"no offset": {Edit: func(m protocol.Message) {
			m.(*protocol.ProduceResponse).Topics[0].Partitions[0].BaseOffset = -1
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, sim.Config{Linger: 5 * time.Millisecond, Cluster: testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
				1: {Drop: testbroker.DropFIN},
				2: again,
			})}})
			w.topic("t", 1)
			w.sendN("t", 0, 0, 3)
			w.Settle(time.Second)
			w.send("t", 0, "next")
			w.settle()
			require.Len(t, w.produces(), 3)
			require.Equal(t, w.sent, w.values("t", 0))
			for _, v := range w.sent[:3] {
				require.NoError(t, w.book[v].err)
				require.Equal(t, int64(-1), w.book[v].result.Offset)
			}
			require.NoError(t, w.book["next"].err)
			require.Equal(t, int64(3), w.book["next"].result.Offset)
		})
	}
}

// SND-18, SND-20: a record that is refused for good burns its sequence: the partition begins anew under the next epoch, and
// another partition adopts it only with its next batch.
func TestFailedBatchMovesTheEpochOn(t *testing.T) {
	w := newWorld(t, small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
		3: {Code: protocol.MessageTooLarge},
	})}))
	w.topic("t", 2)
	w.send("t", 0, "a")
	w.Settle(time.Second)
	w.send("t", 1, "b")
	w.Settle(time.Second)
	w.send("t", 0, "c")
	w.Settle(time.Second)
	require.ErrorIs(t, w.book["c"].err, protocol.MessageTooLarge)
	w.send("t", 0, "d")
	w.Settle(time.Second)
	w.send("t", 1, "e")
	w.settle()
	type stamp struct {
		partition int32
		epoch     int16
		sequence  int32
	}
	var got []stamp
	for _, r := range w.produces() {
		for _, b := range r.Batches {
			got = append(got, stamp{b.Partition, b.ProducerEpoch, b.BaseSequence})
		}
	}
	require.Equal(t, []stamp{{0, 0, 0}, {1, 0, 0}, {0, 0, 1}, {0, 1, 0}, {1, 1, 0}}, got)
}

// SND-19, FC-007: OUT_OF_ORDER for the batch right after the last acknowledged one: the epoch moves on and it is sent
// again with sequence 0.
func TestOutOfOrderRightAfterTheLastAck(t *testing.T) {
	w := newWorld(t, small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
		2: {Code: protocol.OutOfOrderSequenceNumber},
	})}))
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.Settle(time.Second)
	w.send("t", 0, "b")
	w.settle()
	require.Equal(t, []string{"a", "b"}, w.values("t", 0))
	last := w.produces()[2].Batches[0]
	require.Equal(t, int16(1), last.ProducerEpoch)
	require.Equal(t, int32(0), last.BaseSequence)
}

// A batch that gets another stamp is another question: the back-off that its refusals have built up is not for that. Once: a broker that
// refuses whatever it is asked is not asked more often for it. Found by faultrun: after a topic was deleted and created again, partitions
// waited for two seconds.
func TestNextEpochDoesNotInheritTheBackoff(t *testing.T) {
	for _, code := range []protocol.ErrorCode{protocol.OutOfOrderSequenceNumber, protocol.UnknownProducerID} {
		refused := testbroker.Verdict{Code: protocol.NotEnoughReplicas}
		cfg := small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
			2: refused, 3: refused, 4: refused, 5: refused, 6: {Code: code}, 7: {Code: code}, 8: {Code: code}, 9: {Code: code},
		})})
		cfg.RetryBackoff, cfg.RetryBackoffMax, cfg.DeliveryTimeout = 100*time.Millisecond, time.Second, time.Minute
		w := newWorld(t, cfg)
		w.topic("t", 1)
		w.send("t", 0, "a")
		w.Settle(time.Second)
		w.send("t", 0, "b")
		w.settle()
		require.Equal(t, []string{"a", "b"}, w.values("t", 0))
		p := w.produces()
		require.Len(t, p, 10)
		for i, want := range []time.Duration{100, 150, 150, 150, 100, 150, 150, 150} {
			want *= time.Millisecond
			require.InDelta(t, want, p[i+2].At.Sub(p[i+1].At), float64(want/4), "%v: pause %d", code, i+1)
		}
	}
}

// SND-21, FC-008: a partition whose batch is in doubt keeps its old epoch for it after another one moved the epoch on.
func TestFC008DoubtIsResolvedUnderTheOldEpoch(t *testing.T) {
	w := newWorld(t, small(testbroker.Config{Nodes: 2, Fault: func() func(*testbroker.Request) testbroker.Verdict {
		hit := map[int32]bool{}
		return func(r *testbroker.Request) testbroker.Verdict {
			if r.API != protocol.KeyProduce || hit[r.Batches[0].Partition] || r.Batches[0].BaseSequence != 1 {
				return testbroker.Verdict{}
			}
			hit[r.Batches[0].Partition] = true
			if r.Batches[0].Partition == 0 {
				return testbroker.Verdict{Code: protocol.OutOfOrderSequenceNumber}
			}
			return testbroker.Verdict{Drop: testbroker.DropFIN} // appended
		}
	}()}))
	w.topic("t", 2, 1, 2)
	for _, v := range []string{"a", "b"} {
		w.send("t", 0, v+"0")
		w.send("t", 1, v+"1")
		w.Settle(time.Second)
	}
	w.send("t", 1, "c1")
	w.settle()
	require.Equal(t, []string{"a0", "b0"}, w.values("t", 0))
	require.Equal(t, []string{"a1", "b1", "c1"}, w.values("t", 1))
	type stamp struct {
		epoch    int16
		sequence int32
	}
	stamps := map[int32][]stamp{}
	for _, r := range w.produces() {
		b := r.Batches[0]
		stamps[b.Partition] = append(stamps[b.Partition], stamp{b.ProducerEpoch, b.BaseSequence})
	}
	require.Equal(t, map[int32][]stamp{0: {{0, 0}, {0, 1}, {1, 0}}, 1: {{0, 0}, {0, 1}, {0, 1}, {1, 0}}}, stamps)
	require.Equal(t, int64(1), w.Cluster.PartitionStats("t", 1).Duplicates)
	require.Equal(t, int64(1), w.book["b1"].result.Offset, "where it was put at first")
}

// SND-34, SND-35, FC-016: the broker has forgotten the producer, with the records that retention took: the partition begins anew under the
// next epoch; while the log start is not known, the same batch is simply sent again. Nobody is told of an error.
func TestFC016UnknownProducerID(t *testing.T) {
	for _, tt := range []struct {
		name   string
		edit   func(*protocol.ProduceResponsePartition)
		epochs []int16
	}{
		{"log start known", nil, []int16{0, 1}},
		{"log start unknown at first", func(p *protocol.ProduceResponsePartition) { p.LogStartOffset = -1 }, []int16{0, 0, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fault := map[int]testbroker.Verdict{}
			if tt.edit != nil {
				fault[11] = testbroker.Verdict{Edit: func(m protocol.Message) { tt.edit(&m.(*protocol.ProduceResponse).Topics[0].Partitions[0]) }}
			}
			w := newWorld(t, small(testbroker.Config{Nodes: 1, Fault: nth(fault)}))
			w.topic("t", 1)
			w.sendN("t", 0, 0, 10)
			w.settle()
			require.NoError(t, w.Cluster.DeleteRecords("t", 0, 10))
			require.NoError(t, w.Cluster.ExpireProducers("t", 0))
			w.send("t", 0, "after")
			w.Settle(time.Minute)
			w.Cluster.Check(t)
			require.Equal(t, 1, w.book["after"].calls)
			var epochs []int16
			for _, r := range w.produces()[10:] {
				epochs = append(epochs, r.Batches[0].ProducerEpoch)
				require.Equal(t, map[int16]int32{0: 10, 1: 0}[r.Batches[0].ProducerEpoch], r.Batches[0].BaseSequence)
			}
			require.Equal(t, tt.epochs, epochs)
			require.Equal(t, []string{"after"}, w.values("t", 0))
			require.NoError(t, w.book["after"].err)
			require.Equal(t, int64(10), w.book["after"].result.Offset)
		})
	}
}

// SND-44, FC-013: a batch that is too large is split; its records keep their order, callbacks and sequences.
func TestTooLargeBatchIsSplit(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1, MaxMessageBytes: 400}, BatchSize: 16 << 10})
	w.topic("t", 1)
	w.sendN("t", 0, 0, 60)
	w.settle()
	require.Equal(t, w.sent, w.values("t", 0))
	require.Equal(t, w.sent, w.done)
	require.Positive(t, w.Metrics.BatchSplitTotal.Load())
	for _, r := range w.produces() {
		require.Equal(t, int16(0), r.Batches[0].ProducerEpoch)
	}
}
