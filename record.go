package producer

import (
	"fmt"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// Header is one record header: a key and a value. A nil Value is a null and differs from an empty
// one. Keys may repeat, and their order is kept.
type Header = protocol.Header

// TopicPartition names one partition of one topic.
type TopicPartition = protocol.TopicPartition

// Partition is a record's partition, or, as its zero value, the wish that the partitioner choose one.
type Partition struct {
	plusOne int32
}

// OnPartition is the partition p, which must not be negative. A topic that does not have it yet may be growing: Send
// waits for it as for metadata, at most MaxBlock.
func OnPartition(p int32) Partition {
	if p < 0 {
		return Partition{plusOne: -1}
	}
	return Partition{plusOne: p + 1}
}

// Number returns the partition; ok is false for the zero value.
func (p Partition) Number() (n int32, ok bool) { return p.plusOne - 1, p.plusOne > 0 }

// String is the number, or "any".
func (p Partition) String() string {
	if p.plusOne == 0 {
		return "any"
	}
	return fmt.Sprint(p.plusOne - 1)
}

// Record is what Send takes (Java's ProducerRecord). Key, value and headers are copied before Send returns.
type Record[K, V any] struct {
	Topic     string
	Partition Partition // zero: the partitioner chooses
	Key       K
	Value     V
	Headers   []Header
	Timestamp time.Time // zero: now; to the millisecond; not before 1970
}

// RecordMetadata is where a record went (Java's class of the same name): Topic, Partition, Offset, Timestamp, KeySize and ValueSize.
// Offset is -1 where it is unknown, which HasOffset tells.
type RecordMetadata = protocol.RecordMetadata

// PartitionInfo is what is known of a partition.
type PartitionInfo struct {
	Topic     string
	Partition int32
	Leader    int32 // broker id; -1 while there is none
	// LeaderEpoch grows with every change of the leader; -1 where brokers do not tell.
	LeaderEpoch int32
	// Replicas, InSync and Offline are broker ids.
	Replicas, InSync, Offline []int32
}
