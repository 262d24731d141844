package sender_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/internal/sim"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sender"
)

// S-73, S-75: a partition without a leader makes the sender ask for its topic's metadata, with back-off, until it has one.
func TestUnknownLeaderIsAskedFor(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 2, Replicas: 1}})
	w.topic("t", 2, 1, 2)
	require.NoError(t, w.Cluster.NodeDown(2))
	w.Metadata.RequestUpdate()
	w.Run(time.Second, func() bool { return w.Metadata.Snapshot().Topic("t").Leader(1) < 0 })
	w.send("t", 1, "a")
	asked := len(w.Cluster.Requests())
	w.Run(time.Second, func() bool { return false })
	n := len(w.Cluster.Requests()) - asked
	require.Greater(t, n, 2, "metadata is asked for")
	require.Less(t, n, 40, "with back-off")
	require.NoError(t, w.Cluster.NodeUp(2))
	w.settle()
	require.NoError(t, w.book["a"].err)
}

// FC-024: metadata says that a topic may not be written to any more: what waits for it ends with that, and not when its delivery timeout
// is over. What is in flight gets its own answer, and other topics do not notice.
func TestRefusedTopicFailsWhatWaits(t *testing.T) {
	var w *world
	cfg := small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
		1: {Code: protocol.NotLeaderOrFollower, After: func() { w.Cluster.SetTopicError("t", protocol.TopicAuthorizationFailed) }},
	})})
	cfg.DeliveryTimeout = time.Minute
	w = newWorld(t, cfg)
	w.topic("t", 2)
	w.topic("other", 1)
	w.sendN("t", 0, 0, 3)
	w.sendN("t", 1, 0, 1)
	w.send("other", 0, "fine")
	require.True(t, w.Settle(time.Second))
	w.settle()
	for v, e := range w.book {
		if v == "fine" {
			require.NoError(t, e.err)
			continue
		}
		require.ErrorIs(t, e.err, protocol.TopicAuthorizationFailed)
		// The first of each partition was refused as if the leader had moved, which may come after the append.
		var d *sender.DeliveryError
		require.ErrorAs(t, e.err, &d)
		require.Equal(t, d.Attempts > 0, d.MayHaveBeenWritten(), "%v", e.err)
	}
	w.Cluster.SetTopicError("t", protocol.None)
	w.Metadata.RequestUpdate()
	w.Client.Wakeup()
	require.True(t, w.Run(time.Second, func() bool { return w.Metadata.Snapshot().Topic("t").Leader(0) == 1 }))
	w.sendN("t", 0, 3, 4)
	w.settle()
	require.NoError(t, w.book["t-0-00003"].err)
}

// S-76, S-92: batches of a node that is not connected stay queued, and the loop does not spin meanwhile (C8).
func TestNodeDownKeepsBatchesQueued(t *testing.T) {
	cfg := sim.Config{Cluster: testbroker.Config{Nodes: 1}}
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.settle()
	require.NoError(t, w.Cluster.NodeDown(1))
	w.send("t", 0, "b")
	steps := 0
	w.Run(time.Second, func() bool { steps++; return false })
	require.True(t, w.Acc.HasIncomplete())
	require.Less(t, steps, 150, "iterations in a second without a broker")
	require.NoError(t, w.Cluster.NodeUp(1))
	w.settle()
	require.NoError(t, w.book["b"].err)
}

// FC-012: a graceful close ends in the moment in which its last batch has expired. (Simulation: it slept on, for up to a minute.)
func TestCloseEndsWithTheLastExpiry(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1}, DeliveryTimeout: time.Second, MetadataMaxAge: time.Hour,
		ReconnectBackoff: time.Minute, ReconnectBackoffMax: 2 * time.Minute, RetryBackoff: 30 * time.Second, RetryBackoffMax: time.Minute})
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.settle()
	require.NoError(t, w.Cluster.NodeDown(1))
	w.send("t", 0, "b")
	began := w.Now()
	w.Acc.Close()
	w.Sender.InitiateClose()
	w.Run(time.Hour, w.Sender.Closed)
	require.ErrorIs(t, w.book["b"].err, sender.ErrDeliveryTimeout)
	require.Less(t, w.Now().Sub(began), 1100*time.Millisecond)
}

