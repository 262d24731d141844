package testbroker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

func fetch(c *core, offset int64, minBytes int32, wait time.Duration) *protocol.FetchRequest {
	return &protocol.FetchRequest{
		ReplicaID: -1, ReplicaState: protocol.NoReplica, MaxWaitMs: int32(wait.Milliseconds()), MinBytes: minBytes, MaxBytes: 1 << 20, SessionEpoch: -1,
		Topics: []protocol.FetchRequestTopic{{Topic: "t", TopicID: c.TopicID("t"), Partitions: []protocol.FetchRequestPartition{{
			CurrentLeaderEpoch: -1, FetchOffset: offset, LastFetchedEpoch: -1, LogStartOffset: -1, PartitionMaxBytes: 1 << 20,
			HighWatermark: protocol.NoHighWatermark,
		}}}},
	}
}

func fetched(m protocol.Message) protocol.FetchResponsePartition {
	return m.(*protocol.FetchResponse).Topics[0].Partitions[0]
}

func TestFetchReturnsBatches(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
		c.produce("t", 0, plain("a", "b"))
		c.produce("t", 0, plain("c"))
		p := fetched(c.do(fetch(c, 0, 1, time.Second), version))
		require.Equal(t, protocol.None, p.ErrorCode)
		assert.Equal(t, int64(3), p.HighWatermark)
		assert.Len(t, p.Records, len(plain("a", "b"))+len(plain("c")))
		assert.Equal(t, protocol.OffsetOutOfRange, fetched(c.do(fetch(c, 4, 1, time.Second), version)).ErrorCode)
		c.Check(t)
	}
}

func TestFetchWaitsForRecords(t *testing.T) {
	c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
	assert.Empty(t, c.send(fetch(c, 0, 1, time.Second), 13))
	assert.Empty(t, c.send(metadataFor("t"), 12), "what comes behind it on the connection waits too")
	c.conn = 2
	actions := c.send(produce(-1, "t", 0, plain("a")), 12)
	require.Len(t, actions, 3)
	assert.Equal(t, []ConnID{2, 1, 1}, []ConnID{actions[0].Conn, actions[1].Conn, actions[2].Conn})
	r, _ := c.decode(actions[1])
	assert.Len(t, fetched(r).Records, len(plain("a")))
	r, _ = c.decode(actions[2])
	assert.IsType(t, &protocol.MetadataResponse{}, r)

	assert.Empty(t, c.after(time.Second), "its time-out has nothing to do any more")
}

func TestFetchTimesOut(t *testing.T) {
	c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
	c.produce("t", 0, plain("a"))
	assert.Empty(t, c.send(fetch(c, 0, 1000, time.Second), 13), "too little for MinBytes")
	c.conn = 2
	c.produce("t", 0, plain("b"))
	assert.Empty(t, c.after(999*time.Millisecond))
	actions := c.after(time.Millisecond)
	require.Len(t, actions, 1)
	r, _ := c.decode(actions[0])
	assert.Len(t, fetched(r).Records, 2*len(plain("a")))
}

func TestFetchEndsWithLeadership(t *testing.T) {
	c := newCore(t, Config{Nodes: 2, Topics: []Topic{{Name: "t", Leaders: []int32{1}}}})
	c.send(fetch(c, 0, 1, time.Minute), 13)
	require.NoError(t, c.MoveLeader("t", 0, 2))
	at, ok := c.NextTick()
	require.True(t, ok)
	assert.Equal(t, c.now, at, "due at once")
	actions := c.after(0)
	require.Len(t, actions, 1)
	r, _ := c.decode(actions[0])
	p := fetched(r)
	assert.Equal(t, protocol.NotLeaderOrFollower, p.ErrorCode)
	assert.Equal(t, protocol.LeaderIDAndEpoch{LeaderID: 2, LeaderEpoch: 1}, p.CurrentLeader)

	c.node, c.conn = 2, 2
	c.send(fetch(c, 0, 1, time.Minute), 13)
	id := c.TopicID("t")
	require.NoError(t, c.DeleteTopic("t"))
	actions = c.after(0)
	require.Len(t, actions, 1)
	r, _ = c.decode(actions[0])
	assert.Equal(t, protocol.UnknownTopicID, fetched(r).ErrorCode)
	assert.NotEqual(t, id, c.TopicID("t"))
}

