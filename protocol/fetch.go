package protocol

// FetchRequest asks for record batches.
type FetchRequest struct {
	ClusterID       *string      // v12
	ReplicaID       int32        // to v14; -1 for a consumer
	ReplicaState    ReplicaState // v15; NoReplica for a consumer
	MaxWaitMs       int32
	MinBytes        int32
	MaxBytes        int32
	IsolationLevel  int8
	SessionID       int32 // v7; 0 when there is no session
	SessionEpoch    int32 // v7; -1 when there is no session
	Topics          []FetchRequestTopic
	ForgottenTopics []ForgottenTopic // v7
	RackID          string           // v11
}

// ReplicaState says which follower is fetching.
type ReplicaState struct {
	ReplicaID    int32
	ReplicaEpoch int64
}

// NoReplica is the replica state of a consumer.
var NoReplica = ReplicaState{ReplicaID: -1, ReplicaEpoch: -1}

// FetchRequestTopic is one topic of a [FetchRequest], named up to v12 and by id from v13 on.
type FetchRequestTopic struct {
	Topic      string // to v12
	TopicID    UUID   // v13
	Partitions []FetchRequestPartition
}

// FetchRequestPartition is one partition of a [FetchRequestTopic].
type FetchRequestPartition struct {
	Partition          int32
	CurrentLeaderEpoch int32 // v9; -1 when not known
	FetchOffset        int64
	LastFetchedEpoch   int32 // v12; -1 when not known
	LogStartOffset     int64 // v5; -1 for a consumer
	PartitionMaxBytes  int32
	ReplicaDirectoryID UUID  // v17
	HighWatermark      int64 // v18; NoHighWatermark for a consumer
}

// NoHighWatermark is what a consumer, which has none, has in a fetch request.
const NoHighWatermark int64 = 1<<63 - 1

// ForgottenTopic names partitions to take out of a fetch session.
type ForgottenTopic struct {
	Topic      string // v7 to v12
	TopicID    UUID   // v13
	Partitions []int32
}

// FetchResponse is the answer to [FetchRequest].
type FetchResponse struct {
	ThrottleTimeMs int32
	ErrorCode      ErrorCode // v7
	SessionID      int32     // v7; 0 when there is no session
	Topics         []FetchResponseTopic
	NodeEndpoints  []NodeEndpoint // v16
}

// FetchResponseTopic is one topic of a [FetchResponse].
type FetchResponseTopic struct {
	Topic      string // to v12
	TopicID    UUID   // v13
	Partitions []FetchResponsePartition
}

// FetchResponsePartition is one partition of a [FetchResponseTopic].
type FetchResponsePartition struct {
	PartitionIndex       int32
	ErrorCode            ErrorCode
	HighWatermark        int64
	LastStableOffset     int64                // -1 when not known
	LogStartOffset       int64                // v5; -1 when not known
	DivergingEpoch       EpochEndOffset       // v12; NoEpochEndOffset when absent
	CurrentLeader        LeaderIDAndEpoch     // v12; NoLeader when absent
	SnapshotID           EpochEndOffset       // v12; NoEpochEndOffset when absent
	AbortedTransactions  []AbortedTransaction // nil is a null on the wire
	PreferredReadReplica int32                // v11; -1 when there is none
	Records              []byte               // whole batches, the last one perhaps cut; nil is a null on the wire; aliases the decoded bytes
}

// EpochEndOffset is a leader epoch and the offset at which it ended.
type EpochEndOffset struct {
	Epoch     int32
	EndOffset int64
}

// NoEpochEndOffset is what stands in place of one that was not given.
var NoEpochEndOffset = EpochEndOffset{Epoch: -1, EndOffset: -1}

// AbortedTransaction tells a consumer from where on to skip the records of a producer.
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset int64
}
