package metadata

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

const ms = time.Millisecond

// t0 is when the tests begin; where synctest runs, its own clock counts.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testConfig has no jitter, so that all pauses are exact.
func testConfig() Config {
	return Config{
		Bootstrap:    []protocol.Node{{Host: "boot1", Port: 9092}, {Host: "boot2", Port: 9092}},
		RetryBackoff: 100 * ms, RetryBackoffMax: time.Second,
	}
}

// client stands in for the network client: it sends what is due and hands in answers.
type client struct {
	t *testing.T
	m *Metadata
}

func newClient(t *testing.T, cfg Config) client { return client{t, New(cfg)} }

// due requires that an update is due, and returns the names that the request asks for.
func (c client) due(now time.Time) []string {
	c.t.Helper()
	require.Zero(c.t, c.m.TimeToUpdate(now), "time to update")
	req := c.m.NewRequest(now)
	require.NotNil(c.t, req.Topics, "nil would ask for all topics")
	names := []string{}
	for _, t := range req.Topics {
		names = append(names, *t.Name)
	}
	return names
}

// answer hands in an answer of the highest version.
func (c client) answer(now time.Time, topics ...protocol.MetadataResponseTopic) {
	c.t.Helper()
	require.NoError(c.t, c.m.HandleResponse(13, response(topics...), now))
}

// update is one request with its answer.
func (c client) update(now time.Time, topics ...protocol.MetadataResponseTopic) []string {
	c.t.Helper()
	names := c.due(now)
	c.answer(now, topics...)
	return names
}

// response is an answer of a cluster of the nodes 1, 2 and 3.
func response(topics ...protocol.MetadataResponseTopic) *protocol.MetadataResponse {
	id := "cluster"
	return &protocol.MetadataResponse{Brokers: brokers(1, 2, 3), ClusterID: &id, ControllerID: 1, Topics: topics}
}

func brokers(ids ...int32) []protocol.MetadataResponseBroker {
	var bs []protocol.MetadataResponseBroker
	for _, id := range ids {
		bs = append(bs, protocol.MetadataResponseBroker{NodeID: id, Host: "host", Port: 9000 + id})
	}
	return bs
}

// topic is a topic with an id made of one byte, zero for none.
func topic(name string, id byte, partitions ...protocol.MetadataResponsePartition) protocol.MetadataResponseTopic {
	return protocol.MetadataResponseTopic{Name: &name, TopicID: uuid(id), Partitions: partitions}
}

func uuid(id byte) (u protocol.UUID) {
	u[15] = id
	return u
}

func failed(name string, code protocol.ErrorCode) protocol.MetadataResponseTopic {
	return protocol.MetadataResponseTopic{Name: &name, ErrorCode: code}
}

func part(index, leader, epoch int32) protocol.MetadataResponsePartition {
	return protocol.MetadataResponsePartition{
		PartitionIndex: index, LeaderID: leader, LeaderEpoch: epoch,
		ReplicaNodes: []int32{1, 2, 3}, IsrNodes: []int32{1, 2, 3},
	}
}

// leaders are a topic's partitions with leader and epoch, for comparing.
func leaders(s *Snapshot, name string) [][2]int32 {
	t := s.Topic(name)
	if t == nil {
		return nil
	}
	got := make([][2]int32, t.Count())
	for i := range got {
		got[i] = [2]int32{t.Leader(int32(i)), t.LeaderEpoch(int32(i))}
	}
	return got
}

func nodeIDs(s *Snapshot) []int32 {
	var ids []int32
	for _, n := range s.Nodes() {
		ids = append(ids, n.ID)
	}
	return ids
}

// interested are the names in the interest set.
func interested(m *Metadata) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := []string{}
	for name := range m.interest {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
