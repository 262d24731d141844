package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// BIP-05, KIP-1123: with a rack configured, a topic lists the partitions led from there.
func TestLocalPartitions(t *testing.T) {
	nodes := []protocol.Node{{ID: 1, Rack: "a"}, {ID: 2, Rack: "b"}, {ID: 3, Rack: "a"}}
	topic := &Topic{Name: "t", partitions: []Partition{{Index: 0, Leader: 1}, {Index: 1, Leader: 2}, {Index: 2, Leader: 3}, {Index: 3, Leader: 9}}}
	near := topic.resolve(nodes, "a")
	require.Equal(t, []int32{0, 2}, near.Local())
	require.Equal(t, []int32{0, 1, 2}, near.Available())
	require.Empty(t, topic.resolve(nodes, "").Local())
	var _ interface{ Local() []int32 } = near // what the partitioner looks for

	nodes[0].Rack = "b"
	require.Equal(t, []int32{2}, near.resolve(nodes, "a").Local(), "a broker that moved")
}