// FC-092: a connection that ended while nothing used it is made again for the first record, at once: nobody else wakes the
// sender for it. (Simulation: it slept on until metadata was due, here for a minute.)
func TestFirstRecordAfterAnIdleConnectionEnded(t *testing.T) {
	for _, linger := range []time.Duration{-1, 5 * time.Millisecond} {
		w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1}, Linger: linger, IdleTimeout: time.Second, MetadataMaxAge: time.Hour})
		w.topic("t", 1)
		w.send("t", 0, "a")
		w.settle()
		sent := w.Now().Add(10 * time.Second)
		w.Selector.In(sent.Sub(w.Now()), func() { w.send("t", 0, "b") })
		w.Run(20*time.Second, func() bool { return w.book["b"] != nil && w.book["b"].calls > 0 })
		require.NoError(t, w.book["b"].err)
		require.Less(t, w.Now().Sub(sent), 100*time.Millisecond)
		w.settle()
	}
}

// S-75, FC-057: each record for a partition without a leader ends by its own delivery timeout, also the first one after a time
// in which there was none. (Simulation: it lay there until the sender woke for something else.)
func TestRecordsWithoutALeaderExpireOnTime(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 2}, Linger: -1, DeliveryTimeout: 300 * time.Millisecond, MetadataMaxAge: time.Hour})
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.settle()
	require.NoError(t, w.Cluster.MoveLeader("t", 0, testbroker.NoLeader))
	for _, name := range []string{"b", "c"} {
		sent := w.Now().Add(20 * time.Second)
		w.Selector.In(sent.Sub(w.Now()), func() { w.send("t", 0, name) })
		w.Run(time.Minute, func() bool { return w.book[name] != nil && w.book[name].calls > 0 })
		require.ErrorIs(t, w.book[name].err, sender.ErrDeliveryTimeout)
		require.Less(t, w.Now().Sub(sent), 350*time.Millisecond)
	}
	require.NoError(t, w.Cluster.MoveLeader("t", 0, 2))
	w.send("t", 0, "d")
	w.settle()
	require.NoError(t, w.book["d"].err)
}

// S-74, S-87, SND-50: with nothing to do the sender sleeps; with a batch that lingers, until its linger ends; with one
// in flight, until something is due. It never polls with no time-out twice in a row for nothing.
func TestSleepsUntilSomethingIsDue(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1}, Linger: 40 * time.Millisecond})
	w.topic("t", 1)
	w.send("t", 0, "warm")
	w.settle()

	before := w.Now()
	w.Step()
	require.Greater(t, w.Now().Sub(before), time.Second, "nothing to do")

	w.send("t", 0, "a")
	sent := w.Now()
	requests := len(w.produces())
	steps := 0
	w.Run(time.Second, func() bool { steps++; return len(w.produces()) > requests })
	require.InDelta(t, 40, w.Now().Sub(sent).Milliseconds(), 3)
	require.Less(t, steps, 8)
	w.settle()
}

// S-79: a batch larger than a request may be is sent alone.
func TestOversizedBatchGoesAlone(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1}, MaxRequestSize: 3000, BatchSize: 2000})
	w.topic("t", 3)
	big := make([]byte, 5000)
	for i := range big {
		big[i] = 'x'
	}
	w.send("t", 0, string(big))
	w.send("t", 1, "t-a")
	w.send("t", 2, "t-b")
	w.settle()
	for _, r := range w.produces() {
		total := 0
		for _, b := range r.Batches {
			total += b.Size
		}
		require.True(t, total <= 3000 || len(r.Batches) == 1, "%d bytes in %d batches", total, len(r.Batches))
	}
}