func TestFetchOfAClosedConnectionIsForgotten(t *testing.T) {
	c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
	c.send(fetch(c, 0, 1, time.Minute), 13)
	c.Closed(1, c.now)
	assert.Empty(t, c.conns)
	assert.Empty(t, c.byName["t"].partitions[0].fetches)
	c.conn = 2
	c.produce("t", 0, plain("a"))
}

func TestFetchLimits(t *testing.T) {
	c := newCore(t, Config{Topics: []Topic{{Name: "t", Partitions: 2, Leaders: []int32{1, 1}}}})
	for range 10 {
		c.produce("t", 0, plain("0123456789"))
		c.produce("t", 1, plain("0123456789"))
	}
	size := len(plain("0123456789"))
	f := fetch(c, 0, 1, 0)
	f.Topics[0].Partitions = append(f.Topics[0].Partitions, f.Topics[0].Partitions[0])
	f.Topics[0].Partitions[1].Partition = 1
	lens := func() (n []int) {
		for _, p := range c.do(f, 12).(*protocol.FetchResponse).Topics[0].Partitions {
			n = append(n, len(p.Records)/size)
		}
		return n
	}
	assert.Equal(t, []int{10, 10}, lens())
	f.Topics[0].Partitions[0].PartitionMaxBytes = int32(3 * size)
	assert.Equal(t, []int{3, 10}, lens())
	f.MaxBytes = int32(5 * size)
	assert.Equal(t, []int{3, 2}, lens())
	f.MaxBytes = 1
	assert.Equal(t, []int{1, 0}, lens(), "one batch at least")
}

func TestFetchLeaderEpochs(t *testing.T) {
	c := newCore(t, Config{Nodes: 2, Topics: []Topic{{Name: "t", Leaders: []int32{1}}}})
	require.NoError(t, c.MoveLeader("t", 0, 1))
	f := fetch(c, 0, 0, 0)
	for epoch, want := range map[int32]protocol.ErrorCode{-1: protocol.None, 0: protocol.FencedLeaderEpoch, 1: protocol.None, 2: protocol.UnknownLeaderEpoch} {
		f.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		assert.Equal(t, want, fetched(c.do(f, 12)).ErrorCode, "epoch %d", epoch)
	}
}

func TestListOffsets(t *testing.T) {
	c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
	at := func(d time.Duration) int64 { return epoch.Add(d).UnixMilli() }
	ask := func(timestamp int64) [2]int64 {
		r := c.do(&protocol.ListOffsetsRequest{ReplicaID: -1, Topics: []protocol.ListOffsetsRequestTopic{{
			Name: "t", Partitions: []protocol.ListOffsetsRequestPartition{{CurrentLeaderEpoch: -1, Timestamp: timestamp}},
		}}}, 9).(*protocol.ListOffsetsResponse).Topics[0].Partitions[0]
		assert.Equal(t, protocol.None, r.ErrorCode)
		return [2]int64{r.Offset, r.Timestamp}
	}
	assert.Equal(t, [2]int64{0, -1}, ask(protocol.EarliestTimestamp))
	assert.Equal(t, [2]int64{0, -1}, ask(protocol.LatestTimestamp))
	assert.Equal(t, [2]int64{-1, -1}, ask(protocol.MaxTimestamp))
	assert.Equal(t, [2]int64{-1, -1}, ask(0))

	spec := batchSpec{producer: protocol.NoProducerID, sequence: -1, values: []string{"a", "b", "c"}}
	for _, d := range []time.Duration{0, time.Minute, 30 * time.Second} {
		spec.at = at(d)
		c.produce("t", 0, spec.build())
	}
	require.NoError(t, c.DeleteRecords("t", 0, 1))
	assert.Equal(t, [2]int64{1, -1}, ask(protocol.EarliestTimestamp))
	assert.Equal(t, [2]int64{9, -1}, ask(protocol.LatestTimestamp))
	assert.Equal(t, [2]int64{5, at(time.Minute) + 2}, ask(protocol.MaxTimestamp))
	assert.Equal(t, [2]int64{1, at(0) + 1}, ask(0))
	assert.Equal(t, [2]int64{2, at(0) + 2}, ask(at(0)+2))
	assert.Equal(t, [2]int64{3, at(time.Minute)}, ask(at(0)+3))
	assert.Equal(t, [2]int64{-1, -1}, ask(at(time.Hour)))
	assert.Equal(t, [2]int64{-1, -1}, ask(protocol.LatestTieredTimestamp))
}
