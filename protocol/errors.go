package protocol

import (
	"strconv"
	"strings"
)

// ErrorCode is a broker's verdict as it stands in responses. It is an error: compare it with
// errors.Is, or take it out of a wrapped error with errors.As. Codes that this package does not know
// keep their number and are not retriable.
//
// [None] is a code too, so a code that may be None becomes an error by [ErrorCode.Err], not by
// assignment.
type ErrorCode int16

// The codes of Kafka 4.4, under Kafka's names.
const (
	UnknownServerError                     ErrorCode = -1
	None                                   ErrorCode = 0
	OffsetOutOfRange                       ErrorCode = 1
	CorruptMessage                         ErrorCode = 2
	UnknownTopicOrPartition                ErrorCode = 3
	InvalidFetchSize                       ErrorCode = 4
	LeaderNotAvailable                     ErrorCode = 5
	NotLeaderOrFollower                    ErrorCode = 6
	RequestTimedOut                        ErrorCode = 7
	BrokerNotAvailable                     ErrorCode = 8
	ReplicaNotAvailable                    ErrorCode = 9
	MessageTooLarge                        ErrorCode = 10
	StaleControllerEpoch                   ErrorCode = 11
	OffsetMetadataTooLarge                 ErrorCode = 12
	NetworkException                       ErrorCode = 13
	CoordinatorLoadInProgress              ErrorCode = 14
	CoordinatorNotAvailable                ErrorCode = 15
	NotCoordinator                         ErrorCode = 16
	InvalidTopicException                  ErrorCode = 17
	RecordListTooLarge                     ErrorCode = 18
	NotEnoughReplicas                      ErrorCode = 19
	NotEnoughReplicasAfterAppend           ErrorCode = 20
	InvalidRequiredAcks                    ErrorCode = 21
	IllegalGeneration                      ErrorCode = 22
	InconsistentGroupProtocol              ErrorCode = 23
	InvalidGroupID                         ErrorCode = 24
	UnknownMemberID                        ErrorCode = 25
	InvalidSessionTimeout                  ErrorCode = 26
	RebalanceInProgress                    ErrorCode = 27
	InvalidCommitOffsetSize                ErrorCode = 28
	TopicAuthorizationFailed               ErrorCode = 29
	GroupAuthorizationFailed               ErrorCode = 30
	ClusterAuthorizationFailed             ErrorCode = 31
	InvalidTimestamp                       ErrorCode = 32
	UnsupportedSaslMechanism               ErrorCode = 33
	IllegalSaslState                       ErrorCode = 34
	UnsupportedVersion                     ErrorCode = 35
	TopicAlreadyExists                     ErrorCode = 36
	InvalidPartitions                      ErrorCode = 37
	InvalidReplicationFactor               ErrorCode = 38
	InvalidReplicaAssignment               ErrorCode = 39
	InvalidConfig                          ErrorCode = 40
	NotController                          ErrorCode = 41
	InvalidRequest                         ErrorCode = 42
	UnsupportedForMessageFormat            ErrorCode = 43
	PolicyViolation                        ErrorCode = 44
	OutOfOrderSequenceNumber               ErrorCode = 45
	DuplicateSequenceNumber                ErrorCode = 46
	InvalidProducerEpoch                   ErrorCode = 47
	InvalidTxnState                        ErrorCode = 48
	InvalidProducerIDMapping               ErrorCode = 49
	InvalidTransactionTimeout              ErrorCode = 50
	ConcurrentTransactions                 ErrorCode = 51
	TransactionCoordinatorFenced           ErrorCode = 52
	TransactionalIDAuthorizationFailed     ErrorCode = 53
	SecurityDisabled                       ErrorCode = 54
	OperationNotAttempted                  ErrorCode = 55
	KafkaStorageError                      ErrorCode = 56
	LogDirNotFound                         ErrorCode = 57
	SaslAuthenticationFailed               ErrorCode = 58
	UnknownProducerID                      ErrorCode = 59
	ReassignmentInProgress                 ErrorCode = 60
	DelegationTokenAuthDisabled            ErrorCode = 61
	DelegationTokenNotFound                ErrorCode = 62
	DelegationTokenOwnerMismatch           ErrorCode = 63
	DelegationTokenRequestNotAllowed       ErrorCode = 64
	DelegationTokenAuthorizationFailed     ErrorCode = 65
	DelegationTokenExpired                 ErrorCode = 66
	InvalidPrincipalType                   ErrorCode = 67
	NonEmptyGroup                          ErrorCode = 68
	GroupIDNotFound                        ErrorCode = 69
	FetchSessionIDNotFound                 ErrorCode = 70
	InvalidFetchSessionEpoch               ErrorCode = 71
	ListenerNotFound                       ErrorCode = 72
	TopicDeletionDisabled                  ErrorCode = 73
	FencedLeaderEpoch                      ErrorCode = 74
	UnknownLeaderEpoch                     ErrorCode = 75
	UnsupportedCompressionType             ErrorCode = 76
	StaleBrokerEpoch                       ErrorCode = 77
	OffsetNotAvailable                     ErrorCode = 78
	MemberIDRequired                       ErrorCode = 79
	PreferredLeaderNotAvailable            ErrorCode = 80
	GroupMaxSizeReached                    ErrorCode = 81
	FencedInstanceID                       ErrorCode = 82
	EligibleLeadersNotAvailable            ErrorCode = 83
	ElectionNotNeeded                      ErrorCode = 84
	NoReassignmentInProgress               ErrorCode = 85
	GroupSubscribedToTopic                 ErrorCode = 86
	InvalidRecord                          ErrorCode = 87
	UnstableOffsetCommit                   ErrorCode = 88
	ThrottlingQuotaExceeded                ErrorCode = 89
	ProducerFenced                         ErrorCode = 90
	ResourceNotFound                       ErrorCode = 91
	DuplicateResource                      ErrorCode = 92
	UnacceptableCredential                 ErrorCode = 93
	InconsistentVoterSet                   ErrorCode = 94
	InvalidUpdateVersion                   ErrorCode = 95
	FeatureUpdateFailed                    ErrorCode = 96
	PrincipalDeserializationFailure        ErrorCode = 97
	SnapshotNotFound                       ErrorCode = 98
	PositionOutOfRange                     ErrorCode = 99
	UnknownTopicID                         ErrorCode = 100
	DuplicateBrokerRegistration            ErrorCode = 101
	BrokerIDNotRegistered                  ErrorCode = 102
	InconsistentTopicID                    ErrorCode = 103
	InconsistentClusterID                  ErrorCode = 104
	TransactionalIDNotFound                ErrorCode = 105
	FetchSessionTopicIDError               ErrorCode = 106
	IneligibleReplica                      ErrorCode = 107
	NewLeaderElected                       ErrorCode = 108
	OffsetMovedToTieredStorage             ErrorCode = 109
	FencedMemberEpoch                      ErrorCode = 110
	UnreleasedInstanceID                   ErrorCode = 111
	UnsupportedAssignor                    ErrorCode = 112
	StaleMemberEpoch                       ErrorCode = 113
	MismatchedEndpointType                 ErrorCode = 114
	UnsupportedEndpointType                ErrorCode = 115
	UnknownControllerID                    ErrorCode = 116
	UnknownSubscriptionID                  ErrorCode = 117
	TelemetryTooLarge                      ErrorCode = 118
	InvalidRegistration                    ErrorCode = 119
	TransactionAbortable                   ErrorCode = 120
	InvalidRecordState                     ErrorCode = 121
	ShareSessionNotFound                   ErrorCode = 122
	InvalidShareSessionEpoch               ErrorCode = 123
	FencedStateEpoch                       ErrorCode = 124
	InvalidVoterKey                        ErrorCode = 125
	DuplicateVoter                         ErrorCode = 126
	VoterNotFound                          ErrorCode = 127
	InvalidRegularExpression               ErrorCode = 128
	RebootstrapRequired                    ErrorCode = 129
	StreamsInvalidTopology                 ErrorCode = 130
	StreamsInvalidTopologyEpoch            ErrorCode = 131
	StreamsTopologyFenced                  ErrorCode = 132
	ShareSessionLimitReached               ErrorCode = 133
	GroupDeletionFailed                    ErrorCode = 134
	StreamsTopologyDescriptionUpdateFailed ErrorCode = 135
	ControllerIDNotRegistered              ErrorCode = 136
)