// S-78: a request that is full leaves a partition its turn for the next.
func TestNoPartitionStarves(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1}, MaxRequestSize: 300, BatchSize: 250, Linger: -1})
	w.topic("t", 4)
	for i := range 40 {
		for p := int32(0); p < 4; p++ {
			w.sendN("t", p, i*4, i*4+4)
		}
	}
	w.settle()
	for p := int32(0); p < 4; p++ {
		require.Equal(t, w.sentTo("t", p), w.values("t", p))
	}
	// No partition is served twice while another that has batches is served never.
	count := map[int32]int{}
	for _, r := range w.produces() {
		for _, b := range r.Batches {
			count[b.Partition]++
			for p := int32(0); p < 4; p++ {
				require.LessOrEqual(t, count[b.Partition]-count[p], 8)
			}
		}
	}
}

// S-84, S-85, SND-25, FC-004: a batch that was sent and expires is told so, as one that may have been written; nothing
// of its partition gets a sequence until its fate no longer matters.
func TestExpiryInFlight(t *testing.T) {
	for _, tt := range []struct {
		name string
		v    testbroker.Verdict
		want []string
	}{
		{"not appended", testbroker.Verdict{Mute: true, Skip: true}, []string{"a", "c"}},
		{"appended", testbroker.Verdict{Mute: true}, []string{"a", "b", "c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{2: tt.v})})
			cfg.DeliveryTimeout = 300 * time.Millisecond
			cfg.RequestTimeout = 400 * time.Millisecond
			w := newWorld(t, cfg)
			w.topic("t", 1)
			w.send("t", 0, "a")
			w.Settle(time.Second)
			w.send("t", 0, "b")
			w.Run(200*time.Millisecond, func() bool { return false })
			w.send("t", 0, "c")
			w.settle()
			err := w.book["b"].err
			require.ErrorIs(t, err, sender.ErrDeliveryTimeout)
			var d *sender.DeliveryError
			require.ErrorAs(t, err, &d)
			require.True(t, d.MayHaveBeenWritten())
			require.Equal(t, 1, d.Attempts)
			require.Contains(t, err.Error(), "t-0")
			require.Contains(t, err.Error(), "may have been written")
			require.NoError(t, w.book["c"].err)
			require.Equal(t, tt.want, w.values("t", 0))
		})
	}
}

// S-84, SND-24, SND-51, FC-012: what was never sent expires as never sent, in every partition, and is never sent later.
func TestExpiryInTheQueue(t *testing.T) {
	cfg := sim.Config{Cluster: testbroker.Config{Nodes: 1}}
	cfg.DeliveryTimeout = 300 * time.Millisecond
	w := newWorld(t, cfg)
	w.topic("t", 3)
	require.NoError(t, w.Cluster.NodeDown(1))
	for p := int32(0); p < 3; p++ {
		w.sendN("t", p, 0, 10)
	}
	began := w.Now()
	w.Settle(time.Minute)
	require.InDelta(t, 300, w.Now().Sub(began).Milliseconds(), 20)
	for _, e := range w.book {
		require.ErrorIs(t, e.err, sender.ErrDeliveryTimeout)
		var d *sender.DeliveryError
		require.ErrorAs(t, e.err, &d)
		require.False(t, d.MayHaveBeenWritten())
		require.Contains(t, e.err.Error(), "never sent")
	}
	require.NoError(t, w.Cluster.NodeUp(1))
	w.send("t", 0, "t-later")
	w.settle()
	require.Equal(t, []string{"t-later"}, w.values("t", 0))
	require.Equal(t, int32(0), w.produces()[0].Batches[0].BaseSequence, "what was never sent used up no sequence")
}

// SND-49: the answer to a batch that has expired changes nothing any more.
func TestLateAnswerIsIgnored(t *testing.T) {
	for _, code := range []protocol.ErrorCode{protocol.None, protocol.NotLeaderOrFollower, protocol.MessageTooLarge} {
		cfg := sim.Config{Cluster: testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{1: {Code: code, Hold: 350 * time.Millisecond}})}}
		cfg.DeliveryTimeout = 300 * time.Millisecond
		cfg.RequestTimeout = 400 * time.Millisecond
		w := newWorld(t, cfg)
		w.topic("t", 1)
		w.send("t", 0, "a")
		w.send("t", 0, "b")
		w.settle()
		require.ErrorIs(t, w.book["a"].err, sender.ErrDeliveryTimeout)
		require.Len(t, w.produces(), 1, "%v", code)
	}
}

