package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/invariants"
)

// In v0 an empty list of topics means all of them; since v1 null does and an empty list means none.
func TestMetadataRequestAllOrNone(t *testing.T) {
	minVersion, maxVersion := KeyMetadata.Versions()
	for v := minVersion; v <= maxVersion; v++ {
		var got MetadataRequest
		require.NoError(t, got.ReadFrom((&MetadataRequest{}).AppendTo(nil, v), v))
		assert.Nil(t, got.Topics, "v%d, all", v)
		require.NoError(t, got.ReadFrom((&MetadataRequest{Topics: []MetadataRequestTopic{}}).AppendTo(nil, v), v))
		if v == 0 {
			assert.Nil(t, got.Topics)
		} else {
			assert.Equal(t, []MetadataRequestTopic{}, got.Topics, "v%d, none", v)
		}
	}
}

// FC-129: a null where an array must be is an error, as in Java, not an empty array.
func TestMetadataResponseNullArray(t *testing.T) {
	var m MetadataResponse
	assert.ErrorContains(t, m.ReadFrom([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, 0), "null where none may be")
	assert.EqualError(t, m.ReadFrom([]byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 0),
		"decode Metadata response v0: null where none may be (-1) at byte 8 of 8")
}

// What does not decode when it is gone through, though it did when it was checked, is not there. Topic "" and partition 0, led by node 0 at epoch 0,
// would be believed.
func TestMetadataInPlaceNeverMakesUpWhatItCannotRead(t *testing.T) {
	m := MetadataResponse{Topics: many(3, MetadataResponseTopic{Name: ptr("orders"), Partitions: many(3, MetadataResponsePartition{PartitionIndex: 7, LeaderID: 5, LeaderEpoch: 9, ReplicaNodes: []int32{5}})})}
	src := m.AppendTo(nil, 12)
	var got MetadataResponse
	require.NoError(t, got.ReadInPlace(src, 12))
	var topic MetadataResponseTopic
	for tp := range got.AllTopics() {
		topic = *tp
	}
	for i := range src {
		src[i] = 0xff // whoever keeps an answer longer than its bytes meets the next answer's
	}
	if invariants.Enabled {
		require.Panics(t, func() { got.AllTopics()(func(*MetadataResponseTopic) bool { return true }) })
		require.Panics(t, func() { topic.AllPartitions()(func(*MetadataResponsePartition) bool { return true }) })
		return
	}
	for range got.AllTopics() {
		require.Fail(t, "a topic")
	}
	for p := range topic.AllPartitions() {
		require.Fail(t, "a partition", "%+v", p)
	}
}
