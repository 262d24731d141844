package protocol

import "errors"

// advice is what the operator of a producer, its cluster or its program can do about a code. Those that pass by themselves, or
// that only a bug of somebody's explains, have none.
var advice = map[ErrorCode]string{
	UnknownTopicOrPartition:            "create the topic, or let the brokers do it (auto.create.topics.enable)",
	UnknownTopicID:                     "the topic was deleted, or created anew: look who did",
	LeaderNotAvailable:                 "bring back a broker that holds a replica of the partition",
	NotLeaderOrFollower:                "look why the partition's leader changes all the time",
	MessageTooLarge:                    "put less into the record, or raise the topic's max.message.bytes",
	RecordListTooLarge:                 "put less into the record, or raise the topic's segment.bytes",
	InvalidTopicException:              "use a name of letters, digits, dot, underscore and hyphen, or the topic was refused by the cluster's rules",
	NotEnoughReplicas:                  "bring the partition's replicas back into sync (min.insync.replicas)",
	NotEnoughReplicasAfterAppend:       "bring the partition's replicas back into sync (min.insync.replicas)",
	KafkaStorageError:                  "look at the disks of the partition's leader",
	InvalidRequiredAcks:                "set Acks to AcksAll, AcksLeader or AcksNone",
	TopicAuthorizationFailed:           "give this client the right to WRITE to the topic",
	ClusterAuthorizationFailed:         "give this client IDEMPOTENT_WRITE on the cluster, or set DisableIdempotence",
	TransactionalIDAuthorizationFailed: "give this client the right to WRITE with its transactional id",
	InvalidTimestamp:                   "give the record a time that the topic accepts (message.timestamp.before.max.ms, message.timestamp.after.max.ms)",
	InvalidRecord:                      "change the record: a compacted topic needs a key, and others may have rules of their own",
	UnsupportedCompressionType:         "choose another Compression for this cluster",
	UnsupportedForMessageFormat:        "raise the topic's message.format.version, or leave out headers and set DisableIdempotence",
	UnsupportedVersion:                 "upgrade the brokers, or turn off what they do not know",
	PolicyViolation:                    "ask who runs the cluster for its policy",
	OutOfOrderSequenceNumber:           "look whether the partition lost records, as in an unclean election",
	UnknownProducerID:                  "read the topic before the record is sent anew: it may be there",
	ProducerFenced:                     "end one of the two producers that share a transactional id",
	RequestTimedOut:                    "look why replicas of the partition lag",
}

// Advice is what can be done about the code that is in err, in a few words; empty where there is none, or nothing to be said.
func Advice(err error) string {
	var code ErrorCode
	if !errors.As(err, &code) {
		return ""
	}
	return advice[code]
}