// With acks 0 a broker refuses a batch by closing the connection, and with it goes the question for metadata that lies behind the batch. Nothing more is sent to it
// until the metadata has been heard, or a producer under load would go on for ever with what is no longer so.
func TestAcksNoneOfATopicThatIsAnother(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: nodes}, AcksNone: true, Linger: -1, ReconnectBackoff: 50 * time.Millisecond, ReconnectBackoffMax: time.Second})
		w.topic("t", 3)
		n := 0
		var more func()
		more = func() {
			w.send("t", int32(n%3), fmt.Sprint(n))
			if n++; n < 2000 {
				w.Selector.In(time.Millisecond, more)
			}
		}
		more()
		w.Run(100*time.Millisecond, func() bool { return false })
		require.NoError(t, w.Cluster.RecreateTopic(testbroker.Topic{Name: "t", Partitions: 3}))
		w.Run(400*time.Millisecond, func() bool { return false })
		for p := range int32(3) {
			require.NotEmpty(t, w.Cluster.Records("t", p), "%d nodes, partition %d", nodes, p)
		}
	}
}

// S-90: with acks 0 a batch is done once it is written, at an unknown offset.
func TestAcksNone(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1}, AcksNone: true})
	w.topic("t", 1)
	w.sendN("t", 0, 0, 10)
	w.settle()
	require.Equal(t, w.sent, w.values("t", 0))
	for _, e := range w.book {
		require.NoError(t, e.err)
		require.Equal(t, int64(-1), e.result.Offset)
	}
}

// S-91: closing lets everything that was accepted come to its end, then the loop ends.
func TestCloseDrains(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1}, Linger: time.Hour, DeliveryTimeout: 2 * time.Hour})
	w.topic("t", 2)
	w.sendN("t", 0, 0, 10)
	w.sendN("t", 1, 0, 10)
	w.Acc.Close()
	w.Sender.InitiateClose()
	w.Run(time.Second, w.Sender.Closed)
	require.True(t, w.Sender.Closed())
	require.ErrorIs(t, w.Append("t", 0, nil, []byte("x"), nil), accumulator.ErrClosed)
	w.check()
	require.Len(t, w.done, 20)
}

// S-91, ACC-13, FC-013 C1: a forced close fails what is left, in flight or not, once each.
func TestForceCloseFailsTheRest(t *testing.T) {
	cfg := small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{2: {Mute: true}})})
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.Settle(time.Second)
	w.sendN("t", 0, 0, 5)
	w.Run(50*time.Millisecond, func() bool { return false })
	w.Acc.Close()
	w.Sender.InitiateClose()
	w.Sender.ForceClose()
	w.Run(time.Second, w.Sender.Closed)
	w.Client.Close()
	written := 0
	for v, e := range w.book {
		require.Equal(t, 1, e.calls, v)
		if v == "a" {
			continue
		}
		require.ErrorIs(t, e.err, sender.ErrForceClosed)
		var d *sender.DeliveryError
		require.ErrorAs(t, e.err, &d)
		if d.MayHaveBeenWritten() {
			written++
		}
	}
	require.Equal(t, 1, written, "one was in flight")
	require.Equal(t, w.Pool.Total(), w.Pool.Available())
}

// SND-04: as many retries as allowed, and then the last error.
func TestRetriesAreCounted(t *testing.T) {
	for _, tt := range []struct {
		drops int
		fails bool
	}{{1, false}, {2, true}} {
		v := map[int]testbroker.Verdict{}
		for i := 1; i <= tt.drops; i++ {
			v[i] = testbroker.Verdict{Skip: true, Drop: testbroker.DropFIN}
		}
		w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1, Fault: nth(v)}, Retries: 1, NotIdempotent: true})
		w.topic("t", 1)
		w.send("t", 0, "a")
		w.settle()
		require.Equal(t, tt.fails, w.book["a"].err != nil)
		if tt.fails {
			var d *sender.DeliveryError
			require.ErrorAs(t, w.book["a"].err, &d)
			require.True(t, d.MayHaveBeenWritten())
			require.Equal(t, 2, d.Attempts)
		}
	}
}

