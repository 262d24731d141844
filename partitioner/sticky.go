package partitioner

import "sync/atomic"

// StickyConfig is what NewSticky needs.
type StickyConfig struct {
	// Threshold is the number of bytes after which to move on to another partition. It must be positive.
	Threshold int
	// Adaptive makes SetLoad count (partitioner.adaptive.partitioning.enable).
	Adaptive bool
	// Rand returns a number in [0, n); it is called from many goroutines at once.
	Rand func(n int) int
}

// Choice is the partition that records without one currently go to. The pointer is the token: another
// choice of the same partition is another Choice.
type Choice struct {
	// Partition never changes.
	Partition int32

	bytes int // appended since the choice was made; guarded by the lock of Partition's deque
}

// Sticky chooses the partition of records that have neither partition nor key, and stays with it until
// enough bytes went there (KIP-794). One per topic.
type Sticky struct {
	cfg       StickyConfig
	current   atomic.Pointer[Choice]
	load      atomic.Pointer[Load]
	localLoad atomic.Pointer[Load]
}
