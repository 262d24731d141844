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

// LocalPartitions is a Partitions that also knows which leaders are near. Sticky asks for it when it moves
// to another partition, and prefers what it lists (KIP-1123, partitioner.rack.aware).
type LocalPartitions interface {
	Partitions
	// Local lists those of Available whose leader is in the client's rack; empty means that racks do not
	// matter now. It must not be changed.
	Local() []int32
}

// Partitioner chooses a record's partition (Java's org.apache.kafka.clients.producer.Partitioner).
// It is called from many goroutines at once, and only for records that name no partition.
// key and value are the serialized ones, nil where the record has none; they must not be kept or changed.
// A result that is neither Any nor in [0, Count()) fails the record.
type Partitioner interface {
	Partition(topic string, key, value []byte, p Partitions) int32
}

// Default is Java's built-in partitioner: a key, an empty one too, is hashed over all partitions, whether or not
// they have a leader at present; a record without a key (nil) goes to Any.
type Default struct {
	// IgnoreKeys sends records with a key to Any too (partitioner.ignore.keys).
	IgnoreKeys bool
}

// Partition implements Partitioner.
func (d Default) Partition(_ string, key, _ []byte, p Partitions) int32 {
	if key == nil || d.IgnoreKeys {
		return Any
	}
	n := p.Count()
	if n <= 0 {
		return 0 // out of range: fails the record
	}
	// Java's toPositive clears the sign bit, which is not the absolute value.
	return (Murmur2(key) & 0x7fffffff) % int32(n)
}