// The answer comes when a record's time is up: that is why it is not sent again, and what it is told.
func TestTimeUpWithTheAnswer(t *testing.T) {
	l := newLoopback(t, 1, 10)
	l.round(t)
	var told error
	_, _, err := l.acc.Append(t.Context(), l.topic, l.md, &l.record, func(_ accumulator.Result, err error) { told = err }, false, 0)
	require.NoError(t, err)
	l.body = (&protocol.ProduceResponse{Topics: []protocol.ProduceResponseTopic{{
		ID: protocol.UUID{1}, Partitions: []protocol.ProduceResponsePartition{{ErrorCode: protocol.NotEnoughReplicas, BaseOffset: -1, CurrentLeader: protocol.NoLeader}},
	}}}).AppendTo(nil, 13)
	l.took = 2 * time.Minute
	l.RunOnce(l.now)
	for l.disp.Step() {
	}
	require.ErrorIs(t, told, sender.ErrDeliveryTimeout)
	require.ErrorIs(t, told, protocol.NotEnoughReplicas)
}

// Small batches of many partitions that are due together wait for the answer under way. Over a way that is longer than the linger they wait until the last request is
// as old as that. Few do not wait, and what is more than a request does not wait with its rest.
func TestManySmallBatchesWaitForTheAnswer(t *testing.T) {
	for _, tt := range []struct {
		partitions int32
		size       int
		latency    time.Duration   // each way
		apart      []time.Duration // the requests
	}{
		{200, 1, 2 * time.Millisecond, []time.Duration{4 * time.Millisecond}},
		{200, 1, 40 * time.Millisecond, []time.Duration{5 * time.Millisecond}},
		{30, 1, 2 * time.Millisecond, []time.Duration{3 * time.Millisecond}},
		{200, 1000, 2 * time.Millisecond, []time.Duration{4 * time.Millisecond, 0, 0, 0}},
	} {
		w := newWorld(t, sim.Config{Linger: 5 * time.Millisecond, MaxRequestSize: 64 << 10, Cluster: testbroker.Config{Nodes: 1}})
		w.Selector.Latency = func() time.Duration { return tt.latency }
		w.topic("t", int(tt.partitions))
		w.send("t", 0, "before")
		w.settle() // there is a producer id, and the time of a round trip is known
		var at []time.Duration
		w.Selector.Network.Sent = func(int32, testbroker.ConnID, protocol.Frame) { at = append(at, w.Selector.Since()) }
		w.send("t", 0, "first")
		w.Selector.In(3*time.Millisecond, func() {
			for p := range tt.partitions {
				w.send("t", p, fmt.Sprintf("%*d", tt.size, p))
			}
		})
		w.Run(3*time.Millisecond, func() bool { return false })
		w.settle()
		require.Len(t, at, 1+len(tt.apart))
		for i, apart := range tt.apart {
			require.Equal(t, apart, at[i+1]-at[i], "%d partitions, %v", tt.partitions, tt.latency)
		}
	}
}

// How far a broker is that has answered nothing yet is not known: what is due for it does not wait for the answer either.
func TestManySmallBatchesDoNotWaitForWhoHasAnsweredNothing(t *testing.T) {
	w := newWorld(t, sim.Config{Linger: 5 * time.Millisecond, Cluster: testbroker.Config{Nodes: 1}, NotIdempotent: true})
	w.Selector.Latency = func() time.Duration { return 40 * time.Millisecond }
	w.topic("t", 200)
	var at []time.Duration
	w.Selector.Network.Sent = func(int32, testbroker.ConnID, protocol.Frame) {
		if at = append(at, w.Selector.Since()); len(at) == 1 {
			w.Selector.In(8*time.Millisecond, func() {
				for p := range int32(200) {
					w.send("t", p, fmt.Sprint(p))
				}
			})
		}
	}
	w.send("t", 0, "first")
	w.Run(time.Second, func() bool { return len(at) > 0 })
	w.settle()
	require.Len(t, at, 2)
	require.Equal(t, 13*time.Millisecond, at[1]-at[0])
}

