package protocol

// ProduceResponse is the answer to [ProduceRequest]. ReadFrom reuses the receiver's slices, so a
// response that is decoded into again and again allocates nothing as long as it carries no errors.
type ProduceResponse struct {
	Topics         []ProduceResponseTopic
	ThrottleTimeMs int32
	NodeEndpoints  []NodeEndpoint // v10: where the leaders named in CurrentLeader are (KIP-951)
}

// ProduceResponseTopic is one topic of a [ProduceResponse].
type ProduceResponseTopic struct {
	Name       []byte // v3 to v12; aliases the decoded bytes
	ID         UUID   // v13
	Partitions []ProduceResponsePartition
}

// ProduceResponsePartition is the verdict on one record batch.
type ProduceResponsePartition struct {
	Index           int32
	ErrorCode       ErrorCode
	BaseOffset      int64
	LogAppendTimeMs int64                       // -1 when the topic keeps create times
	LogStartOffset  int64                       // v5; -1 when not known
	RecordErrors    []BatchIndexAndErrorMessage // v8
	ErrorMessage    *string                     // v8
	CurrentLeader   LeaderIDAndEpoch            // v10; NoLeader when absent
}

// BatchIndexAndErrorMessage says what was wrong with one record of a batch.
type BatchIndexAndErrorMessage struct {
	BatchIndex             int32
	BatchIndexErrorMessage *string
}

// LeaderIDAndEpoch is a hint about a partition's new leader.
type LeaderIDAndEpoch struct {
	LeaderID    int32
	LeaderEpoch int32
}

// NoLeader is what stands in place of a hint that was not given.
var NoLeader = LeaderIDAndEpoch{LeaderID: -1, LeaderEpoch: -1}

// NodeEndpoint is the address of a broker named in a leader hint.
type NodeEndpoint struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   *string
}
