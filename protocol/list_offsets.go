package protocol

// Timestamps with a meaning of their own in a [ListOffsetsRequest].
const (
	LatestTimestamp          int64 = -1
	EarliestTimestamp        int64 = -2
	MaxTimestamp             int64 = -3 // v7
	EarliestLocalTimestamp   int64 = -4 // v8
	LatestTieredTimestamp    int64 = -5 // v9
	EarliestPendingTimestamp int64 = -6 // v11
)

// ListOffsetsRequest asks for the first offset at or after a timestamp.
type ListOffsetsRequest struct {
	ReplicaID      int32 // -1 for a consumer
	IsolationLevel int8  // v2
	Topics         []ListOffsetsRequestTopic
	TimeoutMs      int32 // v10
}

// ListOffsetsRequestTopic is one topic of a [ListOffsetsRequest].
type ListOffsetsRequestTopic struct {
	Name       string
	Partitions []ListOffsetsRequestPartition
}

// ListOffsetsRequestPartition is one partition of a [ListOffsetsRequestTopic].
type ListOffsetsRequestPartition struct {
	PartitionIndex     int32
	CurrentLeaderEpoch int32 // v4; -1 when not known
	Timestamp          int64
}

// ListOffsetsResponse is the answer to [ListOffsetsRequest].
type ListOffsetsResponse struct {
	ThrottleTimeMs int32 // v2
	Topics         []ListOffsetsResponseTopic
}

// ListOffsetsResponseTopic is one topic of a [ListOffsetsResponse].
type ListOffsetsResponseTopic struct {
	Name       string
	Partitions []ListOffsetsResponsePartition
}

// ListOffsetsResponsePartition is one partition of a [ListOffsetsResponseTopic].
type ListOffsetsResponsePartition struct {
	PartitionIndex int32
	ErrorCode      ErrorCode
	Timestamp      int64 // -1 when there is no such record
	Offset         int64 // -1 when there is no such record
	LeaderEpoch    int32 // v4; -1 when not known
}