// What has come together in slabs that are full, in batches that are not, ends the wait for the answer.
func TestManySmallBatchesWaitNoLongerThanForEnough(t *testing.T) {
	latency := 2 * time.Millisecond
	w := newWorld(t, sim.Config{Linger: 20 * time.Millisecond, BatchSize: 512 << 10, Cluster: testbroker.Config{Nodes: 1}})
	w.Selector.Latency = func() time.Duration { return latency }
	w.topic("t", 200)
	w.send("t", 0, "before")
	w.settle()
	latency = 150 * time.Millisecond // it is slow now
	var at []time.Duration
	w.Selector.Network.Sent = func(int32, testbroker.ConnID, protocol.Frame) { at = append(at, w.Selector.Since()) }
	w.send("t", 0, "first")
	w.Selector.In(11*time.Millisecond, func() { // due at 31 ms, and held until 120
		for p := range int32(200) {
			w.send("t", p, fmt.Sprint(p))
		}
	})
	w.Selector.In(35*time.Millisecond, func() {
		for i := range 10 {
			w.send("t", int32(i/2), fmt.Sprintf("%14000d", i))
		}
	})
	w.Run(120*time.Millisecond, func() bool { return false })
	w.settle()
	require.GreaterOrEqual(t, len(at), 2)
	require.Equal(t, 15*time.Millisecond, at[1]-at[0])
}

// SND-14: no right to be idempotent: what waits fails, and later sends try again.
func TestProducerIDRefused(t *testing.T) {
	allowed := false
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
		if r.API == protocol.KeyInitProducerID && !allowed {
			return testbroker.Verdict{Code: protocol.ClusterAuthorizationFailed}
		}
		return testbroker.Verdict{}
	}}})
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.Settle(time.Second)
	require.ErrorIs(t, w.book["a"].err, protocol.ClusterAuthorizationFailed)
	allowed = true
	w.send("t", 0, "b")
	w.settle()
	require.NoError(t, w.book["b"].err)
}

// SND-62: a producer id that is not to be had yet is asked for again after the back-off, and nothing is sent meanwhile.
func TestProducerIDComesLate(t *testing.T) {
	n := 0
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
		if r.API == protocol.KeyInitProducerID {
			if n++; n <= 3 {
				return testbroker.Verdict{Code: protocol.CoordinatorLoadInProgress}
			}
		}
		return testbroker.Verdict{}
	}}})
	w.topic("t", 1)
	began := w.Now()
	w.send("t", 0, "a")
	w.settle()
	require.Equal(t, 4, n)
	require.GreaterOrEqual(t, w.Now().Sub(began), 3*20*time.Millisecond)
}

// A bootstrap name leads to another cluster by now. Nothing of that must be believed, also not a producer id: in our cluster it can be
// another producer's, and our records then look like repetitions of its own, which are acknowledged and not written.
func TestProducerIDOfAnotherCluster(t *testing.T) {
	refuse := true
	cfg := small(testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
		if r.API == protocol.KeyInitProducerID && refuse {
			return testbroker.Verdict{Code: protocol.CoordinatorLoadInProgress}
		}
		return testbroker.Verdict{}
	}})
	cfg.Bootstrap = func(int32) string { return "boot" }
	cfg.DeliveryTimeout = time.Minute
	w := newWorld(t, cfg)
	w.Selector.AskCluster = true
	w.Selector.Occupy("boot", 9092, w.Cluster, 1)
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.Run(2*time.Second, func() bool { return false })
	require.False(t, w.Sender.Sequences().ID().Valid())

	other := testbroker.NewCluster(testbroker.Config{ClusterID: "another-cluster", Nodes: 1})
	w.Selector.Occupy("boot", 9092, other, 1)
	require.NoError(t, w.Cluster.NodeDown(1))
	w.Run(5*time.Second, func() bool { return false })
	asked := 0
	for _, e := range other.Requests() {
		asked++
		require.Contains(t, []protocol.APIKey{protocol.KeyAPIVersions, protocol.KeyMetadata}, e.Request.API)
	}
	require.Positive(t, asked, "the world is not what the test is about")
	require.False(t, w.Sender.Sequences().ID().Valid())

	refuse = false
	require.NoError(t, w.Cluster.NodeUp(1))
	w.settle()
	require.NoError(t, w.book["a"].err)
	require.Equal(t, []string{"a"}, w.values("t", 0))
}

