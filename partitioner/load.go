package partitioner

import "slices"

// Load is how the partitions of a topic should be favoured, from the lengths of their queues. It does not change
// once it is made.
type Load struct {
	partitions []int32
	// cumulative[i] is the sum of the weights up to partitions[i], so it rises strictly. A partition's
	// weight is the longest queue + 1 - its own queue: everybody gets something.
	cumulative []int
}

// NewLoad makes a Load of partitions that should be chosen from, queues[i] being the number of batches
// that wait for partitions[i]. Leave out partitions without a leader, and those whose node has not taken
// anything for longer than the availability time-out. count is the number of all partitions of
// the topic. Both slices are copied.
//
// The result is nil, which means to choose uniformly, when weights would change nothing: no partition to choose
// from, a topic of one partition, or equal queues with nothing left out.
func NewLoad(partitions []int32, queues []int, count int) *Load {
	if len(partitions) == 0 || count < 2 {
		return nil
	}
	queues = queues[:len(partitions)]
	longest := slices.Max(queues)
	if len(partitions) >= count && slices.Min(queues) == longest {
		return nil
	}
	l := &Load{partitions: slices.Clone(partitions), cumulative: make([]int, len(queues))}
	sum := 0
	for i, q := range queues {
		sum += longest + 1 - q
		l.cumulative[i] = sum
	}
	return l
}

// choose returns the index of a partition, drawn by weight.
func (l *Load) choose(rand func(n int) int) int {
	drawn := rand(l.cumulative[len(l.cumulative)-1])
	i, found := slices.BinarySearch(l.cumulative, drawn)
	if found { // the first sum above drawn is meant
		i++
	}
	return i
}
