package testbroker

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

func metadataFor(names ...string) *protocol.MetadataRequest {
	m := &protocol.MetadataRequest{AllowAutoTopicCreation: true, Topics: []protocol.MetadataRequestTopic{}}
	for _, n := range names {
		m.Topics = append(m.Topics, protocol.MetadataRequestTopic{Name: &n})
	}
	return m
}

func (c *core) metadata(names ...string) *protocol.MetadataResponse {
	c.t.Helper()
	return c.do(metadataFor(names...), 12).(*protocol.MetadataResponse)
}

func leaders(t protocol.MetadataResponseTopic) (ids []int32) {
	for _, p := range t.Partitions {
		ids = append(ids, p.LeaderID)
	}
	return ids
}

func TestMetadataDescribesTheCluster(t *testing.T) {
	c := newCore(t, Config{Nodes: 3, ClusterID: "abc", Topics: []Topic{{Name: "a", Partitions: 4}, {Name: "b", Leaders: []int32{3}}}})
	require.NoError(t, c.SetAddr(2, "::1", 1234))
	for version := int16(0); version <= 13; version++ {
		all := &protocol.MetadataRequest{}
		r := c.do(all, version).(*protocol.MetadataResponse)
		require.Len(t, r.Brokers, 3)
		assert.Equal(t, protocol.MetadataResponseBroker{NodeID: 2, Host: "::1", Port: 1234}, r.Brokers[1])
		require.Len(t, r.Topics, 2)
		assert.Equal(t, "a", *r.Topics[0].Name)
		assert.Equal(t, []int32{1, 2, 3, 1}, leaders(r.Topics[0]))
		assert.Equal(t, []int32{3}, leaders(r.Topics[1]))
		assert.Equal(t, []int32{3, 1, 2}, r.Topics[1].Partitions[0].ReplicaNodes)
		if version >= 2 {
			assert.Equal(t, "abc", *r.ClusterID)
		}
		if version >= 7 {
			assert.Equal(t, int32(0), r.Topics[0].Partitions[0].LeaderEpoch)
		}
		if version >= 10 {
			assert.Equal(t, c.TopicID("a"), r.Topics[0].TopicID)
		}
		assert.Equal(t, protocol.AuthorizedOperationsUnknown, r.Topics[0].TopicAuthorizedOperations)
		if version >= 1 {
			assert.Empty(t, c.do(metadataFor(), version).(*protocol.MetadataResponse).Topics, "none asked for, v%d", version)
		}
	}
	byID := &protocol.MetadataRequest{Topics: []protocol.MetadataRequestTopic{{TopicID: c.TopicID("b")}, {TopicID: protocol.UUID{1}}}}
	r := c.do(byID, 12).(*protocol.MetadataResponse)
	assert.Equal(t, "b", *r.Topics[0].Name)
	assert.Equal(t, protocol.UnknownTopicID, r.Topics[1].ErrorCode)
	c.Check(t)
}

func TestMetadataAutoCreation(t *testing.T) {
	tests := []struct {
		name  string
		cfg   Config
		topic string
		allow bool
		first protocol.ErrorCode
		then  protocol.ErrorCode
	}{
		{"as Kafka 4 does", Config{}, "new", true, protocol.UnknownTopicOrPartition, protocol.None},
		{"as Kafka 2 does", Config{Generation: Kafka28}, "new", true, protocol.LeaderNotAvailable, protocol.None},
		{"at once", Config{AutoCreate: AutoCreateAtOnce}, "new", true, protocol.None, protocol.None},
		{"not allowed by the broker", Config{AutoCreate: AutoCreateOff}, "new", true, protocol.UnknownTopicOrPartition, protocol.UnknownTopicOrPartition},
		{"not allowed by the client", Config{}, "new", false, protocol.UnknownTopicOrPartition, protocol.UnknownTopicOrPartition},
		{"bad name", Config{}, "no spaces", true, protocol.InvalidTopicException, protocol.InvalidTopicException},
		{"..", Config{}, "..", true, protocol.InvalidTopicException, protocol.InvalidTopicException},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Partitions = 2
			c := newCore(t, tt.cfg)
			ask := func() protocol.ErrorCode {
				m := metadataFor(tt.topic)
				m.AllowAutoTopicCreation = tt.allow
				return c.do(m, 9).(*protocol.MetadataResponse).Topics[0].ErrorCode
			}
			assert.Equal(t, tt.first.Name(), ask().Name())
			assert.Equal(t, tt.then.Name(), ask().Name())
			if tt.then == protocol.None {
				assert.Equal(t, 2, c.Partitions(tt.topic))
			} else {
				assert.Zero(t, c.Partitions(tt.topic))
			}
		})
	}
}

