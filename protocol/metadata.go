package protocol

// MetadataRequest asks for brokers, and for topics with their partitions and leaders.
type MetadataRequest struct {
	// Topics to describe. From v1 on nil means all topics and an empty list means none;
	// v0 cannot say none: there both mean all.
	Topics                             []MetadataRequestTopic
	AllowAutoTopicCreation             bool // v4; earlier versions always allow it
	IncludeClusterAuthorizedOperations bool // v8 to v10
	IncludeTopicAuthorizedOperations   bool // v8
}

// MetadataRequestTopic names a topic by its name or, from v12 on, by its id with a nil name.
type MetadataRequestTopic struct {
	TopicID UUID    // v10
	Name    *string // nullable from v10 on
}

// AuthorizedOperationsUnknown stands where authorized operations were not asked for.
const AuthorizedOperationsUnknown int32 = -1 << 31

// MetadataResponse is the answer to [MetadataRequest].
type MetadataResponse struct {
	ThrottleTimeMs              int32 // v3
	Brokers                     []MetadataResponseBroker
	ClusterID                   *string // v2
	ControllerID                int32   // v1; -1 when there is none
	Topics                      []MetadataResponseTopic
	ClusterAuthorizedOperations int32     // v8 to v10; AuthorizedOperationsUnknown when not asked for
	ErrorCode                   ErrorCode // v13
}

// MetadataResponseBroker is one broker of the cluster.
type MetadataResponseBroker struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   *string // v1
}

// MetadataResponseTopic is one topic of a [MetadataResponse].
type MetadataResponseTopic struct {
	ErrorCode                 ErrorCode
	Name                      *string // nullable from v12 on
	TopicID                   UUID    // v10
	IsInternal                bool    // v1
	Partitions                []MetadataResponsePartition
	TopicAuthorizedOperations int32 // v8; AuthorizedOperationsUnknown when not asked for
}

// MetadataResponsePartition is one partition of a [MetadataResponseTopic].
type MetadataResponsePartition struct {
	ErrorCode       ErrorCode
	PartitionIndex  int32
	LeaderID        int32 // -1 when there is none
	LeaderEpoch     int32 // v7; -1 when not known
	ReplicaNodes    []int32
	IsrNodes        []int32
	OfflineReplicas []int32 // v5
}