// SND-38: an error that finishes the producer fails what is queued and what comes later.
func TestFatalErrorFinishesTheProducer(t *testing.T) {
	w := newWorld(t, small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{1: {Code: protocol.ClusterAuthorizationFailed}})}))
	w.topic("t", 1)
	w.sendN("t", 0, 0, 3)
	w.Settle(time.Second)
	for _, e := range w.book {
		require.ErrorIs(t, e.err, protocol.ClusterAuthorizationFailed)
	}
	require.ErrorIs(t, w.Sender.Err(), protocol.ClusterAuthorizationFailed)
	w.send("t", 0, "later")
	w.settle()
	require.ErrorIs(t, w.book["later"].err, protocol.ClusterAuthorizationFailed)
}

// SND-47, SND-60: records that the broker named get their own words; the others are told that it was not them.
func TestErrorsOfSingleRecords(t *testing.T) {
	text := "no such schema"
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{1: {
		Code: protocol.InvalidRecord,
		Edit: func(m protocol.Message) {
			p := &m.(*protocol.ProduceResponse).Topics[0].Partitions[0]
			whole := "some are invalid"
			p.Details = &protocol.ProduceDetails{
				ErrorMessage: &whole,
				RecordErrors: []protocol.BatchIndexAndErrorMessage{{BatchIndex: 0, BatchIndexErrorMessage: &text}, {BatchIndex: 2}},
			}
		},
	}})}})
	w.topic("t", 1)
	for _, v := range []string{"a", "b", "c", "d"} {
		w.send("t", 0, v)
	}
	w.settle()
	require.ErrorIs(t, w.book["a"].err, protocol.InvalidRecord)
	require.ErrorContains(t, w.book["a"].err, text)
	require.ErrorIs(t, w.book["c"].err, protocol.InvalidRecord)
	require.ErrorContains(t, w.book["c"].err, "some are invalid")
	for _, v := range []string{"b", "d"} {
		require.Error(t, w.book[v].err)
		require.False(t, errors.Is(w.book[v].err, protocol.InvalidRecord))
	}
}

// SND-66, SND-68, SND-69, KIP-951, FC-009: NOT_LEADER with a hint is retried at once at the new leader, without one after the metadata
// has come and the back-off is over.
func TestLeaderHint(t *testing.T) {
	for _, hint := range []bool{true, false} {
		var w *world
		moved := false
		w = newWorld(t, sim.Config{RetryBackoff: 200 * time.Millisecond, RetryBackoffMax: 200 * time.Millisecond, Cluster: testbroker.Config{
			Nodes: 3, Fault: func(r *testbroker.Request) testbroker.Verdict {
				if r.API != protocol.KeyProduce || hint {
					return testbroker.Verdict{}
				}
				return testbroker.Verdict{Edit: func(m protocol.Message) {
					resp := m.(*protocol.ProduceResponse)
					resp.NodeEndpoints = nil
					for i := range resp.Topics {
						for j := range resp.Topics[i].Partitions {
							resp.Topics[i].Partitions[j].CurrentLeader = protocol.NoLeader
						}
					}
				}}
			}}})
		w.topic("t", 1, 1)
		w.send("t", 0, "a")
		w.settle()
		require.NoError(t, w.Cluster.MoveLeader("t", 0, 2))
		moved = true
		began := w.Now()
		w.send("t", 0, "b")
		w.settle()
		took := w.Now().Sub(began) - 50*time.Millisecond // settle's own
		if hint {
			require.Less(t, took, 60*time.Millisecond)
		} else {
			require.Greater(t, took, 60*time.Millisecond)
		}
		require.True(t, moved)
	}
}