func TestMetadataAfterMovesAndOutages(t *testing.T) {
	c := newCore(t, Config{Nodes: 3, Replicas: 2, Topics: []Topic{{Name: "t", Partitions: 3}}})
	describe := func() protocol.MetadataResponseTopic { return c.metadata("t").Topics[0] }

	require.NoError(t, c.MoveLeader("t", 0, 3))
	top := describe()
	assert.Equal(t, []int32{3, 2, 3}, leaders(top))
	assert.Equal(t, int32(1), top.Partitions[0].LeaderEpoch)

	// Partition 1 is on nodes 2 and 3, partition 2 on 3 and 1, partition 0 by now on 1, 2 and 3.
	require.NoError(t, c.NodeDown(3))
	r := c.metadata("t")
	assert.Len(t, r.Brokers, 2)
	top = r.Topics[0]
	assert.Equal(t, []int32{1, 2, 1}, leaders(top))
	assert.Equal(t, []int32{3}, top.Partitions[1].OfflineReplicas)
	assert.Equal(t, []int32{2}, top.Partitions[1].IsrNodes)

	require.NoError(t, c.NodeDown(2))
	top = describe()
	assert.Equal(t, []int32{1, NoLeader, 1}, leaders(top))
	assert.Equal(t, protocol.LeaderNotAvailable, top.Partitions[1].ErrorCode)

	require.NoError(t, c.NodeUp(3))
	top = describe()
	assert.Equal(t, []int32{1, 3, 1}, leaders(top), "only partitions without leader get one")
	assert.Equal(t, protocol.None, top.Partitions[1].ErrorCode)
	assert.Equal(t, int32(2), top.Partitions[1].LeaderEpoch)

	require.NoError(t, c.AddPartitions("t", 5))
	assert.Len(t, describe().Partitions, 5)
	node, epoch := c.Leader("t", 1)
	assert.Equal(t, [2]int32{3, 2}, [2]int32{node, epoch})
	assert.Equal(t, []string{"t"}, c.TopicNames())

	assert.ErrorIs(t, c.MoveLeader("t", 9, 1), ErrNoPartition)
	assert.ErrorIs(t, c.MoveLeader("x", 0, 1), ErrNoTopic)
	assert.ErrorIs(t, c.MoveLeader("t", 0, 9), ErrNoNode)
	assert.ErrorIs(t, c.CreateTopic(Topic{Name: "t"}), ErrTopicExists)
}

func TestMetadataStalePerNode(t *testing.T) {
	c := newCore(t, Config{Nodes: 2, Topics: []Topic{{Name: "t", Leaders: []int32{1}}}})
	require.NoError(t, c.FreezeMetadata(1))
	require.NoError(t, c.MoveLeader("t", 0, 2))
	require.NoError(t, c.CreateTopic(Topic{Name: "new"}))
	r := c.metadata("t", "new")
	assert.Equal(t, []int32{1}, leaders(r.Topics[0]))
	assert.Equal(t, protocol.UnknownTopicOrPartition, r.Topics[1].ErrorCode)

	c.node, c.conn = 2, 2
	assert.Equal(t, []int32{2}, leaders(c.metadata("t").Topics[0]), "the other node is up to date")
	require.NoError(t, c.ThawMetadata(1))
	c.node, c.conn = 1, 1
	assert.Equal(t, []int32{2}, leaders(c.metadata("t").Topics[0]))
}

func TestMetadataTopicErrors(t *testing.T) {
	c := newCore(t, Config{Topics: []Topic{{Name: "t"}, {Name: "u"}}})
	c.SetTopicError("t", protocol.TopicAuthorizationFailed)
	r := c.metadata("t", "u")
	assert.Equal(t, protocol.TopicAuthorizationFailed, r.Topics[0].ErrorCode)
	assert.Empty(t, r.Topics[0].Partitions)
	assert.Equal(t, protocol.None, r.Topics[1].ErrorCode)
	assert.Len(t, c.do(&protocol.MetadataRequest{}, 12).(*protocol.MetadataResponse).Topics, 1, "all that one may see")
	c.SetTopicError("t", protocol.None)
	assert.Equal(t, protocol.None, c.metadata("t").Topics[0].ErrorCode)
}

func TestUncleanElectionLosesRecords(t *testing.T) {
	c := newCore(t, Config{Nodes: 2, Topics: []Topic{{Name: "t", Leaders: []int32{1}}}})
	c.produce("t", 0, idempotent(1, 0, 0, "a"))
	c.produce("t", 0, idempotent(1, 0, 1, "b"))
	require.NoError(t, c.UncleanElection("t", 0, 2, 1))
	c.node, c.conn = 2, 2
	assert.Equal(t, []string{"a"}, c.values("t", 0))
	assert.Equal(t, int64(1), c.produce("t", 0, idempotent(1, 0, 1, "b")).BaseOffset, "the sequence is free again")
}

// A cluster asked the same twice answers the same: nothing depends on map order.
func TestClusterIsDeterministic(t *testing.T) {
	run := func() (lines []string) {
		c := newCore(t, Config{Nodes: 5, Partitions: 3})
		for conn := range ConnID(20) {
			c.conn = conn + 1
			c.metadata("a", "b", "c", "d")
		}
		_ = c.NodeDown(1)
		for _, a := range c.after(0) {
			lines = append(lines, string(rune('a'+int(a.Kind)))+string(rune('0'+int(a.Conn))))
		}
		for _, e := range c.Journal(0) {
			lines = append(lines, e.String())
		}
		return lines
	}
	first := run()
	for range 5 {
		assert.Equal(t, first, run())
	}
}