// What a client may do about a code, beyond telling its user.
const (
	retriable       = 1 << iota // the same request may succeed later
	refreshMetadata             // the client's view of leaders, topics or ids is out of date
)

// errorTable holds what Kafka 4.4's Errors says, in the order of the codes; entry 0 is code -1.
// Flags follow the class of the exception that Java raises for the code: RetriableException,
// InvalidMetadataException.
var errorTable = [...]struct {
	name  string
	flags uint8
	text  string
}{
	{"UNKNOWN_SERVER_ERROR", 0, "The server experienced an unexpected error when processing the request."},
	{"NONE", 0, "NONE"},
	{"OFFSET_OUT_OF_RANGE", 0, "The requested offset is not within the range of offsets maintained by the server."},
	{"CORRUPT_MESSAGE", retriable, "This message has failed its CRC checksum, exceeds the valid size, has a null key for a compacted topic, or is otherwise corrupt."},
	{"UNKNOWN_TOPIC_OR_PARTITION", retriable | refreshMetadata, "This server does not host this topic-partition."},
	{"INVALID_FETCH_SIZE", 0, "The requested fetch size is invalid."},
	{"LEADER_NOT_AVAILABLE", retriable | refreshMetadata, "There is no leader for this topic-partition as we are in the middle of a leadership election."},
	{"NOT_LEADER_OR_FOLLOWER", retriable | refreshMetadata, "For requests intended only for the leader, this error indicates that the broker is not the current leader. For requests intended for any replica, this error indicates that the broker is not a replica of the topic partition."},
	{"REQUEST_TIMED_OUT", retriable, "The request timed out."},
	{"BROKER_NOT_AVAILABLE", 0, "The broker is not available."},
	{"REPLICA_NOT_AVAILABLE", retriable | refreshMetadata, "The replica is not available for the requested topic-partition. Produce/Fetch requests and other requests intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the broker is not a replica of the topic-partition."},
	{"MESSAGE_TOO_LARGE", 0, "The request included a message larger than the max message size the server will accept."},
	{"STALE_CONTROLLER_EPOCH", 0, "The controller moved to another broker."},
	{"OFFSET_METADATA_TOO_LARGE", 0, "The metadata field of the offset request was too large."},
	{"NETWORK_EXCEPTION", retriable | refreshMetadata, "The server disconnected before a response was received."},
	{"COORDINATOR_LOAD_IN_PROGRESS", retriable, "The coordinator is loading and hence can't process requests."},
	{"COORDINATOR_NOT_AVAILABLE", retriable, "The coordinator is not available."},
	{"NOT_COORDINATOR", retriable, "This is not the correct coordinator."},
	{"INVALID_TOPIC_EXCEPTION", 0, "The request attempted to perform an operation on an invalid topic."},
	{"RECORD_LIST_TOO_LARGE", 0, "The request included message batch larger than the configured segment size on the server."},
	{"NOT_ENOUGH_REPLICAS", retriable, "Messages are rejected since there are fewer in-sync replicas than required."},
	{"NOT_ENOUGH_REPLICAS_AFTER_APPEND", retriable, "Messages are written to the log, but to fewer in-sync replicas than required."},
	{"INVALID_REQUIRED_ACKS", 0, "Produce request specified an invalid value for required acks."},
	{"ILLEGAL_GENERATION", 0, "Specified group generation id is not valid."},
	{"INCONSISTENT_GROUP_PROTOCOL", 0, "The group member's supported protocols are incompatible with those of existing members or first group member tried to join with empty protocol type or empty protocol list."},
	{"INVALID_GROUP_ID", 0, "The group id is invalid."},
	{"UNKNOWN_MEMBER_ID", 0, "The coordinator is not aware of this member."},
	{"INVALID_SESSION_TIMEOUT", 0, "The session timeout is not within the range allowed by the broker (as configured by group.min.session.timeout.ms and group.max.session.timeout.ms)."},
	{"REBALANCE_IN_PROGRESS", 0, "The group is rebalancing, so a rejoin is needed."},
	{"INVALID_COMMIT_OFFSET_SIZE", 0, "The committing offset data size is not valid."},
	{"TOPIC_AUTHORIZATION_FAILED", 0, "Topic authorization failed."},
	{"GROUP_AUTHORIZATION_FAILED", 0, "Group authorization failed."},
	{"CLUSTER_AUTHORIZATION_FAILED", 0, "Cluster authorization failed."},
	{"INVALID_TIMESTAMP", 0, "The timestamp of the message is out of acceptable range."},
	{"UNSUPPORTED_SASL_MECHANISM", 0, "The broker does not support the requested SASL mechanism."},
	{"ILLEGAL_SASL_STATE", 0, "Request is not valid given the current SASL state."},
	{"UNSUPPORTED_VERSION", 0, "The version of API is not supported."},
	{"TOPIC_ALREADY_EXISTS", 0, "Topic with this name already exists."},
	{"INVALID_PARTITIONS", 0, "Number of partitions is below 1."},
	{"INVALID_REPLICATION_FACTOR", 0, "Replication factor is below 1 or larger than the number of available brokers."},
	{"INVALID_REPLICA_ASSIGNMENT", 0, "Replica assignment is invalid."},
	{"INVALID_CONFIG", 0, "Configuration is invalid."},
	{"NOT_CONTROLLER", retriable, "This is not the correct controller for this cluster."},
	{"INVALID_REQUEST", 0, "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details."},
	{"UNSUPPORTED_FOR_MESSAGE_FORMAT", 0, "The message format version on the broker does not support the request."},
	{"POLICY_VIOLATION", 0, "Request parameters do not satisfy the configured policy."},
	{"OUT_OF_ORDER_SEQUENCE_NUMBER", 0, "The broker received an out of order sequence number."},
	{"DUPLICATE_SEQUENCE_NUMBER", 0, "The broker received a duplicate sequence number."},
	{"INVALID_PRODUCER_EPOCH", 0, "Producer attempted to produce with an old epoch."},
	{"INVALID_TXN_STATE", 0, "The producer attempted a transactional operation in an invalid state."},
	{"INVALID_PRODUCER_ID_MAPPING", 0, "The producer attempted to use a producer id which is not currently assigned to its transactional id."},
	{"INVALID_TRANSACTION_TIMEOUT", 0, "The transaction timeout is larger than the maximum value allowed by the broker (as configured by transaction.max.timeout.ms)."},
	{"CONCURRENT_TRANSACTIONS", retriable, "The producer attempted to update a transaction while another concurrent operation on the same transaction was ongoing."},
	{"TRANSACTION_COORDINATOR_FENCED", 0, "Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current coordinator for a given producer."},
	{"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", 0, "Transactional Id authorization failed."},
	{"SECURITY_DISABLED", 0, "Security features are disabled."},
	{"OPERATION_NOT_ATTEMPTED", 0, "The broker did not attempt to execute this operation. This may happen for batched RPCs where some operations in the batch failed, causing the broker to respond without trying the rest."},
	{"KAFKA_STORAGE_ERROR", retriable | refreshMetadata, "Disk error when trying to access log file on the disk."},
	{"LOG_DIR_NOT_FOUND", 0, "The user-specified log directory is not found in the broker config."},
	{"SASL_AUTHENTICATION_FAILED", 0, "SASL Authentication failed."},
	{"UNKNOWN_PRODUCER_ID", 0, "This exception is raised by the broker if it could not locate the producer metadata associated with the producerId in question. This could happen if, for instance, the producer's records were deleted because their retention time had elapsed. Once the last records of the producerId are removed, the producer's metadata is removed from the broker, and future appends by the producer will return this exception."},
	{"REASSIGNMENT_IN_PROGRESS", 0, "A partition reassignment is in progress."},
	{"DELEGATION_TOKEN_AUTH_DISABLED", 0, "Delegation Token feature is not enabled."},
	{"DELEGATION_TOKEN_NOT_FOUND", 0, "Delegation Token is not found on server."},
	{"DELEGATION_TOKEN_OWNER_MISMATCH", 0, "Specified Principal is not valid Owner/Renewer."},
	{"DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", 0, "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token authenticated channels."},
	{"DELEGATION_TOKEN_AUTHORIZATION_FAILED", 0, "Delegation Token authorization failed."},
	{"DELEGATION_TOKEN_EXPIRED", 0, "Delegation Token is expired."},
	{"INVALID_PRINCIPAL_TYPE", 0, "Supplied principalType is not supported."},
	{"NON_EMPTY_GROUP", 0, "The group is not empty."},
	{"GROUP_ID_NOT_FOUND", 0, "The group id does not exist."},
	{"FETCH_SESSION_ID_NOT_FOUND", retriable, "The fetch session ID was not found."},
	{"INVALID_FETCH_SESSION_EPOCH", retriable, "The fetch session epoch is invalid."},
	{"LISTENER_NOT_FOUND", retriable | refreshMetadata, "There is no listener on the leader broker that matches the listener on which metadata request was processed."},
	{"TOPIC_DELETION_DISABLED", 0, "Topic deletion is disabled."},
	{"FENCED_LEADER_EPOCH", retriable | refreshMetadata, "The leader epoch in the request is older than the epoch on the broker."},
	{"UNKNOWN_LEADER_EPOCH", retriable, "The leader epoch in the request is newer than the epoch on the broker."},
	{"UNSUPPORTED_COMPRESSION_TYPE", 0, "The requesting client does not support the compression type of given partition."},
	{"STALE_BROKER_EPOCH", 0, "Broker epoch has changed."},
	{"OFFSET_NOT_AVAILABLE", retriable, "The leader high watermark has not caught up from a recent leader election so the offsets cannot be guaranteed to be monotonically increasing."},
	{"MEMBER_ID_REQUIRED", 0, "The group member needs to have a valid member id before actually entering a consumer group."},
	{"PREFERRED_LEADER_NOT_AVAILABLE", retriable | refreshMetadata, "The preferred leader was not available."},
	{"GROUP_MAX_SIZE_REACHED", 0, "The group has reached its maximum size."},
	{"FENCED_INSTANCE_ID", 0, "The broker rejected this static consumer since another consumer with the same group.instance.id has registered with a different member.id."},
	{"ELIGIBLE_LEADERS_NOT_AVAILABLE", retriable | refreshMetadata, "Eligible topic partition leaders are not available."},
	{"ELECTION_NOT_NEEDED", retriable | refreshMetadata, "Leader election not needed for topic partition."},
	{"NO_REASSIGNMENT_IN_PROGRESS", 0, "No partition reassignment is in progress."},
	{"GROUP_SUBSCRIBED_TO_TOPIC", 0, "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."},
	{"INVALID_RECORD", 0, "This record has failed the validation on broker and hence will be rejected."},
	{"UNSTABLE_OFFSET_COMMIT", retriable, "There are unstable offsets that need to be cleared."},
	{"THROTTLING_QUOTA_EXCEEDED", retriable, "The throttling quota has been exceeded."},
	{"PRODUCER_FENCED", 0, "There is a newer producer with the same transactionalId which fences the current one."},
	{"RESOURCE_NOT_FOUND", 0, "A request illegally referred to a resource that does not exist."},
	{"DUPLICATE_RESOURCE", 0, "A request illegally referred to the same resource twice."},
	{"UNACCEPTABLE_CREDENTIAL", 0, "Requested credential would not meet criteria for acceptability."},
	{"INCONSISTENT_VOTER_SET", 0, "Indicates that the either the sender or recipient of a voter-only request is not one of the expected voters."},
	{"INVALID_UPDATE_VERSION", 0, "The given update version was invalid."},
	{"FEATURE_UPDATE_FAILED", 0, "Unable to update finalized features due to an unexpected server error."},
	{"PRINCIPAL_DESERIALIZATION_FAILURE", 0, "Request principal deserialization failed during forwarding. This indicates an internal error on the broker cluster security setup."},
	{"SNAPSHOT_NOT_FOUND", 0, "Requested snapshot was not found."},
	{"POSITION_OUT_OF_RANGE", 0, "Requested position is not greater than or equal to zero, and less than the size of the snapshot."},
	{"UNKNOWN_TOPIC_ID", retriable | refreshMetadata, "This server does not host this topic ID."},
	{"DUPLICATE_BROKER_REGISTRATION", 0, "This broker ID is already in use."},
	{"BROKER_ID_NOT_REGISTERED", 0, "The given broker ID was not registered."},
	{"INCONSISTENT_TOPIC_ID", retriable | refreshMetadata, "The log's topic ID did not match the topic ID in the request."},
	{"INCONSISTENT_CLUSTER_ID", 0, "The clusterId in the request does not match that found on the server."},
	{"TRANSACTIONAL_ID_NOT_FOUND", 0, "The transactionalId could not be found."},
	{"FETCH_SESSION_TOPIC_ID_ERROR", retriable, "The fetch session encountered inconsistent topic ID usage."},
	{"INELIGIBLE_REPLICA", 0, "The new ISR contains at least one ineligible replica."},
	{"NEW_LEADER_ELECTED", 0, "The AlterPartition request successfully updated the partition state but the leader has changed."},
	{"OFFSET_MOVED_TO_TIERED_STORAGE", 0, "The requested offset is moved to tiered storage."},
	{"FENCED_MEMBER_EPOCH", 0, "The member epoch is fenced by the group coordinator. The member must abandon all its partitions and rejoin."},
	{"UNRELEASED_INSTANCE_ID", 0, "The instance ID is still used by another member in the consumer group. That member must leave first."},
	{"UNSUPPORTED_ASSIGNOR", 0, "The assignor or its version range is not supported by the consumer group."},
	{"STALE_MEMBER_EPOCH", 0, "The member epoch is stale. The member must retry after receiving its updated member epoch via the ConsumerGroupHeartbeat API."},
	{"MISMATCHED_ENDPOINT_TYPE", 0, "The request was sent to an endpoint of the wrong type."},
	{"UNSUPPORTED_ENDPOINT_TYPE", 0, "This endpoint type is not supported yet."},
	{"UNKNOWN_CONTROLLER_ID", 0, "This controller ID is not known."},
	{"UNKNOWN_SUBSCRIPTION_ID", 0, "Client sent a push telemetry request with an invalid or outdated subscription ID."},
	{"TELEMETRY_TOO_LARGE", 0, "Client sent a push telemetry request larger than the maximum size the broker will accept."},
	{"INVALID_REGISTRATION", 0, "The controller has considered the broker registration to be invalid."},
	{"TRANSACTION_ABORTABLE", 0, "The server encountered an error with the transaction. The client can abort the transaction to continue using this transactional ID."},
	{"INVALID_RECORD_STATE", 0, "The record state is invalid. The acknowledgement of delivery could not be completed."},
	{"SHARE_SESSION_NOT_FOUND", retriable, "The share session was not found."},
	{"INVALID_SHARE_SESSION_EPOCH", retriable, "The share session epoch is invalid."},
	{"FENCED_STATE_EPOCH", 0, "The coordinator rejected the request because the state epoch did not match."},
	{"INVALID_VOTER_KEY", 0, "The voter key doesn't match the receiving replica's key."},
	{"DUPLICATE_VOTER", 0, "The voter is already part of the set of voters."},
	{"VOTER_NOT_FOUND", 0, "The voter is not part of the set of voters."},
	{"INVALID_REGULAR_EXPRESSION", 0, "The regular expression is not valid."},
	{"REBOOTSTRAP_REQUIRED", 0, "Client metadata is stale. The client should rebootstrap to obtain new metadata."},
	{"STREAMS_INVALID_TOPOLOGY", 0, "The supplied topology is invalid."},
	{"STREAMS_INVALID_TOPOLOGY_EPOCH", 0, "The supplied topology epoch is invalid."},
	{"STREAMS_TOPOLOGY_FENCED", 0, "The supplied topology epoch is outdated."},
	{"SHARE_SESSION_LIMIT_REACHED", retriable, "The limit of share sessions has been reached."},
	{"GROUP_DELETION_FAILED", 0, "DeleteGroups could not complete; see the error message on the per-group result for details."},
	{"STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", 0, "The broker could not process the topology description update; see the error message for details."},
	{"CONTROLLER_ID_NOT_REGISTERED", 0, "The given controller ID was not registered."},
}

func (c ErrorCode) known() bool { return c >= -1 && int(c) < len(errorTable)-1 }

// Err is c as an error: nil for [None].
func (c ErrorCode) Err() error {
	if c == None {
		return nil
	}
	return c
}

// Error is the code's name, and Kafka's own text for it.
func (c ErrorCode) Error() string {
	if !c.known() {
		return "unknown broker error code " + strconv.Itoa(int(c))
	}
	return c.Name() + ": " + strings.TrimSuffix(errorTable[c+1].text, ".")
}

// Name is Kafka's name of the code, such as NOT_LEADER_OR_FOLLOWER, or UNKNOWN(n).
func (c ErrorCode) Name() string {
	if !c.known() {
		return "UNKNOWN(" + strconv.Itoa(int(c)) + ")"
	}
	return errorTable[c+1].name
}

// Retriable reports whether the same request may succeed when it is sent again.
func (c ErrorCode) Retriable() bool {
	return c.known() && errorTable[c+1].flags&retriable != 0
}

// InvalidatesMetadata reports whether the code says that the client's metadata is out of date, so that
// it must be fetched again before another attempt makes sense.
func (c ErrorCode) InvalidatesMetadata() bool {
	return c.known() && errorTable[c+1].flags&refreshMetadata != 0
}