// SND-02, NC-12: a throttled node gets nothing for as long as it asked, and then goes on.
func TestThrottledNodeIsLeftAlone(t *testing.T) {
	w := newWorld(t, small(testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{1: {Throttle: 300 * time.Millisecond, ThrottleOnly: true}})}))
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.Settle(time.Second)
	w.send("t", 0, "b")
	w.settle()
	r := w.produces()
	require.GreaterOrEqual(t, r[1].At.Sub(r[0].At), 300*time.Millisecond)
}

// Delivery 4: what comes in while a node can take nothing, and owes an answer that would wake the sender, expires in its time all the same.
// (Simulation: it slept on for as long as the node throttled.)
func TestRecordsExpireWhileTheirNodeThrottles(t *testing.T) {
	asked := false
	cfg := small(testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
		switch {
		case r.API == protocol.KeyMetadata && asked:
			return testbroker.Verdict{Hold: 15 * time.Second}
		case r.API == protocol.KeyProduce:
			asked = true
			return testbroker.Verdict{Hold: 50 * time.Millisecond, Throttle: 10 * time.Second, ThrottleOnly: true}
		}
		return testbroker.Verdict{}
	}})
	cfg.DeliveryTimeout, cfg.RequestTimeout = 300*time.Millisecond, 20*time.Second
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.Settle(20 * time.Millisecond)
	w.Metadata.RequestUpdate()
	w.Sender.Wakeup()
	w.Settle(100 * time.Millisecond)
	require.NoError(t, w.book["a"].err)
	w.Selector.In(100*time.Millisecond, func() { w.send("t", 0, "b") }) // while the sender sleeps
	require.False(t, w.Run(20*time.Second, func() bool { return false }))
	var e *sender.DeliveryError
	require.ErrorAs(t, w.book["b"].err, &e)
	require.ErrorIs(t, e, sender.ErrDeliveryTimeout)
	require.LessOrEqual(t, e.Age, 550*time.Millisecond)
}

// S-08, S-101, SND-45: a broker that never answers: the connection is closed after the request timeout, and the batch is sent again.
func TestSilentBroker(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{1: {Mute: true, Skip: true}})}})
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.settle()
	r := w.produces()
	require.Len(t, r, 2)
	require.NotEqual(t, r[0].Conn, r[1].Conn)
	require.InDelta(t, 500, r[1].At.Sub(r[0].At).Milliseconds(), 60)
	require.NoError(t, w.book["a"].err)
}

// S-100, C2: an answer that names other partitions than were asked ends the connection and settles nothing.
func TestWrongAnswerIsNotBelieved(t *testing.T) {
	for name, edit := range map[string]func(p *protocol.ProduceResponse){
		"another partition": func(p *protocol.ProduceResponse) { p.Topics[0].Partitions[0].Index = 7 },
		"no partition":      func(p *protocol.ProduceResponse) { p.Topics[0].Partitions = nil },
		"twice": func(p *protocol.ProduceResponse) {
			p.Topics[0].Partitions = append(p.Topics[0].Partitions, p.Topics[0].Partitions[0])
		},
		"another topic": func(p *protocol.ProduceResponse) { p.Topics[0].ID[3]++ },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1, Fault: nth(map[int]testbroker.Verdict{
				1: {Edit: func(m protocol.Message) { edit(m.(*protocol.ProduceResponse)) }},
			})}})
			w.topic("t", 1)
			w.send("t", 0, "a")
			w.settle()
			r := w.produces()
			require.Len(t, r, 2)
			require.NotEqual(t, r[0].Conn, r[1].Conn)
			require.Equal(t, []string{"a"}, w.values("t", 0))
		})
	}
}

// S-91: a leader that moves while the producer closes is found; closing needs metadata too.
func TestCloseFollowsTheLeader(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 2}, Linger: time.Hour, DeliveryTimeout: 2 * time.Hour})
	w.topic("t", 1, 1)
	w.sendN("t", 0, 0, 10)
	require.NoError(t, w.Cluster.MoveLeader("t", 0, 2))
	w.Acc.Close()
	w.Metadata.Interrupt()
	w.Sender.InitiateClose()
	w.Run(5*time.Second, w.Sender.Closed)
	require.True(t, w.Sender.Closed())
	w.check()
	for _, e := range w.book {
		require.NoError(t, e.err)
	}
}
