package partitioner

// Any is what a Partitioner returns to leave the choice to the accumulator, which then sticks to
// one partition until a batch is full (KIP-794).
const Any int32 = -1

// Partitions is what a Partitioner may know of a topic.
type Partitions interface {
	// Count is the number of partitions, those without a leader included.
	Count() int
	// Available lists the partitions that have a leader. It must not be changed.
	Available() []int32
}

// Partitioner chooses a record's partition (Java's org.apache.kafka.clients.producer.Partitioner).
// It is called from many goroutines at once, and only for records that name no partition.
// key and value are the serialized ones, nil where the record has none; they must not be kept or changed.
// A result that is neither Any nor in [0, Count()) fails the record.
type Partitioner interface {
	Partition(topic string, key, value []byte, p Partitions) int32
}
